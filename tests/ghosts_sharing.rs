//! `record --ghosts` and `sharing` on running processes that share memory in a known way (`microkernels/planted.c`).
//!
//! Needs hardmeter-ghost (`make build`), the right to trace processes, and two processors. Otherwise skipped with a message.

#![cfg(target_arch = "x86_64")]

mod common;

use common::{
    compile_with, hardmeter, have, hexadecimal, refuses_to_follow, run, stderr, succeeded, tests_folder,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// One process's side of a line: its only routine there, and where in the line that reads and writes.
#[derive(Debug, PartialEq)]
struct Side {
    routine: String,
    offsets: BTreeSet<u64>,
}

/// What is planted on a line.
#[derive(Debug)]
struct Planted {
    kind: String,
    sides: Vec<Side>,
}

/// The running processes, which end with it.
struct Processes {
    parent: Child,
    lines: BTreeMap<u64, Planted>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

/// Starts the program, which prints the true sharing.
fn start(program: &Path, words: &[&str]) -> Processes {
    let mut parent = Command::new(program).args(words).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines: BTreeMap<u64, Planted> = BTreeMap::new();
    for text in BufReader::new(parent.stdout.take().expect("a pipe")).lines() {
        let text = text.expect("text");
        if text == "ready" {
            break;
        }
        let words: Vec<&str> = text.split(' ').collect();
        let side = Side {
            routine: words[2].to_string(),
            offsets: words[3..].iter().map(|word| word.parse().expect("an offset")).collect(),
        };
        let line = lines
            .entry(hexadecimal(words[1]))
            .or_insert_with(|| Planted { kind: words[0].to_string(), sides: Vec::new() });
        line.sides.push(side);
    }
    Processes { parent, lines }
}

fn planted(folder: &Path) -> PathBuf {
    let program = folder.join("planted");
    let source = tests_folder().join("microkernels/planted.c");
    compile_with(
        Command::new("cc").args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source),
    );
    program
}

/// The report of `sharing` on the processes after `seconds`; `None`, with a message, if processes may not be
/// followed here.
fn sharing(processes: &Processes, capture: &Path, seconds: u32) -> Option<Value> {
    let pid = processes.parent.id().to_string();
    let output = run(hardmeter()
        // Loads are recorded as well, because a capture without samples is an error.
        .args(["record", "--ghosts", "-e", "coherence-miss,invalidation,loads", "-p", &pid, "-o"])
        .arg(capture)
        .args(["--", "sleep", &seconds.to_string()]));
    let said = stderr(&output);
    if refuses_to_follow(&said) {
        eprintln!("skipped: {said}");
        return None;
    }
    // On a busy machine so little may have been followed that nothing is counted yet.
    if !output.status.success() && said.contains("no samples in") {
        return Some(Value::Null);
    }
    succeeded(output);
    let mut view = hardmeter();
    view.args(["sharing", "--all", "--format", "json", "-i"]).arg(capture);
    Some(serde_json::from_slice(&succeeded(run(&mut view)).stdout).expect("JSON"))
}

fn lines_of(report: &Value) -> &[Value] {
    report["lines"].as_array().map_or(&[], Vec::as_slice)
}

fn line_at(report: &Value, address: u64) -> Option<&Value> {
    lines_of(report).iter().find(|line| line["address"].as_str().map(hexadecimal) == Some(address))
}

/// Routines with the offsets at which they use a line.
fn accesses_of(line: &Value) -> BTreeSet<(String, u64)> {
    let accesses = line["accesses"].as_array().expect("accesses").iter();
    let of = |access: &Value| {
        let bytes = access["bytes"].as_str().expect("bytes").split("..").next().expect("a first one");
        (
            access["code"]["routine"].as_str().expect("a routine").to_string(),
            bytes.parse().expect("an offset"),
        )
    };
    accesses.map(of).collect()
}

/// Whether all sides of a line are seen.
fn shows_all_sides(line: &Value, planted: &Planted) -> bool {
    let seen = accesses_of(line);
    let shows =
        |side: &Side| side.offsets.iter().any(|offset| seen.contains(&(side.routine.clone(), *offset)));
    planted.sides.iter().all(shows)
}

fn is_queue(planted: &Planted) -> bool {
    planted.sides.iter().any(|side| side.routine == "fill_slot")
}

/// True if each line has enough samples for a verdict.
const FEW: u64 = 20;

fn is_enough(report: &Value, planted: &BTreeMap<u64, Planted>) -> bool {
    let judged = |(address, planted): (&u64, &Planted)| {
        let line = line_at(report, *address);
        line.is_some_and(|line| {
            line["counts"]["misses"].as_u64().is_some_and(|misses| misses >= FEW)
                && shows_all_sides(line, planted)
                && (is_queue(planted) || !line["movement"].is_null())
        })
    };
    planted.iter().all(judged)
}

/// The number of rounds in which two processes were followed at once.
fn rounds_of_two(report: &Value) -> u64 {
    let ghosts = &report["capture"]["ghosts"];
    ghosts["windows"].as_u64().unwrap_or(0) - ghosts["rounds"].as_u64().unwrap_or(0)
}

/// From this length on a recording is not repeated.
const LONG_SECONDS: u32 = 24;
/// With fewer rounds of two processes the machine was too busy for a verdict: an idle one has 18 a second.
const ENOUGH_ROUNDS: u64 = 200;

/// Starts the program and follows it, again for twice as long until the report is enough. The test fails if a
/// long recording, with the two processes often followed at once, is not enough. `None`, with a message, if
/// they were not, or if processes may not be followed here.
fn follow_until(
    program: &Path,
    words: &[&str],
    capture: &Path,
    seconds: &mut u32,
    is_enough: impl Fn(&Processes, &Value) -> bool,
) -> Option<(Processes, Value)> {
    loop {
        let processes = start(program, words);
        let report = sharing(&processes, capture, *seconds)?;
        if is_enough(&processes, &report) {
            return Some((processes, report));
        }
        if *seconds >= LONG_SECONDS {
            let rounds = rounds_of_two(&report);
            assert!(rounds < ENOUGH_ROUNDS, "{report:#}");
            eprintln!(
                "skipped: too busy here: two processes were followed at once {rounds} times in {seconds} s"
            );
            return None;
        }
        *seconds *= 2;
    }
}

fn can_follow_two() -> bool {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: with one processor, processes are followed in turns");
        return false;
    }
    have(&["cc"])
}

