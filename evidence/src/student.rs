//! Means with Student's intervals, and differences of means with Welch's.

use crate::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::erfc;
use std::sync::LazyLock;

/// The number, mean and variance of independent values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Number of values.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// The variance of a single value, estimated from the values.
    pub variance: f64,
}

/// The difference of two means, or their ratio minus 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The difference.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The smaller of the two numbers of values.
    pub n: u64,
}

impl Sample {
    /// Sample statistics of values; the variance is 0 for fewer than two.
    pub fn of(values: &[f64]) -> Sample {
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n.max(1) as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Sample { n: n as u64, mean, variance: if n < 2 { 0.0 } else { squares / (n - 1) as f64 } }
    }

    /// The standard error of the mean.
    pub fn error(&self) -> f64 {
        (self.variance / self.n.max(1) as f64).sqrt()
    }

    /// Student's 95 % interval of the mean; `None` for fewer than two values.
    ///
    /// ```
    /// // Mean 5, variance 32/7, error 0.756, t(7) = 2.365: 5 +- 1.787.
    /// let interval = hardmeter_evidence::Sample::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).interval().unwrap();
    /// assert!((interval.low - 3.213).abs() < 0.001 && (interval.high - 6.787).abs() < 0.001);
    /// ```
    pub fn interval(&self) -> Option<Interval> {
        if self.n < 2 || !self.mean.is_finite() || !self.variance.is_finite() {
            return None;
        }
        Some(Interval::around(self.mean, self.error() * quantile_95((self.n - 1) as f64)))
    }

    /// This mean minus the other one, with Welch's interval, which allows unequal variances. `None` for fewer than
    /// two values each.
    pub fn less(&self, other: &Sample) -> Option<Difference> {
        let (error, freedom) = welch(self, other, 1.0)?;
        Some(Difference::of(self.mean - other.mean, error, freedom, self.n.min(other.n)))
    }

    /// This mean divided by the other one, minus 1, by the delta method with Welch's degrees of freedom. `None` for
    /// fewer than two values each, or if the other mean is not positive.
    pub fn by(&self, other: &Sample) -> Option<Difference> {
        if other.mean <= 0.0 {
            return None;
        }
        let quotient = self.mean / other.mean;
        let (error, freedom) = welch(self, other, quotient)?;
        Some(Difference::of(quotient - 1.0, error / other.mean, freedom, self.n.min(other.n)))
    }
}

impl Difference {
    fn of(value: f64, error: f64, freedom: f64, n: u64) -> Difference {
        Difference { value, interval: Interval::around(value, error * quantile_95(freedom)), n }
    }
}

/// The standard error of `a - weight * b`, and its degrees of freedom (Welch-Satterthwaite).
fn welch(a: &Sample, b: &Sample, weight: f64) -> Option<(f64, f64)> {
    if a.n < 2 || b.n < 2 {
        return None;
    }
    let part_a = a.variance / a.n as f64;
    let part_b = b.variance / b.n as f64 * weight * weight;
    let sum = part_a + part_b;
    let freedom = if sum > 0.0 {
        let squares = part_a * part_a / (a.n - 1) as f64 + part_b * part_b / (b.n - 1) as f64;
        sum * sum / squares
    } else {
        (a.n + b.n - 2) as f64
    };
    (sum.is_finite() && freedom.is_finite()).then_some((sum.sqrt(), freedom))
}

/// Beyond this number of degrees of freedom, Student's distribution is treated as normal.
const NORMAL: f64 = 1e5;

/// The probability of a value at least this large in Student's distribution, with either sign.
pub(crate) fn p_of_t(t: f64, freedom: f64) -> f64 {
    if freedom > NORMAL {
        return erfc(t.abs() / std::f64::consts::SQRT_2);
    }
    let student = StudentsT::new(0.0, 1.0, freedom.max(1.0));
    student.map_or(1.0, |student| (2.0 * student.cdf(-t.abs())).min(1.0))
}

/// The two-sided 95 % point of Student's distribution, by linear interpolation in a table, which is at most
/// 1e-4 too large. The analyzer needs thousands per second. The exact function takes a microsecond or two,
/// and does not return for millions of degrees of freedom.
pub fn quantile_95(freedom: f64) -> f64 {
    let place = POINTS as f64 / freedom.max(1.0);
    let below = (place as usize).min(POINTS - 1);
    let (low, high) = (TABLE[below], TABLE[below + 1]);
    low + (high - low) * (place - below as f64)
}

const POINTS: usize = 1024;

/// The exact points for 1024 / i degrees of freedom, the first one for the normal distribution: as a function
/// of 1 / freedom they are nearly linear.
static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let exact = |freedom| {
        StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
    };
    let finite = (1..=POINTS).map(|i| exact(POINTS as f64 / i as f64));
    std::iter::once(1.959_963_985).chain(finite).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3 * expected.abs().max(1e-3), "{value} is not {expected}");
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(Sample::of(&[1.0]).interval(), None);
        assert_eq!(Sample::of(&[]).interval(), None);
        assert_eq!(Sample { n: 9, mean: f64::NAN, variance: 1.0 }.interval(), None);
    }

    /// Textbooks list t(1) = 12.706, t(2) = 4.303, t(10) = 2.228, t(30) = 2.042, t(120) = 1.980. Other
    /// values, also beyond the last point of this table, are compared with the library's function.
    #[test]
    fn students_points_as_in_the_tables() {
        for (freedom, point) in [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)] {
            assert!((quantile_95(freedom) - point).abs() < 0.0006, "{freedom}: {}", quantile_95(freedom));
        }
        for freedom in [1.0004, 1.37, 2.9, 7.77, 41.5, 333.3] {
            let exact = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            let ratio = quantile_95(freedom) / exact;
            assert!((0.999_99..1.000_1).contains(&ratio), "{freedom}: {} of {exact}", quantile_95(freedom));
        }
        assert!((quantile_95(1e9) - 1.959_964).abs() < 1e-6, "the normal distribution's");
        assert_eq!(quantile_95(0.3), quantile_95(1.0), "less than one degree has no meaning");
    }

    /// Two samples of different spread: errors 4/4 = 1 and 1/4 -> sqrt(1.25) = 1.118; freedom 1.25^2 / (1/3 +
    /// 0.0625/3) = 4.412; t(4.412) = 2.677 by interpolation between t(4) = 2.776 and t(5) = 2.571.
    #[test]
    fn welchs_interval_by_hand() {
        let a = Sample { n: 4, mean: 10.0, variance: 4.0 };
        let b = Sample { n: 4, mean: 8.0, variance: 1.0 };
        let difference = a.less(&b).unwrap();
        close(difference.value, 2.0);
        let half = difference.interval.high - difference.value;
        assert!((half - 1.118 * 2.677).abs() < 0.03, "{half}");
        assert!((difference.value - difference.interval.low - half).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_without_noise_is_what_it_is() {
        let of = |mean, variance| Sample { n: 10, mean, variance };
        let slower = of(150.0, 0.0).by(&of(100.0, 0.0)).unwrap();
        assert_eq!((slower.value, slower.interval), (0.5, Interval { low: 0.5, high: 0.5 }));
        assert_eq!(of(150.0, 0.0).by(&of(0.0, 0.0)), None);
        // Ten values each with variance 900: error of a sqrt(90), of 1.5 b sqrt(202.5): 17.10 / 100; freedom 15.7,
        // t = 2.123.
        let slower = of(150.0, 900.0).by(&of(100.0, 900.0)).unwrap();
        assert!((slower.interval.high - 0.5 - 0.363).abs() < 0.005, "{slower:?}");
    }
}
