//! An index is missing.
//!
//! Rule: a statement with 5 % of the time or more reads a table of 10,000 rows or more from beginning to end
//! to keep at most 1 % of it by `column = value`, no index begins with such a column, and the table's
//! counters show whole scans. Small tables, and tables of which many rows are kept, are read whole on
//! purpose.

use crate::look::plan::by_index;
use crate::look::shares::ratio;
use crate::look::views::quoted;
use crate::{
    Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy, SeqScan, Statement, Table,
};

const LEAST_SHARE: f64 = 0.05;
const LEAST_ROWS: f64 = 10_000.0;
const MOST_KEPT: f64 = 0.01;

pub(super) struct MissingIndex;

/// A scan that an index would replace.
struct Candidate<'a> {
    statement: &'a Statement,
    table: &'a Table,
    columns: Vec<String>,
    /// The remaining part of the statement's cost, 0 to 1.
    left: f64,
}

impl Remedy for MissingIndex {
    fn id(&self) -> &'static str {
        "missing-index"
    }

    fn title(&self) -> &'static str {
        "create an index"
    }

    fn audience(&self) -> Audience {
        Audience::Schema
    }

    fn documentation(&self) -> &'static str {
        "https://www.postgresql.org/docs/current/indexes.html"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        let candidates: Vec<Candidate> = look
            .statements_over(LEAST_SHARE)
            .flat_map(|statement| {
                let scans = statement.plan.iter().flat_map(|plan| &plan.seq_scans);
                scans.filter_map(|scan| candidate(look, statement, scan))
            })
            .collect();
        let gain = |one: &Candidate| one.statement.share * (1.0 - one.left);
        let best = candidates.iter().max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
        // One index may serve several statements.
        let served =
            candidates.iter().filter(|one| one.table.oid == best.table.oid && one.columns == best.columns);
        let total: f64 = served.map(gain).sum();
        let table = best.table.sql_name();
        let columns: Vec<String> = best.columns.iter().map(|column| quoted(column)).collect();
        let name = look.free_index_name(best.table, &best.columns.join("_"));
        let per_scan = ratio(best.table.seq_tup_read, best.table.seq_scan);
        let effect = match best.statement.ms_per_call() {
            Some(ms) => format!("{ms:.1} -> {:.2} ms a call", ms * best.left),
            None => format!("{:.0} % less of this statement's time", (1.0 - best.left) * 100.0),
        };
        let advice = Advice {
            finding: format!(
                "{:.0} rows of {} are read for each scan by {}",
                per_scan,
                table,
                best.statement.short()
            ),
            evidence: vec![
                Evidence::new("rows read a sequential scan", per_scan, "rows", best.table.seq_scan as u64),
                Evidence::new("the statement's part of the time", best.statement.share * 100.0, "%", observations(best)),
                Evidence::new("rows written to the table", ratio(best.table.written(), look.seconds), "rows/s", 1),
            ],
            prediction: Prediction::gain(
                total,
                effect,
                "planner costs: this scan's cost against random_page_cost x (2 + rows kept), as a part of the statement",
            ),
            apply: Vec::new(),
            undo: Vec::new(),
            changes: Vec::new(),
            risk: format!(
                "each INSERT, and each UPDATE that is not HOT, maintains one more index; building it reads all of {:.0} MB",
                best.table.bytes / 1e6
            ),
        };
        let definition = format!("CREATE INDEX {} ON {table} ({})", quoted(&name), columns.join(", "));
        let schema = best.table.schema.clone();
        let change = Change::at_once(ChangeKind::CreateIndex { schema, name, definition });
        Some(advice.with_changes(vec![change]))
    }
}

fn observations(candidate: &Candidate) -> u64 {
    candidate.statement.counts.as_ref().map_or(candidate.statement.samples, |counts| counts.calls as u64)
}

fn candidate<'a>(look: &'a Look, statement: &'a Statement, scan: &SeqScan) -> Option<Candidate<'a>> {
    let plan = statement.plan.as_ref()?;
    let table = look.table(&scan.schema, &scan.table)?;
    let mut columns = scan.equal_columns();
    columns.truncate(3);
    let served = look.indexes.iter().filter(|index| index.table == table.oid);
    let is_served = served.filter_map(|index| index.columns.first()).any(|first| columns.contains(first));
    let is_large = table.live >= LEAST_ROWS && table.seq_scan > 0.0;
    let reads_whole = ratio(table.seq_tup_read, table.seq_scan) >= LEAST_ROWS / 4.0; // parallel workers share a scan
    let keeps_few = scan.rows <= table.live * MOST_KEPT;
    if columns.is_empty() || is_served || !is_large || !reads_whole || !keeps_few {
        return None;
    }
    let cost = by_index(look.server.number("random_page_cost"), scan.rows);
    let spared = ratio(scan.cost - cost, plan.cost).clamp(0.0, 1.0);
    Some(Candidate { statement, table, columns, left: 1.0 - spared })
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
        let advice = MissingIndex.examine(&look()).unwrap();
        assert_eq!(advice.apply, ["CREATE INDEX CONCURRENTLY ox_cust_idx ON public.ox (cust);"]);
        assert_eq!(advice.undo, ["DROP INDEX CONCURRENTLY public.ox_cust_idx;"]);
        // 4 x (2 + 3) = 20 of 5,000 remain: 0.8 x 0.996.
        assert!((advice.prediction.gain.unwrap() - 0.7968).abs() < 1e-9);
    }

    #[test]
    fn small_tables_and_served_columns_need_none() {
        let mut small = look();
        small.tables[0].live = 900.0;
        assert_eq!(MissingIndex.examine(&small), None);
        let mut served = look();
        served.indexes.push(Index { table: 16, columns: vec!["cust".into()], ..Index::default() });
        assert_eq!(MissingIndex.examine(&served), None);
        let mut whole = look();
        whole.statements[0].plan.as_mut().unwrap().seq_scans[0].rows = 1e5;
        assert_eq!(MissingIndex.examine(&whole), None);
    }
}
