//! Counting a program's memory events on the software PMU, through the command as a user would.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All events that are counted, in one run.
const EVENTS: &str =
    "l1d-miss,l1i-miss,l2-miss,l3-miss,dtlb-miss,itlb-miss,stlb-miss,loads,stores,instructions";

/// Counts by the event's name.
pub type Counts = BTreeMap<String, u64>;

/// The repository's `tests` folder.
pub fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

/// Whether simulated tests can run here; prints why not.
pub fn valgrind_is_there() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: valgrind is not installed (apt-get install valgrind)");
    }
    there
}

/// The folder of the software PMU's tool after `make build`.
#[allow(dead_code)] // not every test that includes this file uses it
pub fn tool_folder() -> PathBuf {
    let built = tests_folder().join("../build/softpmu/valgrind");
    let folder = std::env::var_os("HARDMETER_SOFTPMU").map_or(built, PathBuf::from);
    folder.canonicalize().expect("the software PMU is built (make build-simulate)")
}

/// Compiles `tests/microkernels/SOURCE`; returns the program's path.
pub fn compile(source: &str, options: &[&str]) -> PathBuf {
    let stem = source.split('.').next().expect("a stem");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    // Renamed only when it is complete, because another test run may be using it.
    let (made, program) = (folder.join(format!("{stem}.{}", std::process::id())), folder.join(stem));
    let output = Command::new("gcc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-o")
        .arg(&made)
        .arg(tests_folder().join("microkernels").join(source))
        .output()
        .expect("gcc runs");
    assert!(output.status.success(), "gcc {source}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&made, &program).expect("a compiled program");
    program
}

/// Runs `command` on the machine `tests/machines/NAME.toml`.
pub fn count(machine: &str, command: &[&str]) -> Counts {
    let machine = tests_folder().join("machines").join(machine).with_extension("toml");
    let output = Command::new(env!("CARGO_BIN_EXE_hardmeter"))
        .args(["stat", "--source", "simulated", "--format", "json", "-e", EVENTS, "--machine"])
        .arg(machine)
        .arg("--")
        .args(command)
        .output()
        .expect("hardmeter runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hardmeter stat -- {command:?}: {complaint}");
    // The command's own output comes first; the report is the last object.
    let begin = output.stdout.windows(9).rposition(|text| text == b"{\n  \"comm").expect("stat prints JSON");
    let report: Value = serde_json::from_slice(&output.stdout[begin..]).expect("stat prints JSON");
    let events = report["events"].as_array().expect("an array of events");
    let pair = |event: &Value| {
        let name = event["name"].as_str().expect("events have names").to_string();
        (name, event["count"].as_u64().expect("everything is counted"))
    };
    events.iter().map(pair).collect()
}
