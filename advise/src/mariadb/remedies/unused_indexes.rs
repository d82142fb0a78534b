//! Indexes that no statement reads, and each write maintains.
//!
//! Rule: the server counts the use of indexes (userstat, or the performance schema), some were not used since it does, and
//! rows are written. Unique indexes and those of foreign keys have a use that is not counted: they are left out.

use crate::mariadb::rules::{without_indexes, Needless};
use crate::{Advice, Audience, Look, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "unused-indexes",
    title: "drop indexes that no statement uses",
    audience: Audience::Schema,
    documentation: "https://mariadb.com/kb/en/user-statistics/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let unused = look.mariadb.as_ref()?.unused.as_deref()?;
    let first = unused.first()?;
    let indexes: Vec<_> = unused.iter().map(|one| (&*one.table, &*one.index, &*one.columns)).collect();
    let finding = format!(
        "{} indexes were not used since their use is counted, {} of {} for one",
        indexes.len(),
        first.index,
        first.table
    );
    let risk = "a monthly report may need one that was not used this week: ask since when use is counted";
    without_indexes(look, &indexes, Needless { finding, what: "unused indexes", at_most: "up to ", risk })
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
            examine(&look)
        };
        let one = Unused { table: "t".into(), index: "i".into(), columns: "`a`".into() };
        let advice = of(Some(vec![one])).unwrap();
        // 250,000 updates, two entries each, x 4 us = 2 s of 10 s.
        assert!((advice.prediction.gain.unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(advice.apply, ["ALTER TABLE `t` DROP INDEX `i`, ALGORITHM=INPLACE, LOCK=NONE;"]);
        assert_eq!((of(None), of(Some(Vec::new()))), (None, None));
    }
}
