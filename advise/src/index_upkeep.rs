//! What it costs to maintain indexes: shared by the remedies that drop some.

use crate::look::shares::ratio;
use crate::{Change, ChangeKind, Index, Kind, Look, Table};

/// The part of the CPU time of an INSERT, or of an UPDATE that is not HOT, that one more index adds: with ten more
/// indexes an update took 1.37 times the CPU (PostgreSQL 15, docs/tune.md).
pub(crate) const COST_OF_ONE: f64 = 0.037;

/// The gain of dropping `count` indexes of a table, as a part of the active time.
pub(crate) fn gain_of_dropping(look: &Look, table: &Table, count: usize) -> f64 {
    let written = table.inserted + table.updated;
    let maintained = ratio(written - table.hot_updated, written);
    // With these indexes gone, most updates would be HOT if no other column is indexed; that is not counted.
    let extra = count as f64 * COST_OF_ONE;
    share_of_writes(look, table) * running(look) * maintained * extra / (1.0 + extra)
}

/// The part of the active time that backends run or want to run: indexes cost CPU time, and no waits for the log.
fn running(look: &Look) -> f64 {
    match look.time.active() > 0.0 {
        true => look.time.of_active(&[Kind::RunningUser, Kind::RunningKernel, Kind::Running, Kind::RunQueue]),
        false => 1.0,
    }
}

/// The part of the time that statements take that write to the table.
fn share_of_writes(look: &Look, table: &Table) -> f64 {
    let writes = look.statements.iter().filter(|statement| {
        let text = statement.text.trim_start().to_lowercase();
        (text.starts_with("update") || text.starts_with("insert")) && mentions(&text, &table.name)
    });
    writes.map(|statement| statement.share).sum()
}

/// The change that drops an index.
pub(crate) fn dropping(index: &Index) -> Change {
    let (schema, name) = (index.schema.clone(), index.name.clone());
    Change::at_once(ChangeKind::DropIndex { schema, name, definition: index.definition.clone() })
}

/// Whether a text names a table: as a whole word.
pub(crate) fn mentions(text: &str, table: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.to_lowercase().split(|c| !is_part(c)).any(|word| word == table.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Share, Statement, TimeShares};

    #[test]
    fn ten_indexes_are_27_per_cent_of_an_update() {
        let table = Table { name: "t".into(), updated: 100.0, ..Table::default() };
        let update = Statement { text: "UPDATE t SET a = 1".into(), share: 0.5, ..Statement::default() };
        let other = Statement { text: "UPDATE t2 SET a = 1".into(), share: 0.5, ..Statement::default() };
        let look = Look { statements: vec![update, other], ..Look::default() };
        // 0.37 / 1.37 of the half that updates this table.
        assert!((gain_of_dropping(&look, &table, 10) - 0.135).abs() < 0.001);
        // Half of the active time is waits for the log, which stay.
        let share = |kind| Share { kind, event: String::new(), seconds: 5.0, n: 1 };
        let shares = vec![share(Kind::RunningUser), share(Kind::Io)];
        let time = TimeShares { total: 10.0, shares, ..TimeShares::default() };
        let waiting = Look { time, ..look.clone() };
        assert!((gain_of_dropping(&waiting, &table, 10) - 0.0675).abs() < 0.001);
        let hot = Table { hot_updated: 100.0, ..table };
        assert_eq!(gain_of_dropping(&look, &hot, 10), 0.0);
    }
}
