//! Latencies as one screen: a table, a plot, notes.

use super::{size, LatencyReport};
use crate::layout::{one_line, wrap, Column, Cut, Style, TextTable, Tone};
use crate::screen::{Wanted, COLUMNS};
use std::fmt::Write;

/// Notes on a first screen.
const NOTES: usize = 4;

impl LatencyReport {
    /// One screen: the summary, the plot, notes.
    pub fn screen(&self, style: Style, wanted: Wanted) -> String {
        let style = Style { width: Some(style.width.unwrap_or(COLUMNS)), ..style };
        let mut text = self.head(style, wanted.quiet);
        text.push_str(&self.summary().render(style, 2));
        text.push('\n');
        text.push_str(&self.plot(style.width.unwrap_or(COLUMNS)));
        if !wanted.quiet {
            let width = style.width.unwrap_or(COLUMNS);
            for note in self.notes().iter().take(NOTES) {
                let _ = writeln!(
                    text,
                    "{}",
                    style.paint(Tone::Faint, &one_line(&format!("note: {note}"), width))
                );
            }
            let next = "next: --full | --write-machine this.toml, for hardmeter record --machine this.toml";
            let _ = writeln!(text, "{}", one_line(next, width));
        }
        text
    }

    /// Everything: each size, each pair.
    pub fn render(&self, style: Style, quiet: bool) -> String {
        let mut text = self.head(style, quiet);
        text.push_str(&self.summary().render(style, 2));
        text.push('\n');
        text.push_str(&self.plot(style.width.unwrap_or(COLUMNS)));
        let mut part = |title: &str, table: TextTable| {
            let _ = write!(text, "\n{}\n{}", style.paint(Tone::Title, title), table.render(style, 2));
        };
        let (headed, points, pages, cores) = self.tables();
        part(&headed, points);
        part("one line on each page, against as many lines side by side", pages);
        if !self.cores.is_empty() {
            part("core to core", cores);
        }
        if !quiet {
            text.push('\n');
            text.extend(self.notes().iter().map(|note| format!("* {}\n", wrap(note, style, 2))));
        }
        text
    }

    fn head(&self, style: Style, quiet: bool) -> String {
        if quiet {
            return String::new();
        }
        let clock = if self.ghz_measured { "measured" } else { "as the kernel reports" };
        let name = crate::layout::printable(&self.processor);
        let head = format!("{name}: {:.2} GHz ({clock}); each load waits for the one before", self.ghz);
        let head = wrap(&head, style, 2);
        let head = match head.strip_prefix(&name) {
            Some(rest) => style.paint(Tone::Title, &name) + rest,
            None => head,
        };
        head + "\n\n"
    }

    /// The table that stands first in every form.
    pub(super) fn summary(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::left(""),
            Column::right("ns"),
            Column::right("cycles"),
            Column::left("").cut(Cut::KeepHead),
        ]);
        for row in self.rows() {
            let figures = match row.ns {
                Some(ns) => [nanoseconds(ns), format!("{:.0}", self.cycles(ns))],
                None => ["-".into(), "-".into()],
            };
            let [ns, cycles] = figures;
            table.plain([row.name, ns, cycles, row.about]);
        }
        table
    }

    /// The curve's title, its points, the translations, the pairs.
    pub(super) fn tables(&self) -> (String, TextTable, TextTable, TextTable) {
        let pages = if self.huge_pages { "huge pages" } else { "pages as the kernel gave them" };
        let headed = format!("ns by size of the memory, on {pages} and on pages of 4 KB");
        let mut points = TextTable::new(["size", "huge", "95 %", "4 KB pages", "95 % "].map(Column::right));
        for (huge, small) in self.huge.iter().zip(&self.small) {
            let ends = |low, high| format!("{}..{}", nanoseconds(low), nanoseconds(high));
            points.plain([
                size(huge.bytes as f64),
                nanoseconds(huge.ns),
                ends(huge.low_ns, huge.high_ns),
                nanoseconds(small.ns),
                ends(small.low_ns, small.high_ns),
            ]);
        }
        let mut pages = TextTable::new(["pages", "spread", "side by side", "translation"].map(Column::right));
        for point in &self.pages {
            pages.plain([
                point.pages.to_string(),
                nanoseconds(point.spread_ns),
                nanoseconds(point.packed_ns),
                nanoseconds(point.translation_ns()),
            ]);
        }
        let mut cores = TextTable::new(["processors", "ns", "95 %"].map(Column::right));
        for pair in &self.cores {
            cores.plain([
                format!("{}, {}", pair.first, pair.second),
                nanoseconds(pair.ns),
                format!("{}..{}", nanoseconds(pair.low_ns), nanoseconds(pair.high_ns)),
            ]);
        }
        (headed, points, pages, cores)
    }
}

fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns >= 100.0 => format!("{ns:.0}"),
        ns if ns >= 10.0 => format!("{ns:.1}"),
        ns => format!("{ns:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example;
    use super::*;

    #[test]
    fn the_screen_is_one_screen_and_has_the_figures() {
        let report = example();
        for width in [60, 80, 100, 200] {
            let text = report.screen(Style { color: false, width: Some(width) }, Wanted::default());
            assert!(text.lines().count() <= crate::screen::LINES, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        let text = report.screen(Style::default(), Wanted::default());
        assert!(text.starts_with("A <processor>: 2.00 GHz (measured)"), "{text}");
        for line in [
            "  L1            2.00       4  to 36.8 KB by its cliff, 32 KB by sysfs",
            "  page walk        -       -  ",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(text.contains("note: L3: sysfs reports 256 MB, the cliff is at"), "{text}");
        let full = report.render(Style::default(), false);
        assert!(full.contains("  64 MB  95.0  94.0..96.9         155    153..158"), "{full}");
        let quiet = report.screen(Style::default(), Wanted { quiet: true, ..Wanted::default() });
        assert!(!quiet.contains("note:") && !quiet.contains("next:"), "{quiet}");
    }
}
