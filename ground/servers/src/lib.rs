//! Throwaway database servers for demos, tests and benchmarks: made in a second, profiled, thrown away.
//!
//! A server lives in one folder that says what made it:
//!
//! ```text
//! DIR/state.json    version, programs, socket, settings, loaded workloads, the running process   (ours)
//! DIR/server.log    what the server printed                                                      (ours)
//! DIR/my.cnf        how MariaDB's clients find it                                                (ours)
//! DIR/data/         the data folder                                             (of the server's account)
//! DIR/socket/       its only way in, a unix socket, mode 0700                   (of the server's account)
//! ```
//!
//! What this crate is *not* for: it never touches a server that somebody else made, changes no system configuration
//! and opens no network port. It knows nothing of samples; the profiler passes a *wrapper* ([`StartOptions`]) when
//! the server has to run inside the software PMU.
//!
//! Throwaway web servers, which the databases are asked by, are in [`mod@web`].
//!
//! # Design constraints
//!
//! * *Least privilege.* Root's servers run as `postgres`, `mysql` or `nobody`; only `data/` and `socket/` are theirs,
//!   so that a server can never make root write through a link of its making.
//! * *The server's program is our child*, started in the foreground: under a simulator there must be nothing
//!   between us and it, and its process id is known before it is ready.
//! * *A process id alone is no proof*: it is kept with the process's start time and the machine's boot id, so that a
//!   number used again after a crash or a reboot is recognised as somebody else's.
//! * *Errors name cause and remedy*, and quote the last lines of the server's log.

mod account;
pub mod build;
mod cluster;
mod diagnose;
mod engine;
mod error;
mod folders;
mod lock;
mod log;
mod process;
mod programs;
mod settings;
mod shards;
mod state;
pub mod web;

pub use account::Account;
pub use cluster::{Cluster, Progress, StartOptions, Status, Wrapper};
pub use engine::{Engine, StopOutcome};
pub use error::ServerError;
pub use folders::{cache_folder, default_server_folder, servers_folder, ServerFolder};
pub use programs::{Programs, ProgramsWanted};
pub use settings::Setting;
pub use shards::{shard_folder, shard_folders};
pub use state::{Loaded, State};
