//! Reports that can be reckoned by hand.

use super::*;
use crate::power::Clock;
use crate::variants::Preset;
use crate::Scale;
use std::time::Duration;

fn answer(rows: &[&str]) -> Answer {
    Answer { rows: rows.iter().map(|row| vec![Some((*row).to_owned())]).collect() }
}

#[test]
fn answers_are_the_same_reordered_or_different() {
    let reference = answer(&["a", "b"]);
    assert_eq!(Verdict::of(&answer(&["a", "b"]), &reference), Verdict::Identical);
    assert_eq!(Verdict::of(&answer(&["b", "a"]), &reference), Verdict::Reordered);
    assert_eq!(Verdict::of(&answer(&["b", "b"]), &reference), Verdict::Different);
    assert_eq!(Verdict::of(&answer(&["a", "b "]), &reference), Verdict::Different);
    assert!(Verdict::Identical < Verdict::Reordered && Verdict::Reordered < Verdict::Different);
}

fn cost(ms: u64) -> Cost {
    Cost { wall: Duration::from_millis(2 * ms), cpu: Some(Duration::from_millis(ms)) }
}

/// Two queries of 100 and 400 ms; the second variant takes half of the one and 1.25 of the other.
fn report() -> Report {
    report_of(6, [50, 500])
}

/// The same with other blocks and other times of the second variant.
fn report_of(blocks: usize, others: [u64; 2]) -> Report {
    let queries = [(1, 100, others[0]), (6, 400, others[1])].map(|(number, base, other)| {
        let mut runs = QueryRuns::new(Query::new(number).unwrap(), 2);
        for block in 0..blocks {
            // The second block ran on a machine half as fast: ratios are unaffected.
            let slow = if block == 1 { 2 } else { 1 };
            runs.variants[0].push_block([cost(base * slow), cost(base * slow)].into_iter());
            runs.variants[1].push_block([cost(other * slow), cost(other * slow)].into_iter());
        }
        runs
    });
    let order = PowerOrder {
        variants: vec!["stock=".parse().unwrap(), "other=jit=on".parse().unwrap()],
        queries: queries.iter().map(|query| query.query).collect(),
        source: Source::Seed(5),
        preset: Preset::Default,
        clock: Clock::Cpu,
        blocks,
        warm_up: 0,
        timeout: Duration::from_secs(1),
        refresh: false,
    };
    let data = Data { scale: Scale::ONE, refreshes: 0 };
    Report::new(&order, data, "15.20".into(), true, queries.into(), Vec::new())
}

#[test]
fn totals_can_be_reckoned_by_hand() {
    let total = report().total(1).unwrap();
    assert_eq!(total.ms.value, 550.0);
    assert!((total.ratio.median.value - 1.1).abs() < 1e-12, "550 of 500 ms");
    assert!((total.geometric_mean.median.value - (0.5_f64 * 1.25).sqrt()).abs() < 1e-12);
    assert_eq!((total.worst.0.number(), total.worst.1), (6, 1.25));
    assert_eq!(total.slower.iter().map(|query| query.number()).collect::<Vec<_>>(), [6]);
    assert_eq!(total.ratio.median.interval_95.map(|interval| interval.low), Some(1.1));
    assert_eq!(report().total(0).unwrap().ratio.median.value, 1.0);
}

#[test]
fn the_verdict_is_by_the_time_of_all_queries_and_takes_seven_blocks() {
    use hardmeter_evidence::Verdict::{Better, Same, Undecided, Worse};
    // The base takes 500 ms.
    let verdict = |blocks, others| report_of(blocks, others).total(1).unwrap().verdict;
    assert_eq!(verdict(FEWEST_BLOCKS, [50, 500]), Some(Worse));
    assert_eq!(verdict(FEWEST_BLOCKS, [200, 200]), Some(Better));
    assert_eq!(verdict(FEWEST_BLOCKS - 1, [50, 500]), Some(Undecided));
    assert_eq!(verdict(12, [96, 404]), Some(Same));
    assert_eq!(report().total(0).unwrap().verdict, None);
}

#[test]
fn a_query_that_failed_is_in_no_total() {
    let mut report = report();
    assert!(report.is_sound());
    let failure = Failure { variant: "other".into(), reason: "no".into(), remedy: String::new() };
    report.queries[1].failure = Some(failure);
    assert!(!report.is_sound());
    let total = report.total(1).unwrap();
    assert_eq!((total.ms.value, total.ratio.median.value), (50.0, 0.5));
    report.queries[0].answers[1] = Verdict::Reordered;
    assert_eq!(report.total(1).unwrap().other_answers.len(), 1);
}

#[test]
fn without_cpu_time_ratios_are_of_wall_time() {
    let mut runs = Runs::default();
    runs.push_block([Cost { wall: Duration::from_millis(30), cpu: None }, cost(10)].into_iter());
    assert_eq!(runs.cpu_ms(), None);
    assert_eq!(runs.blocks, [25.0]);
}

#[test]
fn the_file_is_whole_and_says_what_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    report().write(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(value["parameters"], "seed 5");
    assert_eq!(value["settings"]["enable_bitmapscan"], "off");
    assert_eq!(value["queries"][1]["variants"][1]["ratio"]["value"], 1.25);
    assert_eq!(value["queries"][0]["variants"][1]["cpu_ms"]["value"], 50.0);
    assert_eq!(value["totals"][1]["worst"], serde_json::json!([6, 1.25]));
    let error = report().write(&folder.path().join("none/result.json")).unwrap_err();
    assert!(error.to_string().starts_with("cannot write "), "{error}");
}
