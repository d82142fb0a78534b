//! The server's cumulative views: read twice, and subtracted.

use super::ask::ask;
use crate::AdviseError;
use hardmeter_session::Session;
use serde::{Deserialize, Serialize};

/// Counts of the database during the look, and its properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the view's names
pub struct Database {
    pub commits: f64,
    pub rollbacks: f64,
    pub blks_read: f64,
    pub blks_hit: f64,
    pub temp_files: f64,
    pub temp_bytes: f64,
    /// The size of the database.
    pub bytes: f64,
    /// The time since which statistics are counted.
    pub stats_seconds: f64,
    /// Commits of all other databases.
    pub elsewhere: f64,
}

/// A table: counts during the look, and its state at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the view's names
pub struct Table {
    pub oid: i64,
    pub schema: String,
    pub name: String,
    pub bytes: f64,
    pub live: f64,
    pub dead: f64,
    /// Rows changed since the last ANALYZE.
    pub changed: f64,
    /// It has never been analyzed.
    pub never_analyzed: bool,
    pub seq_scan: f64,
    pub seq_tup_read: f64,
    pub idx_scan: f64,
    pub inserted: f64,
    pub updated: f64,
    pub deleted: f64,
    pub hot_updated: f64,
    /// Its storage parameters, "name=value".
    pub options: Vec<String>,
}

impl Table {
    /// Its name with its schema, quoted if SQL needs it.
    pub fn sql_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }

    /// The value of a storage parameter, if it is set.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Rows written during the look.
    pub fn written(&self) -> f64 {
        self.inserted + self.updated + self.deleted
    }
}

/// An index: scans during the look, and its properties.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Index {
    pub oid: i64,
    pub table: i64,
    pub schema: String,
    pub name: String,
    pub bytes: f64,
    /// Scans since statistics are counted.
    pub scans_ever: f64,
    /// It enforces a property that other indexes cannot: primary key, unique, exclusion, replica identity.
    pub enforces: bool,
    /// A foreign key of the table begins with its first column.
    pub serves_foreign_key: bool,
    /// Its columns' names, in order; empty names are expressions.
    pub columns: Vec<String>,
    /// The properties, besides columns, in which two equal indexes agree: method, operator classes,
    /// expressions, predicate.
    pub shape: String,
    /// The command that creates it.
    pub definition: String,
}

impl Index {
    /// Its name with its schema, quoted if SQL needs it.
    pub fn sql_name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.name))
    }
}

/// Write-ahead log written during the look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wal {
    /// Bytes of it.
    pub wal_bytes: f64,
    /// Images of whole pages in it.
    pub wal_fpi: f64,
    /// Checkpoints that were requested: by a full log, or by a user.
    pub checkpoints_requested: f64,
    /// Syncs.
    pub wal_sync: f64,
    /// Their time in milliseconds; 0 while track_wal_io_timing is off.
    pub wal_sync_time: f64,
}

impl Wal {
    /// Bytes of it that were written to the device, at least: a sync writes a page of 4 kB or more.
    pub(super) fn least_written(&self) -> f64 {
        self.wal_bytes.max(self.wal_sync * 4096.0)
    }
}

/// The views that are read at each end of a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    pub(super) database: Database,
    pub(super) tables: Vec<Table>,
    pub(super) wal: Wal,
}

impl Snapshot {
    /// Reads the present views.
    pub(super) fn read(session: &mut Session, version: u32) -> Result<Snapshot, AdviseError> {
        const DATABASE: &str = "SELECT xact_commit AS commits, xact_rollback AS rollbacks, blks_read, blks_hit, \
            temp_files, temp_bytes, pg_database_size(datid) AS bytes, \
            extract(epoch FROM now() - coalesce(stats_reset, pg_postmaster_start_time()))::float8 AS stats_seconds, \
            (SELECT coalesce(sum(xact_commit), 0) FROM pg_catalog.pg_stat_database o WHERE o.datid <> d.datid) AS elsewhere \
            FROM pg_catalog.pg_stat_database d WHERE datname = current_database()";
        // A crash of the server, and pg_stat_reset(), lose the number of rows; pg_class keeps that of the last ANALYZE.
        const TABLES: &str = "SELECT relid::bigint AS oid, schemaname AS schema, relname AS name, \
            pg_table_size(relid) AS bytes, \
            CASE n_live_tup WHEN 0 THEN (SELECT greatest(c.reltuples, 0) FROM pg_catalog.pg_class c WHERE c.oid = relid) \
            ELSE n_live_tup END AS live, n_dead_tup AS dead, n_mod_since_analyze AS changed, \
            n_live_tup > 0 AND last_analyze IS NULL AND last_autoanalyze IS NULL AS never_analyzed, seq_scan, seq_tup_read, \
            coalesce(idx_scan, 0) AS idx_scan, n_tup_ins AS inserted, n_tup_upd AS updated, n_tup_del AS deleted, \
            n_tup_hot_upd AS hot_updated, \
            (SELECT coalesce(to_json(c.reloptions), '[]') FROM pg_catalog.pg_class c WHERE c.oid = relid) AS options \
            FROM pg_catalog.pg_stat_user_tables \
            ORDER BY seq_tup_read + n_tup_ins + n_tup_upd + n_tup_del DESC LIMIT 2000";
        // Version 17 moved checkpoints to a separate view, version 18 the syncs of the log to pg_stat_io.
        let checkpoints = match version >= 170_000 {
            true => "(SELECT num_requested FROM pg_catalog.pg_stat_checkpointer)",
            false => "(SELECT checkpoints_req FROM pg_catalog.pg_stat_bgwriter)",
        };
        let syncs = match version >= 180_000 {
            true => {
                "(SELECT sum(fsyncs) FROM pg_catalog.pg_stat_io WHERE object = 'wal') AS wal_sync, \
                 (SELECT sum(fsync_time) FROM pg_catalog.pg_stat_io WHERE object = 'wal') AS wal_sync_time"
            }
            false => "wal_sync, wal_sync_time",
        };
        let wal = format!(
            "SELECT wal_bytes, wal_fpi, {checkpoints} AS checkpoints_requested, {syncs} FROM pg_catalog.pg_stat_wal"
        );
        Ok(Snapshot {
            database: first(ask(session, "reading pg_stat_database", DATABASE)?),
            tables: ask(session, "reading pg_stat_user_tables", TABLES)?,
            wal: first(ask(session, "reading pg_stat_wal", &wal)?),
        })
    }

