//! The device takes long to sync the log.
//!
//! Rule: syncs are timed, a session sleeps 3 ms or more for one on average, and waits for the log are a fifth
//! of the active time or more. The share of waits alone is not a fault: a healthy server waits for its log,
//! too. Nor is a busy machine: where other programs write most of the bytes on the device, or sessions wait long
//! for a CPU, and that explains the time of a sync, the look says so, and the rule does not fire
//! (`look/disk.rs`).

use crate::look::shares::ratio;
use crate::look::{LEAST_LOG_WAITS, SLOW_SYNC_MS};
use crate::{Advice, Audience, Evidence, Kind, Look, Prediction, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "slow-sync",
    title: "wait less for syncs of the log",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/wal-async-commit.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let (waits, n) = look.time.waits(&["WAL", "Wal"]);
    let ms = look.sync_ms()?;
    if waits < LEAST_LOG_WAITS || ms < SLOW_SYNC_MS || look.others_delay(ms).is_some() {
        return None;
    }
    // A session that holds a lock waits for the log like others, and sessions that want the lock wait for
    // it.
    let locks = look.time.of_active(&[Kind::Lock]);
    let gain = waits + locks * ratio(waits, 1.0 - locks);
    Some(Advice {
        finding: format!("a sync of the log takes {ms:.1} ms, and {:.0} % of the active time waits for it", waits * 100.0),
        evidence: evidence(look, ms, waits, n),
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

fn evidence(look: &Look, ms: f64, waits: f64, n: u64) -> Vec<Evidence> {
    let mut found = vec![
        Evidence::new("time of a sync, without the run queue", ms, "ms", look.wal.wal_sync as u64),
        Evidence::new("waits for the log, of active time", waits * 100.0, "%", n),
    ];
    let turns = look.time.turns;
    found.push(Evidence::new("wait for a CPU, at each turn", look.time.turn_wait_ms(), "ms", turns));
    if let Some(disk) = &look.disk {
        let writes = disk.writes as u64;
        found.push(Evidence::new("time of a write on the device", disk.write_ms, "ms", writes));
        found.push(Evidence::new("written there by other programs", disk.others() * 100.0, "%", writes));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::disk::Disk;
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
        assert_eq!(examine(&look(0.0)), None, "not timed");
        // 2 s asleep for 1,000 syncs: the rest of their 6 ms is the run queue of a busy machine.
        let mut queued = look(6000.0);
        queued.time.shares[0].seconds = 2.0;
        queued.time.total = 5.0;
        assert_eq!(examine(&queued), None);
    }

    #[test]
    fn a_disk_that_is_busy_with_others_is_not_slow() {
        let look = |write_ms, server_bytes| {
            let wait = Share { kind: Kind::Io, event: "WALSync".into(), seconds: 6.0, n: 60 };
            let disk = Disk { bytes: 1e8, writes: 900.0, write_ms, server_bytes, ..Disk::default() };
            Look {
                time: TimeShares { total: 10.0, shares: vec![wait], ..TimeShares::default() },
                wal: Wal { wal_sync: 1000.0, wal_sync_time: 6000.0, ..Wal::default() },
                disk: Some(disk),
                ..Look::default()
            }
        };
        // Others write 90 %, and a write takes 2.5 ms: three of them are longer than the sync of 6 ms.
        assert_eq!(examine(&look(2.5, 1e7)), None);
        // The device writes in 1 ms: the delay is not in it.
        let advice = examine(&look(1.0, 1e7)).unwrap();
        assert_eq!((advice.evidence[4].value, advice.evidence[4].n), (90.0, 900));
        assert!(examine(&look(2.5, 9e7)).is_some(), "the server itself writes most");
        // 4 s in the run queue, 2,000 turns: 2 ms for a CPU, three times.
        let mut queued = look(2.5, 9e7);
        queued.time.shares.push(Share { kind: Kind::RunQueue, event: String::new(), seconds: 4.0, n: 1 });
        queued.time.turns = 2000;
        assert_eq!(examine(&queued), None);
    }
}
