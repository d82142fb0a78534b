//! Data of a simulated capture besides its samples: simulated time, build ids, scaling of set sampling.

mod common;

use common::{can_simulate, compile, counts, hardmeter, have, perf, record, report, run, stdout, succeeded};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Walks 4 MB, line by line, three times.
const WALK: &str = "\
static volatile char memory[4 << 20];
int main(void) {
    int sum = 0;
    for (int round = 0; round < 3; round++)
        for (unsigned at = 0; at < sizeof memory; at += 64) sum += memory[at];
    return sum;
}
";

fn walker(folder: &Path) -> PathBuf {
    compile(folder, "walker", &["-static"], WALK, None)
}

fn notes(capture: &Path) -> Value {
    let text = std::fs::read_to_string(format!("{}.json", capture.display())).expect("notes");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn time_is_instructions_and_latencies() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = walker(folder.path());
    // One level of data cache, whose every miss costs 110 - 10 cycles more than a hit; code hits after warm-up.
    let machine = folder.path().join("plain.toml");
    std::fs::write(
        &machine,
        "name = \"plain\"\ntitle = \"t\"\nsource = \"made up\"\ncores = 1\nclock_mhz = 1000\nbase_cpi = 2.0\n\
         memory_latency = 110\npage_walk_latency = 0\n[l1i]\nsize = \"32 KiB\"\nways = 8\nlatency = 10\n\
         [l1d]\nsize = \"32 KiB\"\nways = 8\nlatency = 10\n",
    )
    .expect("written");
    let capture = folder.path().join("walk.data");
    let machine = machine.to_str().expect("UTF-8");
    record(&capture, &["-e", "l1d-miss/period=7/", "--machine", machine], &[&program]);
    let notes = notes(&capture);
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{notes:#}"));
    let (cycles, instructions) = (number(&notes["simulated_cycles"]), number(&notes["instructions"]));
    let data_misses = number(&notes["counts"]["l1d-miss"]);
    let code_misses = number(&notes["counts"]["l1i-miss"]);
    assert!(data_misses >= 3 * 65536, "every line of every round: {data_misses}");
    // Stores do not wait; the program's start has some hundred misses.
    let longest = 2 * instructions + 100 * (data_misses + code_misses);
    let walk = 2 * instructions + 100 * 3 * 65536;
    assert!((walk..=longest).contains(&cycles), "{walk} <= {cycles} <= {longest}");

    let text = stdout(&succeeded(run(hardmeter().args(["report", "--full", "-i"]).arg(&capture))));
    let each = format!("simulated cycles: {:.2} per cycle", instructions as f64 / cycles as f64);
    assert!(text.contains(&each), "{each}: {text}");
}

#[test]
fn the_files_that_ran_are_listed_with_their_build_ids() {
    if !can_simulate() || !have(&["readelf"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compile(folder.path(), "walker", &["-Wl,--build-id"], WALK, None);
    let notes = stdout(&succeeded(run(std::process::Command::new("readelf").arg("-n").arg(&program))));
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    let capture = folder.path().join("walk.data");
    record(&capture, &["-e", "l1d-miss"], &[&program]);
    let listed = perf(&["buildid-list"], &capture);
    assert!(listed.lines().any(|line| line == format!("{id} {}", program.display())), "{listed}");
    assert!(listed.contains("/libc.so.6\n"), "{listed}");
}

#[test]
fn set_sampling_scales_what_is_seen_by_line_and_nothing_else() {
    if !can_simulate() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = walker(folder.path());
    let count = |sampling: &str, format: &str| {
        stdout(&succeeded(run(hardmeter()
            .args(["stat", "-q", "--source", "simulated", "--machine", "xeon-2003", "--format", format])
            .args(["--set-sampling", sampling, "-e", "l1d-miss,loads,instructions", "--"])
            .arg(&program))))
    };
    let whole: Value = serde_json::from_str(&count("1", "json")).expect("JSON");
    let part: Value = serde_json::from_str(&count("8", "json")).expect("JSON");
    let events = |value: &Value| value["events"].as_array().expect("events").clone();
    for (whole, part) in events(&whole).iter().zip(&events(&part)) {
        assert_eq!(whole["scaled"], false, "{whole}");
        if part["name"] == "l1d-miss" {
            assert_eq!((&part["scaled"], &part["one_line_in"]), (&true.into(), &8.into()), "{part}");
            assert_eq!(part["counted"].as_u64().unwrap() * 8, part["count"].as_u64().unwrap(), "{part}");
        } else {
            assert_eq!(part["scaled"], false, "{part}");
            assert_eq!(part["count"], whole["count"], "the program is the same");
        }
    }
    let text = count("8", "text");
    let line = |event: &str| text.lines().find(|line| line.contains(event)).expect("a line").trim_end();
    assert!(
        line("l1d-miss").contains("about: scaled from ") && line("l1d-miss").ends_with("1 cache line in 8")
    );
    assert!(line("loads").ends_with("loads") && line("instructions").ends_with("instructions"), "{text}");
    assert!(!text.contains("source simulated"), "-q leaves the counts alone: {text}");

    // A sample stands for the counted number of events.
    let capture = folder.path().join("part.data");
    let events = ["-e", "l1d-miss/period=101/,loads/period=101/", "--set-sampling", "8"];
    record(&capture, &events, &[&program]);
    let notes = notes(&capture);
    assert_eq!(notes["simulated_cycles"], Value::Null, "misses that were left out cost no time");
    assert_eq!(notes["one_line_in"], 8);
    let by_event = report(&capture, &["--by", "event", "--columns", "count,events,event"]);
    for ((_, event), _) in counts(&by_event, &["event"]) {
        let rows = by_event["tables"][0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["event"] == event[0].as_str()).expect("a row");
        let (stands_for, counted) =
            (row["events"].as_u64().unwrap(), notes["counts"][&event[0]].as_u64().unwrap());
        let one = 101 * if event[0] == "loads" { 1 } else { 8 };
        assert!(stands_for <= counted && counted < stands_for + one, "{event:?}: {stands_for} of {counted}");
    }
}
