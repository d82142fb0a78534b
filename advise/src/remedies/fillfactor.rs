//! Updates find no space on their page, so each of them maintains all indexes.
//!
//! Rule: a table has 100 updates a second or more, fewer than half of them HOT, though the statements that
//! update it set no column that an index has; its fill factor is above 90, and no idle transaction keeps old
//! rows on the pages. Updates of an indexed column cannot be HOT, independent of space.

use super::idle_in_transaction::holds_back;
use crate::index_upkeep::{mentions, saved_by_dropping};
use crate::look::shares::ratio;
use crate::{Advice, Audience, Change, ChangeKind, Evidence, Index, Look, Remedy, Table};

const LEAST_UPDATES: f64 = 100.0;
const MOST_HOT: f64 = 0.5;

pub(super) const REMEDY: Remedy = Remedy {
    id: "fillfactor",
    title: "leave room on pages for updates",
    audience: Audience::Schema,
    documentation: "https://www.postgresql.org/docs/current/storage-hot.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    if look.idle_transactions.iter().any(holds_back) {
        return None;
    }
    let candidates = look.tables.iter().filter(|table| is_short_of_room(look, table));
    let gains = candidates.map(|table| {
        let indexes: Vec<&Index> = indexes(look, table).collect();
        (saved_by_dropping(look, table, &indexes), table)
    });
    let (saved, table) = gains.max_by(|(a, _), (b, _)| a.active.total_cmp(&b.active))?;
    let hot = ratio(table.hot_updated, table.updated);
    let count = indexes(look, table).count();
    let advice = Advice {
        finding: format!(
            "{:.0} % of {:.0} updates a second of {} maintain {count} indexes, though no indexed column changes",
            (1.0 - hot) * 100.0,
            ratio(table.updated, look.seconds),
            table.sql_name()
        ),
        evidence: vec![
            Evidence::new("updates a second", ratio(table.updated, look.seconds), "1/s", table.updated as u64),
            Evidence::new("of them HOT (touched no index)", hot * 100.0, "%", table.updated as u64),
            Evidence::new("indexes of the table", count as f64, "", 1),
        ],
        prediction: saved.prediction("updates that touch the table alone, once all of its pages have room"),
        apply: vec![format!(
            "-- holds for pages that are filled from now on; all others: VACUUM FULL {}; (locks the table), or pg_repack",
            table.sql_name()
        )],
        risk: "the table becomes a fifth larger, and reading all of it takes as much longer".into(),
        ..Advice::default()
    };
    let change = ChangeKind::TableOption {
        schema: table.schema.clone(),
        table: table.name.clone(),
        name: "fillfactor".into(),
        value: "85".into(),
        before: table.option("fillfactor").map(str::to_owned),
    };
    Some(advice.with_changes(vec![Change::at_once(change)]))
}

fn indexes<'a>(look: &'a Look, table: &'a Table) -> impl Iterator<Item = &'a Index> {
    look.indexes.iter().filter(|index| index.table == table.oid)
}

/// True if the table's updates could be HOT but are not, for lack of space.
fn is_short_of_room(look: &Look, table: &Table) -> bool {
    let fillfactor = table.option("fillfactor").and_then(|value| value.parse().ok()).unwrap_or(100.0);
    let often = ratio(table.updated, look.seconds) >= LEAST_UPDATES;
    if !often || fillfactor <= 90.0 || ratio(table.hot_updated, table.updated) >= MOST_HOT {
        return false;
    }
    let updates: Vec<Vec<String>> =
        look.statements.iter().filter_map(|one| columns_set(&one.text, table)).collect();
    let sets = |column: &str| updates.iter().flatten().any(|set| set == column);
    // An index on an expression may read any column.
    let touches = |index: &Index| index.columns.iter().any(|column| column.is_empty() || sets(column));
    !updates.is_empty() && !indexes(look, table).any(touches)
}

/// The columns that an UPDATE of this table sets; `None` for other statements.
fn columns_set(text: &str, table: &Table) -> Option<Vec<String>> {
    let text = text.trim_start().to_lowercase();
    let (target, rest) = text.strip_prefix("update")?.split_once(" set ")?;
    if !mentions(target, &table.name) {
        return None;
    }
    // The word before each `=` at the top level; conditions after WHERE only add columns, which is the safe
    // side.
    let names = rest.split('=').filter_map(|before| {
        let name = before
            .trim_end()
            .trim_end_matches(')')
            .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
            .next()?;
        (!name.is_empty()).then(|| name.to_owned())
    });
    let list = rest.split(" where ").next().unwrap_or(rest);
    let in_list = list.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned);
    let in_list: Vec<String> = in_list.filter(|name| !name.is_empty()).collect();
    let set: Vec<String> = names.filter(|name| in_list.contains(name)).collect();
    // A list such as (a, b) = (1, 2): all its words count.
    Some(if list.trim_start().starts_with('(') { in_list } else { set })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statement;

    fn look(hot_updated: f64, indexed: &str) -> Look {
        let table = Table {
            oid: 3,
            schema: "public".into(),
            name: "t".into(),
            updated: 5000.0,
            hot_updated,
            ..Table::default()
        };
        let update = Statement {
            text: "UPDATE t SET note = $1, n = n + $2 WHERE id = $3".into(),
            share: 1.0,
            ..Statement::default()
        };
        let index = |column: &str| Index { table: 3, columns: vec![column.into()], ..Index::default() };
        Look {
            seconds: 10.0,
            tables: vec![table],
            statements: vec![update],
            indexes: vec![index("id"), index(indexed)],
            ..Look::default()
        }
    }

    #[test]
    fn updates_without_room_are_named() {
        let advice = examine(&look(0.0, "place")).unwrap();
        // Two indexes of 3.7 %: 0.074 of 1.074.
        assert!((advice.prediction.gain.unwrap() - 0.0689).abs() < 1e-4);
        assert_eq!(advice.apply[0], "ALTER TABLE public.t SET (fillfactor = 85);");
        assert_eq!(advice.undo[0], "ALTER TABLE public.t RESET (fillfactor);");
    }

    #[test]
    fn updates_of_indexed_columns_and_hot_ones_are_none() {
        assert_eq!(examine(&look(0.0, "n")), None);
        assert_eq!(examine(&look(0.0, "")), None, "an expression may read any column");
        assert_eq!(examine(&look(4000.0, "place")), None);
        let mut loose = look(0.0, "place");
        loose.tables[0].options = vec!["fillfactor=80".into()];
        assert_eq!(examine(&loose), None);
    }

    #[test]
    fn the_columns_of_an_update_are_read() {
        let table = Table { name: "t".into(), ..Table::default() };
        let set = |text: &str| columns_set(text, &table);
        assert_eq!(set("UPDATE t SET a = $1, b = b + $2 WHERE id = $3").unwrap(), ["a", "b"]);
        assert_eq!(set("UPDATE public.t x SET a = $1 WHERE a = $2").unwrap(), ["a", "a"]);
        assert_eq!(set("UPDATE t SET (a, b) = ($1, $2) WHERE id = $3").unwrap()[..2], ["a", "b"]);
        assert_eq!(set("UPDATE other SET a = t.b"), None);
    }
}
