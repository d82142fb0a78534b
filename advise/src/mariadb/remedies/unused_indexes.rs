//! Indexes that no statement reads, and each write maintains.
//!
//! Rule: the server counts the use of indexes (userstat, or the performance schema), some were not used since it does, and
//! rows are written. Unique indexes and those of foreign keys have a use that is not counted: they are left out.

use crate::look::shares::ratio;
use crate::mariadb::target::name;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

/// Seconds of CPU to maintain one more index for a written row; assumed.
const COST_OF_ENTRY: f64 = 4e-6;

pub(super) struct UnusedIndexes;

impl Remedy for UnusedIndexes {
    fn id(&self) -> &'static str {
        "unused-indexes"
    }

    fn title(&self) -> &'static str {
        "drop indexes that no statement uses"
    }

    fn audience(&self) -> Audience {
        Audience::Schema
    }

    fn documentation(&self) -> &'static str {
        "https://mariadb.com/kb/en/user-statistics/"
    }

    fn examine(&self, look: &Look) -> Option<Advice> {
        let maria = look.mariadb.as_ref()?;
        let writes = ["handler_write", "handler_update", "handler_delete"]
            .iter()
            .map(|name| maria.count(name))
            .sum::<f64>();
        // An update of an indexed column marks one entry and writes another.
        let entries = writes + maria.count("handler_update");
        let rate = ratio(writes, look.seconds);
        let unused = maria.unused.as_deref()?;
        let first = unused.first()?;
        if rate < 10.0 {
            return None;
        }
        let number = unused.len();
        let drop = |one: &crate::mariadb::Unused| {
            format!("DROP INDEX {} ON {};", name(&one.index), name(&one.table))
        };
        let create = |one: &crate::mariadb::Unused| {
            format!("CREATE INDEX {} ON {} ({});", name(&one.index), name(&one.table), one.columns)
        };
        let advice = Advice {
            finding: format!(
                "{number} indexes were not used since their use is counted, {} of {} for one",
                first.index, first.table
            ),
            evidence: vec![
                Evidence::new("unused indexes", number as f64, "", number as u64),
                Evidence::new("rows written a second", rate, "1/s", writes as u64),
            ],
            prediction: Prediction::gain(
                look.time.with_cpu_seconds(entries * COST_OF_ENTRY * number as f64).min(0.9),
                format!("up to {number} entries fewer for each written row"),
                "4 us of CPU an entry (assumed), for rows of all tables, with the run queue in proportion",
            ),
            apply: unused.iter().map(drop).collect(),
            undo: unused.iter().map(create).collect(),
            changes: Vec::new(),
            risk: "a monthly report may need one that was not used this week: ask since when use is counted"
                .into(),
        };
        Some(advice)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::mariadb::Unused;

    #[test]
    fn unused_indexes_cost_each_write() {
        let of = |unused: Option<Vec<Unused>>| {
            let mut look = look(&[("handler_update", 250_000.0)], &[]);
            look.mariadb.as_mut().unwrap().unused = unused;
            UnusedIndexes.examine(&look)
        };
        let one = Unused { table: "t".into(), index: "i".into(), columns: "`a`".into() };
        let advice = of(Some(vec![one])).unwrap();
        // 250,000 updates, two entries each, x 4 us = 2 s of 10 s.
        assert!((advice.prediction.gain.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(advice.apply, ["DROP INDEX `i` ON `t`;"]);
        assert_eq!((of(None), of(Some(Vec::new()))), (None, None));
    }
}
