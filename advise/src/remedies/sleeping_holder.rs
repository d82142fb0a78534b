//! Sessions wait for locks of transactions whose clients are idle.
//!
//! Rule: 20 % of the active time or more waits for heavyweight locks, and of the sessions that hold them
//! without waiting themselves, seen five times or more, half or more are idle in their transaction. A working
//! holder is not a fault.

use super::idle_in_transaction::with_timeout;
use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

const LEAST_WAITS: f64 = 0.2;
const LEAST_SEEN: u64 = 5;

/// True if the holders of awaited locks are mostly idle.
pub(super) fn holders_sleep(look: &Look) -> bool {
    look.blockers.seen >= LEAST_SEEN && look.blockers.idle * 2 >= look.blockers.seen
}

pub(super) const REMEDY: Remedy = Remedy {
    id: "sleeping-holder",
    title: "do not pause while a transaction holds locks",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/explicit-locking.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let locks = look.time.of_active(&[Kind::Lock]);
    if locks < LEAST_WAITS || !holders_sleep(look) {
        return None;
    }
    let blockers = &look.blockers;
    let idle = ratio(blockers.idle as f64, blockers.seen as f64);
    let name = if blockers.application.is_empty() { "an unnamed program" } else { &blockers.application };
    let last: Vec<&str> = blockers.query.split_whitespace().collect();
    let last: String = last.join(" ").chars().take(40).collect();
    let advice = Advice {
        finding: format!(
            "{:.0} % of the active time waits for locks whose holders are idle, as {name} after {last}",
            locks * idle * 100.0
        ),
        evidence: vec![
            Evidence::new("waits for locks, of active time", locks * 100.0, "%", look.time.samples),
            Evidence::new("holders that were idle in their transaction", idle * 100.0, "%", blockers.seen),
        ],
        prediction: Prediction::gain(
            locks * idle,
            format!("up to -{:.0} % of the time in the server", locks * idle * 100.0),
            "an upper bound: waits in proportion to the holders that were seen idle",
        ),
        apply: vec![
            "-- in the application: no input, no call to another service between the first change and COMMIT"
                .into(),
            "-- the timeout only ends sessions that pause for longer; their work is lost".into(),
        ],
        ..Advice::default()
    };
    Some(with_timeout(advice, look))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blockers, Share, TimeShares};

    #[test]
    fn a_holder_that_works_is_none() {
        let look = |idle, lock| {
            let wait = Share { kind: Kind::Lock, event: "transactionid".into(), seconds: lock, n: 9 };
            let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 100.0 - lock, n: 1 };
            Look {
                time: TimeShares { total: 100.0, shares: vec![wait, run], ..TimeShares::default() },
                blockers: Blockers {
                    seen: 20,
                    waiters: 40,
                    idle,
                    application: "web".into(),
                    query: "UPDATE  t".into(),
                    ..Blockers::default()
                },
                ..Look::default()
            }
        };
        let advice = examine(&look(15, 60.0)).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.45).abs() < 1e-9);
        assert!(advice.finding.ends_with("as web after UPDATE t"), "{}", advice.finding);
        assert_eq!(advice.apply[0], "ALTER SYSTEM SET idle_in_transaction_session_timeout = '30s';");
        assert_eq!(examine(&look(4, 60.0)), None);
        assert_eq!(examine(&look(15, 10.0)), None);
    }
}
