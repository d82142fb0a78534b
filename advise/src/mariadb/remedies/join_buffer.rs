//! Joins that read a whole table for each buffer of rows of the other.
//!
//! Rule: a join without an index once a second or more, and most rows are read in order. A larger buffer reads the table less
//! often; an index on the joined column is better where one can be made.

use crate::look::shares::ratio;
use crate::mariadb::rules::set_global;
use crate::{Advice, Audience, Evidence, Look, Prediction, Remedy, Takes};

pub(super) const REMEDY: Remedy = Remedy {
    id: "join-buffer",
    title: "a larger join buffer, or an index on the joined column",
    audience: Audience::Operator,
    documentation: "https://mariadb.com/kb/en/server-system-variables/#join_buffer_size",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let joins = maria.count("select_full_join");
    let rate = ratio(joins, look.seconds);
    let read = maria.count("handler_read_rnd_next");
    let size = maria.number("join_buffer_size");
    if rate < 1.0 || ratio(read, joins) < 100_000.0 || size > 64e6 {
        return None;
    }
    let advice = Advice {
        finding: format!(
            "{rate:.1} joins a second have no index, and read {:.0} rows each; the join buffer has {:.0} kB",
            ratio(read, joins),
            size / 1e3
        ),
        evidence: vec![
            Evidence::new("joins without an index a second", rate, "1/s", joins as u64),
            Evidence::new("rows read in order a second", ratio(read, look.seconds), "1/s", read as u64),
        ],
        prediction: Prediction::unknown(
            "the inner table is read less often",
            "how often it is read for each join is not counted: a trial shows it",
        ),
        risk: "each join of each connection takes that much memory".into(),
        ..Advice::default()
    };
    Some(advice.with_changes(vec![set_global(
        look,
        "join_buffer_size",
        &format!("{:.0}", size * 16.0),
        Takes::NewSessions,
    )]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    #[test]
    fn only_joins_that_read_much_are_named() {
        let of = |joins: f64, read: f64| {
            let counted = [("select_full_join", joins), ("handler_read_rnd_next", read)];
            examine(&look(&counted, &[("join_buffer_size", "262144")]))
        };
        assert_eq!(of(20.0, 1e7).unwrap().apply[0], "SET GLOBAL join_buffer_size = 4194304;");
        assert_eq!((of(20.0, 1e4), of(5.0, 1e7)), (None, None));
    }
}
