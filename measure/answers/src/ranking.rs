//! By what rows are ordered in views that offer no choice.

use crate::tally::Tally;
use serde::Serialize;

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ranking {
    /// Samples.
    #[default]
    Count,
    /// The sum of their latencies, which are exposed ones: the time that the core stood still.
    Stall,
}

impl Ranking {
    /// The size of a group in this order.
    pub(crate) fn size(self, tally: &Tally) -> u64 {
        match self {
            Ranking::Count => tally.count,
            Ranking::Stall => tally.latency_sum,
        }
    }
}
