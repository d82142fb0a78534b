//! Misses of a real PostgreSQL by statement, operator and phase.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, run, stdout, succeeded};
use serde_json::Value;
use server::ObservedServer;

fn queries(server: &ObservedServer, arguments: &[&str]) -> Value {
    let mut command = hardmeter();
    command
        .args(["queries", "--format", "json", "--all", "-i"])
        .arg(server.path("server.data"))
        .args(arguments);
    serde_json::from_str(&stdout(&succeeded(run(&mut command)))).unwrap()
}

/// Number of an event's samples in rows whose value in `column` passes.
fn count(report: &Value, event: &str, column: &str, passes: impl Fn(&str) -> bool) -> u64 {
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["event"] == event).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let passing = rows.iter().filter(|row| row[column].as_str().is_some_and(&passes));
    passing.map(|row| row["count"].as_u64().unwrap()).sum()
}

#[test]
fn nearly_every_sample_of_a_backend_has_its_statement() {
    let Some(server) = ObservedServer::new(1) else { return };
    // The server's own id of a statement, from EXPLAIN, which has the id of the explained command, independent of
    // constants.
    let told = server
        .cluster()
        .query(
            "SET compute_query_id = on; \
             EXPLAIN (VERBOSE) SELECT abalance FROM pgbench_accounts WHERE aid = 1",
        )
        .unwrap();
    let query_id =
        told.lines().find_map(|line| line.trim().strip_prefix("Query Identifier: ")).expect("a number");
    let pgbench = "PGOPTIONS='-c compute_query_id=on' pgbench -n -c 10 -t 100 >/dev/null 2>&1";
    succeeded(run(&mut server.recorder("server.data", pgbench)));
    let report = queries(&server, &[]);
    let share = &report["coverage"]["statement_share"];
    eprintln!("{} of {} samples of backends carry a statement", share["count"], share["of"]);
    assert!(share["of"].as_u64().unwrap() > 1000, "{share}");
    assert!(share["fraction"].as_f64().unwrap() >= 0.95, "{share}");
    for table in report["tables"].as_array().unwrap() {
        let rows = table["rows"].as_array().unwrap();
        let sum: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), table["samples"].as_u64(), "{} adds up", table["event"]);
    }
    // pgbench's transaction: three updates, a query, an insert, all without constants.
    for beginning in [
        "update pgbench_accounts",
        "update pgbench_tellers",
        "select abalance",
        "insert into pgbench_history",
    ] {
        let of = count(&report, "l2-miss", "statement", |text| text.starts_with(beginning));
        assert!(of > 0, "{beginning}");
        let with_constants = count(&report, "l2-miss", "statement", |text| {
            text.starts_with(beginning) && text.contains(|c: char| c.is_ascii_digit())
        });
        assert_eq!(with_constants, 0, "{beginning}");
    }
    let rows =
        report["tables"].as_array().unwrap().iter().flat_map(|table| table["rows"].as_array().unwrap());
    let selects =
        rows.filter(|row| row["statement"].as_str().is_some_and(|text| text.starts_with("select abalance")));
    let numbers: Vec<&str> = selects.map(|row| row["query_id"].as_str().expect("a number")).collect();
    assert!(
        !numbers.is_empty() && numbers.iter().all(|number| *number == query_id),
        "{numbers:?} {query_id}"
    );
    // Only its index leads to an account; a modification runs above the scan that finds the row.
    let operators = queries(&server, &["--by", "statement,operator"]);
    let scans = |statement: &str, operator: &str| {
        let tables = operators["tables"].as_array().unwrap();
        let rows = tables.iter().flat_map(|table| table["rows"].as_array().unwrap());
        let of = rows.filter(|row| {
            row["statement"].as_str().is_some_and(|text| text.starts_with(statement))
                && row["operator"] == operator
        });
        of.map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(scans("select abalance", "Index Scan") > 0);
    assert_eq!(scans("select abalance", "Modify Table"), 0, "a query modifies nothing");
    assert!(scans("update pgbench_accounts", "Modify Table") > 0);
    let phases = queries(&server, &["--by", "phase"]);
    for phase in ["parse", "plan", "execute"] {
        assert!(count(&phases, "l2-miss", "phase", |text| text == phase) > 0, "{phase}");
    }
}
