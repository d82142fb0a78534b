//! The buffer pool is so small that blocks are repeatedly copied from the kernel's cache.
//!
//! Rule: one block access in twenty or more misses the pool, 2,000 a second or more; the database is larger
//! than the pool, and the pool is below an eighth of the machine's memory. A high hit rate needs no larger
//! pool.

use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Scope};

/// Seconds of CPU to copy one block from the kernel's cache, if this machine's own cost was not measured.
const COST_OF_BLOCK: f64 = 1e-6;

pub(super) const REMEDY: Remedy = Remedy {
    id: "shared-buffers",
    title: "a larger buffer pool",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-SHARED-BUFFERS",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let (pool, memory, database) = (look.server.shared_buffers(), look.server.memory, look.database.bytes);
    let accesses = look.database.blks_hit + look.database.blks_read;
    let misses = ratio(look.database.blks_read, accesses);
    let rate = ratio(look.database.blks_read, look.seconds);
    let small = look.server.local && pool > 0.0 && pool < memory / 8.0 && database > pool;
    if !small || misses < 0.05 || rate < 2000.0 {
        return None;
    }
    let (waits, n) = look.time.waits(&["DataFileRead"]);
    let cost = if look.server.block_copy > 0.0 { look.server.block_copy } else { COST_OF_BLOCK };
    let copies = look.time.with_cpu_seconds(look.database.blks_read * cost);
    // The additional part of the database that a pool of a quarter of the memory would hold.
    let wanted = (memory / 4.0).min(database * 1.1);
    let held = ratio(wanted - pool, database - pool).clamp(0.0, 1.0);
    let megabytes = (wanted / 1e6).ceil();
    let mut prediction = Prediction::gain(
        (copies + waits) * held,
        format!("{:.0} % fewer blocks read", held * 100.0),
        format!(
            "{:.1} us of CPU a block (a read of 8 kB that the kernel has cached, on this machine) with the run queue \
             in proportion, and the waits for reads, for the part that would fit",
            cost * 1e6
        ),
    );
    let counted = look.statements.iter().filter_map(|one| one.counts.as_ref());
    let executed: f64 = counted.map(|counts| counts.total_exec_time / 1e3).sum();
    if executed > 0.0 {
        let reads = look.database.blks_read * cost + waits * look.time.active();
        prediction = prediction.with_execution(ratio(reads, executed) * held);
    }
    let advice = Advice {
        finding: format!(
            "{rate:.0} blocks a second miss a buffer pool of {:.0} MB; the database has {:.0} MB, the machine {:.0} MB",
            pool / 1e6,
            database / 1e6,
            memory / 1e6
        ),
        evidence: vec![
            Evidence::new("block accesses that miss", misses * 100.0, "%", accesses as u64),
            Evidence::new("blocks read a second", rate, "1/s", look.database.blks_read as u64),
            Evidence::new("waits for reads, of active time", waits * 100.0, "%", n),
        ],
        prediction,
        apply: vec![
            "-- then restart the server".into(),
        ],
        undo: vec!["-- then restart the server".into()],
        risk: "memory that the kernel's cache and work_mem then lack; needs a restart".into(),
        ..Advice::default()
    };
    let value = format!("{megabytes:.0}MB");
    Some(advice.with_setting(&look.server, Scope::System, "shared_buffers", &value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Database, Kind, Server, Share, Statement, TimeShares};

    #[test]
    fn misses_count_only_where_the_pool_is_small() {
        let look = |blks_read, buffers: &str| {
            let settings = [("shared_buffers", buffers), ("block_size", "8192")];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            let fixed = vec!["shared_buffers".to_owned()];
            let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
            Look {
                server: Server {
                    settings,
                    fixed,
                    local: true,
                    memory: 8e9,
                    block_copy: 3e-6,
                    ..Server::default()
                },
                seconds: 10.0,
                time: TimeShares { total: 10.0, shares: vec![run], ..TimeShares::default() },
                database: Database { blks_read, blks_hit: 1e6, bytes: 1e9, ..Database::default() },
                ..Look::default()
            }
        };
        // 1,000,000 blocks x 3 us = 3 s of 10 s; the whole database would fit.
        let advice = examine(&look(1e6, "2048")).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(advice.prediction.of_execution, None, "statements are not counted");
        // Statements run for 6 of the 10 s.
        let counts = Counts { total_exec_time: 6000.0, ..Counts::default() };
        let mut counted = look(1e6, "2048");
        counted.statements.push(Statement { counts: Some(counts), ..Statement::default() });
        assert!((examine(&counted).unwrap().prediction.of_execution.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(advice.apply[0], "ALTER SYSTEM SET shared_buffers = '1100MB';");
        // Set in postgresql.conf, not by ALTER SYSTEM.
        assert_eq!(advice.undo[0], "ALTER SYSTEM RESET shared_buffers;");
        assert_eq!(examine(&look(1e4, "2048")), None);
        assert_eq!(examine(&look(1e6, "200000")), None);
    }
}
