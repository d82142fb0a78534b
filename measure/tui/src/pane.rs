//! Text that scrolls and can be searched.
//!
//! Invariants: `top` is a line of the text, and at most so large that the last line is at the bottom of the
//! pane.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::Frame;

/// Text and the part of it that is shown.
#[derive(Debug, Default)]
pub(crate) struct Pane {
    lines: Vec<String>,
    top: usize,
    height: usize,
    search: String,
}

impl Pane {
    pub(crate) fn new(text: &str) -> Pane {
        Pane { lines: text.lines().map(str::to_string).collect(), ..Pane::default() }
    }

    /// Replaces the text, as after a change of the width; the position stays.
    pub(crate) fn replace(&mut self, text: &str) {
        self.lines = text.lines().map(str::to_string).collect();
        self.scroll(0);
    }

    /// Moves by lines, down if positive.
    pub(crate) fn scroll(&mut self, lines: isize) {
        let last = self.lines.len().saturating_sub(self.height.max(1));
        self.top = self.top.saturating_add_signed(lines).min(last);
    }

    pub(crate) fn page(&mut self, pages: isize) {
        let height = isize::try_from(self.height.saturating_sub(1).max(1)).unwrap_or(1);
        self.scroll(pages * height);
    }

    pub(crate) fn go_to_begin(&mut self) {
        self.top = 0;
    }

    pub(crate) fn go_to_end(&mut self) {
        self.scroll(isize::MAX / 2);
    }

    /// Finds the next line with the text, and brings it to the top if it is not in sight. Case does not matter.
    pub(crate) fn find(&mut self, text: &str) -> bool {
        let wanted = text.to_lowercase();
        self.search.clone_from(&wanted);
        if wanted.is_empty() {
            return true;
        }
        let here = |line: &String| line.to_lowercase().contains(&wanted);
        let after = self.lines.iter().skip(self.top + 1).position(here).map(|at| at + self.top + 1);
        match after.or_else(|| self.lines.iter().position(here)) {
            Some(line) => {
                self.top = 0;
                self.scroll(isize::try_from(line).unwrap_or(isize::MAX));
                true
            }
            None => false,
        }
    }

    /// `1-20 of 57`.
    pub(crate) fn position(&self) -> String {
        let last = (self.top + self.height).min(self.lines.len());
        format!("{}-{last} of {}", (self.top + 1).min(last), self.lines.len())
    }

    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, area: Rect) {
        self.height = usize::from(area.height);
        self.scroll(0);
        let shown = self.lines.iter().skip(self.top).take(self.height);
        let lines: Vec<Line<'_>> = shown.map(|line| marked(line, &self.search)).collect();
        frame.render_widget(Paragraph::new(lines), area);
    }
}

/// A line with the searched text reversed.
fn marked<'l>(line: &'l str, search: &str) -> Line<'l> {
    let lower = line.to_lowercase();
    // Lower case may have other lengths: then the line is shown as it is.
    if search.is_empty() || lower.len() != line.len() {
        return Line::raw(line);
    }
    let mut spans = Vec::new();
    let mut begin = 0;
    for (at, found) in lower.match_indices(search) {
        let (Some(before), Some(text)) = (line.get(begin..at), line.get(at..at + found.len())) else {
            return Line::raw(line);
        };
        spans.push(Span::raw(before));
        spans.push(Span::styled(text, Style::new().add_modifier(Modifier::REVERSED)));
        begin = at + found.len();
    }
    spans.push(Span::raw(line.get(begin..).unwrap_or_default()));
    Line::from(spans)
}
