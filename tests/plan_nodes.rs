//! Events by plan node, for core's operators and for those of the extension ccopt.
//!
//! A real PostgreSQL and the extension as it was built (`make -C plan`), which a session loads for itself: no other
//! process of the server has it. Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, have, run, stderr, stdout, succeeded, tests_folder};
use serde_json::Value;
use server::ThrowawayServer;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

/// Six groups of 30,000 rows; sums and averages of exact numbers.
const TABLE: &str = "CREATE TABLE sales AS SELECT g AS id, g % 6 AS shop, \
                     ((g % 9973)::numeric / 100)::numeric(12,2) AS price, \
                     ((g % 11)::numeric / 100)::numeric(12,2) AS discount, date '2024-01-01' + g % 700 AS day \
                     FROM generate_series(1, 30000) g; VACUUM (FREEZE, ANALYZE) sales";
const QUERY: &str = "SELECT shop, count(*), sum(price * (1 - discount)), avg(price) FROM sales \
                     WHERE day <= date '2025-09-01' GROUP BY shop";
/// The beginning of the statement in views.
const STATEMENT: &str = "select shop,";

/// The extension for a server of this version; prints if it was not built.
fn extension(major: &str) -> Option<PathBuf> {
    let built = tests_folder().join("../build/plan").join(major).join("ccopt.so");
    let built = std::env::var_os("HARDMETER_TEST_CCOPT").map_or(built, PathBuf::from);
    if !built.exists() {
        eprintln!(
            "skipped: {} is not there; make -C plan builds it, where the server's headers are installed \
             (postgresql-server-dev-{major})",
            built.display()
        );
        return None;
    }
    Some(built)
}

/// A server with the table, and the extension where the server's account can read it.
struct Shop {
    server: ThrowawayServer,
    library: PathBuf,
}

impl Shop {
    fn new(settings: &[&str]) -> Option<Shop> {
        let all: Vec<&str> = ["autovacuum=off", "jit=off", "max_parallel_workers_per_gather=0"]
            .into_iter()
            .chain(settings.iter().copied())
            .collect();
        let server = ThrowawayServer::new(&["valgrind", "psql"], &all, 1)?;
        let built = extension(&server.cluster().programs().data_version())?;
        let library = server.path("ccopt.so");
        std::fs::copy(built, &library).unwrap();
        for statement in TABLE.split("; ") {
            server.cluster().query(statement).unwrap();
        }
        Some(Shop { server, library })
    }

    fn load(&self) -> String {
        format!("LOAD '{}'; SET ccopt.force = on;", self.library.display())
    }

    /// Records a session that runs `before` and then the query.
    fn record(&self, events: &str, before: &str) {
        let script = self.server.path("session.sql");
        std::fs::write(&script, format!("{before}\n{QUERY};\n")).unwrap();
        let mut command = hardmeter();
        command.current_dir(self.server.room()).envs(self.server.cluster().environment());
        command.args([
            "record",
            "--source",
            "simulated",
            "--machine",
            "xeon-2003",
            "--call-graph",
            "-e",
            events,
        ]);
        command.args(["-o", "server.data", "--server"]).arg(self.server.folder().path());
        let shell = format!("psql -XAqt -v ON_ERROR_STOP=1 -f {} >answer", script.display());
        succeeded(run(command.args(["--", "sh", "-c", &shell])));
    }

    fn queries(&self, arguments: &[&str]) -> String {
        let mut command = hardmeter();
        command
            .args(["queries", "--all", "--full", "-i"])
            .arg(self.server.path("server.data"))
            .args(arguments);
        stdout(&succeeded(run(&mut command)))
    }

