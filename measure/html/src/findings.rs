//! The strongest findings: the objects or routines that cost most, with causes, statements and places.

use crate::measures::{Measure, Unit};
use crate::names::{is_specific, Named, Ranked};
use hardmeter_answers::{CubeAnswer, CubeKey, Share};
use hardmeter_evidence::number::{duration, grouped, rounded};
use hardmeter_evidence::page::{bar, Bar};
use hardmeter_evidence::{WeightedShare, Weights};
use hardmeter_views::{advice, printable};
use maud::{html, Markup};
use serde_json::{json, Value as Json};

/// Findings shown.
const SHOWN: usize = 3;
/// Pieces of a bar.
const PIECES: usize = 4;

/// The subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Class and name.
    Object(String, String),
    /// A routine, if the capture has no objects.
    Routine(String),
}

/// A subject with a high cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) subject: Subject,
    /// Index of the measure by which it is ranked.
    pub(crate) measure: usize,
    /// Its part of that measure.
    pub(crate) value: u64,
    /// Its part of the measure, as a share.
    pub(crate) share: WeightedShare,
    /// Its samples, of those of the measure's events.
    pub(crate) samples: Share,
    /// Titles of bars, each with its largest pieces.
    pub(crate) bars: Bars,
}

/// The findings by cost: objects, each by the measure where it costs most; then routines, if there are too few objects.
pub(crate) fn findings(answer: &CubeAnswer, measures: &[Measure]) -> Vec<Finding> {
    let Some(main) = measures.first() else { return Vec::new() };
    let named = Named::new(answer);
    // Costs in one unit can be compared; counts of different events cannot, so those are ranked by the first
    // measure only.
    let comparable: Vec<usize> = match main.unit {
        Unit::Count => vec![0],
        _ => (0..measures.len())
            .filter(|index| measures[*index].unit == main.unit && measures[*index].id != "cpu")
            .collect(),
    };
    let object = |key: &CubeKey| {
        let (class, name) = named.object(key).filter(|(class, _)| is_specific(class))?;
        Some(Subject::Object(class.into(), name.into()))
    };
    let routine = |key: &CubeKey| Some(Subject::Routine(named.routine(key)?.into()));
    let mut findings = strongest(&named, measures, &comparable, &object, SHOWN);
    let missing = SHOWN - findings.len();
    findings.extend(strongest(&named, measures, &comparable, &routine, missing));
    findings
}

/// The subjects that cost most.
fn strongest(
    named: &Named<'_>,
    measures: &[Measure],
    comparable: &[usize],
    subject: &dyn Fn(&CubeKey) -> Option<Subject>,
    limit: usize,
) -> Vec<Finding> {
    let mut costs: Vec<(u64, usize, Subject)> = Vec::new();
    for index in comparable {
        let ranked = named.ranked(&measures[*index], |_| true, subject);
        costs.extend(ranked.into_iter().map(|row| (row.value, *index, row.name)));
    }
    costs.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    let mut findings: Vec<Finding> = Vec::new();
    for (value, measure, found) in costs {
        if findings.len() < limit && findings.iter().all(|finding| finding.subject != found) {
            let here = |key: &CubeKey| subject(key).as_ref() == Some(&found);
            let (share, samples) = shares(named, &measures[measure], &here);
            let bars = bars(named, &measures[measure], &here, &found);
            findings.push(Finding { subject: found, measure, value, share, samples, bars });
        }
    }
    findings
}

