//! `hardmeter tune --copy`: what needs a restart is tried on a copy of the server. The copy is gone
//! afterwards, whichever process was killed; the server itself stays as it is.
//!
//! Needs PostgreSQL with pg_stat_statements, pg_basebackup beside it, and pgbench.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tuning.rs"]
mod tuning;

use common::{run, stderr, stdout, succeeded};
use server::ThrowawayServer;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tuning::{closed, json, kill_watchdogs, log, signal, sql, tune, within};

const SETTINGS: [&str; 2] = ["shared_preload_libraries=pg_stat_statements", "shared_buffers=1MB"];

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

/// A load that records which server it runs on, and the size of its buffer pool.
fn noting_load(server: &ThrowawayServer, arguments: &str) -> Vec<String> {
    let notes = server.path("notes");
    let script = format!(
        "echo $PGHOST $(psql -AtXc 'SHOW shared_buffers') >> {}; exec pgbench -n -c 1 -T 600 {arguments}",
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
    let value = json(&output);
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

/// Each look-up misses the small pool: the remedy is found, tried on a copy, and interrupted there.
fn a_run_tries_on_a_copy_and_a_request_to_end_removes_it(server: &ThrowawayServer) {
    let before = state(server);
    let script = server.path("misses.sql");
    let misses =
        "SELECT sum(abalance) FROM generate_series(1, 200) g, pgbench_accounts WHERE aid = g * 499 % 100000 + 1;";
    fs::write(&script, misses).unwrap();
    let mut run = tune(server, &["--auto", "--yes", "--seconds", "2", "--block", "0.5", "--warm-up", "0.2"]);
    run.args(["--rounds", "500", "--minimum", "0.1", "--format", "json", "--copy"]).arg(copies(server));
    run.arg("--server").arg(server.folder().path());
    let load = noting_load(server, &format!("-M prepared -f {}", script.display()));
    let run = run.args(load).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let notes = || fs::read_to_string(server.path("notes")).unwrap_or_default();
    let on_copies = |small: bool| {
        let notes = notes();
        let lines = notes.lines().filter(|line| line.contains("/copies/hardmeter-copy-"));
        lines.into_iter().any(|line| line.ends_with(" 1MB") == small)
    };
    within("both kinds of block", || on_copies(true) && on_copies(false));
    signal(&run, libc::SIGTERM);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!((rest(server), state(server)), (Vec::new(), before));
    let report = json(&output);
    assert_eq!(report["end"]["why"], "interrupted", "{report:#}");
    let step = &report["steps"][0];
    assert_eq!((&step["remedy"], &step["on_copy"]), (&"shared-buffers".into(), &true.into()), "{report:#}");
    assert!(
        step["apply"][0].as_str().expect("a text").starts_with("on a copy: shared_buffers = "),
        "{step:#}"
    );
    let pools: Vec<String> =
        notes().lines().filter(|line| !line.contains("/copies/")).map(String::from).collect();
    assert!(pools.iter().all(|line| line.ends_with(" 1MB")), "the server itself: {pools:?}");
    assert_eq!(log(server).pop().expect("an entry")["note"], "ended early: interrupted");
}

/// Kills trials while they copy and while they measure; each second time the watchdog, too.
fn killed_trials_leave_no_copy(server: &ThrowawayServer) {
    let before = state(server);
    for number in 0..4 {
        let entries = log(server).len();
        fs::remove_file(server.path("notes")).unwrap_or_default();
        let mut trial = on_copy(server, &["--rounds", "500", "--minimum", "0.1"]);
        let mut trial = trial
            .args(noting_load(server, "-S"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        within("the entry is written", || log(server).len() > entries);
        if number >= 2 {
            within("the copy works", || is_noted(server, " 1MB"));
        }
        if number % 2 == 1 {
            kill_watchdogs(server);
        }
        signal(&trial, libc::SIGKILL);
        trial.wait().unwrap();
        if number % 2 == 1 {
            succeeded(run(tune(server, &["undo", "--server"]).arg(server.folder().path())));
        }
        closed(server);
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
    a_run_tries_on_a_copy_and_a_request_to_end_removes_it(&server);
    killed_trials_leave_no_copy(&server);
}
