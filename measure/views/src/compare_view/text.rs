//! A comparison as a first screen and as a complete text.

use super::sentences::{event_name, rate};
use super::{signed_interval, signed_percent, CompareReport};
use crate::layout::{one_line, wrap, Column, Cut, Style, TextTable, Tone};
use crate::number::{counted, grouped};
use crate::screen::{sentences_text, Wanted, COLUMNS, LINES};
use hardmeter_answers::{CompareColumn, ComparedEvent, ComparedRow, ComparedTable, Per, Side, DISCOVERY};
use std::fmt::Write;

/// Lines of sentences on a first screen.
const SENTENCES: usize = 10;
/// Lines of notes on a first screen.
const NOTES: usize = 3;
/// Number of rows shown that chance explains, if no row differs.
const OTHERS: usize = 3;
/// Lines around a table: a blank line, the title, the column heads, the note about omitted rows.
const FRAME: usize = 4;

impl CompareReport {
    /// One screen: sentences about what differs, the two sides, the rows that differ most.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let style = Style { width: Some(style.width.unwrap_or(COLUMNS)), ..style };
        let mut head = String::new();
        for sentence in self.sentences() {
            let text = sentences_text(&[sentence], style);
            if head.lines().count() + text.lines().count() > SENTENCES {
                break;
            }
            head.push_str(&text);
        }
        if !wanted.quiet {
            head.push('\n');
            head.push_str(&self.sides(style));
        }
        let closing = if wanted.quiet { String::new() } else { self.closing(style) };
        let left = LINES.saturating_sub(head.lines().count() + closing.lines().count());
        let tables: Vec<(&ComparedEvent, &ComparedTable)> = self
            .events
            .iter()
            .flat_map(|event| event.tables.iter().map(move |table| (event, table)))
            .collect();
        let fitting = if wanted.all_rows { tables.len() } else { (left / (FRAME + OTHERS)).clamp(1, 2) };
        let shown = &tables[..fitting.min(tables.len())];
        let mut lines = left;
        let mut text = head;
        for (number, (event, table)) in shown.iter().enumerate() {
            let rows = if wanted.all_rows { usize::MAX } else { lines / (shown.len() - number) };
            let part = self.table(event, table, rows.saturating_sub(FRAME).max(1), style);
            lines = lines.saturating_sub(part.lines().count());
            text.push_str(&part);
        }
        text + &closing
    }

    /// The complete text.
    pub fn render(&self, style: Style, quiet: bool) -> String {
        let mut text = sentences_text(&self.sentences(), style);
        if !quiet {
            let _ = write!(text, "\n{}", self.sides(style));
        }
        for event in &self.events {
            for table in &event.tables {
                text.push_str(&self.table(event, table, usize::MAX, style));
            }
        }
        if !quiet {
            let remarks = self.remarks.iter().map(ToString::to_string);
            let all: Vec<String> = self.notes.iter().cloned().chain(remarks).collect();
            if !all.is_empty() {
                text.push('\n');
                text.push_str(&sentences_text(&all, style));
            }
        }
        text
    }

    /// The tables with their titles, each with at most `rows` rows: for web pages.
    pub fn tables(&self, rows: usize) -> Vec<(String, TextTable)> {
        let of_event = |event: &'_ ComparedEvent| -> Vec<(String, TextTable)> {
            let table = |table: &ComparedTable| {
                let shown = &table.rows[..rows.min(table.rows.len())];
                (self.title(event, table), grid(event, table, shown))
            };
            event.tables.iter().map(table).collect()
        };
        self.events.iter().flat_map(of_event).collect()
    }

    /// `L2 misses a transaction`.
    pub fn unit_of(&self, event: &ComparedEvent) -> String {
        let unit = if event.time { ", in CPU time" } else { "" };
        format!("{} {}{unit}", event_name(event), self.per)
    }

    fn title(&self, event: &ComparedEvent, table: &ComparedTable) -> String {
        let by: Vec<&str> = table.columns.iter().map(|column| column.name()).collect();
        format!("{}, by {}", self.unit_of(event), by.join(", "))
    }

    /// Names A and B, the unit that rates refer to, and the meaning of the intervals.
    fn sides(&self, style: Style) -> String {
        let mut text = String::new();
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let line = format!("{name}: {}", self.side(side));
            let line = style.width.map_or(line.clone(), |width| one_line(&line, width));
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "{}", style.paint(Tone::Faint, &wrap(&self.conditions(), style, 0)));
        text
    }

    fn side(&self, side: &Side) -> String {
        let files = match side.files.as_slice() {
            [one] => one.clone(),
            [first, ..] => format!("{first} and {} more", side.files.len() - 1),
            [] => String::new(),
        };
        let work = match self.per {
            Per::Run | Per::Share => String::new(),
            Per::Second => format!(", {:.1} s", side.work),
            per => format!(", {} {}", grouped(side.work.round() as u64), per.plural()),
        };
        format!(
            "{}{work}, {}: {files}",
            counted(side.files.len() as u64, "run"),
            counted(side.samples, "sample")
        )
    }

    /// The meaning of the intervals, and other conditions that hold for all figures.
    pub fn conditions(&self) -> String {
        let mut text = match self.between_runs {
            true => "95 % intervals of what differs between runs".to_string(),
            false => "two runs are described: the 95 % intervals are of sampling alone, and a third run may differ by \
                      more (--a FILE... --b FILE... takes several)"
                .to_string(),
        };
        let _ = write!(text, "; * differs, at a false discovery rate of {:.0} %", DISCOVERY * 100.0);
        if let Some(filter) = &self.filter {
            let _ = write!(text, "; only {filter}");
        }
        text
    }

    fn closing(&self, style: Style) -> String {
        let width = style.width.unwrap_or(COLUMNS);
        let mut text = String::new();
        for note in self.notes.iter().take(NOTES) {
            let _ =
                writeln!(text, "{}", style.paint(Tone::Faint, &one_line(&format!("note: {note}"), width)));
        }
        if !text.is_empty() {
            text.insert(0, '\n');
        } else {
            text.push('\n');
        }
        let file = self.b.files.first().map_or("FILE", String::as_str);
        let next = format!("next: --full | --by object | --by statement | hardmeter why -i {file}");
        text + &one_line(&next, width) + "\n"
    }

    fn table(&self, event: &ComparedEvent, table: &ComparedTable, most: usize, style: Style) -> String {
        let title = self.title(event, table);
        let differ =
            format!("{} of {} rows differ", grouped(table.different as u64), grouped(table.judged as u64));
        let line = format!("{title}: {differ}");
        let line = style.width.map_or(line.clone(), |width| one_line(&line, width));
        let line = match line.strip_prefix(title.as_str()) {
            Some(rest) => style.paint(Tone::Title, &title) + rest,
            None => line,
        };
        let mut text = format!("\n{line}\n");
        // A screen shows rows that chance explains only if there are no other rows.
        let worth = match most {
            usize::MAX => table.rows.len(),
            _ if table.different > 0 => table.different,
            _ => OTHERS,
        };
        let rows = &table.rows[..worth.min(most).min(table.rows.len())];
        text.push_str(&grid(event, table, rows).sparing().render(style, 2));
        let hidden = table.rows.len() - rows.len();
        if hidden > 0 {
            let different = table.different.saturating_sub(rows.len());
            let of = if different > 0 { format!(", {different} of them different") } else { String::new() };
            let rest = format!("and {}{of}: --full", counted(hidden as u64, "more row"));
            let _ = writeln!(text, "  {}", style.paint(Tone::Faint, &rest));
        }
        text
    }
}

