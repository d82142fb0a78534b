//! `hardmeter record --interval`: captures that follow one another, each readable alone.
//!
//! Needs the right to sample whole CPUs for source `live`; the kernel's timer otherwise works for any user.

mod common;
#[path = "common/server.rs"]
mod server;

use common::{compile, files_in, hardmeter, have, run, stderr, stdout, succeeded, wait_until};
use hardmeter_samples::model::{Record, Timestamp};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use hardmeter_samples::sidecar::Sidecar;
use server::ThrowawayServer;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Works for nine seconds in one function: far from the ends of captures of one or two seconds.
const WORK: &str = r#"
#include <time.h>
__attribute__((noinline)) unsigned worker(unsigned x) { for (int i = 0; i < 100000; i++) x = x * 69069 + 1; return x; }
int main(int argc, char **argv) {
  unsigned x = argc;
  (void)argv;
  struct timespec begun, now;
  clock_gettime(CLOCK_MONOTONIC, &begun);
  do {
    x = worker(x);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - begun.tv_sec + (now.tv_nsec - begun.tv_nsec) / 1e9 < 9);
  return x == 1;
}
"#;

/// The captures in a folder, oldest first.
fn captures(folder: &Path) -> Vec<PathBuf> {
    let names = files_in(folder);
    names.iter().filter(|name| name.ends_with(".data")).map(|name| folder.join(name)).collect()
}

