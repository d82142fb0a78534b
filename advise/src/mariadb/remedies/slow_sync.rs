//! A device that takes long to sync the log at each commit.
//!
//! Rule: a tenth of the active time or more waits for commits, and the log is synced less than 200 times a second: more than
//! 5 ms each where commits queue for it. A share of waits for the log alone is no fault: healthy servers show it.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

/// A sync that takes longer than this, in seconds, is slow.
const SLOW: f64 = 5e-3;

pub(super) const REMEDY: Remedy = Remedy {
    id: "slow-sync",
    title: "commits wait for slow syncs: a faster device, or fewer syncs",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_log_at_trx_commit",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let syncs = maria.count("innodb_data_fsyncs");
    let (waits, n) = look.time.waits(&["log sync"]);
    let rate = ratio(syncs, look.seconds);
    if maria.variable("innodb_flush_log_at_trx_commit") != "1"
        || waits < 0.1
        || syncs < 5.0
        || rate > 1.0 / SLOW
    {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{:.0} % of the active time waits for commits, at {rate:.0} syncs of the log a second",
            waits * 100.0
        ),
        evidence: vec![
            Evidence::new("waits for commits, of active time", waits * 100.0, "%", n),
            Evidence::new("syncs a second, most of them of the log", rate, "1/s", syncs as u64),
        ],
        prediction: Prediction::gain(
            waits,
            format!("at most {:.1} ms a sync are saved", ratio(1e3, rate)),
            "the upper bound: no wait for the log at all",
        ),
        apply: vec![
            "-- first ask whether the last second of commits may be lost in a crash of the machine".into(),
            "-- if it may: innodb_flush_log_at_trx_commit = 2; if not: a device with a protected cache, fewer commits"
                .into(),
        ],
        risk: "with 2 a crash of the machine loses up to a second of confirmed transactions".into(),
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
    fn waits_alone_are_no_fault() {
        let of = |syncs: f64, seconds: f64| {
            let look = look(&[("innodb_data_fsyncs", syncs)], &[("innodb_flush_log_at_trx_commit", "1")]);
            examine(&waiting(look, Kind::Io, "log sync", seconds))
        };
        // 10 s of 20 s.
        let advice = of(1000.0, 10.0).unwrap();
        assert_eq!(advice.prediction.gain, Some(0.5));
        assert!(advice.changes.is_empty());
        assert_eq!((of(5000.0, 10.0), of(1000.0, 0.5)), (None, None));
    }
}
