//! Converts the simulator's buckets of reuse distances to the histogram of the side file.

use super::segment::{REUSE_BUCKETS, REUSE_ONE_LINE_IN};
use hardmeter_samples::sidecar::{ReuseBucket, ReuseHistogram};

/// `HM_REUSE_STEPS`: buckets per power of two.
const STEPS: u64 = 4;

/// The smallest distance of a bucket: `hm_reuse_least` of `segment.h`.
fn least(bucket: u64) -> u64 {
    match bucket < STEPS {
        true => bucket,
        false => (STEPS + bucket % STEPS) << (bucket / STEPS - 1),
    }
}

/// The histogram, without its empty buckets.
pub(super) fn histogram(cold: u64, buckets: &[u64; REUSE_BUCKETS]) -> ReuseHistogram {
    let bucket =
        |(index, count): (usize, &u64)| ReuseBucket { lines: least(index as u64 + 1) - 1, count: *count };
    ReuseHistogram {
        one_line_in: REUSE_ONE_LINE_IN,
        cold,
        buckets: buckets.iter().enumerate().filter(|(_, count)| **count > 0).map(bucket).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_the_next_begins() {
        // 0 1 2 3 4 5 6 7 8-9 10-11 12-13 14-15 16-19 ...
        let ends: Vec<u64> = (0..13).map(|bucket| least(bucket + 1) - 1).collect();
        assert_eq!(ends, [0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 19]);
        assert_eq!(least(REUSE_BUCKETS as u64), 1 << 29);
    }

    #[test]
    fn empty_buckets_are_left_out() {
        let mut buckets = [0; REUSE_BUCKETS];
        (buckets[0], buckets[8]) = (5, 7);
        let histogram = histogram(3, &buckets);
        assert_eq!((histogram.one_line_in, histogram.cold), (64, 3));
        assert_eq!(
            histogram.buckets,
            [ReuseBucket { lines: 0, count: 5 }, ReuseBucket { lines: 9, count: 7 }]
        );
    }
}
