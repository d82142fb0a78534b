//! Shared by the views of tables: the frame around their text, and the figures of a row as cells, JSON and CSV.

use crate::heading::HeadingText;
use crate::layout::{Column, Style, Tone};
use crate::number::{grouped, percent, percent_interval};
use crate::screen::sentences_text;
use crate::top_view::closing_text;
use crate::ReportError;
use hardmeter_answers::{Heading, LatencySummary, QueryColumn, Ranking, Remark, Share};
use hardmeter_samples::model::StatementId;
use serde_json::{json, Map, Value as Json};
use std::sync::Arc;

/// The frame of a view's text.
pub(crate) struct Frame<'r> {
    pub(crate) heading: &'r Heading,
    pub(crate) remarks: &'r [Remark],
    pub(crate) style: Style,
    /// Leave heading and warnings out.
    pub(crate) tables_only: bool,
}

impl Frame<'_> {
    /// The heading with the view's own facts, the view, and the warnings.
    pub(crate) fn around(&self, facts: &[(&str, String)], body: impl FnOnce(&mut String)) -> String {
        let mut text = match self.tables_only {
            true => String::new(),
            false => self.heading.render(self.style, facts),
        };
        body(&mut text);
        if !self.tables_only {
            text.push_str(&closing_text(self.heading, self.remarks, self.style));
        }
        text
    }
}

/// The fact of a heading that names the filter, if there is one.
pub(crate) fn only(filter: Option<&String>) -> Vec<(&'static str, String)> {
    filter.map(|filter| ("only", filter.clone())).into_iter().collect()
}

/// The facts of a heading that name the recorded server and the filter.
pub(crate) fn server_and_filter(
    server: Option<&String>,
    filter: Option<&String>,
) -> Vec<(&'static str, String)> {
    let server = server.map(|server| ("server", server.clone()));
    server.into_iter().chain(only(filter)).collect()
}

/// An empty line between two parts of a text.
pub(crate) fn begin_part(text: &mut String) {
    if !text.is_empty() {
        text.push('\n');
    }
}

/// The first columns of a table by count or stall time, and the cells of a row below them.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    /// The samples of the table.
    pub(crate) total: u64,
    pub(crate) ranking: Ranking,
    /// The latencies of the table.
    pub(crate) latency: LatencySummary,
    /// Whether rows have latencies.
    pub(crate) latencies: bool,
}

impl Counted {
    /// The columns; `spares` says how soon a narrow terminal drops the interval and the mean.
    pub(crate) fn columns(&self, spares: (u8, u8)) -> Vec<Column> {
        let mut columns = Vec::new();
        if self.ranking == Ranking::Stall {
            columns.push(Column::right("stall"));
        }
        columns.extend([
            Column::right("count"),
            Column::right(format!("of {}", grouped(self.total))),
            Column::right("interval").spare(spares.0),
        ]);
        columns.extend(self.latencies.then(|| Column::right("mean-latency").spare(spares.1)));
        columns
    }

    /// The cells of a row.
    pub(crate) fn cells(&self, share: Share, latency: LatencySummary) -> Vec<(String, Tone)> {
        let tone = Tone::of_fraction(share.fraction());
        let mut cells = Vec::new();
        if self.ranking == Ranking::Stall {
            cells.push((stall_text(latency, self.latency), tone));
        }
        cells.extend([
            (grouped(share.count), tone),
            (percent(share), tone),
            (percent_interval(share), Tone::Faint),
        ]);
        let mean = || latency.mean().map_or("-".to_string(), |mean| format!("{mean:.1}"));
        cells.extend(self.latencies.then(|| (mean(), Tone::Plain)));
        cells
    }
}

/// The share of a group's latencies in those of its table.
pub(crate) fn stall_text(group: LatencySummary, all: LatencySummary) -> String {
    group.percent_of(all.sum).map_or("-".to_string(), |percent| format!("{percent:.2} %"))
}

/// Adds a row's latencies to its JSON. Not "latency": that is the column of latencies in powers of two.
pub(crate) fn insert_latencies(object: &mut Map<String, Json>, latency: LatencySummary) {
    if latency.samples > 0 {
        let mut latencies = json!(latency);
        latencies["mean"] = json!(latency.mean());
        object.insert("latencies".into(), latencies);
    }
}

/// A number in CSV; empty if there is none.
pub(crate) fn csv_number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.6}"))
}

/// The first cells of a row in CSV: its table, count, n, share, and the share's interval.
pub(crate) fn csv_share(table: &str, share: Share) -> Vec<String> {
    let interval = share.interval();
    vec![
        table.to_string(),
        share.count.to_string(),
        share.total.to_string(),
        format!("{:.6}", share.fraction()),
        csv_number(interval.map(|interval| interval.low)),
        csv_number(interval.map(|interval| interval.high)),
    ]
}

/// The titles of [`csv_share`]'s cells.
pub(crate) const CSV_SHARE: [&str; 6] = ["table", "count", "n", "share", "share_low", "share_high"];

/// Rows as comma-separated values.
///
/// # Errors
///
/// [`ReportError::Csv`] if a row cannot be formatted.
pub(crate) fn csv_text<R>(rows: impl IntoIterator<Item = R>) -> Result<String, ReportError>
where
    R: IntoIterator,
    R::Item: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Appends sentences, after an empty line.
pub(crate) fn append_sentences(sentences: &[String], style: Style, text: &mut String) {
    if !sentences.is_empty() {
        begin_part(text);
        text.push_str(&sentences_text(sentences, style));
    }
}

/// Adds the values of a row to its JSON, each under the name of its column.
pub(crate) fn insert_values(
    object: &mut Map<String, Json>,
    columns: &[QueryColumn],
    values: &[Option<Arc<str>>],
) {
    for (column, value) in columns.iter().zip(values) {
        object.insert(column.name().into(), json!(value));
    }
}

/// Adds a statement's identity and the server's own number to the JSON of a row. As text: JSON numbers lose bits above
/// 2^53.
pub(crate) fn insert_ids(
    object: &mut Map<String, Json>,
    statement: StatementId,
    servers_number: Option<i64>,
) {
    object.insert("statement_id".into(), json!(statement.to_string()));
    object.insert("query_id".into(), json!(servers_number.map(|number| number.to_string())));
}
