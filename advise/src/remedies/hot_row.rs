//! Sessions queue up to change the same row.
//!
//! Rule: 30 % of the active time or more waits for row locks, and a sixth of that or more is the wait named `tuple`: at
//! least two sessions wait for one row at a time. Conflicts that are spread over many rows wait for `transactionid` alone.
//! Where the holders of the locks do nothing, they are the fault: see the remedy sleeping-holder.

use super::sleeping_holder::holders_sleep;
use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

const LEAST_WAITS: f64 = 0.3;
const LEAST_QUEUE: f64 = 1.0 / 6.0;

pub(super) struct HotRow;

impl Remedy for HotRow {
    fn id(&self) -> &'static str {
        "hot-row"
    }

    fn title(&self) -> &'static str {
        "spread or shorten the writes to one row"
    }

    fn audience(&self) -> Audience {
        Audience::Application
    }

    fn documentation(&self) -> &'static str {
        "https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        let (rows, n) = look.time.waits(&["transactionid", "tuple"]);
        let (queue, queued) = look.time.waits(&["tuple"]);
        if rows < LEAST_WAITS || ratio(queue, rows) < LEAST_QUEUE || holders_sleep(look) {
            return None;
        }
        let waiting: u64 = look.statements.iter().map(|one| one.lock_samples).sum();
        let worst = look.statements.iter().max_by_key(|one| one.lock_samples)?;
        if worst.lock_samples == 0 {
            return None;
        }
        let of_worst = ratio(worst.lock_samples as f64, waiting as f64);
        Some(Advice {
            finding: format!(
                "{:.0} % of the active time waits for row locks, {:.0} % of it in {}",
                rows * 100.0,
                of_worst * 100.0,
                worst.short()
            ),
            evidence: vec![
                Evidence::new("waits for row locks, of active time", rows * 100.0, "%", n),
                Evidence::new("of them behind another waiter of the same row", ratio(queue, rows) * 100.0, "%", queued),
                Evidence::new("of them in this statement", of_worst * 100.0, "%", waiting),
            ],
            prediction: Prediction::gain(
                rows * of_worst,
                format!("up to -{:.0} % of the time in the server", rows * of_worst * 100.0),
                "an upper bound: all waits of this statement go; what other statements then wait for is left out",
            ),
            apply: vec![
                "-- in the application: make this the last statement before COMMIT, so that the row is locked for less time"
                    .into(),
                "-- or spread the row: several rows for one counter, and their sum when it is read; or INSERT and add up later"
                    .into(),
                "-- or collect several changes, and write them as one".into(),
            ],
            undo: vec!["-- the former statements".into()],
            changes: Vec::new(),
            risk: "readers of a spread counter must add its rows up".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blockers, Kind, Share, Statement, TimeShares};

    fn look(transaction: f64, tuple: f64) -> Look {
        let wait = |event: &str, seconds: f64| Share {
            kind: Kind::Lock,
            event: event.into(),
            seconds,
            n: seconds as u64,
        };
        let run = Share {
            kind: Kind::RunningUser,
            event: String::new(),
            seconds: 100.0 - transaction - tuple,
            n: 1,
        };
        let shares = vec![wait("transactionid", transaction), wait("tuple", tuple), run];
        let statement =
            |text: &str, lock_samples| Statement { text: text.into(), lock_samples, ..Statement::default() };
        Look {
            time: TimeShares { total: 100.0, shares, ..TimeShares::default() },
            statements: vec![statement("UPDATE a", 10), statement("UPDATE counter", 30)],
            ..Look::default()
        }
    }

    #[test]
    fn a_queue_for_a_row_is_named_with_its_statement() {
        let advice = HotRow.examine(&look(40.0, 20.0)).unwrap();
        // 60 % of the time, three quarters of the samples.
        assert!((advice.prediction.gain.unwrap() - 0.45).abs() < 1e-9);
        assert!(advice.finding.ends_with("75 % of it in UPDATE counter"), "{}", advice.finding);
    }

    #[test]
    fn spread_conflicts_and_sleeping_holders_are_others() {
        assert_eq!(HotRow.examine(&look(60.0, 5.0)), None);
        assert_eq!(HotRow.examine(&look(20.0, 8.0)), None);
        let blockers = Blockers { seen: 20, idle: 15, ..Blockers::default() };
        assert_eq!(HotRow.examine(&Look { blockers, ..look(40.0, 20.0) }), None);
    }
}
