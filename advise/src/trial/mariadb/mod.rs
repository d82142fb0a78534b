//! Trials on MariaDB: a variable is switched by SET GLOBAL, or an index by DDL that lets writers work; both are measured in
//! blocks, and set back.
//!
//! Invariants:
//! 1. Order: the watchdog runs, the entry with the former value is in the ledger, the first variable is set.
//! 2. A process that sets or restores a variable holds the server's user lock `hardmeter tune` (GET_LOCK),
//!    which ends with its connection.
//! 3. A value that is neither the one before nor the one that is tried was set by another session, and stays.
//! 4. SET GLOBAL ends with the server: after a restart variables are as before, and an undo finds nothing to do. Indexes
//!    stay, and are undone.
//!
//! | file | contents |
//! |---|---|
//! | `global` | a variable and both of its values; the variables that may be tried |
//! | `index` | an index that is created, dropped or hidden |
//! | `control` | the session that sets, its lock, the identity of the server |
//! | `measure` | what is measured of a block |
//! | `conduct` | the trial |
//! | `undo` | closing what is open, by hand and by the watchdog |

mod conduct;
mod control;
mod global;
mod index;
mod measure;
mod undo;

pub use conduct::{conduct_on_mariadb, plan_on_mariadb};
pub use global::GlobalSwitch;
pub use index::{IndexWay, OnlineIndexSwitch};
pub use undo::{undo_all_of_mariadb, undo_entry_of_mariadb, watch_mariadb};
