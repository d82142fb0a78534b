//! Columns of text: aligned, as wide as their content, cut to the terminal.

use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How text is to be laid out and coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to colour.
    pub color: bool,
    /// Columns of the terminal; `None` when the text goes to a file or pipe and is never cut.
    pub width: Option<usize>,
}

/// A meaning that a colour can carry. Never the only carrier of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
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
}

impl Tone {
    /// Values light up from 5 % on: below, a share is rarely worth a look.
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
        }
    }
}

impl Style {
    /// The text in a tone, if colours are wanted.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match tone.code() {
            Some(code) if self.color && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_string(),
        }
    }
}

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Figures.
    Right,
}

/// Which end of a text survives when the terminal is too narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Never cut.
    Never,
    /// The beginning stays: routines.
    KeepHead,
    /// The end stays: paths.
    KeepTail,
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<(String, Align, Cut)>,
    rows: Vec<Vec<(String, Tone)>>,
}

const GAP: usize = 2;
/// Cutting a column to less would leave nothing to recognise.
const LEAST: usize = 12;

impl TextTable {
    /// A table of these columns.
    pub fn new(columns: Vec<(String, Align, Cut)>) -> Self {
        TextTable { columns, rows: Vec::new() }
    }

    /// Adds a row: a cell per column.
    pub fn row(&mut self, cells: Vec<(String, Tone)>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Its titles, and its cells without their tones: for tables on pages.
    pub(crate) fn titles_and_rows(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let plain = |cells: &Vec<(String, Tone)>| cells.iter().map(|(cell, _)| printable(cell)).collect();
        let titles = self.columns.iter().map(|(title, _, _)| title.clone()).collect();
        (titles, self.rows.iter().map(plain).collect())
    }

    /// The table as text, each line indented.
    pub fn render(&self, style: Style, indent: usize) -> String {
        let widths = self.widths(style.width.map(|width| width.saturating_sub(indent)));
        let mut text = String::new();
        let titles: Vec<(String, Tone)> =
            self.columns.iter().map(|(title, _, _)| (title.clone(), Tone::Faint)).collect();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = " ".repeat(indent);
            for (position, ((cell, tone), (_, align, cut))) in row.iter().zip(&self.columns).enumerate() {
                let cell = shorten(&printable(cell), widths[position], *cut);
                let pad = " ".repeat(widths[position].saturating_sub(cell.width()));
                let gap = if position + 1 < row.len() { " ".repeat(GAP) } else { String::new() };
                let painted = style.paint(*tone, &cell);
                // Infallible: writing to a string.
                let _ = match align {
                    Align::Left => write!(line, "{painted}{pad}{gap}"),
                    Align::Right => write!(line, "{pad}{painted}{gap}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| printable(&row[column].0).width());
                cells.chain([self.columns[column].0.width()]).max().unwrap_or(0)
            })
            .collect();
        let Some(available) = available else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        // The widest column that may be cut gives way first.
        while widths.iter().sum::<usize>() + gaps > available {
            let widest = (0..widths.len())
                .filter(|column| self.columns[*column].2 != Cut::Never && widths[*column] > LEAST)
                .max_by_key(|column| widths[*column]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
    }
}

/// Names come from foreign files: control characters in them must not reach the terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn shorten(text: &str, width: usize, cut: Cut) -> String {
    if cut == Cut::Never || text.width() <= width {
        return text.to_string();
    }
    let room = width.saturating_sub(1);
    let take = |characters: &mut dyn Iterator<Item = char>| {
        let mut used = 0;
        characters
            .take_while(|c| {
                used += c.width().unwrap_or(0);
                used <= room
            })
            .collect::<Vec<char>>()
    };
    match cut {
        Cut::KeepTail => {
            let kept = take(&mut text.chars().rev());
            std::iter::once('…').chain(kept.into_iter().rev()).collect()
        }
        _ => take(&mut text.chars()).into_iter().chain(std::iter::once('…')).collect(),
    }
}

/// Breaks a paragraph at spaces to fit the width; every line is indented.
pub fn wrap(text: &str, style: Style, indent: usize) -> String {
    let room = style.width.unwrap_or(100).saturating_sub(indent).max(30);
    let mut lines = vec![String::new()];
    for word in printable(text).split_whitespace() {
        let line = lines.last_mut().expect("one line at least");
        if !line.is_empty() && line.width() + 1 + word.width() > room {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(vec![
            ("count".into(), Align::Right, Cut::Never),
            ("routine".into(), Align::Left, Cut::KeepHead),
            ("line".into(), Align::Left, Cut::KeepTail),
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
        let text = table().render(Style { color: false, width: Some(40) }, 0);
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line.width(), 40, "{line}");
        assert!(line.ends_with("lwlock.c:1796") && line.contains('…'), "{line}");
        assert!(line.contains("LWLockRelease"), "{line}");
    }

    #[test]
    fn colours_only_when_wanted_and_control_characters_never() {
        let text = table().render(Style { color: true, width: None }, 0);
        assert!(text.contains("\x1b[1;31m7,523\x1b[0m"), "{text}");
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
    }
}
