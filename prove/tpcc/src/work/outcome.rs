//! The outcome of a piece of work.

use super::{ConnectionId, Work};
use crate::time::Micros;

/// How a transaction ended in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// New-Order was committed with this O_ID. The server had acknowledged the commit before this was created.
    Ordered {
        /// O_ID.
        order: u32,
    },
    /// New-Order had an unused item and was rolled back as intended (clause 2.4.2.3).
    RolledBack,
    /// Payment, Order-Status or Stock-Level was committed.
    Committed,
    /// Delivery was committed: O_ID of each district, 0 if it had no order (clause 2.7.4.2).
    Delivered {
        /// Indexed by D_ID - 1.
        orders: [u32; 10],
    },
    /// It was not executed; it has no effect in the database.
    Failed(Failure),
}

/// The reason why a transaction was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The effect of a retry.
    pub kind: FailureKind,
    /// SQLSTATE, or the engine's own code; empty if the failure is not from the server.
    pub code: String,
    /// The server's message in one line, without passwords.
    pub message: String,
}

/// The effect of a retry after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// A retry may succeed: a serialization failure, a deadlock victim.
    Retriable,
    /// A retry fails again: the schema, the data or the driver is wrong.
    Lasting,
    /// The connection is lost. The outcome of an outstanding commit is unknown.
    ConnectionLost,
}

/// A connection has done what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The connection; it is free now, or lost if the failure says so.
    pub connection: ConnectionId,
    /// The work.
    pub work: Work,
    /// The time at which it was dispatched.
    pub dispatched: Micros,
    /// When the last byte of the answer was read.
    pub answered: Micros,
    /// Its outcome.
    pub outcome: Outcome,
}
