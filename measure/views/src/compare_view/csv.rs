//! A comparison for spreadsheets and data frames: one row per event, table and row.

use super::CompareReport;
use crate::ReportError;
use hardmeter_answers::{CompareColumn, ComparedEvent, ComparedRow};

impl CompareReport {
    /// The comparison as comma-separated values. `table` names the columns that its rows were aligned by; `total` is the
    /// event itself. Infinite and unknown values are empty.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if a row cannot be formatted.
    pub fn csv(&self) -> Result<String, ReportError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut head = vec!["event", "unit", "per", "table"];
        head.extend(["a_samples", "b_samples", "a_rate", "b_rate", "a_cycles", "b_cycles", "difference"]);
        head.extend(["change", "change_low", "change_high", "p", "adjusted_p", "different"]);
        head.extend(CompareColumn::ALL.map(|(_, name)| name));
        writer.write_record(&head)?;
        for event in &self.events {
            writer.write_record(self.row(event, "total", &[], &event.total))?;
            for table in &event.tables {
                let names: Vec<&str> = table.columns.iter().map(|column| column.name()).collect();
                for row in &table.rows {
                    writer.write_record(self.row(event, &names.join("+"), &table.columns, row))?;
                }
            }
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn row(
        &self,
        event: &ComparedEvent,
        table: &str,
        columns: &[CompareColumn],
        row: &ComparedRow,
    ) -> Vec<String> {
        let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
        let maybe = |value: Option<f64>| value.map_or(String::new(), number);
        let unit = if event.time { "ns" } else { "events" };
        let mut cells =
            vec![event.name.clone(), unit.to_string(), self.per.plural().to_string(), table.to_string()];
        cells.extend(row.samples.map(|samples| samples.to_string()));
        cells.extend(row.rates.map(number));
        cells.extend(row.cycles.map(number));
        cells.push(number(row.difference()));
        cells.push(maybe(row.change.map(|change| change.value)));
        cells.push(maybe(row.change.map(|change| change.interval.low)));
        cells.push(maybe(row.change.map(|change| change.interval.high)));
        cells.push(maybe(row.change.map(|change| change.p)));
        cells.push(maybe(row.adjusted_p));
        cells.push(row.different.to_string());
        cells.extend(CompareColumn::ALL.map(|(column, _)| {
            let at = columns.iter().position(|own| *own == column);
            at.and_then(|at| row.names[at].as_deref()).unwrap_or_default().to_string()
        }));
        cells
    }
}