/// Titles of bars, each with its largest pieces.
type Bars = Vec<(&'static str, Vec<Ranked<String>>)>;

/// A subject's part of a measure, and of the samples of the measure's events.
fn shares(named: &Named<'_>, measure: &Measure, here: &dyn Fn(&CubeKey) -> bool) -> (WeightedShare, Share) {
    let mut samples = Share { count: 0, total: 0 };
    let mut share = WeightedShare { part: Weights::default(), total: Weights::default() };
    for (key, sum) in named.rows().iter().filter(|(key, _)| measure.events.contains(&key.event)) {
        let weights = measure.weights(key.event, *sum);
        share.total.merge(weights);
        samples.total += sum.samples;
        if here(key) {
            share.part.merge(weights);
            samples.count += sum.samples;
        }
    }
    (share, samples)
}

/// A subject's part of a measure by cause, statement and place.
fn bars(named: &Named<'_>, measure: &Measure, here: &dyn Fn(&CubeKey) -> bool, subject: &Subject) -> Bars {
    let pieces = |name: &dyn Fn(&CubeKey) -> Option<String>| {
        let ranked = named.ranked(measure, here, name).into_iter().take(PIECES);
        ranked.collect::<Vec<Ranked<String>>>()
    };
    let text = |name: Option<&str>| name.map(str::to_string);
    let mut bars = vec![
        ("why", pieces(&|key| key.cause.map(|cause| cause.name().to_string()))),
        ("for", pieces(&|key| text(named.statement(key)))),
    ];
    match subject {
        Subject::Object(..) => {
            bars.push(("which part", pieces(&|key| text(named.part(key)))));
            bars.push(("in", pieces(&|key| text(named.routine(key)))));
        }
        Subject::Routine(_) => {
            let object = |key: &CubeKey| Some(object_text(named.object(key)?));
            bars.push(("on", pieces(&object)));
        }
    }
    bars.retain(|(_, pieces)| !pieces.is_empty());
    bars
}

/// A value with its unit: `41.3 M cycles`, `671 ms`.
pub(crate) fn quantity(value: u64, measure: &Measure) -> String {
    match measure.unit {
        Unit::Nanoseconds => duration(value),
        Unit::Cycles => format!("{} cycles", rounded(value)),
        Unit::Count => rounded(value),
    }
}

/// `index public.orders_pkey`; only the name if the class adds nothing.
fn object_text((class, name): (&str, &str)) -> String {
    printable(format!("{class} {name}").trim())
}

/// A text with its `commands` as code.
fn with_commands(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

impl Finding {
    /// The filter that shows this finding, and the chapter to open.
    fn way_down(&self, measures: &[Measure]) -> (Json, &'static str) {
        let measure = &measures[self.measure].id;
        match &self.subject {
            Subject::Object(class, name) => {
                (json!({ "measure": measure, "class": class, "name": name }), "#treemap")
            }
            Subject::Routine(_) => (json!({ "measure": measure }), "#flame"),
        }
    }

    fn piece(&self, piece: &Ranked<String>) -> Bar {
        let share = piece.value as f64 / self.value.max(1) as f64;
        Bar { share, n: piece.samples, label: printable(&piece.name) }
    }

    /// What an administrator can try against it, as in the views of the terminal.
    pub(crate) fn advice(&self, server: Option<&str>) -> Option<&'static str> {
        match &self.subject {
            Subject::Object(class, name) => advice::on_object(server, class, name),
            Subject::Routine(name) => advice::on_routine(name),
        }
    }

    pub(crate) fn markup(&self, rank: usize, measures: &[Measure], server: Option<&str>) -> Markup {
        let measure = &measures[self.measure];
        let whole = measure.whole.as_ref().map(|(what, all)| {
            let part = self.value as f64 / (*all).max(1) as f64;
            format!("{:.1} % of all {what}", part * 100.0)
        });
        let of = format!("{:.1} % of the {}", self.share.fraction() * 100.0, measure.label);
        let interval = self
            .share
            .interval()
            .map(|interval| format!("95 %: {:.1}..{:.1} %, ", interval.low * 100.0, interval.high * 100.0));
        let name = match &self.subject {
            Subject::Object(class, name) => object_text((class, name)),
            Subject::Routine(name) => printable(name),
        };
        let (filter, chapter) = self.way_down(measures);
        html! {
            article.finding aria-labelledby={ "finding-" (rank) } {
                p.finding-head {
                    span.rank aria-hidden="true" { (rank) }
                    b #{ "finding-" (rank) } { (name) }
                    span.cost { (quantity(self.value, measure)) }
                }
                p {
                    "It takes " b { (of) }
                    " (" (interval.unwrap_or_default()) "n = " (grouped(self.samples.count)) " of "
                    (grouped(self.samples.total)) " samples)"
                    @if let Some(whole) = &whole { ", " (whole) }
                    @if let Some((_, pieces)) = self.bars.iter().find(|(title, _)| *title == "why") {
                        "; mostly " b { (pieces[0].name) } " misses"
                    }
                    "."
                }
                @for (title, pieces) in &self.bars {
                    @let pieces: Vec<Bar> = pieces.iter().map(|piece| self.piece(piece)).collect();
                    (bar(title, &pieces))
                }
                @if let Some(advice) = self.advice(server) {
                    p { b { "Try: " } (with_commands(advice)) "." }
                }
                p.down {
                    a href=(chapter) data-filter=(filter) { "Filter the page by this" }
                }
            }
        }
    }
}
