//! A throwaway PostgreSQL with pgbench's tables, recorded on the software PMU.

use super::common::{hardmeter, have};
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// The server, which ends with the test.
pub struct ObservedServer {
    temporary: tempfile::TempDir,
}

impl ObservedServer {
    /// A server with pgbench's tables; its buffers hold the whole database, so that none is ever reused. `None`, said
    /// so, where it cannot be made.
    pub fn new(scale: u32) -> Option<ObservedServer> {
        if !have(&["valgrind", "pgbench", "psql"]) {
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
        let server = ObservedServer { temporary };
        let mut cluster = Cluster::create(&server.folder(), &programs, &|_| {}).unwrap();
        // Vacuum goes round in a few buffers and uses them again.
        let settings =
            ["shared_buffers=256MB", "autovacuum=off"].map(|setting| setting.parse().unwrap()).to_vec();
        cluster.start(&StartOptions { settings, ..StartOptions::default() }, &|_| {}).unwrap();
        cluster.load_pgbench(scale, &|_| {}).unwrap();
        Some(server)
    }

    pub fn folder(&self) -> ServerFolder {
        ServerFolder::new(self.temporary.path().join("server"))
    }

    #[allow(dead_code)] // not every test asks it
    pub fn cluster(&self) -> Cluster {
        Cluster::open(&self.folder()).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temporary.path().join(name)
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
        recorder.current_dir(self.temporary.path()).args(self.arguments(capture, shell));
        recorder
    }
}

impl Drop for ObservedServer {
    fn drop(&mut self) {
        if let Ok(mut cluster) = Cluster::open(&self.folder()) {
            let _ = cluster.stop(&|_| {});
        }
    }
}
