//! The transaction monitor: many terminals' transactions over P database connections, and the loop that drives a run.
//!
//! ```text
//!   Source --due--> queues (by policy, by affinity) --> free connections of a Backend --> completions
//!     ^                ^  deferred deliveries behind                                        |
//!     '---- answered --'----------------------- retried failures <--------------------------'
//! ```
//!
//! It is the article's staging control (Kuroki et al. 2001): many units of work are dispatched over few server processes, and no
//! thread blocks while other work can go on. One thread of the driver is one loop of it, and shares nothing with others.
//!
//! ```text
//! run          threads, the beginning, the edges of the interval, the result    [`drive`]
//! worker       the loop of a thread; runs in virtual time too, where it is tested
//! queues       who goes first; connections: which is free, when a lost one is tried again
//! retries      what becomes of a failure                                        [`OUTCOME_UNKNOWN`]
//! logs         the files of acknowledged New-Orders and of deferred deliveries
//! auto         how many connections: a rule, and a sweep                        [`auto::find`]
//! ```
//!
//! # What counts
//!
//! * What was *answered* within the interval belongs to it. At its end terminals stop sending; what is under way is waited
//!   for (30 s at most), and deferred deliveries still are done; neither counts.
//! * A delivery is answered when it is queued (clause 2.7.2.1): its response time ends there, and what becomes of it stands
//!   in the result file and among the times of deferred deliveries. In [`crate::order::Mode::Closed`] and
//!   [`crate::order::Mode::Open`] nobody pauses, so something always waits; there deliveries go before all others, or they
//!   would never be done.
//! * A failure is counted each time, and the response time of what is tried again runs on.
//! * A New-Order, Payment or Delivery whose connection was lost is not tried again: it may have been committed. It counts as
//!   failed, as [`OUTCOME_UNKNOWN`].

pub mod auto;
mod connections;
mod logs;
mod queues;
mod retries;
mod run;
mod shared;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod worker;

pub use retries::{CONNECTION_LOST, OUTCOME_UNKNOWN};
pub use run::{drive_with, Sources};

use crate::backend::Backends;
use crate::error::TpccError;
use crate::measure::RunResult;
use crate::order::RunOrder;
use crate::time::Micros;
use hardmeter_session::{Progress, Stop};
use std::path::PathBuf;

/// Files that a run writes while it goes on, if they are wanted. What stood in them before is gone.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Deferred deliveries: clause 2.7.2.2's result file, a line each: when it was queued, W_ID, O_CARRIER_ID, for each
    /// district O_ID or `skipped`, when it was completed. A delivery that was given up has `failed:CODE` instead.
    pub deliveries: Option<PathBuf>,
    /// Acknowledged New-Orders (clause 3.5.3's success file): a line each, written when the acknowledgment is read.
    pub successes: Option<PathBuf>,
}

/// How long a run waits for what does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Without any connection, or with nothing but failures, before the run is given up.
    pub without_success: Micros,
    /// At the end of the interval, for what is under way.
    pub winding_up: Micros,
}

impl Default for Patience {
    /// Half a minute each.
    fn default() -> Patience {
        Patience { without_success: Micros::seconds(30), winding_up: Micros::seconds(30) }
    }
}

/// Runs the order and returns its result; the caller fills `environment`, `checkpoints`, `server` and
/// `conditions`. A run that is interrupted, or whose server goes away, has a result too, as `ending` says.
///
/// There are no more threads than connections; the order in the result has their number.
///
/// # Errors
///
/// [`TpccError`] if the order contradicts itself, a connection cannot be opened, or a log cannot be created.
pub fn drive(
    order: &RunOrder,
    backends: &dyn Backends,
    logs: &Logs,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<RunResult, TpccError> {
    drive_with(order, backends, &crate::terminals::source, logs, Patience::default(), stop, progress)
}
