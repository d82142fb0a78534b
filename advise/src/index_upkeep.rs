//! The cost of maintaining indexes: shared by the remedies that drop some.

use crate::look::shares::ratio;
use crate::{Change, ChangeKind, Index, Kind, Look, Prediction, Statement, Table};
use std::ops::Add;

/// The part of the CPU time of an INSERT, or of an UPDATE that is not HOT, that one more index adds: with ten
/// more indexes an update took 1.37 times the CPU (PostgreSQL 15, docs/tune.md). Used if accesses are not
/// counted.
const COST_OF_ONE: f64 = 0.037;
/// Approximate number of entries in a page of a B-tree: short keys, pages nine tenths full.
const FAN_OUT: f64 = 300.0;
/// A write accesses its table even without the indexes.
const MOST_OF_STATEMENT: f64 = 0.9;

/// A session that has a CPU keeps it about as long as this: the kernel's time slice.
const TIME_SLICE_MS: f64 = 3.0;
const RUNNING: [Kind; 3] = [Kind::RunningUser, Kind::RunningKernel, Kind::Running];

/// How the gain is computed, as text.
const MODEL: &str = "an entry in a B-tree accesses one block a level; execution time in proportion to block \
    accesses (where pg_stat_statements counts none: 3.7 % of a write's CPU for each index); that more updates become HOT \
    is left out";

/// The shares that are saved without some indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Saved {
    /// Of the active time.
    pub(crate) active: f64,
    /// Of the CPU time, which has no waits for the log.
    pub(crate) cpu: f64,
    /// Of the execution time of all statements; `None` if it is not counted.
    pub(crate) execution: Option<f64>,
}

impl Saved {
    /// As a prediction.
    pub(crate) fn prediction(self, effect: impl Into<String>) -> Prediction {
        let prediction = Prediction::gain(self.active, effect, MODEL).with_cpu(self.cpu);
        match self.execution {
            Some(share) => prediction.with_execution(share),
            None => prediction,
        }
    }
}

impl Add for Saved {
    type Output = Saved;

    fn add(self, other: Saved) -> Saved {
        let execution = match (self.execution, other.execution) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        Saved { active: self.active + other.active, cpu: self.cpu + other.cpu, execution }
    }
}

/// What not maintaining these indexes of a table saves.
pub(crate) fn saved_by_dropping(look: &Look, table: &Table, indexes: &[&Index]) -> Saved {
    let written = table.inserted + table.updated;
    // Without these indexes, most updates would be HOT if no other column is indexed; that is not counted.
    let entries = (written - table.hot_updated).max(0.0);
    by_accesses(look, table, entries, indexes).unwrap_or_else(|| {
        let extra = indexes.len() as f64 * COST_OF_ONE;
        let running = running(look);
        let active = share_of_writes(look, table) * running * ratio(entries, written) * extra / (1.0 + extra);
        Saved { active, cpu: ratio(active, running).min(MOST_OF_STATEMENT), execution: None }
    })
}

/// The same by the writes' accesses in pg_stat_statements; `None` if it does not count them.
fn by_accesses(look: &Look, table: &Table, entries: f64, indexes: &[&Index]) -> Option<Saved> {
    let (mut accesses, mut seconds, mut cpu) = (0.0, 0.0, 0.0);
    for statement in writes(look, table) {
        let counts = statement.counts.as_ref()?;
        accesses += counts.shared_blks_hit + counts.shared_blks_read;
        // Waits for locks remain.
        let executed = (counts.total_exec_time / 1e3 - look.lock_seconds(statement)).max(0.0);
        seconds += executed;
        cpu += executed * part_on_cpu(look, ratio(counts.total_exec_time, counts.calls));
    }
    let (active, on_cpu) = (look.time.active(), look.time.seconds(&RUNNING));
    if accesses == 0.0 || active <= 0.0 {
        return None;
    }
    let counted = look.statements.iter().filter_map(|one| one.counts.as_ref());
    let all: f64 = counted.map(|counts| counts.total_exec_time / 1e3).sum();
    let of_indexes: f64 = indexes.iter().map(|index| entries * levels(index)).sum();
    let part = ratio(of_indexes, accesses).min(MOST_OF_STATEMENT);
    Some(Saved {
        active: ratio(seconds, active).min(1.0) * part,
        cpu: ratio(cpu, on_cpu).min(1.0) * part,
        execution: Some(ratio(seconds, all) * part),
    })
}

/// The part of the time of a call, in milliseconds, that is CPU time. A session waits for a CPU when it wakes up:
/// before short calls, and not in them.
fn part_on_cpu(look: &Look, ms_per_call: f64) -> f64 {
    let (running, queue) = (look.time.seconds(&RUNNING), look.time.seconds(&[Kind::RunQueue]));
    match ms_per_call > TIME_SLICE_MS && running > 0.0 {
        true => running / (running + queue),
        false => 1.0,
    }
}

