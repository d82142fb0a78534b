//! A recording while it runs: the time, the samples, the strongest findings so far.
//!
//! ```text
//!   recording ── s, q, Esc, Enter ──> stopping ──┐
//!       └───────── its end ──────────────────────┴──> the result is opened
//! ```

use crate::browser::Flow;
use crate::glimpse::Glimpse;
use hardmeter_views::{grouped, printable};
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::Frame;
use std::time::Duration;

/// Messages of the recorder that are kept.
const MESSAGES: usize = 4;

/// The state of the screen.
#[derive(Debug)]
pub struct Watch {
    command: String,
    planned: Duration,
    elapsed: Duration,
    bytes: u64,
    glimpse: Option<(Glimpse, Duration)>,
    messages: Vec<String>,
    stopping: bool,
}

impl Watch {
    /// Creates the screen of a recording by this command, with this duration.
    pub fn new(command: impl Into<String>, planned: Duration) -> Watch {
        Watch {
            command: command.into(),
            planned,
            elapsed: Duration::ZERO,
            bytes: 0,
            glimpse: None,
            messages: Vec::new(),
            stopping: false,
        }
    }

    /// Stores the time since the start, and the file's size.
    pub fn progress(&mut self, elapsed: Duration, bytes: u64) {
        (self.elapsed, self.bytes) = (elapsed, bytes);
    }

    /// Stores the findings so far; `took` is the duration of the reading.
    pub fn see(&mut self, glimpse: Glimpse, took: Duration) {
        self.glimpse = Some((glimpse, took));
    }

    /// Stores a line that the recorder printed.
    pub fn say(&mut self, line: &str) {
        self.messages.push(printable(line));
        let excess = self.messages.len().saturating_sub(MESSAGES);
        self.messages.drain(..excess);
    }

    /// Handles a key; [`Flow::Quit`] stops the recording.
    pub fn key(&mut self, key: KeyCode) -> Flow {
        match key {
            KeyCode::Char('s' | 'q') | KeyCode::Esc | KeyCode::Enter => {
                self.stopping = true;
                Flow::Quit
            }
            _ => Flow::Continue,
        }
    }

    /// Draws a frame.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let messages = u16::try_from(self.messages.len()).unwrap_or(0);
        let rows = Layout::vertical([
            Constraint::Length(2),
            Constraint::Min(1),
            Constraint::Length(messages),
            Constraint::Length(1),
        ]);
        let [head, body, said, help] = rows.areas(frame.area());
        frame.render_widget(Paragraph::new(vec![Line::raw(self.command.clone()), self.counts()]), head);
        frame.render_widget(Paragraph::new(self.findings()), body);
        let lines: Vec<Line<'_>> = self.messages.iter().map(|line| Line::raw(line.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).style(Modifier::DIM), said);
        let keys = match self.stopping {
            true => "stopping: the last samples are written",
            false => "s stops now and opens the result",
        };
        frame.render_widget(Line::styled(keys, Modifier::BOLD), help);
    }

    /// `recording 12 of 60 s   9,567 samples   3,045 kB`
    fn counts(&self) -> Line<'static> {
        let samples = self.glimpse.as_ref().map_or(0, |(glimpse, _)| glimpse.samples());
        let text = format!(
            "recording {} of {} s   {} samples   {} kB",
            self.elapsed.as_secs(),
            self.planned.as_secs(),
            grouped(samples),
            grouped(self.bytes / 1000),
        );
        Line::styled(text, Modifier::BOLD)
    }

    fn findings(&self) -> Vec<Line<'static>> {
        let some = self.glimpse.as_ref().filter(|(glimpse, _)| !glimpse.events.is_empty());
        let Some((glimpse, took)) = some else {
            return vec![Line::raw("no samples yet: the first findings appear after some seconds")];
        };
        let mut lines = vec![Line::raw("")];
        for event in &glimpse.events {
            let causes = match event.causes.is_empty() {
                true => String::new(),
                false => format!(": {}", event.causes.join(", ")),
            };
            let title = format!("{} (n = {}){causes}", event.name, grouped(event.samples));
            lines.push(Line::styled(title, Modifier::BOLD));
            let width = event.routines.iter().map(|row| row.cost.len()).max().unwrap_or_default();
            for row in &event.routines {
                lines.push(Line::raw(format!(
                    "  {:>width$}  n = {:<9} {}",
                    row.cost,
                    grouped(row.samples),
                    row.routine
                )));
            }
        }
        let note = format!(
            "objects and statements come with the result; reading took {} ms, at most 5 % of a CPU",
            took.as_millis()
        );
        lines.push(Line::raw(""));
        lines.push(Line::styled(note, Style::new().add_modifier(Modifier::DIM)));
        lines
    }
}
