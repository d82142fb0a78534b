//! Two identical indexes of a table: each write maintains both.
//!
//! Rule: the same columns in the same order, one of them not unique, and rows are written. An index that only begins another
//! is left: it may be the smaller one for a reason.

use crate::mariadb::rules::{without_indexes, Needless};
use crate::{Advice, Audience, Look, Remedy};

pub(super) const REMEDY: Remedy = Remedy {
    id: "duplicate-indexes",
    title: "drop duplicate indexes",
    audience: Audience::Schema,
    documentation: "https://mariadb.com/kb/en/drop-index/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let duplicates = &look.mariadb.as_ref()?.duplicates;
    let first = duplicates.first()?;
    let indexes: Vec<_> = duplicates.iter().map(|one| (&*one.table, &*one.index, &*one.columns)).collect();
    let finding = format!(
        "{} of {} agrees with {} ({} such indexes)",
        first.index,
        first.table,
        first.same_as,
        indexes.len()
    );
    let risk = "statements that name the index in a hint fail";
    without_indexes(look, &indexes, Needless { finding, what: "duplicate indexes", at_most: "", risk })
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
            examine(&look)
        };
        // 250,000 entries x 4 us = 1 s of 10 s.
        let advice = of(250_000.0).unwrap();
        assert!((advice.prediction.gain.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(
            (advice.apply[0].as_str(), advice.undo[0].as_str()),
            (
                "ALTER TABLE `t` DROP INDEX `a2`, ALGORITHM=INPLACE, LOCK=NONE;",
                "CREATE INDEX `a2` ON `t` (`a`) ALGORITHM=INPLACE LOCK=NONE;"
            )
        );
        assert_eq!(of(10.0), None);
    }
}
