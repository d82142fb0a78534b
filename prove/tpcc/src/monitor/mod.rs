//! The transaction monitor: many terminals' transactions over P database connections, and the loop that drives a
//! run.
//!
//! ```text
//!   Source --due--> queues (by policy, by affinity) --> free connections of a Backend --> completions
//!     ^                ^  deferred deliveries behind                                        |
//!     '---- answered --'----------------------- retried failures <--------------------------'
//! ```
//!
//! It implements the article's staging control (Kuroki et al. 2001): many units of work are dispatched to few
//! server processes, and no thread blocks while it has other work. Each thread of the driver runs its own loop and
//! shares nothing with the others.
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
//! # What is counted
//!
//! * Transactions *answered* within the interval belong to it. At its end terminals stop sending; the driver waits
//!   for outstanding work (at most 30 s) and completes deferred deliveries; neither counts.
//! * A delivery is answered when it is queued (clause 2.7.2.1): its response time ends there; its execution is in
//!   the result file and in the times of deferred deliveries. In [`crate::order::Mode::Closed`] and
//!   [`crate::order::Mode::Open`] clients do not pause, so the queue is never empty; there deliveries have
//!   priority, or they would never run.
//! * A failure is counted each time, and the response time of a retried transaction continues.
//! * A New-Order, Payment or Delivery whose connection was lost is not retried: it may have been committed. It
//!   counts as failed, as [`OUTCOME_UNKNOWN`].

pub mod auto;
mod connections;
mod logs;
mod patience;
mod queues;
mod retries;
mod run;
mod shared;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod worker;

pub use logs::Logs;
pub use patience::Patience;
pub use retries::{CONNECTION_LOST, OUTCOME_UNKNOWN};
pub use run::{drive_with, Sources};

use crate::backend::Backends;
use crate::error::TpccError;
use crate::measure::RunResult;
use crate::order::RunOrder;
use hardmeter_session::{Progress, Stop};

/// Runs the order and returns its result; the caller fills `environment`, `checkpoints`, `server` and `conditions`.
/// An interrupted run, or one whose server went away, has a result, too: see `ending`.
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
