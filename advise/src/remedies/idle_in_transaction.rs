//! A session is idle in a transaction and keeps vacuum from removing dead rows.
//!
//! Rule: a session was idle in the same transaction throughout the last ten samples of the look, for at least
//! 5 s, and 500 transactions or more began since. Active reports and backups hold snapshots, too: they are
//! not idle, and are not reported.

use crate::index_upkeep::{levels, mentions};
use crate::look::shares::ratio;
use crate::{Advice, Audience, Evidence, IdleTransaction, Look, Prediction, Remedy, Scope, Statement};

const LEAST_SECONDS: f64 = 5.0;
pub(super) const LEAST_AGE: i64 = 500;
/// Fewer dead rows cost no statement much.
const LEAST_DEAD: f64 = 1000.0;
/// Blocks that finding and changing one row accesses besides the levels of an index: the old row, the new one, and
/// the search for room.
const BLOCKS_OF_ROW: f64 = 3.0;

/// True if a transaction keeps vacuum from removing rows.
pub(super) fn holds_back(one: &IdleTransaction) -> bool {
    one.seconds >= LEAST_SECONDS && one.xmin_age >= LEAST_AGE
}

/// Adds a timeout for sessions that are idle in a transaction for long, which also ends their locks.
pub(super) fn with_timeout(advice: Advice, look: &Look) -> Advice {
    let risk = "a session that is ended loses its transaction; programs must connect again".to_owned();
    let name = "idle_in_transaction_session_timeout";
    Advice { risk, ..advice }.with_setting(&look.server, Scope::System, name, "30s")
}

pub(super) const REMEDY: Remedy = Remedy {
    id: "idle-in-transaction",
    title: "end transactions that do nothing",
    audience: Audience::Application,
    documentation: "https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-IDLE-IN-TRANSACTION-SESSION-TIMEOUT",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let holders: Vec<_> = look.idle_transactions.iter().filter(|one| holds_back(one)).collect();
    let oldest = *holders.first()?;
    let dead: f64 = look.tables.iter().map(|table| table.dead).sum();
    let growth: f64 = look.tables.iter().map(|table| table.updated + table.deleted).sum();
    let name = if oldest.application.is_empty() { "an unnamed program" } else { &oldest.application };
    let effect = match look.seconds > 0.0 {
        true => format!("vacuum removes rows again: {:.0} a second die now", growth / look.seconds),
        false => "vacuum removes rows again".to_owned(),
    };
    let advice = Advice {
        finding: format!(
            "{name} (process {}) is idle in a transaction of {:.0} s: vacuum removes nothing of the last {} transactions",
            oldest.pid, oldest.seconds, oldest.xmin_age
        ),
        evidence: vec![
            Evidence::new("age of the transaction", oldest.seconds, "s", oldest.samples),
            Evidence::new("transactions that began since", oldest.xmin_age as f64, "", 1),
            Evidence::new("sessions that hold back vacuum in this way", holders.len() as f64, "", look.samples),
            Evidence::new("dead rows now", dead, "rows", look.tables.len() as u64),
        ],
        prediction: Prediction { grows: true, ..prediction(look, effect) },
        apply: vec![
            "-- ends such sessions from now on; in the application: commit before waiting for anything else".into(),
            format!("-- this one at once, its work is lost: SELECT pg_terminate_backend({});", oldest.pid),
        ],
        ..Advice::default()
    };
    Some(with_timeout(advice, look))
}

/// What changes of rows cost more than they would without dead rows in their way.
fn prediction(look: &Look, effect: String) -> Prediction {
    let counted = || look.statements.iter().filter_map(|one| Some((one, one.counts.as_ref()?)));
    let all: f64 = counted().map(|(_, counts)| counts.total_exec_time / 1e3).sum();
    let saved: f64 = counted()
        .map(|(statement, counts)| {
            let executed = (counts.total_exec_time / 1e3 - look.lock_seconds(statement)).max(0.0);
            executed * part_in_the_way(look, statement)
        })
        .sum();
    if saved == 0.0 {
        return Prediction::unknown(
            effect,
            "the harm grows with the dead rows that each scan has to pass; no figure",
        );
    }
    let model = "what the dead rows cost now, and they grow: of statements that change rows of a table with more dead rows \
                 than live ones, the block accesses above the levels of its indexes and 3 for each row; execution \
                 time in proportion to block accesses";
    Prediction::gain(ratio(saved, look.time.active()), effect, model).with_execution(ratio(saved, all))
}

