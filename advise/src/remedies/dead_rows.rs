//! Scans read more dead rows than live ones, because vacuum does not run.
//!
//! Rule: a table that is scanned has 10,000 dead rows or more, and at least as many as live ones; and no long
//! transaction keeps vacuum from removing them: an idle one is a separate fault, a working one is not a
//! fault. Dead rows alone, below the threshold of autovacuum, are not a fault.

use super::idle_in_transaction::{holds_back, LEAST_AGE};
use crate::look::shares::ratio;
use crate::{Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy, Scope, Table};

const LEAST_DEAD: f64 = 10_000.0;

pub(super) const REMEDY: Remedy = Remedy {
    id: "dead-rows",
    title: "vacuum a table more often",
    audience: Audience::Operator,
    documentation: "https://www.postgresql.org/docs/current/routine-vacuuming.html",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    if look.idle_transactions.iter().any(holds_back) || look.oldest_snapshot >= LEAST_AGE {
        return None;
    }
    let is_full = |table: &&Table| {
        table.dead >= LEAST_DEAD && table.dead >= table.live && table.seq_scan + table.idx_scan > 0.0
    };
    let table = look.tables.iter().filter(is_full).max_by(|a, b| a.dead.total_cmp(&b.dead))?;
    let name = table.sql_name();
    let part = ratio(table.dead, table.dead + table.live);
    let advice = Advice {
        finding: format!(
            "{name} has {:.0} dead rows beside {:.0} live ones, and autovacuum does not run",
            table.dead, table.live
        ),
        evidence: vec![
            Evidence::new("dead rows", table.dead, "rows", 1),
            Evidence::new("living rows", table.live, "rows", 1),
            Evidence::new("whole scans during the look", table.seq_scan, "", table.seq_scan as u64),
        ],
        prediction: Prediction {
            grows: true,
            ..Prediction::unknown(
                format!("the space of {:.0} % of the rows is reused", part * 100.0),
                "vacuum stops the growth; the file stays as long as it is, so that a whole scan gained nothing at once",
            )
        },
        apply: vec![format!(
            "-- at once: VACUUM {name}; the file stays as long as it is (VACUUM FULL or pg_repack makes it shorter)"
        )],
        risk: "vacuum reads the table, and writes to it, while the load runs".into(),
        ..Advice::default()
    };
    if !forbids_vacuum(table) && look.server.setting("autovacuum") == "off" {
        return Some(advice.with_setting(&look.server, Scope::System, "autovacuum", "on"));
    }
    Some(advice.with_changes(vec![option(table)]))
}

fn forbids_vacuum(table: &Table) -> bool {
    matches!(table.option("autovacuum_enabled"), Some("false" | "off" | "0" | "no"))
}

/// The cause that vacuum does not process this table: its own switch, or a high threshold.
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
    use crate::Server;

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
        let settings = [("autovacuum".to_owned(), autovacuum.to_owned())].into();
        Look { server: Server { settings, ..Server::default() }, tables: vec![table], ..Look::default() }
    }

    #[test]
    fn what_keeps_vacuum_away_is_changed() {
        let advice = examine(&look(60_000.0, &["autovacuum_enabled=false"], "on")).unwrap();
        // 60,000 of 80,000 rows.
        assert_eq!(advice.prediction.effect, "the space of 75 % of the rows is reused");
        assert!(advice.prediction.grows && advice.prediction.gain.is_none());
        assert_eq!(advice.apply[0], "ALTER TABLE public.queue SET (autovacuum_enabled = on);");
        assert_eq!(advice.undo, ["ALTER TABLE public.queue SET (autovacuum_enabled = 'false');"]);
        let advice = examine(&look(60_000.0, &[], "off")).unwrap();
        assert_eq!(advice.apply[0], "ALTER SYSTEM SET autovacuum = on;");
        let advice = examine(&look(60_000.0, &[], "on")).unwrap();
        assert_eq!(advice.apply[0], "ALTER TABLE public.queue SET (autovacuum_vacuum_scale_factor = 0.05);");
    }

    #[test]
    fn few_dead_rows_are_none() {
        assert_eq!(examine(&look(9_000.0, &[], "on")), None);
        assert_eq!(examine(&look(15_000.0, &[], "on")), None);
        // A long report: vacuum runs, but cannot remove rows.
        let report = Look { oldest_snapshot: 5000, ..look(60_000.0, &[], "on") };
        assert_eq!(examine(&report), None);
    }
}
