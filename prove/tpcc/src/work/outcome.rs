//! What became of a piece of work.

use super::{ConnectionId, Work};
use crate::time::Micros;

/// How a transaction ended in the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// New-Order was committed, and got this O_ID. The server had acknowledged it before this was made.
    Ordered {
        /// O_ID.
        order: u32,
    },
    /// New-Order met its unused item and was rolled back, as it should (clause 2.4.2.3).
    RolledBack,
    /// Payment, Order-Status or Stock-Level was committed.
    Committed,
    /// Delivery was committed: O_ID of each district, 0 where there was nothing to deliver (clause 2.7.4.2).
    Delivered {
        /// By D_ID - 1.
        orders: [u32; 10],
    },
    /// It was not done; nothing of it is in the database.
    Failed(Failure),
}

/// Why a transaction was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What may be done about it.
    pub kind: FailureKind,
    /// SQLSTATE, or the engine's own code; empty if it was not the server that refused.
    pub code: String,
    /// What the server said, in one line, without passwords.
    pub message: String,
}

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The same again may succeed: a serialization failure, a deadlock's victim.
    Retriable,
    /// The same again fails again: something is wrong with the schema, the data or the driver.
    Lasting,
    /// The connection is gone. Whether a commit that was under way happened is not known.
    ConnectionLost,
}

/// A connection has done what it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which connection; it is free now, or gone if the failure says so.
    pub connection: ConnectionId,
    /// What it was given.
    pub work: Work,
    /// When it was given.
    pub dispatched: Micros,
    /// When the last byte of the answer was read.
    pub answered: Micros,
    /// How it ended.
    pub outcome: Outcome,
}
