//! `hardmeter queries`: for whom a server misses.

use crate::drawn::view_of;
use crate::heading::EventText;
use crate::layout::{printable, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped, percent, stall_share};
use crate::objects_view::{server_in_short, shortened};
use crate::rows::{
    append_sentences, begin_part, csv_number, csv_share, csv_text, insert_ids, insert_latencies,
    insert_values, server_and_filter, Counted, Frame, CSV_SHARE,
};
use crate::screen::{Block, Screen, Wanted};
use crate::size::{size, uncertain_order};
use crate::top_view::{more_rows_text, remark_json};
use crate::workload;
use crate::ReportError;
use hardmeter_answers::{QueriesAnswer, QueryColumn, QueryRow, QueryTable, Ranking, Share, StallShare};
use hardmeter_evidence::envelope::envelope;
use serde_json::{json, Map, Value as Json};
use std::fmt::Write;

view_of! {
    /// Samples by whom they were for.
    QueriesReport(QueriesAnswer)
}

impl QueriesReport {
    /// The report as text; `tables_only` leaves out the heading and the warnings.
    pub fn render(&self, style: Style, tables_only: bool) -> String {
        let frame = Frame { heading: &self.heading, remarks: &self.remarks, style, tables_only };
        frame.around(&self.facts(), |text| {
            if let Some(table) = &self.side_by_side {
                begin_part(text);
                return self.render_side_by_side(table, style, text);
            }
            if !tables_only {
                append_sentences(&self.sentences(), style, text);
            }
            for table in &self.tables {
                begin_part(text);
                self.render_table(table, style, text);
            }
        })
    }

