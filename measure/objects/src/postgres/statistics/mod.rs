//! PostgreSQL's own counters by database: transactions and rows, as in `pg_stat_database`.
//!
//! ```text
//!   area "Shared Memory Stats": PgStat_ShmemControl ── raw_dsa_area ──> dynamic area (dynamic.rs)
//!                                                   └─ hash_handle ──> table (table.rs) of {kind, database, object, body}
//!   body of kind "database": {magic, lock, PgStat_StatDBEntry}
//! ```
//!
//! Backends count in private memory, and add it to these counters at most once a second, not within a
//! transaction, and when they end. [`counting`] reports how inexact that makes the figures.

pub(crate) mod counting;
mod dynamic;
mod table;
#[cfg(test)]
mod tests;

use super::attach::Server;
use super::layout::{Layout, Missing};
use crate::bytes::{array_at, u16_at, u32_at, u64_at};
use dynamic::{DynamicArea, Pointer};
use hardmeter_samples::model::VirtualAddress;
use std::collections::BTreeMap;

/// The counters of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatabaseCounts {
    /// Transactions that were committed: one per statement without an explicit transaction.
    pub commits: u64,
    /// Transactions that were rolled back.
    pub rollbacks: u64,
    /// Rows that scans of tables returned, and entries that scans of indexes returned.
    pub returned: u64,
    /// Rows that were fetched through an index.
    pub fetched: u64,
    /// Rows that were inserted.
    pub inserted: u64,
    /// Rows that were updated.
    pub updated: u64,
    /// Rows that were deleted.
    pub deleted: u64,
    /// When the counters were reset (`pg_stat_reset`), on the server's clock.
    pub reset: u64,
}

/// The places of a server's statistics.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    area: std::ops::Range<VirtualAddress>,
    table: Pointer,
    shape: table::Shape,
    /// Offsets in an entry of the table: kind, database, whether it was dropped, body.
    entry: [usize; 4],
    database_kind: u32,
    /// Offsets in a body: its lock and the counters.
    lock_at: usize,
    stats_at: usize,
    lock_kind: u32,
    counts: [usize; 8],
    stats_size: usize,
}

/// First word of each body.
const BODY_MAGIC: u32 = 0xdead_beef;
/// Limit of repeated reads of a body that changes.
const READS: usize = 16;

impl Statistics {
    /// Finds them, and tests that they match the layout. Otherwise returns the reason.
    pub fn find(server: &Server) -> Result<Statistics, String> {
        let (layout, memory) = (&server.layout, &server.memory);
        let area = server.areas.named(&["Shared Memory Stats"]);
        let area = area.ok_or("shared memory has no area \"Shared Memory Stats\"")?;
        let (end, size) = (area.start.0 + area.size.0, area.size.0);
        let missing = |missing: Missing| missing.to_string();
        let offset = |structure: &str, field: &str| layout.offset(structure, field).map_err(missing);
        let control = |field: &str| -> Result<u64, String> {
            let at = offset("PgStat_ShmemControl", field)?;
            memory.u64(VirtualAddress(area.start.0 + at)).map_err(|error| error.to_string())
        };
        // The server's own pointer to the area, exported because several of its files use it.
        if let Some(variable) = server.program.address("pgStatLocal") {
            let at = VirtualAddress(variable.0 + offset("PgStat_LocalState", "shmem")?);
            let there = memory.pointer(at).map_err(|error| error.to_string())?;
            if there != area.start {
                return Err(format!("the server says that they are at {there}, not at {}", area.start));
            }
        }
        let dynamic = control("raw_dsa_area")?;
        let head = layout.structure("PgStat_ShmemControl").map_err(missing)?.size.next_multiple_of(8);
        if head >= size || dynamic != area.start.0 + head {
            return Err(format!("the control structure does not have the {head} bytes of the layout"));
        }
        let entry = |field: &str| offset("PgStatShared_HashEntry", field).map(|at| at as usize);
        let key = |field: &str| offset("PgStat_HashKey", field).map(|at| at as usize);
        let key_at = entry("key")?;
        let kind_of_lock = |name: &str| {
            let found = layout.tranches.iter().find(|(known, _)| known == name);
            found.map(|(_, number)| *number).ok_or_else(|| format!("the layout has no lock {name}"))
        };
        let size_of = |name: &str| layout.structure(name).map(|found| found.size as usize).map_err(missing);
        let statistics = Statistics {
            area: VirtualAddress(dynamic)..VirtualAddress(end),
            table: Pointer(control("hash_handle")?),
            shape: table::Shape {
                entry: size_of("PgStatShared_HashEntry")?,
                lock: size_of("LWLock")?,
                kind: kind_of_lock("PgStatsHash")?,
            },
            entry: [key_at + key("kind")?, key_at + key("dboid")?, entry("dropped")?, entry("body")?],
            database_kind: layout.statistics_kind_database,
            lock_at: offset("PgStatShared_Common", "lock")? as usize,
            stats_at: offset("PgStatShared_Database", "stats")? as usize,
            lock_kind: kind_of_lock("PgStatsData")?,
            counts: counts_of(layout)?,
            stats_size: size_of("PgStat_StatDBEntry")?,
        };
        statistics.read(server)?;
        Ok(statistics)
    }

