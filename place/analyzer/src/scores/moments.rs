//! The algebra of [`Moments`], exact, so that a period is a difference; and the estimates derived from them.

use crate::model::{Estimate, Moments};
use hardmeter_evidence::{Difference, Sample};

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

    /// The values added since `earlier`: the same sum, solved for its second part. Empty if `earlier` is not part
    /// of this (a counter was reset, or the bytes are invalid).
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
        // Differences of large sums may come out slightly below zero.
        Moments { count: self.count - earlier.count, mean, m2: m2.max(0.0) }
    }

    /// The variance of a single value, estimated from these; 0 for fewer than two.
    pub fn variance(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            (self.m2 / (self.count - 1) as f64).max(0.0)
        }
    }

    /// The mean with Student's 95 % interval; `None` for fewer than two values.
    pub fn estimate(&self) -> Option<Estimate> {
        let interval = self.sample().interval().filter(|_| self.m2.is_finite())?;
        Some(Estimate { mean: self.mean, low: interval.low, high: interval.high, n: self.count })
    }

    fn sample(&self) -> Sample {
        Sample { n: self.count, mean: self.mean, variance: self.variance() }
    }
}

impl Estimate {
    /// The same in another unit.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { mean: self.mean * factor, low: self.low * factor, high: self.high * factor, n: self.n }
    }
}

impl From<Difference> for Estimate {
    fn from(difference: Difference) -> Estimate {
        let Difference { value, interval, n } = difference;
        Estimate { mean: value, low: interval.low, high: interval.high, n }
    }
}

/// Mean of `a` minus mean of `b`, with Welch's interval: their variances may differ. `n` is the smaller count.
/// `None` of fewer than two values each.
pub fn difference(a: &Moments, b: &Moments) -> Option<Estimate> {
    a.sample().less(&b.sample()).map(Estimate::from)
}

/// Mean of `a` divided by mean of `b`, minus 1. By the delta method, with Welch's degrees of freedom.
pub fn ratio(a: &Moments, b: &Moments) -> Option<Estimate> {
    a.sample().by(&b.sample()).map(Estimate::from)
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
