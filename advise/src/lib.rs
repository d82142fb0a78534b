//! From a look at a live server, PostgreSQL or MariaDB, to the remedies that would help most.
//!
//! ```text
//!  look ──> Look (plain data) ──> remedies: one rule each ──> findings, ranked by predicted gain ──> Page
//!   │ two snapshots of cumulative views
//!   │ 5 to 10 samples a second of pg_stat_activity, joined with /proc/PID/{stat,schedstat}
//!   └ plans of the statements that take most time (EXPLAIN, never ANALYZE)
//! ```
//!
//! A look only reads. The server enforces that, too (`default_transaction_read_only`); each statement has a
//! time limit, and waits for locks are short. The cost of the look is part of its result.
//!
//! A remedy that statements can apply has them as [`Change`]s, too, each with the statements that undo it.
//!
//! A rule sees only a [`Look`], never the server: rules are pure, and their tests use synthetic looks.
//!
//! ```
//! use hardmeter_advise::{applying, undoing, Configured, Scope, Server};
//!
//! let shop = || Scope::Database("shop".into());
//! let set = Configured { scope: shop(), name: "jit".into(), value: "on".into() };
//! let server = Server { configured: vec![set], ..Server::default() };
//! let change = server.change(shop(), "jit", "off");
//! assert_eq!(applying(&[change.clone()]), ["ALTER DATABASE shop SET jit = off;"]);
//! assert_eq!(undoing(&[change]), ["ALTER DATABASE shop SET jit = on;"]);
//! ```

mod change;
mod error;
mod estimate;
mod finding;
mod index_upkeep;
mod look;
mod mariadb;
mod page;
mod remedies;
mod replaced_scan;
pub mod trial;

pub use change::{applying, undoing, Change, ChangeKind, Scope, Takes};
pub use error::AdviseError;
pub use estimate::{Estimate, Need};
pub use finding::{advise, Advice, Audience, Evidence, Finding, Prediction, Remedy};
pub use look::activity::{ActivitySample, BackendSample, Task};
pub use look::disk::Disk;
pub use look::machine::{Machine, Program};
pub use look::plan::{Plan, SeqScan};
pub use look::server::{Configured, Cost, Server};
pub use look::shares::{Kind, Share, TimeShares};
pub use look::statements::Statement;
pub use look::views::{Database, Index, Table, Wal};
pub use look::{look, Blockers, IdleTransaction, Look, Progress};
pub use mariadb::{
    look_at_mariadb, Duplicate, Maria, MariaSession, MariaTarget, Scan, Unused, MARIADB_REMEDIES,
};
pub use page::Page;
pub use remedies::REMEDIES;
