//! A device that takes long to sync the log at each commit.
//!
//! Rule: a tenth of the active time or more waits for commits, and the log is synced less than 200 times a second: more than
//! 5 ms each where commits queue for it. A share of waits for the log alone is no fault: healthy servers show it. Nor
//! is a disk that other programs keep busy: the look says so then.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

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
    let ms = maria.sync_ms(look.seconds)?;
    let each = maria.variable("innodb_flush_log_at_trx_commit") == "1";
    if !each || waits < 0.1 || look.others_delay(ms).is_some() {
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
            format!("at most {ms:.1} ms a sync are saved"),
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
    use crate::{Disk, Kind};

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
        // 10 ms a sync; others write three quarters, and a write takes 8 ms.
        let variables = [("innodb_flush_log_at_trx_commit", "1")];
        let mut busy =
            waiting(look(&[("innodb_data_fsyncs", 1000.0)], &variables), Kind::Io, "log sync", 10.0);
        busy.disk = Some(Disk { bytes: 4e6, server_bytes: 1e6, write_ms: 8.0, ..Disk::default() });
        assert_eq!(examine(&busy), None);
    }
}
