//! A test of clause 3: what is seen in it, and whether it is as it must be.

use crate::audit::Verdict;

/// Where the steps of a trial are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A copy of the official text, revision 5.11.
    Text,
    /// Memory of it: not verified against the official text.
    Memory,
    /// Our own, beyond the specification.
    Ours,
}

/// One test of clause 3, and what came of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trial {
    /// Its clause.
    pub clause: &'static str,
    /// What it is about.
    pub name: String,
    /// Where its steps are known from.
    pub source: Source,
    /// Whether it was as it must be.
    pub verdict: Verdict,
    /// Which of the outcomes was seen that the clause allows, where it allows several.
    pub case: Option<String>,
    /// What was seen, in the order in which it was.
    pub seen: Vec<String>,
}

/// Collects what is seen in a trial, and whether it is as it must be.
pub(super) struct Observations {
    pub(super) seen: Vec<String>,
    broken: bool,
}

impl Observations {
    pub(super) fn new() -> Observations {
        Observations { seen: vec![], broken: false }
    }

    /// Something that is worth saying.
    pub(super) fn note(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    /// Something that must be so: it is said either way.
    pub(super) fn must(&mut self, so: bool, what: impl Into<String>) {
        let what = what.into();
        self.seen.push(if so { what } else { format!("NOT SO: {what}") });
        self.broken |= !so;
    }

    /// Something that must have this value.
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
