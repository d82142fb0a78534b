//! A trial: selects the contestant that runs next, and decides which one is better.
//!
//! ```text
//!                 next(), observe()               last block of the round
//!   new() ──> Running ────────────────> Running ──────────────────────────> judged ──┐
//!                ^                                                            │  │   │ all challengers have a verdict,
//!                └────────────────────── next round, new order ───────────────┘  │   │ or `most_rounds` are over
//!                                                                                v   v
//!                                                                               Ended
//! ```
//!
//! Blocks of a round are adjacent in time: they have the same neighbours, caches and drift, and only their
//! differences count. The order is random for each round; this alone makes the verdict valid for any noise
//! ([`Sequence`]). Several metrics give one verdict: their evidence is averaged, so that it is 5 % for all of
//! them together.
//!
//! Invariants:
//! 1. `order` is drawn when a round begins, before any of its blocks is measured.
//! 2. `seen` has the blocks of this round, in its order; it is never full: the last block closes the round.
//! 3. `gains[c - 1][m]` has one difference of challenger c and metric m for each round in which both had a
//!    value.
//! 4. A verdict is final, whatever is observed after it.

mod judge;
mod plan;
#[cfg(test)]
mod tests;

pub use judge::{Standing, StandingOfMetric};
pub use plan::{Design, Metric, Plan, Role, TrialError};

use crate::{Coin, Sequence, Verdict};
use serde::{Deserialize, Serialize};

/// A trial without I/O: the caller runs the blocks. It can be saved as JSON and restored between two blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    plan: Plan,
    coin: Coin,
    order: Vec<usize>,
    /// Logarithms of the values of this round's blocks; `None` if a block had no value.
    seen: Vec<Vec<Option<f64>>>,
    gains: Vec<Vec<Sequence>>,
    rounds: u32,
    unusable: u32,
    /// One per challenger, once it is reached.
    verdicts: Vec<Option<Verdict>>,
}

/// A measurement with its time within a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedSample {
    /// Seconds since the block began.
    pub at_seconds: f64,
    /// A value for each metric.
    pub values: Vec<f64>,
}

impl Trial {
    /// Begins a trial.
    ///
    /// # Errors
    /// [`TrialError::Plan`] if the plan cannot be carried out.
    pub fn new(plan: Plan) -> Result<Trial, TrialError> {
        plan.check()?;
        let challengers = plan.contestants - 1;
        let mut trial = Trial {
            coin: Coin::new(plan.seed),
            order: Vec::new(),
            seen: Vec::new(),
            gains: vec![vec![Sequence::default(); plan.metrics.len()]; challengers],
            rounds: 0,
            unusable: 0,
            verdicts: vec![None; challengers],
            plan,
        };
        trial.begin_round();
        Ok(trial)
    }

    /// The rules of this trial.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The contestant that runs next; `None` if the trial has ended.
    #[allow(clippy::should_implement_trait)] // No iterator: it stays at one contestant until that was observed.
    pub fn next(&self) -> Option<usize> {
        let undecided = self.verdicts.iter().any(Option::is_none);
        (undecided && self.rounds < self.plan.most_rounds).then(|| self.order[self.seen.len()])
    }

    /// The contestants of this round, in their order.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Number of complete rounds.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Number of rounds in which no comparison was possible.
    pub fn unusable(&self) -> u32 {
        self.unusable
    }

    /// Adds a block: a value for each metric. A value that is not a positive number means unknown.
    ///
    /// # Errors
    /// If it is not this contestant's turn, the number of values is wrong, or the trial has ended.
    pub fn observe(&mut self, contestant: usize, values: &[f64]) -> Result<(), TrialError> {
        let expected = self.next().ok_or(TrialError::Ended)?;
        if contestant != expected {
            return Err(TrialError::Turn { expected, observed: contestant });
        }
        if values.len() != self.plan.metrics.len() {
            return Err(TrialError::Values { expected: self.plan.metrics.len(), observed: values.len() });
        }
        let known = |value: &f64| (*value > 0.0 && value.is_finite()).then(|| value.ln());
        self.seen.push(values.iter().map(known).collect());
        if self.seen.len() == self.order.len() {
            let gains = self.gains_of_round();
            self.close_round(&gains);
        }
        Ok(())
    }

