//! `hardmeter queries --side-by-side`: all events of a recording in one table.

use crate::heading::EventText;
use crate::layout::{printable, Column, Style, TextTable, Tone};
use crate::number::{counted, grouped};
use crate::objects_view::shortened;
use crate::queries_view::{text_column, QueriesReport};
use crate::rows::{csv_number, csv_text, insert_ids, insert_values};
use crate::screen::Block;
use crate::ReportError;
use hardmeter_answers::{EventSum, SideBySide, SideBySideRow};
use serde_json::{json, Map, Value as Json};
use std::fmt::Write;

/// Formats a cell of an event.
type Cell<'a> = &'a dyn Fn(usize, EventSum) -> String;

impl QueriesReport {
    /// The table as text, and once more for each row that the server returned, where that was counted.
    pub(crate) fn render_side_by_side(&self, table: &SideBySide, style: Style, text: &mut String) {
        for (name, event) in self.event_names(table).iter().zip(&table.events) {
            let about = self.heading.events[event.0].describe();
            let _ = writeln!(text, "{}: {about}", style.paint(Tone::Title, &printable(name)));
        }
        text.push_str(&self.events_grid(table).render(style, 2));
        if table.more_rows > 0 {
            let more = format!("{} not shown apart; --all shows them", counted(table.more_rows, "row"));
            let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &more));
        }
        if let Some((title, grid)) = self.rates_grid(table) {
            let (unit, all) = title.split_once(" (").unwrap_or((&title, ""));
            let _ = writeln!(text, "\n{} ({all}:", style.paint(Tone::Title, unit));
            text.push_str(&grid.render(style, 2));
        }
    }

    /// The same for a first screen: each row's cost, or its count if there is no divisor.
    pub(crate) fn side_by_side_block(&self, table: &SideBySide) -> Block {
        let block = match self.rates_grid(table) {
            Some((title, grid)) => Block::new(title, "", grid),
            None => Block::new("events", "", self.events_grid(table)),
        };
        block.of(Vec::new(), 0, (table.more_rows, 0))
    }

    fn events_grid(&self, table: &SideBySide) -> TextTable {
        let names = self.event_names(table);
        let columns = names.iter().flat_map(|name| [Column::right(name), Column::right("n").spare(1)]);
        grid(table, columns.collect(), true, &|_, sum| grouped(sum.events.0))
    }

    /// Events for each row that the server returned, or for what else it counted.
    fn rates_grid(&self, table: &SideBySide) -> Option<(String, TextTable)> {
        let divisors = self.workload.columns();
        let of_rows = divisors.iter().find(|(unit, _)| unit == "row returned").or(divisors.first());
        let (unit, number) = of_rows?;
        let columns = self.event_names(table).iter().map(Column::right).collect();
        let cells = |event: usize, sum: EventSum| {
            self.heading.events[table.events[event].0].each(sum.events.0, *number)
        };
        let title = format!("per {unit} (of {})", grouped(number.round() as u64));
        Some((title, grid(table, columns, false, &cells)))
    }

    fn event_names(&self, table: &SideBySide) -> Vec<String> {
        table.events.iter().map(|event| self.heading.events[event.0].name.clone()).collect()
    }

    /// The same for machines.
    pub(crate) fn side_by_side_json(&self, table: &SideBySide) -> Json {
        let names = self.event_names(table);
        let divisors = self.workload.divisors();
        let sums = |sums: &[EventSum], shares: Option<&SideBySideRow>| -> Json {
            let of = names.iter().zip(sums).enumerate().map(|(event, (name, sum))| {
                let each =
                    divisors.iter().map(|(unit, number)| (unit.clone(), json!(sum.events.0 as f64 / number)));
                let mut of = json!({
                    "count": sum.samples,
                    "events": sum.events,
                    "events_per": Json::Object(each.collect()),
                });
                if let Some(row) = shares {
                    of["share"] = json!(table.share(row, event));
                }
                (name.clone(), of)
            });
            Json::Object(of.collect())
        };
        let row = |row: &SideBySideRow| {
            let mut object = Map::new();
            insert_values(&mut object, &table.columns, &row.values);
            if let Some(statement) = row.statement {
                insert_ids(&mut object, statement, row.servers_number);
            }
            object.insert("of".into(), sums(&row.sums, Some(row)));
            Json::Object(object)
        };
        json!({
            "columns": table.columns,
            "events": names,
            "rows": table.rows.iter().map(row).collect::<Vec<_>>(),
            "more_rows": table.more_rows,
            "more": sums(&table.more, None),
            "totals": sums(&table.totals, None),
        })
    }

    /// The same as CSV: for each event its samples, the events they stand for, and these per transaction and row.
    pub(crate) fn side_by_side_csv(&self, table: &SideBySide) -> Result<String, ReportError> {
        let divisors = self.workload.divisors();
        let mut head: Vec<String> = table.columns.iter().map(|column| column.name().to_string()).collect();
        for name in self.event_names(table) {
            head.extend([format!("{name} count"), format!("{name} events")]);
            head.extend(divisors.iter().map(|(unit, _)| format!("{name} events_per_{unit}")));
        }
        let mut rows = vec![head];
        for row in &table.rows {
            let mut cells: Vec<String> =
                row.values.iter().map(|value| value.as_deref().unwrap_or("").to_string()).collect();
            for sum in &row.sums {
                cells.extend([sum.samples.to_string(), sum.events.to_string()]);
                let each = divisors.iter().map(|(_, number)| sum.events.0 as f64 / number);
                cells.extend(each.map(|each| csv_number(Some(each))));
            }
            rows.push(cells);
        }
        csv_text(rows)
    }
}

/// Rows, what is left of them, and the total.
fn grid(table: &SideBySide, events: Vec<Column>, with_samples: bool, cell: Cell<'_>) -> TextTable {
    let mut columns = events;
    columns.extend(table.columns.iter().map(|column| text_column(*column)));
    let mut grid = TextTable::new(columns);
    let cells = |sums: &[EventSum], tone: &dyn Fn(usize) -> Tone| {
        let mut cells = Vec::new();
        for (event, sum) in sums.iter().enumerate() {
            cells.push((cell(event, *sum), tone(event)));
            cells.extend(with_samples.then(|| (grouped(sum.samples), Tone::Faint)));
        }
        cells
    };
    for row in &table.rows {
        let mut all = cells(&row.sums, &|event| Tone::of_fraction(table.share(row, event).fraction()));
        // The beginning of a statement is enough if the row also has an operator.
        let short = |value: &str| match table.columns.len() {
            1 => value.split_whitespace().collect::<Vec<_>>().join(" "),
            _ => shortened(value),
        };
        all.extend(row.values.iter().map(|value| (short(value.as_deref().unwrap_or("-")), Tone::Plain)));
        grid.row(all);
    }
    let rest = (table.more_rows > 0).then_some((&table.more, "(the rest)"));
    for (sums, name) in rest.into_iter().chain([(&table.totals, "(all)")]) {
        let mut all = cells(sums, &|_| Tone::Faint);
        let others = table.columns.len().saturating_sub(1);
        all.push((name.to_string(), Tone::Faint));
        all.extend((0..others).map(|_| (String::new(), Tone::Plain)));
        grid.row(all);
    }
    grid
}
