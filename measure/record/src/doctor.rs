//! Tests what works on this machine, and names the command that fixes the rest.
//!
//! Findings are plain data. A source is tested by using it: an event is opened, a segment created.

mod checks;

pub use checks::examine;

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Correct.
    Ok,
    /// Works, with a limit that the evidence names.
    Warn,
    /// Missing or not permitted.
    Missing,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its subject.
    pub name: &'static str,
    /// Its result.
    pub state: State,
    /// What was observed.
    pub evidence: String,
    /// The command or step that fixes it; empty if nothing is missing.
    pub remedy: String,
}

/// Whether a source of samples can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceVerdict {
    /// The source's name for `--source`.
    pub source: &'static str,
    /// Whether it works now, for this user.
    pub works: bool,
    /// What was tried, and the result.
    pub evidence: String,
    /// The remedy, if there is one.
    pub remedy: String,
}

/// All findings of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The processor.
    pub processor: super::events::processor::Processor,
    /// One verdict per source, best source first.
    pub sources: Vec<SourceVerdict>,
    /// All checks.
    pub checks: Vec<Check>,
}

impl Diagnosis {
    /// The source that `--source auto` would select for memory events, if any works.
    pub fn best_source(&self) -> Option<&SourceVerdict> {
        self.sources.iter().find(|verdict| verdict.works)
    }
}
