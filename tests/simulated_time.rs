//! The cost of misses: one program reads the same lines in order, at computed addresses and by pointers; it misses
//! equally often, and the views rank by the time of each way.

mod common;

use common::{can_simulate, compile, hardmeter, record, report, run, stdout, succeeded, tests_folder};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// 16,384 lines of 1 MB, four times what `timed` has of cache, each way once.
const THREE_WAYS: &str = "\
#include <stdint.h>
enum { LINES = 16384 };
static struct line { struct line *next; uint64_t rest[7]; } line[LINES] __attribute__((aligned(4096)));
static uint32_t order(uint32_t i) { return i * 7919u % LINES; } /* odd: every line once */
__attribute__((noinline)) static uint64_t in_order(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LINES; i++) sum += line[i].rest[0];
    return sum;
}
__attribute__((noinline)) static uint64_t at_computed_places(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LINES; i++) sum += line[order(i * 31)].rest[0];
    return sum;
}
__attribute__((noinline)) static struct line *by_pointer(struct line *at) {
    for (uint32_t i = 0; i < LINES; i++) at = at->next;
    return at;
}
int main(void) {
    for (uint32_t i = 0; i < LINES; i++) line[order(i * 17)].next = &line[order((i + 1) * 17)];
    volatile uint64_t sum = in_order();
    sum += at_computed_places();
    sum += (uint64_t)by_pointer(line);
    return 0;
}
";

const LINES: f64 = 16384.0;

fn recorded(folder: &Path, machine: &str, more: &[&str]) -> PathBuf {
    let program = compile(folder, "three-ways", &["-O1", "-static", "-no-pie"], THREE_WAYS, None);
    let capture = folder.join("ways.data");
    let machine = tests_folder().join("machines").join(machine);
    let mut words = vec!["-e", "l3-miss/period=7/", "--machine", machine.to_str().expect("UTF-8")];
    words.extend(more);
    record(&capture, &words, &[&program]);
    capture
}

fn notes(capture: &Path) -> Value {
    let text = std::fs::read_to_string(format!("{}.json", capture.display())).expect("notes");
    serde_json::from_str(&text).expect("JSON")
}

/// Routine, misses and cycles of each row, in the order of the report.
fn rows(report: &Value) -> Vec<(String, f64, f64)> {
    let rows = report["tables"][0]["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{row:#}"));
            let routine = row["routine"].as_str().expect("a routine").to_string();
            (routine, number(&row["events"]), 7.0 * number(&row["latencies"]["sum"]))
        })
        .collect()
}

#[test]
fn what_takes_the_time_comes_first_though_all_miss_alike() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = recorded(folder.path(), "timed.toml", &[]);
    let rows = rows(&report(&capture, &["--by", "routine"]));
    let of = |name: &str| {
        let row = rows.iter().find(|(routine, ..)| routine == name);
        let (_, misses, cycles) = row.unwrap_or_else(|| panic!("{name}: {rows:?}"));
        // Four times the cache: some lines of the previous way are still there.
        assert!((0.94..=1.01).contains(&(misses / LINES)), "each line once: {rows:?}");
        *cycles
    };
    assert_eq!(rows[0].0, "by_pointer", "{rows:?}");
    // The chase: 200 - 4 cycles per miss and a page walk of at most 30, minus overlap.
    let (chase, random, stream) = (of("by_pointer"), of("at_computed_places"), of("in_order"));
    assert!((0.94 * 190.0 * LINES..=226.0 * LINES).contains(&chase), "{chase}");
    // Ten lines are awaited at a time.
    assert!((0.5..=1.3).contains(&(random / (chase / 10.0))), "{random} of {chase}");
    // Fetched ahead.
    assert!(stream < chase / 10.0, "{stream} of {chase}");

    let notes = notes(&capture);
    assert_eq!(notes["latency"], "exposed");
    let hidden = &notes["hidden_latency"];
    let dependent = hidden["dependent"].as_f64().expect("a number");
    assert!((0.94 * LINES..=1.1 * LINES).contains(&dependent), "{hidden:#}");

    let text = stdout(&succeeded(run(hardmeter()
        .args(["report", "--full", "--by", "routine", "-i"])
        .arg(&capture))));
    let head = text.lines().find(|line| line.contains("routine")).expect("a head");
    assert!(head.trim_start().starts_with("stall  count"), "{text}");
    assert!(text.contains("latencies are exposed: the part that the modelled core could not hide"), "{text}");
    // Figures without time are in their own order.
    let by_count = ["report", "-q", "--by", "routine", "--columns", "count,share", "--all", "-i"];
    let text = stdout(&succeeded(run(hardmeter().args(by_count).arg(&capture))));
    let counts =
        text.lines().filter_map(|line| line.split_whitespace().next()?.replace(',', "").parse::<u64>().ok());
    let counts: Vec<u64> = counts.collect();
    assert!(counts.len() > 3 && counts.is_sorted_by(|a, b| a >= b), "{text}");
    let first = stdout(&succeeded(run(hardmeter().args(["objects", "-i"]).arg(&capture))));
    assert!(first.contains(") of the stall time; "), "{first}");
}

#[test]
fn without_a_core_and_with_set_sampling_latencies_are_whole_and_rows_go_by_count() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (machine, more) in [("small.toml", &[][..]), ("timed.toml", &["--set-sampling", "4"])] {
        let capture = recorded(folder.path(), machine, more);
        let notes = notes(&capture);
        assert_eq!(notes["latency"], "whole");
        assert_eq!(notes["hidden_latency"], Value::Null);
        let report = report(&capture, &["--by", "routine"]);
        let rows = report["tables"][0]["rows"].as_array().expect("rows").clone();
        let counts: Vec<u64> = rows.iter().map(|row| row["count"].as_u64().expect("a count")).collect();
        assert!(counts.is_sorted_by(|a, b| a >= b), "{rows:?}");
        for row in &rows {
            assert!(
                row["latencies"]["mean"].as_f64().expect("a mean") >= 200.0,
                "every one from memory: {row:#}"
            );
        }
    }
}

#[test]
fn a_capture_of_an_older_version_goes_by_count() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let capture = recorded(folder.path(), "timed.toml", &[]);
    let mut notes = notes(&capture);
    let fields = notes.as_object_mut().expect("an object");
    fields.remove("latency");
    fields.remove("hidden_latency");
    fields["machine"].as_object_mut().expect("a machine").remove("core");
    std::fs::write(format!("{}.json", capture.display()), notes.to_string()).expect("written");
    let text = stdout(&succeeded(run(hardmeter()
        .args(["report", "--full", "--by", "routine", "-i"])
        .arg(&capture))));
    let head = text.lines().find(|line| line.contains("routine")).expect("a head");
    assert!(head.trim_start().starts_with("count"), "{text}");
}
