//! `hardmeter tune try` on a throwaway PostgreSQL: finds and undoes a planted fault, reports no gain for a
//! change without effect, and leaves the server's original settings after any kill.
//!
//! Needs PostgreSQL with pg_stat_statements, and pgbench. The trials share one server and run one after the
//! other.

mod common;
#[path = "common/server.rs"]
mod server;
#[path = "common/tuning.rs"]
mod tuning;

use common::{run, stderr, stdout, succeeded};
use hardmeter_servers::StartOptions;
use serde_json::Value;
use server::ThrowawayServer;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tuning::{closed, is_open, json, kill_watchdogs, log, on_server, signal, sql, tune, within};

const SETTINGS: [&str; 1] = ["shared_preload_libraries=pg_stat_statements"];
const SHORT: [&str; 6] = ["--block", "1", "--settle", "0.4", "--seconds", "3"];
const JIT: &str = "SELECT sum(abalance * 2), avg(bid + 1) FROM pgbench_accounts WHERE aid < 3000;";

/// A trial under pgbench, as JSON.
fn tried(server: &ThrowawayServer, words: &[&str], script: &str, mode: &str) -> (Value, Output) {
    let file = server.path("load.sql");
    fs::write(&file, script).unwrap();
    let mut command = on_server(server, &["try"]);
    command.args(words).args(SHORT).args(["--yes", "--format", "json", "--"]);
    command.args(["pgbench", "-n", "-c", "2", "-T", "600", "-M", mode, "-f"]).arg(file);
    let output = run(&mut command);
    (json(&output), output)
}

/// Everything that a trial may change: settings with their sources, the lines of ALTER SYSTEM, indexes, schemas.
fn state(server: &ThrowawayServer) -> Vec<String> {
    let file = fs::read_to_string(server.folder().data().join("postgresql.auto.conf")).unwrap();
    let mut lines: Vec<&str> = file.lines().collect();
    lines.sort_unstable();
    let mut state = vec![lines.join("\n")];
    for query in [
        "SELECT string_agg(concat_ws(' ', name, setting, source), ',' ORDER BY name) FROM pg_settings",
        "SELECT string_agg(s::text, ',' ORDER BY s::text) FROM pg_db_role_setting s",
        "SELECT string_agg(concat_ws(' ', indexrelid, indisvalid), ',' ORDER BY indexrelid) FROM pg_index",
        "SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace",
    ] {
        state.push(sql(server, query));
    }
    state
}

fn jit_is_proven_and_undone(server: &ThrowawayServer) {
    if sql(server, "SELECT pg_jit_available()") != "t" {
        eprintln!("skipped: this PostgreSQL has no just-in-time compilation");
        return;
    }
    for name in ["jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"] {
        sql(server, &format!("ALTER DATABASE postgres SET {name} = 0"));
    }
    let before = state(server);
    let entries = log(server).len();
    // Prepared statements keep their plans: without replanning at each switch the blocks would not differ.
    let (value, output) = tried(server, &["jit"], JIT, "prepared");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(value["result"]["verdict"], "better", "{value:#}");
    assert_eq!(value["closed"], "undone");
    let primary = &value["result"]["gauges"][0];
    assert_eq!((&primary["measure"], &primary["decides"]), (&"latency".into(), &true.into()));
    assert!(primary["change"].as_f64().expect("a change") < -0.5, "{value:#}");
    assert!(primary["interval"]["high"].as_f64().expect("an end") < 0.0, "{value:#}");
    assert_eq!(before, state(server));

    let log = log(server);
    assert_eq!(log.len(), entries + 1);
    let entry = log.last().expect("an entry");
    assert_eq!((&entry["remedy"], &entry["closed"]), (&"jit".into(), &"undone".into()));
    assert!(entry["predicted"].as_f64().expect("a prediction") > 0.5, "{entry:#}");
    let text = stdout(&succeeded(run(&mut tune(server, &["log"]))));
    assert!(text.contains("jit     better"), "{text}");
    for name in ["jit_above_cost", "jit_inline_above_cost", "jit_optimize_above_cost"] {
        sql(server, &format!("ALTER DATABASE postgres RESET {name}"));
    }
}

