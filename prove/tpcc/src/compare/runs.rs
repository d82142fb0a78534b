//! Finished runs of two sides: described, and judged if they took turns.

use super::contest::{Answer, Contest, Figures, Side, MINIMUM_EFFECT};
use super::differ::{differences, incomparable, of_configuration, Difference};
use crate::error::TpccError;
use crate::measure::{Ending, RunResult};
use crate::work::Kind;
use serde::Serialize;

/// A finished run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The file's name, for messages.
    pub name: String,
    /// The result.
    pub result: RunResult,
}

/// The comparison of the runs of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunComparison {
    /// A's files, and B's.
    pub files: [Vec<String>; 2],
    /// What the pairs say. Its verdict is "undecided" where `no_verdict` has a reason.
    pub answer: Answer,
    /// Why these runs cannot be judged at all.
    pub no_verdict: Option<String>,
    /// p50, p90 and p99 of the response times of each transaction: of each side, the runs of a side together.
    pub responses: Vec<Response>,
    /// In what order and environment the first runs of the sides differ.
    pub differences: Vec<Difference>,
    /// Why they should not be compared. Empty unless `force` overruled a refusal.
    pub incomparable: Vec<String>,
    /// Warnings about the runs.
    pub remarks: Vec<String>,
}

/// A quantile of response times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Response {
    /// "New-Order p90".
    pub name: String,
    /// A's.
    pub a_seconds: f64,
    /// B's.
    pub b_seconds: f64,
}

/// Compares the runs of two sides; refuses runs that are not comparable, unless `force` is set.
///
/// # Errors
///
/// [`TpccError::CannotCompare`] with the reasons.
pub fn of_runs(a: &[Run], b: &[Run], force: bool) -> Result<RunComparison, TpccError> {
    let ([first, ..], [other, ..]) = (a, b) else {
        return Err(TpccError::CannotCompare { reasons: "a side has no run".into() });
    };
    let mut incomparables = Vec::new();
    for run in a.iter().chain(b) {
        for reason in incomparable(&first.result, &run.result) {
            if !incomparables.contains(&reason) {
                incomparables.push(reason);
            }
        }
    }
    if !incomparables.is_empty() && !force {
        return Err(TpccError::CannotCompare { reasons: incomparables.join("; ") });
    }
    let paired = Paired::of(a, b);
    let sees_cpu = a.iter().chain(b).all(|run| run.result.server.is_some());
    let mut contest = Contest::new(sees_cpu, paired.pairs.len() as u32, MINIMUM_EFFECT, 0);
    let no_verdict = paired.no_verdict(a.len(), b.len());
    match &no_verdict {
        None => paired.pairs.iter().for_each(|(one, two, _)| {
            contest.observe_pair(Figures::of(one), Figures::of(two));
        }),
        Some(_) => {
            for (side, runs) in [(Side::A, a), (Side::B, b)] {
                runs.iter().for_each(|run| contest.show(side, Figures::of(&run.result)));
            }
        }
    }
    Ok(RunComparison {
        files: [a, b].map(|runs| runs.iter().map(|run| run.name.clone()).collect()),
        answer: contest.answer(),
        responses: responses(a, b),
        differences: differences(&first.result, &other.result),
        incomparable: incomparables,
        remarks: remarks(a, b, &paired, no_verdict.is_none()),
        no_verdict,
    })
}

/// Each side is the first of its pair in a quarter of the pairs, or more.
const LEAST_TURNS: usize = 4;

/// The runs that are neighbours in time, one of each side.
struct Paired<'a> {
    /// A's run, B's run, and which of them was first.
    pairs: Vec<(&'a RunResult, &'a RunResult, Side)>,
    /// Runs whose neighbours were of the same side, or already had a partner.
    alone: usize,
}

