//! Source `live`: loads of running programs and their data addresses, on programs with known loads, and on a
//! running PostgreSQL.
//!
//! Needs the right to sample whole CPUs: root, CAP_PERFMON or perf_event_paranoid 0. Otherwise skipped with a
//! message.

#![cfg(target_arch = "x86_64")]

mod common;
#[path = "common/server.rs"]
mod server;

use common::{compile, hardmeter, have, is_root, run, stderr, stdout, succeeded};
use hardmeter_samples::model::{Landing, Record, VirtualAddress};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use hardmeter_samples::sidecar::Sidecar;
use serde_json::Value;
use server::ThrowawayServer;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output};

/// A recording; `None`, with a message, if CPUs may not be sampled.
fn recorded(command: &mut Command) -> Option<Output> {
    let output = run(command);
    let refusals = [
        "no right to profile",
        "no perf_event_open",
        "the self-test found only",
        "other programs use the processors",
    ];
    if refusals.iter().any(|refusal| stderr(&output).contains(refusal)) {
        eprintln!("skipped: {}", stderr(&output));
        return None;
    }
    Some(succeeded(output))
}

/// Instruction and data address of each sample of `stall`, and how many samples of `other-cpu` there are.
fn samples(capture: &Path) -> (Vec<(VirtualAddress, Option<VirtualAddress>)>, usize) {
    let reader = CaptureReader::open(capture).expect("a capture");
    let names: Vec<String> = reader.events().iter().map(|event| event.name.clone()).collect();
    let (mut stalls, mut others) = (Vec::new(), 0);
    reader
        .for_each(RecordOrder::Time, &mut |record| {
            if let Record::Sample(sample) = record {
                match names[sample.event.0].as_str() {
                    "stall:u" => stalls.push((sample.ip.expect("an instruction"), sample.address)),
                    "other-cpu:u" => others += 1,
                    name => panic!("event {name}"),
                }
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    (stalls, others)
}

/// One load that waits, in a ring of 32 MB in random order, and work that does not. It prints where the load is, and the
/// ring's first and last byte.
const CHASE: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#define LINES (1 << 19)
struct line { uint64_t number; struct line *next; char rest[48]; };
static struct line ring[LINES] __attribute__((aligned(4096)));
static uint32_t order[LINES];
extern char chased_load[];
int main(void) {
  uint64_t random = 88172645463325252ull;
  for (uint32_t i = 0; i < LINES; i++) order[i] = i;
  for (uint32_t i = LINES - 1; i > 0; i--) {
    random ^= random << 13; random ^= random >> 7; random ^= random << 17;
    uint32_t j = random % i, swapped = order[i];
    order[i] = order[j]; order[j] = swapped;
  }
  for (uint32_t i = 0; i < LINES; i++) ring[i].next = &ring[order[i]];
  printf("%llx %llx %llx\n", (unsigned long long)(uintptr_t)chased_load, (unsigned long long)(uintptr_t)ring,
         (unsigned long long)(uintptr_t)(ring + LINES));
  fflush(stdout);
  struct line *at = ring;
  for (clock_t start = clock(); clock() < start + 3 * CLOCKS_PER_SEC;) {
    long left = 100000;
    struct line *next;
    __asm__ volatile(
        ".globl chased_load\n"
        "chased_load: movq 8(%0), %2\n"
        "addq $3, %%r8\n"
        "xorq %%r8, %%r9\n"
        "movq %2, %0\n"
        "decq %1\n"
        "jnz chased_load\n"
        : "+r"(at), "+r"(left), "=&r"(next) : : "r8", "r9", "memory");
  }
  return at == NULL;
}
"#;

#[test]
fn the_load_that_waits_is_found_with_its_address() {
    if !have(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "chase", &[], CHASE, None);
    let capture = folder.path().join("chase.data");
    let mut command = hardmeter();
    command.args(["record", "--source", "live", "--user-only", "-c", "2000000", "-o"]).arg(&capture);
    let Some(output) = recorded(command.arg("--").arg(&program)) else { return };
    let text = stdout(&output);
    let places: Vec<u64> =
        text.split_whitespace().map(|word| u64::from_str_radix(word, 16).expect("an address")).collect();
    let (load, ring) = (places[0], places[1]..places[2]);
    let (stalls, others) = samples(&capture);
    let all = stalls.len() + others;
    let at_load = stalls.iter().filter(|(ip, _)| ip.0 == load).count();
    let in_ring = stalls
        .iter()
        .filter(|(ip, address)| ip.0 == load && address.is_some_and(|address| ring.contains(&address.0)))
        .count();
    eprintln!("{all} samples, {at_load} at the load, {in_ring} of them in the ring");
    assert!(all >= 200, "{all}");
    // The beginning of the program, which makes the ring, is in the capture as well.
    assert!(at_load * 100 >= all * 80, "{at_load} of {all}");
    assert_eq!(in_ring, at_load, "the load reads from nowhere else");
    let second_words = stalls.iter().filter(|(ip, _)| ip.0 == load);
    assert!(second_words.map(|(_, address)| address.expect("above").0).all(|address| address % 64 == 8));

    let notes =
        Sidecar::load(&capture).expect("readable").expect("notes").stall.expect("of a live recording");
    assert_eq!(notes.period_ns, 2_000_000);
    assert_eq!(notes.counts.stalls() as usize, stalls.len());
    assert_eq!(notes.counts.total() as usize, all);
    let tested: u64 = notes.skid.iter().map(|count| count.samples).sum();
    let landed = notes.skid.iter().find(|count| match notes.landing {
        Landing::Behind => count.offset == 4, // mov 8(%rax),%rdx has four bytes
        Landing::At => count.offset == 0,
    });
    assert!(landed.expect("a place").samples * 10 >= tested * 9, "{notes:?}");
}

#[test]
fn a_running_postgres_shows_where_it_stalls_without_a_restart() {
    let settings = ["shared_buffers=256MB", "autovacuum=off"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 10) else { return };
    let pid =
        || std::fs::read_to_string(server.folder().path().join("data/postmaster.pid")).expect("it runs");
    let before = pid();
    let capture = server.path("live.data");
    let mut command = hardmeter();
    command.current_dir(server.room()).envs(server.cluster().environment());
    command.args(["record", "-F", "400", "-o"]).arg(&capture).arg("--server").arg(server.folder().path());
    // The same work however busy the machine is. The limit is for the software PMU, which may stand in.
    let work = "timeout 120 pgbench -S -n -c 2 -t 50000 || [ $? = 124 ]";
    let Some(output) = recorded(command.args(["--", "sh", "-c", work])) else { return };
    let said = stderr(&output);
    if !said.contains("source live (it runs already") {
        // With a PMU, that is recorded; a user without rights restarts the server.
        assert!(said.contains("source hardware") || !is_root(), "{said}");
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(pid(), before, "the server was not restarted");
    let view = |name: &str, arguments: &[&str]| -> Value {
        let output =
            succeeded(run(hardmeter().args([name, "--format", "json", "-i"]).arg(&capture).args(arguments)));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let objects = view("objects", &["--by", "name"]);
    let table = &objects["tables"][0];
    assert_eq!(table["event"], "stall");
    let rows = table["rows"].as_array().expect("rows");
    let names: Vec<(&str, &str)> = rows
        .iter()
        .map(|row| (row["class"].as_str().unwrap_or_default(), row["name"].as_str().unwrap_or_default()))
        .collect();
    let index = names.iter().position(|name| *name == ("index", "public.pgbench_accounts_pkey"));
    assert!(index.is_some_and(|index| index < 8), "{names:?}");

    let counts = Sidecar::load(&capture).unwrap().unwrap().stall.unwrap().counts;
    assert!(counts.stalls() > 100, "{counts:?}"); // of 460 beside other load
    assert!(counts.with_address * 100 >= counts.stalls() * 75, "{counts:?}");
    // Addresses lie in memory that the observer knows, unless it was freed meanwhile.
    let coverage = &objects["coverage"];
    let count = |name: &str| coverage[name].as_u64().expect("a count");
    assert!(count("noted") * 100 >= count("user_data") * 90, "{coverage}");

    let report = view("report", &[]);
    assert_eq!(report["capture"]["source"], "live");
    let shares: Vec<f64> = report["capture"]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["cpu_time"]["fraction"].as_f64().unwrap())
        .collect();
    assert_eq!(shares.len(), 2);
    assert!((shares[0] + shares[1] - 1.0).abs() < 1e-9, "{shares:?}");
    let why = stdout(&succeeded(run(hardmeter().args(["why", "-i"]).arg(&capture))));
    let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("samples of time cannot tell"), "{why}");
}

/// Two alternating statements: the long one counts to 40,000, the short one to 1. No probe is set.
#[test]
fn the_statement_of_a_sample_is_read_from_the_running_server() {
    let settings = ["autovacuum=off", "jit=off"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 1) else { return };
    let script = server.path("two.sql");
    let long = "SELECT sum(i) FROM generate_series(1, 40000) i;\n";
    std::fs::write(&script, format!("{long}SELECT 1;\n")).expect("writable");
    let record = |capture: &Path, more: &[&str]| {
        let mut command = hardmeter();
        command.current_dir(server.room()).envs(server.cluster().environment());
        command.args(["record", "--source", "live", "-F", "400"]).args(more).arg("-o").arg(capture);
        command.arg("--server").arg(server.folder().path());
        recorded(command.args(["--", "pgbench", "-n", "-c", "2", "-t", "400", "-f"]).arg(&script)).is_some()
    };
    let queries = |capture: &Path| -> Value {
        let output = succeeded(run(hardmeter().args(["queries", "--format", "json", "-i"]).arg(capture)));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let capture = server.path("two.data");
    if !record(&capture, &[]) {
        return;
    }
    let read = queries(&capture);
    let count = |name: &str| read["coverage"][name].as_u64().expect("a count");
    assert!(count("backend") > 200, "{}", read["coverage"]);
    let texts = Sidecar::load(&capture).unwrap().unwrap().statements;
    let texts: Vec<&str> = texts.iter().map(|statement| statement.text.as_str()).collect();
    let long = "select sum(i) from generate_series(?) i";
    assert!(texts.contains(&long), "{texts:?}");
    // Nothing but pgbench's own statements, read whole.
    let known = [long, "select ?", "select count(*) from pgbench_branches"];
    let foreign: Vec<&&str> = texts.iter().filter(|text| !known.contains(text)).collect();
    assert!(
        foreign.iter().all(|text| text.contains("pg_catalog") || text.starts_with("select")),
        "{foreign:?}"
    );
    if !is_root() {
        eprintln!("the share is not checked: readers without real-time priority come late beside other load");
        return;
    }
    assert!(count("backend_with_statement") * 100 >= count("backend") * 90, "{}", read["coverage"]);
    let rows = read["tables"][1]["rows"].as_array().expect("rows of other-cpu");
    let of_long: u64 = rows
        .iter()
        .filter(|row| row["statement"] == long)
        .map(|row| row["share"]["count"].as_u64().expect("a count"))
        .sum();
    let all = read["tables"][1]["samples"].as_u64().expect("a count");
    assert!(of_long * 10 >= all * 8, "{of_long} of {all}: the long statement takes nearly all time");

    let without = server.path("without.data");
    assert!(record(&without, &["--no-statements"]));
    let none = queries(&without);
    assert_eq!(none["coverage"]["backend_with_statement"], 0);
    assert!(Sidecar::load(&without).unwrap().unwrap().statements.is_empty());
}

#[test]
fn the_recorder_writes_nothing_to_the_server() {
    let Some(server) = ThrowawayServer::new(&["strace"], &[], 1) else { return };
    let (trace, capture) = (server.path("trace"), server.path("live.data"));
    let calls = "trace=open,openat,creat,ptrace,process_vm_readv,process_vm_writev,pwrite64,kill,tgkill";
    let mut strace = Command::new("strace");
    strace.current_dir(server.room()).args(["-f", "-s", "300", "-e", calls, "-o"]).arg(&trace);
    strace.arg(env!("CARGO_BIN_EXE_hardmeter")).args(["record", "--source", "live", "-o"]).arg(&capture);
    strace.arg("--server").arg(server.folder().path()).args(["--", "sleep", "2"]);
    let output = run(&mut strace);
    // An idle server has no sample, which is an error.
    if stderr(&output).contains("no right to profile") || stderr(&output).contains("self-test") {
        eprintln!("skipped: {}", stderr(&output));
        return;
    }
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert!(text.contains("process_vm_readv("), "its memory was read, or this shows nothing");
    let data = server.folder().path().join("data").display().to_string();
    for call in text.lines() {
        assert!(!call.contains("ptrace("), "{call}");
        assert!(!call.contains("process_vm_writev("), "{call}");
        assert!(!call.contains("kill("), "{call}");
        let writing =
            ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "creat("].iter().any(|flag| call.contains(flag));
        let of_server = call.contains(&data) || (call.contains("\"/proc/") && call.contains("/mem\""));
        assert!(!(writing && of_server), "opened for writing: {call}");
    }
}

#[test]
fn what_live_cannot_do_has_a_remedy() {
    for (arguments, cause, remedy) in [
        (
            &["record", "--source", "live", "-e", "l1d-miss", "--", "true"][..],
            "samples the event stall only",
            "--source simulated",
        ),
        (&["record", "-e", "stall,l1d-miss", "--", "true"], "samples the event stall only", "leave -e out"),
        (&["stat", "--source", "live", "--", "true"], "counts nothing", "--source hardware"),
    ] {
        let output = run(hardmeter().args(arguments));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(said.contains(cause) && said.contains(remedy), "{arguments:?}: {said}");
    }
}
