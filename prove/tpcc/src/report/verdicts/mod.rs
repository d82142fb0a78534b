//! Verdicts by clause: observed value, n, requirement, outcome.

mod course;
mod drawn;
mod pace;
#[cfg(test)]
mod tests;
mod times;
mod verdict;

use crate::measure::RunResult;

pub use course::{A_WAREHOUSE, INTERVAL_SECONDS};
pub use drawn::least_share;
pub use times::{keying_seconds, response_limit, think_mean};
pub use verdict::{Basis, Group, Outcome, Verdict};

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

/// The answer of a run in a sentence: whether it kept to the rules.
pub fn answer(verdicts: &[Verdict]) -> String {
    match verdicts.iter().filter(|verdict| verdict.outcome == Outcome::Short).count() {
        0 => "no rule is SHORT".into(),
        1 => "1 rule is SHORT".into(),
        short => format!("{short} rules are SHORT"),
    }
}

/// Number of verdicts by outcome, for a headline: "31 held, 1 SHORT".
pub fn summary(verdicts: &[Verdict]) -> String {
    use Outcome::{Deviation, Held, NotApplicable, Short, Undecided};
    let outcomes = [Held, Short, Undecided, Deviation, NotApplicable];
    let counted =
        outcomes.map(|outcome| (verdicts.iter().filter(|one| one.outcome == outcome).count(), outcome));
    let told = counted.iter().filter(|(n, _)| *n > 0).map(|(n, outcome)| format!("{n} {}", outcome.word()));
    told.collect::<Vec<_>>().join(", ")
}
