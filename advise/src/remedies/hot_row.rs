//! Sessions queue up to change the same row.
//!
//! Rule: 30 % of the active time or more waits for row locks, and on average three sessions or more wait for
//! each holder of one, seen five times or more. Conflicts on many rows have nearly one holder for each
//! waiter. If the holders are idle, they are the fault: see the remedy sleeping-holder. While a holder
//! commits, it does not hold the lock longer than necessary, so only the rest of its time can be shortened.

use super::sleeping_holder::holders_sleep;
use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

const LEAST_WAITS: f64 = 0.3;
const LEAST_QUEUE: f64 = 3.0;
const LEAST_SEEN: u64 = 5;
/// If holders commit for this part of the time, there is nothing left to shorten: the row must be split.
const ALL_COMMIT: f64 = 0.8;

pub(super) const REMEDY: Remedy = Remedy {
    id: "hot-row",
    title: "spread or shorten the writes to one row",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let (rows, n) = look.time.waits(&["transactionid", "tuple"]);
    let holders = look.blockers.seen;
    let queue = ratio(look.blockers.waiters as f64, holders as f64);
    if rows < LEAST_WAITS || holders < LEAST_SEEN || queue < LEAST_QUEUE || holders_sleep(look) {
        return None;
    }
    let waiting: u64 = look.statements.iter().map(|one| one.lock_samples).sum();
    let worst = look.statements.iter().max_by_key(|one| one.lock_samples)?;
    if worst.lock_samples == 0 {
        return None;
    }
    let of_worst = ratio(worst.lock_samples as f64, waiting as f64);
    let commit = ratio(look.blockers.committing as f64, holders as f64);
    let waits = rows * of_worst;
    let prediction = if commit >= ALL_COMMIT {
        Prediction::gain(
            waits,
            format!("up to -{:.0} % of the time in the server, if the row is spread", waits * 100.0),
            "an upper bound: all waits of this statement go; its transactions commit already while they hold the row",
        )
    } else {
        let gain = waits * (1.0 - commit);
        Prediction::gain(
            gain,
            format!(
                "-{:.0} % of the time in the server if the row is changed last, up to -{:.0} % if it is spread",
                gain * 100.0,
                waits * 100.0
            ),
            "waits in proportion to the time for which the row is locked, of which only the commit is left",
        )
    };
    Some(Advice {
        finding: format!(
            "{:.0} % of the active time waits for row locks, {:.0} % of it in {}",
            rows * 100.0,
            of_worst * 100.0,
            worst.short()
        ),
        evidence: vec![
            Evidence::new("waits for row locks, of active time", rows * 100.0, "%", n),
            Evidence::new("sessions that wait for one holder", queue, "", holders),
            Evidence::new("of them in this statement", of_worst * 100.0, "%", waiting),
            Evidence::new("holders that committed", commit * 100.0, "%", holders),
        ],
        prediction,
        apply: vec![
            "-- in the application: make this the last statement before COMMIT, so that the row is locked for less time"
                .into(),
            "-- or spread the row: several rows for one counter, and their sum when it is read; or INSERT and add up later"
                .into(),
            "-- or collect several changes, and write them as one".into(),
        ],
        undo: vec!["-- the former statements".into()],
        risk: "readers of a spread counter must add its rows up".into(),
        ..Advice::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blockers, Kind, Share, Statement, TimeShares};

    fn look(lock: f64, waiters: u64, idle: u64) -> Look {
        let wait = Share { kind: Kind::Lock, event: "transactionid".into(), seconds: lock, n: 99 };
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 100.0 - lock, n: 1 };
        let statement =
            |text: &str, lock_samples| Statement { text: text.into(), lock_samples, ..Statement::default() };
        Look {
            time: TimeShares { total: 100.0, shares: vec![wait, run], ..TimeShares::default() },
            statements: vec![statement("UPDATE a", 10), statement("UPDATE counter", 30)],
            blockers: Blockers { seen: 20, waiters, idle, ..Blockers::default() },
            ..Look::default()
        }
    }

    #[test]
    fn a_queue_for_a_row_is_named_with_its_statement() {
        let advice = examine(&look(60.0, 80, 2)).unwrap();
        // 60 % of the time, three quarters of the samples.
        assert!((advice.prediction.gain.unwrap() - 0.45).abs() < 1e-9);
        assert!(advice.finding.ends_with("75 % of it in UPDATE counter"), "{}", advice.finding);
        assert_eq!((advice.evidence[1].value, advice.evidence[1].n), (4.0, 20));
        // A holder that commits in two of five cases could shorten three fifths.
        let mut commits = look(60.0, 80, 2);
        commits.blockers.committing = 8;
        assert!((examine(&commits).unwrap().prediction.gain.unwrap() - 0.27).abs() < 1e-9);
        commits.blockers.committing = 18;
        let advice = examine(&commits).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.45).abs() < 1e-9);
        assert!(advice.prediction.effect.ends_with("if the row is spread"), "{}", advice.prediction.effect);
    }

    #[test]
    fn spread_conflicts_and_sleeping_holders_are_others() {
        assert_eq!(examine(&look(60.0, 25, 2)), None);
        assert_eq!(examine(&look(20.0, 80, 2)), None);
        assert_eq!(examine(&look(60.0, 80, 15)), None);
    }
}
