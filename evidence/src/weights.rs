//! Shares of a sum of weights, such as cycles of stall, with 95 % intervals.

use crate::share::wilson;
use crate::Interval;

/// The sum of the weights of samples, and the sum of their squares, which the error of a share depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weights {
    /// Sum of the weights.
    pub sum: u64,
    /// Sum of their squares.
    pub squares: f64,
}

impl Weights {
    /// Adds a sample's weight.
    pub fn add(&mut self, weight: u64) {
        self.sum = self.sum.saturating_add(weight);
        self.squares += weight as f64 * weight as f64;
    }

    /// Adds other samples.
    pub fn merge(&mut self, other: Weights) {
        self.sum = self.sum.saturating_add(other.sum);
        self.squares += other.squares;
    }
}

/// The share of `part` in the weights of all samples, `total`. The samples of `part` are among those of `total`.
///
/// ```
/// use hardmeter_evidence::{WeightedShare, Weights};
///
/// // 2 waits of 400 cycles among 100 of 10 cycles are 44 % of the stall: two samples say little about it.
/// let part = Weights { sum: 800, squares: 2.0 * 400.0 * 400.0 };
/// let total = Weights { sum: 1800, squares: part.squares + 100.0 * 10.0 * 10.0 };
/// let share = WeightedShare { part, total };
/// let interval = share.interval().expect("there are samples");
/// assert!((share.fraction() - 0.444).abs() < 0.001 && interval.low < 0.18 && interval.high > 0.74);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedShare {
    /// The weights of the part.
    pub part: Weights,
    /// The weights of all samples.
    pub total: Weights,
}

impl WeightedShare {
    /// The fraction; 0 without weights.
    pub fn fraction(self) -> f64 {
        match self.total.sum {
            0 => 0.0,
            total => self.part.sum as f64 / total as f64,
        }
    }

    /// The 95 % interval of the fraction; `None` without weights.
    ///
    /// The fraction is a ratio of two sums over the same samples; its variance is that of Taylor's linearisation
    /// (Cochran, Sampling Techniques, section 6.3). Wilson's interval is then taken for as many samples of equal
    /// weight as have this variance: it stays inside 0..1, and is wide if a few heavy samples dominate.
    pub fn interval(self) -> Option<Interval> {
        if self.total.sum == 0 {
            return None;
        }
        let (p, total) = (self.fraction(), self.total.sum as f64);
        let others = (self.total.squares - self.part.squares).max(0.0);
        let variance = ((1.0 - p).powi(2) * self.part.squares + p * p * others) / (total * total);
        let spread = p * (1.0 - p);
        let n = if variance > 0.0 && spread > 0.0 {
            spread / variance
        } else {
            total * total / self.total.squares
        };
        Some(wilson(p, n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coin, Share};

    fn weights(all: impl IntoIterator<Item = u64>) -> Weights {
        let mut sums = Weights::default();
        all.into_iter().for_each(|weight| sums.add(weight));
        sums
    }

    #[test]
    fn equal_weights_are_plain_shares() {
        for (count, total) in [(5, 14), (0, 10), (10, 10), (300, 1000)] {
            let plain = Share { count, total }.interval().unwrap();
            let of = |n: u64| weights(std::iter::repeat_n(70, n as usize));
            let share = WeightedShare { part: of(count), total: of(total) };
            let weighted = share.interval().unwrap();
            assert!((weighted.low - plain.low).abs() < 1e-9 && (weighted.high - plain.high).abs() < 1e-9);
            assert_eq!(share.fraction(), count as f64 / total as f64);
        }
        let nothing = Weights::default();
        assert_eq!(WeightedShare { part: nothing, total: nothing }.interval(), None);
    }

    /// 1,000 times 400 samples, a third of them of an object; latencies as of caches: 14, 50 and 300 cycles, the object's
    /// more often long. At least 92 % of the intervals hold the true share.
    #[test]
    fn the_interval_holds_the_truth() {
        let mut coin = Coin::new(7);
        // Means: 0.2 * 14 + 0.3 * 50 + 0.5 * 300 = 167.8 and 0.6 * 14 + 0.3 * 50 + 0.1 * 300 = 53.4.
        let truth = 167.8 / (167.8 + 2.0 * 53.4);
        let mut held = 0;
        for _ in 0..1000 {
            let (mut part, mut total) = (Weights::default(), Weights::default());
            for _ in 0..400 {
                let object = coin.uniform() < 1.0 / 3.0;
                let (short, long) = if object { (0.2, 0.5) } else { (0.6, 0.1) };
                let weight = match coin.uniform() {
                    draw if draw < short => 14,
                    draw if draw < 1.0 - long => 50,
                    _ => 300,
                };
                total.add(weight);
                if object {
                    part.add(weight);
                }
            }
            held += u32::from(WeightedShare { part, total }.interval().unwrap().contains(truth));
        }
        assert!((920..=980).contains(&held), "{held} of 1,000");
    }
}
