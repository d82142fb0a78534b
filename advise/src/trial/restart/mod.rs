//! Settings that need a restart, tried on the server itself: only where the user asks for it.
//!
//! ```text
//!   as it was found ── ALTER SYSTEM SET, restart ──> changed ── ALTER SYSTEM SET or RESET, restart ──> as it was found
//!                                                       │
//!        the server does not start, or a kill ──────────┴──> revive(): the line in its file, start ──> as it was found
//! ```
//!
//! Invariants:
//! 1. The process that restarts the server for a trial holds the lock `restart.lock` beside the ledger. An open entry while the
//!    lock is free belongs to a tuner that died.
//! 2. The file of ALTER SYSTEM is written by this program only while the server does not run and accepts no connection,
//!    and only the line that the trial wrote; a line of another session stays.
//! 3. The command that restarts the server is in the ledger before its first use: the watchdog and `tune undo` can
//!    start the server without an answer from it.
//!
//! | file | contents |
//! |---|---|
//! | `switch` | the settings, the restart, and the way back |
//! | `offline` | the file of ALTER SYSTEM of a server that does not run |
//! | `revive` | servers that a killed trial left down |
//! | `conduct` | the trial |

mod conduct;
mod offline;
mod revive;
mod switch;

pub use conduct::{conduct_with_restarts, RestartPlan};
pub use revive::{revive, Revived};
pub use switch::RestartSwitch;

pub(super) use revive::{lock_of_open, reach, restart_lock};
