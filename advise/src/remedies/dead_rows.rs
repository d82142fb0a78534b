//! Scans pass more dead rows than living ones, since vacuum does not come.
//!
//! Rule: a table that is scanned has 10,000 dead rows or more, and as many as living ones; and no idle transaction keeps
//! vacuum from removing them, which is a fault of its own. Dead rows alone, below the threshold of autovacuum, are no fault.

use super::idle_in_transaction::holds_back;
use crate::index_upkeep::mentions;
use crate::look::shares::ratio;
use crate::{
    Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy, Scope, Statement, Table,
};

const LEAST_DEAD: f64 = 10_000.0;

pub(super) struct DeadRows;

impl Remedy for DeadRows {
    fn id(&self) -> &'static str {
        "dead-rows"
    }

    fn title(&self) -> &'static str {
        "vacuum a table more often"
    }

    fn audience(&self) -> Audience {
        Audience::Operator
    }

    fn documentation(&self) -> &'static str {
        "https://www.postgresql.org/docs/current/routine-vacuuming.html"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        if look.idle_transactions.iter().any(holds_back) {
            return None;
        }
        let is_full = |table: &&Table| {
            table.dead >= LEAST_DEAD && table.dead >= table.live && table.seq_scan + table.idx_scan > 0.0
        };
        let gains = look.tables.iter().filter(is_full).map(|table| (gain(look, table), table));
        let (gain, table) = gains.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let name = table.sql_name();
        let part = ratio(table.dead, table.dead + table.live);
        let effect = format!("{:.0} % of the rows that a whole scan passes are gone", part * 100.0);
        let prediction = match gain > 0.0 {
            true => Prediction::gain(
                gain,
                effect,
                "time in proportion to the rows that statements with a whole scan of it pass; index scans are left out",
            ),
            false => Prediction::unknown(effect, "no costly statement reads all of it: the harm grows with the rows"),
        };
        let advice = Advice {
            finding: format!(
                "{name} has {:.0} dead rows beside {:.0} living ones, and vacuum does not come",
                table.dead, table.live
            ),
            evidence: vec![
                Evidence::new("dead rows", table.dead, "rows", 1),
                Evidence::new("living rows", table.live, "rows", 1),
                Evidence::new("whole scans during the look", table.seq_scan, "", table.seq_scan as u64),
            ],
            prediction: Prediction { grows: true, ..prediction },
            apply: vec![format!(
                "-- at once: VACUUM {name}; the file stays as long as it is (VACUUM FULL or pg_repack makes it shorter)"
            )],
            undo: Vec::new(),
            changes: Vec::new(),
            risk: "vacuum reads the table, and writes to it, while the load runs".into(),
        };
        if !forbids_vacuum(table) && look.server.setting("autovacuum") == "off" {
            return Some(advice.with_setting(&look.server, Scope::System, "autovacuum", "on"));
        }
        Some(advice.with_changes(vec![option(table)]))
    }
}

/// The part of the active time that goes to dead rows: of statements that read all of the table.
fn gain(look: &Look, table: &Table) -> f64 {
    let reads_all = |one: &&Statement| {
        let scans = one.plan.iter().flat_map(|plan| &plan.seq_scans);
        scans.into_iter().any(|scan| scan.table == table.name) && mentions(&one.text, &table.name)
    };
    let share: f64 = look.statements.iter().filter(reads_all).map(|one| one.share).sum();
    share * ratio(table.dead, table.dead + table.live)
}

fn forbids_vacuum(table: &Table) -> bool {
    matches!(table.option("autovacuum_enabled"), Some("false" | "off" | "0" | "no"))
}

/// What has kept vacuum away from this table: its own switch, or a threshold that is high.
fn option(table: &Table) -> Change {
    let (name, value) = match forbids_vacuum(table) {
        true => ("autovacuum_enabled", "on"),
        false => ("autovacuum_vacuum_scale_factor", "0.05"),
    };
    Change::at_once(ChangeKind::TableOption {
        schema: table.schema.clone(),
        table: table.name.clone(),
        name: name.into(),
        value: value.into(),
        before: table.option(name).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, SeqScan, Server};

    fn look(dead: f64, options: &[&str], autovacuum: &str) -> Look {
        let table = Table {
            schema: "public".into(),
            name: "queue".into(),
            live: 20_000.0,
            dead,
            seq_scan: 9.0,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..Table::default()
        };
        let plan = Plan {
            seq_scans: vec![SeqScan { table: "queue".into(), ..SeqScan::default() }],
            ..Plan::default()
        };
        let statement = Statement {
            text: "SELECT count(*) FROM queue".into(),
            share: 0.8,
            plan: Some(plan),
            ..Statement::default()
        };
        let settings = [("autovacuum".to_owned(), autovacuum.to_owned())].into();
        Look {
            server: Server { settings, ..Server::default() },
            tables: vec![table],
            statements: vec![statement],
            ..Look::default()
        }
    }

    #[test]
    fn what_keeps_vacuum_away_is_changed() {
        let advice = DeadRows.examine(&look(60_000.0, &["autovacuum_enabled=false"], "on")).unwrap();
        // 60,000 of 80,000 rows, in statements of 80 %.
        assert!((advice.prediction.gain.unwrap() - 0.6).abs() < 1e-9);
        assert_eq!(advice.apply[0], "ALTER TABLE public.queue SET (autovacuum_enabled = on);");
        assert_eq!(advice.undo, ["ALTER TABLE public.queue SET (autovacuum_enabled = 'false');"]);
        let advice = DeadRows.examine(&look(60_000.0, &[], "off")).unwrap();
        assert_eq!(advice.apply[0], "ALTER SYSTEM SET autovacuum = on;");
        let advice = DeadRows.examine(&look(60_000.0, &[], "on")).unwrap();
        assert_eq!(advice.apply[0], "ALTER TABLE public.queue SET (autovacuum_vacuum_scale_factor = 0.05);");
    }

    #[test]
    fn few_dead_rows_are_none() {
        assert_eq!(DeadRows.examine(&look(9_000.0, &[], "on")), None);
        assert_eq!(DeadRows.examine(&look(15_000.0, &[], "on")), None);
    }
}