    /// The change since an earlier snapshot; states are the present ones.
    pub(super) fn since(self, earlier: &Snapshot) -> Snapshot {
        let mut now = self;
        let (database, before) = (&mut now.database, &earlier.database);
        for (count, before) in [
            (&mut database.commits, before.commits),
            (&mut database.rollbacks, before.rollbacks),
            (&mut database.blks_read, before.blks_read),
            (&mut database.blks_hit, before.blks_hit),
            (&mut database.temp_files, before.temp_files),
            (&mut database.temp_bytes, before.temp_bytes),
            (&mut database.elsewhere, before.elsewhere),
        ] {
            *count = grown(*count, before);
        }
        for table in &mut now.tables {
            let Some(before) = earlier.tables.iter().find(|before| before.oid == table.oid) else { continue };
            for (count, before) in [
                (&mut table.seq_scan, before.seq_scan),
                (&mut table.seq_tup_read, before.seq_tup_read),
                (&mut table.idx_scan, before.idx_scan),
                (&mut table.inserted, before.inserted),
                (&mut table.updated, before.updated),
                (&mut table.deleted, before.deleted),
                (&mut table.hot_updated, before.hot_updated),
            ] {
                *count = grown(*count, before);
            }
        }
        let (wal, before) = (&mut now.wal, &earlier.wal);
        for (count, before) in [
            (&mut wal.wal_bytes, before.wal_bytes),
            (&mut wal.wal_fpi, before.wal_fpi),
            (&mut wal.checkpoints_requested, before.checkpoints_requested),
            (&mut wal.wal_sync, before.wal_sync),
            (&mut wal.wal_sync_time, before.wal_sync_time),
        ] {
            *count = grown(*count, before);
        }
        now
    }
}

/// The increase of a counter. A counter that decreased was reset in between.
fn grown(now: f64, before: f64) -> f64 {
    if now >= before {
        now - before
    } else {
        now
    }
}

/// The indexes of the database.
pub(super) fn indexes(session: &mut Session) -> Result<Vec<Index>, AdviseError> {
    const SQL: &str = "SELECT i.indexrelid::bigint AS oid, i.indrelid::bigint AS table, n.nspname AS schema, \
        c.relname AS name, pg_relation_size(c.oid) AS bytes, coalesce(s.idx_scan, 0) AS scans_ever, \
        i.indisprimary OR i.indisunique OR i.indisexclusion OR i.indisreplident OR i.indisclustered AS enforces, \
        EXISTS (SELECT FROM pg_catalog.pg_constraint f WHERE f.contype = 'f' AND f.conrelid = i.indrelid \
                AND f.conkey[1] = i.indkey[0]) AS serves_foreign_key, \
        (SELECT json_agg(coalesce(a.attname, '') ORDER BY k.at) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(key, at) \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.key AND k.key > 0) AS columns, \
        concat_ws('|', m.amname, i.indclass, i.indoption, i.indcollation, i.indnatts, i.indnkeyatts, \
                  pg_get_expr(i.indexprs, i.indrelid), '?', pg_get_expr(i.indpred, i.indrelid)) AS shape, \
        pg_get_indexdef(c.oid) AS definition \
        FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_am m ON m.oid = c.relam \
        LEFT JOIN pg_catalog.pg_stat_user_indexes s ON s.indexrelid = c.oid \
        WHERE n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema') AND i.indisvalid AND c.relkind = 'i' \
        ORDER BY c.oid";
    ask(session, "reading pg_index", SQL)
}

fn first<T: Default>(rows: Vec<T>) -> T {
    rows.into_iter().next().unwrap_or_default()
}

/// A name in SQL: quoted unless it is plain.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_subtracted_and_states_are_not() {
        let table = |seq_scan, live| Table { oid: 5, seq_scan, live, ..Table::default() };
        let snapshot = |commits, table| Snapshot {
            database: Database { commits, bytes: 100.0, ..Database::default() },
            tables: vec![table],
            wal: Wal { wal_sync: commits, ..Wal::default() },
        };
        let during = snapshot(70.0, table(9.0, 50.0)).since(&snapshot(30.0, table(4.0, 20.0)));
        assert_eq!(
            (during.database.commits, during.database.bytes, during.wal.wal_sync),
            (40.0, 100.0, 40.0)
        );
        assert_eq!((during.tables[0].seq_scan, during.tables[0].live), (5.0, 50.0));
        // Reset during the look: counts since the reset.
        let reset = snapshot(10.0, table(1.0, 50.0)).since(&snapshot(30.0, table(4.0, 20.0)));
        assert_eq!((reset.database.commits, reset.tables[0].seq_scan), (10.0, 1.0));
    }

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        assert_eq!(quoted("orders_2"), "orders_2");
        assert_eq!(quoted("Orders"), "\"Orders\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
