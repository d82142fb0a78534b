//! Several questions in one walk give the same answers as in separate walks.

mod example {
    include!("common/capture.rs");
}

use hardmeter_answers::{
    Answer, Answers, Filter, ModeFilter, ObjectsQuestion, QueriesQuestion, Question, SharingQuestion,
    TopQuestion, WhyQuestion,
};
use serde_json::{to_value, Value};
use std::cell::Cell;
use std::rc::Rc;

/// The answer without the parts that depend on the other questions: warnings on names, and checked addresses.
fn comparable(mut answer: Value) -> Value {
    answer["remarks"] = Value::Null;
    answer["heading"]["addresses"] = Value::Null;
    answer
}

#[test]
fn one_walk_answers_as_many_walks_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    example::capture(&path);
    let answers = Answers::open(&path).expect("opens");
    let report = answers.report().expect("answered");
    let one_walk: Vec<Value> = report
        .iter()
        .map(|answer| {
            let value = to_value(answer).expect("JSON");
            let inner = value.as_object().expect("a tagged answer").values().next().expect("one").clone();
            comparable(inner)
        })
        .collect();
    let alone = [
        to_value(answers.top(&TopQuestion::default()).expect("answered")),
        to_value(answers.why(&WhyQuestion::default()).expect("answered")),
        to_value(answers.objects(&ObjectsQuestion::default()).expect("answered")),
        to_value(answers.queries(&QueriesQuestion::default()).expect("answered")),
        to_value(answers.sharing(&SharingQuestion::default()).expect("answered")),
    ];
    for (together, alone) in one_walk.iter().zip(alone) {
        assert_eq!(*together, comparable(alone.expect("JSON")));
    }
    assert_eq!(one_walk.len(), 5);
    assert_eq!(one_walk[1]["events"][0]["misses"], 100);
}

/// Progress is reported at every 65,536 samples, so twice for 140,000: this counts the walks.
#[test]
fn three_questions_walk_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("long.data");
    example::long_capture(&path, 140_000);
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let answers = Answers::open(&path).expect("opens").watched_by(move |_| count.set(count.get() + 1));
    let questions = [
        Question::Top(Default::default()),
        Question::Why(Default::default()),
        Question::Objects(Default::default()),
    ];
    let together = answers.walk(&questions).expect("answered");
    assert_eq!(seen.get(), 2);
    let Answer::Top(top) = &together[0] else { panic!("{together:?}") };
    assert_eq!(top.samples(), 140_000);
}

#[test]
fn a_filter_says_what_it_lets_pass() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    example::capture(&path);
    let answers = Answers::open(&path).expect("opens");
    let event = answers.capture().find_event("dtlb-miss").expect("recorded");
    let filter = Filter { events: vec![event], mode: ModeFilter::User, ..Filter::default() };
    let top = answers.of_samples(filter).top(&TopQuestion::default()).expect("answered");
    assert_eq!((top.samples(), top.filter.as_deref()), (4, Some("user mode")));
}
