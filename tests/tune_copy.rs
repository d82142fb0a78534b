//! `hardmeter tune try --copy`: what needs a restart is tried on a copy of the server. The copy is gone
//! afterwards, whichever process was killed; the server itself stays as it is.
//!
//! Needs PostgreSQL with pg_stat_statements, pg_basebackup beside it, and pgbench.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;
use server::ThrowawayServer;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SETTINGS: [&str; 2] = ["shared_preload_libraries=pg_stat_statements", "shared_buffers=1MB"];
const PATIENCE: Duration = Duration::from_secs(120);

fn sql(server: &ThrowawayServer, text: &str) -> String {
    server.cluster().query(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `hardmeter tune` with a ledger of the test's own.
fn tune(server: &ThrowawayServer, words: &[&str]) -> Command {
    let mut command = hardmeter();
    command.env("XDG_STATE_HOME", server.path("state")).arg("tune").args(words);
    command
}

/// A trial on a copy, with blocks as short as they can be.
fn on_copy(server: &ThrowawayServer, words: &[&str]) -> Command {
    let mut command = tune(server, &["try", "--set", "shared_buffers=64MB", "--yes", "--block", "0.5"]);
    command.args(["--settle", "0.1", "--warm-up", "0.2", "--copy"]).arg(copies(server));
    command.arg("--server").arg(server.folder().path()).args(words);
    command
}

/// The folder for copies.
fn copies(server: &ThrowawayServer) -> PathBuf {
    let folder = server.path("copies");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Remains of copies: their folders, and processes that work in them.
fn rest(server: &ThrowawayServer) -> Vec<String> {
    let copies = copies(server);
    let folders = fs::read_dir(&copies).unwrap().flatten().map(|entry| entry.path().display().to_string());
    let pids = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        fs::read_link(entry.path().join("cwd")).is_ok_and(|folder| folder.starts_with(&copies))
    });
    folders.chain(pids.map(|entry| entry.path().display().to_string())).collect()
}

/// All settings with their sources, and the lines of ALTER SYSTEM.
fn state(server: &ThrowawayServer) -> (String, String) {
    let settings =
        "SELECT string_agg(concat_ws(' ', name, setting, source), ',' ORDER BY name) FROM pg_settings";
    let file = fs::read_to_string(server.folder().data().join("postgresql.auto.conf")).unwrap();
    (sql(server, settings), file)
}

fn log(server: &ThrowawayServer) -> Vec<Value> {
    let output = succeeded(run(&mut tune(server, &["log", "--format", "json"])));
    let log: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    log["entries"].as_array().expect("entries").clone()
}

fn is_open(server: &ThrowawayServer) -> bool {
    log(server).iter().any(|entry| entry["closed"].is_null())
}

fn within(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        sleep(Duration::from_millis(50));
    }
}

fn signal(child: &Child, signal: i32) {
    // SAFETY: a signal to a child that has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), signal) };
}

/// The watchdogs of this server.
fn watchdogs(server: &ThrowawayServer) -> Vec<i32> {
    let folder = server.folder().path().display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("tune\0watchdog") && words.contains(&folder)
    })
    .collect()
}

/// A load that writes down which server it works on, and with what pool.
fn noting_load(server: &ThrowawayServer) -> Vec<String> {
    let notes = server.path("notes");
    let script = format!(
        "echo $PGHOST $(psql -AtXc 'SHOW shared_buffers') >> {}; exec pgbench -n -S -c 1 -T 600",
        notes.display()
    );
    ["--", "sh", "-c"].into_iter().map(String::from).chain([script]).collect()
}

fn is_noted(server: &ThrowawayServer, pool: &str) -> bool {
    fs::read_to_string(server.path("notes")).is_ok_and(|text| text.lines().any(|line| line.ends_with(pool)))
}

