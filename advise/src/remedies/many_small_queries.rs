//! One transaction runs the same small query many times (N+1).
//!
//! Rule: a SELECT that returns at most one or two rows is called twenty times or more a transaction, a
//! thousand times or more during the look, counted at the top level: calls inside functions need no round
//! trip.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "many-small-queries",
    title: "fetch all rows by one statement instead of one statement per row",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/queries-table-expressions.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let transactions = look.database.commits + look.database.rollbacks;
    if look.server.setting("pg_stat_statements.track") == "all" {
        return None; // calls inside functions are also counted, and cannot be distinguished
    }
    let (statement, counts) = look
        .statements
        .iter()
        .filter_map(|one| Some((one, one.counts.as_ref()?)))
        .filter(|(one, _)| {
            one.text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"))
        })
        .filter(|(_, counts)| counts.calls >= 1000.0 && counts.rows <= 1.5 * counts.calls)
        .max_by(|(_, a), (_, b)| a.calls.total_cmp(&b.calls))?;
    let per_transaction = ratio(counts.calls, transactions);
    if per_transaction < 20.0 {
        return None;
    }
    let client = ratio(look.time.seconds(&[Kind::Client]), look.time.total);
    let gain = overhead(look, counts.calls) * (1.0 - 1.0 / per_transaction);
    Some(Advice {
        finding: format!("{per_transaction:.0} calls a transaction of {}", statement.short()),
        evidence: vec![
            Evidence::new("calls a transaction", per_transaction, "", counts.calls as u64),
            Evidence::new("rows a call", ratio(counts.rows, counts.calls), "rows", counts.calls as u64),
            Evidence::new("backends waiting for the client", client * 100.0, "%", look.time.samples),
        ],
        prediction: Prediction::gain(
            gain,
            format!("{:.0} round trips a transaction less", per_transaction - 1.0),
            "CPU time outside of execution (messages, locks, snapshots) is in proportion to calls, and one call is left; \
             in addition the client waits for fewer answers",
        ),
        apply: vec![
            "-- in the application: a join, WHERE key = ANY ($1), or the mapper's eager loading".into()
        ],
        undo: vec!["-- the former statements".into()],
        risk: "one large statement may need a plan of its own: EXPLAIN it".into(),
        ..Advice::default()
    })
}

/// The part of the active time that is CPU time outside of execution, for this number of calls.
fn overhead(look: &Look, calls: f64) -> f64 {
    let kinds = [Kind::RunningUser, Kind::RunningKernel, Kind::Running, Kind::RunQueue];
    let counted = || look.statements.iter().filter_map(|one| one.counts.as_ref());
    let executing: f64 = counted().map(|counts| counts.total_exec_time / 1e3).sum();
    let all: f64 = counted().map(|counts| counts.calls).sum();
    ratio((look.time.seconds(&kinds) - executing).max(0.0), look.time.active()) * ratio(calls, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Database, Share, Statement, TimeShares};

    #[test]
    fn one_call_a_transaction_is_none() {
        let look = |calls, rows| {
            let counts = Counts { calls, rows, ..Counts::default() };
            let text = "SELECT name FROM t WHERE id = $1".into();
            Look {
                statements: vec![Statement { text, counts: Some(counts), ..Statement::default() }],
                database: Database { commits: 100.0, ..Database::default() },
                ..Look::default()
            }
        };
        let advice = examine(&look(5000.0, 5000.0)).unwrap();
        assert!(advice.finding.starts_with("50 calls a transaction"), "{}", advice.finding);
        // 5 s of 10 s run, 1 s of it executes: 40 %; one call of 50 remains.
        let share = |kind| Share { kind, event: String::new(), seconds: 5.0, n: 1 };
        let shares = vec![share(Kind::RunningUser), share(Kind::Io)];
        let mut timed = look(5000.0, 5000.0);
        timed.time = TimeShares { total: 10.0, shares, ..TimeShares::default() };
        timed.statements[0].counts.as_mut().unwrap().total_exec_time = 1000.0;
        let gain = examine(&timed).unwrap().prediction.gain.unwrap();
        assert!((gain - 0.4 * 0.98).abs() < 1e-9, "{gain}");
        assert_eq!(examine(&look(100.0, 100.0)), None);
        assert_eq!(examine(&look(5000.0, 90_000.0)), None);
    }
}
