//! The writer of terminal tables: aligned columns of text, as wide as their content, fitted to the terminal.
//! comfy-table sets the columns; which of them are shown, and what is cut, is decided here: comfy-table can wrap a cell or
//! drop its end, but not keep the part that distinguishes two statements.
//!
//! A table that is too wide leaves out its [`spare`](Column::spare) columns first, if it [may](TextTable::sparing), and
//! then cuts the widest columns that may be cut. Cells of a column that [keeps the
//! difference](Cut::KeepDifference) stay distinguishable when their beginnings are the same.
//!
//! ```
//! use hardmeter_evidence::table::{Column, Style, TextTable};
//!
//! let mut table = TextTable::new([Column::right("misses"), Column::left("routine")]);
//! table.plain(["7,523", "LWLockRelease"]);
//! table.plain(["12", "palloc"]);
//! assert_eq!(
//!     table.render(Style::default(), 0),
//!     "misses  routine\n 7,523  LWLockRelease\n    12  palloc\n"
//! );
//! ```

mod text;

pub use text::{one_line, printable, wrap};

use comfy_table::CellAlignment;
use std::fmt::Write;
use text::fit;
use unicode_width::UnicodeWidthStr;

/// Layout and colours of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// True if text is coloured.
    pub color: bool,
    /// Columns of the terminal; `None` for a file or pipe, where text is never cut.
    pub width: Option<usize>,
}

/// A meaning that a colour can show. Colour is never the only sign of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Normal text.
    #[default]
    Plain,
    /// A title.
    Title,
    /// Less important.
    Faint,
    /// Five percent or more.
    Hot,
    /// One percent or more.
    Warm,
    /// A memory operand.
    Operand,
    /// A good value.
    Good,
}

impl Tone {
    /// Highlights values from 5 % on: smaller shares are rarely important.
    pub fn of_fraction(fraction: f64) -> Tone {
        match fraction {
            f if f >= 0.05 => Tone::Hot,
            f if f >= 0.01 => Tone::Warm,
            _ => Tone::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Tone::Plain => None,
            Tone::Title => Some("1"),
            Tone::Faint => Some("2"),
            Tone::Hot => Some("1;31"),
            Tone::Warm => Some("33"),
            Tone::Operand => Some("36"),
            Tone::Good => Some("32"),
        }
    }
}

impl Style {
    /// The text in a tone, if colours are enabled.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match tone.code() {
            Some(code) if self.color && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_string(),
        }
    }
}

/// Which part of a text is kept when the terminal is too narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Never cut.
    Never,
    /// Keeps the beginning: routines.
    KeepHead,
    /// Keeps the end: paths.
    KeepTail,
    /// Keeps the beginning, and the part that distinguishes cells with the same beginning: statements.
    KeepDifference,
}

/// A column: title, alignment, and behaviour on a narrow terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    title: String,
    align: CellAlignment,
    cut: Cut,
    least: usize,
    spare: u8,
}

impl Column {
    /// A column of text, never cut.
    pub fn left(title: impl Into<String>) -> Column {
        Column { title: title.into(), align: CellAlignment::Left, cut: Cut::Never, least: LEAST, spare: 0 }
    }

    /// A column of figures, never cut.
    pub fn right(title: impl Into<String>) -> Column {
        Column { align: CellAlignment::Right, ..Column::left(title) }
    }

    /// The same column, cut in this way where the terminal is too narrow.
    pub fn cut(self, cut: Cut) -> Column {
        Column { cut, ..self }
    }

    /// The same column, not cut below this width while there are spare columns to leave out.
    pub fn at_least(self, least: usize) -> Column {
        Column { least, ..self }
    }

    /// The same column, left out if the terminal is too narrow and the table may leave columns out: highest rank
    /// first. Rank 0 is never left out.
    pub fn spare(self, rank: u8) -> Column {
        Column { spare: rank, ..self }
    }
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Tone)>>,
    /// Lines below a row: the number of rows before them, and the text.
    notes: Vec<(usize, String)>,
    titled: bool,
    sparing: bool,
}

const GAP: usize = 2;
/// Minimum width at which a cut text is recognisable.
const LEAST: usize = 12;
/// The width below which no column is cut, however narrow the terminal is.
const FLOOR: usize = 6;

