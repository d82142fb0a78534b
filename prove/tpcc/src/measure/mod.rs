//! Measurements: a [`Recorder`] for each thread of the driver; together they become one [`RunResult`].
//!
//! The recorder is on the driver's hot path: no locks, no allocation per transaction. A result holds all data of
//! the report, and results of several drivers add up exactly, since it keeps the histograms.

mod assemble;
pub mod files;
mod histogram;
mod recorder;
mod result;
mod sums;
#[cfg(test)]
pub(crate) mod testing;

pub use assemble::{interval, Run};
pub use histogram::Times;
pub use recorder::Recorder;
pub use result::{
    Checkpoint, Condition, Draws, DriverPart, Ending, Environment, Errors, KindResult, RunResult, Second,
    ServerCost, RESULT_VERSION,
};

pub use sums::{add_errors, add_series};

use crate::time::Micros;
use crate::work::Kind;

/// Times of one transaction, or of the interactive part of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The kind of the transaction.
    pub kind: Kind,
    /// The time at which the terminal should have sent it.
    pub due: Micros,
    /// When the driver passed it to the monitor; later than `due` by the driver's own lag.
    pub entered: Micros,
    /// The time at which a connection took it; the last time if it was retried.
    pub dispatched: Micros,
    /// The time at which the terminal had its answer. The response time is counted from `due`.
    pub answered: Micros,
    /// Whether it was New-Order's 1 %: done and rolled back, which counts as done (clause 5.4.1).
    pub rolled_back: bool,
}