    /// Adds a block measured over time: uses the mean of the samples after its carry-over.
    ///
    /// # Errors
    /// As [`Trial::observe`], and if no sample lies after the carry-over.
    pub fn observe_samples(&mut self, contestant: usize, samples: &[TimedSample]) -> Result<(), TrialError> {
        let settled: Vec<_> =
            samples.iter().filter(|sample| sample.at_seconds >= self.plan.carry_over_seconds).collect();
        if settled.is_empty() {
            return Err(TrialError::CarryOver(self.plan.carry_over_seconds));
        }
        let metrics = self.plan.metrics.len();
        if let Some(odd) = settled.iter().find(|sample| sample.values.len() != metrics) {
            return Err(TrialError::Values { expected: metrics, observed: odd.values.len() });
        }
        let mean = |metric: usize| {
            settled.iter().map(|sample| sample.values[metric]).sum::<f64>() / settled.len() as f64
        };
        let values: Vec<f64> = (0..metrics).map(mean).collect();
        self.observe(contestant, &values)
    }

    /// For a caller that runs a whole round ([`Trial::order`]) and compares its blocks itself: for each challenger
    /// and metric the logarithm of the challenger's value divided by the baseline's; `None` if they are not
    /// comparable. Exchanging the two contestants must change only its sign.
    ///
    /// # Errors
    /// If the trial has ended, a block of this round was already observed, or the numbers of values are wrong.
    pub fn observe_round(&mut self, ratios: &[Vec<Option<f64>>]) -> Result<(), TrialError> {
        let expected = self.next().ok_or(TrialError::Ended)?;
        if !self.seen.is_empty() {
            return Err(TrialError::Turn { expected, observed: self.order[0] });
        }
        let metrics = self.plan.metrics.len();
        let observed = ratios.iter().map(Vec::len).find(|len| *len != metrics);
        if observed.is_some() || ratios.len() != self.verdicts.len() {
            return Err(TrialError::Values { expected: metrics, observed: observed.unwrap_or(0) });
        }
        let gain =
            |(ratio, metric): (&Option<f64>, &Metric)| ratio.map(|ratio| ratio * metric.direction.sign());
        let gains: Vec<Vec<_>> =
            ratios.iter().map(|row| row.iter().zip(&self.plan.metrics).map(gain).collect()).collect();
        self.close_round(&gains);
        Ok(())
    }

    /// The verdict on the first challenger.
    pub fn verdict(&self) -> Verdict {
        self.verdict_on(1)
    }

    /// The verdict on a challenger; for the baseline itself: same.
    pub fn verdict_on(&self, contestant: usize) -> Verdict {
        match contestant.checked_sub(1) {
            Some(challenger) => {
                self.verdicts.get(challenger).copied().flatten().unwrap_or(Verdict::Undecided)
            }
            None => Verdict::Same,
        }
    }

    fn begin_round(&mut self) {
        self.seen.clear();
        self.order = (0..self.plan.contestants).collect();
        self.coin.shuffle(&mut self.order);
        if self.plan.design == Design::Mirrored {
            self.order.extend_from_within(..);
            self.order[self.plan.contestants..].reverse();
        }
    }

    /// The gain over the baseline in this round, per challenger and metric.
    fn gains_of_round(&self) -> Vec<Vec<Option<f64>>> {
        let mean = |contestant: usize, metric: usize| -> Option<f64> {
            let blocks = self.order.iter().zip(&self.seen).filter(|(ran, _)| **ran == contestant);
            let values: Option<Vec<f64>> = blocks.map(|(_, values)| values[metric]).collect();
            values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
        };
        let gain = |challenger: usize, metric: usize| {
            let difference = mean(challenger, metric)? - mean(0, metric)?;
            Some(difference * self.plan.metrics[metric].direction.sign())
        };
        let metrics = self.plan.metrics.len();
        (1..self.plan.contestants).map(|one| (0..metrics).map(|metric| gain(one, metric)).collect()).collect()
    }

    fn close_round(&mut self, gains: &[Vec<Option<f64>>]) {
        self.rounds += 1;
        self.unusable += u32::from(gains.iter().flatten().all(Option::is_none));
        for (sequences, gains) in self.gains.iter_mut().zip(gains) {
            for (sequence, gain) in sequences.iter_mut().zip(gains) {
                gain.iter().for_each(|gain| sequence.push(*gain));
            }
        }
        for challenger in 0..self.verdicts.len() {
            if self.verdicts[challenger].is_none() {
                self.verdicts[challenger] = self.judge(challenger);
            }
        }
        self.begin_round();
    }
}
