//! Indexes that are maintained and never scanned.
//!
//! Rule: a table is written to, and has indexes without a scan since statistics are counted. Excluded are
//! indexes that enforce something (primary key, unique, exclusion, replica identity), those used for a
//! foreign key's checks, and duplicates, which have their own remedy.

use super::duplicate_indexes::duplicates;
use crate::index_upkeep::{dropping, saved_by_dropping};
use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, Index, Look, Remedy};

const WEEK: f64 = 7.0 * 86_400.0;

pub(super) const REMEDY: Remedy = Remedy {
    id: "unused-indexes",
    title: "drop indexes that are never scanned",
    audience: Audience::Schema,
    documentation:
        "https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ALL-INDEXES-VIEW",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let duplicates = duplicates(&look.indexes);
    let unused = |table: i64| -> Vec<&Index> {
        let of_table = look.indexes.iter().filter(|index| index.table == table && index.scans_ever == 0.0);
        of_table
            .filter(|index| !index.enforces && !index.serves_foreign_key)
            .filter(|index| duplicates.iter().all(|(spare, _)| spare.oid != index.oid))
            .collect()
    };
    let found = look.tables.iter().filter(|table| table.inserted + table.updated > 0.0).map(|table| {
        let indexes = unused(table.oid);
        (saved_by_dropping(look, table, &indexes), table, indexes)
    });
    let (saved, table, indexes) = found.max_by(|(a, ..), (b, ..)| a.active.total_cmp(&b.active))?;
    if indexes.is_empty() {
        return None;
    }
    let since = look.database.stats_seconds;
    let days = if since < WEEK { "too short to drop any: wait for a week" } else { "see the risk" };
    let transactions = look.database.commits;
    let advice = Advice {
        finding: format!(
            "{} indexes of {} were not scanned in {} of statistics ({days})",
            indexes.len(),
            table.sql_name(),
            age(since)
        ),
        evidence: vec![
            Evidence::new("indexes never scanned", indexes.len() as f64, "", indexes.len() as u64),
            Evidence::new("their size", indexes.iter().map(|one| one.bytes).sum::<f64>() / 1e6, "MB", 1),
            Evidence::new(
                "updates that were HOT (touched no index)",
                ratio(table.hot_updated, table.updated) * 100.0,
                "%",
                table.updated as u64,
            ),
            Evidence::new(
                "log a transaction",
                ratio(look.wal.wal_bytes, transactions),
                "bytes",
                transactions as u64,
            ),
        ],
        prediction: saved
            .prediction(format!("{} fewer indexes to maintain at each write that is not HOT", indexes.len())),
        risk: if look.server.standbys > 0 {
            "scans on standbys are not counted here: look there, too; undoing builds the indexes again".into()
        } else {
            "a rare job (end of month) may need one; undoing builds the indexes again".into()
        },
        ..Advice::default()
    };
    Some(advice.with_changes(indexes.iter().map(|index| dropping(index)).collect()))
}

fn age(seconds: f64) -> String {
    match seconds {
        0.0..120.0 => format!("{seconds:.0} s"),
        120.0..7200.0 => format!("{:.0} min", seconds / 60.0),
        7200.0..172_800.0 => format!("{:.0} h", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Statement, Table};

    fn index(oid: i64, name: &str) -> Index {
        let definition = format!("CREATE INDEX {name} ON public.t USING btree (a)");
        let (schema, columns) = ("public".into(), vec![name.into()]);
        Index { oid, table: 3, schema, name: name.into(), columns, definition, ..Index::default() }
    }

    fn look() -> Look {
        let table =
            Table { oid: 3, schema: "public".into(), name: "t".into(), updated: 50.0, ..Table::default() };
        let update = Statement { text: "UPDATE t SET a = 1".into(), share: 1.0, ..Statement::default() };
        let unique = Index { enforces: true, ..index(4, "unique_key") };
        let foreign = Index { serves_foreign_key: true, ..index(5, "foreign_key") };
        let used = Index { scans_ever: 7.0, ..index(6, "used") };
        let indexes = vec![unique, foreign, used, index(7, "spare")];
        Look { tables: vec![table], indexes, statements: vec![update], ..Look::default() }
    }

    #[test]
    fn innocent_indexes_are_kept() {
        let advice = examine(&look()).unwrap();
        assert_eq!(advice.apply, ["DROP INDEX CONCURRENTLY public.spare;"]);
        assert_eq!(advice.undo, ["CREATE INDEX CONCURRENTLY spare ON public.t USING btree (a);"]);
        assert!(advice.finding.contains("too short to drop"), "{}", advice.finding);
        let mut kept = look();
        kept.indexes.pop();
        assert_eq!(examine(&kept), None);
    }
}
