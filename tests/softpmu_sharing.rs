//! Coherence on the software PMU compared with computed results: a line that two cores write alternately
//! (`microkernels/sharing.c`).
//!
//! ```text
//!   turn        0        1        2        3     ...
//!   core 0   store    .        store    .            from its second store on, each finds the line taken: a
//!   core 1   .        store    .        store        coherence miss, and takes it back: an invalidation
//! ```
//!
//! In N turns of both there are 2 N stores. Each but the first takes the line from the other core: 2 N - 1
//! invalidations. Each but the first of either core misses what that core had: 2 N - 2 coherence misses.

mod common;

use common::{can_simulate, record, tests_folder};
use hardmeter_samples::model::{
    AccessSize, MemoryEvent, MemoryOperation, MissCause, Record, SharingVerdict, SimulatedDetail,
};
use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

const TURNS: usize = 500;

/// A sample of one of the two events, on the page that both sides share.
struct Seen {
    event: MemoryEvent,
    own_offset: u64,
    detail: SimulatedDetail,
}

fn program(folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let source = tests_folder().join(format!("microkernels/{name}.c"));
    let compiler = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(compiler.expect("cc runs").success());
    program
}

/// Every coherence miss and every invalidation of the line.
fn sharing(who: &str, words: &str, turns: usize) -> Vec<Seen> {
    events_on_the_line("sharing", &[who, words, &turns.to_string()])
}

/// The same, of threads that never wait for one another in the kernel (`microkernels/contention.c`).
fn contention(what: &str, words: &str, rounds: usize) -> Vec<Seen> {
    events_on_the_line("contention", &[what, words, "2", &rounds.to_string()])
}

fn events_on_the_line(name: &str, arguments: &[&str]) -> Vec<Seen> {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("sharing.data");
    let machine = tests_folder().join("machines/small-2.toml");
    let machine = machine.to_str().expect("UTF-8");
    let program = program(folder.path(), name);
    let mut command = vec![program.to_str().expect("UTF-8")];
    command.extend(arguments);
    // One more event: a recording without any sample is an error.
    let events = "coherence-miss/period=1/,invalidation/period=1/,l1d-miss/period=100/";
    record(&capture, &["-e", events, "--machine", machine], &command);

    let reader = CaptureReader::open(&capture).expect("readable");
    let events: Vec<_> = reader.events().iter().map(|event| event.known.expect("one of ours")).collect();
    let mut seen = Vec::new();
    let summary = reader.for_each(RecordOrder::Time, &mut |record| {
        if let Record::Sample(sample) = record {
            let detail = SimulatedDetail::decode(sample.raw.expect("a raw field")).expect("of ours");
            let address = sample.address.expect("an access").0;
            let event = events[sample.event.0];
            // The line is in the middle of its page; threads share more lines: their library's locks.
            if event != MemoryEvent::L1dMiss && address % 4096 / 64 == 32 {
                seen.push(Seen { event, own_offset: address % 64, detail });
            }
        }
        ControlFlow::Continue(())
    });
    summary.expect("read to its end");
    seen
}

fn of(event: MemoryEvent, seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.event == event).collect()
}

/// Every miss has its other side: a store of eight bytes, at `offset` from its own.
fn assert_misses(seen: &[Seen], verdict: SharingVerdict, distance: u64) {
    let misses = of(MemoryEvent::CoherenceMiss, seen);
    assert_eq!(misses.len(), 2 * TURNS - 2);
    assert_eq!(of(MemoryEvent::Invalidation, seen).len(), 2 * TURNS - 1);
    for miss in misses {
        assert_eq!(miss.detail.cause, Some(MissCause::Coherence));
        let other = miss.detail.sharing.expect("the other side");
        assert_eq!(other.verdict, Some(verdict));
        assert_eq!(u64::from(other.offset).abs_diff(miss.own_offset), distance);
        assert_eq!((other.size, other.operation), (AccessSize(8), MemoryOperation::Store));
    }
}

