//! `hardmeter tune try --restart`: the server itself is restarted for each block, and runs with the settings of before
//! afterwards: when it does not start with the change, and whichever process was killed.
//!
//! Needs PostgreSQL with pg_stat_statements, and pgbench.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tuning.rs"]
mod tuning;

use common::{run, stderr, stdout, succeeded};
use server::ThrowawayServer;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tuning::{closed, is_open, json, kill_watchdogs, log, on_server, signal, sql, within};

const SETTINGS: [&str; 1] = ["shared_preload_libraries=pg_stat_statements"];

/// A trial with restarts, with blocks as short as they can be.
fn restarting(server: &ThrowawayServer, setting: &str, rounds: &str) -> Command {
    restarting_by(server, setting, rounds, "--restart")
}

fn restarting_by(server: &ThrowawayServer, setting: &str, rounds: &str, restart: &str) -> Command {
    let mut command = on_server(server, &["try", "--set", setting, restart, "--yes", "--rounds", rounds]);
    command.args(["--block", "0.5", "--settle", "0.1", "--warm-up", "0.2", "--format", "json", "--"]);
    command.args(["pgbench", "-n", "-S", "-c", "1", "-T", "600"]);
    command
}

fn background(server: &ThrowawayServer) -> Child {
    let mut command = restarting(server, "wal_buffers=2MB", "500");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn configuration(server: &ThrowawayServer) -> String {
    fs::read_to_string(server.folder().data().join("postgresql.auto.conf")).unwrap()
}

/// All settings with their sources, and the lines of ALTER SYSTEM.
fn state(server: &ThrowawayServer) -> (String, String) {
    let settings =
        "SELECT string_agg(concat_ws(' ', name, setting, source), ',' ORDER BY name) FROM pg_settings";
    (sql(server, settings), configuration(server))
}

fn each_block_restarts_and_all_is_undone(server: &ThrowawayServer) {
    let before = state(server);
    let started = sql(server, "SELECT pg_postmaster_start_time()");
    let output = run(&mut restarting(server, "wal_buffers=2MB", "7"));
    let value = json(&output);
    assert_eq!(value["closed"], "undone", "{value:#}{}", stderr(&output));
    assert!(value["result"]["remarks"].to_string().contains("restarted for each block"), "{value:#}");
    let primary = &value["result"]["gauges"][0];
    assert!(primary["found"].as_f64().unwrap() > 0.0 && primary["changed"].as_f64().unwrap() > 0.0);
    assert_ne!(started, sql(server, "SELECT pg_postmaster_start_time()"));
    let entry = log(server).pop().expect("an entry");
    let switch = &entry["switches"][0];
    assert_eq!((&switch["kind"], &switch["settings"][0]["value"]), (&"restart".into(), &"2MB".into()));
    assert_eq!(state(server), before);
}

/// Without huge pages in the kernel the server does not start with `huge_pages = on`.
fn a_server_that_does_not_start_is_brought_back(server: &ThrowawayServer) {
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    if !memory.lines().any(|line| line.starts_with("HugePages_Total:") && line.ends_with(" 0")) {
        eprintln!("skipped: this machine has huge pages");
        return;
    }
    let before = state(server);
    let output = run(&mut restarting(server, "huge_pages=on", "7"));
    assert_eq!(output.status.code(), Some(1));
    for words in ["the server was not restarted by", "the server is as it was before"] {
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    assert_eq!(state(server), before);
}

fn a_killed_trial_is_undone_by_its_watchdog(server: &ThrowawayServer) {
    let before = state(server);
    for moment in [300, 1700, 2900] {
        let mut trial = background(server);
        within("an entry is open", || is_open(server));
        std::thread::sleep(std::time::Duration::from_millis(moment));
        signal(&trial, libc::SIGKILL);
        trial.wait().unwrap();
        closed(server);
        assert_eq!(state(server), before, "killed {moment} ms after the begin");
    }
}

/// A command that restarts the server. The first time with the change it does `action`, and stops its tuner.
fn stopping(server: &ThrowawayServer, mark: &Path, action: &str) -> String {
    let (folder, data) = (server.folder(), server.folder().data());
    let program = format!("{} --quiet server", env!("CARGO_BIN_EXE_hardmeter"));
    let restart =
        format!("{program} stop --dir {dir} && {program} start --dir {dir}", dir = folder.path().display());
    let action = action.replace("RESTART", &restart).replace("DATA", &data.display().to_string());
    format!(
        "--restart=if grep -q wal_buffers {}/postgresql.auto.conf && mkdir {}; \
         then {action}; kill -STOP $PPID; exit 1; fi; {restart}",
        data.display(),
        mark.display()
    )
}

/// Starts a trial, and waits until the command that restarts the server has stopped it.
fn stopped(server: &ThrowawayServer, name: &str, action: &str) -> Child {
    let mark = server.path(name);
    let restart = stopping(server, &mark, action);
    let mut command = restarting_by(server, "wal_buffers=2MB", "500", &restart);
    let trial = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stat = format!("/proc/{}/stat", trial.id());
    within("the tuner is stopped", || fs::read_to_string(&stat).unwrap().contains(") T "));
    assert!(mark.is_dir() && configuration(server).contains("wal_buffers = '2MB'"));
    trial
}

fn kill(mut trial: Child) {
    signal(&trial, libc::SIGKILL);
    trial.wait().unwrap();
}

const KILL: &str = "kill -9 $(head -n 1 DATA/postmaster.pid)";

fn a_server_that_was_killed_with_its_tuner_is_started_as_before(server: &ThrowawayServer) {
    let before = state(server);
    kill(stopped(server, "by_its_watchdog", KILL));
    closed(server);
    assert_eq!(state(server), before, "by the watchdog");

    let trial = stopped(server, "by_undo", KILL);
    kill_watchdogs(server);
    kill(trial);
    assert!(is_open(server) && !server.cluster().is_running());
    // Until it is reaped, PostgreSQL takes its process for a server that runs.
    let file = fs::read_to_string(server.folder().data().join("postmaster.pid")).unwrap();
    let process = Path::new("/proc").join(file.lines().next().unwrap());
    within("the killed server is reaped", || !process.exists());
    let text = stdout(&succeeded(run(&mut on_server(server, &["undo"]))));
    assert!(text.contains("wal_buffers=2MB"), "{text}");
    assert_eq!(state(server), before, "by tune undo");
}

fn a_change_is_undone_from_another_database(server: &ThrowawayServer) {
    let before = state(server);
    let trial = stopped(server, "restarted", "RESTART");
    kill_watchdogs(server);
    kill(trial);
    assert_eq!(sql(server, "SHOW wal_buffers"), "2MB");
    succeeded(run(&mut on_server(server, &["undo", "--database", "template1"])));
    assert!(!is_open(server));
    assert_eq!(state(server), before);
}

fn a_restart_that_would_do_more_is_refused(server: &ThrowawayServer) {
    let before = state(server);
    let refused = |said: &str| {
        let output = run(&mut on_server(server, &["try", "--set", "wal_buffers=2MB", "--restart"]));
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    };
    sql(server, "ALTER SYSTEM SET max_files_per_process = 900");
    sql(server, "SELECT pg_reload_conf()");
    let pending = "SELECT count(*) FROM pg_settings WHERE pending_restart";
    within("the server has read its files", || sql(server, pending) == "1");
    refused("a restart would also change max_files_per_process");
    sql(server, "ALTER SYSTEM RESET max_files_per_process");
    sql(server, "SELECT pg_reload_conf()");
    let output = run(&mut on_server(server, &["try", "--set", "wal_buffers=2MB", "--restart"]));
    assert!(stdout(&succeeded(output)).contains("Nothing was changed."), "the mark stays until a restart");
    let file = server.folder().data().join("postgresql.conf");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}\nwork_mem = much\n")).unwrap();
    refused("work_mem: ");
    fs::write(&file, text).unwrap();
    assert_eq!(state(server), before);
}

fn a_server_that_was_left_down_is_started_by_undo(server: &ThrowawayServer) {
    let before = state(server);
    let trial = stopped(server, "left_down", "true");
    kill_watchdogs(server);
    kill(trial);
    server.cluster().stop(&|_| {}).unwrap();
    assert!(configuration(server).contains("wal_buffers"), "{}", configuration(server));
    let text = stdout(&succeeded(run(&mut on_server(server, &["undo"]))));
    assert!(text.contains("wal_buffers=2MB"), "{text}");
    assert_eq!(state(server), before);
    assert_eq!(log(server).pop().expect("an entry")["closed"], "undone");
}

fn what_needs_no_restart_is_refused(server: &ThrowawayServer) {
    for (words, status, said) in [
        (["--set", "work_mem=9MB", "--restart"], 1, "work_mem needs no restart"),
        (["--set", "fsync=off", "--restart"], 1, "destroy"),
        (["--set", "wal_buffers=2MB", "--warm-up=1"], 2, "--restart"),
        (["--set", "shared_buffers=9MB", "--restart"], 1, "the server was started with it"),
        (["--set", "wal_buffers=2MB", "--settle=1"], 1, "on the server itself: --restart"),
    ] {
        let output = run(on_server(server, &["try"]).args(words));
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{words:?}: {}", stderr(&output));
    }
    let text = stdout(&succeeded(run(&mut on_server(
        server,
        &["try", "--set", "wal_buffers=2MB", "--restart=systemctl restart pg"],
    ))));
    for part in
        ["ALTER SYSTEM SET wal_buffers = '2MB';", "restart: systemctl restart pg", "Nothing was changed."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_setting_is_tried_with_restarts() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &SETTINGS, 1) else { return };
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    what_needs_no_restart_is_refused(&server);
    each_block_restarts_and_all_is_undone(&server);
    a_server_that_does_not_start_is_brought_back(&server);
    a_killed_trial_is_undone_by_its_watchdog(&server);
    a_server_that_was_left_down_is_started_by_undo(&server);
    a_server_that_was_killed_with_its_tuner_is_started_as_before(&server);
    a_change_is_undone_from_another_database(&server);
    a_restart_that_would_do_more_is_refused(&server);
}
