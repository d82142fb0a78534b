//! Sequential test of paired differences.
//!
//! The test is a bet on symmetry. If two contestants do not differ, and a coin decided which of them ran first, the
//! sign of their difference is a fair coin, whatever the noise, its tails and its drift: exchanging the names would
//! only have changed the sign. So a player who bets a share b of his capital on "the next difference is positive"
//! keeps his capital on average. He begins with 1; the probability that he ever reaches 40 is at most 1/40 (Ville
//! 1939). His capital is the evidence (an e-value) against "no difference", and may be checked after every pair.
//!
//! * The stake is `b * tanh(difference / scale)`, where the scale comes from the differences before this one: a large
//!   difference counts for more than a small one, and no single one for more than a factor of 1 + b or 1 - b.
//! * The best b is not known beforehand: five players bet [`BETS`], and the evidence is their mean.
//! * "The difference is at most t" is tested by differences less t; the thresholds that are not refuted are the interval.
//!
//! Invariants:
//! 1. `scales[i]` depends on `differences[..i]` only; 0 stands for "bet on the sign alone".
//! 2. Both vectors have the same length, and all their values are finite.
//! 3. [`Sequence::above`] falls and [`Sequence::below`] rises with the threshold, so that intervals have no holes.

use crate::median::middle;
use crate::Interval;
use serde::{Deserialize, Serialize};

/// The players' bets. The largest determines how soon a difference without noise is found: after seven pairs for a
/// two-sided 5 %, where six is the minimum possible. The smallest one finds differences of a sixth of the noise.
pub(crate) const BETS: [f64; 5] = [0.15, 0.35, 0.6, 0.8, 0.95];

/// Evidence that suffices for a preference if a mistake is cheap and is found later: three pairs that agree.
pub const LEANS: f64 = 4.0;

/// Number of differences from which the scale of the next one is estimated.
const FEWEST_FOR_SCALE: usize = 3;

/// Differences of pairs, in the order in which they were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sequence {
    differences: Vec<f64>,
    scales: Vec<f64>,
}

impl Sequence {
    /// Adds the difference of one more pair. A difference that is not finite is ignored.
    pub fn push(&mut self, difference: f64) {
        if difference.is_finite() {
            self.scales.push(scale(&self.differences));
            self.differences.push(difference);
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.differences.len()
    }

    /// True if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.differences.is_empty()
    }

    /// Drops all but the latest pairs.
    pub fn keep_latest(&mut self, latest: usize) {
        let kept = self.differences.split_off(self.len().saturating_sub(latest));
        *self = Sequence::default();
        kept.into_iter().for_each(|difference| self.push(difference));
    }

    /// The typical difference, by Hodges and Lehmann: the median of the means of all pairs of differences (and of
    /// each itself). As efficient as the mean for normal noise, and robust against a single outlier.
    pub fn estimate(&self) -> Option<f64> {
        let n = self.len();
        let mut means = Vec::with_capacity(n * (n + 1) / 2);
        for (at, one) in self.differences.iter().enumerate() {
            means.extend(self.differences[at..].iter().map(|other| (one + other) / 2.0));
        }
        means.sort_by(f64::total_cmp);
        middle(&means)
    }

    /// The evidence against "the difference is at most `threshold`": 20 refutes it at 5 %.
    ///
    /// ```
    /// let mut sequence = hardmeter_evidence::Sequence::default();
    /// (0..6).for_each(|_| sequence.push(0.1));
    /// assert!(sequence.above(0.0) > 20.0 && sequence.below(0.0) < 0.2);
    /// ```
    pub fn above(&self, threshold: f64) -> f64 {
        let signs = |difference: f64, scale: f64| {
            let beyond = difference - threshold;
            if scale > 0.0 {
                (beyond / scale).tanh()
            } else {
                sign(beyond)
            }
        };
        evidence(&self.differences.iter().zip(&self.scales).map(|(d, s)| signs(*d, *s)).collect::<Vec<_>>())
    }

    /// The evidence against "the difference is at least `threshold`".
    pub fn below(&self, threshold: f64) -> f64 {
        self.turned().above(-threshold)
    }

    fn turned(&self) -> Sequence {
        let differences = self.differences.iter().map(|difference| -difference).collect();
        Sequence { differences, scales: self.scales.clone() }
    }

    /// All differences that are not refuted at `level` (0.05: an interval of 95 %), half of it on each side. It
    /// holds at all times simultaneously: the probability that any of the intervals misses the true difference is
    /// at most `level`. With few pairs it is unbounded.
    pub fn interval(&self, level: f64) -> Interval {
        let enough = 2.0 / level;
        let turned = self.turned();
        Interval { low: lowest(self, enough), high: -lowest(&turned, enough) }
    }
}

/// The lower end of the interval: where the evidence against "at most this" falls below `enough`.
fn lowest(sequence: &Sequence, enough: f64) -> f64 {
    let smallest = sequence.differences.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = sequence.differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let reach = sequence.scales.iter().copied().fold(largest - smallest, f64::max).max(1e-9);
    // Far below all differences, all players win.
    let (mut refuted, mut held) = (smallest - 20.0 * reach, largest + 20.0 * reach);
    if sequence.is_empty() || sequence.above(refuted) < enough {
        return f64::NEG_INFINITY;
    }
    for _ in 0..60 {
        let between = (refuted + held) / 2.0;
        if sequence.above(between) >= enough {
            refuted = between;
        } else {
            held = between;
        }
    }
    refuted
}

