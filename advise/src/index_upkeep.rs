//! The cost of maintaining indexes: shared by the remedies that drop some.

use crate::look::shares::ratio;
use crate::{Change, ChangeKind, Index, Kind, Look, Statement, Table};

/// The part of the CPU time of an INSERT, or of an UPDATE that is not HOT, that one more index adds: with ten
/// more indexes an update took 1.37 times the CPU (PostgreSQL 15, docs/tune.md). Used if accesses are not
/// counted.
const COST_OF_ONE: f64 = 0.037;
/// Approximate number of entries in a page of a B-tree: short keys, pages nine tenths full.
const FAN_OUT: f64 = 300.0;
/// A write accesses its table even without the indexes.
const MOST_OF_STATEMENT: f64 = 0.9;

/// How the gain is computed, as text.
pub(crate) const MODEL: &str = "an entry in a B-tree accesses one block a level; execution time in proportion to block \
    accesses (where pg_stat_statements counts none: 3.7 % of a write's CPU for each index); that more updates become HOT \
    is left out";

/// The gain of not maintaining these indexes of a table, as a part of the active time.
pub(crate) fn gain_of_dropping(look: &Look, table: &Table, indexes: &[&Index]) -> f64 {
    let written = table.inserted + table.updated;
    // Without these indexes, most updates would be HOT if no other column is indexed; that is not counted.
    let entries = (written - table.hot_updated).max(0.0);
    by_accesses(look, table, entries, indexes).unwrap_or_else(|| {
        let extra = indexes.len() as f64 * COST_OF_ONE;
        share_of_writes(look, table) * running(look) * ratio(entries, written) * extra / (1.0 + extra)
    })
}

/// The same gain as a part of the CPU time, which has no waits for the log.
pub(crate) fn of_cpu(look: &Look, gain: f64) -> f64 {
    ratio(gain, running(look)).min(MOST_OF_STATEMENT)
}

/// The gain by the writes' accesses in pg_stat_statements; `None` if it does not count them.
fn by_accesses(look: &Look, table: &Table, entries: f64, indexes: &[&Index]) -> Option<f64> {
    let (mut accesses, mut seconds) = (0.0, 0.0);
    for statement in writes(look, table) {
        let counts = statement.counts.as_ref()?;
        accesses += counts.shared_blks_hit + counts.shared_blks_read;
        // Waits for locks remain.
        let waits = ratio(statement.lock_samples as f64, statement.samples as f64);
        seconds += counts.total_exec_time / 1e3 * (1.0 - waits);
    }
    let active = look.time.active();
    if accesses == 0.0 || active <= 0.0 {
        return None;
    }
    let of_indexes: f64 = indexes.iter().map(|index| entries * levels(index)).sum();
    Some(ratio(seconds, active).min(1.0) * ratio(of_indexes, accesses).min(MOST_OF_STATEMENT))
}

/// The levels of an index, by its size.
fn levels(index: &Index) -> f64 {
    let pages = (index.bytes / 8192.0).max(1.0);
    1.0 + (pages.ln() / FAN_OUT.ln()).ceil()
}

/// The part of the active time in which backends run or want to run: indexes cost CPU time, not waits for the
/// log.
fn running(look: &Look) -> f64 {
    match look.time.active() > 0.0 {
        true => look.time.of_active(&[Kind::RunningUser, Kind::RunningKernel, Kind::Running, Kind::RunQueue]),
        false => 1.0,
    }
}

/// The part of the time that statements writing to the table take.
fn share_of_writes(look: &Look, table: &Table) -> f64 {
    writes(look, table).map(|statement| statement.share).sum()
}

/// The statements that write rows to the table.
fn writes<'a>(look: &'a Look, table: &'a Table) -> impl Iterator<Item = &'a Statement> {
    look.statements.iter().filter(|statement| {
        let text = statement.text.trim_start().to_lowercase();
        (text.starts_with("update") || text.starts_with("insert")) && mentions(&text, &table.name)
    })
}

/// The change that drops an index.
pub(crate) fn dropping(index: &Index) -> Change {
    let (schema, name) = (index.schema.clone(), index.name.clone());
    Change::at_once(ChangeKind::DropIndex { schema, name, definition: index.definition.clone() })
}

/// True if a text contains a table's name as a whole word.
pub(crate) fn mentions(text: &str, table: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.to_lowercase().split(|c| !is_part(c)).any(|word| word == table.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::statements::Counts;
    use crate::{Share, TimeShares};

    #[test]
    fn ten_indexes_are_27_per_cent_of_an_update() {
        let table = Table { name: "t".into(), updated: 100.0, ..Table::default() };
        let update = Statement { text: "UPDATE t SET a = 1".into(), share: 0.5, ..Statement::default() };
        let other = Statement { text: "UPDATE t2 SET a = 1".into(), share: 0.5, ..Statement::default() };
        let look = Look { statements: vec![update, other], ..Look::default() };
        let index = Index::default();
        // 0.37 / 1.37 of the half that updates this table.
        let ten = [&index; 10];
        assert!((gain_of_dropping(&look, &table, &ten) - 0.135).abs() < 0.001);
        // Half of the active time is waits for the log, which remain.
        let share = |kind| Share { kind, event: String::new(), seconds: 5.0, n: 1 };
        let shares = vec![share(Kind::RunningUser), share(Kind::Io)];
        let time = TimeShares { total: 10.0, shares, ..TimeShares::default() };
        let waiting = Look { time, ..look.clone() };
        assert!((gain_of_dropping(&waiting, &table, &ten) - 0.0675).abs() < 0.001);
        assert!((of_cpu(&waiting, 0.0675) - 0.135).abs() < 0.001);
        let hot = Table { hot_updated: 100.0, ..table };
        assert_eq!(gain_of_dropping(&look, &hot, &ten), 0.0);
    }

    #[test]
    fn entries_cost_what_the_blocks_of_their_levels_cost() {
        // 200 pages: two levels; 1,000 updates, 5 indexes: 10,000 of 20,000 accesses, in 4 of 10 s.
        let index = Index { bytes: 200.0 * 8192.0, ..Index::default() };
        assert_eq!(
            (levels(&index), levels(&Index { bytes: 8192.0 * 4000.0, ..Index::default() })),
            (2.0, 3.0)
        );
        let counts = Counts {
            calls: 1000.0,
            total_exec_time: 4000.0,
            shared_blks_hit: 19_000.0,
            shared_blks_read: 1000.0,
            ..Counts::default()
        };
        let (text, share, counts) = ("UPDATE t SET a = 1".into(), 1.0, Some(counts));
        let update = Statement { text, share, counts, samples: 10, ..Statement::default() };
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
        let time = TimeShares { total: 10.0, shares: vec![run], ..TimeShares::default() };
        let table = Table { name: "t".into(), updated: 1000.0, ..Table::default() };
        let mut look = Look { time, statements: vec![update], ..Look::default() };
        let five = [&index; 5];
        assert!((gain_of_dropping(&look, &table, &five) - 0.2).abs() < 1e-9);
        assert!((of_cpu(&look, 0.2) - 0.2).abs() < 1e-9);
        // Half of its samples waited for a lock.
        look.statements[0].lock_samples = 5;
        assert!((gain_of_dropping(&look, &table, &five) - 0.1).abs() < 1e-9);
    }
}
