//! Two indexes of a table that agree in everything: each write maintains both.
//!
//! Rule: the same columns in the same order, one of them not unique, and rows are written. An index that only begins another
//! is left: it may be the smaller one for a reason.

use crate::look::shares::ratio;
use crate::mariadb::target::name;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy};

/// Seconds of CPU to maintain one more index for a written row; assumed.
const COST_OF_ENTRY: f64 = 4e-6;

pub(super) struct DuplicateIndexes;

impl Remedy for DuplicateIndexes {
    fn id(&self) -> &'static str {
        "duplicate-indexes"
    }

    fn title(&self) -> &'static str {
        "drop duplicate indexes"
    }

    fn audience(&self) -> Audience {
        Audience::Schema
    }

    fn documentation(&self) -> &'static str {
        "https://mariadb.com/kb/en/drop-index/"
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
        let first = maria.duplicates.first()?;
        if rate < 10.0 {
            return None;
        }
        let number = maria.duplicates.len();
        let seconds = entries * COST_OF_ENTRY * number as f64;
        let drop = |one: &crate::mariadb::Duplicate| {
            format!("DROP INDEX {} ON {};", name(&one.index), name(&one.table))
        };
        let create = |one: &crate::mariadb::Duplicate| {
            format!("CREATE INDEX {} ON {} ({});", name(&one.index), name(&one.table), one.columns)
        };
        let advice = Advice {
            finding: format!(
                "{} of {} agrees with {} ({number} such indexes)",
                first.index, first.table, first.same_as
            ),
            evidence: vec![
                Evidence::new("duplicate indexes", number as f64, "", number as u64),
                Evidence::new("rows written a second", rate, "1/s", writes as u64),
            ],
            prediction: Prediction::gain(
                look.time.with_cpu_seconds(seconds),
                format!("{number} entries fewer for each written row"),
                "4 us of CPU an entry (assumed), for rows of all tables, with the run queue in proportion",
            ),
            apply: maria.duplicates.iter().map(drop).collect(),
            undo: maria.duplicates.iter().map(create).collect(),
            changes: Vec::new(),
            risk: "statements that name the index in a hint fail".into(),
        };
        Some(advice)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::mariadb::Duplicate;

    #[test]
    fn duplicates_cost_each_write() {
        let of = |writes: f64| {
            let mut look = look(&[("handler_write", writes)], &[]);
            let (table, index, same_as) = ("t".to_owned(), "a2".to_owned(), "a1".to_owned());
            look.mariadb.as_mut().unwrap().duplicates =
                vec![Duplicate { table, index, same_as, columns: "`a`".into() }];
            DuplicateIndexes.examine(&look)
        };
        // 250,000 entries x 4 us = 1 s of 10 s.
        let advice = of(250_000.0).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(
            (advice.apply[0].as_str(), advice.undo[0].as_str()),
            ("DROP INDEX `a2` ON `t`;", "CREATE INDEX `a2` ON `t` (`a`);")
        );
        assert_eq!(of(10.0), None);
    }
}