impl Paired<'_> {
    /// From the earliest run on: a run and its successor, if they are of two sides.
    fn of<'a>(a: &'a [Run], b: &'a [Run]) -> Paired<'a> {
        let with = |side| move |run: &'a Run| (side, &run.result);
        let mut all: Vec<_> = a.iter().map(with(Side::A)).chain(b.iter().map(with(Side::B))).collect();
        all.sort_by_key(|(_, result)| result.started_at);
        let mut paired = Paired { pairs: Vec::new(), alone: 0 };
        let mut at = 0;
        while at < all.len() {
            match (all[at], all.get(at + 1)) {
                ((Side::A, one), Some((Side::B, two))) => paired.pairs.push((one, two, Side::A)),
                ((Side::B, two), Some((Side::A, one))) => paired.pairs.push((one, two, Side::B)),
                _ => {
                    paired.alone += 1;
                    at += 1;
                    continue;
                }
            }
            at += 2;
        }
        paired
    }

    /// Why these runs cannot be judged; `None` if the pairs decide.
    fn no_verdict(&self, a: usize, b: usize) -> Option<String> {
        if a == 1 && b == 1 {
            return Some(
                "one run a side is one observation, and two runs of one configuration differ by their hour"
                    .into(),
            );
        }
        let first = |side: Side| self.pairs.iter().filter(|(_, _, first)| *first == side).count();
        let (ahead_a, ahead_b) = (first(Side::A), first(Side::B));
        let pairs = self.pairs.len();
        if pairs < 2 {
            return Some(
                "the sides did not take turns: only one run of A has a run of B beside it, and the hour explains what \
                 differs as well as the configuration does"
                    .into(),
            );
        }
        if ahead_a.min(ahead_b) * LEAST_TURNS < pairs {
            let (side, ahead) = if ahead_a > ahead_b { (Side::A, ahead_a) } else { (Side::B, ahead_b) };
            return Some(format!(
                "{} ran first in {ahead} of {pairs} pairs: what changes with time, such as the size of the database, \
                 makes the same difference",
                side.name()
            ));
        }
        None
    }
}

fn remarks(a: &[Run], b: &[Run], paired: &Paired, judged: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    for run in a.iter().chain(b) {
        match &run.result.ending {
            Ending::Complete => {}
            Ending::Interrupted => remarks.push(format!("{} was interrupted", run.name)),
            Ending::Failed { reason } => remarks.push(format!("{} failed: {reason}", run.name)),
        }
    }
    for (side, runs) in [(Side::A, a), (Side::B, b)] {
        let mut names: Vec<String> = runs[1..]
            .iter()
            .flat_map(|run| of_configuration(&runs[0].result, &run.result))
            .map(|one| one.what)
            .collect();
        names.sort();
        names.dedup();
        if !names.is_empty() {
            remarks.push(format!("the runs of {} differ in {}", side.name(), names.join(", ")));
        }
    }
    if judged && paired.alone > 0 {
        let (runs, have) = if paired.alone == 1 { ("run", "has") } else { ("runs", "have") };
        remarks.push(format!(
            "{} {runs} {have} no run of the other side beside it in time and {} left out",
            paired.alone,
            if paired.alone == 1 { "is" } else { "are" }
        ));
    }
    remarks
}

