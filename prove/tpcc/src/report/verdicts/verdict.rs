//! A verdict: observed value, n, requirement, outcome.

use crate::report::number;
use serde::Serialize;

/// The outcome of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Passed.
    Held,
    /// Failed significantly.
    Short,
    /// Too few, or outside the window by no more than chance explains.
    Undecided,
    /// Different from the specification because it was ordered so: not a failure, but shown with the figure.
    Deviation,
    /// Not applicable to such a run.
    NotApplicable,
}

impl Outcome {
    /// The outcome in words.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Short => "SHORT",
            Outcome::Undecided => "undecided",
            Outcome::Deviation => "deviation",
            Outcome::NotApplicable => "not applicable",
        }
    }
}

/// The source of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A clause read in pages of revision 5.11 (5.2.5.6, 5.2.5.7), or quoted by others.
    Read,
    /// A clause from memory: not verified against the official text.
    NotVerified,
    /// No clause: a requirement of Hardmeter.
    Ours,
}

/// The group of a verdict in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// The run itself.
    Run,
    /// Scale, interval, steady state.
    Interval,
    /// The mix of transactions.
    Mix,
    /// Response times, keying and think times.
    Times,
    /// Random inputs.
    Drawn,
}

impl Group {
    /// All of them, in order.
    pub const ALL: [Group; 5] = [Group::Run, Group::Interval, Group::Mix, Group::Times, Group::Drawn];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Group::Run => "The run",
            Group::Interval => "Scale, interval, steady state",
            Group::Mix => "Mix of transactions",
            Group::Times => "Response, keying and think times",
            Group::Drawn => "What was entered at random",
        }
    }
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Its group.
    pub group: Group,
    /// Its subject.
    pub name: String,
    /// The clause's number; empty for Hardmeter's own requirements.
    pub clause: &'static str,
    /// The source of the requirement.
    pub basis: Basis,
    /// The observed value.
    pub value: Option<f64>,
    /// Unit of `value`: "%", "s", "p", "", or words.
    pub unit: &'static str,
    /// Number of observations.
    pub n: u64,
    /// The requirement.
    pub wanted: String,
    /// The outcome.
    pub outcome: Outcome,
    /// A note; may be empty.
    pub note: String,
}

impl Verdict {
    /// A verdict on a clause that was read; undecided until an outcome is set.
    pub(super) fn on(group: Group, clause: &'static str, name: impl Into<String>) -> Verdict {
        Verdict {
            group,
            name: name.into(),
            clause,
            basis: Basis::Read,
            value: None,
            unit: "",
            n: 0,
            wanted: String::new(),
            outcome: Outcome::Undecided,
            note: String::new(),
        }
    }

    /// A verdict on a requirement of Hardmeter.
    pub(super) fn ours(group: Group, name: impl Into<String>) -> Verdict {
        Verdict { basis: Basis::Ours, ..Verdict::on(group, "", name) }
    }

    /// The clause is from memory.
    pub(super) fn not_verified(self) -> Verdict {
        Verdict { basis: Basis::NotVerified, ..self }
    }

    pub(super) fn wanted(self, wanted: impl Into<String>) -> Verdict {
        Verdict { wanted: wanted.into(), ..self }
    }

    pub(super) fn found(self, value: Option<f64>, unit: &'static str, n: u64) -> Verdict {
        Verdict { value, unit, n, ..self }
    }

    pub(super) fn ends(self, outcome: Outcome) -> Verdict {
        Verdict { outcome, ..self }
    }

    pub(super) fn noting(self, note: impl Into<String>) -> Verdict {
        Verdict { note: note.into(), ..self }
    }

    pub(super) fn not_applicable(self, why: impl Into<String>) -> Verdict {
        self.ends(Outcome::NotApplicable).noting(why)
    }

    /// The observed value for display.
    pub fn found_in_words(&self) -> String {
        match (self.value, self.unit) {
            (None, _) => "-".into(),
            (Some(value), "p") => number::probability(value),
            (Some(value), "%") => format!("{value:.2} %"),
            (Some(value), "s") => number::seconds(value),
            (Some(value), "") => {
                // Counts are whole.
                number::with_decimals(value, if value.fract() == 0.0 { 0 } else { 2 })
            }
            (Some(value), unit) => format!("{} {unit}", number::number(value)),
        }
    }
}
