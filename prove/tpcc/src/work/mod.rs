//! The data that the modules of a run exchange: a piece of [`Work`] from a terminal, and its outcome.
//!
//! ```text
//!   terminals ---- Work ----> monitor ---- Work ----> backend (PostgreSQL, MariaDB, a stub)
//!       ^                        |  ^                    |
//!       '------ Answer ----------'  '---- Completion ----'
//!                                |
//!                                '---- Measured ----> recorder ----> RunResult ----> report
//! ```
//!
//! Plain data without behaviour.

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

/// A transaction that a terminal requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The requesting terminal.
    pub terminal: TerminalId,
    /// The input.
    pub input: Input,
    /// When the terminal should have sent it: think and keying time after the last answer. Response times count
    /// from here, so that a late driver shows as a slow system, never as a fast one (no coordinated omission).
    pub due: Micros,
    /// When the driver did send it.
    pub entered: Micros,
}
