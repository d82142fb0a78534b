//! The interface for the differences between kinds of servers.

use crate::error::ServerError;
use crate::folders::ServerFolder;
use crate::programs::Programs;
use crate::state::State;
use hardmeter_samples::model::Pid;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How a server stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopOutcome {
    /// It wrote its data and ended.
    Clean,
    /// It ended at once; the next start recovers.
    Immediate,
    /// It was killed; the next start recovers.
    Killed,
    /// It was not running.
    NotRunning,
}

/// The parts of a server that the methods of [`Ways`] need.
pub(crate) struct Site<'a> {
    pub folder: &'a ServerFolder,
    pub programs: &'a Programs,
    pub state: &'a State,
}

/// One step of stopping a server: signal, time limit, and name.
pub(crate) struct StopStep {
    pub signal: libc::c_int,
    pub patience: Duration,
    pub outcome: StopOutcome,
}

/// The differences between kinds of servers. No method changes anything: they return commands and places.
pub(crate) trait Ways: Sync {
    /// The name that its makers write.
    fn title(&self) -> &'static str;
    /// The server's program.
    fn server_program(&self) -> &'static str;
    /// Folders where distributions install this server's programs, best first.
    fn usual_folders(&self) -> Vec<PathBuf>;
    /// Debian's package of a version.
    fn package(&self, version: Option<&str>) -> String;
    /// Accounts as which it may run, best first.
    fn accounts(&self) -> &'static [&'static str];
    /// Fills in what clients need: port, user, database.
    fn describe(&self, state: &mut State);
    /// The socket's file name inside its folder.
    fn socket_name(&self, state: &State) -> String;
    /// Settings that the command sets itself and the user may not: listening addresses and file locations.
    fn reserved(&self) -> &'static [&'static str];
    /// The command that fills an empty data folder.
    fn initialize(&self, site: &Site) -> Vec<OsString>;
    /// The version that created the data folder, as recorded there; an error describes the damage found.
    fn data_version(&self, site: &Site) -> Result<String, String>;
    /// The command that is the server, in the foreground.
    fn serve(&self, site: &Site) -> Vec<OsString>;
    /// Files of a dead server that would block a new one.
    fn leftovers(&self, _site: &Site) -> Vec<PathBuf> {
        Vec::new()
    }
    /// Whether the server process `pid` accepts connections.
    fn is_ready(&self, site: &Site, pid: Pid) -> bool;
    /// The steps that stop it, least forceful first.
    fn stop_steps(&self) -> Vec<StopStep>;
    /// The command that runs SQL and prints bare rows.
    fn client(&self, site: &Site, sql: &str) -> Vec<OsString>;
    /// SQL that lists the processes serving clients, except the own one; `None` for a threaded server.
    fn backends_sql(&self) -> Option<&'static str>;
    /// Environment variables with which this engine's clients find the server.
    fn environment(&self, site: &Site) -> Vec<(&'static str, OsString)>;
    /// Contents of a client's options file (`my.cnf` in the server's folder, named by the environment); `None` if
    /// the environment suffices.
    fn client_options(&self, _site: &Site) -> Option<String> {
        None
    }
    /// The command that loads pgbench's tables.
    fn load_pgbench(&self, site: &Site, scale: u32) -> Result<Vec<OsString>, ServerError>;
}
