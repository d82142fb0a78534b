//! The device takes long to sync the log.
//!
//! Rule: syncs are timed, one takes 3 ms or more on average, and waits for the log are a fifth of the active
//! time or more. The share of waits alone is not a fault: a healthy server waits for its log, too.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

const SLOW_MS: f64 = 3.0;

pub(super) const REMEDY: Remedy = Remedy {
    id: "slow-sync",
    title: "wait less for syncs of the log",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/wal-async-commit.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let (waits, n) = look.time.waits(&["WAL"]);
    if look.wal.wal_sync < 20.0 || waits < 0.2 {
        return None;
    }
    let ms = look.wal.wal_sync_time / look.wal.wal_sync;
    if ms < SLOW_MS {
        return None;
    }
    // A session that holds a lock waits for the log like others, and sessions that want the lock wait for
    // it.
    let locks = look.time.of_active(&[Kind::Lock]);
    let gain = waits + locks * ratio(waits, 1.0 - locks);
    Some(Advice {
        finding: format!("a sync of the log takes {ms:.1} ms, and {:.0} % of the active time waits for it", waits * 100.0),
        evidence: vec![
            Evidence::new("time of a sync", ms, "ms", look.wal.wal_sync as u64),
            Evidence::new("waits for the log, of active time", waits * 100.0, "%", n),
        ],
        prediction: Prediction::gain(
            gain,
            format!("up to -{:.0} % of the time of a transaction that writes", gain * 100.0),
            "an upper bound: all waits for the log go, as with synchronous_commit = off, and waits for locks in \
             proportion to the time of those who hold them",
        ),
        apply: vec![
            "-- first: a device with a write cache that survives power loss (pg_test_fsync shows what one sync takes)"
                .into(),
            "-- only for roles that may lose their last commits in a crash (never corruption):".into(),
            "-- ALTER ROLE role SET synchronous_commit = off;".into(),
        ],
        undo: vec!["-- ALTER ROLE role RESET synchronous_commit; or the value that it had".into()],
        // Only the owner may decide against durability: no trial changes this.
        risk: "with synchronous_commit = off a crash loses the commits of up to three times wal_writer_delay: ask the \
               owner of the data first"
            .into(),
        ..Advice::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Share, TimeShares, Wal};

    #[test]
    fn a_share_of_waits_alone_is_no_fault() {
        let look = |wal_sync_time| {
            let wait = Share { kind: Kind::Io, event: "WALSync".into(), seconds: 7.0, n: 70 };
            let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 3.0, n: 1 };
            Look {
                time: TimeShares { total: 10.0, shares: vec![wait, run], ..TimeShares::default() },
                wal: Wal { wal_sync: 1000.0, wal_sync_time, ..Wal::default() },
                ..Look::default()
            }
        };
        let advice = examine(&look(6000.0)).unwrap();
        assert_eq!(advice.prediction.gain, Some(0.7));
        // Of 20 s, 10 wait for locks: the holders' 10 s become 3, and so do the 10 s.
        let mut locked = look(6000.0);
        let lock = Share { kind: Kind::Lock, event: "transactionid".into(), seconds: 10.0, n: 100 };
        locked.time.shares.push(lock);
        locked.time.total = 20.0;
        assert!((examine(&locked).unwrap().prediction.gain.unwrap() - 0.7).abs() < 1e-9);
        assert!(advice.finding.starts_with("a sync of the log takes 6.0 ms"), "{}", advice.finding);
        assert_eq!(examine(&look(900.0)), None);
        assert_eq!(examine(&look(0.0)), None); // not timed
    }
}
