//! A PostgreSQL server that is deleted at the end of the test.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_samples::model::Pid;
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, Setting, StartOptions};
use std::time::{Duration, Instant};

/// Waits for an event that must occur; it fails only if the machine hangs.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(300), "{what} never came");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The server.
pub struct Throwaway {
    pub cluster: Cluster,
    pub pid: Pid,
    folder: tempfile::TempDir,
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        let _ = self.cluster.stop(&|_| {});
        let _ = Cluster::remove(&self.folder());
    }
}

impl Throwaway {
    /// A running server. `None`, with a message, if it cannot be created.
    pub fn start() -> Option<Throwaway> {
        // HARDMETER_TEST_POSTGRES=/path/to/bin selects another server than the distribution's.
        let folder = std::env::var_os("HARDMETER_TEST_POSTGRES").map(Into::into);
        let wanted = ProgramsWanted { folder, ..ProgramsWanted::default() };
        let programs = match Programs::find(Engine::Postgres, &wanted) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}; {}", error.remedy());
                return None;
            }
        };
        let folder = tempfile::Builder::new().prefix("hm-objects-").tempdir_in("/var/tmp").expect("a folder");
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), own).expect("opened");
        let server = ServerFolder::new(folder.path().join("server"));
        let cluster = Cluster::create(&server, &programs, &|_| {}).expect("made");
        let mut throwaway = Throwaway { cluster, pid: Pid(0), folder };
        throwaway.start_with(&[]);
        Some(throwaway)
    }

    /// Restarts it with more settings.
    pub fn start_with(&mut self, more: &[&str]) {
        let _ = self.cluster.stop(&|_| {});
        let settings = ["autovacuum=off", "shared_buffers=32MB"].iter().chain(more);
        let settings = settings.map(|text| text.parse::<Setting>().expect("a setting")).collect();
        let options = StartOptions { settings, ..StartOptions::default() };
        self.pid = self.cluster.start(&options, &|_| {}).expect("started");
    }

    /// Its folder.
    pub fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.folder.path().join("server"))
    }

    /// Waits until no process serves a client: a client ends before its backend does. By their titles, since a query
    /// would need a backend.
    pub fn wait_for_last_client(&self) {
        let serves = |pid: &Pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|title| title.contains("[local]"))
        };
        wait_until("the end of the last backend", || !self.cluster.processes().iter().any(serves));
    }

    /// The server's answer to a query.
    pub fn ask(&self, sql: &str) -> String {
        self.cluster.query(sql).expect("an answer")
    }

    /// The same as rows and columns.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        self.ask(sql).lines().map(|line| line.split('|').map(str::to_string).collect()).collect()
    }
}
