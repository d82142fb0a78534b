//! Samples of a real PostgreSQL on the software PMU have the statement that their process executed.
//!
//! Runs as root (the server then runs as `postgres`) and as an ordinary user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{hardmeter, recorded, run, stderr, succeeded};
use hardmeter_samples::model::{Pid, Record, SimulatedDetail, StatementId};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use hardmeter_samples::sidecar::Sidecar;
use server::ThrowawayServer;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The normalised statements of a pgbench transaction.
const PGBENCH: [&str; 7] = [
    "begin",
    "update pgbench_accounts set abalance=abalance+? where aid=?",
    "select abalance from pgbench_accounts where aid=?",
    "update pgbench_tellers set tbalance=tbalance+? where tid=?",
    "update pgbench_branches set bbalance=bbalance+? where bid=?",
    "insert into pgbench_history(tid,bid,aid,delta,mtime) values(?,current_timestamp)",
    "end",
];

/// A server with pgbench's tables at scale 1, which ends with the test.
struct Playground(ThrowawayServer);

impl Playground {
    /// `None`, with a message, if it cannot be created.
    fn new() -> Option<Playground> {
        ThrowawayServer::new(&["valgrind"], &[], 1).map(Playground)
    }

    fn capture(&self) -> PathBuf {
        self.0.path("server.data")
    }

    /// Records the server under pgbench.
    fn record(&self, options: &[&str], transactions: &str) -> std::process::Output {
        let mut recorder = hardmeter();
        recorder
            .current_dir(self.0.room())
            .args(["record", "--source", "simulated", "--machine", "xeon-2003"])
            .args(["-e", "l1d-miss/period=211/,l2-miss/period=53/"])
            .args(options)
            .arg("-o")
            .arg(self.capture())
            .arg("--server")
            .arg(self.0.folder().path())
            .args(["--", "pgbench", "-n", "-c", "2", "-t", transactions]);
        succeeded(run(&mut recorder))
    }
}

/// The process and the statement of each sample, in the order in which each process had them.
fn statements_of_samples(capture: &Path) -> Vec<(Pid, Option<StatementId>)> {
    let mut samples = Vec::new();
    let reader = CaptureReader::open(capture).expect("readable");
    let summary = reader
        .for_each(RecordOrder::File, &mut |record| {
            if let Record::Sample(sample) = record {
                let detail = SimulatedDetail::decode(sample.raw.expect("a detail")).expect("ours");
                samples.push((sample.pid.expect("a process"), detail.server.statement));
            }
            ControlFlow::Continue(())
        })
        .expect("read");
    assert!(summary.is_complete(), "{:?}", summary.warnings());
    samples
}

/// The id of a normalised text.
fn id_of(text: &str) -> StatementId {
    StatementId::of_normalised(text.as_bytes())
}

#[test]
fn samples_of_a_server_under_pgbench_carry_its_statements() {
    let Some(playground) = Playground::new() else { return };
    let output = playground.record(&[], "40");
    let capture = playground.capture();
    let notes = Sidecar::load(&capture).expect("readable").expect("notes");
    let texts: BTreeMap<StatementId, &str> =
        notes.statements.iter().map(|statement| (statement.id, statement.text.as_str())).collect();
    assert_eq!(texts.len(), notes.statements.len(), "each id once");
    for (hash, text) in &texts {
        assert_eq!(*hash, id_of(text), "{text}");
    }

    // pgbench's statements are there, and no others of its texts.
    let known: BTreeSet<&str> = texts.values().copied().collect();
    for text in PGBENCH {
        assert!(known.contains(text), "{text} is not among {known:#?}");
    }
    let other: Vec<_> =
        known.iter().filter(|text| text.contains("pgbench_") && !PGBENCH.contains(text)).collect();
    // It counts its branches (its scale) before it begins.
    assert!(other.iter().all(|text| text.starts_with("select ")), "{other:#?}");

    let samples = statements_of_samples(&capture);
    assert_eq!(samples.len() as u64, recorded(&output, "l1d-miss") + recorded(&output, "l2-miss"));
    let mut counts: BTreeMap<StatementId, usize> = BTreeMap::new();
    for (_, statement) in &samples {
        statement.iter().for_each(|hash| *counts.entry(*hash).or_default() += 1);
    }
    for hash in counts.keys() {
        assert!(texts.contains_key(hash), "{hash:?} has no text");
    }
    let without = samples.iter().filter(|(_, statement)| statement.is_none()).count();
    assert_eq!(counts.values().sum::<usize>() + without, samples.len(), "the counts add up");

    // The server's own count of writing transactions: pgbench's, and perhaps some of an autovacuum.
    let transactions = notes.workload.get("writing transactions").copied().unwrap_or_default();
    assert!((80.0..=90.0).contains(&transactions), "{:?}", notes.workload);

    // pgbench's statements are executed by client backends: one per client.
    let is_pgbenchs = |hash: StatementId| PGBENCH.iter().any(|text| hash == id_of(text));
    let update = id_of(PGBENCH[1]);
    let backends: BTreeSet<Pid> =
        samples.iter().filter(|(_, hash)| *hash == Some(update)).map(|(pid, _)| *pid).collect();
    assert_eq!(backends.len(), 2);
    for backend in &backends {
        let own: Vec<_> = samples.iter().filter(|(pid, _)| pid == backend).map(|(_, hash)| *hash).collect();
        // Before its first statement it starts, after the last it ends.
        let first = own.iter().position(Option::is_some).expect("a statement");
        let last = own.iter().rposition(Option::is_some).expect("a statement");
        let serving = &own[first..=last];
        let carrying = serving.iter().flatten().count();
        println!(
            "{carrying} of {} samples of a backend that serves carry a statement; {} in all",
            serving.len(),
            own.len()
        );
        assert!(carrying * 100 >= serving.len() * 95, "{carrying} of {}", serving.len());
    }

    // No other process executes them.
    let elsewhere =
        |(pid, hash): &&(Pid, Option<StatementId>)| !backends.contains(pid) && hash.is_some_and(is_pgbenchs);
    assert_eq!(samples.iter().filter(elsewhere).count(), 0);
}

#[test]
fn without_objects_nothing_is_read_of_the_server() {
    let Some(playground) = Playground::new() else { return };
    let output = playground.record(&["--no-objects"], "2");
    assert!(!stderr(&output).contains("objects"), "{}", stderr(&output));
    let samples = statements_of_samples(&playground.capture());
    assert!(!samples.is_empty() && samples.iter().all(|(_, hash)| hash.is_none()));
    let notes = Sidecar::load(&playground.capture()).expect("readable").expect("notes");
    assert_eq!(notes.statements, []);
    assert!(!playground.0.path("server.data.objects").exists());
}
