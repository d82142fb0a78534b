//! Indexes that are the same as another one of their table.
//!
//! Rule: two indexes of a table agree in columns, method, operator classes, order, expressions and predicate,
//! and one of them enforces nothing. An index on a prefix of another's columns is not a duplicate: it is
//! smaller, and may be used on purpose.

use crate::index_upkeep::{dropping, saved_by_dropping, Saved};
use crate::{Advice, Audience, Evidence, Index, Look, Prediction, Remedy};

/// Redundant indexes, each with the one that replaces it.
pub(super) fn duplicates(indexes: &[Index]) -> Vec<(&Index, &Index)> {
    let same = |a: &Index, b: &Index| a.table == b.table && a.columns == b.columns && a.shape == b.shape;
    // Of equal indexes, the one that enforces something is kept, otherwise the one scanned most, otherwise
    // the first.
    let worth = |index: &Index| (index.enforces, index.scans_ever as u64, -index.oid);
    let kept =
        |index: &Index| indexes.iter().filter(|other| same(index, other)).max_by_key(|other| worth(other));
    let spare = |index: &&Index| !index.enforces;
    let pairs = indexes.iter().filter(spare).filter_map(|index| Some((index, kept(index)?)));
    pairs.filter(|(index, kept)| kept.oid != index.oid).collect()
}

pub(super) const REMEDY: Remedy = Remedy {
    id: "duplicate-indexes",
    title: "drop indexes that are the same as another",
    audience: Audience::Schema,
    documentation: "https://www.postgresql.org/docs/current/sql-dropindex.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let found = duplicates(&look.indexes);
    let (spare, kept) = *found.first()?;
    let saved = look
        .tables
        .iter()
        .map(|table| {
            let spare: Vec<&Index> =
                found.iter().map(|(spare, _)| *spare).filter(|spare| spare.table == table.oid).collect();
            saved_by_dropping(look, table, &spare)
        })
        .fold(Saved::default(), |sum, one| sum + one);
    let bytes: f64 = found.iter().map(|(spare, _)| spare.bytes).sum();
    let effect = format!("{:.0} MB and the maintenance of {} indexes", bytes / 1e6, found.len());
    let prediction = match saved.active > 0.0 {
        true => saved.prediction(effect),
        false => Prediction::unknown(effect, "their tables were not written to during the look: space only"),
    };
    let advice = Advice {
        finding: format!(
            "{} indexes duplicate another one: {} is the same as {}",
            found.len(),
            spare.sql_name(),
            kept.sql_name()
        ),
        evidence: vec![
            Evidence::new("duplicates", found.len() as f64, "", look.indexes.len() as u64),
            Evidence::new("their size", bytes / 1e6, "MB", found.len() as u64),
        ],
        prediction,
        risk: "statements that name the index in a hint lose it".into(),
        ..Advice::default()
    }
    .with_changes(found.iter().map(|(spare, _)| dropping(spare)).collect());
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(oid: i64, columns: &[&str], enforces: bool) -> Index {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Index {
            oid,
            table: 1,
            name: format!("i{oid}"),
            schema: "s".into(),
            columns,
            enforces,
            ..Index::default()
        }
    }

    #[test]
    fn of_equal_indexes_one_stays() {
        let mut other_shape = index(5, &["a"], false);
        other_shape.shape = "hash".into();
        let indexes = vec![
            index(1, &["a"], false),
            index(2, &["a"], true),
            index(3, &["a"], false),
            index(4, &["a", "b"], false),
            other_shape,
        ];
        let spare: Vec<i64> = duplicates(&indexes).iter().map(|(spare, _)| spare.oid).collect();
        assert_eq!(spare, [1, 3]);
        // The one that is scanned is kept.
        let scanned = Index { scans_ever: 9.0, ..index(8, &["c"], false) };
        let others = [index(7, &["c"], false), scanned, index(9, &["c"], false)];
        let pairs: Vec<(i64, i64)> =
            duplicates(&others).iter().map(|(spare, kept)| (spare.oid, kept.oid)).collect();
        assert_eq!(pairs, [(7, 8), (9, 8)]);
        let look = Look { indexes, ..Look::default() };
        let advice = examine(&look).unwrap();
        assert_eq!(advice.apply, ["DROP INDEX CONCURRENTLY s.i1;", "DROP INDEX CONCURRENTLY s.i3;"]);
        assert_eq!(advice.prediction.gain, None);
    }
}
