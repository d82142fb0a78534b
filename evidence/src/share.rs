//! Shares of samples and counts of events: 95 % intervals.

use crate::Interval;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// The normal distribution's two-sided 95 % point.
const Z: f64 = 1.959_963_984_540_054;

/// `count` of `total` samples. Never shown without its total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Samples counted.
    pub count: u64,
    /// The total.
    pub total: u64,
}

impl Share {
    /// The fraction; 0 without samples.
    pub fn fraction(self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.count as f64 / self.total as f64
        }
    }

    /// The 95 % interval of the fraction by Wilson's score method, which stays inside 0..1 and is accurate for
    /// small counts, unlike the usual p ± 1.96 s. `None` without samples.
    pub fn interval(self) -> Option<Interval> {
        if self.total == 0 {
            return None;
        }
        Some(wilson(self.fraction(), self.total as f64))
    }
}

/// Wilson's 95 % interval of a fraction `p` of `n` samples.
pub(crate) fn wilson(p: f64, n: f64) -> Interval {
    let z2 = Z * Z;
    let centre = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut share = serializer.serialize_struct("Share", 4)?;
        share.serialize_field("count", &self.count)?;
        share.serialize_field("of", &self.total)?;
        share.serialize_field("fraction", &self.fraction())?;
        share.serialize_field("interval_95", &self.interval())?;
        share.end()
    }
}

/// The 95 % interval of the mean of a Poisson variable with observed `count`, by Byar's approximation (within 1 %
/// of the exact limits from a count of 1 on).
pub fn count_interval(count: u64) -> Interval {
    let cube = |x: f64| x * x * x;
    let n = count as f64;
    let low = if count == 0 { 0.0 } else { n * cube(1.0 - 1.0 / (9.0 * n) - Z / (3.0 * n.sqrt())) };
    let m = n + 1.0;
    let high = m * cube(1.0 - 1.0 / (9.0 * m) + Z / (3.0 * m.sqrt()));
    Interval { low: low.max(0.0), high }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() < tolerance, "{value} is not {expected}");
    }

    /// Wilson 1927, worked by hand for 5 of 14: centre (0.35714 + 3.8415/28) / (1 + 3.8415/14) = 0.38789,
    /// half width 1.95996 / 1.27439 * sqrt(0.016399 + 0.0049) = 0.22445.
    #[test]
    fn five_of_fourteen() {
        let interval = Share { count: 5, total: 14 }.interval().unwrap();
        close(interval.low, 0.16344, 1e-4);
        close(interval.high, 0.61234, 1e-4);
    }

    #[test]
    fn ends_stay_inside_zero_and_one() {
        let none = Share { count: 0, total: 10 }.interval().unwrap();
        assert_eq!(none.low, 0.0);
        close(none.high, 0.2775, 1e-3);
        let all = Share { count: 10, total: 10 }.interval().unwrap();
        close(all.low, 0.7225, 1e-3);
        close(all.high, 1.0, 1e-12);
        assert_eq!(Share { count: 0, total: 0 }.interval(), None);
        assert_eq!(Share { count: 0, total: 0 }.fraction(), 0.0);
    }

    /// Exact limits (Garwood) from tables of the Poisson distribution: 10 gives 4.795 .. 18.39, 100 gives 81.36 ..
    /// 121.63.
    #[test]
    fn poisson_limits_agree_with_the_tables() {
        close(count_interval(10).low, 4.795, 0.02);
        close(count_interval(10).high, 18.39, 0.02);
        close(count_interval(100).low, 81.36, 0.05);
        close(count_interval(100).high, 121.63, 0.05);
        assert_eq!(count_interval(0).low, 0.0);
        close(count_interval(0).high, 3.689, 0.03);
    }
}