    /// The present counters, by the number of the database; 0 is for shared objects.
    pub fn read(&self, server: &Server) -> Result<BTreeMap<u32, DatabaseCounts>, String> {
        let mut area = DynamicArea::open(server, self.area.clone())?;
        let [kind, database, dropped, body] = self.entry;
        let wanted = |entry: &[u8]| {
            u32_at(entry, kind) == Some(self.database_kind)
                && entry.get(dropped).is_some_and(|flag| *flag == 0)
        };
        let entries = table::entries(&mut area, self.table, self.shape, &wanted)?;
        let mut all = BTreeMap::new();
        for entry in entries.chunks_exact(self.shape.entry) {
            let number = u32_at(entry, database).unwrap_or(0);
            let body = Pointer(u64_at(entry, body).unwrap_or(0));
            all.insert(number, self.counts_at(&mut area, body)?);
        }
        // A server has at least the database in which it was started.
        match all.keys().any(|number| *number != 0) {
            true => Ok(all),
            false => Err("they are of no database".into()),
        }
    }

    fn counts_at(&self, area: &mut DynamicArea, body: Pointer) -> Result<DatabaseCounts, String> {
        let mut bytes = vec![0; self.stats_at + self.stats_size];
        let mut again = bytes.clone();
        area.read(body, &mut bytes)?;
        for _ in 0..READS {
            area.read(body, &mut again)?;
            if bytes == again {
                break;
            }
            std::mem::swap(&mut bytes, &mut again);
        }
        let kind = u16_at(&bytes, self.lock_at).map(u32::from);
        if u32_at(&bytes, 0) != Some(BODY_MAGIC) || kind != Some(self.lock_kind) {
            return Err("an entry has an unexpected header".into());
        }
        let stats = &bytes[self.stats_at..];
        let [commits, rollbacks, returned, fetched, inserted, updated, deleted, reset] =
            self.counts.map(|at| array_at(stats, at).map_or(0, u64::from_le_bytes));
        let counts =
            DatabaseCounts { commits, rollbacks, returned, fetched, inserted, updated, deleted, reset };
        let all = [commits, rollbacks, returned, fetched, inserted, updated, deleted];
        match all.iter().all(|count| *count <= i64::MAX as u64) {
            true => Ok(counts),
            false => Err("a count is below 0".into()),
        }
    }
}

/// Offsets of the counters; in PG15 most of their names begin with `n_`.
fn counts_of(layout: &Layout) -> Result<[usize; 8], String> {
    const NAMES: [&str; 8] = [
        "xact_commit",
        "xact_rollback",
        "tuples_returned",
        "tuples_fetched",
        "tuples_inserted",
        "tuples_updated",
        "tuples_deleted",
        "stat_reset_timestamp",
    ];
    let mut counts = [0; 8];
    for (count, name) in counts.iter_mut().zip(NAMES) {
        let at = |name: &str| layout.offset("PgStat_StatDBEntry", name);
        let found = at(name).or_else(|missing| at(&format!("n_{name}")).map_err(|_| missing));
        *count = found.map_err(|missing| missing.to_string())? as usize;
    }
    Ok(counts)
}
