//! The counters of a running PostgreSQL, read from outside, equal those in `pg_stat_database`, to the last
//! row.
//!
//! The reference is a session that stays within one transaction: its own activity is not added to the
//! counters, and each query shows the counters of that moment.

mod common;

use common::{wait_until, Throwaway};
use hardmeter_objects::{attach, Counted};
use hardmeter_samples::model::Timestamp;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server with pgbench's tables.
fn start() -> Option<Throwaway> {
    let mut server = Throwaway::start()?;
    server.cluster.load_pgbench(1, &|_| {}).expect("loaded");
    Some(server)
}

fn pgbench(server: &Throwaway, arguments: &[&str]) {
    let mut command = Command::new("pgbench");
    command.envs(server.cluster.environment()).arg("-n").args(arguments).arg("postgres");
    let output = command.output().expect("pgbench runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A session that queries within one transaction.
struct Judge {
    psql: Child,
    answers: BufReader<std::process::ChildStdout>,
}

const NAMES: [&str; 6] =
    ["transactions", "rows returned", "rows fetched", "rows inserted", "rows updated", "rows deleted"];

impl Judge {
    fn connect(server: &Throwaway) -> Judge {
        let mut command = Command::new("psql");
        command.envs(server.cluster.environment()).args(["-qXAt", "-v", "ON_ERROR_STOP=1", "postgres"]);
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql runs");
        let answers = BufReader::new(psql.stdout.take().expect("a pipe"));
        let mut judge = Judge { psql, answers };
        // The counts of connecting have been added when the first statement is answered.
        assert_eq!(judge.ask("SELECT 1"), "1");
        assert_eq!(judge.ask("BEGIN; SET stats_fetch_consistency = none; SELECT 2"), "2");
        judge
    }

    fn ask(&mut self, sql: &str) -> String {
        writeln!(self.psql.stdin.as_mut().expect("a pipe"), "{sql};").expect("asked");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        line.trim().to_string()
    }

    fn counts(&mut self) -> [u64; 6] {
        let row = self.ask(
            "SELECT xact_commit + xact_rollback, tup_returned, tup_fetched, tup_inserted, tup_updated, tup_deleted \
             FROM pg_stat_database WHERE datname = current_database()",
        );
        let numbers: Vec<u64> = row.split('|').map(|text| text.parse().expect("a number")).collect();
        numbers.try_into().expect("six")
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        drop(self.psql.stdin.take());
        let _ = self.psql.wait();
    }
}

fn figures(counted: &Counted) -> [u64; 6] {
    assert_eq!(counted.trouble, None);
    NAMES.map(|name| {
        let found = counted.figures.iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("no {name} in {counted:?}")).1
    })
}

/// Both must see the same for a workload of four clients with fifty transactions each; returns the counters.
fn same(server: &Throwaway, kind: &[&str]) -> [u64; 6] {
    server.wait_for_last_client();
    let mut judge = Judge::connect(server);
    let mut objects = attach(server.pid).expect("attached");
    let before = judge.counts();
    pgbench(server, &[&["-c", "4", "-t", "50"], kind].concat());
    // Backends add their counts before they end, and there is a wait for them.
    let counted = objects.counted();
    let inside = judge.counts();
    let outside = figures(&counted);
    assert_eq!(outside, std::array::from_fn(|index| inside[index] - before[index]), "{NAMES:?}");
    assert_eq!(counted.databases, ["postgres"]);
    assert!(counted.limits[0].contains("1 client backend was connected"), "{:?}", counted.limits);
    let notes = objects.finish(Timestamp(u64::MAX));
    assert_eq!(notes.remarks, [""; 0]);
    println!("{}, {kind:?}: {NAMES:?} {outside:?}", notes.server);
    outside
}

#[test]
fn counters_read_from_outside_are_those_of_pg_stat_database() {
    let Some(mut server) = start() else { return };
    // Each transaction updates three rows and inserts one. Five connections, of four clients and for two
    // queries of the scale and the partitions, are a transaction each, and so are the queries.
    const ALL: u64 = 4 * 50 + 5 + 2;
    let [transactions, _, _, inserted, updated, deleted] = same(&server, &[]);
    assert_eq!((inserted, updated, deleted), (200, 600, 0));
    assert_eq!(transactions, ALL);
    let [transactions, _, fetched, inserted, updated, deleted] = same(&server, &["-S"]);
    assert_eq!((inserted, updated, deleted), (0, 0, 0));
    assert_eq!(transactions, ALL);
    assert!(fetched >= 200, "each looks one row up: {fetched}");

    // Without other clients the figures are exact, and have no limits.
    server.wait_for_last_client();
    let mut objects = attach(server.pid).expect("attached");
    pgbench(&server, &["-c", "1", "-t", "10"]);
    let counted = objects.counted();
    assert_eq!(counted.limits, [""; 0]);
    assert_eq!(figures(&counted)[3..], [10, 30, 0]);
    let written = counted.figures.iter().find(|(name, _)| name == "rows written").expect("a figure");
    assert_eq!(written.1, 40);

    // Statistics of two thousand tables do not fit the main segment: they are where each setting puts them.
    let tables = "DO $$ BEGIN FOR i IN 1..2000 LOOP EXECUTE format('CREATE TABLE many%s(a int)', i); \
                  EXECUTE format('INSERT INTO many%s VALUES (1)', i); END LOOP; END $$";
    server.ask(tables);
    same(&server, &["-S"]);
    for setting in ["dynamic_shared_memory_type=mmap", "min_dynamic_shared_memory=16MB"] {
        server.start_with(&[setting]);
        if setting.ends_with("mmap") {
            let files = std::fs::read_dir(server.folder().data().join("pg_dynshmem")).expect("readable");
            assert!(files.count() > 1, "the list of segments, and a segment");
        }
        let [.., inserted, updated, deleted] = same(&server, &[]);
        assert_eq!((inserted, updated, deleted), (200, 600, 0), "{setting}");
    }
    server.start_with(&["track_counts=off"]);
    server.wait_for_last_client();
    let mut objects = attach(server.pid).expect("attached");
    pgbench(&server, &["-c", "4", "-t", "50"]);
    let counted = objects.counted();
    assert_eq!(figures(&counted), [ALL, 0, 0, 0, 0, 0]);
    assert_eq!(counted.limits, ["rows were not counted: the server's track_counts is off"]);
    server.start_with(&["dynamic_shared_memory_type=sysv"]);
    let counted = attach(server.pid).expect("attached").counted();
    let trouble = counted.trouble.expect("memory that has no file");
    assert!(trouble.contains("dynamic_shared_memory_type"), "{trouble}");
}

#[test]
fn a_reset_and_a_crash_are_told_instead_of_wrong_figures() {
    let Some(server) = start() else { return };
    let mut objects = attach(server.pid).expect("attached");
    server.ask("SELECT pg_stat_reset()");
    pgbench(&server, &["-c", "1", "-t", "10"]);
    let counted = objects.counted();
    assert!(counted.trouble.as_deref().is_some_and(|why| why.contains("pg_stat_reset")), "{counted:?}");

    let mut objects = attach(server.pid).expect("attached");
    let writer = server.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'");
    let mut judge = Judge::connect(&server);
    let backend: i32 = judge.ask("SELECT pg_backend_pid()").parse().expect("a number");
    // SAFETY: no memory is passed; the process is a backend of this test's server.
    assert_eq!(unsafe { libc::kill(backend, libc::SIGKILL) }, 0);
    // Until the postmaster detects the crash it accepts connections. Then it ends all its processes.
    wait_until("the crash", || !Path::new("/proc").join(&writer).exists());
    wait_until("the server after the crash", || server.cluster.query("SELECT 1").is_ok());
    pgbench(&server, &["-c", "1", "-t", "10"]);
    assert_eq!(objects.counted(), Counted::default());
    let notes = objects.finish(Timestamp(u64::MAX));
    assert!(
        notes.remarks.iter().any(|remark| remark.starts_with("the server restarted")),
        "{:?}",
        notes.remarks
    );
    // After the restart it is a server like any other.
    let mut objects = attach(server.pid).expect("attached");
    pgbench(&server, &["-c", "1", "-t", "10"]);
    assert_eq!(figures(&objects.counted())[3..], [10, 30, 0]);
}
