//! The kinds of servers, and what differs between them: programs, arguments, signs of life, ways to stop.

mod mariadb;
mod postgres;

use crate::cluster::StopOutcome;
use crate::error::ServerError;
use crate::folders::ServerFolder;
use crate::programs::Programs;
use crate::settings::Setting;
use crate::state::State;
use hardmeter_samples::model::Pid;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL: one process per connection.
    Postgres,
    /// MariaDB: one thread per connection.
    Mariadb,
}

impl Engine {
    /// Every kind.
    pub const ALL: [Engine; 2] = [Engine::Postgres, Engine::Mariadb];

    /// The name on the command line and of the default folder.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
        }
    }

    /// The name that its makers write.
    pub fn title(self) -> &'static str {
        self.ways().title()
    }

    pub(crate) fn ways(self) -> &'static dyn Ways {
        match self {
            Engine::Postgres => &postgres::Postgres,
            Engine::Mariadb => &mariadb::Mariadb,
        }
    }
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

/// Settings that a fresh server starts from: the servers' own defaults, but small enough for any machine.
pub(crate) fn default_settings(engine: Engine) -> Vec<Setting> {
    match engine {
        Engine::Postgres => vec![
            Setting::new("shared_buffers", "128MB"),
            Setting::new("fsync", "on"),
            Setting::new("max_connections", "100"),
        ],
        Engine::Mariadb => vec![
            Setting::new("innodb_buffer_pool_size", "128M"),
            Setting::new("innodb_flush_log_at_trx_commit", "1"),
            Setting::new("max_connections", "100"),
        ],
    }
}

/// Whether a server's account is one that only root gives to servers.
pub(crate) fn is_usual_account(state: &State) -> bool {
    state.engine.ways().accounts().contains(&state.account.as_str())
}

/// What to do about a failure, judged by what the server or its tools printed. `None` when nothing is recognised.
pub(crate) fn diagnose(log: &str) -> Option<String> {
    const KNOWN: &[(&str, &str)] = &[
        ("No space left on device", "free some disk space, or use another disk with --dir"),
        ("Disk quota exceeded", "free some disk space, or use another disk with --dir"),
        ("Disk is full", "free some disk space, or use another disk with --dir"),
        ("Read-only file system", "use a folder on a writable disk with --dir"),
        (
            "database files are incompatible",
            "use the programs that made the data with --version, or a new --dir",
        ),
        (
            "lock file \"postmaster.pid\" already exists",
            "a server runs there that was not started by hardmeter: \
            stop it (pg_ctl stop -D the data folder named above), or use another --dir",
        ),
        ("Unable to lock ./ibdata1", "another mariadbd uses this data folder: stop it, or use another --dir"),
        (
            "Is another postmaster already running",
            "another server uses this socket: stop it, or use another --dir",
        ),
        ("Do you already have another", "another server uses this socket: stop it, or use another --dir"),
        ("unrecognized configuration parameter", "check the name given to --set"),
        ("unknown variable", "check the name given to --set"),
        ("unknown option", "check the name given to --set"),
        ("invalid value for parameter", "check the value given to --set"),
        ("requires a numeric value", "check the value given to --set"),
        ("is outside the valid range", "check the value given to --set"),
        (
            "Cannot allocate memory",
            "use less memory: --set shared_buffers=32MB (PostgreSQL) or \
            --set innodb_buffer_pool_size=32M (MariaDB)",
        ),
        ("Cannot allocate memory for the buffer pool", "use less memory: --set innodb_buffer_pool_size=32M"),
        ("invalid checkpoint record", "the data are damaged: hardmeter server remove, then start a new one"),
        (
            "could not locate a valid checkpoint record",
            "the data are damaged: hardmeter server remove, then start a \
            new one",
        ),
        (
            "could not open file \"global/pg_control\"",
            "the data are damaged: hardmeter server remove, then start a \
            new one",
        ),
        ("invalid locale name", "apt-get install locales, and make C.UTF-8 known"),
        (
            "Permission denied",
            "let the server's account read what the line above names, or use another --dir",
        ),
    ];
    KNOWN.iter().find(|(sign, _)| log.contains(sign)).map(|(_, remedy)| (*remedy).to_owned())
}

/// A command as the list of its words.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$(std::ffi::OsString::from($word)),*] };
}
pub(crate) use words;

/// `before` and `path` in one word, for arguments such as `--datadir=PATH`.
pub(crate) fn joined(before: &str, path: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut word = OsString::from(before);
    word.push(path);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_print_leads_to_a_remedy() {
        let full = "FATAL:  could not write to file \"pg_wal/xlogtemp.7\": No space left on device";
        assert!(diagnose(full).unwrap().contains("disk space"));
        let busy = "HINT:  Is another postmaster already running on port 5432? If not, remove socket file";
        assert!(diagnose(busy).unwrap().contains("another server uses this socket"));
        let unknown = "FATAL:  unrecognized configuration parameter \"shared_bufers\"";
        assert!(diagnose(unknown).unwrap().contains("--set"));
        assert_eq!(diagnose("LOG:  database system is ready"), None);
    }
}