    /// The lines that this view adds to the heading.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = server_and_filter(self.server.as_ref(), self.filter.as_ref());
        let share = self.coverage.statement_share();
        if share.total > 0 {
            let of = counted(share.total, "sample");
            let mut told = format!("{} of {of} in backends carry a statement", percent(share));
            let over = self.coverage.over_share();
            if over.count > 0 {
                let _ = write!(told, " ({} one that was over)", percent(over));
            }
            let starting = self.coverage.starting_share();
            if starting.count > 0 && share.count > 0 {
                let before = "were taken before the first statement of their backend";
                let _ = write!(told, "; {} {before}", percent(starting));
            }
            facts.push(("statements", told));
        }
        facts.extend(workload::text(&self.workload).map(|text| ("workload", text)));
        facts
    }

    /// One sentence for each of the strongest statements, three of an event at most, and one on samples
    /// outside of statements.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = self.strongest();
        sentences.extend(self.uncertain_order());
        sentences.extend(self.outside());
        sentences
    }

    /// Statements with 5 % or more; if there are fewer than three, smaller ones with enough samples.
    fn strongest(&self) -> Vec<String> {
        let sentences = self
            .tables
            .iter()
            .flat_map(|table| self.found(table).into_iter().map(|row| self.sentence(table, row)));
        sentences.collect()
    }

    /// The rows that get a sentence.
    fn found<'t>(&self, table: &'t QueryTable) -> Vec<&'t QueryRow> {
        const MOST: usize = 3;
        const LARGE: f64 = 5.0;
        const SMALL: f64 = 0.5;
        const LEAST_SAMPLES: u64 = 10;
        let stated = |row: &&QueryRow| match table.outside {
            Some(_) => row.statement.is_some(),
            None => row.values.iter().any(Option::is_some),
        };
        let shown = |row: &&QueryRow| {
            let size = size(stall(table, row), row.share);
            size >= LARGE || (size >= SMALL && row.share.count >= LEAST_SAMPLES)
        };
        table.rows.iter().filter(stated).filter(shown).take(MOST).collect()
    }

    /// Of the first event's findings.
    fn uncertain_order(&self) -> Option<String> {
        let mut tables = self.tables.iter().map(|table| (table, self.found(table)));
        let (table, rows) = tables.find(|(_, rows)| !rows.is_empty())?;
        uncertain_order(&rows.iter().map(|row| (stall(table, row), row.share)).collect::<Vec<_>>())
    }

    fn sentence(&self, table: &QueryTable, row: &QueryRow) -> String {
        let values: Vec<String> = row.values.iter().flatten().map(|value| shortened(value)).collect();
        let mut text = format!(
            "{} (n = {} of {}) of {}: {}",
            percent(row.share),
            grouped(row.share.count),
            grouped(row.share.total),
            self.heading.events[table.event.0].name,
            values.join(", ")
        );
        if let Some(stall) = stall(table, row) {
            text = format!("{}; {text}", stall_share(stall));
        }
        let by_object = table.columns.contains(&QueryColumn::Object);
        if let Some((object, share)) = row.object.as_ref().filter(|_| !by_object) {
            let _ = write!(text, "; most on {object} ({})", percent(*share));
        }
        // The counters do not attribute rows to statements; each statement is part of a transaction.
        let transactions = self.workload.divisors();
        if let Some((unit, number)) = transactions.first().filter(|(unit, _)| !unit.starts_with("row")) {
            let each = self.heading.events[table.event.0].each(row.events.0, *number);
            let _ = write!(text, "; {each} a {unit}");
        }
        text
    }

    /// The samples outside of statements, for each event where they are 5 % or more, and remedies for them.
    fn outside(&self) -> Option<String> {
        const LARGE: f64 = 5.0;
        let told = self.tables.iter().filter_map(|table| {
            let (share, latency) = table.outside?;
            let stall = match table.ranking {
                Ranking::Count => None,
                Ranking::Stall => latency.stall_of(&table.latency),
            };
            let event = &self.heading.events[table.event.0].name;
            let n = format!("n = {} of {}", grouped(share.count), grouped(share.total));
            (size(stall, share) >= LARGE).then(|| match stall {
                Some(stall) => format!("{} of {event} ({n})", stall_share(stall)),
                None => format!("{} of {event} ({n})", percent(share)),
            })
        });
        let told: Vec<String> = told.collect();
        (!told.is_empty()).then(|| {
            format!(
                "Outside of statements: {}, in backends that start, end or wait for a client, and in other processes. \
                 Less of it: keep connections open (a pool); record --delay leaves their start out",
                told.join(", ")
            )
        })
    }

    /// The first screen.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let mut screen = Screen::new(&self.heading, style, wanted);
        screen.about(self.server.as_deref().map(server_in_short));
        screen.about(self.filter.iter().map(|filter| format!("only {filter}")));
        screen.about(workload::transactions(&self.workload));
        screen.remarks(&self.remarks);
        let apart = match &self.side_by_side {
            Some(table) => {
                screen.block(self.side_by_side_block(table));
                &[][..]
            }
            None => &self.tables[..],
        };
        if !wanted.quiet && !apart.is_empty() {
            screen.findings(self.strongest());
            screen.besides(self.uncertain_order());
            screen.besides(self.outside());
        }
        for table in apart {
            let counts = table.rows.iter().map(|row| row.share.count).collect();
            let block =
                Block::new(&self.heading.events[table.event.0].name, self.about(table), self.grid(table));
            screen.block(block.of(counts, table.total, (table.more_rows, table.more_samples)));
        }
        screen.next("queries --by statement,object");
        screen.next("queries --by statement,operator --side-by-side");
        screen.next("why");
        screen.text()
    }

    /// The meaning of a table's samples.
    fn about(&self, table: &QueryTable) -> String {
        let event = &self.heading.events[table.event.0];
        match table.total == event.totals.samples {
            true => event.describe(),
            false => {
                let all = grouped(event.totals.samples);
                format!("{} of {all} pass the filter", counted(table.total, "sample"))
            }
        }
    }

    fn render_table(&self, table: &QueryTable, style: Style, text: &mut String) {
        let event = printable(&self.heading.events[table.event.0].name);
        let _ = writeln!(text, "{}: {}", style.paint(Tone::Title, &event), self.about(table));
        text.push_str(&self.grid(table).render(style, 2));
        if table.more_rows > 0 {
            let rest = Share { count: table.more_samples, total: table.total };
            text.push_str(&more_rows_text(table.more_rows, rest, style));
        }
    }

    fn grid(&self, table: &QueryTable) -> TextTable {
        let event = &self.heading.events[table.event.0];
        let right = |title: &str| Column::right(title);
        let counted = Counted {
            total: table.total,
            ranking: table.ranking,
            latency: table.latency,
            latencies: table.rows.iter().any(|row| row.latency.samples > 0),
        };
        let mut columns = counted.columns((4, 3));
        let divisors = self.workload.columns();
        columns.extend(
            divisors.iter().map(|(unit, _)| right(&format!("per {unit}")).spare(spare_of_unit(unit))),
        );
        let query_ids = table.rows.iter().any(|row| row.servers_number.is_some());
        columns.extend(query_ids.then(|| right("query-id").spare(1)));
        columns.extend(table.columns.iter().map(|column| text_column(*column)));
        let mut grid = TextTable::new(columns);
        for row in &table.rows {
            let mut cells = counted.cells(row.share, row.latency);
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
        grid
    }

    /// The report for machines.
    pub fn json(&self) -> Json {
        let tables: Vec<Json> = self.tables.iter().map(|table| self.table_json(table)).collect();
        let mut coverage = json!(self.coverage);
        coverage["starting_share"] = json!(self.coverage.starting_share());
        coverage["statement_share"] = json!(self.coverage.statement_share());
        let mut report = envelope(
            "queries",
            1,
            json!({
                "capture": self.heading,
                "server": self.server,
                "filter": self.filter,
                "coverage": coverage,
                "workload": self.workload.figures,
                "workload_databases": self.workload.databases,
                "sentences": self.sentences(),
                "tables": tables,
                "remarks": self.remarks.iter().map(remark_json).collect::<Vec<_>>(),
            }),
        );
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
            "latencies": table.latency,
            "ranking": table.ranking,
            "columns": table.columns,
            "rows": rows,
            "more_rows": table.more_rows,
            "more_samples": table.more_samples,
        })
    }

    fn row_json(&self, table: &QueryTable, row: &QueryRow) -> Json {
        let mut object = Map::new();
        insert_values(&mut object, &table.columns, &row.values);
        if let Some(statement) = row.statement {
            insert_ids(&mut object, statement, row.servers_number);
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
        insert_latencies(&mut object, row.latency);
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
        let Some(first) = self.tables.first() else { return Ok(String::new()) };
        let divisors = self.workload.divisors();
        let mut head = CSV_SHARE.map(String::from).to_vec();
        head.push("events".into());
        head.extend(divisors.iter().map(|(unit, _)| format!("events_per_{unit}")));
        head.extend(["latency_samples", "latency_mean"].map(String::from));
        head.extend(first.columns.iter().map(|column| column.name().to_string()));
        let mut rows = vec![head];
        for table in &self.tables {
            let event = &self.heading.events[table.event.0].name;
            rows.extend(table.rows.iter().map(|row| {
                let mut cells = csv_share(event, row.share);
                cells.push(row.events.to_string());
                cells.extend(divisors.iter().map(|(_, each)| csv_number(Some(row.events.0 as f64 / each))));
                cells.extend([row.latency.samples.to_string(), csv_number(row.latency.mean())]);
                cells.extend(row.values.iter().map(|value| value.as_deref().unwrap_or("").to_string()));
                cells
            }));
        }
        csv_text(rows)
    }
}

/// A row's share of the stall, where rows are ordered by it.
fn stall(table: &QueryTable, row: &QueryRow) -> Option<StallShare> {
    match table.ranking {
        Ranking::Count => None,
        Ranking::Stall => row.latency.stall_of(&table.latency),
    }
}

/// A statement's column gets the remaining width; an object's is cut before it.
pub(crate) fn text_column(column: QueryColumn) -> Column {
    let text = Column::left(column.name());
    match column {
        QueryColumn::Statement => text.cut(Cut::KeepDifference).at_least(40),
        QueryColumn::Object => text.cut(Cut::KeepTail).at_least(20),
        QueryColumn::Operator | QueryColumn::Phase | QueryColumn::Role => {
            text.cut(Cut::KeepHead).at_least(16)
        }
    }
}

/// Events per transaction are the most informative cost of a statement.
fn spare_of_unit(unit: &str) -> u8 {
    if unit == "transaction" {
        1
    } else {
        2
    }
}
