//! The server's own counters during the recording, for figures per transaction and per row.

use crate::capture::Capture;
use crate::remark::Remark;
use serde::Serialize;
use std::collections::BTreeMap;

/// The server's counters, with their scope and certainty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Workload {
    /// Transactions and rows by name: "transactions", "rows returned".
    pub figures: BTreeMap<String, f64>,
    /// The databases that were counted, where it was not the whole server.
    pub databases: Vec<String>,
    /// The reason why there are no figures, or how exact they are.
    pub remarks: Vec<Remark>,
}

/// The row counters with figures, in display order.
const ROWS: [&str; 3] = ["rows returned", "rows fetched", "rows written"];

impl Workload {
    /// The workload in the capture's side file.
    pub(crate) fn of(capture: &Capture) -> Workload {
        let Some(notes) = capture.sidecar() else { return Workload::new(BTreeMap::new()) };
        let figures = notes.workload.iter().map(|(name, number)| (name.clone(), *number));
        let mut workload = Workload::new(figures.collect());
        workload.databases = notes.workload_databases.clone();
        let limit = |text: &String| Remark::Limit { text: text.clone() };
        workload.remarks.extend(notes.workload_limits.iter().map(limit));
        workload
    }

    /// Keeps counts only; rates ("tps") are dropped.
    pub fn new(mut figures: BTreeMap<String, f64>) -> Workload {
        figures.retain(|name, number| (is_of_transactions(name) || is_of_rows(name)) && number.is_finite());
        let mut workload = Workload { figures, ..Workload::default() };
        workload.remarks.extend(workload.missing().map(|text| Remark::Limit { text: text.into() }));
        workload
    }

    fn missing(&self) -> Option<&'static str> {
        match self.figures.contains_key("transactions") {
            true => None,
            false if self.divisors().is_empty() => Some(
                "no figures per transaction and row: what the server counted is not in this capture; it is where a \
                 PostgreSQL server is recorded (--server DIR or -p PID) without --delay and --no-objects",
            ),
            false => Some(
                "figures per transaction are of transactions that wrote: how many there were in all, and how many \
                 rows, is not in this capture (an older hardmeter's, or the server's statistics were not read)",
            ),
        }
    }

    /// Each counter as a divisor: its name in the singular, and its value.
    pub fn divisors(&self) -> Vec<(String, f64)> {
        let all = self.figures.contains_key("transactions");
        let transactions = self.figures.keys().filter(|name| match all {
            true => *name == "transactions",
            false => name.ends_with(" transactions"),
        });
        // Counters of other servers: "rows", "rows_read".
        let other = self.figures.keys().filter(|name| *name == "rows" || name.starts_with("rows_"));
        let names = transactions.map(String::as_str).chain(ROWS).chain(other.map(String::as_str));
        // Below one, a figure per transaction would be of a transaction that never ended.
        let counted = names.filter_map(|name| Some((name, *self.figures.get(name)?)));
        counted.filter(|(_, number)| *number >= 1.0).map(|(name, number)| (singular(name), number)).collect()
    }

    /// Those of [`divisors`](Self::divisors) that have a column in text tables. Rows read through an index are
    /// included in the rows returned; JSON has both.
    pub fn columns(&self) -> Vec<(String, f64)> {
        let mut divisors = self.divisors();
        if divisors.iter().any(|(name, _)| name == "row returned") {
            divisors.retain(|(name, _)| name != "row fetched");
        }
        divisors
    }
}

fn is_of_transactions(name: &str) -> bool {
    name.starts_with("transactions") || name.ends_with(" transactions")
}

fn is_of_rows(name: &str) -> bool {
    name == "rows" || name.starts_with("rows ") || name.starts_with("rows_")
}

/// `rows_returned` becomes `row returned`.
pub fn singular(unit: &str) -> String {
    match unit.strip_prefix("rows") {
        Some(rest) => format!("row{}", rest.replace('_', " ")),
        None => unit.strip_suffix('s').unwrap_or(unit).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(list: &[(&str, f64)]) -> Workload {
        Workload::new(list.iter().map(|(name, number)| (name.to_string(), *number)).collect())
    }

    fn names(list: Vec<(String, f64)>) -> Vec<String> {
        list.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn transactions_and_rows_of_a_server() {
        let mut all = workload(&[
            ("rows deleted", 0.0),
            ("rows fetched", 1281.0),
            ("rows inserted", 200.0),
            ("rows returned", 3687.0),
            ("rows updated", 600.0),
            ("rows written", 800.0),
            ("transactions", 207.0),
            ("transactions rolled back", 3.0),
            ("writing transactions", 200.0),
            ("tps", 12.0),
        ]);
        all.databases = vec!["bank".into()];
        assert_eq!(names(all.divisors()), ["transaction", "row returned", "row fetched", "row written"]);
        assert_eq!(names(all.columns()), ["transaction", "row returned", "row written"]);
        assert_eq!((all.remarks.len(), all.figures.contains_key("tps")), (0, false));
        // Without writes there is no figure per row written.
        let reading = workload(&[("transactions", 207.0), ("rows returned", 9.0), ("rows written", 0.0)]);
        assert_eq!(names(reading.columns()), ["transaction", "row returned"]);
    }

    #[test]
    fn what_is_missing_is_told() {
        let told = |workload: &Workload| match workload.remarks.as_slice() {
            [Remark::Limit { text }] => text.clone(),
            other => panic!("{other:?}"),
        };
        let old = workload(&[("writing transactions", 200.0), ("writing transactions finished", 199.0)]);
        assert_eq!(names(old.columns()), ["writing transaction"]);
        assert!(told(&old).contains("are of transactions that wrote"));
        let none = workload(&[]);
        assert_eq!(none.columns(), Vec::new());
        assert!(told(&none).contains("without --delay and --no-objects"));
        // Invalid figures are rejected.
        assert_eq!(workload(&[("transactions", f64::INFINITY)]).divisors(), []);
    }

    #[test]
    fn figures_read_well() {
        assert_eq!(singular("transactions"), "transaction");
        assert_eq!(singular("rows_returned"), "row returned");
        assert_eq!(singular("writing transactions"), "writing transaction");
    }
}
