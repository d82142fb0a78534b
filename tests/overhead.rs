//! `hardmeter overhead` of programs whose throughput is known.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;

/// Long enough for the timer to sample it.
const WORK: &str =
    "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo 'tps = 1234.5 (without connecting)'";

/// The command prints the same throughput in each run, so measuring costs nothing, whatever the machine does. The
/// timer counts no events: only samples are compared.
#[test]
fn a_constant_throughput_costs_nothing() {
    if !common::is_root() {
        eprintln!("skipped: the timer needs root, or perf_event_paranoid below 3");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = hardmeter();
    command.args(["overhead", "--source", "timer", "--rounds", "2", "--format", "json"]);
    command.args(["--", "sh", "-c", WORK]);
    let output = run(command.current_dir(folder.path()));
    if stderr(&output).contains("doctor") {
        eprintln!("skipped: the timer cannot be sampled here: {}", stderr(&output));
        return;
    }
    let value: Value = serde_json::from_str(&stdout(&succeeded(output))).expect("JSON");
    let overhead = &value["overhead"];
    assert_eq!((&value["format"], &overhead["unit"]), (&"hardmeter-overhead".into(), &"tps".into()));
    let modes = overhead["modes"].as_array().expect("modes");
    let sample = modes.iter().find(|mode| mode["mode"] == "sample").expect("sampled");
    assert_eq!(sample["throughput"]["value"], 1234.5);
    assert_eq!(sample["change"], 0.0);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "no capture is left");
}

#[test]
fn a_workload_that_fails_is_named() {
    let output = run(hardmeter().args(["overhead", "--", "sh", "-c", "echo broken >&2; exit 3"]));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1));
    for part in ["measuring off failed: broken", "exit status: 3", "run the command alone first"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let output = run(hardmeter().args(["overhead", "--after", "rows:", "--", "true"]));
    assert!(stderr(&output).contains("no number after \"rows:\""), "{}", stderr(&output));
}
