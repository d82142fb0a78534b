//! Statements for samples of the kernel's timer, from PostgreSQL's own probes (USDT): from `record --statements` on
//! a throwaway server under pgbench to the marks in the capture.
//!
//! Needs root, tracefs and a PostgreSQL with probes; where the kernel does not allow uprobes, the tests are skipped
//! with a message.

use hardmeter_answers::{Running, StatementSpans};
use hardmeter_samples::model::{Record, StatementId};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use hardmeter_samples::sidecar::Sidecar;
use hardmeter_servers::{Cluster, Engine, Programs, ProgramsWanted, ServerFolder, StartOptions};
use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use tempfile::TempDir;

const HARDMETER: &str = env!("CARGO_BIN_EXE_hardmeter");

/// Each recorder of statements removes the names that dead recorders have left: a test that checks such a name takes
/// the write lock.
static RECORDERS: RwLock<()> = RwLock::new(());

fn among_others() -> RwLockReadGuard<'static, ()> {
    RECORDERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// A loaded server that ends with the test.
struct Server {
    folder: TempDir,
    cluster: Cluster,
}

impl Server {
    /// `None`, with the reason printed, if statements cannot be recorded.
    fn start() -> Option<Server> {
        if let Some(reason) = missing() {
            println!("skipped: {reason}");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let programs = Programs::find(Engine::Postgres, &ProgramsWanted::default()).expect("PostgreSQL");
        let place = ServerFolder::new(folder.path().join("server"));
        let mut cluster = Cluster::create(&place, &programs, &|_| {}).expect("a server");
        cluster.start(&StartOptions::default(), &|_| {}).expect("starts");
        let server = Server { folder, cluster };
        let loaded = server
            .hardmeter(&["server", "load", "postgres", "--scale", "1", "--dir"])
            .arg(server.place())
            .output();
        assert!(loaded.expect("runs").status.success());
        Some(server)
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("server")
    }

    fn capture(&self) -> PathBuf {
        self.folder.path().join("capture.data")
    }

    fn hardmeter(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(HARDMETER);
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Records statements under a command; returns the recorder's output.
    fn record(&self, command: &[&str]) -> String {
        let _shared = among_others();
        self.record_alone(command)
    }

    /// The same, where the caller holds the lock of recorders.
    fn record_alone(&self, command: &[&str]) -> String {
        let recorder = self
            .hardmeter(&["record", "--source", "timer", "--statements", "-o", "capture.data", "--server"])
            .arg(self.place())
            .arg("--")
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let group = format!("hardmeter_{}/", recorder.id());
        let output = recorder.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        // After a recording the kernel has none of its probes.
        assert!(!named_probes().contains(&group), "{}", named_probes());
        said
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.cluster.stop(&|_| {});
    }
}

/// Why statements cannot be recorded here, from the doctor.
fn missing() -> Option<String> {
    let output = Command::new(HARDMETER).args(["doctor", "--format", "json"]).output().expect("runs");
    let diagnosis: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = diagnosis["checks"].as_array().expect("checks");
    let check =
        checks.iter().find(|check| check["name"] == "statements (USDT)").expect("a check of statements");
    (check["state"] != "ok").then(|| check["evidence"].as_str().unwrap_or_default().to_string())
}

/// The names of recorders' probes in the kernel's list.
fn named_probes() -> String {
    fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default()
}

/// The statements of a capture.
#[derive(Default)]
struct Told {
    spans: StatementSpans,
    /// Samples by what their thread executed.
    samples: BTreeMap<Option<String>, u64>,
    lost: u64,
}

fn read(capture: &Path) -> Told {
    let reader = CaptureReader::open(capture).expect("a capture");
    let mut told = Told::default();
    let summary = reader
        .for_each(RecordOrder::Time, &mut |record| {
            told.spans.see(&record);
            if let Record::Sample(sample) = record {
                let statement = match told.spans.of_sample(&sample) {
                    Some(Running::Statement(statement)) => {
                        told.spans.text(statement).map(|text| text.to_string())
                    }
                    _ => None,
                };
                *told.samples.entry(statement).or_default() += 1;
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    told.lost = summary.lost_records + summary.lost_samples;
    assert_eq!(summary.total_samples(), told.samples.values().sum::<u64>(), "marks are no samples");
    assert_eq!(summary.unparsable, 0);
    told
}

/// The seven statements of pgbench's TPC-B-like script.
const PGBENCH: [&str; 7] = [
    "begin",
    "update pgbench_accounts set abalance=abalance+? where aid=?",
    "select abalance from pgbench_accounts where aid=?",
    "update pgbench_tellers set tbalance=tbalance+? where tid=?",
    "update pgbench_branches set bbalance=bbalance+? where bid=?",
    "insert into pgbench_history(tid,bid,aid,delta,mtime) values(?,current_timestamp)",
    "end",
];

fn executions(told: &Told, text: &str) -> (u64, u64) {
    let executions = told.spans.executions(StatementId::of_normalised(text.as_bytes())).unwrap_or_default();
    (executions.begun, executions.ended)
}

#[test]
fn every_statement_of_pgbench_is_told_as_often_as_it_ran() {
    let Some(server) = Server::start() else { return };
    // 4 clients, 50 transactions each: 200 of each statement, whatever the machine's speed.
    let said = server.record(&["pgbench", "-n", "-c", "4", "-t", "50", "postgres"]);
    let told = read(&server.capture());
    assert_eq!(told.lost, 0);
    for statement in PGBENCH {
        assert_eq!(executions(&told, statement), (200, 200), "{statement}");
    }
    // The recorder's count of marks equals the file's, and excludes samples.
    assert!(said.contains(&format!("{} marks of statements", told.spans.marks())), "{said}");
    let samples: u64 = told.samples.values().sum();
    assert!(said.contains(&format!("{samples} cpu-clock from")), "{said}");
    // Marks are not counted as events.
    let notes = Sidecar::load(&server.capture()).expect("readable").expect("notes");
    assert!(notes.counts.keys().all(|name| !name.contains("statement")), "{:?}", notes.counts);
}

#[test]
fn most_samples_of_busy_backends_have_a_statement() {
    let Some(server) = Server::start() else { return };
    server.record(&["pgbench", "-n", "-c", "2", "-t", "500", "postgres"]);
    let told = read(&server.capture());
    let total: u64 = told.samples.values().sum();
    let named: u64 = told.samples.iter().filter(|(text, _)| text.is_some()).map(|(_, count)| count).sum();
    println!("{named} of {total} samples have a statement: {:#?}", told.samples);
    // The rest is forking, logging in, waiting for clients, the server's own writers. The work is in the updates.
    assert!(named * 2 > total, "{named} of {total}");
    assert!(told.samples.contains_key(&Some(PGBENCH[1].to_string())));

    // `hardmeter queries` has the same counts per statement, and they add up.
    let output =
        server.hardmeter(&["queries", "-i", "capture.data", "--format", "json"]).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let table = &report["tables"][0];
    let mut sum = table["more_samples"].as_u64().expect("a number");
    for row in table["rows"].as_array().expect("rows") {
        let count = row["count"].as_u64().expect("a number");
        sum += count;
        if let (Some(text), Some(_)) = (row["statement"].as_str(), row["statement_id"].as_str()) {
            assert_eq!(told.samples.get(&Some(text.to_string())), Some(&count), "{text}");
        }
    }
    assert_eq!((sum, table["samples"].as_u64()), (total, Some(total)));
}

#[test]
fn prepared_statements_and_errors_are_told_too() {
    let Some(server) = Server::start() else { return };
    server.record(&["pgbench", "-n", "-M", "prepared", "-S", "-c", "1", "-t", "30", "postgres"]);
    let told = read(&server.capture());
    // Parsed once (with its plan described), then bound and executed thirty times.
    let (begun, ended) = executions(&told, "select abalance from pgbench_accounts where aid=?");
    assert_eq!(begun, ended);
    assert!((30..=31).contains(&begun), "{begun}");

    // The backend does not continue a failed statement.
    server.record(&["psql", "-X", "-c", "SELECT 1/0", "-c", "SELECT 'next'", "postgres"]);
    let told = read(&server.capture());
    assert_eq!(executions(&told, "select ?/?"), (1, 1));
    assert_eq!(executions(&told, "select ?"), (1, 1));
}

#[test]
fn a_text_longer_than_the_kernel_copies_is_a_statement_without_text() {
    let Some(server) = Server::start() else { return };
    // 4,095 bytes and their zero are what the kernel copies.
    let of_length = |length: usize| format!("SELECT 1{}", " ".repeat(length - "SELECT 1".len()));
    server.record(&["psql", "-X", "-c", &of_length(4095), "-c", &of_length(4096), "postgres"]);
    let told = read(&server.capture());
    assert_eq!(executions(&told, "select ?"), (1, 1));
    assert_eq!((told.spans.nameless().begun, told.spans.nameless().ended), (1, 1));
}

#[test]
fn a_killed_recorder_leaves_a_name_that_the_next_one_takes_away() {
    let Some(server) = Server::start() else { return };
    let _alone = RECORDERS.write().unwrap_or_else(PoisonError::into_inner);
    let mut killed = server
        .hardmeter(&["record", "--source", "timer", "--statements", "-o", "killed.data", "--server"])
        .arg(server.place())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let group = format!("hardmeter_{}/", killed.id());
    while !named_probes().contains(&group) {
        assert!(killed.try_wait().expect("ours").is_none(), "ended too early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    killed.kill().expect("runs"); // SIGKILL: the recorder cannot clean up
    killed.wait().expect("ended");
    assert!(named_probes().contains(&group), "who took it away?");
    server.record_alone(&["psql", "-X", "-c", "SELECT 1", "postgres"]);
    assert!(!named_probes().contains(&group), "{}", named_probes());
}

#[test]
fn perf_reads_the_marks() {
    let Some(server) = Server::start() else { return };
    if Command::new("perf").arg("--version").output().is_err() {
        println!("skipped: no perf");
        return;
    }
    server.record(&["pgbench", "-n", "-c", "1", "-t", "20", "postgres"]);
    let script = Command::new("perf")
        .args(["script", "-i"])
        .arg(server.capture())
        .current_dir(server.folder.path())
        .output()
        .expect("runs");
    let (lines, complaints) =
        (String::from_utf8_lossy(&script.stdout), String::from_utf8_lossy(&script.stderr));
    assert!(script.status.success(), "{complaints}");
    let marks: Vec<&str> = lines.lines().filter(|line| line.contains(":statement: ")).collect();
    assert_eq!(marks.len() as u64, read(&server.capture()).spans.marks());
    assert_eq!(marks.iter().filter(|line| line.ends_with("text=\"BEGIN;\"")).count(), 20);
    assert!(!complaints.contains("rror"), "{complaints}");
}

#[test]
fn a_target_without_probes_is_refused_with_a_remedy() {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return;
    }
    let _shared = among_others();
    let mut sleeper = Command::new("sleep").arg("600").spawn().expect("starts");
    let refused = |arguments: &[&str]| {
        let output = Command::new(HARDMETER)
            .args(["record", "--source", "timer", "--statements", "-o", "/nonexistent/x.data"])
            .args(arguments)
            .output()
            .expect("runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = refused(&["-p", &sleeper.id().to_string()]);
    assert!(said.contains("sleep has no probes") && said.contains("--enable-dtrace"), "{said}");
    let said = refused(&["--", "true"]);
    assert!(said.contains("--server"), "{said}");
    sleeper.kill().expect("runs");
    sleeper.wait().expect("ended");
}
