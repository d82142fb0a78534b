//! The report on causes.

#[path = "../../answers/tests/common/capture.rs"]
mod example;

use example::capture;
use hardmeter_answers::{Answers, WhyQuestion};
use hardmeter_views::{Style, WhyReport};
use std::path::Path;

fn report(path: &Path, infer: bool) -> WhyReport {
    let question = WhyQuestion { machine: None, infer, limit: 5 };
    WhyReport(Answers::open(path).expect("opens").why(&question).expect("answered"))
}

/// Made by this test itself: after a change that is meant, copy what it prints.
const GOLDEN: &str = include_str!("golden/why.txt");

#[test]
fn a_fight_for_a_set_as_text_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, false);
    let text = report.render(Style::default(), true);
    assert_eq!(text, GOLDEN, "\n{text}");
    let json = report.json();
    assert_eq!((&json["format"], &json["version"]), (&"hardmeter-why".into(), &1.into()));
    let l1d = &json["events"][0];
    assert_eq!(
        (&l1d["event"], &l1d["how"], &l1d["misses"]),
        (&"l1d-miss".into(), &"exact".into(), &100.into())
    );
    let conflict = &l1d["causes"][0];
    assert_eq!((&conflict["cause"], &conflict["share"]["count"]), (&"conflict".into(), &90.into()));
    assert_eq!(conflict["in_standing_sets"]["fraction"], 1.0);
    assert_eq!(conflict["p"], serde_json::Value::Null, "exact");
    let sets = &l1d["sets"];
    assert_eq!(sets["counts"][3], 91);
    assert_eq!(sets["standing_out"][0]["lines"][4]["address"], "0x7f00000010c0");
    assert_eq!((&l1d["walked"]["count"], &l1d["walked"]["of"]), (&2.into(), &100.into()));
    assert_eq!(json["events"][1]["pages"]["pages"], 4);
    let change = json["reuse"]["sizes"][3]["change"].as_f64().expect("misses now");
    assert!((change + 1.0 / 3.0).abs() < 1e-12, "600 misses become 400: {change}");
}

/// The same, inferred: with every miss sampled, all of it is right but for the first round of the fight, whose lines
/// had missed before this recording and look like first touches.
#[test]
fn inferred_causes_are_held_against_the_exact_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, true);
    let score = report.events[0].score.expect("causes are told");
    assert_eq!((score.total(), score.agreement().count), (100, 95));
    let text = report.render(Style::default(), true);
    let matrix = "  \
  inferred against exact (n = 100): 100 got a verdict (100.00 %); 95 are right (95.00 %, 95 %:
  88.82..97.85 %), kappa 0.77
  inferred \\ exact  cold  capacity  conflict  coherence
  cold                10         0         5          0
  capacity             0         0         0          0
  conflict             0         0        85          0
  coherence            0         0         0          0
  unknown              0         0         0          0
";
    assert!(text.contains(matrix), "{text}");
    let page = report.html();
    assert!(page.contains("inferred against exact (n = 100)") && !page.contains("<script"), "{page}");
}

/// Colours and blocks are for terminals alone.
#[test]
fn a_terminal_gets_blocks_and_a_pipe_digits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, false);
    let terminal = report.render(Style { color: true, width: Some(100) }, true);
    assert!(terminal.contains("\x1b[1;31m█\x1b[0m"), "the set that fights is hot: {terminal}");
    let piped = report.render(Style::default(), true);
    assert!(piped.is_ascii(), "{piped}");
    assert!(piped.contains("0-15 1119111111......"), "{piped}");
}
