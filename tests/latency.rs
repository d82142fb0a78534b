//! `hardmeter latency` on this machine: its output formats and their structure. The test asserts no times,
//! because the machine may be busy.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use serde_json::Value;

#[test]
fn one_measurement_in_all_its_forms() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [machine, html, svg] = ["this.toml", "latency.html", "latency.svg"].map(path);
    let mut command = hardmeter();
    command.args(["latency", "--largest", "1M", "--repeats", "6", "--format", "json"]);
    command.arg("--write-machine").arg(&machine).arg("--html").arg(&html).arg("--svg").arg(&svg);
    let output = run(&mut command);
    if stderr(&output).contains("tells no first-level data cache") {
        return eprintln!("skipped: the kernel does not describe this machine's caches");
    }
    let output = succeeded(output);
    assert!(stderr(&output).contains("this machine's model -> "), "{}", stderr(&output));
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((&json["format"], &json["version"]), (&Value::from("hardmeter-latency"), &Value::from(1)));
    let summary = json["summary"].as_array().expect("summary");
    let names: Vec<&str> = summary.iter().filter_map(|row| row["name"].as_str()).collect();
    for name in ["L1", "memory", "TLB miss", "page walk"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let sizes = |name: &str| -> Vec<u64> {
        json[name]
            .as_array()
            .expect("points")
            .iter()
            .map(|point| point["bytes"].as_u64().expect("a size"))
            .collect()
    };
    assert_eq!(sizes("huge"), sizes("small"));
    assert_eq!((sizes("huge").first(), sizes("huge").last()), (Some(&4096), Some(&(1 << 20))));

    // The written model is one that the simulator takes, with the figures of the measurement.
    let text = std::fs::read_to_string(&machine).expect("written");
    let model: toml::Table = text.parse().expect("TOML");
    let cycles = |name: &str| {
        let row = summary.iter().find(|row| row["name"] == name).expect("a row");
        row["cycles"].as_f64().expect("a number").round() as i64
    };
    assert_eq!(model["memory_latency"].as_integer(), Some(cycles("memory").max(1)));
    assert_eq!(model["l1d"]["latency"].as_integer(), Some(cycles("L1").max(1)));
    assert!(model["core"].is_table(), "what the core hides stays as it was: {text}");

    let page = std::fs::read_to_string(&html).expect("written");
    assert!(page.contains("Content-Security-Policy") && page.contains("<svg") && !page.contains("<script"));
    assert!(std::fs::read_to_string(&svg).expect("written").starts_with("<svg xmlns"));
}

#[test]
fn the_screen_fits_and_wrong_arguments_are_refused() {
    let mut command = hardmeter();
    command.args(["latency", "--largest", "256K", "--repeats", "6"]).env("COLUMNS", "80");
    let output = run(&mut command);
    if stderr(&output).contains("tells no first-level data cache") {
        return eprintln!("skipped: the kernel does not describe this machine's caches");
    }
    let text = stdout(&succeeded(output));
    assert!(text.lines().count() <= 40 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("* ") && text.contains("o 4 KB pages"), "a plot: {text}");
    for wrong in [["--largest", "1K"], ["--largest", "much"], ["--repeats", "5"]] {
        assert_eq!(run(hardmeter().arg("latency").args(wrong)).status.code(), Some(2), "{wrong:?}");
    }
}
