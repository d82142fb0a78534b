//! Trials of settings that need a restart, on a throwaway copy of the server: the server itself is only read.
//!
//! ```text
//!   Original (settings, tablespaces, size) ── disk checked ──> watchdog ready ──> Begin in the ledger
//!        │ pg_basebackup
//!        v
//!   DIR/hardmeter-copy-TOKEN/{data, socket, log} ── blocks: stop, start with or without the change, load, warm-up,
//!        │                                            measured part ──> verdict
//!        └── stopped and removed ──> closed
//! ```
//!
//! Invariants:
//! 1. Nothing is written on the server, and no setting of it is changed. It gives a base backup.
//! 2. The copy does nothing outside: it listens on a unix socket that only its account enters, archives nothing, follows no
//!    publisher, waits for no standby, and loads no library that runs jobs.
//! 3. Who makes or removes a copy holds the lock `copy.lock` beside the ledger. A copy whose entry is open while the lock
//!    is free belongs to a tuner that died.
//! 4. Only a folder with the mark of its trial is removed, and the mark goes last.
//!
//! | file | contents |
//! |---|---|
//! | `original` | what is read from the server: configuration, tablespaces, programs, size; the base backup |
//! | `place` | the folder of a copy, its lock, and its removal |
//! | `server` | the copy's server: start and stop |
//! | `replay`, `fill` | statements of the server's traffic, run again on the copy |
//! | `conduct` | the trial |

mod conduct;
mod fill;
mod original;
mod place;
mod replay;
mod server;

pub use conduct::{conduct_on_copy, CopyPlan};
pub use place::{CopySetting, CopySwitch};
pub use replay::ReplayPlan;

pub(super) use place::{close_abandoned, remove};
pub(super) use replay::Replay;
