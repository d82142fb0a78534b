//! `hardmeter tune` on a throwaway server, for tests: a ledger of the test's own, and what trials leave behind.

// Each test file uses its part.
#![allow(dead_code)]

use super::common::{hardmeter, run, stderr, stdout, succeeded, InFolder};
use hardmeter_servers::{Cluster, ServerFolder};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for all waits.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The result of a statement.
pub fn sql(server: &impl InFolder, text: &str) -> String {
    let cluster = Cluster::open(&ServerFolder::new(server.folder_path())).unwrap();
    cluster.query(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A path beside the server's folder.
pub fn beside(server: &impl InFolder, name: &str) -> PathBuf {
    server.folder_path().with_file_name(name)
}

/// `hardmeter tune` with a ledger of the test's own.
pub fn tune(server: &impl InFolder, words: &[&str]) -> Command {
    let mut command = hardmeter();
    command.env("XDG_STATE_HOME", beside(server, "state")).arg("tune").args(words);
    command
}

/// The same on this server.
pub fn on_server(server: &impl InFolder, words: &[&str]) -> Command {
    let mut command = tune(server, words);
    command.arg("--server").arg(server.folder_path());
    command
}

/// What a command printed.
pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), stderr(output)))
}

/// The entries of the ledger.
pub fn log(server: &impl InFolder) -> Vec<Value> {
    let log = json(&succeeded(run(&mut tune(server, &["log", "--format", "json"]))));
    log["entries"].as_array().expect("entries").clone()
}

/// True if the ledger has an open change.
pub fn is_open(server: &impl InFolder) -> bool {
    log(server).iter().any(|entry| entry["closed"].is_null())
}

/// Waits until a condition holds.
pub fn within(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(50));
    }
}

/// Sends a signal to a child that has not been waited for.
pub fn signal(child: &Child, signal: i32) {
    // SAFETY: a child of this test, which is not reaped yet.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
}

/// The watchdogs of this server.
pub fn watchdogs(server: &impl InFolder) -> Vec<i32> {
    let folder = server.folder_path().display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("tune\0watchdog") && words.contains(&folder)
    })
    .collect()
}

/// Kills them.
pub fn kill_watchdogs(server: &impl InFolder) {
    for pid in watchdogs(server) {
        // SAFETY: a process that a command of this test started.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}

/// Waits until nothing is open and no watchdog is left.
pub fn closed(server: &impl InFolder) {
    within("the entry is closed", || !is_open(server));
    within("the watchdog has ended", || watchdogs(server).is_empty());
}
