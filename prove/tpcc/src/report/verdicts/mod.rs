//! Verdicts, clause by clause: what was found, of how many, what is wanted, and how it ends.

mod course;
mod drawn;
#[cfg(test)]
mod tests;
mod times;

use super::number;
use crate::measure::RunResult;
use crate::order::Mode;
use serde::Serialize;

pub use course::{A_WAREHOUSE, INTERVAL_SECONDS};
pub use drawn::least_share;
pub use times::{keying_seconds, response_limit, think_mean};

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
    /// The clause, without the word; empty for Hardmeter's own rules.
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
    fn on(group: Group, clause: &'static str, name: impl Into<String>) -> Verdict {
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
    fn ours(group: Group, name: impl Into<String>) -> Verdict {
        Verdict { basis: Basis::Ours, ..Verdict::on(group, "", name) }
    }

    /// The clause is from memory.
    fn not_verified(self) -> Verdict {
        Verdict { basis: Basis::NotVerified, ..self }
    }

    fn wanted(self, wanted: impl Into<String>) -> Verdict {
        Verdict { wanted: wanted.into(), ..self }
    }

    fn found(self, value: Option<f64>, unit: &'static str, n: u64) -> Verdict {
        Verdict { value, unit, n, ..self }
    }

    fn ends(self, outcome: Outcome) -> Verdict {
        Verdict { outcome, ..self }
    }

    fn noting(self, note: impl Into<String>) -> Verdict {
        Verdict { note: note.into(), ..self }
    }

    fn not_applicable(self, why: impl Into<String>) -> Verdict {
        self.ends(Outcome::NotApplicable).noting(why)
    }

    /// What was found, as people read it.
    pub fn found_in_words(&self) -> String {
        match (self.value, self.unit) {
            (None, _) => "-".into(),
            (Some(value), "p") => format!("p = {value:.3}"),
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

/// All verdicts on a run, in the order of the report.
pub fn verdicts(result: &RunResult) -> Vec<Verdict> {
    let mut verdicts = course::of_the_run(result);
    verdicts.extend(course::of_the_interval(result));
    verdicts.extend(drawn::of_the_mix(result));
    verdicts.extend(times::verdicts(result));
    verdicts.extend(drawn::verdicts(result));
    verdicts
}

/// Whether any of them is short.
pub fn is_short(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|verdict| verdict.outcome == Outcome::Short)
}

/// How many end in each way, for a headline: "31 held, 1 SHORT".
pub fn summary(verdicts: &[Verdict]) -> String {
    use Outcome::{Deviation, Held, NotApplicable, Short, Undecided};
    let outcomes = [Held, Short, Undecided, Deviation, NotApplicable];
    let counted =
        outcomes.map(|outcome| (verdicts.iter().filter(|one| one.outcome == outcome).count(), outcome));
    let told = counted.iter().filter(|(n, _)| *n > 0).map(|(n, outcome)| format!("{n} {}", outcome.word()));
    told.collect::<Vec<_>>().join(", ")
}

/// What keying and think times were multiplied with; nothing if the run had none.
fn time_factor(result: &RunResult) -> Option<f64> {
    match result.order.mode {
        Mode::Terminals { time_factor } => Some(time_factor),
        Mode::Closed { .. } | Mode::Open { .. } => None,
    }
}

/// Why a rule about terminals says nothing of a run without them.
fn without_terminals(result: &RunResult) -> &'static str {
    match result.order.mode {
        Mode::Terminals { .. } => "",
        Mode::Closed { .. } => "a closed loop: clients do not key and do not think",
        Mode::Open { .. } => "open arrivals: no keying and think times",
    }
}
