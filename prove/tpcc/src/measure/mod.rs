//! What was measured: a [`Recorder`] for each thread of the driver, which become one [`RunResult`].
//!
//! The recorder stands on the driver's hot path: no locks, no allocation per transaction. A result holds everything that
//! the report says, and results of several drivers add up without loss: histograms are kept as such.

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
    /// Which transaction.
    pub kind: Kind,
    /// When the terminal should have sent it.
    pub due: Micros,
    /// When the driver sent it into the monitor; behind `due` by the driver's own lag.
    pub entered: Micros,
    /// When a connection took it, for the last time if it was tried again.
    pub dispatched: Micros,
    /// When the terminal had its answer. The response time is counted from `due`.
    pub answered: Micros,
    /// Whether it was New-Order's 1 %: done and rolled back, which counts as done (clause 5.4.1).
    pub rolled_back: bool,
}
