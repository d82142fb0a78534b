//! Transactions by weights that are adjusted in the run (clause 5.2.4.2's first technique).
//!
//! The clause lets the driver adjust each weight within 5 % of what it was at first. That is little: 4.2 % of
//! Delivery become 4.0 to 4.4 %. Feedback is useful only over all terminals together; from executed transactions it
//! would make a terminal's draws depend on the server's speed. So the feedback uses the plan: each terminal draws
//! its transaction k by the weights of round k, which follow from the draws of all terminals of the driver in
//! earlier rounds, executed yet or not. Any thread can compute them from the seed, at 5 ns per terminal and round.

use crate::random::{number_of, Part};
use crate::work::Kind;
use std::ops::Range;

/// Initial weights in thousandths of a percent, by [`Kind`]: the minimum shares of clause 5.2.3 (43 % payments, 4 %
/// of each of the last three) plus the margin with which any 28,000 consecutive transactions of 1,000 terminals
/// meet them with a probability above 99 %.
pub const WEIGHTS: [u32; 5] = [44_050, 43_350, 4_200, 4_200, 4_200];

/// Maximum relative change of a weight (clause 5.2.4.2).
const REACH: f64 = 0.05;

/// The draws of all terminals of a driver.
pub(super) struct Rounds {
    seed: u64,
    /// All terminals of the driver, of other threads too.
    names: Range<u64>,
    /// By round: the ranges of numbers of each kind, as exclusive upper ends. The last kind has the rest.
    ends: Vec<[u32; 4]>,
    /// Counts of draws in all rounds except the last one of `ends`.
    counts: [u64; 5],
}

impl Rounds {
    /// For the terminals of these names.
    pub fn of(seed: u64, names: Range<u64>) -> Rounds {
        Rounds { seed, names, ends: vec![ends(WEIGHTS.map(f64::from))], counts: [0; 5] }
    }

    /// A terminal's draw in a round, counted from 0.
    pub fn draw(&mut self, name: u64, round: u32) -> Kind {
        while self.ends.len() <= round as usize {
            self.count_last();
            let weights = self.adjusted();
            self.ends.push(ends(weights));
        }
        self.drawn(name, round)
    }

    fn drawn(&self, name: u64, round: u32) -> Kind {
        let number = (number_of(self.seed, Part::Card, name, round) >> 32) as u32;
        let ends = &self.ends[round as usize];
        Kind::ALL[ends.iter().take_while(|&&end| number >= end).count()]
    }

    fn count_last(&mut self) {
        let round = self.ends.len() as u32 - 1;
        for name in self.names.clone() {
            self.counts[self.drawn(name, round).index()] += 1;
        }
    }

    /// Weights with which the next round compensates all deficits, within their limits.
    fn adjusted(&self) -> [f64; 5] {
        let drawn = self.counts.iter().sum::<u64>() as f64;
        let terminals = (self.names.end - self.names.start) as f64;
        let all: f64 = WEIGHTS.iter().copied().map(f64::from).sum();
        Kind::ALL.map(|kind| {
            let first = f64::from(WEIGHTS[kind.index()]);
            let missing = drawn * first / all - self.counts[kind.index()] as f64;
            (first + missing / terminals * all).clamp(first * (1.0 - REACH), first * (1.0 + REACH))
        })
    }
}

/// Shares of all numbers of 32 bits.
fn ends(weights: [f64; 5]) -> [u32; 4] {
    let all: f64 = weights.iter().sum();
    let mut sum = 0.0;
    [0, 1, 2, 3].map(|kind| {
        sum += weights[kind];
        (sum / all * 32f64.exp2()) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights_of(ends: &[u32; 4]) -> [f64; 5] {
        let mut before = 0.0;
        let mut weights = [0.0; 5];
        for (weight, end) in
            weights.iter_mut().zip(ends.iter().map(|&end| f64::from(end)).chain([32f64.exp2()]))
        {
            *weight = (end - before) / 32f64.exp2();
            before = end;
        }
        weights
    }

    #[test]
    fn rounds_come_out_as_the_weights_say_and_weights_keep_within_their_reach() {
        assert_eq!(WEIGHTS.iter().sum::<u32>(), 100_000);
        let mut rounds = Rounds::of(1, 10..1010);
        let mut counts = [0u64; 5];
        // The last terminal first, and far ahead: the order of calls has no influence.
        let ahead = rounds.draw(1009, 199);
        for round in 0..200 {
            for name in 10..1010 {
                counts[rounds.draw(name, round).index()] += 1;
            }
        }
        assert_eq!(Rounds::of(1, 10..1010).draw(1009, 199), ahead);
        for kind in Kind::ALL {
            // Each round compensates earlier deficits: the error does not grow with the rounds. 60 is six
            // deviations of the observed one (10 counts, exponential), and less than one of 200,000 draws by fixed
            // weights.
            let error = counts[kind.index()] as f64 - 2.0 * f64::from(WEIGHTS[kind.index()]);
            assert!(error.abs() < 60.0, "{kind:?}: {error}");
        }
        let mut adjusted = 0;
        for ends in &rounds.ends {
            // The other weights change the sum by at most 5 %.
            let first = weights_of(&rounds.ends[0]);
            for (weight, first) in weights_of(ends).iter().zip(first) {
                let by = weight / first;
                assert!((0.95 / 1.05..=1.05 / 0.95).contains(&by), "{by}");
                adjusted += u32::from((by - 1.0).abs() > 0.01);
            }
        }
        assert!(adjusted > 100, "{adjusted}");
    }
}
