//! Clause 3.3.3: the twelve conditions before a load of all five transactions, and after it.

use super::{load_order, Observations, Source, Trial};
use crate::audit::{check_conditions, Condition, Verdict};
use crate::backend::{Backends, Style};
use crate::error::TpccError;
use crate::load::Mark;
use crate::measure::Ending;
use crate::monitor::{drive, Logs};
use crate::work::Kind;
use hardmeter_session::{Progress, Stop, Target};

/// The load between the two.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The style of the transactions.
    pub style: Style,
    /// The mark of the load.
    pub mark: &'a Mark,
    /// Seed of the transactions.
    pub seed: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Both tests.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested, or the load
/// cannot begin.
pub fn run(
    target: &Target,
    backends: &dyn Backends,
    load: &Load,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Vec<Trial>, TpccError> {
    let before = check_conditions(target, stop, progress)?;
    let order = load_order(load.mark, load.style, load.seed, load.seconds);
    let result = drive(&order, backends, &Logs::default(), stop, progress)?;
    let after = check_conditions(target, stop, progress)?;
    let done: Vec<String> = Kind::ALL
        .iter()
        .map(|&kind| {
            let done: u64 = result.series.iter().map(|second| second.completed[kind.index()]).sum();
            format!("{done} {}", kind.name())
        })
        .collect();
    let mut first = Observations::new();
    judge(&before, &mut first);
    let mut second = Observations::new();
    second.note(format!("{}, {:.0} s: {}", backends.description(), load.seconds, done.join(", ")));
    second.must(result.ending == Ending::Complete, format!("the load ends as ordered: {:?}", result.ending));
    judge(&after, &mut second);
    let trial = |clause, name: &str, seen: Observations| Trial {
        clause,
        name: name.into(),
        source: Source::Ours,
        verdict: seen.verdict(),
        case: None,
        seen: seen.seen,
    };
    Ok(vec![
        trial("3.3.2", "the twelve conditions before a load", first),
        trial("3.3.2", "the twelve conditions after a load", second),
    ])
}

/// Records which conditions hold, and the violations of the others.
pub(super) fn judge(conditions: &[Condition], seen: &mut Observations) {
    let numbers = |wanted: Verdict| -> Vec<String> {
        let of = conditions.iter().filter(|condition| condition.verdict == wanted);
        of.map(|condition| condition.number.to_string()).collect()
    };
    seen.note(format!("held: {}", numbers(Verdict::Held).join(", ")));
    let silent = numbers(Verdict::NotApplicable);
    if !silent.is_empty() {
        seen.note(format!("of the initial population only: {}", silent.join(", ")));
    }
    for condition in conditions.iter().filter(|condition| condition.verdict == Verdict::Short) {
        let Condition { number, rule, violations, examples, .. } = condition;
        seen.must(false, format!("{number}: {rule}; {violations} rows break it: {}", examples.join("; ")));
    }
}
