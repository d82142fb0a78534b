//! What differs between the kinds of servers, as each of them answers it.

use crate::error::ServerError;
use crate::folders::ServerFolder;
use crate::programs::Programs;
use crate::state::State;
use hardmeter_samples::model::Pid;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How a server came to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// It wrote everything down and ended.
    Clean,
    /// It ended at once; the next start recovers.
    Immediate,
    /// It had to be killed; the next start recovers.
    Killed,
    /// It did not run.
    NotRunning,
}

/// One server, as its engine's ways need to see it.
pub(crate) struct Site<'a> {
    pub folder: &'a ServerFolder,
    pub programs: &'a Programs,
    pub state: &'a State,
}

/// One step of stopping a server: the signal, how long it may take, and what to call it.
pub(crate) struct StopStep {
    pub signal: libc::c_int,
    pub patience: Duration,
    pub outcome: StopOutcome,
}

/// What differs between the kinds of servers. No method changes anything; they tell what to run and where to look.
pub(crate) trait Ways: Sync {
    /// The name that its makers write.
    fn title(&self) -> &'static str;
    /// The server's program.
    fn server_program(&self) -> &'static str;
    /// Folders in which a distribution puts this server's programs, best first.
    fn usual_folders(&self) -> Vec<PathBuf>;
    /// Debian's package of a version.
    fn package(&self, version: Option<&str>) -> String;
    /// Accounts as which it may run, best first.
    fn accounts(&self) -> &'static [&'static str];
    /// Fills in what clients must know: port, user, database.
    fn describe(&self, state: &mut State);
    /// The socket's file name inside its folder.
    fn socket_name(&self, state: &State) -> String;
    /// Settings that the command sets itself and a user may not: where the server listens, and where its files are.
    fn reserved(&self) -> &'static [&'static str];
    /// The command that fills an empty data folder.
    fn initialize(&self, site: &Site) -> Vec<OsString>;
    /// The version that made the data folder, by the folder's own account; an error is the damage found.
    fn data_version(&self, site: &Site) -> Result<String, String>;
    /// The command that is the server, in the foreground.
    fn serve(&self, site: &Site) -> Vec<OsString>;
    /// Files by which a dead server would hinder a new one.
    fn leftovers(&self, _site: &Site) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Whether the server that is process `pid` takes connections.
    fn is_ready(&self, site: &Site, pid: Pid) -> bool;
    /// How to stop it, gentlest first.
    fn stop_steps(&self) -> Vec<StopStep>;
    /// The command that runs SQL and prints bare rows.
    fn client(&self, site: &Site, sql: &str) -> Vec<OsString>;
    /// SQL that lists the processes serving clients, but for the one asking; `None` where there is one process.
    fn backends_sql(&self) -> Option<&'static str>;
    /// Environment by which any client of this engine finds the server.
    fn environment(&self, site: &Site) -> Vec<(&'static str, OsString)>;
    /// What a client's options file must say (`my.cnf` in the server's folder, which the environment names); `None` where
    /// the environment is enough.
    fn client_options(&self, _site: &Site) -> Option<String> {
        None
    }
    /// The command that loads pgbench's tables.
    fn load_pgbench(&self, site: &Site, scale: u32) -> Result<Vec<OsString>, ServerError>;
}
