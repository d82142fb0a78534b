//! An index is missing.
//!
//! Rule: a statement with 5 % of the time or more reads a table of 10,000 rows or more from beginning to end
//! to keep at most 1 % of it by `column = value`, no index begins with such a column, and the table's
//! counters show whole scans. Small tables, and tables of which many rows are kept, are read whole on
//! purpose.

use crate::look::shares::ratio;
use crate::look::views::quoted;
use crate::replaced_scan::{large_scans, ReplacedScan};
use crate::{
    Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy, SeqScan, Statement, Table,
};

const MOST_KEPT: f64 = 0.01;

pub(super) const REMEDY: Remedy = Remedy {
    id: "missing-index",
    title: "create an index",
    audience: Audience::Schema,
    documentation: "https://www.postgresql.org/docs/current/indexes.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let candidates: Vec<_> = large_scans(look).filter_map(|found| candidate(look, found)).collect();
    let (best, of) = candidates.iter().max_by(|(a, _), (b, _)| a.gain().total_cmp(&b.gain()))?;
    // One index may serve several statements.
    let served =
        candidates.iter().filter(|(scan, columns)| scan.table.oid == best.table.oid && columns == of);
    let total: f64 = served.map(|(scan, _)| scan.gain()).sum();
    let table = best.table.sql_name();
    let columns: Vec<String> = of.iter().map(|column| quoted(column)).collect();
    let name = look.free_index_name(best.table, &of.join("_"));
    let written = ratio(best.table.written(), look.seconds);
    let written = Evidence::new("rows written to the table", written, "rows/s", 1);
    let advice = Advice {
        finding: format!(
            "{:.0} rows of {} are read for each scan by {}",
            best.rows_per_scan(),
            table,
            best.statement.short()
        ),
        evidence: best.evidence().into_iter().chain([written]).collect(),
        prediction: Prediction::gain(
            total,
            best.effect(),
            "planner costs: this scan's cost against random_page_cost x (2 + rows kept), as a part of the statement",
        ),
        risk: format!(
            "each INSERT, and each UPDATE that is not HOT, maintains one more index; building it reads all of {:.0} MB",
            best.table.bytes / 1e6
        ),
        ..Advice::default()
    };
    let definition = format!("CREATE INDEX {} ON {table} ({})", quoted(&name), columns.join(", "));
    let schema = best.table.schema.clone();
    let change = Change::at_once(ChangeKind::CreateIndex { schema, name, definition });
    Some(advice.with_changes(vec![change]))
}

/// A scan that keeps few rows, and the columns of the index that would replace it.
fn candidate<'a>(
    look: &Look,
    found: (&SeqScan, &'a Statement, &'a Table),
) -> Option<(ReplacedScan<'a>, Vec<String>)> {
    let (scan, _, table) = found;
    let mut columns = scan.equal_columns();
    columns.truncate(3);
    let served = look.indexes.iter().filter(|index| index.table == table.oid);
    let is_served = served.filter_map(|index| index.columns.first()).any(|first| columns.contains(first));
    let keeps_few = scan.rows <= table.live * MOST_KEPT;
    (!columns.is_empty() && !is_served && keeps_few)
        .then(|| (ReplacedScan::new(look, found, scan.rows), columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Index, Plan};

    fn look() -> Look {
        let scan = SeqScan {
            schema: "public".into(),
            table: "ox".into(),
            filter: "(ox.cust = 5)".into(),
            cost: 5000.0,
            rows: 3.0,
        };
        let plan = Plan { cost: 5000.0, rows: 3.0, seq_scans: vec![scan], ..Plan::default() };
        let statement = Statement { share: 0.8, plan: Some(plan), ..Statement::default() };
        let table = Table {
            oid: 16,
            schema: "public".into(),
            name: "ox".into(),
            live: 2e5,
            seq_scan: 10.0,
            seq_tup_read: 2e6,
            ..Table::default()
        };
        Look { statements: vec![statement], tables: vec![table], ..Look::default() }
    }

    #[test]
    fn the_index_is_named_and_its_gain_computed() {
        let advice = examine(&look()).unwrap();
        assert_eq!(advice.apply, ["CREATE INDEX CONCURRENTLY ox_cust_idx ON public.ox (cust);"]);
        assert_eq!(advice.undo, ["DROP INDEX CONCURRENTLY public.ox_cust_idx;"]);
        // 4 x (2 + 3) = 20 of 5,000 remain: 0.8 x 0.996.
        assert!((advice.prediction.gain.unwrap() - 0.7968).abs() < 1e-9);
    }

    #[test]
    fn small_tables_and_served_columns_need_none() {
        let mut small = look();
        small.tables[0].live = 900.0;
        assert_eq!(examine(&small), None);
        let mut served = look();
        served.indexes.push(Index { table: 16, columns: vec!["cust".into()], ..Index::default() });
        assert_eq!(examine(&served), None);
        let mut whole = look();
        whole.statements[0].plan.as_mut().unwrap().seq_scans[0].rows = 1e5;
        assert_eq!(examine(&whole), None);
    }
}
