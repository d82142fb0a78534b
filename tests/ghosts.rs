//! `record --ghosts`: misses of a running PostgreSQL, by following its backends.
//!
//! Needs hardmeter-ghost (`make build`) and the right to trace the server: root, or its user where Yama allows it.
//! Otherwise skipped with a message.

#![cfg(target_arch = "x86_64")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, refuses_to_follow, run, stderr, stdout, succeeded};
use hardmeter_samples::sidecar::Sidecar;
use serde_json::Value;
use server::ThrowawayServer;
use std::path::Path;
use std::process::{Command, Output};

/// A recording; `None`, with a message, if processes may not be followed here.
fn recorded(command: &mut Command) -> Option<Output> {
    let output = run(command);
    let said = stderr(&output);
    if refuses_to_follow(&said) {
        eprintln!("skipped: {said}");
        return None;
    }
    Some(succeeded(output))
}

fn view(capture: &Path, name: &str, arguments: &[&str]) -> Value {
    let mut command = hardmeter();
    command.args([name, "--format", "json", "-i"]).arg(capture).args(arguments);
    serde_json::from_slice(&succeeded(run(&mut command)).stdout).expect("JSON")
}

/// The row of a table with the largest number in a column.
fn most(table: &Value, column: &str) -> Value {
    let rows = table["rows"].as_array().expect("rows").iter();
    rows.max_by_key(|row| row[column].as_u64().expect("a number")).expect("a row").clone()
}

/// A table of 40 MB, far larger than the simulated caches, is read from end to end: its pages must lead.
#[test]
fn the_table_that_a_running_query_reads_leads_in_objects() {
    let settings = ["shared_buffers=256MB", "autovacuum=off", "jit=off", "max_parallel_workers_per_gather=0"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 1) else { return };
    let psql = |sql: &str| {
        let mut command = Command::new("psql");
        command.envs(server.cluster().environment()).args(["-qAtX", "-c", sql]);
        stdout(&succeeded(run(&mut command)))
    };
    psql(
        "CREATE TABLE wide AS SELECT i AS key, repeat('x', 300) AS filler FROM generate_series(1, 110000) i",
    );
    psql("VACUUM ANALYZE wide");
    let script = server.path("scan.sql");
    std::fs::write(&script, "SELECT sum(key) FROM wide;\n").expect("writable");
    let capture = server.path("ghosts.data");
    let mut command = hardmeter();
    command.current_dir(server.room()).envs(server.cluster().environment());
    // Events are named without `stall`: time is not sampled, and nothing but ghosts is needed.
    command.args(["record", "--ghosts", "-e", "l1d-miss,l2-miss,stlb-miss", "--machine", "xeon-2003", "-o"]);
    command.arg(&capture).arg("--server").arg(server.folder().path());
    let Some(output) =
        recorded(command.args(["--", "pgbench", "-n", "-c", "1", "-T", "8", "-f"]).arg(&script))
    else {
        return;
    };
    assert!(stderr(&output).contains("source live (running processes are followed"), "{}", stderr(&output));

    let objects = view(&capture, "objects", &["--by", "name", "--all"]);
    let table = |event: &str| {
        let tables = objects["tables"].as_array().expect("tables").iter();
        tables.clone().find(|table| table["event"] == event).expect("the event's table").clone()
    };
    let misses = table("l2-miss");
    let first = most(&misses, "count");
    assert_eq!((&first["class"], &first["name"]), (&"table".into(), &"public.wide".into()), "{misses}");
    let (count, all) = (first["count"].as_u64().unwrap(), misses["samples"].as_u64().unwrap());
    assert!(count * 2 > all, "{count} of {all} misses are the table's");

    let texts: Vec<String> =
        Sidecar::load(&capture).unwrap().unwrap().statements.into_iter().map(|one| one.text).collect();
    assert!(texts.iter().any(|text| text == "select sum(key) from wide"), "{texts:?}");
    let queries = view(&capture, "queries", &["--event", "l2-miss"]);
    let rows = queries["tables"][0]["rows"].as_array().expect("rows");
    let of = |row: &&Value| row["share"]["count"].as_u64().expect("a count");
    let first = rows.iter().max_by_key(of).expect("a statement");
    assert_eq!(first["statement"], "select sum(key) from wide");

    // A part of the CPU time was followed, and no process twice at the same time.
    let notes = Sidecar::load(&capture).unwrap().unwrap();
    let ghosts = notes.ghosts.expect("of a recording with ghosts");
    assert!(ghosts.kept_ns > 0 && ghosts.kept_ns <= ghosts.stood_for_ns, "{ghosts:?}");
    assert!(ghosts.stretches.total() > 0 && ghosts.pauses.n > 0, "{ghosts:?}");
    assert_eq!(ghosts.watchdog, 0);
    let instructions = notes.counts["instructions"];
    let kept = ghosts.checked_instructions + ghosts.unchecked_instructions;
    assert!(instructions >= kept, "{instructions} are scaled from {kept}");
    // Each row of 300 bytes is on lines of its own.
    assert!(notes.counts["l2-miss"] > 0 && notes.counts["loads"] > notes.counts["l1d-miss"]);

    // Causes are simulated, and the quality is one line of each heading.
    let why = stdout(&succeeded(run(hardmeter().args(["why", "-i"]).arg(&capture))));
    assert!(why.contains("capacity"), "{why}");
    let quality = succeeded(run(hardmeter().args(["report", "--quality", "-i"]).arg(&capture)));
    let text = stdout(&quality).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("stretches ended as the server's did"), "{text}");
    assert!(text.contains("counts are scaled to all of it"), "{text}");
    let page = server.path("page.html");
    succeeded(run(hardmeter().args(["report", "--html"]).arg(&page).arg("-i").arg(&capture)));
    assert!(std::fs::read_to_string(&page).expect("a page").contains("public.wide"));
}

#[test]
fn what_ghosts_cannot_follow_has_a_remedy() {
    for (arguments, cause, remedy) in [
        (
            &["record", "--ghosts", "--", "true"][..],
            "follows processes that run already",
            "--source simulated",
        ),
        (&["record", "--ghosts", "--source", "timer", "-p", "1"], "needs source live", "leave --source out"),
        (
            &["record", "--ghosts", "-e", "cycles", "-p", "1"],
            "does not know the event cycles",
            "hardmeter events",
        ),
        (&["record", "--ghosts", "-e", "stall", "-p", "1"], "no event is named", "l2-miss"),
    ] {
        let output = run(hardmeter().args(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(cause) && said.contains(remedy), "{arguments:?}: {said}");
    }
}
