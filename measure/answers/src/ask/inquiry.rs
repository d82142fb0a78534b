//! The interface between a question and a walk: the names that the question needs, what it counts, its
//! answer.

use crate::capture::{Capture, Walk, WalkOptions};
use crate::error::AnswersError;
use crate::filter::Filter;
use crate::pass::{Located, Pass};
use crate::remark::Remark;
use crate::symbols::SymbolNames;
use hardmeter_samples::model::{EventIndex, Sample};
use hardmeter_symbols::SymbolizerOptions;

/// The names that a question needs. A walk for several questions provides the union.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Names of code.
    pub(crate) places: bool,
    /// The side file on a server's objects.
    pub(crate) objects: bool,
}

impl Needs {
    /// Names of code and of objects.
    pub(crate) const ALL: Needs = Needs { places: true, objects: true };

    pub(crate) fn and(self, other: Needs) -> Needs {
        Needs { places: self.places || other.places, objects: self.objects || other.objects }
    }
}

/// The capture to read, and the filter for its samples.
pub(crate) struct Scope<'a> {
    pub(crate) capture: &'a Capture,
    pub(crate) filter: &'a Filter,
    pub(crate) symbols: &'a SymbolizerOptions,
    pub(crate) progress: &'a dyn Fn(u64),
}

impl<'a> Scope<'a> {
    /// A walk over the samples that pass the filter, with or without names of code.
    pub(crate) fn walk(&self, places: bool) -> WalkOptions<'a> {
        WalkOptions {
            filter: self.filter.clone(),
            symbols: places.then(|| self.symbols.clone()),
            progress: self.progress,
        }
    }

    /// Whether the filter admits an event.
    pub(crate) fn wants(&self, event: EventIndex) -> bool {
        self.filter.events.is_empty() || self.filter.events.contains(&event)
    }

    /// The events of an answer: those that pass the filter and either have samples or were configured to
    /// sample.
    pub(crate) fn events_shown(&self, walk: &Walk) -> Vec<EventIndex> {
        let sampled = |event: &EventIndex| {
            walk.pass.totals().event(*event).samples > 0 || !self.capture.is_carrier(*event)
        };
        let all = (0..self.capture.events().len()).map(EventIndex);
        all.filter(|event| self.wants(*event)).filter(sampled).collect()
    }
}

/// A question while a walk collects what answers it.
pub(crate) trait Inquiry: Sized {
    /// The type of the answer.
    type Answer;

    /// The names that this question needs from the walk.
    fn needs(&self) -> Needs;

    /// Takes a sample that passes the filter.
    fn add(&mut self, pass: &mut Pass<SymbolNames>, sample: &Sample<'_>, located: Located);

    /// Answers, after all samples.
    fn finish(self, scope: &Scope<'_>, walk: &mut Walk) -> Result<Self::Answer, AnswersError>;
}

/// The warning that the side file on the server's objects is missing, and what the answer lacks without it.
pub(crate) fn no_notes(capture: &Capture) -> Option<Remark> {
    let text = "this capture has no side file of a server's objects, so names come from symbols and mappings \
                alone; hardmeter record writes them when it records a PostgreSQL server (--server DIR or -p PID)";
    capture.object_notes().is_none().then(|| Remark::Limit { text: text.into() })
}

/// Warnings from the side file on objects, except those that the heading already shows.
pub(crate) fn remarks_of_notes(capture: &Capture) -> Vec<Remark> {
    let in_heading = capture.sidecar().map(|notes| notes.notes.as_slice()).unwrap_or_default();
    let notes = capture.object_notes().map(|notes| notes.remarks.as_slice()).unwrap_or_default();
    let new = notes.iter().filter(|text| !in_heading.contains(text));
    new.map(|text| Remark::Limit { text: text.clone() }).collect()
}