fn nothing_is_no_gain(server: &ThrowawayServer) {
    let before = state(server);
    let script = "SELECT abalance FROM pgbench_accounts WHERE aid = 5;";
    let words = ["--set", "cursor_tuple_fraction=0.2", "--minimum", "20"];
    let (value, _) = tried(server, &words, script, "simple");
    assert_ne!(value["result"]["verdict"], "better", "{value:#}");
    assert_eq!((&value["closed"], state(server)), (&"undone".into(), before));
}

fn an_index_is_kept_and_undone_later(server: &ThrowawayServer) {
    sql(
        server,
        "CREATE TABLE ox AS SELECT i AS id, i % 20000 AS cust, repeat('x', 50) AS pad FROM generate_series(1, 200000) i",
    );
    sql(server, "VACUUM ANALYZE ox");
    let before = state(server);
    let script = "\\set cust random(0, 19999)\nSELECT id FROM ox WHERE cust = :cust;";
    let (value, _) = tried(server, &["missing-index", "--keep"], script, "prepared");
    assert_eq!(value["result"]["verdict"], "better", "{value:#}");
    assert_eq!(value["closed"], "kept");
    let valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'ox_cust_idx'::regclass";
    assert_eq!(sql(server, valid), "t");
    let entry = value["entry"].to_string();
    let undone = stdout(&succeeded(run(&mut on_server(server, &["undo", &entry]))));
    assert!(undone.contains("undone: DROP INDEX CONCURRENTLY IF EXISTS public.ox_cust_idx;"), "{undone}");
    assert_eq!(before, state(server));
    sql(server, "DROP TABLE ox");
}

fn a_line_of_another_session_survives(server: &ThrowawayServer) {
    let mut trial = background(server, "random_page_cost=1.5");
    within("an entry is open", || is_open(server));
    sql(server, "ALTER SYSTEM SET random_page_cost = '2.5'");
    let status = trial.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    let entry = log(server).pop().expect("an entry");
    assert_eq!(entry["closed"], "foreign", "{entry:#}");
    let file = fs::read_to_string(server.folder().data().join("postgresql.auto.conf")).unwrap();
    assert!(file.contains("random_page_cost = '2.5'"), "{file}");
    sql(server, "ALTER SYSTEM RESET random_page_cost");
    sql(server, "SELECT pg_reload_conf()");
}

/// A trial of a setting in the background, under an existing load or none. It needs no observation and no
/// verdict.
fn background(server: &ThrowawayServer, setting: &str) -> Child {
    let mut command =
        on_server(server, &["try", "--set", setting, "--yes", "--block", "0.5", "--settle", "0.1"]);
    command.args([
        "--rounds",
        "500",
        "--minimum",
        "0.1",
        "--",
        "pgbench",
        "-n",
        "-S",
        "-c",
        "1",
        "-T",
        "600",
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills trials at moments between their start and six seconds later. Each third time it kills the watchdog
/// as well, each fifth time the server. A hundred of them: `bench/tune/run --only kills`.
fn killed_trials_leave_nothing(server: &ThrowawayServer) {
    sql(server, "ALTER SYSTEM SET work_mem = '5MB'");
    sql(server, "SELECT pg_reload_conf()");
    within("the setting", || sql(server, "SHOW work_mem") == "5MB");
    let before = state(server);
    let mut open = 0;
    for number in 1..=10 {
        // Multiples of the golden ratio are spread evenly, however many there are.
        let moment = (f64::from(number) * 0.618_034).fract() * 6.0;
        let mut trial = background(server, "work_mem=64MB");
        sleep(Duration::from_secs_f64(moment));
        if number % 3 == 0 {
            kill_watchdogs(server);
        }
        signal(&trial, libc::SIGKILL);
        trial.wait().unwrap();
        if number % 5 == 0 {
            let mut cluster = server.cluster();
            cluster.stop(&|_| {}).unwrap();
            cluster.start(&StartOptions::default(), &|_| {}).unwrap();
        }
        open += u32::from(is_open(server));
        if number % 3 == 0 {
            succeeded(run(&mut on_server(server, &["undo"])));
        }
        closed(server);
        // A reload takes a moment to reach a session.
        let end = Instant::now() + Duration::from_secs(120);
        while state(server) != before && Instant::now() < end {
            sleep(Duration::from_millis(50));
        }
        assert_eq!(state(server), before, "killed after {moment:.2} s, number {number}");
    }
    eprintln!("ten trials killed, {open} of them seen open afterwards");
    sql(server, "ALTER SYSTEM RESET work_mem");
    sql(server, "SELECT pg_reload_conf()");
}

fn a_request_to_end_undoes_at_once(server: &ThrowawayServer) {
    let before = state(server);
    let mut trial = background(server, "work_mem=64MB");
    within("the setting is changed", || sql(server, "SHOW work_mem") == "64MB");
    signal(&trial, libc::SIGTERM);
    assert_eq!(trial.wait().unwrap().code(), Some(1));
    assert_eq!(before, state(server));
    let entry = log(server).pop().expect("an entry");
    assert_eq!((&entry["closed"], &entry["note"]), (&"undone".into(), &"ended early: interrupted".into()));
}

#[test]
fn remedies_are_proven_and_undone() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &SETTINGS, 2) else { return };
    sql(&server, "CREATE EXTENSION pg_stat_statements");
    sql(&server, "ALTER SYSTEM SET maintenance_work_mem = '99MB'");
    sql(&server, "SELECT pg_reload_conf()");
    within("the setting", || sql(&server, "SHOW maintenance_work_mem") == "99MB");
    jit_is_proven_and_undone(&server);
    nothing_is_no_gain(&server);
    an_index_is_kept_and_undone_later(&server);
}

#[test]
fn whatever_is_killed_the_server_is_as_before() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &SETTINGS, 1) else { return };
    a_request_to_end_undoes_at_once(&server);
    a_line_of_another_session_survives(&server);
    killed_trials_leave_nothing(&server);
}

