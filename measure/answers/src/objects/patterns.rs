//! How instructions came by the addresses that missed, counted by object.

use crate::why::PatternCount;
use hardmeter_samples::machine::LINE_SIZE;
use hardmeter_samples::model::{MissPattern, Sample};
use rustc_hash::FxHashMap;

/// The patterns of the misses on an object or a row; empty where they were not simulated.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    /// Samples by pattern and constant distance, 0 for none.
    counts: FxHashMap<(MissPattern, i64), u64>,
    /// The lowest and the highest line of these samples.
    lines: Option<(u64, u64)>,
}

impl Patterns {
    /// Counts one sample.
    pub(super) fn add(&mut self, sample: &Sample<'_>) {
        let Some(detail) = sample.simulated() else { return };
        if let Some(pattern) = detail.pattern {
            *self.counts.entry((pattern, detail.stride)).or_default() += 1;
            if let Some(address) = sample.address {
                let line = address.0 / u64::from(LINE_SIZE);
                self.reach((line, line));
            }
        }
    }

    /// Adds the counts of another row.
    pub(super) fn merge(&mut self, other: &Patterns) {
        for (kind, count) in &other.counts {
            *self.counts.entry(*kind).or_default() += count;
        }
        if let Some(lines) = other.lines {
            self.reach(lines);
        }
    }

    /// Extends the range of lines.
    fn reach(&mut self, (first, last): (u64, u64)) {
        let (lowest, highest) = self.lines.unwrap_or((first, last));
        self.lines = Some((lowest.min(first), highest.max(last)));
    }

    /// The most frequent pattern, with its most frequent distance. `None` if all misses were on one line: how an
    /// instruction came from other objects to this line is not a property of it.
    pub(super) fn most(&self) -> Option<PatternCount> {
        if self.lines.is_none_or(|(lowest, highest)| lowest == highest) {
            return None;
        }
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
    use hardmeter_samples::model::VirtualAddress;

    fn counted(misses: &[(u8, i64)]) -> Patterns {
        counted_at(misses, 64)
    }

    /// Counts misses, `spacing` bytes apart: pattern in the raw field, and a section with the distance.
    fn counted_at(misses: &[(u8, i64)], spacing: u64) -> Patterns {
        let mut patterns = Patterns::default();
        for (number, (pattern, stride)) in misses.iter().enumerate() {
            let mut raw = b"HMs1\x08\0\0".to_vec();
            raw.push(*pattern);
            raw.extend([0; 12]);
            raw.extend([5, 0, 8, 0, 0, 0, 0, 0]);
            raw.extend(stride.to_le_bytes());
            let mut sample = sample(0, 10, 0x400);
            sample.raw = Some(&raw);
            sample.address = Some(VirtualAddress(0x1000 + number as u64 * spacing));
            patterns.add(&sample);
        }
        patterns
    }

    #[test]
    fn a_line_has_no_pattern() {
        let misses = [(3, 4096), (3, 4096), (4, 0)];
        assert_eq!(counted_at(&misses, 8).most(), None);
        assert_eq!(counted_at(&misses, 64).most().map(|most| most.count), Some(2));
        let mut merged = counted_at(&misses, 0);
        merged.merge(&counted_at(&misses, 0));
        assert_eq!(merged.most(), None);
        merged.merge(&counted_at(&misses, 64));
        assert_eq!(merged.most().map(|most| most.count), Some(6));
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