#[test]
fn processes_that_write_one_word_share_truly() {
    if can_simulate() {
        assert_misses(&sharing("processes", "same", TURNS), SharingVerdict::True, 0);
    }
}

#[test]
fn processes_that_write_different_words_of_a_line_share_falsely() {
    if can_simulate() {
        assert_misses(&sharing("processes", "different", TURNS), SharingVerdict::False, 32);
    }
}

#[test]
fn threads_are_on_cores_of_their_own_and_share_all_memory() {
    if can_simulate() {
        assert_misses(&sharing("threads", "same", TURNS), SharingVerdict::True, 0);
        assert_misses(&sharing("threads", "different", TURNS), SharingVerdict::False, 32);
    }
}

#[test]
fn a_line_each_and_lines_only_read_are_not_fought_for() {
    if can_simulate() {
        for who in ["processes", "threads"] {
            for words in ["apart", "read"] {
                assert_eq!(sharing(who, words, TURNS).len(), 0, "{who} {words}");
            }
        }
    }
}

/// Two processes that do not wait for each other: how often the line changes its owner depends on the scheduler,
/// the verdicts do not.
#[test]
fn racing_writers_are_told_apart_too() {
    if can_simulate() {
        for (words, verdict) in [("same", SharingVerdict::True), ("different", SharingVerdict::False)] {
            let seen = sharing("racers", words, 1_000_000);
            let misses = of(MemoryEvent::CoherenceMiss, &seen);
            let verdicts = misses.iter().filter_map(|miss| miss.detail.sharing?.verdict);
            let right = verdicts.filter(|found| *found == verdict).count();
            assert!(!misses.is_empty(), "the second access of the first process, at least");
            assert!(right * 100 >= misses.len() * 99, "{words}: {right} of {}", misses.len());
        }
    }
}

/// Two threads pass a flag to and fro. Each of 2 N passes is a store that the other thread waits to read, so it takes
/// the line from the other core (2 N - 1 invalidations, for the first store takes it from no core or from the thread
/// that looked first), and each but the last two is followed by the reader's miss of what it had before.
#[test]
fn a_flag_passed_to_and_fro_moves_its_line_at_each_pass() {
    if !can_simulate() {
        return;
    }
    const PASSES: usize = 200;
    let seen = contention("flag", "same", PASSES);
    let misses = of(MemoryEvent::CoherenceMiss, &seen);
    let invalidations = of(MemoryEvent::Invalidation, &seen).len();
    for count in [misses.len(), invalidations] {
        assert!((2 * PASSES - 2..=2 * PASSES + 2).contains(&count), "{} and {invalidations}", misses.len());
    }
    let truly = misses
        .iter()
        .filter(|miss| miss.detail.sharing.is_some_and(|other| other.verdict == Some(SharingVerdict::True)));
    assert!(truly.count() * 100 >= misses.len() * 99);
}

/// Two threads increment without waiting. On this machine a transfer takes 54 cycles (L3 and L2), its holder uses the
/// line for a third of them, and an increment takes three instructions of a cycle each: some 7 increments fit. While
/// both run, every seventh increment of a thread misses, then; how long they do depends on the host, so only the kind of
/// the misses is required. With a line each none misses.
#[test]
fn counters_of_two_threads_contend_if_they_share_a_line() {
    if !can_simulate() {
        return;
    }
    const INCREMENTS: usize = 4000;
    for (words, verdict) in [("same", SharingVerdict::True), ("different", SharingVerdict::False)] {
        let seen = contention("locked", words, INCREMENTS);
        let misses = of(MemoryEvent::CoherenceMiss, &seen);
        assert!(!misses.is_empty(), "{words}");
        let right = misses
            .iter()
            .filter(|miss| miss.detail.sharing.is_some_and(|other| other.verdict == Some(verdict)));
        assert!(right.count() * 100 >= misses.len() * 99, "{words}");
    }
    assert_eq!(contention("locked", "apart", INCREMENTS).len(), 0);
}
