//! Faults of `hardmeter report`, `annotate` and `export`: each message has cause and remedy, each exit status is
//! right, and no partial file is left.

#[path = "report/bench.rs"]
mod bench;

use bench::{capture_without_samples, hardmeter, made_capture, Bench};
use std::process::{Command, Output, Stdio};

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn fails(arguments: &[&str], expected: &[&str]) {
    let output = hardmeter(arguments);
    let said = message(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    for part in expected {
        assert!(said.contains(part), "{arguments:?} should say \"{part}\": {said}");
    }
}

#[test]
fn files_that_are_no_captures() {
    let bench = Bench::new();
    let path = bench.path("file");
    fails(&["report", "-i", &path], &["cannot read", "No such file", "check the name"]);
    std::fs::write(&path, "").unwrap();
    fails(&["report", "-i", &path], &["is empty", "record again"]);
    std::fs::write(&path, "#!/bin/sh\necho this is not a capture, though long enough to be looked at\n")
        .unwrap();
    for command in [&["report"][..], &["annotate", "main"], &["export", "--to", "csv"]] {
        fails(&[command, &["-i", &path]].concat(), &["not a perf.data file", "hardmeter record"]);
    }
    // Without -i, in a folder that has no capture.
    let output = Command::new(env!("CARGO_BIN_EXE_hardmeter"))
        .arg("report")
        .current_dir(bench.path(""))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("remedy: record one"), "{}", message(&output));
}

#[test]
fn a_recording_that_was_killed_is_pointed_at() {
    let bench = Bench::new();
    let path = bench.path("backend.data");
    std::fs::write(format!("{path}.4711-0.partial"), "").unwrap();
    std::fs::write(format!("{path}.old.partial"), "").unwrap();
    let partial =
        format!("remedy: wait for its end, or read the part that is written: -i {path}.4711-0.partial");
    fails(&["report", "-i", &path], &["there is no", "was killed", &partial]);
}

#[test]
fn every_error_has_its_remedy_on_a_line_of_its_own() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    fails(&["report", "-i", "/nonexistent"], &["\n  remedy: check the name"]);
    fails(&["report", "-i", "/tmp"], &["\n  remedy: record without"]);
    fails(&["report", "-i", &capture, "--event", "nosuch"], &["\n  remedy: one of its events: "]);
    fails(&["annotate", "-i", &capture, "nosuch"], &["\n  remedy: "]);
}

#[test]
fn a_truncated_capture_gives_what_it_holds_and_says_what_is_missing() {
    let bench = Bench::new();
    let Some(whole) = made_capture(&bench) else { return };
    let bytes = std::fs::read(&whole).unwrap();
    let cut = bench.path("cut.data");
    // The last third is features and samples.
    std::fs::write(&cut, &bytes[..bytes.len() * 2 / 3]).unwrap();
    let output = hardmeter(&["report", "-i", &cut, "--by", "event", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("the result is partial: "), "{}", message(&output));
    assert!(message(&output).contains("remedy: "), "{}", message(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = report["tables"][0]["samples"].as_u64().unwrap();
    assert!(0 < left && left < 50, "{left} samples are left");
}

#[test]
fn a_capture_without_samples_says_so() {
    let bench = Bench::new();
    let path = capture_without_samples(&bench);
    for command in [&["report"][..], &["export", "--to", "csv"], &["export", "--to", "pprof"]] {
        let expected = ["holds no sample of l1d-miss, l2-miss", "remedy: record longer"];
        let out = bench.path("out");
        let output = if command[0] == "export" { vec!["-o", &out] } else { vec![] };
        fails(&[command, &["-i", &path], &output].concat(), &expected);
        assert!(!std::path::Path::new(&out).exists(), "no empty result is left");
    }
}

#[test]
fn a_filter_that_nothing_passes_says_so() {
    let bench = Bench::new();
    let Some(path) = made_capture(&bench) else { return };
    fails(&["report", "-i", &path, "--kernel-only"], &["none of the 50 samples", "loosen"]);
    fails(&["report", "-i", &path, "--comm", "mysqld"], &["none of the 50 samples"]);
    fails(&["report", "-i", &path, "--event", "l3-miss"], &["no event \"l3-miss\"", "l1d-miss, l2-miss"]);
    fails(&["annotate", "main", "-i", &path], &["no sample lies in routine \"main\""]);
}

#[test]
fn wrong_arguments_exit_with_2_and_name_the_right_ones() {
    let output = hardmeter(&["report", "--by", "colour"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("known: event, address"), "{}", message(&output));
    let output = hardmeter(&["report", "--columns", "colour"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("median-latency"), "{}", message(&output));
    assert_eq!(hardmeter(&["report", "--user-only", "--kernel-only"]).status.code(), Some(2));
}

#[test]
fn an_export_that_cannot_be_written_leaves_nothing() {
    let bench = Bench::new();
    let Some(path) = made_capture(&bench) else { return };
    let missing = bench.path("no/such/folder/out.json");
    for form in ["folded", "pprof", "firefox", "csv"] {
        let arguments = ["export", "--to", form, "-e", "l1d-miss", "-i", &path, "-o", &missing];
        fails(&arguments, &["cannot write", "check that the folder exists"]);
    }
    // /dev/full is a full disk.
    fails(
        &["export", "--to", "csv", "-i", &path, "-o", "/dev/full"],
        &["cannot write /dev/full", "No space left"],
    );
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let bench = Bench::new();
    let Some(path) = made_capture(&bench) else { return };
    for arguments in [&["report", "--all"][..], &["export", "--to", "csv"], &["annotate", "hot_routine"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hardmeter"));
        command.args(arguments).args(["-i", &path]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", message(&output));
        assert!(!message(&output).contains("panicked"), "{}", message(&output));
    }
}