/// The part of a statement's block accesses that pass dead rows; 0 for statements that change no rows, since a scan
/// may read many rows on purpose.
fn part_in_the_way(look: &Look, statement: &Statement) -> f64 {
    let text = statement.text.trim_start().to_lowercase();
    let Some(counts) =
        statement.counts.as_ref().filter(|_| text.starts_with("update") || text.starts_with("delete"))
    else {
        return 0.0;
    };
    let full = |table: &&crate::Table| table.dead >= LEAST_DEAD && table.dead >= table.live;
    let Some(table) = look.tables.iter().filter(full).find(|table| mentions(&text, &table.name)) else {
        return 0.0;
    };
    let indexes = look.indexes.iter().filter(|index| index.table == table.oid);
    let scans = statement.plan.as_ref().is_some_and(|plan| !plan.seq_scans.is_empty());
    if scans || counts.rows == 0.0 {
        return 0.0; // pages of live rows, or of rows that were looked for in vain
    }
    let needed = counts.rows * (indexes.map(levels).sum::<f64>() + BLOCKS_OF_ROW);
    match counts.shared_blks_hit + counts.shared_blks_read {
        0.0 => 0.0,
        accesses => (1.0 - needed / accesses).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Index, Kind, Share, Table, TimeShares};

    #[test]
    fn dead_rows_cost_the_blocks_above_those_of_a_row() {
        let idle = IdleTransaction { seconds: 9.0, xmin_age: 9000, ..IdleTransaction::default() };
        let table = |dead| Table { oid: 1, name: "branches".into(), live: 10.0, dead, ..Table::default() };
        let statement = |text: &str, shared_blks_hit| {
            let counts = Counts {
                calls: 100.0,
                rows: 100.0,
                total_exec_time: 2000.0,
                shared_blks_hit,
                ..Counts::default()
            };
            Statement { text: text.into(), counts: Some(counts), ..Statement::default() }
        };
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
        let look = |dead| Look {
            idle_transactions: vec![idle.clone()],
            tables: vec![table(dead)],
            // Two pages: two levels.
            indexes: vec![Index { table: 1, bytes: 16_384.0, ..Index::default() }],
            time: TimeShares { total: 10.0, shares: vec![run.clone()], ..TimeShares::default() },
            statements: vec![
                statement("UPDATE branches SET b = $1 WHERE id = $2", 5000.0),
                statement("SELECT sum(b) FROM branches", 5000.0),
            ],
            ..Look::default()
        };
        // 50 blocks a row, 5 of them needed: nine tenths of 2 of 4 s, in 10 s of active time.
        let prediction = examine(&look(5000.0)).unwrap().prediction;
        assert!((prediction.of_execution.unwrap() - 0.45).abs() < 1e-9);
        assert!((prediction.gain.unwrap() - 0.18).abs() < 1e-9 && prediction.grows);
        // One sample of 50 waited for a lock: 0.2 of 10 s.
        let mut waits = look(5000.0);
        waits.statements[0].lock_samples = 1;
        waits.time.samples = 50;
        assert!((examine(&waits).unwrap().prediction.of_execution.unwrap() - 0.405).abs() < 1e-9);
        assert_eq!(examine(&look(900.0)).unwrap().prediction.gain, None, "few dead rows");
    }

    #[test]
    fn only_old_transactions_that_hold_something_are_named() {
        let look = |seconds, xmin_age| Look {
            idle_transactions: vec![IdleTransaction {
                pid: 77,
                seconds,
                xmin_age,
                ..IdleTransaction::default()
            }],
            ..Look::default()
        };
        let advice = examine(&look(16.6, 13_600)).unwrap();
        assert!(
            advice.finding.contains("process 77") && advice.finding.contains("13600"),
            "{}",
            advice.finding
        );
        assert!(advice.prediction.grows);
        assert_eq!(examine(&look(2.0, 13_600)), None);
        assert_eq!(examine(&look(16.6, 0)), None);
    }
}