impl TextTable {
    /// A table of these columns.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        TextTable {
            columns: columns.into_iter().collect(),
            rows: Vec::new(),
            notes: Vec::new(),
            titled: true,
            sparing: false,
        }
    }

    /// A table of figures: the first column is text, all others are numbers.
    pub fn of_figures<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Self {
        let column = |(index, title)| if index == 0 { Column::left(title) } else { Column::right(title) };
        TextTable::new(titles.into_iter().enumerate().map(column))
    }

    /// The same table without its line of titles.
    pub fn untitled(self) -> Self {
        TextTable { titled: false, ..self }
    }

    /// The same table, which leaves out its spare columns if the terminal is too narrow.
    pub fn sparing(self) -> Self {
        TextTable { sparing: true, ..self }
    }

    /// Adds a row with a cell per column.
    pub fn row(&mut self, cells: Vec<(String, Tone)>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Adds a row without colours.
    pub fn plain<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.row(cells.into_iter().map(|cell| (cell.into(), Tone::Plain)).collect());
    }

    /// Adds a line of any width below the last row.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push((self.rows.len(), text.into()));
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Keeps only the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
    }

    /// Its titles and its cells without tones, for tables on pages.
    pub fn titles_and_rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let plain = |cells: &Vec<(String, Tone)>| cells.iter().map(|(cell, _)| printable(cell)).collect();
        let titles = self.columns.iter().map(|column| column.title.clone()).collect();
        (titles, self.rows.iter().map(plain).collect())
    }

    /// The table as text, each line indented.
    pub fn render(&self, style: Style, indent: usize) -> String {
        let cells = self.printable_columns();
        let widths = self.widths(&cells, style.width.map(|width| width.saturating_sub(indent)));
        let shown: Vec<usize> = (0..widths.len()).filter(|column| widths[*column].is_some()).collect();
        let fitted: Vec<Vec<String>> = cells
            .iter()
            .enumerate()
            .map(|(column, cells)| fit(cells, widths[column].unwrap_or(0), self.columns[column].cut))
            .collect();
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        let painted = |line: usize, column: usize| {
            let tone = if line == 0 { Tone::Faint } else { self.rows[line - 1][column].1 };
            style.paint(tone, &fitted[column][line])
        };
        (usize::from(!self.titled)..=self.rows.len()).for_each(|line| {
            table.add_row(shown.iter().map(|column| painted(line, *column)));
        });
        for (column, index) in table.column_iter_mut().zip(&shown) {
            column.set_padding((0, GAP as u16));
            column.set_cell_alignment(self.columns[*index].align);
        }
        let mut text = String::new();
        for (line, written) in (usize::from(!self.titled)..).zip(table.lines()) {
            let _ = writeln!(text, "{}", format!("{}{written}", " ".repeat(indent)).trim_end());
            for (_, note) in self.notes.iter().filter(|(after, _)| *after == line) {
                let note =
                    if style.width.is_some() { wrap(note, style, indent + 4) } else { printable(note) };
                let _ = writeln!(text, "{}{note}", " ".repeat(indent + 4));
            }
        }
        text
    }

    /// The complete table as text, without colours.
    pub fn text(&self) -> String {
        self.render(Style::default(), 0)
    }

    /// The title and the cells of each column, as they may be printed.
    fn printable_columns(&self) -> Vec<Vec<String>> {
        let cells = |column: usize| {
            let title = if self.titled { self.columns[column].title.as_str() } else { "" };
            std::iter::once(title)
                .chain(self.rows.iter().map(move |row| row[column].0.as_str()))
                .map(printable)
                .collect()
        };
        (0..self.columns.len()).map(cells).collect()
    }

    /// The width of each column; `None`: left out.
    fn widths(&self, cells: &[Vec<String>], available: Option<usize>) -> Vec<Option<usize>> {
        let natural = |cells: &Vec<String>| cells.iter().map(|cell| cell.width()).max().unwrap_or(0);
        let mut widths: Vec<Option<usize>> = cells.iter().map(|cells| Some(natural(cells))).collect();
        let Some(available) = available else { return widths };
        let least = |column: usize, width: usize| match self.columns[column].cut {
            Cut::Never => width,
            _ => width.min(self.columns[column].least),
        };
        let total = |widths: &[Option<usize>], of: &dyn Fn(usize, usize) -> usize| {
            let shown = widths.iter().enumerate().filter_map(|(column, width)| Some(of(column, (*width)?)));
            shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
        };
        while self.sparing && total(&widths, &least) > available {
            let spare = (0..widths.len()).rev().filter(|column| widths[*column].is_some());
            let spare = spare.filter(|column| self.columns[*column].spare > 0);
            let Some(first) = spare.max_by_key(|column| self.columns[*column].spare) else { break };
            widths[first] = None;
        }
        // Cut the widest column first; below its minimum width only if no other column can be cut.
        for floor in [usize::MAX, LEAST, FLOOR] {
            while total(&widths, &|_, width| width) > available {
                let may_be_cut = |column: &usize| {
                    let floor = self.columns[*column].least.min(floor);
                    self.columns[*column].cut != Cut::Never
                        && widths[*column].is_some_and(|width| width > floor)
                };
                let widest = (0..widths.len()).filter(may_be_cut).max_by_key(|column| widths[*column]);
                let Some(widest) = widest else { break };
                widths[widest] = widths[widest].map(|width| width - 1);
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn narrow(width: usize) -> Style {
        Style { color: false, width: Some(width) }
    }

    fn table() -> TextTable {
        let mut table = TextTable::new([
            Column::right("count"),
            Column::left("routine").cut(Cut::KeepHead),
            Column::left("line").cut(Cut::KeepTail),
        ]);
        table.row(vec![
            ("7,523".into(), Tone::Hot),
            ("LWLockRelease".into(), Tone::Plain),
            ("src/backend/storage/lmgr/lwlock.c:1796".into(), Tone::Plain),
        ]);
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_content_and_plain_when_piped() {
        assert_eq!(
            table().render(Style::default(), 2),
            "  count  routine        line\n  7,523  LWLockRelease  src/backend/storage/lmgr/lwlock.c:1796\n"
        );
    }

    #[test]
    fn a_narrow_terminal_keeps_the_end_of_paths() {
        let text = table().render(narrow(40), 0);
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line.width(), 40, "{line}");
        assert!(line.ends_with("lwlock.c:1796") && line.contains('…'), "{line}");
        assert!(line.contains("LWLockRelease"), "{line}");
    }

    #[test]
    fn spare_columns_go_before_a_text_is_cut_below_its_least_width() {
        let mut table = TextTable::new([
            Column::right("n"),
            Column::right("interval").spare(2),
            Column::right("mean").spare(1),
            Column::left("statement").cut(Cut::KeepHead).at_least(20),
        ]);
        table.plain(["7", "1.00..2.00 %", "66.7", "select a from orders where id = $1"]);
        assert!(
            table.render(narrow(40), 0).contains("1.00..2.00 %"),
            "all columns, unless it may leave some out"
        );
        let table = table.sparing();
        let lines = |width| table.render(narrow(width), 0).lines().map(str::to_string).collect::<Vec<_>>();
        assert_eq!(lines(60)[1], "7  1.00..2.00 %  66.7  select a from orders where id = $1");
        assert_eq!(lines(45)[0], "n      interval  mean  statement");
        assert_eq!(lines(45)[1], "7  1.00..2.00 %  66.7  select a from orders …");
        assert_eq!(lines(40)[1], "7  66.7  select a from orders where id …");
        assert_eq!(lines(23)[1], "7  select a from order…");
        assert_eq!(lines(16)[1], "7  select a fro…", "with nothing left to leave out");
    }

    #[test]
    fn statements_with_the_same_beginning_stay_apart() {
        let mut table = TextTable::new([Column::left("statement").cut(Cut::KeepDifference)]);
        table.plain(["update pgbench_accounts set abalance=abalance+? where aid=?"]);
        table.plain(["update pgbench_branches set bbalance=bbalance+? where bid=?"]);
        table.plain(["update pgbench_tellers set tbalance=tbalance+? where tid=?"]);
        table.plain(["end"]);
        let lines = |width| table.render(narrow(width), 0).lines().map(str::to_string).collect::<Vec<_>>();
        assert_eq!(lines(24)[1..3], ["update pgbench_accounts…", "update pgbench_branches…"]);
        assert_eq!(lines(14)[1..], ["upd…accounts …", "upd…branches …", "upd…tellers s…", "end"]);
        for width in 13..60 {
            let lines = lines(width);
            assert_eq!(lines.iter().collect::<HashSet<_>>().len(), 5, "{lines:#?}");
            assert!(lines.iter().all(|line| line.width() <= width), "{lines:#?}");
        }
    }

    #[test]
    fn differences_late_in_long_statements_are_shown() {
        let statement = |end: &str| format!("select {} from t where {end} = $1", "x, ".repeat(60));
        let mut table = TextTable::new([Column::left("").cut(Cut::KeepDifference)]);
        table.plain([statement("id")]);
        table.plain([statement("name")]);
        let text = table.untitled().render(narrow(40), 0);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("id = $1") && text.contains("name = $1"), "{text}");
    }

    #[test]
    fn a_note_stands_below_its_row() {
        let mut table = TextTable::of_figures(["rule", "rows"]);
        table.plain(["1", "20"]);
        table.note("two of them break it");
        table.plain(["12", "3"]);
        assert_eq!(table.text(), "rule  rows\n1       20\n    two of them break it\n12       3\n");
    }

    #[test]
    fn one_line_is_one_line_and_a_wide_word_is_broken() {
        assert_eq!(one_line("a\n  b", 10), "a b");
        assert_eq!(one_line("abcdef", 4), "abc…");
        let path = "/x".repeat(40);
        assert!(wrap(&path, narrow(32), 2).lines().all(|line| line.width() <= 32));
        assert_eq!(wrap(&path, Style::default(), 2), path, "never where nothing is cut");
    }

    #[test]
    fn colours_only_when_wanted_and_control_characters_never() {
        let text = table().render(Style { color: true, width: None }, 0);
        assert!(text.contains("\x1b[1;31m7,523\x1b[0m"), "{text}");
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
    }
}