/// The levels of an index, by its size.
pub(crate) fn levels(index: &Index) -> f64 {
    let pages = (index.bytes / 8192.0).max(1.0);
    1.0 + (pages.ln() / FAN_OUT.ln()).ceil()
}

/// The part of the active time in which backends run or want to run: indexes cost CPU time, not waits for the
/// log.
fn running(look: &Look) -> f64 {
    match look.time.active() > 0.0 {
        true => look.time.of_active(&RUNNING) + look.time.of_active(&[Kind::RunQueue]),
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
        assert!((saved_by_dropping(&look, &table, &ten).active - 0.135).abs() < 0.001);
        // Half of the active time is waits for the log, which remain.
        let share = |kind| Share { kind, event: String::new(), seconds: 5.0, n: 1 };
        let shares = vec![share(Kind::RunningUser), share(Kind::Io)];
        let time = TimeShares { total: 10.0, shares, ..TimeShares::default() };
        let waiting = Look { time, ..look.clone() };
        let saved = saved_by_dropping(&waiting, &table, &ten);
        assert!((saved.active - 0.0675).abs() < 0.001 && (saved.cpu - 0.135).abs() < 0.001, "{saved:?}");
        let hot = Table { hot_updated: 100.0, ..table };
        assert_eq!(saved_by_dropping(&look, &hot, &ten), Saved::default());
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
        let update = Statement { text, share, counts, ..Statement::default() };
        let run = Share { kind: Kind::RunningUser, event: String::new(), seconds: 10.0, n: 1 };
        let time = TimeShares { total: 10.0, samples: 100, shares: vec![run], ..TimeShares::default() };
        let table = Table { name: "t".into(), updated: 1000.0, ..Table::default() };
        let mut look = Look { time, statements: vec![update], ..Look::default() };
        let five = [&index; 5];
        let is = |saved: Saved, active: f64, cpu: f64, execution: f64| {
            let pairs = [(saved.active, active), (saved.cpu, cpu), (saved.execution.unwrap(), execution)];
            assert!(pairs.iter().all(|(one, other)| (one - other).abs() < 1e-9), "{saved:?}");
        };
        is(saved_by_dropping(&look, &table, &five), 0.2, 0.2, 0.5);
        // 20 of the 100 samples waited for a lock in it: 2 of its 4 s.
        look.statements[0].lock_samples = 20;
        is(saved_by_dropping(&look, &table, &five), 0.1, 0.1, 0.25);
        // Other statements run for 4 s.
        look.statements[0].lock_samples = 0;
        let other = Counts { calls: 1.0, total_exec_time: 4000.0, ..Counts::default() };
        look.statements.push(Statement {
            text: "SELECT 1".into(),
            counts: Some(other),
            ..Statement::default()
        });
        is(saved_by_dropping(&look, &table, &five), 0.2, 0.2, 0.25);
    }

    /// Other programs keep the CPUs busy: of 10 s, 8 are in the run queue.
    #[test]
    fn short_calls_wait_for_a_cpu_before_they_begin() {
        let index = Index { bytes: 200.0 * 8192.0, ..Index::default() };
        let share = |kind, seconds| Share { kind, event: String::new(), seconds, n: 1 };
        let shares = vec![share(Kind::RunningUser, 2.0), share(Kind::RunQueue, 8.0)];
        let look = |calls: f64| {
            let counts =
                Counts { calls, total_exec_time: 1000.0, shared_blks_hit: 20_000.0, ..Counts::default() };
            let update =
                Statement { text: "UPDATE t SET a = 1".into(), counts: Some(counts), ..Statement::default() };
            let time = TimeShares { total: 10.0, shares: shares.clone(), ..TimeShares::default() };
            Look { time, statements: vec![update], ..Look::default() }
        };
        let table = Table { name: "t".into(), updated: 1000.0, ..Table::default() };
        let cpu = |calls| saved_by_dropping(&look(calls), &table, &[&index; 5]).cpu;
        // Calls of 1 ms: 1 of 2 s of CPU, half of it for the indexes. Calls of 10 ms: a fifth of their time is CPU.
        assert!((cpu(1000.0) - 0.25).abs() < 1e-9 && (cpu(100.0) - 0.05).abs() < 1e-9);
    }

    #[test]
    fn tables_add_up() {
        let saved = |active, execution| Saved { active, cpu: 0.1, execution };
        let sum = saved(0.1, Some(0.2)) + saved(0.2, None) + saved(0.0, Some(0.1));
        assert!((sum.active - 0.3).abs() < 1e-9 && (sum.execution.unwrap() - 0.3).abs() < 1e-9);
        assert_eq!((saved(0.1, None) + saved(0.1, None)).execution, None);
        assert_eq!(sum.prediction("").of_execution, sum.execution);
    }
}
