//! The contestants, metrics and rules of a trial.

use crate::Direction;
use serde::{Deserialize, Serialize};

/// The contestants, metrics and rules of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Number of contestants. Number 0 is the baseline, all others are challengers.
    pub contestants: usize,
    /// The metrics of each block.
    pub metrics: Vec<Metric>,
    /// The order in which the contestants run.
    #[serde(default)]
    pub design: Design,
    /// The probability of a wrong verdict, over all metrics, challengers and rounds together.
    #[serde(default = "level")]
    pub level: f64,
    /// Number of rounds after which a trial ends without a verdict.
    #[serde(default = "most_rounds")]
    pub most_rounds: u32,
    /// Seconds at the beginning of each block that are ignored: the previous contestant's data are still in the
    /// caches, and its transactions in progress.
    #[serde(default)]
    pub carry_over_seconds: f64,
    /// Decides the order of the blocks.
    pub seed: u64,
}

/// In which order the contestants of a round run. A round has one difference for each challenger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// Each contestant once, in random order: AB or BA. This gives the most rounds per time.
    Pairs,
    /// In random order and back: ABBA or BAAB. A linear drift cancels.
    #[default]
    Mirrored,
}

/// A measured quantity of each block; a positive number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its display name.
    pub name: String,
    /// The direction in which it is better.
    pub direction: Direction,
    /// The minimum relevant relative change: 0.02 is 2 %.
    pub minimum_effect: f64,
    /// Its role in the decision.
    #[serde(default)]
    pub role: Role,
}

/// The role of a metric in the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A challenger may be better or worse by it.
    #[default]
    Decides,
    /// A challenger may be worse by it, never better.
    Guards,
}

/// Errors of a trial.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrialError {
    /// The plan is invalid.
    #[error("a trial needs {0}")]
    Plan(&'static str),
    /// A block of a contestant that was not next.
    #[error("contestant {observed} was observed, but it is the turn of {expected}")]
    Turn {
        /// The contestant that is next.
        expected: usize,
        /// The contestant that was observed.
        observed: usize,
    },
    /// The number of values differs from the number of metrics.
    #[error("{observed} values were observed, but the trial has {expected} metrics")]
    Values {
        /// The number of metrics.
        expected: usize,
        /// The number of values.
        observed: usize,
    },
    /// All samples of a block lie within its carry-over.
    #[error("no sample lies behind the first {0} s of the block, which are left out")]
    CarryOver(f64),
    /// The trial is over.
    #[error("the trial has ended")]
    Ended,
}

fn level() -> f64 {
    0.05
}

fn most_rounds() -> u32 {
    64
}

impl Plan {
    /// A baseline and a challenger, ABBA, at 5 %, with at most 64 rounds.
    pub fn of_two(metrics: Vec<Metric>, seed: u64) -> Plan {
        Plan {
            contestants: 2,
            metrics,
            design: Design::Mirrored,
            level: level(),
            most_rounds: most_rounds(),
            carry_over_seconds: 0.0,
            seed,
        }
    }

    /// # Errors
    /// If there are fewer than two contestants or no metric that decides, or a number is out of range.
    pub(super) fn check(&self) -> Result<(), TrialError> {
        if self.contestants < 2 {
            return Err(TrialError::Plan("two contestants or more"));
        }
        if !self.metrics.iter().any(|metric| metric.role == Role::Decides) {
            return Err(TrialError::Plan("a metric that decides"));
        }
        if !self.metrics.iter().all(|metric| metric.minimum_effect > 0.0 && metric.minimum_effect < 1.0) {
            return Err(TrialError::Plan("minimum effects between 0 and 1"));
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(TrialError::Plan("a level between 0 and 1"));
        }
        if !(self.carry_over_seconds >= 0.0 && self.carry_over_seconds.is_finite()) {
            return Err(TrialError::Plan("a carry-over of 0 s or more"));
        }
        Ok(())
    }
}

impl Metric {
    /// A metric that decides.
    pub fn new(name: &str, direction: Direction, minimum_effect: f64) -> Metric {
        Metric { name: name.into(), direction, minimum_effect, role: Role::Decides }
    }

    /// The minimum relevant gain, as a logarithm.
    pub(super) fn matters(&self) -> f64 {
        (1.0 + self.minimum_effect).ln()
    }
}