/// Ten lines of two processes, each used in another way, five truly and five falsely shared; and the same program with
/// a line for each process.
#[test]
fn planted_sharings_of_two_processes_are_found_and_judged() {
    if !can_follow_two() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (program, capture) = (planted(folder.path()), folder.path().join("planted.data"));
    // Followed for longer where the machine is busy.
    let mut seconds = 3;
    let together =
        follow_until(&program, &["all", "together"], &capture, &mut seconds, |processes, report| {
            is_enough(report, &processes.lines)
        });
    let Some((processes, report)) = together else { return };
    assert_eq!(processes.lines.len(), 10);
    let found: BTreeSet<u64> =
        lines_of(&report).iter().map(|line| hexadecimal(line["address"].as_str().expect("text"))).collect();
    assert_eq!(found, processes.lines.keys().copied().collect(), "these lines and no others");
    for (address, planted) in &processes.lines {
        let line = line_at(&report, *address).expect("found above");
        // The process that fills a slot of the queue reads its own position first: that access is a
        // false-sharing miss, and it also brings the word that the other side wrote.
        let is_queue = is_queue(planted);
        let kind = line["verdict"]["kind"].as_str().expect("a kind");
        assert!(kind == planted.kind || is_queue && kind == "mixed", "{kind}: {planted:?}");
        assert_eq!(line["verdict"]["evidence"]["method"], "simulated");
        let only_reads = |side: &Side| ["read_flag", "read_setting"].contains(&side.routine.as_str());
        let way = if planted.sides.iter().any(only_reads) { "one-writer" } else { "ping-pong" };
        // A process that finds the queue full or empty only reads: the order of the writes depends on the
        // scheduler.
        assert!(is_queue || line["movement"]["kind"] == way, "{}: {planted:?}", line["movement"]);
        let planted_places: BTreeSet<(String, u64)> = planted
            .sides
            .iter()
            .flat_map(|side| side.offsets.iter().map(|offset| (side.routine.clone(), *offset)))
            .collect();
        let seen = accesses_of(line);
        assert!(seen.is_subset(&planted_places), "{seen:?} of {planted:?}");
        let accesses = line["accesses"].as_array().expect("accesses").iter();
        let pids: BTreeSet<u64> = accesses
            .flat_map(|access| access["pids"].as_array().expect("pids"))
            .map(|pid| pid.as_u64().expect("a number"))
            .collect();
        assert_eq!(pids.len(), 2, "both processes: {pids:?}");
    }
    drop(processes);

    // The same code, a line for each process.
    follow_until(&program, &["all", "apart"], &capture, &mut seconds, |processes, report| {
        assert_eq!(processes.lines.len(), 20);
        assert_eq!(lines_of(report), &[] as &[Value]);
        rounds_of_two(report) > 0 && report["capture"]["user_samples"].as_u64() > Some(0)
    });
}

/// Two programs that map one file: their code and the line lie at different addresses in each.
#[test]
fn processes_that_were_started_one_by_one_are_followed_together() {
    if !can_follow_two() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (program, capture) = (planted(folder.path()), folder.path().join("started.data"));
    let mut seconds = 2;
    let together = ["beside", "together", "started"];
    let together = follow_until(&program, &together, &capture, &mut seconds, |processes, report| {
        let enough = |line: &Value| line["counts"]["misses"].as_u64() >= Some(FEW);
        let line = lines_of(report).iter().find(|line| enough(line));
        let planted = processes.lines.values().next().expect("a line");
        line.is_some_and(|line| shows_all_sides(line, planted))
    });
    let Some((_, report)) = together else { return };
    let [line] = lines_of(&report) else { panic!("one line: {report:#}") };
    assert_eq!(line["verdict"]["kind"], "false");
    assert_eq!(line["movement"]["kind"], "ping-pong");

    let apart = ["beside", "apart", "started"];
    follow_until(&program, &apart, &capture, &mut seconds, |_, report| {
        assert_eq!(lines_of(report), &[] as &[Value]);
        rounds_of_two(report) > 0
    });
}
