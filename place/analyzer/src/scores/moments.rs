//! The algebra of [`Moments`]: exact, so that a span of time is a difference; and what can be inferred from them.

use crate::model::{Estimate, Moments};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::sync::LazyLock;

impl Moments {
    /// One more value.
    pub fn push(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.m2 += delta * (value - self.mean);
    }

    /// The values of both (Chan, Golub, LeVeque 1979).
    pub fn add(&mut self, other: &Moments) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let delta = other.mean - self.mean;
        self.count += other.count;
        self.mean += delta * b / (a + b);
        self.m2 += other.m2 + delta * delta * a * b / (a + b);
    }

    /// The values that came since: the same sum, solved for its second part. Nothing if `earlier` is not part of this (a counter
    /// began anew, or bytes are foreign).
    pub fn since(&self, earlier: &Moments) -> Moments {
        if earlier.count == 0 {
            return *self;
        }
        if earlier.count >= self.count {
            return Moments::default();
        }
        let (all, a) = (self.count as f64, earlier.count as f64);
        let b = all - a;
        let mean = (self.mean * all - earlier.mean * a) / b;
        let delta = mean - earlier.mean;
        let m2 = self.m2 - earlier.m2 - delta * delta * a * b / all;
        if !mean.is_finite() || !m2.is_finite() {
            return Moments::default();
        }
        // Differences of large sums may come out a little below what is possible.
        Moments { count: self.count - earlier.count, mean, m2: m2.max(0.0) }
    }

    /// Of a single value, estimated from these; 0 of fewer than two.
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            (self.m2 / (self.count - 1) as f64).max(0.0)
        }
    }

    /// The mean with Student's 95 % interval; `None` of fewer than two values, which have none.
    pub fn estimate(&self) -> Option<Estimate> {
        if self.count < 2 || !self.mean.is_finite() || !self.m2.is_finite() {
            return None;
        }
        let error = (self.variance() / self.count as f64).sqrt();
        Some(around(self.mean, error, (self.count - 1) as f64, self.count))
    }
}

impl Estimate {
    /// The same in another unit.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { mean: self.mean * factor, low: self.low * factor, high: self.high * factor, n: self.n }
    }
}

fn around(mean: f64, error: f64, freedom: f64, n: u64) -> Estimate {
    let half = error * student(freedom);
    Estimate { mean, low: mean - half, high: mean + half, n }
}

/// The two-sided 95 % point of Student's distribution, by straight lines between points of [`STUDENT`]: at most 1e-4 of it too much. A
/// look at a hundred kinds asks for thousands, and the exact function takes a microsecond or two, or for ever with millions of degrees.
fn student(freedom: f64) -> f64 {
    let place = STUDENT_POINTS as f64 / freedom.max(1.0);
    let below = (place as usize).min(STUDENT_POINTS - 1);
    let (low, high) = (STUDENT[below], STUDENT[below + 1]);
    low + (high - low) * (place - below as f64)
}

const STUDENT_POINTS: usize = 1024;

/// The exact points for 1024 / i degrees of freedom, the first of the normal distribution: over 1 / freedom they bend least.
static STUDENT: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let exact = |freedom| {
        StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |student| student.inverse_cdf(0.975))
    };
    let finite = (1..=STUDENT_POINTS).map(|i| exact(STUDENT_POINTS as f64 / i as f64));
    std::iter::once(1.959_963_985).chain(finite).collect()
});

/// Mean of `a` minus mean of `b`, with Welch's interval: their variances need not be alike. `n` is the smaller count. `None` of
/// fewer than two values each.
pub fn difference(a: &Moments, b: &Moments) -> Option<Estimate> {
    let (error, freedom) = welch(a, b, 1.0)?;
    Some(around(a.mean - b.mean, error, freedom, a.count.min(b.count)))
}

/// Mean of `a` by mean of `b`, less 1: "so much longer". By the delta method, with Welch's degrees of freedom.
pub fn ratio(a: &Moments, b: &Moments) -> Option<Estimate> {
    if b.mean <= 0.0 {
        return None;
    }
    let quotient = a.mean / b.mean;
    let (error, freedom) = welch(a, b, quotient)?;
    Some(around(quotient - 1.0, error / b.mean, freedom, a.count.min(b.count)))
}

