//! A cast of the column keeps a statement from using an index.
//!
//! Rule: a statement with 5 % of the time or more reads a table of 10,000 rows or more from beginning to end
//! and keeps those where a cast column equals a value, as in `(id)::numeric = 5.0`; an index begins with that
//! column; and the table's counters show whole scans. The cast comes from the type of a parameter, which
//! drivers choose.

use crate::look::plan::by_index;
use crate::look::shares::ratio;
use crate::look::views::quoted;
use crate::{
    Advice, Audience, Change, ChangeKind, Evidence, Index, Look, Prediction, Remedy, SeqScan, Statement,
    Table,
};

const LEAST_SHARE: f64 = 0.05;
const LEAST_ROWS: f64 = 10_000.0;

pub(super) struct CastHidesIndex;

/// A statement, and the index that it would use without the cast.
struct Hidden<'a> {
    statement: &'a Statement,
    table: &'a Table,
    index: &'a Index,
    column: String,
    cast: String,
    /// The remaining part of the statement's cost, 0 to 1.
    left: f64,
}

impl Remedy for CastHidesIndex {
    fn id(&self) -> &'static str {
        "cast-hides-index"
    }

    fn title(&self) -> &'static str {
        "compare a column with a value of its own type"
    }

    fn audience(&self) -> Audience {
        Audience::Application
    }

    fn documentation(&self) -> &'static str {
        "https://www.postgresql.org/docs/current/typeconv-oper.html"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        let gain = |one: &Hidden| one.statement.share * (1.0 - one.left);
        let found = look.statements_over(LEAST_SHARE).flat_map(|statement| {
            let scans = statement.plan.iter().flat_map(|plan| &plan.seq_scans);
            scans.filter_map(|scan| hidden(look, statement, scan))
        });
        let best = found.max_by(|a, b| gain(a).total_cmp(&gain(b)))?;
        let (table, column) = (best.table.sql_name(), quoted(&best.column));
        let effect = match best.statement.ms_per_call() {
            Some(ms) => format!("{ms:.1} -> {:.2} ms a call", ms * best.left),
            None => format!("-{:.0} % of this statement's time", (1.0 - best.left) * 100.0),
        };
        let advice = Advice {
            finding: format!(
                "{table}.{column} is cast to {} in {}, so that {} is not used",
                best.cast,
                best.statement.short(),
                best.index.name
            ),
            evidence: vec![
                Evidence::new(
                    "rows read a sequential scan",
                    ratio(best.table.seq_tup_read, best.table.seq_scan),
                    "rows",
                    best.table.seq_scan as u64,
                ),
                Evidence::new("the statement's part of the time", best.statement.share * 100.0, "%", 1),
            ],
            prediction: Prediction::gain(
                gain(&best),
                effect,
                "planner costs: this scan's cost against random_page_cost x 3, as a part of the statement",
            ),
            apply: vec![format!(
                "-- better, in the application: send the value as the column's type, not as {}; no index is needed then",
                best.cast
            )],
            undo: Vec::new(),
            changes: Vec::new(),
            risk: "each write to the table maintains one more index, where the index is chosen".into(),
        };
        let schema = best.table.schema.clone();
        let cast: String = best.cast.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = look.free_index_name(best.table, &format!("{}_{cast}", best.column));
        let definition = format!("CREATE INDEX {} ON {table} ((({column})::{}))", quoted(&name), best.cast);
        Some(advice.with_changes(vec![Change::at_once(ChangeKind::CreateIndex { schema, name, definition })]))
    }
}

fn hidden<'a>(look: &'a Look, statement: &'a Statement, scan: &SeqScan) -> Option<Hidden<'a>> {
    let plan = statement.plan.as_ref()?;
    let table = look.table(&scan.schema, &scan.table)?;
    let read = ratio(table.seq_tup_read, table.seq_scan);
    if table.live < LEAST_ROWS || table.seq_scan == 0.0 || read < LEAST_ROWS / 4.0 {
        return None;
    }
    scan.cast_columns().into_iter().find_map(|(column, cast)| {
        let begins = |index: &&Index| index.table == table.oid && index.columns.first() == Some(&column);
        let index = look.indexes.iter().find(begins)?;
        let cost = by_index(look.server.number("random_page_cost"), 1.0);
        let spared = ratio(scan.cost - cost, plan.cost).clamp(0.0, 1.0);
        Some(Hidden { statement, table, index, column, cast, left: 1.0 - spared })
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
        let advice = CastHidesIndex.examine(&look("((ox.id)::numeric = '5'::numeric)", "id")).unwrap();
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
        assert_eq!(CastHidesIndex.examine(&look("(ox.id = 5)", "id")), None);
        assert_eq!(CastHidesIndex.examine(&look("((ox.id)::numeric = '5'::numeric)", "other")), None);
        let mut small = look("((ox.id)::numeric = '5'::numeric)", "id");
        small.tables[0].live = 500.0;
        assert_eq!(CastHidesIndex.examine(&small), None);
    }
}
