//! `hardmeter queries`: for whom a server misses.

use crate::capture::{Capture, WalkOptions};
use crate::heading::Heading;
use crate::layout::{printable, Align, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent, percent_interval};
use crate::objects_view::{events_shown, no_notes, remarks_of_notes, shortened};
use crate::top_view::{closing_text, remark_json, sentences_text};
use crate::workload::Workload;
use crate::ReportError;
use hardmeter_answers::{
    CodeMarks, QueryColumn, QueryCount, QueryCoverage, QueryRow, QueryTable, Remark, Share, SideBySide,
};
use serde_json::{json, Map, Value as Json};
use std::fmt::Write;
use std::ops::ControlFlow;

/// What to show.
pub struct QueriesOptions<'a> {
    /// Which samples, where names are looked for, how it is watched.
    pub walk: WalkOptions<'a>,
    /// The filter in words.
    pub filter_text: Option<String>,
    /// The columns.
    pub columns: Vec<QueryColumn>,
    /// Rows per table; `None` for all.
    pub limit: Option<usize>,
    /// Whether the events stand side by side in one table.
    pub side_by_side: bool,
}

/// Samples by whom they were for.
#[derive(Clone, Debug)]
pub struct QueriesReport {
    /// How the capture came to be.
    pub heading: Heading,
    /// The filter in words, if samples were filtered.
    pub filter: Option<String>,
    /// What was looked into while recording, if there are notes.
    pub server: Option<String>,
    /// One table per event with samples.
    pub tables: Vec<QueryTable>,
    /// The same events in one table, where that was asked for.
    pub side_by_side: Option<SideBySide>,
    /// Of how many samples it is known for whom they were.
    pub coverage: QueryCoverage,
    /// What the server counted while it was recorded.
    pub workload: Workload,
    /// What a reader must know besides.
    pub remarks: Vec<Remark>,
    /// What could not be read of the capture.
    pub unread: Vec<String>,
}

impl QueriesReport {
    /// Walks over the capture and counts.
    ///
    /// # Errors
    ///
    /// [`ReportError`] if the capture cannot be read.
    pub fn make(capture: &Capture, options: QueriesOptions<'_>) -> Result<QueriesReport, ReportError> {
        let filter = options.walk.filter.clone();
        let mut count = QueryCount::new(CodeMarks::new(capture.object_notes()));
        let mut walk = capture.walk_with_objects(options.walk, &mut |pass, sample, located| {
            count.add(sample, located, pass);
            Ok(ControlFlow::Continue(()))
        })?;
        let events = events_shown(capture, &filter, &walk);
        let heading = capture.heading(&walk);
        let statements = walk.pass.statements().clone();
        let index = walk.pass.objects();
        let tables = |limit| -> Vec<QueryTable> {
            let tables =
                events.iter().map(|event| count.table(*event, &options.columns, limit, index, &statements));
            tables.filter(|table| table.total > 0).collect()
        };
        let side_by_side = options.side_by_side.then(|| SideBySide::of(&tables(None), options.limit));
        let tables = tables(options.limit);
        let coverage = count.coverage(index);
        let mut remarks = missing(capture, coverage, &options.columns, statements.is_empty());
        remarks.extend(walk.remarks(None));
        let workload = Workload::of(capture);
        remarks.extend(workload.remarks.iter().cloned());
        Ok(QueriesReport {
            heading,
            filter: options.filter_text,
            server: capture.object_notes().map(|notes| notes.server.clone()),
            tables,
            side_by_side,
            coverage,
            workload,
            remarks,
            unread: walk.unread(),
        })
    }