/// Standard error of `a - weight * b`, and its degrees of freedom (Welch-Satterthwaite).
fn welch(a: &Moments, b: &Moments, weight: f64) -> Option<(f64, f64)> {
    if a.count < 2 || b.count < 2 {
        return None;
    }
    let part_a = a.variance() / a.count as f64;
    let part_b = b.variance() / b.count as f64 * weight * weight;
    let sum = part_a + part_b;
    let freedom = if sum > 0.0 {
        let squares = part_a * part_a / (a.count - 1) as f64 + part_b * part_b / (b.count - 1) as f64;
        sum * sum / squares
    } else {
        (a.count + b.count - 2) as f64
    };
    (sum.is_finite() && freedom.is_finite()).then_some((sum.sqrt(), freedom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        for &value in values {
            moments.push(value);
        }
        moments
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-3 * expected.abs().max(1e-3), "{value} is not {expected}");
    }

    #[test]
    fn sums_and_differences_are_exact() {
        // 2 4 4 4 | 5 5 7 9: mean 5, squared differences 9 1 1 1 | 0 0 4 16 = 32.
        let (first, second) = (of(&[2.0, 4.0, 4.0, 4.0]), of(&[5.0, 5.0, 7.0, 9.0]));
        let mut all = first;
        all.add(&second);
        assert_eq!((all.count, all.mean, all.m2), (8, 5.0, 32.0));
        let later = all.since(&first);
        assert_eq!(later.count, 4);
        close(later.mean, 6.5);
        close(later.m2, 11.0);
        assert_eq!(all.since(&Moments::default()), all);
    }

    #[test]
    fn a_counter_that_began_anew_gives_nothing() {
        let few = of(&[1.0, 2.0]);
        let many = of(&[1.0, 2.0, 3.0]);
        assert_eq!(few.since(&many), Moments::default());
        assert_eq!(many.since(&many), Moments::default());
        let foreign = Moments { count: 9, mean: f64::NAN, m2: 1.0 };
        assert_eq!(foreign.since(&few), Moments::default());
        assert_eq!(foreign.estimate(), None);
    }

    #[test]
    fn students_interval_as_in_the_tables() {
        // Mean 5, variance 32/7, error 0.7559; t(7) = 2.3646: 5 +- 1.787.
        let mean = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).estimate().unwrap();
        close(mean.mean, 5.0);
        close(mean.low, 3.2126);
        close(mean.high, 6.7874);
        assert_eq!(mean.n, 8);
        assert_eq!(of(&[1.0]).estimate(), None);
    }

    /// The tables of textbooks have t(1) = 12.706, t(2) = 4.303, t(10) = 2.228, t(30) = 2.042, t(120) = 1.980; in between, and beyond
    /// the last point of ours, the library's own function.
    #[test]
    fn students_points_as_in_the_tables() {
        for (freedom, point) in [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (30.0, 2.042), (120.0, 1.980)] {
            assert!((student(freedom) - point).abs() < 0.0006, "{freedom}: {}", student(freedom));
        }
        for freedom in [1.0004, 1.37, 2.9, 7.77, 41.5, 333.3] {
            let exact = StudentsT::new(0.0, 1.0, freedom).unwrap().inverse_cdf(0.975);
            let ratio = student(freedom) / exact;
            assert!((0.999_99..1.000_1).contains(&ratio), "{freedom}: {} of {exact}", student(freedom));
        }
        assert!((student(1e9) - 1.959_964).abs() < 1e-6, "the normal distribution's");
        assert_eq!(student(0.3), student(1.0), "less than one value has no meaning");
    }

    /// Two samples of different spread: errors 4/4 = 1 and 1/4 -> sqrt(1.25) = 1.118; freedom 1.25^2 / (1/3 + 0.0625/3) = 4.412;
    /// t(4.412) = 2.677 by interpolation between t(4) = 2.776 and t(5) = 2.571.
    #[test]
    fn welchs_interval_by_hand() {
        let a = Moments { count: 4, mean: 10.0, m2: 12.0 };
        let b = Moments { count: 4, mean: 8.0, m2: 3.0 };
        let difference = difference(&a, &b).unwrap();
        close(difference.mean, 2.0);
        let half = difference.high - difference.mean;
        assert!((half - 1.118 * 2.677).abs() < 0.03, "{half}");
        assert!((difference.mean - difference.low - half).abs() < 1e-9);
    }

    #[test]
    fn a_ratio_without_noise_is_what_it_is() {
        let a = Moments { count: 10, mean: 150.0, m2: 0.0 };
        let b = Moments { count: 10, mean: 100.0, m2: 0.0 };
        let slower = ratio(&a, &b).unwrap();
        assert_eq!((slower.mean, slower.low, slower.high), (0.5, 0.5, 0.5));
        assert_eq!(ratio(&a, &Moments { count: 10, mean: 0.0, m2: 0.0 }), None);
        // Ten values each with variance 900: error of a sqrt(90), of 1.5 b sqrt(202.5): 17.10 / 100; freedom 15.7, t = 2.123.
        let noisy = |mean: f64| Moments { count: 10, mean, m2: 8100.0 };
        let slower = ratio(&noisy(150.0), &noisy(100.0)).unwrap();
        assert!((slower.high - 0.5 - 0.363).abs() < 0.005, "{slower:?}");
    }
}