/// The mean of the players' capitals after these outcomes, each from -1 (the whole bet is lost) to 1.
fn evidence(outcomes: &[f64]) -> f64 {
    BETS.iter().map(|bet| wealth(*bet, outcomes)).sum::<f64>() / BETS.len() as f64
}

/// The capital of a player who always bets this share; computed as a logarithm to avoid overflow.
fn wealth(bet: f64, outcomes: &[f64]) -> f64 {
    let (mut log, mut product) = (0.0, 1.0_f64);
    for outcome in outcomes {
        product *= 1.0 + bet * outcome;
        if !(1e-200..1e200).contains(&product) {
            log += product.ln();
            product = 1.0;
        }
    }
    (log + product.ln()).exp()
}

/// The sign; 0 for 0.
fn sign(value: f64) -> f64 {
    if value == 0.0 {
        0.0
    } else {
        value.signum()
    }
}

/// The spread of the differences so far around their median: 1.48 median distances, which equals the standard
/// deviation of normal ones; 0 if there are too few.
fn scale(differences: &[f64]) -> f64 {
    if differences.len() < FEWEST_FOR_SCALE {
        return 0.0;
    }
    let mut ordered = differences.to_vec();
    ordered.sort_by(f64::total_cmp);
    let centre = middle(&ordered).unwrap_or(0.0);
    ordered.iter_mut().for_each(|difference| *difference = (*difference - centre).abs());
    ordered.sort_by(f64::total_cmp);
    1.4826 * middle(&ordered).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Coin;

    fn of(differences: &[f64]) -> Sequence {
        let mut sequence = Sequence::default();
        differences.iter().for_each(|difference| sequence.push(*difference));
        sequence
    }

    /// Three in a row: (1.15^3 + 1.35^3 + 1.6^3 + 1.8^3 + 1.95^3) / 5 = (1.521 + 2.460 + 4.096 + 5.832 + 7.415) / 5.
    #[test]
    fn three_that_agree_by_hand() {
        let three = of(&[0.1, 0.2, 0.3]);
        assert!((three.above(0.0) - 4.265).abs() < 0.001, "{}", three.above(0.0));
        // All five lose: (0.85^3 + 0.65^3 + 0.4^3 + 0.2^3 + 0.05^3) / 5.
        assert!((three.below(0.0) - 0.1921).abs() < 0.0001, "{}", three.below(0.0));
        assert!(three.above(0.0) >= LEANS);
        // The middle one equals the threshold: it adds no evidence.
        let two_sided = (0.85 * 1.15 + 0.65 * 1.35 + 0.4 * 1.6 + 0.2 * 1.8 + 0.05 * 1.95) / 5.0;
        assert!((three.above(0.2) - two_sided).abs() < 1e-12);
    }

    #[test]
    fn seven_that_agree_refute_at_two_sided_five_per_cent() {
        let agreeing = |n: usize| of(&vec![0.5; n]).above(0.0);
        assert!(agreeing(6) < 40.0 && agreeing(7) >= 40.0, "{} {}", agreeing(6), agreeing(7));
        assert!(agreeing(5) < 20.0 && agreeing(6) >= 20.0);
        assert_eq!(of(&[0.5; 6]).interval(0.05), Interval::EVERYTHING);
        let seven = of(&[0.5; 7]).interval(0.05);
        assert!((seven.low - 0.5).abs() < 1e-6 && (seven.high - 0.5).abs() < 1e-6, "{seven:?}");
    }

    #[test]
    fn thousands_of_pairs_neither_overflow_nor_vanish() {
        assert_eq!(of(&[1.0; 3000]).above(0.0), f64::INFINITY);
        assert!(of(&[1.0; 3000]).below(0.0) < 1e-100);
    }

    /// 1,000 sequences of 60 differences from a Cauchy distribution around 1. A twentieth of them may be
    /// missed at some time.
    #[test]
    fn intervals_hold_the_true_difference_at_all_times() {
        let mut coin = Coin::new(5);
        let mut missed = 0;
        for _ in 0..1000 {
            let mut sequence = Sequence::default();
            let mut ever = false;
            for _ in 0..60 {
                sequence.push(1.0 + (std::f64::consts::PI * (coin.uniform() - 0.5)).tan());
                ever |= sequence.above(1.0) >= 40.0 || sequence.below(1.0) >= 40.0;
            }
            let interval = sequence.interval(0.05);
            assert_eq!(interval.contains(1.0), sequence.above(1.0) < 40.0 && sequence.below(1.0) < 40.0);
            missed += u32::from(ever);
        }
        assert!(missed <= 50, "{missed} of 1000");
    }

    #[test]
    fn the_estimate_is_not_moved_by_one_pair() {
        assert_eq!(of(&[1.0, 2.0, 3.0]).estimate(), Some(2.0));
        let estimate = of(&[1.0, 2.0, 3.0, 2.0, 1000.0]).estimate().unwrap();
        assert!((2.0..=3.0).contains(&estimate), "{estimate}");
        assert_eq!(Sequence::default().estimate(), None);
    }

    #[test]
    fn what_is_not_finite_is_left_out_and_old_pairs_can_be_forgotten() {
        let mut sequence = of(&[9.0, f64::NAN, f64::INFINITY, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(sequence.len(), 5);
        sequence.keep_latest(4);
        assert_eq!(sequence, of(&[1.0, 2.0, 3.0, 4.0]));
    }
}
