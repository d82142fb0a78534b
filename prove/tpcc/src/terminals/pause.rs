//! Keying and think times (clause 5.2.5).
//!
//! With the deck's mix a terminal's cycle lasts 476 / 23 = 20.70 s plus the response time, so that a warehouse's
//! ten terminals send at most 12.60 New-Orders per minute. (12.86, the maximum of clause 4.2, results from 45 %
//! New-Orders in 20.99 s.)

use super::deck::DECK;
use crate::random::Stream;
use crate::time::Micros;
use crate::work::Kind;

/// Keying times in seconds, by [`Kind`]: constant (clause 5.2.5.7).
pub const KEYING_SECONDS: [u32; 5] = [18, 3, 2, 2, 2];
/// Means of think times in seconds, by [`Kind`]: negative exponential (clause 5.2.5.7).
pub const THINK_SECONDS: [u32; 5] = [12, 12, 10, 5, 5];
/// Maximum think time as a multiple of its mean (clause 5.2.5.4 allows truncation there).
pub const LONGEST_THINK: u32 = 10;

/// Keying and think times with a factor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    factor: f64,
}

impl Pauses {
    /// The specification's times, multiplied by a factor.
    pub fn new(factor: f64) -> Pauses {
        Pauses { factor: if factor.is_finite() { factor.max(0.0) } else { 1.0 } }
    }

    /// The keying time of a transaction.
    pub fn keying(self, kind: Kind) -> Micros {
        Micros::of_seconds(f64::from(KEYING_SECONDS[kind.index()]) * self.factor)
    }

    /// Draws the think time after a transaction.
    pub fn think(self, kind: Kind, stream: &mut Stream) -> Micros {
        let mean = f64::from(THINK_SECONDS[kind.index()]) * self.factor;
        Micros::of_seconds(mean * stream.exponential().min(f64::from(LONGEST_THINK)))
    }

    /// Average time from one transaction to the next, without the answer's time.
    pub fn mean_cycle(self) -> Micros {
        let cards: u32 = DECK.iter().sum();
        let of =
            |kind: Kind| DECK[kind.index()] * (KEYING_SECONDS[kind.index()] + THINK_SECONDS[kind.index()]);
        let seconds: u32 = Kind::ALL.into_iter().map(of).sum();
        Micros::of_seconds(f64::from(seconds) / f64::from(cards) * self.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Part;

    /// The p-value of a Kolmogorov-Smirnov distance, by the limit distribution with Stephens' correction.
    fn kolmogorov(distance: f64, count: f64) -> f64 {
        let scaled = (count.sqrt() + 0.12 + 0.11 / count.sqrt()) * distance;
        let term =
            |k: i32| f64::from(1 - 2 * ((k - 1) % 2)) * (-2.0 * f64::from(k * k) * scaled * scaled).exp();
        2.0 * (1..=100).map(term).sum::<f64>()
    }

    #[test]
    fn think_times_are_exponential_and_cut_off() {
        // Two values from tables of the distribution: 1.358 is 0.05, 1.628 is 0.01.
        assert!((kolmogorov(1.358e-4, 1e8) - 0.05).abs() < 1e-3);
        assert!((kolmogorov(1.628e-4, 1e8) - 0.01).abs() < 1e-3);
        for (seed, kind) in Kind::ALL.into_iter().enumerate() {
            let mut stream = Stream::of(seed as u64 + 1, Part::Item, 0);
            let mean = f64::from(THINK_SECONDS[kind.index()]);
            let mut times: Vec<f64> =
                (0..100_000).map(|_| Pauses::new(1.0).think(kind, &mut stream).as_seconds()).collect();
            times.sort_by(f64::total_cmp);
            let count = times.len() as f64;
            let distances = times.iter().enumerate().map(|(at, time)| {
                let theory = if *time < 10.0 * mean { 1.0 - (-time / mean).exp() } else { 1.0 };
                (theory - at as f64 / count).abs().max((theory - (at + 1) as f64 / count).abs())
            });
            // The jump at the cut-off is in both, up to e^-10 = 4.5e-5 before it.
            let p = kolmogorov(distances.fold(0.0, f64::max) - 4.6e-5, count);
            assert!(p > 0.01, "{kind:?}: {p}");
            assert!(times.iter().all(|&time| time <= 10.0 * mean));
            let average = times.iter().sum::<f64>() / count;
            // Four standard errors of the mean.
            assert!((average - mean).abs() < 4.0 * mean / count.sqrt(), "{kind:?}: {average}");
        }
    }

    #[test]
    fn a_factor_stretches_all_pauses() {
        assert_eq!(Pauses::new(1.0).keying(Kind::NewOrder), Micros::seconds(18));
        assert_eq!(Pauses::new(0.5).keying(Kind::Payment), Micros(1_500_000));
        assert_eq!(Pauses::new(0.0).keying(Kind::Payment), Micros::ZERO);
        // (10 * (18 + 12) + 10 * (3 + 12) + 12 + 7 + 7) / 23
        assert_eq!(Pauses::new(1.0).mean_cycle(), Micros(20_695_652));
        let think =
            |factor| Pauses::new(factor).think(Kind::Delivery, &mut Stream::of(1, Part::Item, 0)).0 as i64;
        assert!((think(2.0) - 2 * think(1.0)).abs() <= 1);
    }
}
