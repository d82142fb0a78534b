//! `hardmeter report --html` and `hardmeter open`: one file with the known figures of a synthetic capture.

#[path = "report/bench.rs"]
mod bench;

use bench::{hardmeter, made_capture, Bench};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

fn succeeded(output: Output) -> Output {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The JSON that the page's script reads.
fn data_of(page: &str) -> Value {
    let begin = page.find("id=\"data\">").expect("data") + "id=\"data\">".len();
    let end = begin + page[begin..].find("</script>").expect("its end");
    serde_json::from_str(&page[begin..end]).expect("JSON")
}

/// 30 + 10 misses of L1d with latencies of 50 and 20 cycles, each for 1,000: 1,700,000 cycles. 6 + 4 of L2: 380,000.
#[test]
fn the_page_has_the_figures_of_the_capture() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let path = bench.path("report.html");
    let output = succeeded(hardmeter(&["report", "-i", &capture, "--html", &path]));
    assert!(output.stdout.is_empty(), "the page is the result");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("report of 50 samples, ") && said.trim_end().ends_with(&path), "{said}");
    let page = std::fs::read_to_string(&path).expect("written");
    let data = data_of(&page);
    let measures: Vec<(&str, u64)> = data["measures"]
        .as_array()
        .expect("measures")
        .iter()
        .map(|measure| (measure["label"].as_str().unwrap(), measure["total"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("cycles of L1d misses", 1_700_000),
        ("cycles of L2 misses", 380_000),
        ("L1d misses", 40_000),
        ("L2 misses", 10_000),
    ];
    assert_eq!(measures, expected);
    let routines: Vec<&str> =
        data["routines"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    for routine in ["main", "hot_routine", "cold_routine"] {
        assert!(routines.contains(&routine), "{routines:?}");
    }
    // No object has a name here, so the findings are routines.
    // 30 samples of 50 cycles, and 10 of 20: 1,500 of 1,700.
    let share = "<b>88.2 % of the cycles of L1d misses</b> (95 %: 78.8..93.8 %, n = 30 of 40 samples)";
    for text in ["<b id=\"finding-1\">hot_routine</b>", "1.50 M cycles", share] {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("75.00 % of l1d-miss"), "the listing of hot_routine: 30 of 40");
}

#[test]
fn the_filter_of_the_command_line_holds_for_the_page() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let path = bench.path("l2.html");
    succeeded(hardmeter(&["report", "-i", &capture, "--event", "l2-miss", "--html", &path, "--quiet"]));
    let data = data_of(&std::fs::read_to_string(&path).expect("written"));
    let labels: Vec<&Value> =
        data["measures"].as_array().unwrap().iter().map(|measure| &measure["label"]).collect();
    assert_eq!(labels, ["cycles of L2 misses", "L2 misses"]);
    let wrong = hardmeter(&["report", "-i", &capture, "--html", &path, "--format", "json"]);
    assert_eq!(wrong.status.code(), Some(2), "a page has no other form");
}

#[test]
fn open_writes_beside_the_capture_and_starts_the_browser() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let page = format!("{capture}.html");
    let printed = succeeded(hardmeter(&["open", &capture, "--no-browser"]));
    let canonical = std::fs::canonicalize(&page).expect("written");
    assert_eq!(String::from_utf8_lossy(&printed.stdout).trim_end(), canonical.to_str().unwrap());
    // A browser that records what it was started with.
    let (browser, noted) = (bench.path("browser"), bench.path("noted"));
    std::fs::write(&browser, format!("#!/bin/sh\nprintf '%s' \"$1\" > '{noted}'\n")).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hardmeter"));
    let output = succeeded(command.args(["open", &capture]).env("BROWSER", &browser).output().unwrap());
    assert!(output.stdout.is_empty(), "nothing to print where a browser shows it");
    assert_eq!(std::fs::read_to_string(&noted).expect("asked"), canonical.to_str().unwrap());
}

/// A headless Chromium shows the page without console messages.
#[test]
fn a_browser_draws_the_page_without_complaint() {
    let known = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
    let Some(browser) = known.into_iter().find(|path| Path::new(path).is_file()) else {
        eprintln!("skipped: no Chromium (apt-get install chromium)");
        return;
    };
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let path = bench.path("report.html");
    succeeded(hardmeter(&["report", "-i", &capture, "--html", &path]));
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
        ])
        .arg(format!("--user-data-dir={}", bench.path("profile")))
        .args(["--dump-dom", &format!("file://{path}")])
        .output()
        .unwrap();
    let (drawn, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if drawn.is_empty() {
        eprintln!("skipped: {browser} does not start here: {log}");
        return;
    }
    assert!(drawn.contains("<body class=\"drawn\">"), "the script did not run: {log}");
    assert!(drawn.contains("hot_routine (in program): 1.50 M cycles, 88.2 %, n = 30"), "the flame graph");
    assert!(!log.contains("CONSOLE"), "{log}");
}

/// Trials on the server that was recorded are a chapter of its report; those on other servers are not.
#[test]
fn trials_on_the_recorded_server_are_a_chapter() {
    let bench = Bench::new();
    let Some(capture) = made_capture(&bench) else { return };
    let notes = hardmeter_samples::object_notes::ObjectNotes::new("PostgreSQL 15.20 (process 4711)");
    std::fs::write(format!("{capture}.objects"), serde_json::to_string(&notes).unwrap()).unwrap();
    let begin = |entry: u64, postmaster: i32, remedy: &str| {
        let begin = serde_json::json!({"event": "begin", "entry": entry, "at": 1_700_000_000, "server": postmaster.to_string(),
            "target": "shop at /run", "database": "shop", "remedy": remedy, "finding": null, "evidence": [],
            "predicted": 0.5, "switches": [], "backends": [], "postmaster": postmaster});
        let closed = serde_json::json!({"event": "closed", "entry": entry, "at": 1_700_000_100, "how": "undone", "note": "ended early"});
        format!("{begin}\n{closed}\n")
    };
    let folder = bench.path("state/hardmeter/tune");
    std::fs::create_dir_all(&folder).unwrap();
    let ledger = begin(1, 4711, "jit") + &begin(2, 4712, "spill");
    std::fs::write(format!("{folder}/ledger.jsonl"), ledger).unwrap();
    let path = bench.path("report.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hardmeter"));
    command.env("XDG_STATE_HOME", bench.path("state")).args(["report", "-i", &capture, "--html", &path]);
    succeeded(command.output().unwrap());
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("id=\"tuning\"") && page.contains("Entry 1: jit, undone: the trial ended early"));
    assert!(!page.contains("Entry 2"), "another server");
    // Without such trials there is no such chapter.
    command.env("XDG_STATE_HOME", bench.path("none"));
    succeeded(command.output().unwrap());
    assert!(!std::fs::read_to_string(&path).unwrap().contains("id=\"tuning\""));
}
