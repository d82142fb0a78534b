//! A real PostgreSQL's counters during a recording appear in the views as figures per transaction and per row; if
//! they are unavailable, the views give the reason. (`measure/objects/tests/live_counters.rs` compares the counters
//! with `pg_stat_database`.)
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, run, stderr, stdout, succeeded, wait_until};
use hardmeter_samples::model::Pid;
use hardmeter_samples::sidecar::Sidecar;
use serde_json::Value;
use server::ThrowawayServer;
use std::process::Output;

/// `None`, with a message, if it cannot be created.
fn server() -> Option<ThrowawayServer> {
    ThrowawayServer::new(&["pgbench", "psql"], &["autovacuum=off"], 1)
}

/// Waits until no process serves a client: a client ends before its backend does. By their titles, since a query would
/// need a backend.
fn wait_for_last_client(server: &ThrowawayServer) {
    let serves = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|title| title.contains("[local]"))
    };
    wait_until("the end of the last backend", || !server.cluster().processes().iter().any(serves));
}

/// Records the server by the timer while a shell command runs. `None`, with a message, without a timer.
fn recorded(server: &ThrowawayServer, options: &[&str], shell: &str) -> Option<Output> {
    wait_for_last_client(server);
    let mut command = hardmeter();
    command.current_dir(server.room()).envs(server.cluster().environment());
    command.args(["record", "--source", "timer", "-F", "4000", "-o", "server.data"]).args(options);
    let output = run(command.arg("--server").arg(server.folder().path()).args(["--", "sh", "-c", shell]));
    if stderr(&output).contains("cannot open event") {
        eprintln!("skipped: no timer here: {}", stderr(&output));
        return None;
    }
    Some(succeeded(output))
}

fn notes(server: &ThrowawayServer) -> Sidecar {
    Sidecar::load(&server.path("server.data")).unwrap().expect("notes")
}

/// The view's output, unfolded to one line.
fn queries(server: &ThrowawayServer, arguments: &[&str]) -> String {
    let mut command = hardmeter();
    command.args(["queries", "--full", "-i"]).arg(server.path("server.data")).args(arguments);
    stdout(&succeeded(run(&mut command)))
}

fn unfolded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn figures_are_per_transaction_and_per_row() {
    let Some(server) = server() else { return };
    if recorded(&server, &[], "pgbench -n -c 4 -t 250 >/dev/null 2>&1").is_none() {
        return;
    }
    let counted = notes(&server);
    let number =
        |name: &str| counted.workload.get(name).copied().unwrap_or_else(|| panic!("no {name}: {counted:?}"));
    // A thousand of pgbench's; five connections and two queries before them.
    assert_eq!(number("transactions"), 1007.0);
    assert_eq!(number("transactions rolled back"), 0.0);
    assert_eq!(
        [number("rows inserted"), number("rows updated"), number("rows deleted")],
        [1000.0, 3000.0, 0.0]
    );
    assert_eq!(number("rows written"), 4000.0);
    assert_eq!(
        (counted.workload_databases.as_slice(), counted.workload_limits.as_slice()),
        (&["postgres".to_string()][..], &[][..])
    );

    let report: Value =
        serde_json::from_str(&queries(&server, &["--all", "--by", "role", "--format", "json"])).unwrap();
    assert_eq!(report["workload_databases"][0], "postgres");
    let rows = report["tables"][0]["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        let events = row["events"].as_f64().unwrap();
        let per = |unit: &str| row["events_per"][unit].as_f64().unwrap_or_else(|| panic!("no {unit}: {row}"));
        for (unit, count) in
            [("transaction", 1007.0), ("row written", 4000.0), ("row returned", number("rows returned"))]
        {
            assert!((per(unit) * count - events).abs() < 1e-6 * events, "{unit}: {row}");
        }
    }
    let text = queries(&server, &["--by", "role"]);
    let head = text.lines().find(|line| line.contains("interval")).expect("a table");
    assert!(head.contains("per transaction  per row returned  per row written"), "{head}");
    let text = unfolded(&text);
    assert!(text.contains("workload 1,007 transactions, "), "{text}");
    assert!(
        text.contains("4,000 rows written (1,000 inserted, 3,000 updated, 0 deleted), in database postgres"),
        "{text}"
    );

    // A workload that only reads has no figure per row written.
    recorded(&server, &[], "pgbench -S -n -c 4 -t 1000 >/dev/null 2>&1");
    let counted = notes(&server);
    assert_eq!((counted.workload["transactions"], counted.workload["rows written"]), (4007.0, 0.0));
    assert!(!queries(&server, &["--by", "role"]).contains("per row written"));

    // A client that stays connected may have reported fewer than it has counted.
    let stays = "psql -Atc 'SELECT pg_sleep(600)' >/dev/null 2>&1 & \
                 until [ \"$(psql -Atc \"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'\")\" = 1 ]; \
                 do sleep 0.1; done; pgbench -S -n -c 4 -t 1000 >/dev/null 2>&1; exit 0";
    recorded(&server, &[], stays);
    let told = "1 client backend was connected when they began or ended";
    assert!(
        unfolded(&queries(&server, &["--by", "role"])).contains(told),
        "{:?}",
        notes(&server).workload_limits
    );
}

#[test]
fn where_there_are_no_figures_the_view_says_why() {
    let Some(server) = server() else { return };
    let load = "pgbench -S -n -c 2 -t 1000 >/dev/null 2>&1";
    if recorded(&server, &["--no-objects"], load).is_none() {
        return;
    }
    assert_eq!(notes(&server).workload.len(), 0);
    let told = unfolded(&queries(&server, &["--by", "role"]));
    assert!(
        told.contains("no figures per transaction and row: what the server counted is not in this capture"),
        "{told}"
    );

    // A crash during the recording: earlier values are invalid, and counters start again.
    // Until the postmaster detects the crash it accepts connections; then it ends all its processes.
    let crash = "writer=$(psql -Atc \"SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'\"); \
                 psql -Atc 'SELECT pg_sleep(600)' >/dev/null 2>&1 & \
                 until pid=$(psql -Atc \"SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'\"); [ \"$pid\" ]; \
                 do sleep 0.1; done; kill -9 $pid; wait; \
                 while kill -0 $writer 2>/dev/null; do sleep 0.1; done; until psql -Atc 'SELECT 1' >/dev/null 2>&1; do sleep 0.1; done; \
                 pgbench -S -n -c 2 -t 2000 >/dev/null 2>&1";
    let output = recorded(&server, &[], crash).expect("a timer");
    let told = "the server restarted while it was recorded, as after the crash of a backend";
    assert!(unfolded(&stderr(&output)).contains(told), "{}", stderr(&output));
    assert_eq!(notes(&server).workload.len(), 0);
    let text = unfolded(&queries(&server, &["--by", "role"]));
    assert!(text.contains(told) && text.contains("no figures per transaction and row"), "{text}");

    // Resets the server's own statistics.
    let reset = format!("psql -Atc 'SELECT pg_stat_reset()' >/dev/null; {load}");
    let output = recorded(&server, &[], &reset).expect("a timer");
    let told = "statistics were reset while it was recorded (pg_stat_reset)";
    assert!(unfolded(&stderr(&output)).contains(told), "{}", stderr(&output));
    let text = unfolded(&queries(&server, &["--by", "role"]));
    assert!(text.contains(told), "{text}");
}
