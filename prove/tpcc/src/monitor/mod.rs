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
