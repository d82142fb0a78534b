//! Checkpoints happen because the log is full, not at the configured interval.
//!
//! Rule: during the look a checkpoint was requested at least once in 30 s, the log was full (another one was
//! written since), and a tenth or more of the log's bytes are whole pages, which each checkpoint makes
//! necessary again. A checkpoint that a user requests, or that happens at the configured interval, is not a
//! fault.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

const MOST_SECONDS: f64 = 30.0;
const LEAST_PAGES: f64 = 0.1;
/// The log has this many bytes for a page image: a block, slightly compressed (without its hole).
const PAGE: f64 = 8192.0;

pub(super) const REMEDY: Remedy = Remedy {
    id: "checkpoints",
    title: "room for more log between checkpoints",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/wal-configuration.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let every = ratio(look.seconds, look.wal.checkpoints_requested);
    let megabytes = look.server.number("max_wal_size")?;
    let written = look.wal.wal_bytes / 1e6;
    // By default one half of max_wal_size is written between two checkpoints.
    let full = written >= look.wal.checkpoints_requested * megabytes * 0.3;
    let pages = ratio(look.wal.wal_fpi * PAGE, look.wal.wal_bytes).min(1.0);
    if look.wal.checkpoints_requested < 1.0 || every > MOST_SECONDS || !full || pages < LEAST_PAGES {
        return None;
    }
    let (waits, n) = look.time.waits(&["WAL", "Wal", "DataFile", "Checkpoint"]);
    // Twice the log of five minutes: half of max_wal_size is written between two checkpoints.
    let wanted = (ratio(written, look.seconds) * 300.0 * 2.0).max(megabytes * 4.0).min(65_536.0);
    let value = format!("{wanted:.0}MB");
    let advice = Advice {
        finding: format!(
            "a checkpoint each {every:.1} s, since the log of {megabytes:.0} MB is full: {:.0} % of the log are whole pages",
            pages * 100.0
        ),
        evidence: vec![
            Evidence::new("checkpoints that were requested", look.wal.checkpoints_requested, "", 1),
            Evidence::new("log written", ratio(written, look.seconds), "MB/s", 1),
            Evidence::new("whole pages, of the log", pages * 100.0, "%", look.wal.wal_fpi as u64),
            Evidence::new("waits for log and data files, of active time", waits * 100.0, "%", n),
        ],
        prediction: Prediction {
            grows: true,
            ..Prediction::unknown(
                format!("up to -{:.0} % of the log", pages * 100.0),
                "a sync takes its time for few bytes, too, so that waits do not shrink with the log: a trial shows it",
            )
        },
        risk: "recovery after a crash reads more log; the folder pg_wal may grow to that size".into(),
        ..Advice::default()
    };
    Some(advice.with_setting(&look.server, Scope::System, "max_wal_size", &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Server, Share, TimeShares, Wal};

    fn look(requested: f64, fpi: f64) -> Look {
        let wait = Share { kind: Kind::Io, event: "WALSync".into(), seconds: 4.0, n: 40 };
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 6.0, n: 1 };
        let settings = [("max_wal_size".to_owned(), "32".to_owned())].into();
        Look {
            seconds: 10.0,
            server: Server { settings, ..Server::default() },
            time: TimeShares { total: 10.0, shares: vec![wait, run], ..TimeShares::default() },
            wal: Wal { wal_bytes: 8.192e7, wal_fpi: fpi, checkpoints_requested: requested, ..Wal::default() },
            ..Look::default()
        }
    }

    #[test]
    fn frequent_checkpoints_are_named() {
        let advice = examine(&look(5.0, 5000.0)).unwrap();
        // 5,000 x 8,192 of 81,920,000 bytes are half.
        assert_eq!((advice.prediction.gain, advice.prediction.grows), (None, true));
        assert!(advice.prediction.effect.ends_with("-50 % of the log"), "{}", advice.prediction.effect);
        // 8.192 MB/s x 300 s x 2.
        assert_eq!(advice.apply[0], "ALTER SYSTEM SET max_wal_size = '4915MB';");
        assert_eq!(advice.undo[0], "ALTER SYSTEM RESET max_wal_size;");
    }

    #[test]
    fn a_checkpoint_by_hand_or_by_time_is_none() {
        assert_eq!(examine(&look(0.0, 5000.0)), None);
        assert_eq!(examine(&look(5.0, 100.0)), None);
        let mut quiet = look(1.0, 500.0);
        quiet.wal.wal_bytes = 5e6; // a user requested it: the log was not full
        assert_eq!(examine(&quiet), None);
    }
}
