//! `hardmeter split simulate` from end to end: output and refusals.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;
use std::fs;
use std::process::Output;

fn simulate(arguments: &[&str]) -> Output {
    let mut command = hardmeter();
    command
        .args(["split", "simulate", "--seconds", "0.3", "--learn", "0.2", "--interval", "0.1"])
        .args(arguments);
    run(&mut command)
}

fn json(arguments: &[&str]) -> Value {
    let output = simulate(&[&["--format", "json"], arguments].concat());
    let output = succeeded(output);
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Two clean kinds of 1.2 MB on two cores of 2 MB: separated, each takes its 105.6 us.
#[test]
fn soft_keeps_two_large_kinds_apart() {
    let report = json(&["--mix", "K", "--machine", "2x1,l2=2M,l3=32M", "--policy", "soft"]);
    let [default, soft] = report["outcomes"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((default["policy"].as_str(), soft["policy"].as_str()), (Some("default"), Some("soft")));
    assert!(number(&default["cpu_us"]) > 150.0 && number(&soft["cpu_us"]) < 125.0, "{report}");
    assert_eq!(soft["places"].as_array().unwrap().len(), 2);
}

#[test]
fn text_has_a_line_for_each_policy() {
    let output = simulate(&["--mix", "E", "--machine", "4x1"]);
    let output = succeeded(output);
    let text = stdout(&output);
    for name in ["default", "observe", "paper", "lazy", "soft"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}:\n{text}");
    }
    assert!(text.contains("Kinds") && text.contains("clean"), "{text}");
}

/// The paper's policy leaves a core idle if the mix does not fill whole cores: the guard detects it, and switches
/// placement off.
#[test]
fn a_guard_switches_off_what_loses() {
    let report = json(&["--mix", "E", "--machine", "2x1,l2=2M,l3=32M", "--policy", "paper", "--guard"]);
    let [default, paper] = report["outcomes"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!((default.get("guard"), paper["guard"]["phase"].as_str()), (None, Some("refused")), "{report}");
    assert_eq!(paper["places"].as_array().unwrap().len(), 0);
    assert!(number(&paper["throughput"]) > 0.99 * number(&default["throughput"]), "{report}");
    let arguments = ["--mix", "E", "--machine", "2x1,l2=2M,l3=32M", "--policy", "paper", "--guard"];
    let text = stdout(&succeeded(simulate(&arguments)));
    assert!(text.contains("paper: guard: refused: undecided, probably worse"), "{text}");
}

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sections.trace");
    let mut lines = vec![
        r#"{"format":"hardmeter-split-trace","version":1,"cycles_per_second":1000000000,"source":"a test"}"#
            .to_string(),
        r#"{"kind":"7.2","label":"SELECT 1","warm_cycles":200000.0}"#.to_string(),
    ];
    // One of 200 us each millisecond.
    lines.extend((1..=100).map(|i| format!(r#"[{},0,"7.2",200000,200000,"7.2",null,0]"#, i * 1_000_000)));
    fs::write(&path, lines.join("\n") + "\n" + r#"[1010"#).unwrap();
    let name = path.to_str().unwrap();
    let output = simulate(&["--trace", name, "--machine", "2x1", "--policy", "none"]);
    let output = succeeded(output);
    assert!(stdout(&output).contains("SELECT 1"), "{}", stdout(&output));
    assert!(stderr(&output).contains("not whole"), "{}", stderr(&output));
    let report = json(&["--trace", name, "--machine", "2x1", "--policy", "none"]);
    let default = &report["outcomes"][0];
    assert!((number(&default["cpu_us"]) - 200.0).abs() < 5.0, "{report}");
    assert!((number(&default["throughput"]) - 1000.0).abs() < 20.0, "{report}");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, "no trace").unwrap();
    let foreign = foreign.to_str().unwrap();
    for (arguments, status, said) in [
        (vec!["--mix", "Z", "--machine", "2x1"], 1, "there is no mix 'Z'"),
        (vec!["--machine", "2x"], 1, "invalid machine"),
        (vec!["--policy", "fair"], 2, "there is no policy 'fair'"),
        (vec!["--trace", "/nowhere", "--machine", "2x1"], 1, "/nowhere"),
        (vec!["--trace", foreign, "--machine", "2x1"], 1, "this is not a trace of sections"),
        (vec!["--damage", foreign, "--machine", "2x1"], 1, "damage file"),
        (vec!["--plan", foreign, "--machine", "2x1", "--policy", "none"], 1, "a plan has the form"),
    ] {
        let output = simulate(&arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
}