    fn side_by_side(&self, by: &str) -> Value {
        let text = self.queries(&["--by", by, "--side-by-side", "--format", "json"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        report["side_by_side"].clone()
    }
}

/// The query's events of a kind by operator ("-": none).
fn by_operator(table: &Value, event: &str, what: &str) -> BTreeMap<String, u64> {
    let rows = table["rows"].as_array().unwrap().iter();
    let of_query =
        rows.filter(|row| row["statement"].as_str().is_some_and(|text| text.starts_with(STATEMENT)));
    let pair = |row: &Value| {
        let operator = row["operator"].as_str().unwrap_or("-").to_string();
        (operator, row["of"][event][what].as_u64().unwrap())
    };
    of_query.map(pair).collect()
}

#[test]
fn operators_of_an_extension_have_their_events() {
    let Some(shop) = Shop::new(&[]) else { return };
    const EVENTS: [&str; 6] =
        ["l1i-miss", "l1d-miss", "l2-miss", "dtlb-miss", "branches-mispredicted", "instructions"];
    let periods = "l1i-miss/period=101/,l1d-miss/period=211/,l2-miss/period=53/,dtlb-miss/period=101/,\
                   branches-mispredicted/period=101/,instructions/period=10007/";
    let mut plans = Vec::new();
    for (before, ours) in [(shop.load(), true), (shop.load() + " SET ccopt.enabled = off;", false)] {
        shop.record(periods, &before);
        let table = shop.side_by_side("statement,operator");
        // Every sample is in one row.
        for event in EVENTS {
            for what in ["count", "events"] {
                let rows = table["rows"].as_array().unwrap().iter();
                let sum: u64 = rows.map(|row| row["of"][event][what].as_u64().unwrap()).sum();
                assert_eq!(Some(sum), table["totals"][event][what].as_u64(), "{event} {what}");
            }
        }
        let instructions = by_operator(&table, "instructions", "count");
        eprintln!("samples of instructions: {instructions:?}");
        let all: u64 = instructions.values().sum();
        let part = |names: &[&str]| {
            let sum: u64 = names.iter().filter_map(|name| instructions.get(*name)).sum();
            sum as f64 / all as f64
        };
        let (here, there) = (["BatchScan", "BatchAgg"], ["Seq Scan", "Aggregate"]);
        let (right, wrong) = if ours { (here, there) } else { (there, here) };
        for name in right {
            assert!(part(&[name]) > 0.05, "{name}: {instructions:?}");
        }
        // The rest is planned, sorted, sent.
        assert!(part(&right) > if ours { 0.6 } else { 0.9 }, "{instructions:?}");
        assert!(part(&wrong) < 0.01, "{instructions:?}");
        for event in ["l1d-miss", "l2-miss", "branches-mispredicted"] {
            let counts = by_operator(&table, event, "count");
            assert!(
                right.iter().any(|name| counts.get(*name).is_some_and(|count| *count > 0)),
                "{event}: {counts:?}"
            );
        }
        plans.push(all);

        // The same for people and for spreadsheets.
        let text = shop.queries(&["--by", "operator", "--side-by-side"]);
        let head = text.lines().find(|line| line.ends_with("operator")).expect("a table");
        for event in EVENTS {
            assert!(head.contains(&format!("{event}  ")), "{head}");
        }
        assert!(text.contains("per row returned (of "), "{text}");
        let csv = shop.queries(&["--by", "operator", "--side-by-side", "--format", "csv"]);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(
            lines[0].starts_with("operator,l1i-miss count,l1i-miss events,l1i-miss events_per_transaction,")
        );
        assert!(lines.iter().any(|line| line.starts_with(&format!("{},", right[0]))), "{csv}");
    }
    assert!(plans[0] < plans[1], "the batches take fewer instructions: {plans:?}");
}

/// Compares instructions by operator with callgrind, which counts every instruction, on the same data.
#[test]
fn instructions_of_operators_add_up_to_what_callgrind_counts() {
    // No writes during the recording, so that both read the same pages in the same state.
    let Some(shop) = Shop::new(&["fsync=off"]) else { return };
    if !have(&["callgrind_annotate"]) {
        return;
    }
    const PERIOD: u64 = 997;
    let counted: Vec<(u64, u64)> = [String::new(), shop.load()]
        .into_iter()
        .map(|before| {
            shop.record(&format!("instructions/period={PERIOD}/"), &before);
            let text = shop.queries(&["--by", "statement,phase", "--side-by-side", "--format", "json"]);
            let report: Value = serde_json::from_str(&text).unwrap();
            let rows = report["side_by_side"]["rows"].as_array().unwrap().iter();
            let executed = rows.filter(|row| {
                row["statement"].as_str().is_some_and(|text| text.starts_with(STATEMENT))
                    && row["phase"] == "execute"
            });
            let of_phase: u64 =
                executed.map(|row| row["of"]["instructions"]["events"].as_u64().unwrap()).sum();
            (of_phase, callgrind(&shop, &before))
        })
        .collect();
    eprintln!("instructions of executing (samples, callgrind), stock and ccopt: {counted:?}");
    for (ours, theirs) in counted {
        let ratio = ours as f64 / theirs as f64;
        // PortalRun includes ExecutorRun here, and the answer goes to a socket instead of a terminal.
        assert!((0.95..1.05).contains(&ratio), "{ours} {theirs}");
    }
}

/// Instructions of the query within ExecutorRun, in a server of one process.
fn callgrind(shop: &Shop, before: &str) -> u64 {
    let mut cluster = shop.server.cluster();
    cluster.stop(&|_| {}).unwrap();
    let postgres = cluster.programs().path("postgres");
    // A file of the server's account.
    let told = shop.server.folder().data().join("callgrind.out");
    let words =
        ["valgrind".into(), "--tool=callgrind".into(), "--toggle-collect=standard_ExecutorRun".into()];
    let output = format!("--callgrind-out-file={}", told.display()).into();
    let server = [
        postgres.into(),
        "--single".into(),
        "-D".into(),
        shop.server.folder().data().into(),
        "postgres".into(),
    ];
    let mut command = cluster.command(words.into_iter().chain([output]).chain(server).collect());
    let mut child = command
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // One statement per line; the first run of a query fills caches, as the recorder's server was started for it.
    let lines = before.replace("; ", ";\n") + "\n" + QUERY + ";\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let done = succeeded(child.wait_with_output().unwrap());
    assert!(!stderr(&done).contains("ERROR:"), "{}", stderr(&done));
    let told = std::fs::read_to_string(told).unwrap();
    cluster.start(&Default::default(), &|_| {}).unwrap();
    let summary = told.lines().find_map(|line| line.strip_prefix("summary: ")).expect("callgrind collected");
    summary.trim().parse().expect("a number")
}
