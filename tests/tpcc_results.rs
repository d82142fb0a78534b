//! `hardmeter tpcc show`, `compare` and `merge` from end to end, on results that the terminals' driver measured against a stub.

mod common;

use common::{hardmeter, run, stderr, stdout, succeeded};
use hardmeter_session::{Progress, Stop};
use hardmeter_tpcc::backend::Style;
use hardmeter_tpcc::measure::{files, RunResult};
use hardmeter_tpcc::monitor::{drive, Logs};
use hardmeter_tpcc::order::{Mix, Mode, Queueing, RunOrder};
use hardmeter_tpcc::random::Constants;
use hardmeter_tpcc::stub::Stub;
use hardmeter_tpcc::time::Micros;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

/// Two of four warehouses from `first` on, a thousandth of keying and think times, three seconds.
fn measured(first: u32) -> RunResult {
    let order = RunOrder {
        all_warehouses: 4,
        first_warehouse: first,
        warehouses: 2,
        mode: Mode::Terminals { time_factor: 0.01 },
        mix: Mix::Deck,
        style: Style::Procedures,
        connections: 2,
        threads: 1,
        queueing: Queueing::Fifo,
        affinity: false,
        retries: 3,
        ramp_seconds: 1.0,
        interval_seconds: 2.0,
        seed: 1,
        constants: Constants { last: 100, customer: 7, item: 7 },
        load_last: Some(200),
        checkpoint_seconds: None,
        settings: Default::default(),
        start_at: None,
    };
    let stub = Stub { service: Micros(200) };
    drive(&order, &stub, &Logs::default(), &Stop::new(), &Silent).unwrap()
}

struct Results {
    folder: tempfile::TempDir,
}

