//! A session is idle in a transaction and keeps vacuum from removing dead rows.
//!
//! Rule: a session was idle in the same transaction throughout the last ten samples of the look, for at least
//! 5 s, and 500 transactions or more began since. Active reports and backups hold snapshots, too: they are
//! not idle, and are not reported.

use crate::{Advice, Audience, Evidence, IdleTransaction, Look, Prediction, Remedy, Scope};

const LEAST_SECONDS: f64 = 5.0;
pub(super) const LEAST_AGE: i64 = 500;

/// True if a transaction keeps vacuum from removing rows.
pub(super) fn holds_back(one: &IdleTransaction) -> bool {
    one.seconds >= LEAST_SECONDS && one.xmin_age >= LEAST_AGE
}

/// Adds a timeout for sessions that are idle in a transaction for long, which also ends their locks.
pub(super) fn with_timeout(advice: Advice, look: &Look) -> Advice {
    let risk = "a session that is ended loses its transaction; programs must connect again".to_owned();
    let name = "idle_in_transaction_session_timeout";
    Advice { risk, ..advice }.with_setting(&look.server, Scope::System, name, "30s")
}

pub(super) const REMEDY: Remedy = Remedy {
    id: "idle-in-transaction",
    title: "end transactions that do nothing",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let holders: Vec<_> = look.idle_transactions.iter().filter(|one| holds_back(one)).collect();
    let oldest = *holders.first()?;
    let dead: f64 = look.tables.iter().map(|table| table.dead).sum();
    let growth: f64 = look.tables.iter().map(|table| table.updated + table.deleted).sum();
    let name = if oldest.application.is_empty() { "an unnamed program" } else { &oldest.application };
    let effect = match look.seconds > 0.0 {
        true => format!("vacuum removes rows again: {:.0} a second die now", growth / look.seconds),
        false => "vacuum removes rows again".to_owned(),
    };
    let advice = Advice {
        finding: format!(
            "{name} (process {}) is idle in a transaction of {:.0} s: vacuum removes nothing of the last {} transactions",
            oldest.pid, oldest.seconds, oldest.xmin_age
        ),
        evidence: vec![
            Evidence::new("age of the transaction", oldest.seconds, "s", oldest.samples),
            Evidence::new("transactions that began since", oldest.xmin_age as f64, "", 1),
            Evidence::new("sessions that hold back vacuum in this way", holders.len() as f64, "", look.samples),
            Evidence::new("dead rows now", dead, "rows", look.tables.len() as u64),
        ],
        prediction: Prediction {
            grows: true,
            ..Prediction::unknown(effect, "the harm grows with the dead rows that each scan has to pass; no figure")
        },
        apply: vec![
            "-- ends such sessions from now on; in the application: commit before waiting for anything else".into(),
            format!("-- this one at once, its work is lost: SELECT pg_terminate_backend({});", oldest.pid),
        ],
        ..Advice::default()
    };
    Some(with_timeout(advice, look))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_transactions_that_hold_something_are_named() {
        let look = |seconds, xmin_age| Look {
            idle_transactions: vec![IdleTransaction {
                pid: 77,
                seconds,
                xmin_age,
                ..IdleTransaction::default()
            }],
            ..Look::default()
        };
        let advice = examine(&look(16.6, 13_600)).unwrap();
        assert!(
            advice.finding.contains("process 77") && advice.finding.contains("13600"),
            "{}",
            advice.finding
        );
        assert!(advice.prediction.grows);
        assert_eq!(examine(&look(2.0, 13_600)), None);
        assert_eq!(examine(&look(16.6, 0)), None);
    }
}
