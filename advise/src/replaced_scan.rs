//! A scan of a whole table that an index would replace: shared by the remedies that create one.

use crate::look::plan::by_index;
use crate::look::shares::ratio;
use crate::{Evidence, Look, SeqScan, Statement, Table};

/// Statements with a smaller part of the time are not examined.
const LEAST_SHARE: f64 = 0.05;
/// Smaller tables are read whole on purpose.
const LEAST_ROWS: f64 = 10_000.0;

/// A statement, its table, and the predicted saving.
pub(crate) struct ReplacedScan<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) table: &'a Table,
    /// The remaining part of the statement's cost, 0 to 1.
    left: f64,
}

/// The scans of large tables in statements with 5 % of the time or more.
pub(crate) fn large_scans(look: &Look) -> impl Iterator<Item = (&SeqScan, &Statement, &Table)> {
    look.statements_over(LEAST_SHARE).flat_map(move |statement| {
        let scans = statement.plan.iter().flat_map(|plan| &plan.seq_scans);
        scans.filter_map(move |scan| {
            let table = look.table(&scan.schema, &scan.table)?;
            let is_large = table.live >= LEAST_ROWS && table.seq_scan > 0.0;
            // Parallel workers share a scan.
            let reads_whole = ratio(table.seq_tup_read, table.seq_scan) >= LEAST_ROWS / 4.0;
            (is_large && reads_whole).then_some((scan, statement, table))
        })
    })
}

impl<'a> ReplacedScan<'a> {
    /// A scan that an index would replace; the index finds this number of rows.
    pub(crate) fn new(
        look: &Look,
        (scan, statement, table): (&SeqScan, &'a Statement, &'a Table),
        rows: f64,
    ) -> ReplacedScan<'a> {
        let cost = by_index(look.server.number("random_page_cost"), rows);
        let whole = statement.plan.as_ref().map_or(0.0, |plan| plan.cost);
        let spared = ratio(scan.cost - cost, whole).clamp(0.0, 1.0);
        ReplacedScan { statement, table, left: 1.0 - spared }
    }

    /// The saving, as a part of the active time.
    pub(crate) fn gain(&self) -> f64 {
        self.statement.share * (1.0 - self.left)
    }

    /// The saving in the units of the statement.
    pub(crate) fn effect(&self) -> String {
        match self.statement.ms_per_call() {
            Some(ms) => format!("{ms:.1} -> {:.2} ms a call", ms * self.left),
            None => format!("{:.0} % less of this statement's time", (1.0 - self.left) * 100.0),
        }
    }

    pub(crate) fn rows_per_scan(&self) -> f64 {
        ratio(self.table.seq_tup_read, self.table.seq_scan)
    }

    pub(crate) fn evidence(&self) -> [Evidence; 2] {
        let Statement { counts, samples, share, .. } = self.statement;
        let seen = counts.as_ref().map_or(*samples, |counts| counts.calls as u64);
        let scans = self.table.seq_scan as u64;
        [
            Evidence::new("rows read a sequential scan", self.rows_per_scan(), "rows", scans),
            Evidence::new("the statement's part of the time", share * 100.0, "%", seen),
        ]
    }
}
