//! A test of clause 3: its observations and its verdict.

use crate::audit::Verdict;

/// The source of a trial's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A copy of the official text, revision 5.11.
    Text,
    /// Memory: not verified against the official text.
    Memory,
    /// Added by Hardmeter, beyond the specification.
    Ours,
}

/// One test of clause 3 with its result.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trial {
    /// Its clause.
    pub clause: &'static str,
    /// Its subject.
    pub name: String,
    /// The source of its steps.
    pub source: Source,
    /// Whether it was as it must be.
    pub verdict: Verdict,
    /// The allowed outcome that was observed, if there are several.
    pub case: Option<String>,
    /// Observations in order of time.
    pub seen: Vec<String>,
}

/// Collects the observations of a trial, and whether they meet the requirements.
pub(super) struct Observations {
    pub(super) seen: Vec<String>,
    broken: bool,
}

impl Observations {
    pub(super) fn new() -> Observations {
        Observations { seen: vec![], broken: false }
    }

    /// Records an observation without a requirement.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    /// Records an observation that must be true.
    pub(super) fn must(&mut self, so: bool, what: impl Into<String>) {
        let what = what.into();
        self.seen.push(if so { what } else { format!("NOT SO: {what}") });
        self.broken |= !so;
    }

    /// Records an observation that must have this value.
    pub(super) fn must_be<T: PartialEq + std::fmt::Display>(&mut self, what: &str, found: &T, wanted: &T) {
        if found == wanted {
            self.note(format!("{what} is {found}"));
        } else {
            self.must(false, format!("{what} is {wanted}; it is {found}"));
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.broken {
            Verdict::Short
        } else {
            Verdict::Held
        }
    }
}
