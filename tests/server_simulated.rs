//! A real PostgreSQL on the software PMU: recorded while pgbench runs, and restored afterwards.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{counts, files_in, hardmeter, perf_script, recorded, report, run, samples, stderr, wait_until};
use server::ThrowawayServer;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A server with pgbench's tables at scale 1, which ends with the test.
struct Playground(ThrowawayServer);

impl Playground {
    /// `None`, with a message, if it cannot be created.
    fn new() -> Option<Playground> {
        ThrowawayServer::new(&["valgrind", "perf"], &[], 1).map(Playground)
    }

    fn capture(&self) -> PathBuf {
        self.0.path("server.data")
    }

    /// Records the server while `command` runs.
    fn recorder(&self, command: &[&str]) -> Command {
        let mut recorder = hardmeter();
        recorder
            .current_dir(self.0.room())
            .args(["record", "--source", "simulated", "--machine", "xeon-2003"])
            .args(["-e", "l1d-miss/period=1009/,l2-miss/period=101/", "-o"])
            .arg(self.capture())
            .arg("--server")
            .arg(self.0.folder().path())
            .arg("--")
            .args(command);
        recorder
    }

    /// Starts an endless recording of pgbench, and waits until its clients are served.
    fn endless_recording(&self) -> (Child, Vec<i32>) {
        let pgbench = ["pgbench", "-n", "-c", "3", "-t", "1000000"];
        let recorder = self.recorder(&pgbench).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut backends = Vec::new();
        wait_until("pgbench", || {
            let serving = self.0.cluster().backends().unwrap_or_default();
            backends = serving.iter().map(|pid| pid.0).collect();
            backends.len() >= 3
        });
        (recorder, backends)
    }

    /// The server runs, and has every account.
    fn assert_intact(&self) {
        assert!(self.0.cluster().is_running());
        assert_eq!(self.0.cluster().query("SELECT count(*) FROM pgbench_accounts").unwrap(), "100000");
    }

    /// The file is complete, and perf finds the same number of samples in it as Hardmeter.
    fn assert_readable(&self, output: &Output) {
        let count = samples(&report(&self.capture(), &["--by", "event"]));
        assert_eq!(count, recorded(output, "l1d-miss") + recorded(output, "l2-miss"));
        assert_eq!(perf_script(&self.capture(), "ip").len() as u64, count);
        let files = files_in(self.0.room());
        assert!(!files.iter().any(|name| name.contains("partial")), "{files:?}");
    }
}

fn kill(pid: i32) {
    // SAFETY: a process of a server that this test started.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn backends_of_a_real_server_are_simulated_and_it_runs_again_afterwards() {
    let Some(playground) = Playground::new() else { return };
    let output = run(&mut playground.recorder(&["pgbench", "-n", "-c", "3", "-t", "5"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(common::stdout(&output).contains("actually processed: 15/15"), "{}", common::stdout(&output));
    playground.assert_readable(&output);

    let capture = playground.capture();
    let by_routine = report(&capture, &["--by", "routine,pid"]);
    let (mut users, mut pids) = (0, std::collections::BTreeSet::new());
    let mut routines = std::collections::BTreeSet::new();
    for ((_, values), count) in counts(&by_routine, &["routine", "pid"]) {
        users += count;
        // Only backends that serve a client execute this.
        if values[0] == "_bt_search" || values[0] == "exec_simple_query" || values[0] == "_bt_compare" {
            pids.insert(values[1].clone());
        }
        routines.insert(values[0].clone());
    }
    assert!(pids.len() >= 3, "three backends go down an index: {pids:?}");
    let has = |prefix: &str| routines.iter().any(|routine| routine.starts_with(prefix));
    for prefix in ["LWLock", "hash_search", "heap", "_bt_", "SearchCatCache"] {
        assert!(has(prefix), "{prefix}: {routines:?}");
    }
    let names = &by_routine["names"];
    let identified = names["identified"]["fraction"].as_f64().expect("a share");
    assert!(identified >= 0.95, "{names}");
    assert_eq!(names["user_samples"], users, "the simulation sees user mode only");
    playground.assert_intact();
    assert_eq!(playground.0.cluster().query("SELECT count(*) FROM pgbench_history").unwrap(), "15");

    // A missing command is reported, and the server restored.
    let output = run(&mut playground.recorder(&["no-such-pgbench"]));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no-such-pgbench"), "{}", stderr(&output));
    assert!(stderr(&output).contains("remedy:"), "{}", stderr(&output));
    playground.assert_intact();

    // A server that did not run is not left running.
    playground.0.cluster().stop(&|_| {}).unwrap();
    let output = run(&mut playground.recorder(&["pgbench", "-n", "-c", "1", "-t", "1"]));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(recorded(&output, "l1d-miss") > 0);
    assert!(!playground.0.cluster().is_running());
}

#[test]
fn a_backend_killed_in_the_middle_ends_the_command_and_is_told() {
    let Some(playground) = Playground::new() else { return };
    let (recorder, backends) = playground.endless_recording();
    kill(backends[0]);
    // The server ends all other clients and restarts; so pgbench ends, and the recording with it.
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command ended with status"), "{}", stderr(&output));
    playground.assert_readable(&output);
    playground.assert_intact();
}

#[test]
fn a_server_killed_in_the_middle_ends_the_command_and_is_started_again() {
    let Some(playground) = Playground::new() else { return };
    let (recorder, _) = playground.endless_recording();
    kill(playground.0.cluster().processes()[0].0);
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("the command ended with status"), "{}", stderr(&output));
    playground.assert_readable(&output);
    playground.assert_intact();
}

#[test]
fn a_folder_that_is_no_server_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (place, message) in
        [(folder.path().to_path_buf(), "no server"), (PathBuf::from("/nonexistent"), "no server")]
    {
        let output = run(hardmeter()
            .current_dir(folder.path())
            .args(["record", "--source", "simulated", "--server"])
            .arg(&place)
            .args(["--", "true"]));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        assert!(stderr(&output).contains("remedy:"), "{}", stderr(&output));
        assert_eq!(files_in(folder.path()), [""; 0]);
    }
}
