//! Limits, notes and warnings of a side file are text for people: no view may read a figure from them.

#[path = "../../answers/tests/common/capture.rs"]
mod example;

use hardmeter_answers::{Answer, Answers, Question, WhyQuestion};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::sidecar::Sidecar;
use hardmeter_views::{
    ObjectsReport, PageReport, QualityReport, QueriesReport, SharingReport, TopReport, WhyReport,
};
use serde_json::Value;
use std::path::Path;

const REWORDINGS: usize = 500;

/// Marsaglia's xorshift: the same texts in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// A text of words that such notes are made of, numbers among them; often one that a program could take for a fact.
    fn text(&mut self) -> String {
        const WORDS: [&str; 16] = [
            "1",
            "cache",
            "line",
            "in",
            "8",
            "64",
            "was",
            "simulated",
            "and",
            "counts",
            "are",
            "scaled;",
            "cores",
            "simulated on xeon-2003:",
            "0.5",
            "transactions",
        ];
        let start = ["", "1 cache line in ", "one line in ", "simulated on "][self.below(4)];
        let words: Vec<&str> = (0..self.below(9)).map(|_| WORDS[self.below(WORDS.len())]).collect();
        format!("{start}{}", words.join(" "))
    }
}

/// The JSON of every view, by one walk.
fn views(path: &Path) -> Vec<Value> {
    let answers = Answers::open(path).expect("opens");
    let questions = [
        Question::Why(WhyQuestion::default()),
        Question::Why(WhyQuestion { infer: true, ..WhyQuestion::default() }),
        Question::Top(Default::default()),
        Question::Objects(Default::default()),
        Question::Queries(Default::default()),
        Question::Sharing(Default::default()),
        Question::Quality,
    ];
    let json = |answer| match answer {
        Answer::Top(answer) => TopReport(answer).json(),
        Answer::Why(answer) => WhyReport(answer).json(),
        Answer::Objects(answer) => ObjectsReport(answer).json(),
        Answer::Queries(answer) => QueriesReport(answer).json(),
        Answer::Sharing(answer) => SharingReport(answer).json(),
        Answer::Pages(answer) => PageReport(answer).json(),
        Answer::Quality(answer) => QualityReport(answer).json(),
        Answer::Annotate(_) | Answer::Cube(_) => panic!("not asked"),
    };
    answers.walk(&questions).expect("answered").into_iter().map(json).collect()
}

/// Every number of a JSON value, in order, with where it stands.
fn numbers(value: &Value, place: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Number(number) => found.push((place.to_string(), number.to_string())),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, item)| numbers(item, &format!("{place}[{i}]"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(key, item)| numbers(item, &format!("{place}.{key}"), found));
        }
        _ => {}
    }
}

fn figures(path: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    views(path).iter().enumerate().for_each(|(view, json)| numbers(json, &view.to_string(), &mut found));
    found
}

#[test]
fn rewording_the_texts_of_side_files_changes_no_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    example::capture(&path);
    let mut notes = Sidecar::load(&path).expect("read").expect("notes");
    notes.one_line_in = Some(8);
    notes.notes = vec!["1 cache line in 8 was simulated and counts are scaled".into(), "no kernel".into()];
    notes.workload.insert("transactions".into(), 4.0);
    notes.workload_limits = vec!["counted from outside".into()];
    notes.store(&path).expect("stored");
    let mut objects = ObjectNotes::new("a server made by hand");
    objects.remarks = vec!["operators are not known".into()];
    objects.store(&path).expect("stored");
    let expected = figures(&path);
    assert!(expected.len() > 300, "{} figures", expected.len());

    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for turn in 0..REWORDINGS {
        for texts in [&mut notes.notes, &mut notes.workload_limits, &mut objects.remarks] {
            texts.iter_mut().for_each(|text| *text = dice.text());
        }
        notes.store(&path).expect("stored");
        objects.store(&path).expect("stored");
        let found = figures(&path);
        let texts = (&notes.notes, &notes.workload_limits, &objects.remarks);
        assert!(
            found == expected,
            "turn {turn}: {texts:?} changed {:?}",
            first_difference(&expected, &found)
        );
    }

    // The field itself is what figures depend on.
    notes.one_line_in = Some(1);
    notes.store(&path).expect("stored");
    assert!(figures(&path) != expected, "expected counts depend on the scale");
}

type Figure = (String, String);

fn first_difference<'f>(expected: &'f [Figure], found: &'f [Figure]) -> Option<(&'f Figure, &'f Figure)> {
    expected.iter().zip(found).find(|(expected, found)| expected != found)
}
