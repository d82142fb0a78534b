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

use crate::backend::Backends;
use crate::error::TpccError;
use crate::measure::RunResult;
use crate::order::RunOrder;
use hardmeter_session::{Progress, Stop};
use std::path::PathBuf;

/// Files that a run writes while it goes on, if they are wanted.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// Deferred deliveries: clause 2.7.2.2's result file, a line each.
    pub deliveries: Option<PathBuf>,
    /// Acknowledged New-Orders (clause 3.5.3's success file): a line each, written when the acknowledgment is read.
    pub successes: Option<PathBuf>,
}

/// Runs what was ordered and gives its result; `environment`, `checkpoints`, `server` and `conditions` are left empty, the
/// caller knows them better. A run that is interrupted, or whose server goes away, has a result too: `ending` tells.
pub fn drive(
    _order: &RunOrder,
    _backends: &dyn Backends,
    _logs: &Logs,
    _stop: &Stop,
    _progress: &dyn Progress,
) -> Result<RunResult, TpccError> {
    unimplemented!("monitor")
}
