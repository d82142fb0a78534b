//! What works on this machine, what does not, and the command that fixes it.
//!
//! Findings are plain data. Whether a source works is found out by using it: an event is opened, a segment made.

mod checks;

pub use checks::examine;

use serde::Serialize;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Ok,
    /// Works, with a limit that the evidence names.
    Warn,
    /// Not there, or not allowed.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// How it went.
    pub state: State,
    /// What was seen.
    pub evidence: String,
    /// The command or step that fixes it; empty when nothing is missing.
    pub remedy: String,
}

/// Whether a source of samples can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceVerdict {
    /// The source, as `--source` takes it.
    pub source: &'static str,
    /// Whether it works now, for this user.
    pub works: bool,
    /// What was tried and what came of it.
    pub evidence: String,
    /// The remedy, if there is one.
    pub remedy: String,
}

/// Everything the doctor found.
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
    /// The source that `--source auto` would take for memory events, if any works.
    pub fn best_source(&self) -> Option<&SourceVerdict> {
        self.sources.iter().find(|verdict| verdict.works)
    }
}
