//! How instructions came by the addresses that missed, counted by object.

use crate::why::PatternCount;
use hardmeter_samples::model::{MissPattern, Sample};
use rustc_hash::FxHashMap;

/// The patterns of the misses on an object or a row; empty where they were not simulated.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// Samples by pattern and constant distance, 0 for none.
    counts: FxHashMap<(MissPattern, i64), u64>,
}

impl Patterns {
    /// Counts one sample.
    pub(super) fn add(&mut self, sample: &Sample<'_>) {
        let Some(detail) = sample.simulated() else { return };
        if let Some(pattern) = detail.pattern {
            *self.counts.entry((pattern, detail.stride)).or_default() += 1;
        }
    }

    /// Adds the counts of another row.
    pub(super) fn merge(&mut self, other: &Patterns) {
        for (kind, count) in &other.counts {
            *self.counts.entry(*kind).or_default() += count;
        }
    }

    /// The most frequent pattern, with its most frequent distance.
    pub(super) fn most(&self) -> Option<PatternCount> {
        let mut sums: FxHashMap<MissPattern, u64> = FxHashMap::default();
        for ((pattern, _), count) in &self.counts {
            *sums.entry(*pattern).or_default() += count;
        }
        let (count, pattern) = sums.into_iter().map(|(pattern, count)| (count, pattern)).max()?;
        let apart = self.counts.iter().filter(|((of, apart), _)| *of == pattern && *apart != 0);
        let stride = apart.map(|((_, apart), count)| (*count, *apart)).max();
        Some(PatternCount {
            pattern,
            count,
            stride: stride.map(|(count, apart)| (apart, count)),
            place: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    /// Counts misses: pattern in the raw field, and a section with the distance.
    fn counted(misses: &[(u8, i64)]) -> Patterns {
        let mut patterns = Patterns::default();
        for (pattern, stride) in misses {
            let mut raw = b"HMs1\x08\0\0".to_vec();
            raw.push(*pattern);
            raw.extend([0; 12]);
            raw.extend([5, 0, 8, 0, 0, 0, 0, 0]);
            raw.extend(stride.to_le_bytes());
            let mut sample = sample(0, 10, 0x400);
            sample.raw = Some(&raw);
            patterns.add(&sample);
        }
        patterns
    }

    #[test]
    fn the_most_frequent_pattern_has_its_most_frequent_distance() {
        assert_eq!(counted(&[]).most(), None);
        assert_eq!(counted(&[(0, 0)]).most(), None, "not simulated");
        let (chase, stride) = (1, 3);
        let mut patterns = counted(&[(stride, 4096), (stride, 64), (stride, 4096), (chase, 0)]);
        let most = patterns.most().expect("strides");
        assert_eq!((most.pattern, most.count, most.stride), (MissPattern::Stride, 3, Some((4096, 2))));
        patterns.merge(&counted(&[(chase, 0); 3]));
        let most = patterns.most().expect("a chase");
        assert_eq!((most.pattern, most.count, most.stride), (MissPattern::Chase, 4, None));
    }
}
