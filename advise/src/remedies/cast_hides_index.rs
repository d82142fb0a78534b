//! A cast of the column keeps a statement from using an index.
//!
//! Rule: a statement with 5 % of the time or more reads a table of 10,000 rows or more from beginning to end
//! and keeps those where a cast column equals a value, as in `(id)::numeric = 5.0`; an index begins with that
//! column; and the table's counters show whole scans. The cast comes from the type of a parameter, which
//! drivers choose.

use crate::look::views::quoted;
use crate::replaced_scan::{large_scans, ReplacedScan};
use crate::{
    Advice, Audience, Change, ChangeKind, Index, Look, Prediction, Remedy, SeqScan, Statement, Table,
};

/// A scan, and the index that it would use without the cast.
struct Hidden<'a> {
    scan: ReplacedScan<'a>,
    index: &'a Index,
    column: String,
    cast: String,
}

pub(super) const REMEDY: Remedy = Remedy {
    id: "cast-hides-index",
    title: "compare a column with a value of its own type",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/typeconv-oper.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let found = large_scans(look).filter_map(|found| hidden(look, found));
    let best = found.max_by(|a, b| a.scan.gain().total_cmp(&b.scan.gain()))?;
    let of = best.scan.table;
    let (table, column) = (of.sql_name(), quoted(&best.column));
    let advice = Advice {
        finding: format!(
            "{table}.{column} is cast to {} in {}, so that {} is not used",
            best.cast,
            best.scan.statement.short(),
            best.index.name
        ),
        evidence: best.scan.evidence().into(),
        prediction: Prediction::gain(
            best.scan.gain(),
            best.scan.effect(),
            "planner costs: this scan's cost against random_page_cost x 3, as a part of the statement",
        ),
        apply: vec![format!(
            "-- better, in the application: send the value as the column's type, not as {}; no index is needed then",
            best.cast
        )],
        risk: "each write to the table maintains one more index, where the index is chosen".into(),
        ..Advice::default()
    };
    let schema = of.schema.clone();
    let cast: String = best.cast.chars().filter(char::is_ascii_alphanumeric).collect();
    let name = look.free_index_name(of, &format!("{}_{cast}", best.column));
    let definition = format!("CREATE INDEX {} ON {table} ((({column})::{}))", quoted(&name), best.cast);
    Some(advice.with_changes(vec![Change::at_once(ChangeKind::CreateIndex { schema, name, definition })]))
}

fn hidden<'a>(look: &'a Look, found: (&SeqScan, &'a Statement, &'a Table)) -> Option<Hidden<'a>> {
    let (scan, _, table) = found;
    scan.cast_columns().into_iter().find_map(|(column, cast)| {
        let begins = |index: &&Index| index.table == table.oid && index.columns.first() == Some(&column);
        let index = look.indexes.iter().find(begins)?;
        Some(Hidden { scan: ReplacedScan::new(look, found, 1.0), index, column, cast })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    fn look(filter: &str, indexed: &str) -> Look {
        let scan = SeqScan {
            schema: "public".into(),
            table: "ox".into(),
            filter: filter.into(),
            cost: 1000.0,
            rows: 1000.0,
        };
        let plan = Plan { cost: 1000.0, seq_scans: vec![scan], ..Plan::default() };
        let table = Table {
            oid: 16,
            schema: "public".into(),
            name: "ox".into(),
            live: 2e5,
            seq_scan: 10.0,
            seq_tup_read: 2e6,
            ..Table::default()
        };
        let index =
            Index { table: 16, name: "ox_pkey".into(), columns: vec![indexed.into()], ..Index::default() };
        Look {
            statements: vec![Statement { share: 0.5, plan: Some(plan), ..Statement::default() }],
            tables: vec![table],
            indexes: vec![index],
            ..Look::default()
        }
    }

    #[test]
    fn the_column_and_its_index_are_named() {
        let advice = examine(&look("((ox.id)::numeric = '5'::numeric)", "id")).unwrap();
        // 4 x (2 + 1) = 12 of 1,000 remain: 0.5 x 0.988.
        assert!((advice.prediction.gain.unwrap() - 0.494).abs() < 1e-9);
        assert!(advice.finding.starts_with("public.ox.id is cast to numeric"), "{}", advice.finding);
        assert_eq!(
            advice.apply[0],
            "CREATE INDEX CONCURRENTLY ox_id_numeric_idx ON public.ox (((id)::numeric));"
        );
    }

    #[test]
    fn without_a_cast_or_an_index_there_is_none() {
        assert_eq!(examine(&look("(ox.id = 5)", "id")), None);
        assert_eq!(examine(&look("((ox.id)::numeric = '5'::numeric)", "other")), None);
        let mut small = look("((ox.id)::numeric = '5'::numeric)", "id");
        small.tables[0].live = 500.0;
        assert_eq!(examine(&small), None);
    }
}
