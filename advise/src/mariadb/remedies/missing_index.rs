//! A table that is read as a whole to keep the rows of one value.
//!
//! Rule: a statement with a twentieth of the samples reads 10,000 rows or more for `column = constant`, and no index begins
//! with that column. Small tables, and tables that are read whole on purpose, have no such condition.

use crate::look::shares::ratio;
use crate::mariadb::name;
use crate::{Advice, Audience, Change, ChangeKind, Evidence, Look, Prediction, Remedy};

const LEAST_ROWS: f64 = 10_000.0;
/// The statement's time with the index, as a fraction of its time without.
const LEFT: f64 = 0.02;

pub(super) const REMEDY: Remedy = Remedy {
    id: "missing-index",
    title: "create an index",
    audience: Audience::Schema,
    documentation: "https://mariadb.com/kb/en/getting-started-with-indexes/",
    examine,
};

fn examine(look: &Look) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let wanted = |scan: &&crate::mariadb::Scan| scan.rows >= LEAST_ROWS && !scan.indexed;
    let scan = maria.scans.iter().filter(wanted).max_by(|a, b| a.share.total_cmp(&b.share))?;
    let index = format!("{}_{}_idx", scan.table, scan.column);
    let read = maria.count("handler_read_rnd_next");
    let advice = Advice {
        finding: format!(
            "about {:.0} rows of {} are read for one value of {} by {}",
            scan.rows, scan.table, scan.column, scan.statement
        ),
        evidence: vec![
            Evidence::new("samples of this statement", scan.share * 100.0, "%", scan.samples),
            Evidence::new("rows of the table, as the optimizer expects", scan.rows, "", 1),
            Evidence::new("rows read in order a second", ratio(read, look.seconds), "1/s", read as u64),
        ],
        prediction: Prediction::gain(
            scan.share * (1.0 - LEFT),
            "the statement reads the rows of the value alone",
            "the statement's part of the samples, of which 2 % are left (assumed)",
        ),
        risk: "each write of the table also writes the index".into(),
        ..Advice::default()
    };
    let (table, columns) = (scan.table.clone(), name(&scan.column));
    let create = Change::at_once(ChangeKind::CreateOnlineIndex { table, index, columns });
    Some(advice.with_changes(vec![create]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use crate::mariadb::Scan;

    #[test]
    fn a_scan_for_one_value_wants_an_index() {
        let of = |rows, indexed| {
            let (table, column) = ("ox".to_owned(), "cust".to_owned());
            let mut look = look(&[], &[]);
            look.mariadb.as_mut().unwrap().scans =
                vec![Scan { share: 0.5, rows, indexed, table, column, ..Scan::default() }];
            examine(&look)
        };
        let advice = of(2e5, false).unwrap();
        assert_eq!(
            advice.apply,
            ["CREATE INDEX `ox_cust_idx` ON `ox` (`cust`) ALGORITHM=INPLACE LOCK=NONE;"]
        );
        assert_eq!(advice.undo, ["ALTER TABLE `ox` DROP INDEX `ox_cust_idx`, ALGORITHM=INPLACE, LOCK=NONE;"]);
        assert!((advice.prediction.gain.unwrap() - 0.49).abs() < 1e-9);
        assert_eq!((of(100.0, false), of(2e5, true)), (None, None));
    }
}
