//! A throwaway MariaDB for tests.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use hardmeter_tpcc::mariadb::Target;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The server, which ends with the test.
pub struct ThrowawayMariadb {
    folder: ServerFolder,
    /// `None`: another owner's.
    _temporary: Option<tempfile::TempDir>,
}

impl ThrowawayMariadb {
    /// A server with these settings. `None`, with a message, if MariaDB is not installed.
    pub fn new(settings: &[&str]) -> Option<ThrowawayMariadb> {
        let programs = match Programs::find(Engine::Mariadb, &ProgramsWanted::default()) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let folder = ServerFolder::new(temporary.path().join("server"));
        let mut cluster = Cluster::create(&folder, &programs, &|_| {}).unwrap();
        let usual =
            ["innodb_buffer_pool_size=256M", "innodb_log_file_size=512M", "innodb_flush_log_at_trx_commit=0"];
        let settings = usual.iter().chain(settings).map(|setting| setting.parse().unwrap()).collect();
        cluster.start(&StartOptions { settings, ..StartOptions::default() }, &|_| {}).unwrap();
        Some(ThrowawayMariadb { folder, _temporary: Some(temporary) })
    }

    /// A server that the command created; it is stopped at the end of the test, too.
    pub fn found(folder: &ServerFolder) -> ThrowawayMariadb {
        ThrowawayMariadb { folder: folder.clone(), _temporary: None }
    }

    pub fn folder(&self) -> &ServerFolder {
        &self.folder
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::open(&self.folder).unwrap()
    }

    pub fn target(&self, database: &str) -> Target {
        Target::socket(&self.cluster().socket(), "root", database)
    }

    /// The result of a statement: one row per line, tab-separated columns.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.ask(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The same; `None` if it failed.
    pub fn try_sql(&self, database: &str, sql: &str) -> Option<String> {
        self.ask(database, sql).ok()
    }

    fn ask(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--batch", "--skip-column-names", "--user=root"]);
        client.arg(format!("--socket={}", self.cluster().socket().display()));
        client.args(["--execute", sql, database]);
        let output = client.output().expect("mariadb runs");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Kills its process, as in a power failure.
    pub fn kill(&self) {
        let cluster = self.cluster();
        for pid in cluster.processes() {
            // SAFETY: a process that the test started, identified by its start time.
            assert_eq!(unsafe { libc::kill(pid.0, libc::SIGKILL) }, 0);
        }
        super::common::wait_until("the end of the server", || !cluster.is_running());
    }

    pub fn start(&self) {
        self.cluster().start(&StartOptions::default(), &|_| {}).unwrap();
    }
}

impl super::common::InFolder for ThrowawayMariadb {
    fn folder_path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for ThrowawayMariadb {
    fn drop(&mut self) {
        if let Ok(mut cluster) = Cluster::open(&self.folder) {
            let _ = cluster.stop(&|_| {});
        }
    }
}
