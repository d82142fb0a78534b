//! The planner's statistics of a table are outdated.
//!
//! Rule: a table of 1,000 rows or more that the load uses was never analyzed; or rows changed since the last
//! ANALYZE are half of it or more, and a statement on it with 5 % of the time or more returns ten times more
//! or fewer rows than its plan expects. Many changes alone are not a fault: the distribution of values may be
//! unchanged.

use crate::index_upkeep::mentions;
use crate::look::shares::ratio;
use crate::{Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy, Statement, Table};

const LEAST_ROWS: f64 = 1000.0;
const LEAST_FACTOR: f64 = 10.0;

pub(super) const REMEDY: Remedy = Remedy {
    id: "stale-statistics",
    title: "analyze a table that has changed",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/planner-stats.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let candidates = look.tables.iter().filter(|table| table.live >= LEAST_ROWS);
    let found = candidates.filter_map(|table| {
        let used = table.seq_scan + table.idx_scan > 0.0;
        let changed = table.never_analyzed || table.changed >= 0.5 * table.live;
        let mistaken = mistaken(look, table);
        let fires = used && changed && (table.never_analyzed || !mistaken.is_empty());
        fires.then_some((table, mistaken))
    });
    let gain = |mistaken: &[(&Statement, f64)]| -> f64 {
        mistaken.iter().map(|(one, factor)| one.share * (1.0 - 1.0 / factor)).sum()
    };
    let (table, mistaken) = found.max_by(|(_, a), (_, b)| gain(a).total_cmp(&gain(b)))?;
    let name = table.sql_name();
    let (finding, prediction) = match mistaken.first() {
        Some((statement, factor)) => (
            format!(
                "{:.0} rows of {name} changed since its statistics were made: the plan of {} expects {factor:.0} times {}",
                table.changed,
                statement.short(),
                if expects_more(statement) { "more rows than come" } else { "fewer rows than come" }
            ),
            Prediction::gain(
                gain(&mistaken),
                format!("another plan for {} statements", mistaken.len()),
                "an upper bound: time in proportion to rows; ANALYZE takes seconds and shows it",
            ),
        ),
        None => (
            format!("{name} has {:.0} rows and was never analyzed", table.live),
            Prediction {
                grows: true,
                ..Prediction::unknown("plans by real statistics", "ANALYZE takes seconds and shows it")
            },
        ),
    };
    let mut evidence = vec![
        Evidence::new("rows changed since the last ANALYZE", table.changed, "rows", 1),
        Evidence::new("rows", table.live, "rows", 1),
    ];
    evidence.extend(mistaken.iter().take(3).map(|(statement, factor)| {
        let calls = statement.counts.as_ref().map_or(0.0, |counts| counts.calls);
        Evidence::new("rows expected against rows returned", *factor, "times", calls as u64)
    }));
    let advice = Advice {
        finding,
        evidence,
        prediction,
        undo: vec!["-- the old statistics are not kept: ANALYZE itself cannot be undone".into()],
        risk: "plans of other statements on the table may change, too".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(changes(table)))
}

/// Analyzes the table now, and from now on earlier than by default.
fn changes(table: &Table) -> Vec<Change> {
    let (schema, table_name) = (&table.schema, &table.name);
    let name = "autovacuum_analyze_scale_factor";
    let analyze = ChangeKind::Analyze { schema: schema.clone(), table: table_name.clone() };
    let option = ChangeKind::TableOption {
        schema: schema.clone(),
        table: table_name.clone(),
        name: name.into(),
        value: "0.02".into(),
        before: table.option(name).map(str::to_owned),
    };
    vec![Change::at_once(analyze), Change::at_once(option)]
}

/// Statements on the table whose plans expect other numbers of rows than they return, each with the factor.
fn mistaken<'a>(look: &'a Look, table: &Table) -> Vec<(&'a Statement, f64)> {
    let on_table = look.statements_over(0.05).filter(|statement| mentions(&statement.text, &table.name));
    // For a cast column the planner guesses, independent of statistics.
    let guessed = |statement: &&Statement| {
        let scans = statement.plan.iter().flat_map(|plan| &plan.seq_scans);
        scans.into_iter().any(|scan| !scan.cast_columns().is_empty())
    };
    let on_table = on_table.filter(|statement| !guessed(statement));
    on_table
        .filter_map(|statement| {
            let (expected, came) = rows(statement)?;
            let factor = (expected / came).max(came / expected);
            (factor >= LEAST_FACTOR).then_some((statement, factor))
        })
        .collect()
}

fn expects_more(statement: &Statement) -> bool {
    rows(statement).is_some_and(|(expected, came)| expected > came)
}

/// Rows per call: expected and returned; at least one each. Only statements that return rows can be compared.
fn rows(statement: &Statement) -> Option<(f64, f64)> {
    let is_select =
        statement.text.trim_start().get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("select"));
    let (plan, counts) = (statement.plan.as_ref()?, statement.counts.as_ref()?);
    is_select.then(|| (plan.rows.max(1.0), ratio(counts.rows, counts.calls).max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Plan, SeqScan};

    fn look(changed: f64, returned: f64) -> Look {
        let table = Table {
            schema: "public".into(),
            name: "jobs".into(),
            live: 1e5,
            changed,
            seq_scan: 3.0,
            ..Table::default()
        };
        let counts = Counts { calls: 10.0, rows: 10.0 * returned, ..Counts::default() };
        let statement = Statement {
            text: "SELECT * FROM jobs WHERE state = $1".into(),
            share: 0.5,
            counts: Some(counts),
            plan: Some(Plan { rows: 1000.0, ..Plan::default() }),
            ..Statement::default()
        };
        Look { tables: vec![table], statements: vec![statement], ..Look::default() }
    }

    #[test]
    fn changes_and_a_mistaken_plan_together_are_a_fault() {
        let advice = examine(&look(9e4, 10.0)).unwrap();
        // 1,000 rows expected, 10 returned: 0.5 x 0.99.
        assert!((advice.prediction.gain.unwrap() - 0.495).abs() < 1e-9);
        assert_eq!(advice.apply[0], "ANALYZE public.jobs;");
        assert_eq!(examine(&look(9e4, 500.0)), None);
        assert_eq!(examine(&look(100.0, 10.0)), None);
        let mut cast = look(9e4, 10.0);
        let filter = "((state)::bpchar = 'new'::bpchar)".to_owned();
        let scan = SeqScan { filter, ..SeqScan::default() };
        cast.statements[0].plan.as_mut().unwrap().seq_scans.push(scan);
        assert_eq!(examine(&cast), None);
        let mut never = look(9e4, 500.0);
        never.tables[0].never_analyzed = true;
        assert!(examine(&never).unwrap().finding.contains("never analyzed"));
    }
}