    /// The report as text; `tables_only` leaves out the heading and the remarks.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let mut text = String::new();
        if !tables_only {
            text = self.heading.render(style, &self.facts());
        }
        if let Some(table) = &self.side_by_side {
            if !text.is_empty() {
                text.push('\n');
            }
            self.render_side_by_side(table, style, &mut text);
            if !tables_only {
                text.push_str(&closing_text(&self.heading, &self.remarks, style));
            }
            return text;
        }
        if !tables_only {
            let sentences = self.sentences();
            if !sentences.is_empty() {
                text.push('\n');
            }
            text.push_str(&sentences_text(&sentences, style));
        }
        for table in &self.tables {
            if !text.is_empty() {
                text.push('\n');
            }
            self.render_table(table, style, &mut text);
        }
        if !tables_only {
            text.push_str(&closing_text(&self.heading, &self.remarks, style));
        }
        text
    }

    /// What this view adds to the heading.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        facts.extend(self.server.iter().map(|server| ("server", server.clone())));
        facts.extend(self.filter.iter().map(|filter| ("only", filter.clone())));
        let share = self.coverage.statement_share();
        if share.total > 0 {
            let of = counted(share.total, "sample");
            let mut told = format!("{} of {of} in backends carry a statement", percent(share));
            let over = self.coverage.over_share();
            if over.count > 0 {
                let _ = write!(told, " ({} one that was over)", percent(over));
            }
            let starting = self.coverage.starting_share();
            if starting.count > 0 {
                let before = "were taken before the first statement of their backend";
                let _ = write!(told, "; {} {before}", percent(starting));
            }
            facts.push(("statements", told));
        }
        facts.extend(self.workload.text().map(|text| ("workload", text)));
        facts
    }

    /// One sentence for each of the statements with 5 % of an event's samples or more, three of an event at most.
    pub fn sentences(&self) -> Vec<String> {
        const MOST: usize = 3;
        let mut sentences = Vec::new();
        for table in &self.tables {
            let told =
                |row: &&QueryRow| row.values.iter().any(Option::is_some) && row.share.fraction() >= 0.05;
            for row in table.rows.iter().filter(told).take(MOST) {
                let values: Vec<String> = row.values.iter().flatten().map(|value| shortened(value)).collect();
                let mut text = format!(
                    "{} (n = {} of {}) of {}: {}",
                    percent(row.share),
                    grouped(row.share.count),
                    grouped(row.share.total),
                    self.heading.events[table.event.0].name,
                    values.join(", ")
                );
                let by_object = table.columns.contains(&QueryColumn::Object);
                if let Some((object, share)) = row.object.as_ref().filter(|_| !by_object) {
                    let _ = write!(text, "; most on {object} ({})", percent(*share));
                }
                // Which rows a statement read or wrote the counters do not tell; each is part of a transaction.
                let transactions = self.workload.divisors();
                if let Some((unit, number)) =
                    transactions.first().filter(|(unit, _)| !unit.starts_with("row"))
                {
                    let each = self.heading.events[table.event.0].each(row.events.0, *number);
                    let _ = write!(text, "; {each} a {unit}");
                }
                sentences.push(text);
            }
        }
        sentences
    }

    fn render_table(&self, table: &QueryTable, style: Style, text: &mut String) {
        let event = &self.heading.events[table.event.0];
        let _ = write!(text, "{}: ", style.paint(Tone::Title, &printable(&event.name)));
        let _ = match table.total == event.totals.samples {
            true => writeln!(text, "{}", event.describe()),
            false => {
                let all = grouped(event.totals.samples);
                writeln!(text, "{} of {all} pass the filter", counted(table.total, "sample"))
            }
        };
        let latency = table.rows.iter().any(|row| row.latency.samples > 0);
        let right = |title: &str| (title.to_string(), Align::Right, Cut::Never);
        let mut columns =
            vec![right("count"), right(&format!("of {}", grouped(table.total))), right("interval")];
        columns.extend(latency.then(|| right("mean-latency")));
        let divisors = self.workload.columns();
        columns.extend(divisors.iter().map(|(unit, _)| right(&format!("per {unit}"))));
        let query_ids = table.rows.iter().any(|row| row.servers_number.is_some());
        columns.extend(query_ids.then(|| right("query-id")));
        columns.extend(table.columns.iter().map(|column| {
            let cut = if *column == QueryColumn::Statement { Cut::KeepHead } else { Cut::Never };
            (column.name().to_string(), Align::Left, cut)
        }));
        let mut grid = TextTable::new(columns);
        for row in &table.rows {
            let tone = Tone::of_fraction(row.share.fraction());
            let mut cells = vec![
                (grouped(row.share.count), tone),
                (percent(row.share), tone),
                (percent_interval(row.share), Tone::Faint),
            ];
            let mean = || row.latency.mean().map_or("-".to_string(), |mean| format!("{mean:.1}"));
            cells.extend(latency.then(|| (mean(), Tone::Plain)));
            let each = divisors.iter().map(|(_, number)| event.each(row.events.0, *number));
            cells.extend(each.map(|each| (each, Tone::Plain)));
            let number = || row.servers_number.map_or("-".to_string(), |number| number.to_string());
            cells.extend(query_ids.then(|| (number(), Tone::Plain)));
            cells.extend(row.values.iter().map(|value| {
                let value = value.as_deref().unwrap_or("-");
                (value.split_whitespace().collect::<Vec<_>>().join(" "), Tone::Plain)
            }));
            grid.row(cells);
        }
        text.push_str(&grid.render(style, 2));
        if table.more_rows > 0 {
            let rest = Share { count: table.more_samples, total: table.total };
            let more = format!(
                "and {} with {} ({}); --all shows them",
                counted(table.more_rows, "row"),
                counted(rest.count, "sample"),
                percent(rest)
            );
            let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &more));
        }
    }

    /// The report for machines.
    pub fn json(&self) -> Json {
        let tables: Vec<Json> = self.tables.iter().map(|table| self.table_json(table)).collect();
        let mut coverage = json!(self.coverage);
        coverage["starting_share"] = json!(self.coverage.starting_share());
        coverage["statement_share"] = json!(self.coverage.statement_share());
        let mut report = json!({
            "format": "hardmeter-queries",
            "version": 1,
            "capture": self.heading,
            "server": self.server,
            "filter": self.filter,
            "coverage": coverage,
            "workload": self.workload.figures,
            "workload_databases": self.workload.databases,
            "sentences": self.sentences(),
            "tables": tables,
            "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
        });
        if let Some(table) = &self.side_by_side {
            report["side_by_side"] = self.side_by_side_json(table);
        }
        report
    }

    fn table_json(&self, table: &QueryTable) -> Json {
        let rows: Vec<Json> = table.rows.iter().map(|row| self.row_json(table, row)).collect();
        json!({
            "event": self.heading.events[table.event.0].name,
            "samples": table.total,
            "columns": table.columns,
            "rows": rows,
            "more_rows": table.more_rows,
            "more_samples": table.more_samples,
        })
    }

    fn row_json(&self, table: &QueryTable, row: &QueryRow) -> Json {
        let mut object = Map::new();
        for (column, value) in table.columns.iter().zip(&row.values) {
            object.insert(column.name().into(), json!(value));
        }
        if let Some(statement) = row.statement {
            // As text: JSON's numbers lose bits above 2^53.
            object.insert("statement_id".into(), json!(format!("{:016x}", statement.0)));
            object.insert("query_id".into(), json!(row.servers_number.map(|number| number.to_string())));
        }
        object.insert("count".into(), json!(row.share.count));
        object.insert("share".into(), json!(row.share));
        object.insert("events".into(), json!(row.events));
        let each = self.workload.divisors().into_iter();
        let each = each.map(|(unit, number)| (unit, json!(row.events.0 as f64 / number)));
        object.insert("events_per".into(), Json::Object(each.collect()));
        if let Some((name, share)) = &row.object {
            object.insert("most_on".into(), json!({ "object": name, "share": share }));
        }
        if row.latency.samples > 0 {
            let mut latency = json!(row.latency);
            latency["mean"] = json!(row.latency.mean());
            object.insert("latencies".into(), latency);
        }
        Json::Object(object)
    }

    /// The tables as comma-separated values, one below the other, the event in the first column.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if a row cannot be formatted.
    pub fn csv(&self) -> Result<String, ReportError> {
        if let Some(table) = &self.side_by_side {
            return self.side_by_side_csv(table);
        }
        let mut writer = csv::Writer::from_writer(Vec::new());
        let Some(first) = self.tables.first() else { return Ok(String::new()) };
        let mut head: Vec<String> =
            ["table", "count", "n", "share", "share_low", "share_high", "events"].map(String::from).to_vec();
        let divisors = self.workload.divisors();
        head.extend(divisors.iter().map(|(unit, _)| format!("events_per_{unit}")));
        head.extend(["latency_samples", "latency_mean"].map(String::from));
        head.extend(first.columns.iter().map(|column| column.name().to_string()));
        writer.write_record(&head)?;
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
        for table in &self.tables {
            for row in &table.rows {
                let interval = row.share.interval();
                let mut cells = vec![
                    self.heading.events[table.event.0].name.clone(),
                    row.share.count.to_string(),
                    row.share.total.to_string(),
                    number(Some(row.share.fraction())),
                    number(interval.map(|interval| interval.low)),
                    number(interval.map(|interval| interval.high)),
                    row.events.to_string(),
                ];
                cells.extend(divisors.iter().map(|(_, each)| number(Some(row.events.0 as f64 / each))));
                cells.extend([row.latency.samples.to_string(), number(row.latency.mean())]);
                cells.extend(row.values.iter().map(|value| value.as_deref().unwrap_or("").to_string()));
                writer.write_record(&cells)?;
            }
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// What the capture lacks for the columns asked for, and how to have it.
fn missing(
    capture: &Capture,
    coverage: QueryCoverage,
    columns: &[QueryColumn],
    no_statements: bool,
) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    let mut say = |text: &str| remarks.push(Remark::Limit { text: text.to_string() });
    let by = |column| columns.contains(&column);
    if by(QueryColumn::Statement) && no_statements {
        say("the capture records no statement; record a PostgreSQL server (hardmeter record --server DIR or -p PID) \
             with the software PMU, or as root with --statements");
    }
    let by_chain = by(QueryColumn::Operator) || by(QueryColumn::Phase);
    if by_chain && coverage.samples > 0 && coverage.with_callchain == 0 {
        say("no sample has a call chain, which operators and phases are derived from; record with --call-graph");
    }
    let marks = capture.object_notes().is_some_and(|notes| !notes.marks.is_empty());
    if by_chain && capture.object_notes().is_some() && !marks {
        say("the notes on objects do not tell which code is an operator or a phase");
    }
    let by_notes = by_chain || by(QueryColumn::Role) || by(QueryColumn::Object);
    remarks.extend(no_notes(capture).filter(|_| by_notes));
    remarks.extend(remarks_of_notes(capture));
    remarks
}