impl Results {
    fn new() -> Results {
        Results { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn save(&self, name: &str, result: &RunResult) {
        files::save(result, &self.path(name)).unwrap();
    }

    fn tpcc(&self, arguments: &[&str]) -> Output {
        run(hardmeter().arg("tpcc").args(arguments).current_dir(self.folder.path()))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&stdout(&self.tpcc(&[arguments, &["--format", "json"]].concat()))).unwrap()
    }
}

fn load(path: &Path) -> RunResult {
    files::load(path).unwrap()
}

#[test]
fn a_result_is_shown_as_text_json_and_html() {
    let results = Results::new();
    let result = measured(1);
    results.save("run.json", &result);
    let orders = result.kinds[0].completed;
    assert!(orders > 10, "{orders}");

    let shown = results.tpcc(&["show", "run.json"]);
    let text = stdout(&shown);
    assert!(
        text.contains("not a TPC result") && text.contains("New-Order: 90 % of response times"),
        "{text}"
    );
    let value = results.json(&["show", "run.json"]);
    assert_eq!(value["summary"]["kinds"][0]["completed"], orders);
    // A hundredth of the think time is a deviation, and so is the number of New-Orders per warehouse; no run fails
    // by it.
    let verdict = |name: &str| {
        let verdicts = value["verdicts"].as_array().unwrap();
        let found = verdicts.iter().find(|verdict| verdict["name"] == name);
        found.unwrap_or_else(|| panic!("{name}"))["outcome"].as_str().unwrap().to_owned()
    };
    assert_eq!(verdict("keying and think times as specified"), "deviation");
    assert_eq!(verdict("New-Orders a minute and warehouse"), "deviation");
    assert_eq!(verdict("complete"), "held");
    assert_eq!(shown.status.code(), Some(i32::from(value["short"] == true)));

    std::fs::write(results.path("prices.toml"), "currency = 'EUR'\n[[item]]\nname = 'it all'\nprice = 5\n")
        .unwrap();
    let arguments = [
        "show",
        "run.json",
        "--html",
        "run.html",
        "--prices",
        "prices.toml",
        "--context",
        "--at",
        "run.json",
    ];
    let output = results.tpcc(&arguments);
    assert!(stdout(&output).is_empty(), "{}", stderr(&output));
    let page = std::fs::read_to_string(results.path("run.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.contains("it all") && page.contains("Published records") && page.contains("of 2 runs"));
    // Options for a page without a page are an error.
    assert_eq!(results.tpcc(&["show", "run.json", "--context"]).status.code(), Some(2));
}

#[test]
fn a_short_verdict_is_exit_status_1() {
    let results = Results::new();
    let mut result = measured(1);
    result.kinds[0].failed = 1;
    results.save("run.json", &result);
    let output = results.tpcc(&["show", "run.json"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    let short =
        |line: &str| line.trim_start().starts_with("SHORT ") && line.contains("transactions given up");
    assert!(text.lines().any(short), "{text}");
}

#[test]
fn a_pair_of_runs_is_described_and_others_are_refused() {
    let results = Results::new();
    let result = measured(1);
    results.save("a.json", &result);
    let mut slower = result.clone();
    slower.measured_seconds *= 3.0;
    slower.order.seed = 2;
    results.save("slower.json", &slower);
    let runs = results.json(&["compare", "a.json", "slower.json"])["runs"].clone();
    assert_eq!(runs["answer"]["verdict"], "undecided");
    let orders = &runs["answer"]["rows"][0];
    let ratio = orders["b"].as_f64().unwrap() / orders["a"].as_f64().unwrap();
    assert!((ratio - 1.0 / 3.0).abs() < 1e-9, "{orders}");
    let differing = runs["differences"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap());
    assert_eq!(differing.collect::<Vec<_>>(), ["measured_seconds", "order.seed"]);
    let text = stdout(&succeeded(results.tpcc(&["compare", "a.json", "slower.json"])));
    assert!(text.starts_with("no verdict: one run a side is one observation"), "{text}");
    assert!(text.contains("hardmeter tpcc compare --a A*.json --b B*.json"), "{text}");
    assert!(!text.contains("better") && !text.contains("worse"), "{text}");
    let mut other = result.clone();
    other.order.all_warehouses = 5;
    results.save("b.json", &other);
    let refused = results.tpcc(&["compare", "a.json", "b.json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("4 and 5") && stderr(&refused).contains("--force"),
        "{}",
        stderr(&refused)
    );
    let forced = stdout(&succeeded(results.tpcc(&["compare", "a.json", "b.json", "--force"])));
    assert!(forced.contains("NOT COMPARABLE") && forced.contains("order.all_warehouses"), "{forced}");
}

#[test]
fn runs_that_took_turns_are_judged() {
    let results = Results::new();
    let result = measured(1);
    // A B B A A B B A ...: twelve pairs, a minute apart; B took three times as long for as many New-Orders. Response
    // times are equal, so throughput alone has to be evidence enough for both measures.
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for minute in 0..24u64 {
        let is_b = matches!(minute % 4, 1 | 2);
        let mut run = result.clone();
        run.started_at += minute * 60_000_000;
        run.measured_seconds *= if is_b { 3.0 } else { 1.0 };
        let name = format!("{}{minute}.json", if is_b { "b" } else { "a" });
        results.save(&name, &run);
        let side = if is_b { &mut b } else { &mut a };
        side.push(name);
    }
    let words = |a: &[String], b: &[String]| -> Vec<String> {
        let mut words = vec!["compare".to_owned(), "--a".to_owned()];
        words.extend_from_slice(a);
        words.push("--b".to_owned());
        words.extend_from_slice(b);
        words
    };
    let arguments = words(&a, &b);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = stdout(&succeeded(results.tpcc(&arguments)));
    assert!(text.starts_with("B is worse: New-Orders a minute -66.7 %"), "{text}");
    let twice = words(&[a[0].clone(), a[0].clone()], &b);
    let twice: Vec<&str> = twice.iter().map(String::as_str).collect();
    let refused = results.tpcc(&twice);
    assert!(stderr(&refused).contains("a0.json is named twice on one side"), "{}", stderr(&refused));
    assert_eq!(results.tpcc(&["compare", "a0.json"]).status.code(), Some(2));
    assert_eq!(results.tpcc(&["compare", "--a", "a0.json"]).status.code(), Some(2));
}

#[test]
fn two_drivers_become_one_result() {
    let results = Results::new();
    let (east, mut west) = (measured(1), measured(3));
    west.started_at = east.started_at + 300_000;
    results.save("east.json", &east);
    results.save("west.json", &west);
    succeeded(results.tpcc(&["merge", "west.json", "east.json", "--output", "both.json"]));
    let both = load(&results.path("both.json"));
    for (kind, sum) in both.kinds.iter().enumerate() {
        assert_eq!(sum.completed, east.kinds[kind].completed + west.kinds[kind].completed);
        assert_eq!(sum.response.count(), sum.completed);
        let longest = east.kinds[kind].response.max().max(west.kinds[kind].response.max());
        assert_eq!(sum.response.max(), longest);
    }
    assert_eq!((both.order.warehouses, both.drivers.len()), (4, 2));
    // Shown together they are the same.
    assert_eq!(
        results.json(&["show", "east.json", "west.json"])["summary"],
        results.json(&["show", "both.json"])["summary"]
    );
    let twice = results.tpcc(&["merge", "east.json", "east.json", "--output", "both.json"]);
    assert_eq!(twice.status.code(), Some(1));
    assert!(stderr(&twice).contains("warehouse 1 is in two"), "{}", stderr(&twice));
    assert_eq!(load(&results.path("both.json")), both, "an older file stays as it was");
    assert_eq!(results.tpcc(&["merge", "east.json", "--output", "x.json"]).status.code(), Some(2));
}

#[test]
fn files_that_are_no_results_are_told_with_a_remedy() {
    let results = Results::new();
    std::fs::write(results.path("log.txt"), "pgbench (15.20)\n").unwrap();
    let text = files::to_json(&measured(1));
    std::fs::write(results.path("cut.json"), &text[..text.len() / 2]).unwrap();
    std::fs::write(results.path("later.json"), text.replacen("\"version\":1", "\"version\":7", 1)).unwrap();
    for (file, told) in [
        ("log.txt", "not a result of hardmeter tpcc run"),
        ("cut.json", "damaged"),
        ("later.json", "another version, 7"),
        ("none.json", "cannot read"),
    ] {
        let output = results.tpcc(&["show", file]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).contains(told) && stderr(&output).contains("remedy"),
            "{file}: {}",
            stderr(&output)
        );
    }
    std::fs::write(results.path("run.json"), &text).unwrap();
    std::fs::write(results.path("bad.toml"), "currency = 1").unwrap();
    let output = results.tpcc(&["show", "run.json", "--html", "x.html", "--prices", "bad.toml"]);
    assert!(stderr(&output).contains("bad.toml is not a price sheet"), "{}", stderr(&output));
    assert!(!results.path("x.html").exists());
}