fn the_traffic_is_replayed(server: &ThrowawayServer) {
    let host = server.folder().path().join("socket");
    let mut load = Command::new("pgbench");
    load.arg("-h")
        .arg(host)
        .args(["-U", "postgres", "-n", "-M", "prepared", "-c", "1", "-T", "600", "postgres"]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let counted = "SELECT coalesce(sum(calls), 0) > 20 FROM pg_stat_statements WHERE query LIKE 'UPDATE%'";
    within("the load works", || sql(server, counted) == "t");
    let before = state(server);
    let mut command = on_copy(server, &["--seconds", "3", "--rounds", "7", "--format", "json"]);
    let output = run(&mut command);
    signal(&load, libc::SIGTERM);
    load.wait().unwrap();
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
    let remarks = value["result"]["remarks"].to_string();
    assert!(remarks.contains("100 % of its execution time"), "{remarks}");
    // pgbench's five statements: three UPDATE, a SELECT, an INSERT.
    assert!(remarks.contains("load: 5 statements"), "{remarks}");
    assert_eq!(value["closed"], "undone", "{value:#}");
    assert_eq!((rest(server), state(server)), (Vec::new(), before));
    let entry = log(server).pop().expect("an entry");
    assert!(entry["target"].as_str().expect("a text").starts_with("a copy of postgres at"), "{entry:#}");
    assert_eq!(entry["switches"][0]["settings"][0]["was"], "1MB", "{entry:#}");
    assert_eq!(sql(server, "SHOW shared_buffers"), "1MB");
}

fn a_request_to_end_removes_the_copy(server: &ThrowawayServer) {
    let before = state(server);
    let mut trial = on_copy(server, &["--rounds", "500", "--minimum", "0.1"]);
    let mut trial =
        trial.args(noting_load(server)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    within("both kinds of block", || is_noted(server, " 1MB") && is_noted(server, " 64MB"));
    signal(&trial, libc::SIGTERM);
    assert_eq!(trial.wait().unwrap().code(), Some(1));
    assert_eq!((rest(server), state(server)), (Vec::new(), before));
    let notes = fs::read_to_string(server.path("notes")).unwrap();
    assert!(notes.lines().all(|line| line.contains("/copies/hardmeter-copy-")), "{notes}");
    assert_eq!(log(server).pop().expect("an entry")["note"], "ended early: interrupted");
}

/// Kills trials while they copy and while they measure; each second time the watchdog, too.
fn killed_trials_leave_no_copy(server: &ThrowawayServer) {
    let before = state(server);
    for number in 0..4 {
        let entries = log(server).len();
        fs::remove_file(server.path("notes")).unwrap_or_default();
        let mut trial = on_copy(server, &["--rounds", "500", "--minimum", "0.1"]);
        let mut trial =
            trial.args(noting_load(server)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        within("the entry is written", || log(server).len() > entries);
        if number >= 2 {
            within("the copy works", || is_noted(server, " 1MB"));
        }
        if number % 2 == 1 {
            // SAFETY: a signal to processes that this test's command started.
            watchdogs(server).into_iter().for_each(|pid| unsafe {
                libc::kill(pid, libc::SIGKILL);
            });
        }
        signal(&trial, libc::SIGKILL);
        trial.wait().unwrap();
        if number % 2 == 1 {
            succeeded(run(tune(server, &["undo", "--server"]).arg(server.folder().path())));
        }
        within("the entry is closed", || !is_open(server));
        within("the watchdog has ended", || watchdogs(server).is_empty());
        assert_eq!(rest(server), Vec::<String>::new(), "number {number}");
        assert_eq!(state(server), before, "number {number}");
    }
}

fn what_a_copy_does_not_do(server: &ThrowawayServer) {
    let refused = |words: &[&str]| {
        let mut command = tune(server, words);
        let output = run(command.arg("--server").arg(server.folder().path()));
        assert!(!output.status.success(), "{words:?}: {}", stdout(&output));
        stderr(&output)
    };
    let error = refused(&["try", "--set", "shared_buffers=64MB"]);
    assert!(error.contains("--copy DIR"), "{error}");
    let error = refused(&["try", "--set", "fsync=off", "--copy"]);
    assert!(error.contains("destroy"), "{error}");
    let error = refused(&["try", "--set", "archive_command=x", "--copy"]);
    assert!(error.contains("its own"), "{error}");
    let error = refused(&["try", "--set", "shared_buffers=64MB", "--copy", "/no/such/folder"]);
    assert!(error.contains("cannot be used for a copy"), "{error}");
    assert_eq!(rest(server), Vec::<String>::new());
}

#[test]
fn a_copy_is_made_used_and_removed() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &SETTINGS, 1) else { return };
    if !server.cluster().programs().path("pg_basebackup").exists() {
        eprintln!("skipped: pg_basebackup is not installed beside the server");
        return;
    }
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    what_a_copy_does_not_do(&server);
    the_traffic_is_replayed(&server);
    a_request_to_end_removes_the_copy(&server);
    killed_trials_leave_no_copy(&server);
}
