//! `hardmeter why`: why misses happen, with the evidence, and what helps.

mod explain;
mod heat;
mod json;
mod page;
pub(crate) mod pattern;
mod remedy;
mod sentences;
mod text;
mod wording;

use crate::drawn::view_of;
use crate::layout::printable;
use hardmeter_answers::why::{EventAnswer, LevelGeometry};
use hardmeter_answers::WhyAnswer;
use hardmeter_samples::model::StatementId;

view_of! {
    /// Why the misses of a capture happened.
    WhyReport(WhyAnswer)
}

impl WhyReport {
    /// A statement's text, on one line.
    fn statement(&self, hash: StatementId) -> String {
        self.statements.get(&hash).map_or_else(String::new, |text| printable(&text.replace('\n', " ")))
    }

    /// The level that an answer is about.
    fn geometry_of(&self, answer: &EventAnswer) -> Option<LevelGeometry> {
        let level = answer.kind.level()?;
        self.hierarchy.as_ref()?.level(level)
    }

    /// The name of an answer's event.
    fn event_name(&self, answer: &EventAnswer) -> &str {
        self.heading.events.get(answer.event.0).map_or("", |event| &event.name)
    }
}
