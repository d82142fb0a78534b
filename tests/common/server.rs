//! A throwaway PostgreSQL with pgbench's tables, for tests that record it on the software PMU.

// Each test file uses its part.
#![allow(dead_code)]

use super::common::{hardmeter, have, InFolder};
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The server, which ends with the test.
pub struct ThrowawayServer {
    temporary: tempfile::TempDir,
}

impl ThrowawayServer {
    /// A server with these settings and pgbench's tables. `None`, with a message, if it cannot be created, or if
    /// one of the needed programs is not installed.
    pub fn new(needed: &[&str], settings: &[&str], scale: u32) -> Option<ThrowawayServer> {
        if !have(needed) {
            return None;
        }
        let programs = match Programs::find(Engine::Postgres, &ProgramsWanted::default()) {
            Ok(programs) => programs,
            Err(error) => {
                eprintln!("skipped: {error}");
                return None;
            }
        };
        let temporary = tempfile::tempdir().unwrap();
        fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let server = ThrowawayServer { temporary };
        let mut cluster = Cluster::create(&server.folder(), &programs, &|_| {}).unwrap();
        let settings = settings.iter().map(|setting| setting.parse().unwrap()).collect();
        cluster.start(&StartOptions { settings, ..StartOptions::default() }, &|_| {}).unwrap();
        cluster.load_pgbench(scale, &|_| {}).unwrap();
        Some(server)
    }

    pub fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.temporary.path().join("server"))
    }

    pub fn cluster(&self) -> Cluster {
        Cluster::open(&self.folder()).unwrap()
    }

    /// The folder of all that the test makes.
    pub fn room(&self) -> &Path {
        self.temporary.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
    }
}

impl InFolder for ThrowawayServer {
    fn folder_path(&self) -> PathBuf {
        self.folder().path().to_owned()
    }
}

impl Drop for ThrowawayServer {
    fn drop(&mut self) {
        if let Ok(mut cluster) = Cluster::open(&self.folder()) {
            let _ = cluster.stop(&|_| {});
        }
    }
}

/// A server whose buffers hold the whole database, so that none is reused, and its recording.
pub struct ObservedServer(ThrowawayServer);

impl ObservedServer {
    /// `None`, with a message, if it cannot be created.
    pub fn new(scale: u32) -> Option<ObservedServer> {
        // Vacuum cycles through a few buffers and reuses them.
        let settings = ["shared_buffers=256MB", "autovacuum=off"];
        ThrowawayServer::new(&["valgrind", "pgbench", "psql"], &settings, scale).map(ObservedServer)
    }

    /// The arguments that record the server while a line of shell runs.
    pub fn arguments(&self, capture: &str, shell: &str) -> Vec<String> {
        let mut words: Vec<String> = ["record", "--source", "simulated", "--machine", "xeon-2003", "-e"]
            .into_iter()
            .chain(["l1d-miss/period=1009/,l2-miss/period=211/", "-o"])
            .map(String::from)
            .collect();
        words.push(self.path(capture).display().to_string());
        words.extend(["--server".into(), self.folder().path().display().to_string()]);
        words.extend(["--call-graph", "--", "sh", "-c", shell].map(String::from));
        words
    }

    /// Records the server while a line of shell runs.
    pub fn recorder(&self, capture: &str, shell: &str) -> Command {
        let mut recorder = hardmeter();
        recorder.current_dir(self.room()).args(self.arguments(capture, shell));
        recorder
    }
}

impl Deref for ObservedServer {
    type Target = ThrowawayServer;

    fn deref(&self) -> &ThrowawayServer {
        &self.0
    }
}
