//! The tables of `hardmeter report`: the paper's tables 5 and 6, and any other grouping.

use crate::advice;
use crate::drawn::view_of;
use crate::heading::{EventText, HeadingText};
use crate::layout::{wrap, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent, percent_interval, rounded, stall_share};
use crate::rows::{
    begin_part, csv_number, csv_share, csv_text, insert_latencies, only, stall_text, Frame, CSV_SHARE,
};
use crate::screen::{Block, Screen, Wanted};
use crate::size::{size, uncertain_order};
use crate::ReportError;
use hardmeter_answers::{
    Dimension, Heading, Measure, Remark, RoutineSum, Row, Share, Shown, Table, TopAnswer, Value,
};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Map, Value as Json};
use std::fmt::Write;

view_of! {
    /// Everything that `hardmeter report` shows.
    TopReport(TopAnswer)
}

impl TopReport {
    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&only(self.filter.as_ref()), |text| {
            for table in &self.tables {
                begin_part(text);
                self.render_table(table, style, text);
            }
        })
    }

    /// The first screen.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        if !wanted.quiet {
            screen.findings(self.found().into_iter().map(|sum| self.sentence(sum)).collect());
            screen.besides(self.uncertain_order());
        }
        for table in &self.tables {
            let title = self.title(table);
            let (name, about) = title.split_once(": ").unwrap_or((&title, ""));
            let counts = table.rows.iter().map(|row| row.share.count).collect();
            let block = match wanted.all_columns {
                true => Block::lines(name, about, Vec::new()).with_table(self.grid(table)),
                false => Block::new(name, about, self.grid(table)),
            };
            screen.block(block.of(counts, table.total, (table.more_rows, table.more_samples)));
        }
        screen.remarks(&self.remarks);
        let found = self.routines.first().map(|sum| sum.routine.to_string());
        if let Some(routine) = found.filter(|name| is_plain(name)).or_else(|| self.hottest_routine()) {
            screen.next(format!("annotate {routine}"));
        }
        ["why", "objects", "queries"].into_iter().for_each(|command| screen.next(command));
        screen.text()
    }

    /// The routines that have a large part of an event.
    fn found(&self) -> Vec<&RoutineSum> {
        const LARGE: f64 = 5.0;
        const LEAST_SAMPLES: u64 = 5;
        let large =
            |sum: &&RoutineSum| size(sum.stall, sum.share) >= LARGE && sum.share.count >= LEAST_SAMPLES;
        self.routines.iter().filter(large).collect()
    }

    /// Of the first event's routines.
    fn uncertain_order(&self) -> Option<String> {
        let found = self.found();
        let first = found.iter().take_while(|sum| sum.event == found[0].event);
        uncertain_order(&first.map(|sum| (sum.stall, sum.share)).collect::<Vec<_>>())
    }

    fn sentence(&self, sum: &RoutineSum) -> String {
        let mut text = format!(
            "{} of {} (n = {} of {}): {}",
            percent(sum.share),
            self.heading.events[sum.event.0].name,
            grouped(sum.share.count),
            grouped(sum.share.total),
            sum.routine,
        );
        if let Some(stall) = sum.stall {
            text = format!("{}; {text}", stall_share(stall));
        }
        if let Some(image) = &sum.image {
            let _ = write!(text, " in {}", file_name(image));
        }
        if let Some(advice) = advice::on_routine(&sum.routine) {
            let _ = write!(text, ". Try: {advice}");
        }
        text
    }

    /// The named routine with most samples of the first table that has routines.
    fn hottest_routine(&self) -> Option<String> {
        let table = self.tables.first()?;
        let mut names =
            table.rows.iter().map(|row| dimension_value(table, row, Dimension::Routine).to_string());
        names.find(|name| is_plain(name))
    }

    fn render_table(&self, table: &Table, style: Style, text: &mut String) {
        let title = self.title(table);
        let _ = match title.split_once(": ") {
            Some((name, rest)) => writeln!(text, "{}: {rest}", style.paint(Tone::Title, name)),
            None => writeln!(text, "{}", style.paint(Tone::Title, &title)),
        };
        if table.rows.is_empty() {
            let _ = writeln!(text, "  no samples");
            return;
        }
        text.push_str(&self.grid(table).render(style, 2));
        if table.more_rows > 0 {
            let rest = Share { count: table.more_samples, total: table.total };
            text.push_str(&more_rows_text(table.more_rows, rest, style));
        }
    }

    fn grid(&self, table: &Table) -> TextTable {
        let columns = self.shown.iter().map(|shown| {
            let title = match shown {
                Shown::Measure(Measure::Share) => format!("of {}", grouped(table.total)),
                shown => shown.name().to_string(),
            };
            column(title, *shown)
        });
        let mut grid = TextTable::new(columns);
        for row in &table.rows {
            let tone = Tone::of_fraction(row.share.fraction());
            let cell = |shown: &Shown| match shown {
                Shown::Measure(measure) => {
                    let tone = match measure {
                        Measure::Count | Measure::Share | Measure::Stall => tone,
                        _ => Tone::Plain,
                    };
                    (measure_text(*measure, row, table), tone)
                }
                Shown::Dimension(dimension) => {
                    let value = dimension_value(table, row, *dimension).to_string();
                    (if *dimension == Dimension::Line { file_name(&value) } else { value }, Tone::Plain)
                }
            };
            grid.row(self.shown.iter().map(cell).collect());
        }
        grid
    }

    fn title(&self, table: &Table) -> String {
        let Some(event) = table.event.and_then(|event| self.heading.events.get(event.0)) else {
            return format!("all events: n = {}", counted(table.total, "sample"));
        };
        if table.total == event.totals.samples {
            format!("{}: {}", event.name, event.describe())
        } else {
            format!(
                "{}: n = {} of {} pass the filter",
                event.name,
                counted(table.total, "sample"),
                grouped(event.totals.samples)
            )
        }
    }

    /// The report for machines: everything, shown or not.
    pub fn json(&self) -> Json {
        let tables: Vec<Json> = self.tables.iter().map(|table| self.table_json(table)).collect();
        envelope(
            "report",
            1,
            json!({
                "capture": self.heading,
                "filter": self.filter,
                "names": self.names.map(|names| json!({
                    "user_samples": names.user_samples,
                    "named": names.named,
                    "nameless": names.nameless,
                    "identified": names.identified(),
                })),
                "tables": tables,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }

    fn table_json(&self, table: &Table) -> Json {
        let rows: Vec<Json> = table
            .rows
            .iter()
            .map(|row| {
                let mut object = Map::new();
                for (dimension, value) in table.columns.iter().zip(&row.values) {
                    object.insert(dimension.name().to_string(), json!(value));
                }
                object.insert("count".into(), json!(row.share.count));
                object.insert("share".into(), json!(row.share));
                object.insert("events".into(), json!(row.events));
                insert_latencies(&mut object, row.latency);
                Json::Object(object)
            })
            .collect();
        json!({
            "event": table.event.and_then(|event| self.heading.events.get(event.0)).map(|event| &event.name),
            "samples": table.total,
            "events": table.events,
            "latencies": table.latency,
            "columns": table.columns,
            "rows": rows,
            "more_rows": table.more_rows,
            "more_samples": table.more_samples,
        })
    }

    /// The tables as comma-separated values, one below the other, the event in the first column.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if a row cannot be formatted.
    pub fn csv(&self) -> Result<String, ReportError> {
        let Some(first) = self.tables.first() else { return Ok(String::new()) };
        let mut head = CSV_SHARE.map(String::from).to_vec();
        head.extend(
            ["events", "latency_samples", "latency_sum", "latency_mean", "latency_median"].map(String::from),
        );
        head.extend(first.columns.iter().map(|column| column.name().to_string()));
        let mut rows = vec![head];
        for table in &self.tables {
            let event = table.event.and_then(|event| self.heading.events.get(event.0));
            let name = event.map_or("all", |event| event.name.as_str());
            rows.extend(table.rows.iter().map(|row| csv_row(name, row)));
        }
        csv_text(rows)
    }
}

/// Whether a shell takes a routine's name as one word.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

fn csv_row(name: &str, row: &Row) -> Vec<String> {
    let mut cells = csv_share(name, row.share);
    cells.extend([
        row.events.to_string(),
        row.latency.samples.to_string(),
        row.latency.sum.to_string(),
        csv_number(row.latency.mean()),
        row.latency.median.map_or_else(String::new, |median| median.to_string()),
    ]);
    cells.extend(row.values.iter().map(|value| match value {
        Value::Absent => String::new(),
        value => value.to_string(),
    }));
    cells
}

/// The line below a table about the rows that are left out, and the samples in them.
pub(crate) fn more_rows_text(rows: u64, rest: Share, style: Style) -> String {
    let more = format!(
        "and {} with {} ({}); --all shows them",
        counted(rows, "row"),
        counted(rest.count, "sample"),
        percent(rest)
    );
    format!("  {}\n", style.paint(Tone::Faint, &more))
}

/// The end of a view: warnings about its rows, then the limits of the capture.
pub fn closing_text(heading: &Heading, remarks: &[Remark], style: Style) -> String {
    let item = |remark: &Remark| format!("* {}\n", wrap(&remark.to_string(), style, 2));
    let list: String = remarks.iter().map(item).collect();
    let parts = [list, heading.render_limits(style)];
    parts.iter().filter(|part| !part.is_empty()).map(|part| format!("\n{part}")).collect()
}

/// A warning for machines: its kind and figures, and the sentence for people.
pub fn remark_json(remark: &Remark) -> Json {
    let mut object = json!(remark);
    object["text"] = json!(remark.to_string());
    object
}

fn column(title: String, shown: Shown) -> Column {
    let column = match shown {
        Shown::Measure(_)
        | Shown::Dimension(Dimension::Pid | Dimension::Tid | Dimension::Cpu | Dimension::Set) => {
            Column::right(title)
        }
        Shown::Dimension(_) => Column::left(title),
    };
    match shown {
        Shown::Dimension(Dimension::Statement) => column.cut(Cut::KeepDifference).at_least(40),
        Shown::Dimension(Dimension::Routine) => column.cut(Cut::KeepDifference).at_least(28),
        Shown::Dimension(Dimension::Event | Dimension::Object) => column.cut(Cut::KeepHead),
        Shown::Dimension(Dimension::Image) => column.cut(Cut::KeepTail).spare(2),
        Shown::Dimension(Dimension::Line | Dimension::File) => column.cut(Cut::KeepTail),
        Shown::Measure(Measure::Interval) => column.spare(3),
        Shown::Measure(Measure::MeanLatency) => column.spare(1),
        _ => column,
    }
}

fn dimension_value<'a>(table: &Table, row: &'a Row, dimension: Dimension) -> &'a Value {
    let position = table.columns.iter().position(|column| *column == dimension);
    position.map_or(&Value::Absent, |position| &row.values[position])
}

/// Beside its routine a line is found by the file's name; JSON and CSV have the whole path.
fn file_name(line: &str) -> String {
    line.rsplit('/').next().unwrap_or(line).to_string()
}

fn measure_text(measure: Measure, row: &Row, table: &Table) -> String {
    match measure {
        Measure::Count => grouped(row.share.count),
        Measure::Share => percent(row.share),
        Measure::Interval => percent_interval(row.share),
        Measure::Events => rounded(row.events.0),
        Measure::TotalLatency if row.latency.samples > 0 => grouped(row.latency.sum.0),
        Measure::MeanLatency => row.latency.mean().map_or("-".to_string(), |mean| format!("{mean:.1}")),
        Measure::MedianLatency => row.latency.median.map_or("-".to_string(), |median| grouped(median.0)),
        Measure::Stall => stall_text(row.latency, table.latency),
        Measure::TotalLatency => "-".to_string(),
    }
}
