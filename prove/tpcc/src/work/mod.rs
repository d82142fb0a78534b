//! What the modules of a run exchange: a piece of [`Work`] that a terminal wants done, and what became of it.
//!
//! ```text
//!   terminals ---- Work ----> monitor ---- Work ----> backend (PostgreSQL, MariaDB, a stub)
//!       ^                        |  ^                    |
//!       '------ Answer ----------'  '---- Completion ----'
//!                                |
//!                                '---- Measured ----> recorder ----> RunResult ----> report
//! ```
//!
//! Plain data: nothing here does anything.

mod input;
mod outcome;

pub use input::{
    Customer, Delivery, Input, Kind, NewOrder, OrderLine, OrderStatus, Payment, StockLevel, MAX_LINES,
};
pub use outcome::{Completion, Failure, FailureKind, Outcome};

use crate::time::Micros;

/// The number of a terminal: from 0, over all warehouses of this driver. Terminal `10 w + d` is district d + 1 of the
/// driver's warehouse w.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TerminalId(pub u32);

/// The number of a connection of a backend, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// A transaction that a terminal wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Whose.
    pub terminal: TerminalId,
    /// What was entered.
    pub input: Input,
    /// When the terminal should have sent it: keying began when the think time ended. Response times count from here,
    /// so that a late driver is a slow system and not a fast one (no coordinated omission).
    pub due: Micros,
    /// When the driver did send it.
    pub entered: Micros,
}
