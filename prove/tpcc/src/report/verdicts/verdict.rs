//! A verdict: what was found, of how many, what is wanted, and how it ends.

use crate::report::number;
use serde::Serialize;

/// How a verdict ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As it should be.
    Held,
    /// Not as it should be, and no chance.
    Short,
    /// Too few to tell, or beside the window by no more than chance does.
    Undecided,
    /// Otherwise than the specification has it because it was ordered so: no failure, but to be said with the figure.
    Deviation,
    /// It says nothing of such a run.
    NotApplicable,
}

impl Outcome {
    /// In words.
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

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A clause that was read: in pages of revision 5.11 (5.2.5.6, 5.2.5.7), or in what others quote of it.
    Read,
    /// A clause from memory: not verified against the official text.
    NotVerified,
    /// No clause: what we ask of a run.
    Ours,
}

/// Where a verdict stands in the report.
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
    /// What was drawn.
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
    /// Where it stands.
    pub group: Group,
    /// What it is about.
    pub name: String,
    /// The clause, without the word; empty for what is ours.
    pub clause: &'static str,
    /// What it rests on.
    pub basis: Basis,
    /// What was found.
    pub value: Option<f64>,
    /// Of `value`: "%", "s", "p", "", or words.
    pub unit: &'static str,
    /// How many are behind it.
    pub n: u64,
    /// What is wanted.
    pub wanted: String,
    /// How it ends.
    pub outcome: Outcome,
    /// What else is to be said; empty if nothing.
    pub note: String,
}

impl Verdict {
    /// A verdict on a clause that was read; undecided of nothing so far.
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

    /// On what we ask of a run.
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

    /// What was found, as people read it.
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
