//! Indexes that no statement needs: duplicates, and those that no scan used.

use super::target::MariaSession;
use crate::AdviseError;
use serde::Serialize;

/// Two identical indexes of a table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)] // the names describe the fields
pub struct Duplicate {
    pub table: String,
    pub index: String,
    pub same_as: String,
    /// Its columns, as CREATE INDEX takes them.
    pub columns: String,
}

/// An index that no scan has used since statistics are counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Unused {
    pub table: String,
    pub index: String,
    pub columns: String,
}

/// An index as the catalog has it.
#[derive(Clone, Debug, Default)]
struct Found {
    table: String,
    index: String,
    unique: bool,
    kind: String,
    columns: String,
}

const INDEXES: &str = "SELECT TABLE_NAME, INDEX_NAME, MAX(NON_UNIQUE) = 0, MAX(INDEX_TYPE), \
    GROUP_CONCAT(CONCAT('`', COLUMN_NAME, '`', IFNULL(CONCAT('(', SUB_PART, ')'), ''), \
    IF(COLLATION = 'D', ' DESC', '')) ORDER BY SEQ_IN_INDEX SEPARATOR ', ') FROM information_schema.STATISTICS \
    WHERE TABLE_SCHEMA = DATABASE() GROUP BY TABLE_NAME, INDEX_NAME";
/// Columns that foreign keys need an index for, on both sides.
const OF_FOREIGN_KEYS: &str = "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE \
    WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL UNION \
    SELECT REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE \
    WHERE REFERENCED_TABLE_SCHEMA = DATABASE()";
const USED_BY_USERSTAT: &str =
    "SELECT TABLE_NAME, INDEX_NAME FROM information_schema.INDEX_STATISTICS WHERE TABLE_SCHEMA = DATABASE()";
const USED_BY_INSTRUMENTS: &str = "SELECT OBJECT_NAME, INDEX_NAME \
    FROM performance_schema.table_io_waits_summary_by_index_usage WHERE OBJECT_SCHEMA = DATABASE() \
    AND INDEX_NAME IS NOT NULL AND COUNT_FETCH > 0";

/// Duplicates; and unused indexes, where the server counts the use of indexes (`None`: it does not).
pub(super) fn indexes(
    session: &mut MariaSession,
    userstat: bool,
    instruments: bool,
) -> Result<(Vec<Duplicate>, Option<Vec<Unused>>), AdviseError> {
    let rows = session.rows("reading indexes", INDEXES)?;
    let all: Vec<Found> = rows.into_iter().filter_map(found).collect();
    let duplicates = duplicates(&all);
    if !userstat && !instruments {
        return Ok((duplicates, None));
    }
    let used = if userstat { USED_BY_USERSTAT } else { USED_BY_INSTRUMENTS };
    let pairs = |rows: Vec<Vec<Option<String>>>| -> Vec<(String, String)> {
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next()??))
        };
        rows.into_iter().filter_map(pair).collect()
    };
    let used = pairs(session.rows("reading which indexes are used", used)?);
    let keys = pairs(session.rows("reading foreign keys", OF_FOREIGN_KEYS)?);
    Ok((duplicates, Some(unused(&all, &used, &keys))))
}

fn found(row: Vec<Option<String>>) -> Option<Found> {
    let mut row = row.into_iter();
    Some(Found {
        table: row.next()??,
        index: row.next()??,
        unique: row.next()?? == "1",
        kind: row.next()??,
        columns: row.next()??,
    })
}

fn duplicates(all: &[Found]) -> Vec<Duplicate> {
    let same = |one: &Found, other: &Found| {
        one.table == other.table && one.kind == other.kind && one.columns == other.columns
    };
    let duplicate = |(at, one): (usize, &Found)| {
        // The unique index stays; of two equal ones the first.
        let first = all
            .iter()
            .enumerate()
            .find(|(place, other)| *place != at && same(one, other) && (other.unique || *place < at));
        let (_, other) = first.filter(|_| !one.unique)?;
        Some(Duplicate {
            table: one.table.clone(),
            index: one.index.clone(),
            same_as: other.index.clone(),
            columns: one.columns.clone(),
        })
    };
    all.iter().enumerate().filter_map(duplicate).collect()
}

fn unused(all: &[Found], used: &[(String, String)], keys: &[(String, String)]) -> Vec<Unused> {
    let is_used = |one: &Found| used.iter().any(|(table, index)| *table == one.table && *index == one.index);
    let of_key = |one: &Found| {
        keys.iter()
            .any(|(table, column)| *table == one.table && one.columns.starts_with(&format!("`{column}`")))
    };
    let candidates = all.iter().filter(|one| !one.unique && one.kind == "BTREE");
    let unused = candidates.filter(|one| !is_used(one) && !of_key(one));
    unused
        .map(|one| Unused {
            table: one.table.clone(),
            index: one.index.clone(),
            columns: one.columns.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_that_nothing_needs() {
        let index = |index: &str, unique, columns: &str| Found {
            table: "t".into(),
            index: index.into(),
            unique,
            kind: "BTREE".into(),
            columns: columns.into(),
        };
        let all = [
            index("a1", false, "`a`"),
            index("PRIMARY", true, "`id`"),
            index("a2", false, "`a`"),
            index("i", false, "`id`"),
            index("k", false, "`parent`"),
        ];
        let names: Vec<(String, String)> =
            duplicates(&all).into_iter().map(|one| (one.index, one.same_as)).collect();
        assert_eq!(names, [("a2".into(), "a1".into()), ("i".into(), "PRIMARY".into())]);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let found = unused(&all, &[pair("t", "a1")], &[pair("t", "parent")]);
        assert_eq!(found.iter().map(|one| one.index.as_str()).collect::<Vec<_>>(), ["a2", "i"]);
    }
}
