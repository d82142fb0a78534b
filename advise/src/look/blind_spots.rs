//! What a look could not observe, and what would make it visible.

use super::disk::Others;
use super::{Look, LEAST_LOG_WAITS, SLOW_SYNC_MS};

/// Adds what the rules could not observe, and what would make it visible.
pub(super) fn add(look: &mut Look) {
    let setting = |name: &str| look.server.setting(name).to_owned();
    let mut unknown = Vec::new();
    if !look.counted {
        unknown.push(
            "time by statement, jit, planning: preload pg_stat_statements, CREATE EXTENSION pg_stat_statements"
                .to_owned(),
        );
    } else if setting("pg_stat_statements.track_planning") != "on" {
        unknown.push(
            "whether prepared statements would help: ALTER SYSTEM SET pg_stat_statements.track_planning = on"
                .into(),
        );
    }
    if setting("track_wal_io_timing") != "on" && look.time.waits(&["WAL", "Wal"]).0 >= 0.2 {
        unknown.push(
            "the time of one sync of the log (its waits alone are no fault): ALTER SYSTEM SET track_wal_io_timing = on"
                .into(),
        );
    }
    let waited = look.time.waits(&["WAL", "Wal"]).0 >= LEAST_LOG_WAITS;
    let slow = look.sync_ms().filter(|ms| *ms >= SLOW_SYNC_MS && waited);
    unknown.extend(slow.and_then(|ms| look.others_delay(ms)).map(Others::blind_spot));
    if look.time.busy > 0 && !look.time.exact {
        unknown.push(
            "run queue and kernel time: the server's processes cannot be seen here; run this on its machine"
                .into(),
        );
    }
    if look.database.elsewhere > look.database.commits {
        unknown.push("most transactions run in another database: name it with --database".into());
    }
    if look.time.seen_once > 0 {
        unknown.push(format!(
            "the time of {} sessions that were too short to be seen twice",
            look.time.seen_once
        ));
    }
    look.unknown.splice(0..0, unknown);
}

#[cfg(test)]
mod tests {
    use super::super::disk::Disk;
    use super::super::shares::{Kind, Share, TimeShares};
    use super::super::views::Wal;
    use super::*;

    #[test]
    fn waits_for_the_log_are_a_blind_spot_until_syncs_are_timed() {
        let wal = Share { kind: Kind::Io, event: "WALSync".into(), seconds: 7.0, n: 70 };
        let time =
            TimeShares { total: 10.0, shares: vec![wal], busy: 1, exact: true, ..TimeShares::default() };
        let mut look = Look { time, counted: true, ..Look::default() };
        add(&mut look);
        assert!(look.unknown.iter().any(|text| text.contains("track_wal_io_timing")), "{:?}", look.unknown);
        look.unknown.clear();
        look.server.settings.insert("track_wal_io_timing".into(), "on".into());
        add(&mut look);
        assert!(!look.unknown.iter().any(|text| text.contains("track_wal_io_timing")), "{:?}", look.unknown);
        // PostgreSQL 17 spells its names differently.
        look.unknown.clear();
        look.server.settings.clear();
        look.time.shares[0].event = "WalSync".into();
        add(&mut look);
        assert!(look.unknown.iter().any(|text| text.contains("track_wal_io_timing")), "{:?}", look.unknown);
    }

    #[test]
    fn a_disk_that_others_keep_busy_is_a_blind_spot() {
        let wal = Share { kind: Kind::Io, event: "WALSync".into(), seconds: 6.0, n: 60 };
        let disk = Disk { device: "vda".into(), bytes: 1e8, write_ms: 2.5, server_bytes: 1e7, writes: 9.0 };
        let mut look = Look {
            time: TimeShares { total: 10.0, shares: vec![wal], ..TimeShares::default() },
            wal: Wal { wal_sync: 1000.0, wal_sync_time: 7000.0, ..Wal::default() },
            disk: Some(disk),
            counted: true,
            ..Look::default()
        };
        assert_eq!(look.sync_ms(), Some(6.0));
        add(&mut look);
        let said = look.unknown.iter().find(|text| text.starts_with("whether syncs (6.0 ms)"));
        assert!(said.is_some_and(|text| text.contains("90 % of the bytes on vda")), "{:?}", look.unknown);
    }
}
