//! `hardmeter compare`: two sides, as a screen, as a complete text, as JSON or CSV, and of bare counts.

mod counts;
mod csv;
mod json;
mod sentences;
#[cfg(test)]
mod tests;
mod text;

pub use counts::CountsReport;

use hardmeter_answers::Comparison;
use std::ops::Deref;

/// The view of a comparison.
#[derive(Clone, Debug)]
pub struct CompareReport(pub Comparison);

impl Deref for CompareReport {
    type Target = Comparison;

    fn deref(&self) -> &Comparison {
        &self.0
    }
}

/// A change in percent: `-13.1`, `+4.0`; a change from nothing is `new`.
fn signed_percent(value: f64) -> String {
    match value * 100.0 {
        percent if !percent.is_finite() => "new".into(),
        percent if percent.abs() < 0.05 => "0.0".into(),
        percent if percent.abs() < 1000.0 => format!("{percent:+.1}"),
        percent => format!("{percent:+.0}"),
    }
}

/// The ends of an interval of changes in percent: `-14.2..-12.1`.
fn signed_interval(interval: hardmeter_evidence::Interval) -> String {
    let end = |value: f64| if value.is_finite() { signed_percent(value) } else { "any".into() };
    format!("{}..{}", end(interval.low), end(interval.high))
}
