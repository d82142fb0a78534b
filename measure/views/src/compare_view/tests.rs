//! Sentences and screens of comparisons made by hand.

use super::CompareReport;
use crate::screen::{Wanted, LINES};
use crate::Style;
use hardmeter_answers::why::{CacheLevel, EventKind};
use hardmeter_answers::{CompareColumn, CompareRun, Comparison, Label, Per, RunEvent, RunRow, RunSum};
use hardmeter_samples::model::EventSource;
use std::collections::BTreeMap;

/// A run of 1,000 transactions with this number of samples, each of one event, in each function.
fn run(file: &str, functions: &[(&str, u64)]) -> CompareRun {
    let sum = |samples: u64| {
        let events = samples as f64;
        RunSum { samples, events, squares: events, cycles: events * 14.0 }
    };
    let row = |(name, samples): &(&str, u64)| RunRow {
        event: 0,
        names: [Some(Label::plain(*name)), None, None, None, None],
        image: "postgres".into(),
        sum: sum(*samples),
    };
    let all = functions.iter().map(|(_, samples)| samples).sum();
    CompareRun {
        file: file.into(),
        source: EventSource::Simulated,
        machine: None,
        one_line_in: 1,
        filter: None,
        work: [(Per::Transaction, 1000.0)].into(),
        builds: BTreeMap::new(),
        events: vec![RunEvent {
            name: "l2-miss".into(),
            kind: EventKind::Miss(CacheLevel::L2),
            sum: sum(all),
        }],
        rows: functions.iter().map(row).collect(),
        lost: 0,
        remarks: Vec::new(),
        unread: Vec::new(),
    }
}

fn compared(a: &[(&str, u64)], b: &[(&str, u64)], per: Option<Per>) -> CompareReport {
    let tables = [vec![CompareColumn::Function], CompareColumn::PLACE.to_vec()];
    CompareReport(Comparison::of(&[run("a.data", a)], &[run("b.data", b)], &tables, per).expect("comparable"))
}

/// 100,000 misses, then 88,000: the error of the ratio's logarithm is sqrt(1/100,000 + 1/88,000) = 0.46 %, so that the
/// interval is 0.88 times exp(-0.906 %) to exp(0.906 %): 11.2 to 12.8 % less.
#[test]
fn one_sentence_says_how_much_and_where() {
    let before = [("heap_hot_search_buffer", 60_000), ("palloc", 40_000)];
    let sentence = |after: &[(&str, u64)]| compared(&before, after, None).sentences().remove(0);
    assert_eq!(
        sentence(&[("heap_hot_search_buffer", 48_000), ("palloc", 40_000)]),
        "12 % fewer L2 misses a transaction (11.2..12.8), nearly all in heap_hot_search_buffer"
    );
    assert_eq!(
        sentence(&[("heap_hot_search_buffer", 67_000), ("palloc", 45_000)]),
        "12 % more L2 misses a transaction (11.0..13.0), most of it in heap_hot_search_buffer (58 %)"
    );
    let same = sentence(&[("heap_hot_search_buffer", 60_100), ("palloc", 39_900)]);
    assert!(same.starts_with("no significant difference in L2 misses a transaction: 0.0 %"), "{same}");
    let moved = sentence(&[("heap_hot_search_buffer", 50_000), ("palloc", 50_000)]);
    assert!(
        moved.contains("; but 2 of 2 functions differ, most heap_hot_search_buffer (-16.7 %)"),
        "{moved}"
    );
}

#[test]
fn shares_and_the_difference_in_many_functions_have_sentences_too() {
    let before = [("one", 10_000), ("two", 10_000), ("three", 10_000)];
    let many =
        compared(&before, &[("one", 14_000), ("two", 13_000), ("three", 12_000)], None).sentences().remove(0);
    assert!(many.ends_with(", 44 % of it in one, 33 % in two, 22 % in three"), "{many}");
    let shares = compared(&before, &[("one", 20_000), ("two", 10_000), ("three", 10_000)], Some(Per::Share));
    let sentence = shares.sentences().remove(0);
    assert!(
        sentence.starts_with("of 1,000 L2 misses, 500.0 are in one instead of 333.3 (+50.0 %, "),
        "{sentence}"
    );
}

#[test]
fn the_screen_fits_and_hostile_names_stay_text() {
    let hostile = "f\u{1b}[31m<script>";
    let names: Vec<String> = (0..200).map(|number| format!("{hostile} {number}")).collect();
    let before: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1_000)).collect();
    let after: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 2_000)).collect();
    let report = compared(&before, &after, None);
    assert!(report.sentences()[0].ends_with("), spread over 200 functions"), "{:?}", report.sentences());
    for width in [80, 100, 200] {
        let text = report.screen(Style { color: false, width: Some(width) }, Wanted::default());
        assert!(text.lines().count() <= LINES, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
    let full = report.render(Style::default(), false);
    assert!(full.contains("200 of 200 rows differ") && full.lines().count() > 400, "{full}");
    let json = report.json();
    assert_eq!(json["events"][0]["tables"][0]["rows"].as_array().map(Vec::len), Some(200));
    assert_eq!(json["events"][0]["total"]["change"]["value"], 1.0);
}

#[test]
fn comma_separated_values_have_every_row() {
    let report = compared(&[("search", 1_000), ("insert", 500)], &[("search", 2_000), ("insert", 500)], None);
    let text = report.csv().expect("written");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("a head").clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(|row| row.expect("a row")).collect();
    let cell = |row: &csv::StringRecord, name: &str| {
        row[head.iter().position(|column| column == name).expect(name)].to_string()
    };
    let total = &rows[0];
    assert_eq!(
        (cell(total, "table"), cell(total, "a_samples"), cell(total, "b_rate")),
        ("total".into(), "1500".into(), "2.5".into())
    );
    let search =
        rows.iter().find(|row| cell(row, "table") == "function" && cell(row, "function") == "search");
    let search = search.expect("a row");
    for (column, expected) in
        [("event", "l2-miss"), ("a_rate", "1"), ("b_rate", "2"), ("difference", "1"), ("different", "true")]
    {
        assert_eq!(cell(search, column), expected, "{column}");
    }
    let change: f64 = cell(search, "change").parse().expect("a number");
    assert!((change - 1.0).abs() < 1e-9, "{change}");
    assert_eq!(rows.len(), 1 + 2 + 2, "the total, and two rows in each of two tables");
}
