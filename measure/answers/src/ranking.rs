//! The order of rows in views without a choice of order.

use crate::tally::Tally;
use serde::Serialize;

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ranking {
    /// Samples.
    #[default]
    Count,
    /// The sum of exposed latencies: the time for which the core stalled.
    Stall,
}

impl Ranking {
    /// The size of a group in this order.
    pub(crate) fn size(self, tally: &Tally) -> u64 {
        match self {
            Ranking::Count => tally.count,
            Ranking::Stall => tally.latencies.sum,
        }
    }
}