#[test]
fn rights_settings_and_arguments_are_checked_before_anything_is_changed() {
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &[], 1) else { return };
    let before = state(&server);
    let refused = |command: &mut Command, code: i32, words: &[&str]| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{word}: {}", stderr(&output));
        }
    };
    refused(&mut on_server(&server, &["try"]), 2, &["REMEDY"]);
    refused(&mut on_server(&server, &["try", "jit", "--keep"]), 2, &["--yes"]);
    refused(
        &mut on_server(&server, &["try", "turbo"]),
        1,
        &["no remedy is named turbo", "remedy: name one of "],
    );
    refused(
        &mut on_server(&server, &["try", "--set", "fsync=off"]),
        1,
        &["fsync may not be tried", "destroy"],
    );
    refused(&mut on_server(&server, &["try", "--set", "work_mem"]), 1, &["NAME=VALUE"]);
    refused(&mut on_server(&server, &["try", "--set", "work_mem=much"]), 1, &["refuses work_mem = 'much'"]);
    refused(&mut on_server(&server, &["try", "--set", "work_mem=4MB"]), 1, &["work_mem is 4MB already"]);
    refused(&mut on_server(&server, &["undo", "7"]), 1, &["no entry 7"]);

    sql(&server, "CREATE ROLE plain LOGIN");
    let socket = server.cluster().state().socket_folder.display().to_string();
    let mut as_plain = tune(&server, &["try", "--set", "work_mem=9MB", "--url"]);
    as_plain.arg(format!("host={socket} user=plain dbname=postgres"));
    let grant = "GRANT ALTER SYSTEM ON PARAMETER work_mem TO \"plain\"";
    refused(&mut as_plain, 1, &["the role plain may not change work_mem for the server", grant]);

    sql(&server, "ALTER DATABASE postgres SET work_mem = '7MB'");
    let words = ["try", "--set", "work_mem=9MB"];
    refused(&mut on_server(&server, &words), 1, &["the database postgres has its own value", "--per-block"]);
    sql(&server, "ALTER DATABASE postgres RESET work_mem");

    // A dry run prints the change and how it is undone.
    let text = stdout(&succeeded(run(&mut on_server(&server, &words))));
    for part in ["ALTER SYSTEM SET work_mem = '9MB';", "ALTER SYSTEM RESET work_mem;", "Nothing was changed."]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Without a load there is nothing to measure.
    let idle = ["try", "--set", "work_mem=9MB", "--yes", "--block", "0.5", "--settle", "0.1"];
    refused(
        &mut on_server(&server, &idle),
        1,
        &["no statement of the load", "the server is as it was before"],
    );
    assert_eq!(before, state(&server));
    let nothing = stdout(&succeeded(run(&mut on_server(&server, &["undo"]))));
    assert_eq!(nothing, "Nothing is open on this server.\n");
}
