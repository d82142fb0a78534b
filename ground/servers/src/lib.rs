//! Throwaway database servers for demos, tests and benchmarks: created in a second, profiled, removed.
//!
//! A server lives in one folder that describes it:
//!
//! ```text
//! DIR/state.json    version, programs, socket, settings, loaded workloads, the running process   (Hardmeter's)
//! DIR/server.log    what the server printed                                                      (Hardmeter's)
//! DIR/my.cnf        how MariaDB's clients find it                                                (Hardmeter's)
//! DIR/data/         the data folder                                             (of the server's account)
//! DIR/socket/       its only way in, a unix socket, mode 0700                   (of the server's account)
//! ```
//!
//! Out of scope: servers created by other means, system configuration, network ports, samples. The profiler passes
//! a
//! *wrapper* ([`StartOptions`]) when the server has to run inside the software PMU.
//!
//! Throwaway web servers, the databases' clients, are in [`mod@web`].
//!
//! # Design constraints
//!
//! * *Least privilege.* Root's servers run as `postgres`, `mysql` or `nobody` and own only `data/` and `socket/`,
//!   so that a server cannot make root write through a symbolic link.
//! * *The server's program is a child process*, started in the foreground: without a process between it and the
//!   simulator, and its process id is known before it is ready.
//! * *A process id alone identifies nothing*: it is stored with the process's start time and the machine's boot id,
//!   so that a number reused after a crash or a reboot is recognised.
//! * *Errors name cause and remedy*, and quote the last lines of the server's log.
//!
//! ```
//! use hardmeter_servers::{Cluster, ServerError, ServerFolder};
//!
//! let opened = Cluster::open(&ServerFolder::new("/there/is/no/such/folder"));
//! assert!(matches!(opened, Err(ServerError::NoServer { .. })));
//! ```

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
