//! `hardmeter objects`: on what data a program misses.

use crate::advice;
use crate::drawn::view_of;
use crate::heading::EventText;
use crate::layout::{printable, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent, stall_share};
use crate::rows::{
    append_sentences, begin_part, csv_number, csv_share, csv_text, insert_latencies, server_and_filter,
    Counted, Frame, CSV_SHARE,
};
use crate::screen::{Block, Screen, Wanted};
use crate::size::uncertain_order;
use crate::top_view::{more_rows_text, remark_json};
use crate::why::pattern::{in_short, is_named, words};
use crate::ReportError;
use hardmeter_answers::{
    Besides, BesidesKind, ObjectCoverage, ObjectFinding, ObjectLevel, ObjectRow, ObjectTable, ObjectsAnswer,
    Share,
};
use hardmeter_evidence::envelope::envelope;
use hardmeter_samples::model::{EventSource, MissCause};
use serde_json::{json, Map, Value as Json};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

view_of! {
    /// Samples by the object of their data address.
    ObjectsReport(ObjectsAnswer)
}

impl ObjectsReport {
    /// Sentences on the objects that cost most, event by event, and one on samples without a named object.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = self.strongest();
        sentences.extend(self.uncertain_order());
        sentences.extend(self.besides());
        sentences
    }

    /// Of the first event's findings.
    fn uncertain_order(&self) -> Option<String> {
        let first = self.tables.iter().find(|table| !table.findings.is_empty())?;
        let findings = first.findings.iter().map(|finding| (finding.stall, finding.share));
        uncertain_order(&findings.collect::<Vec<_>>())
    }

    fn strongest(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for table in &self.tables {
            let event = &self.heading.events[table.event.0].name;
            sentences.extend(table.findings.iter().map(|finding| {
                let statement = finding.statement.and_then(|(hash, _)| self.statements.get(&hash));
                let mut text = sentence(event, finding, self.heading.source, statement.map(|text| &**text));
                if let Some(advice) = self.advice(finding) {
                    let _ = write!(text, ". Try: {advice}");
                }
                text
            }));
        }
        sentences
    }

    fn advice(&self, finding: &ObjectFinding) -> Option<&'static str> {
        advice::on_object(self.server.as_deref(), &finding.class, &finding.name)
    }

    /// One sentence for all events on costly samples without a named object, with remedies.
    fn besides(&self) -> Option<String> {
        let (mut events, mut named) = (Vec::new(), Vec::new());
        for table in self.tables.iter().filter(|table| !table.besides.is_empty()) {
            let parts = table.besides.iter().map(|besides| {
                // The kind of memory is named once.
                let first = !named.contains(&besides.kind);
                named.push(besides.kind);
                besides_text(besides, first)
            });
            let parts: Vec<String> = parts.collect();
            events.push(format!("of {}, {}", self.heading.events[table.event.0].name, parts.join(" and ")));
        }
        let mut helps: Vec<&str> = Vec::new();
        for besides in self.tables.iter().flat_map(|table| &table.besides) {
            for help in advice::against(besides) {
                if !helps.contains(&help) {
                    helps.push(help);
                }
            }
        }
        let helps =
            if helps.is_empty() { String::new() } else { format!(". Less of it: {}", helps.join("; ")) };
        (!events.is_empty()).then(|| format!("Not on a named object: {}{helps}", events.join("; ")))
    }

    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&self.facts(), |text| {
            if !tables_only {
                append_sentences(&self.sentences(), style, text);
            }
            for table in self.tables.iter().filter(|table| !table.rows.is_empty()) {
                begin_part(text);
                self.render_table(table, style, text);
            }
        })
    }

    /// The lines that this view adds to the heading.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = server_and_filter(self.server.as_ref(), self.filter.as_ref());
        if self.coverage.with_address > 0 {
            facts.push(("named", coverage_text(self.coverage)));
        }
        facts
    }

    /// The first screen.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.server.as_deref().map(server_in_short));
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        if !wanted.quiet {
            screen.findings(self.strongest());
            screen.besides(self.uncertain_order());
            screen.besides(self.besides());
        }
        let tables = || self.tables.iter().filter(|table| !table.rows.is_empty());
        for table in tables() {
            let counts = table.rows.iter().map(|row| row.share.count).collect();
            let block =
                Block::new(&self.heading.events[table.event.0].name, self.about(table), self.grid(table));
            let total = table.coverage.with_address;
            screen.block(block.of(counts, total, (table.more_rows, table.more_samples)));
        }
        screen.remarks(&self.remarks);
        let rows = tables().flat_map(|table| table.findings.iter());
        let relation =
            rows.filter(|row| matches!(&*row.class, "table" | "index")).map(|row| &row.name).next();
        screen.next("why");
        if let Some(name) = relation {
            screen.next(format!("pages {}", name.rsplit('.').next().unwrap_or(name)));
        }
        screen.next("queries --by statement,object");
        screen.text()
    }

    /// The meaning of a table's samples.
    fn about(&self, table: &ObjectTable) -> String {
        let event = &self.heading.events[table.event.0];
        let coverage = table.coverage;
        let passing = coverage.with_address + coverage.without_address;
        let mut text = match passing == event.totals.samples {
            true => event.describe(),
            false => {
                format!("{} of {} pass the filter", counted(passing, "sample"), grouped(event.totals.samples))
            }
        };
        if coverage.without_address > 0 {
            let _ = write!(text, "; {} with a data address", grouped(coverage.with_address));
        }
        text
    }

    fn render_table(&self, table: &ObjectTable, style: Style, text: &mut String) {
        let event = printable(&self.heading.events[table.event.0].name);
        let _ = writeln!(text, "{}: {}", style.paint(Tone::Title, &event), self.about(table));
        text.push_str(&self.grid(table).render(style, 2));
        if table.more_rows > 0 {
            let rest = Share { count: table.more_samples, total: table.coverage.with_address };
            text.push_str(&more_rows_text(table.more_rows, rest, style));
        }
    }

    fn grid(&self, table: &ObjectTable) -> TextTable {
        let unsure = table.rows.iter().any(|row| row.stable.count < row.stable.total);
        let right = |title: &str| Column::right(title);
        let counted = Counted {
            total: table.coverage.with_address,
            ranking: table.ranking,
            latency: table.latency,
            latencies: table.rows.iter().any(|row| row.latency.samples > 0),
        };
        let mut columns = counted.columns((3, 2));
        columns.extend(unsure.then(|| right("sure").spare(1)));
        let cut = |level: &ObjectLevel| match level {
            ObjectLevel::Class | ObjectLevel::Partition => Cut::Never,
            _ => Cut::KeepHead,
        };
        columns.extend(table.levels.iter().map(|level| {
            let column = Column::left(level.name()).cut(cut(level));
            if *level == ObjectLevel::Partition {
                column
            } else {
                column.at_least(24)
            }
        }));
        // Partitions of an object follow each other: their bars are its histogram.
        let mut highest: HashMap<&[Arc<str>], u64> = HashMap::new();
        for row in table.rows.iter().filter(|row| row.of_object.is_some()) {
            let most = highest.entry(&row.names[..2]).or_default();
            *most = row.share.count.max(*most);
        }
        if !highest.is_empty() {
            columns.extend([right("of object"), Column::left("histogram")]);
        }
        let pattern = |row: &ObjectRow| row.pattern.clone().filter(|most| is_named(most, row.share.count));
        let patterns = table.rows.iter().any(|row| pattern(row).is_some());
        columns.extend(patterns.then(|| Column::left("pattern").spare(1)));
        columns.extend(self.defined.iter().map(|name| right(name)));
        let mut grid = TextTable::new(columns);
        for row in &table.rows {
            let mut cells = counted.cells(row.share, row.latency);
            cells.extend(unsure.then(|| (percent(row.stable), Tone::Plain)));
            cells.extend(row.names.iter().map(|name| (name_text(name), Tone::Plain)));
            if let Some(share) = row.of_object {
                let tone = Tone::of_fraction(row.share.fraction());
                let highest = highest.get(&row.names[..2]).copied().unwrap_or(share.count);
                cells.extend([(percent(share), Tone::Plain), (bar(share.count, highest), tone)]);
            }
            let shown = || pattern(row).map_or_else(|| "-".to_string(), |most| in_short(&most));
            cells.extend(patterns.then(|| (shown(), Tone::Plain)));
            cells.extend(row.defined.iter().map(|value| (defined_text(*value), Tone::Plain)));
            grid.row(cells);
        }
        grid
    }

    /// The report for machines.
    pub fn json(&self) -> Json {
        let tables: Vec<Json> = self.tables.iter().map(|table| self.table_json(table)).collect();
        envelope(
            "objects",
            1,
            json!({
                "capture": self.heading,
                "server": self.server,
                "filter": self.filter,
                "coverage": coverage_json(self.coverage),
                "sentences": self.sentences(),
                "tables": tables,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        )
    }

    fn table_json(&self, table: &ObjectTable) -> Json {
        let rows: Vec<Json> = table.rows.iter().map(|row| self.row_json(table, row)).collect();
        json!({
            "event": self.heading.events[table.event.0].name,
            "samples": table.coverage.with_address,
            "coverage": coverage_json(table.coverage),
            "latencies": table.latency,
            "ranking": table.ranking,
            "columns": table.levels,
            "rows": rows,
            "more_rows": table.more_rows,
            "more_samples": table.more_samples,
            "findings": table.findings,
            "besides": table.besides,
        })
    }

    fn row_json(&self, table: &ObjectTable, row: &ObjectRow) -> Json {
        let mut object = Map::new();
        for (level, name) in table.levels.iter().zip(&row.names) {
            object.insert(level.name().into(), json!(name));
        }
        if !self.defined.is_empty() {
            let values = self.defined.iter().cloned().zip(row.defined.iter().map(|value| json!(value)));
            object.insert("defined".into(), Json::Object(values.collect()));
        }
        object.insert("count".into(), json!(row.share.count));
        object.insert("share".into(), json!(row.share));
        if let Some(share) = row.of_object {
            object.insert("of_object".into(), json!(share));
        }
        object.insert("stable".into(), json!(row.stable));
        if let Some(pattern) = &row.pattern {
            object.insert("pattern".into(), json!(pattern));
        }
        object.insert("events".into(), json!(row.events));
        insert_latencies(&mut object, row.latency);
        Json::Object(object)
    }

    /// The tables as comma-separated values, one below the other, the event in the first column.
    ///
    /// # Errors
    ///
    /// [`ReportError::Csv`] if a row cannot be formatted.
    pub fn csv(&self) -> Result<String, ReportError> {
        let Some(first) = self.tables.first() else { return Ok(String::new()) };
        let mut head = CSV_SHARE.map(String::from).to_vec();
        head.extend(["stable", "events", "latency_samples", "latency_mean"].map(String::from));
        head.extend(first.levels.iter().map(|level| level.name().to_string()));
        head.extend(self.defined.iter().cloned());
        let mut rows = vec![head];
        for table in &self.tables {
            let event = &self.heading.events[table.event.0].name;
            rows.extend(table.rows.iter().map(|row| {
                let mut cells = csv_share(event, row.share);
                cells.extend([row.stable.count.to_string(), row.events.to_string()]);
                cells.extend([row.latency.samples.to_string(), csv_number(row.latency.mean())]);
                cells.extend(row.names.iter().map(|name| name.to_string()));
                let defined = row.defined.iter();
                cells.extend(defined.map(|value| value.map_or_else(String::new, |value| value.to_string())));
                cells
            }));
        }
        csv_text(rows)
    }
}

fn coverage_text(coverage: ObjectCoverage) -> String {
    let specific = coverage.specific_share();
    let mut text = format!(
        "{} of {} in user mode more specifically than \"shared memory\" or \"heap\"",
        percent(specific),
        counted(specific.total, "data sample")
    );
    let stable = coverage.stable_share();
    if stable.total > 0 {
        let _ = write!(
            text,
            "; {} of the {} named by the side file surely at that moment",
            percent(stable),
            grouped(stable.total)
        );
    }
    text
}

pub(crate) fn coverage_json(coverage: ObjectCoverage) -> Json {
    let mut object = json!(coverage);
    object["stable_share"] = json!(coverage.stable_share());
    object["specific_share"] = json!(coverage.specific_share());
    object
}

/// `31.00 % of l2-miss (n = 3,412 of 11,006) are on index public.t_pkey, most in its line pointers (62.10 %). ...`
fn sentence(event: &str, finding: &ObjectFinding, source: EventSource, statement: Option<&str>) -> String {
    let name = match &*finding.name {
        "" => finding.class.to_string(),
        name => format!("{} {name}", finding.class),
    };
    let mut text = format!(
        "{} of {event} (n = {} of {}): {name}",
        percent(finding.share),
        grouped(finding.share.count),
        grouped(finding.share.total)
    );
    if let Some(stall) = finding.stall {
        text = format!("{}; {text}", stall_share(stall));
    }
    if let Some((part, share)) = &finding.part {
        let _ = write!(text, ", most in {part} ({})", percent(*share));
    }
    if let Some((cause, share)) = finding.cause {
        let basis = if source == EventSource::Simulated { ", exact (simulated)" } else { "" };
        let _ = write!(text, ". Why: {} ({}{basis})", cause_text(cause), percent(share));
    }
    let contended = finding.cause.is_some_and(|(cause, _)| cause == MissCause::Coherence);
    let pattern = finding.pattern.as_ref().filter(|most| !contended && is_named(most, finding.share.count));
    if let Some(pattern) = pattern {
        let share = Share { count: pattern.count, total: finding.share.count };
        let _ = write!(text, ". How: {} {}", percent(share), words(pattern));
    }
    if let (Some(statement), Some((_, share))) = (statement, finding.statement) {
        let _ = write!(text, ". For: {} ({})", shortened(statement), percent(share));
    }
    text
}

/// `53.46 % of the stall time (n = 261 of 6,005) is on memory without a name (heap outside memory contexts, ...)`
fn besides_text(besides: &Besides, named: bool) -> String {
    const NAMES: usize = 2;
    let share = besides.share;
    let n = format!("n = {} of {}", grouped(share.count), grouped(share.total));
    let size = match besides.stall {
        Some(stall) => format!("{} ({n})", stall_share(stall)),
        None => format!("{} ({n})", percent(share)),
    };
    if besides.kind == BesidesKind::Code {
        return format!("{size} fetches code");
    }
    let names = besides.most.iter().take(NAMES).filter(|_| named);
    let names: Vec<String> =
        names.map(|(class, name, _)| format!("{class} {name}").trim_end().to_string()).collect();
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("{size} is on memory without a name{names}")
}

fn cause_text(cause: MissCause) -> &'static str {
    match cause {
        MissCause::Cold => "first use of the line, a cold miss",
        MissCause::Capacity => "more data in use than the cache holds, a capacity miss",
        MissCause::Conflict => "too many lines for one set of the cache, a conflict miss",
        MissCause::Coherence => "another core wrote the line, a coherence miss",
    }
}

/// `PostgreSQL 15.20 (process 20421)` without the process.
pub(crate) fn server_in_short(server: &str) -> String {
    server.split(" (process").next().unwrap_or(server).to_string()
}

/// A statement shortened to the beginning of one line.
pub(crate) fn shortened(statement: &str) -> String {
    const MOST: usize = 60;
    let line = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MOST {
        return line;
    }
    line.chars().take(MOST - 1).chain(['…']).collect()
}

/// A bar for a partition, beside the object's highest.
fn bar(count: u64, highest: u64) -> String {
    const WIDTH: f64 = 12.0;
    "#".repeat((count as f64 / highest.max(1) as f64 * WIDTH).round() as usize)
}

fn name_text(name: &str) -> String {
    if name.is_empty() { "-" } else { name }.to_string()
}

fn defined_text(value: Option<i64>) -> String {
    value.map_or("-".to_string(), |value| value.to_string())
}