/// Times of the samples of a capture, and the names of the processes that had one.
fn samples(capture: &Path) -> (Vec<Timestamp>, BTreeSet<String>) {
    let (mut times, mut names) = (Vec::new(), std::collections::BTreeMap::new());
    let mut sampled = BTreeSet::new();
    let reader = CaptureReader::open(capture).expect("a capture");
    reader
        .for_each(RecordOrder::Time, &mut |record| {
            match record {
                Record::Comm(comm) => drop(names.insert(comm.pid, comm.name)),
                Record::Fork(fork) if fork.pid != fork.parent_pid => {
                    let name = names.get(&fork.parent_pid).cloned();
                    name.and_then(|name| names.insert(fork.pid, name));
                }
                Record::Sample(sample) => {
                    times.extend(sample.time);
                    sampled.extend(sample.pid);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    let unnamed = || "no name".to_string();
    (times, sampled.iter().map(|pid| names.get(pid).cloned().unwrap_or_else(unnamed)).collect())
}

fn interrupt(recorder: &mut Child) {
    // SAFETY: no memory; a process of this test, not yet waited for.
    unsafe { libc::kill(recorder.id() as i32, libc::SIGINT) };
}

fn skipped(output: &Output) -> bool {
    let refusals = [
        "no right to profile",
        "no perf_event_open",
        "the self-test found only",
        "other programs use the processors",
    ];
    let refused = refusals.iter().any(|refusal| stderr(output).contains(refusal));
    if refused {
        eprintln!("skipped: {}", stderr(output));
    }
    refused
}

#[test]
fn each_capture_of_a_series_can_be_read_alone_and_no_sample_is_lost() {
    if !have(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let work = compile(folder.path(), "work", &["-O1"], WORK, None);
    let out = tempfile::tempdir().expect("a folder");
    let mut command = hardmeter();
    command.args(["record", "--source", "timer", "-F", "200", "--interval", "2s", "-o"]);
    let output = run(command.arg(out.path().join("work.data")).arg("--").arg(&work));
    if skipped(&output) {
        return;
    }
    let said = stderr(&succeeded(output));
    let captures = captures(out.path());
    assert!(captures.len() >= 5, "{captures:?}\n{said}");
    let mut last = None;
    for capture in &captures {
        let notes = Sidecar::load(capture).expect("readable").expect("a side file");
        assert_eq!(notes.interval.map(|interval| interval.as_secs()), Some(2));
        assert_eq!(notes.lost, 0, "{}", capture.display());
        let (times, names) = samples(capture);
        // On a busy machine the last one may begin after the work.
        if times.is_empty() && Some(capture) == captures.last() {
            continue;
        }
        assert!(times.is_sorted() && !times.is_empty(), "{}", capture.display());
        assert!(last <= times.first().copied(), "no sample is in two captures");
        last = times.last().copied();
        assert_eq!(names, BTreeSet::from(["work".to_string()]), "{}", capture.display());
        // Names of code come from mappings, which only the first capture saw being made. The last one may hold
        // nothing but the program's end, in the kernel.
        if Some(capture) == captures.last() && times.len() < 20 {
            continue;
        }
        let report = stdout(&succeeded(run(hardmeter().args(["report", "-i"]).arg(capture))));
        assert!(report.contains("worker"), "{}: {report}", capture.display());
    }
    assert!(said.contains(&format!("{} captures complete, 0 not", captures.len())), "{said}");
    let others =
        files_in(out.path()).into_iter().filter(|name| name.contains("partial") || name.ends_with(".lock"));
    assert_eq!(others.count(), 0);
}

#[test]
fn a_second_recorder_of_an_output_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = |command: &[&str]| {
        let mut recorder = hardmeter();
        recorder.args(["record", "--source", "timer", "--interval", "60s", "-o"]);
        recorder.arg(folder.path().join("same.data")).arg("--").args(command);
        recorder
    };
    let mut first = record(&["sleep", "600"]).stderr(Stdio::piped()).spawn().expect("starts");
    let mut ended = false;
    wait_until("the first capture", || {
        ended = first.try_wait().expect("a child").is_some();
        ended || files_in(folder.path()).iter().any(|name| name.ends_with(".partial"))
    });
    let second = run(&mut record(&["true"]));
    if !ended {
        interrupt(&mut first);
    }
    let first = first.wait_with_output().expect("ended");
    if skipped(&first) {
        return;
    }
    let said = stderr(&second);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another recorder writes captures of"), "{said}");
    assert!(said.contains("another name with -o"), "{said}");
    assert!(stderr(&first).contains("1 captures complete, 0 not"), "{}", stderr(&first));
    let files = files_in(folder.path());
    assert_eq!(captures(folder.path()).len(), 1, "{files:?}");
    assert!(!files.iter().any(|name| name.ends_with(".lock")), "{files:?}");
}

#[test]
fn captures_of_a_running_server_name_its_objects_and_the_oldest_go() {
    let settings = ["shared_buffers=64MB", "autovacuum=off"];
    let Some(server) = ThrowawayServer::new(&["pgbench", "psql"], &settings, 2) else { return };
    let out = server.path("captures");
    std::fs::create_dir(&out).expect("a folder");
    // Another's file with such a name, and a part of an earlier series.
    std::fs::write(out.join("pg-20200101T000000.data"), "not a capture").expect("written");
    std::fs::write(out.join("pg-20200101T010000.data"), "an old one").expect("written");
    let mut old = Sidecar::new(hardmeter_samples::model::EventSource::Live);
    old.interval = Some(std::time::Duration::from_secs(3));
    old.store(&out.join("pg-20200101T010000.data")).expect("written");
    let mut load = Command::new("pgbench");
    load.envs(server.cluster().environment()).args(["-S", "-n", "-M", "prepared", "-c", "2", "-T", "600"]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let mut command = hardmeter();
    // Long enough for samples of the index also where other programs take most of the CPUs.
    command.args(["record", "--source", "live", "-F", "300", "--interval", "6s", "--keep", "2", "-o"]);
    command.arg(out.join("pg.data")).arg("--server").arg(server.folder().path());
    let mut recorder = command.stderr(Stdio::piped()).spawn().expect("starts");
    let begun = std::time::Instant::now();
    let mut over = false;
    // Until the second capture of this series has pushed the old one out, and a third is being written.
    while !over && begun.elapsed().as_secs() < 120 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        over = !out.join("pg-20200101T010000.data").exists() && captures(&out).len() == 3;
        over |= recorder.try_wait().expect("a child").is_some();
    }
    interrupt(&mut recorder);
    let output = recorder.wait_with_output().expect("ended");
    load.kill().expect("it runs");
    load.wait().expect("ended");
    if skipped(&output) {
        return;
    }
    let said = stderr(&succeeded(output));
    assert_eq!(std::fs::read(out.join("pg-20200101T000000.data")).expect("still there"), b"not a capture");
    assert!(
        !out.join("pg-20200101T010000.data").exists() && !out.join("pg-20200101T010000.data.json").exists()
    );
    let own: Vec<PathBuf> = captures(&out).into_iter().skip(1).collect();
    assert_eq!(own.len(), 2, "{:?}\n{said}", files_in(&out));
    assert!(said.contains("stopped by SIGINT"), "{said}");
    // A relation or a statement may have no sample in one of them.
    let shown = |arguments: &[&str]| -> String {
        let of_one = |capture: &PathBuf| stdout(&run(hardmeter().args(arguments).arg("-i").arg(capture)));
        own.iter().map(of_one).collect()
    };
    let objects = shown(&["objects", "--by", "name", "--all"]);
    assert!(objects.contains("pgbench_accounts_pkey"), "{objects}");
    let queries = shown(&["queries", "--full"]);
    let text = "select abalance from pgbench_accounts where aid=?";
    assert!(queries.to_lowercase().replace(" = ", "=").contains(text), "{queries}");
    for capture in own.iter().take(1) {
        let notes = Sidecar::load(capture).expect("readable").expect("a side file");
        assert!(!notes.statements.is_empty() && !notes.times.is_empty());
        let counts = notes.stall.expect("of a live recording").counts;
        let (times, _) = samples(capture);
        assert_eq!(counts.total() as usize, times.len(), "counted for this capture alone");
    }
}

#[test]
fn a_full_disk_costs_captures_and_then_the_recording() {
    if !have(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let work = compile(folder.path(), "work", &["-O1"], WORK, None);
    // A limit of file sizes is as good as a full disk: the head of a capture fits, with an id for each CPU, and a second
    // of samples does not. In blocks of 512 bytes.
    // SAFETY: no memory.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    let line = format!("ulimit -f {}; trap '' XFSZ; exec \"$@\"", 4 + cpus * 8 / 512);
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_hardmeter"), "record", "--source", "timer"]);
    command
        .args(["-F", "1000", "--interval", "1s", "-o"])
        .arg(folder.path().join("work.data"))
        .arg("--")
        .arg(&work);
    let output = run(command.stdin(Stdio::null()));
    if skipped(&output) {
        return;
    }
    let said = stderr(&output);
    assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{said}");
    assert!(said.contains("captures in a row could not be written"), "{said}");
    assert!(said.matches("no room").count() >= 3, "{said}");
    assert!(said.contains("remedy: free space"), "{said}");
    wait_until("the end of the command", || {
        !std::fs::read_dir("/proc")
            .expect("readable")
            .flatten()
            .any(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|program| program == work))
    });
}

#[test]
fn what_a_series_cannot_do_has_a_remedy() {
    for (arguments, status, cause) in [
        (
            &["record", "--interval", "2s", "--source", "simulated", "--", "true"][..],
            1,
            "live, timer and hardware",
        ),
        (&["record", "--interval", "2s", "--ghosts", "-p", "1"], 1, "does not work with --ghosts"),
        (&["record", "--interval", "10", "--delay", "3", "--", "true"], 2, "cannot be used with"),
        (&["record", "--interval", "0.1s", "--", "true"], 2, "a second or more"),
        (&["record", "--interval", "soon", "--", "true"], 2, "is not a time"),
        (&["record", "--keep", "3", "--", "true"], 2, "--interval"),
        (&["record", "--interval", "2s", "--keep", "0", "--", "true"], 2, "0 is not in"),
        (
            &["record", "--interval", "2s", "--source", "timer", "-o", "/no/folder/x", "--", "true"],
            1,
            "/no/folder",
        ),
    ] {
        let output = run(hardmeter().args(arguments));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(cause), "{arguments:?}: {said}");
    }
}