fn responses(a: &[Run], b: &[Run]) -> Vec<Response> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let [one, two] = [a, b].map(|runs| {
            let mut times = crate::measure::Times::new();
            runs.iter().for_each(|run| times.add(&run.result.of(kind).response));
            times
        });
        for (share, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")] {
            if let (Some(one), Some(two)) = (one.quantile(share), two.quantile(share)) {
                all.push(Response {
                    name: format!("{} {name}", kind.name()),
                    a_seconds: one.as_seconds(),
                    b_seconds: two.as_seconds(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Mode;
    use crate::report::testing;
    use hardmeter_evidence::Verdict;

    /// A run that began in this minute and did this share of the usual throughput.
    fn run(minute: u64, speed: f64) -> Run {
        let mut result = testing::run(4, 30.0, 60.0, 1);
        result.started_at += minute * 60_000_000;
        let orders = &mut result.kinds[Kind::NewOrder.index()];
        orders.completed = (orders.completed as f64 * speed) as u64;
        Run { name: format!("{minute}.json"), result }
    }

    /// Ten pairs that take turns, first A, then B; B at this speed.
    fn in_turn(speed: f64) -> [Vec<Run>; 2] {
        let at = |minute: u64| 1.0 + 0.004 * (minute % 5) as f64;
        let first_is_a = |pair: u64| pair.is_multiple_of(2);
        let minute = |pair: u64, a: bool| 2 * pair + u64::from(first_is_a(pair) != a);
        [(true, 1.0), (false, speed)]
            .map(|(a, speed)| (0..10).map(|pair| run(minute(pair, a), at(minute(pair, a)) * speed)).collect())
    }

    #[test]
    fn one_run_a_side_is_described_and_never_judged() {
        let comparison = of_runs(&[run(0, 1.0)], &[run(60, 3.0)], false).unwrap();
        assert_eq!(comparison.answer.verdict, Verdict::Undecided);
        assert!(comparison.no_verdict.as_ref().unwrap().contains("one run a side"), "{comparison:?}");
        // Three times the throughput is shown.
        let orders = &comparison.answer.rows[0];
        assert!((orders.b.unwrap() / orders.a.unwrap() - 3.0).abs() < 0.01, "{orders:?}");
        assert_eq!((orders.pairs, orders.change, comparison.responses.len()), (0, None, 15));
        assert_eq!(comparison.differences, []);
    }

    #[test]
    fn runs_that_took_turns_are_judged_as_runs() {
        let [a, b] = in_turn(0.7);
        let comparison = of_runs(&a, &b, false).unwrap();
        assert_eq!((comparison.answer.verdict, &comparison.no_verdict), (Verdict::Worse, &None));
        assert!((comparison.answer.rows[0].change.unwrap() + 0.3).abs() < 0.02, "{comparison:?}");
        let back = of_runs(&b, &a, false).unwrap();
        assert_eq!(back.answer.verdict, Verdict::Better);
        let [a, b] = in_turn(1.0);
        let comparison = of_runs(&a, &b, false).unwrap();
        assert!(matches!(comparison.answer.verdict, Verdict::Same | Verdict::Undecided), "{comparison:?}");
    }

    #[test]
    fn sides_at_two_hours_are_not_judged_however_many_runs_they_have() {
        let runs =
            |hour: u64, speed| (0..10).map(|minute| run(hour * 60 + minute, speed)).collect::<Vec<_>>();
        let comparison = of_runs(&runs(0, 1.0), &runs(1, 2.0), false).unwrap();
        assert_eq!((comparison.answer.verdict, comparison.answer.pairs), (Verdict::Undecided, 0));
        assert!(comparison.no_verdict.unwrap().contains("did not take turns"));
    }

    #[test]
    fn a_side_that_is_always_first_is_not_judged() {
        let runs = |after: u64, speed| (0..10).map(|pair| run(2 * pair + after, speed)).collect::<Vec<_>>();
        let comparison = of_runs(&runs(0, 1.0), &runs(1, 0.5), false).unwrap();
        assert_eq!(comparison.answer.verdict, Verdict::Undecided);
        assert!(comparison.no_verdict.unwrap().starts_with("A ran first in 10 of 10 pairs"));
    }

    #[test]
    fn pairs_are_neighbours_in_time_and_others_are_left_out() {
        // A0 [A1 B2] [B3 A4] B5: two pairs.
        let of = |minutes: &[u64]| minutes.iter().map(|minute| run(*minute, 1.0)).collect::<Vec<_>>();
        let comparison = of_runs(&of(&[4, 0, 1]), &of(&[5, 3, 2]), false).unwrap();
        assert_eq!(comparison.answer.pairs, 2);
        assert!(comparison.remarks[0].starts_with("2 runs have no run"), "{:?}", comparison.remarks);
    }

    #[test]
    fn runs_of_a_side_with_other_parameters_are_pointed_out() {
        let [mut a, b] = in_turn(1.0);
        a[3].result.order.connections = 99;
        a[4].result.order.seed = 7;
        let comparison = of_runs(&a, &b, false).unwrap();
        assert_eq!(comparison.remarks, ["the runs of A differ in order.connections"]);
    }

    #[test]
    fn what_is_not_comparable_is_refused_unless_forced() {
        let (one, mut other) = (run(0, 1.0), run(1, 1.0));
        other.result.order.mode = Mode::Closed { clients: 16 };
        other.result.order.warehouses = 8;
        let error =
            of_runs(std::slice::from_ref(&one), std::slice::from_ref(&other), false).unwrap_err().to_string();
        assert!(error.contains("mode: terminals") && error.contains("warehouses: 4 and 8"), "{error}");
        let forced = of_runs(&[one], &[other], true).unwrap();
        assert_eq!(forced.incomparable.len(), 2);
        assert!(forced.differences.iter().any(|one| one.what == "order.warehouses" && one.b == "8"));
    }
}
