//! Tries a remedy on a live server, and proves its effect.
//!
//! ```text
//!  Finding or --set ──> Switch (the change, the value before it) ────> Begin in the ledger, fsynced
//!                                                                         │
//!   watchdog: waits for the tuner's end, undoes open changes  <───────────┤
//!                                                                         v
//!   A A A A A A ── spread ──> rounds of A and B in random order ──> verdict ──> undone, or kept ──> ledger
//! ```
//!
//! A is the server as it was found, B the server with the change. Each block is measured after its first
//! seconds; the block is the unit of `evidence::Trial`, whose intervals may be checked after each round.
//!
//! | file | contents |
//! |---|---|
//! | `allowed` | the settings that may be tried |
//! | `switch`, `setting`, `index` | what is changed, and how it is undone |
//! | `copy` | settings that need a restart, tried on a throwaway copy of the server |
//! | `restart` | the same on the server itself, on request |
//! | `fresh` | a block on a server that was just started |
//! | `mariadb` | variables of MariaDB, switched by SET GLOBAL, and its indexes |
//! | `measure` | what is measured of a block |
//! | `load` | the traffic of the server, or a command |
//! | `conduct` | a trial on PostgreSQL: before its first block, and how a block is measured |
//! | `course` | the blocks of a trial, the same on every server |
//! | `rounds`, `spread` | the evidence of all blocks |
//! | `ledger`, `undo`, `watchdog`, `outcome`, `file_lock` | open changes, and who closes them |
//! | `wanted`, `proposal` | from a finding to a switch; the text that is printed before |
//! | `guard` | conditions that end a trial even if it gains: memory, standbys |
//! | `auto`, `sift` | one trial after the other until no gain is left; which findings may be tried |
//! | `tuned` | the server, PostgreSQL or MariaDB: what a run of trials needs of either |
//! | `ending` | the end of a trial: kept or undone, closed |
//! | `result`, `log`, `auto_report`, `chapter` | printed results, and the chapter of a page |

mod allowed;
mod auto;
mod auto_report;
mod chapter;
mod conduct;
mod control;
mod copy;
mod course;
mod ending;
mod error;
mod file_lock;
mod fresh;
mod guard;
mod index;
mod ledger;
mod load;
mod log;
mod mariadb;
mod measure;
mod outcome;
mod pause;
mod proposal;
mod restart;
mod result;
mod rounds;
mod setting;
mod sift;
mod spread;
mod switch;
mod tuned;
mod undo;
mod wanted;
mod watchdog;

pub use auto::{auto, survey, AutoOrder, Hands, Survey};
pub use auto_report::{AutoReport, End, Seen, Step};
pub use chapter::{chapter, page};
pub use conduct::{conduct, Conducted, Order, Pace, TryProgress};
pub use copy::{conduct_on_copy, CopyPlan, CopySetting, CopySwitch, ReplayPlan};
pub use error::TryError;
pub use guard::Guards;
pub use ledger::{Begin, Entry, Ledger};
pub use load::{Load, LoadCommand, Running};
pub use log::Log;
pub use mariadb::{
    conduct_on_mariadb, plan_on_mariadb, undo_all_of_mariadb, undo_entry_of_mariadb, watch_mariadb,
    GlobalSwitch, IndexWay, OnlineIndexSwitch,
};
pub use measure::Measure;
pub use outcome::{Closing, Undone};
pub use proposal::Proposal;
pub use restart::{conduct_with_restarts, revive, RestartPlan, RestartSwitch, Revived};
pub use result::{Gauge, Regression, TrialResult};
pub use sift::{Candidate, Left};
pub use switch::{plan, Switch, Wanted};
pub use tuned::Tuned;
pub use undo::{undo_all, undo_entry};
pub use watchdog::{watch, Watchdog};
