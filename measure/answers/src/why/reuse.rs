//! Predicts the misses of other cache sizes: the miss-ratio curve of a measured reuse histogram.
//!
//! A use whose line was last used d other lines ago hits in a fully associative LRU cache of S lines exactly if d <
//! S (Mattson and others 1970). So the misses of size S are the first uses, and all uses of distance S or more.
//! Conflict misses are not included: compare sizes with each other, not with counted misses.

use hardmeter_samples::model::ByteCount;
use hardmeter_samples::sidecar::ReuseHistogram;
use serde::Serialize;

/// The effect of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SizeEffect {
    /// The size.
    pub size: ByteCount,
    /// Misses per use that reaches this level.
    pub miss_ratio: f64,
    /// Its standard error, treating the followed lines as a random sample with equal shares.
    pub standard_error: f64,
    /// Relative change of misses against the present size: -0.38 is 38 % fewer. `None` if there are none at
    /// present.
    pub change: Option<f64>,
}

/// Uses of one range of distances.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReuseDistance {
    /// Lower bound of the distance in lines, exclusive.
    pub above: u64,
    /// Upper bound of the distance in lines, inclusive.
    pub up_to: u64,
    /// Uses.
    pub uses: u64,
}

/// The curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissRatioCurve {
    /// Uses of followed lines that reached this level.
    pub uses: u64,
    /// First uses among them, by core: the number of followed lines.
    pub lines_followed: u64,
    /// One line in this number was followed.
    pub one_line_in: u32,
    /// The present size of the cache.
    pub now: ByteCount,
    /// From a quarter of it to sixteen times it.
    pub sizes: Vec<SizeEffect>,
    /// Uses by distance, in powers of two.
    pub distances: Vec<ReuseDistance>,
}

/// Sizes shown, in quarters of the present one.
const QUARTERS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

impl MissRatioCurve {
    /// The curve around a cache of `now` bytes; `None` if the histogram is empty.
    pub fn new(histogram: &ReuseHistogram, now: ByteCount, line_size: u32) -> Option<MissRatioCurve> {
        let uses =
            histogram.buckets.iter().fold(histogram.cold, |sum, bucket| sum.saturating_add(bucket.count));
        if uses == 0 || line_size == 0 || now.0 == 0 {
            return None;
        }
        let misses = |size: u64| misses_of(histogram, size / u64::from(line_size));
        let present = misses(now.0);
        let sizes = QUARTERS.map(|quarters| {
            let size = (now.0 / 4).saturating_mul(quarters);
            let ratio = misses(size) / uses as f64;
            SizeEffect {
                size: ByteCount(size),
                miss_ratio: ratio,
                standard_error: (ratio * (1.0 - ratio) / histogram.cold.max(1) as f64).max(0.0).sqrt(),
                change: (present > 0.0).then(|| misses(size) / present - 1.0),
            }
        });
        Some(MissRatioCurve {
            uses,
            lines_followed: histogram.cold,
            one_line_in: histogram.one_line_in,
            now,
            sizes: sizes.to_vec(),
            distances: in_powers_of_two(histogram),
        })
    }
}

/// Misses of a cache of `lines` lines. Within the bucket that contains the size, uses are taken as evenly spread.
fn misses_of(histogram: &ReuseHistogram, lines: u64) -> f64 {
    let mut misses = histogram.cold as f64;
    let mut below = 0u64; // first distance of the bucket
    for bucket in &histogram.buckets {
        let end = bucket.lines.saturating_add(1); // first distance after it
        let width = end.saturating_sub(below).max(1) as f64;
        let missing = end.saturating_sub(lines.max(below)) as f64;
        misses += bucket.count as f64 * (missing / width).clamp(0.0, 1.0);
        below = end;
    }
    misses
}

/// Buckets merged to powers of two, by their largest distance.
fn in_powers_of_two(histogram: &ReuseHistogram) -> Vec<ReuseDistance> {
    let mut merged: Vec<ReuseDistance> = Vec::new();
    for bucket in &histogram.buckets {
        let up_to = bucket.lines.max(1).checked_next_power_of_two().unwrap_or(u64::MAX);
        match merged.last_mut().filter(|last| last.up_to == up_to) {
            Some(last) => last.uses = last.uses.saturating_add(bucket.count),
            None => {
                let above = merged.last().map_or(0, |last| last.up_to);
                merged.push(ReuseDistance { above, up_to, uses: bucket.count });
            }
        }
    }
    let first = merged.iter().position(|row| row.uses > 0).unwrap_or(0);
    let last = merged.iter().rposition(|row| row.uses > 0).map_or(0, |last| last + 1);
    merged[first.min(last)..last].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::sidecar::ReuseBucket;

    fn histogram(cold: u64, buckets: &[(u64, u64)]) -> ReuseHistogram {
        let buckets =
            buckets.iter().map(|(lines, count)| ReuseBucket { lines: *lines, count: *count }).collect();
        ReuseHistogram { one_line_in: 64, cold, buckets }
    }

    /// 100 first uses, 300 uses at distances up to 3, 400 at 4 to 7, 200 at 8 to 15. A cache of 8 lines (512 bytes)
    /// misses 100 + 200; of 4 lines 100 + 400 + 200; of 16 lines only the first uses; of 6 lines also half of the
    /// middle bucket.
    #[test]
    fn a_curve_by_hand() {
        let histogram = histogram(100, &[(3, 300), (7, 400), (15, 200)]);
        assert_eq!(misses_of(&histogram, 8), 300.0);
        assert_eq!(misses_of(&histogram, 4), 700.0);
        assert_eq!(misses_of(&histogram, 6), 500.0);
        assert_eq!(misses_of(&histogram, 16), 100.0);
        assert_eq!(misses_of(&histogram, 0), 1000.0);
        let curve = MissRatioCurve::new(&histogram, ByteCount(512), 64).expect("uses");
        assert_eq!((curve.uses, curve.lines_followed), (1000, 100));
        let at =
            |size: u64| *curve.sizes.iter().find(|effect| effect.size == ByteCount(size)).expect("shown");
        assert_eq!(at(512).change, Some(0.0));
        assert_eq!(at(512).miss_ratio, 0.3);
        assert!((at(1024).change.expect("misses now") + 2.0 / 3.0).abs() < 1e-12, "300 become 100");
        assert!((at(256).change.expect("misses now") - 4.0 / 3.0).abs() < 1e-12, "300 become 700");
        assert!((at(512).standard_error - (0.3f64 * 0.7 / 100.0).sqrt()).abs() < 1e-12);
        assert_eq!(curve.sizes.len(), 7);
    }

    #[test]
    fn distances_are_shown_in_powers_of_two() {
        let curve =
            MissRatioCurve::new(&histogram(1, &[(1, 0), (3, 5), (4, 7), (6, 1), (8, 2)]), ByteCount(512), 64);
        let rows: Vec<_> =
            curve.expect("uses").distances.iter().map(|row| (row.above, row.up_to, row.uses)).collect();
        assert_eq!(rows, [(1, 4, 12), (4, 8, 3)]);
    }

    #[test]
    fn nothing_gives_no_curve_and_hostile_numbers_no_panic() {
        assert_eq!(MissRatioCurve::new(&histogram(0, &[]), ByteCount(512), 64), None);
        let hostile = histogram(u64::MAX, &[(u64::MAX, u64::MAX), (3, u64::MAX), (u64::MAX, 0)]);
        assert!(MissRatioCurve::new(&hostile, ByteCount(u64::MAX), 64).is_some());
    }
}