fn grid(event: &ComparedEvent, table: &ComparedTable, rows: &[ComparedRow]) -> TextTable {
    let mut columns = vec![
        Column::left(""),
        Column::right("A"),
        Column::right("B"),
        Column::right("change"),
        Column::right("95 %").spare(2),
        Column::right("n A, n B").spare(3),
    ];
    columns.extend(table.columns.iter().map(|column| {
        let titled = Column::left(column.name());
        match column {
            CompareColumn::Line => titled.cut(Cut::KeepTail).at_least(12),
            CompareColumn::Statement => titled.cut(Cut::KeepDifference).at_least(30),
            CompareColumn::Instruction => titled.cut(Cut::KeepHead).at_least(16).spare(1),
            _ => titled.cut(Cut::KeepHead).at_least(16),
        }
    }));
    let mut grid = TextTable::new(columns);
    for row in rows {
        let tone = if row.different { Tone::Plain } else { Tone::Faint };
        let (change, interval) = match row.change {
            Some(change) if change.value.is_finite() => {
                (format!("{} %", signed_percent(change.value)), signed_interval(change.interval))
            }
            Some(_) => ("new".into(), String::new()),
            None => ("-".into(), String::new()),
        };
        let mut cells = vec![
            (if row.different { "*" } else { "" }.to_string(), Tone::Hot),
            (rate(event, row.rates[0]), tone),
            (rate(event, row.rates[1]), tone),
            (change, tone),
            (interval, Tone::Faint),
            (format!("{}, {}", grouped(row.samples[0]), grouped(row.samples[1])), Tone::Faint),
        ];
        let name = |name: &Option<std::sync::Arc<str>>| {
            let text = name.as_deref().unwrap_or("-").split_whitespace().collect::<Vec<_>>().join(" ");
            (text, tone)
        };
        cells.extend(row.names.iter().map(name));
        grid.row(cells);
    }
    grid
}
