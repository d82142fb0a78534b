//! Transactions that wait for rows which others have locked.
//!
//! Rule: 30 % of the active time or more waits for row locks. A few conflicts, spread over rows, are no fault.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "row-locks",
    title: "shorten transactions on the rows that all change",
    audience: Audience::Application,
    documentation: "https://mariadb.com/kb/en/innodb-lock-modes/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let (waits, n) = look.time.waits(&["row lock"]);
    let (number, ms) = (maria.count("innodb_row_lock_waits"), maria.count("innodb_row_lock_time"));
    if waits < 0.3 || number < 10.0 {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{:.0} % of the active time waits for row locks, {:.1} ms each",
            waits * 100.0,
            ratio(ms, number)
        ),
        evidence: vec![
            Evidence::new("waits for row locks, of active time", waits * 100.0, "%", n),
            Evidence::new("waits a second", ratio(number, look.seconds), "1/s", number as u64),
        ],
        prediction: Prediction::gain(
            waits / 2.0,
            "a lock is held for the last statement and the commit alone",
            "half of the waits (assumed: a lock that is taken in the middle of its transaction on average)",
        ),
        apply: vec![
            "-- in the application: change the row that all change last, do not wait for a user within a transaction, or \
             split the row (counters by connection)"
                .into(),
        ],
        risk: "another order of changes can meet deadlocks: keep one order everywhere".into(),
        ..Advice::default()
    };
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::Kind;

    #[test]
    fn few_conflicts_are_no_fault() {
        let of = |seconds: f64| {
            let look = look(&[("innodb_row_lock_waits", 1000.0), ("innodb_row_lock_time", 9000.0)], &[]);
            examine(&waiting(look, Kind::Lock, "row lock", seconds))
        };
        // Half of 30 s in 40 s.
        assert_eq!(of(30.0).unwrap().prediction.gain, Some(0.375));
        assert_eq!(of(3.0), None);
    }
}
