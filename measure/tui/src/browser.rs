//! The chapters of a capture: which one is shown, where in it, and what a key does.
//!
//! ```text
//!            1..9, Tab, left, right          Enter on a routine
//!   chapter ────────────────────── chapter ─────────────────────> listing ── Esc ──> chapter
//!      └── / ── text, Enter ──> chapter at the line            ? ──> keys ── any ──> back
//! ```

use crate::pane::Pane;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table, TableState};
use ratatui::Frame;

/// The contents of a browser.
pub trait Chapters {
    /// A one-line title of the contents.
    fn title(&self) -> String;
    /// The names of the chapters.
    fn names(&self) -> Vec<String>;
    /// A chapter as text of at most this width.
    fn text(&mut self, chapter: usize, width: usize) -> String;
    /// The routines to choose from, if the chapter is a list of them.
    fn routines(&self, chapter: usize) -> Option<&[RoutineRow]>;
    /// A routine instruction by instruction.
    ///
    /// # Errors
    /// If its code is missing; the text is shown to the user.
    fn annotate(&mut self, routine: &str, width: usize) -> Result<String, String>;
}

/// A row of a list of routines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutineRow {
    /// The event.
    pub event: String,
    /// Its share of the event's stall where that is known, else of its samples.
    pub cost: String,
    /// Its samples.
    pub samples: String,
    /// The routine.
    pub routine: String,
    /// Its program or library.
    pub image: String,
}

/// Whether the loop continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Draw again.
    Continue,
    /// The user has finished.
    Quit,
}

const KEYS: &str = "\
Keys

  1..9, Tab, left, right    another chapter
  up, down, j, k            a line
  PgUp, PgDn, space         a page
  Home, End, g, G           begin, end
  Enter                     the chosen routine, instruction by instruction
  Esc, backspace            back
  /                         search; n: the next place
  ?                         this page
  q                         quit
";

/// The state of the browser.
pub struct Browser<C> {
    chapters: C,
    names: Vec<String>,
    at: usize,
    panes: Vec<Option<Pane>>,
    selected: Vec<TableState>,
    /// A page above the chapter: a listing, or the keys.
    above: Option<(String, Pane)>,
    /// The text being typed after `/`.
    typing: Option<String>,
    search: String,
    message: String,
    width: usize,
    page: usize,
}

impl<C: Chapters> Browser<C> {
    /// A browser at the first chapter.
    pub fn new(chapters: C) -> Browser<C> {
        let names = chapters.names();
        let selected = names.iter().map(|_| TableState::new().with_selected(0)).collect();
        Browser {
            panes: names.iter().map(|_| None).collect(),
            chapters,
            names,
            at: 0,
            selected,
            above: None,
            typing: None,
            search: String::new(),
            message: String::new(),
            width: 0,
            page: 1,
        }
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyCode) -> Flow {
        self.message.clear();
        if self.typing.is_some() {
            self.type_search(key);
            return Flow::Continue;
        }
        let count = self.names.len();
        match key {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Esc | KeyCode::Backspace => match self.above.take() {
                Some(_) => {}
                None => self.message = "q quits".into(),
            },
            KeyCode::Char('?') => self.above = Some(("keys".into(), Pane::new(KEYS))),
            KeyCode::Char('/') => self.typing = Some(String::new()),
            KeyCode::Char('n') if !self.search.is_empty() => self.find(),
            KeyCode::Char(digit @ '1'..='9') => {
                let chapter = usize::from(digit as u8 - b'1');
                if chapter < count {
                    self.go_to(chapter);
                }
            }
            KeyCode::Tab | KeyCode::Right => self.go_to((self.at + 1) % count),
            KeyCode::BackTab | KeyCode::Left => self.go_to((self.at + count - 1) % count),
            KeyCode::Enter => self.open_routine(),
            other => self.scroll(other),
        }
        Flow::Continue
    }

    fn go_to(&mut self, chapter: usize) {
        self.above = None;
        self.at = chapter;
    }

    fn type_search(&mut self, key: KeyCode) {
        let Some(typed) = &mut self.typing else { return };
        match key {
            KeyCode::Char(letter) => typed.push(letter),
            KeyCode::Backspace => drop(typed.pop()),
            KeyCode::Esc => self.typing = None,
            KeyCode::Enter => {
                self.search = self.typing.take().unwrap_or_default();
                self.find();
            }
            _ => {}
        }
    }

    fn find(&mut self) {
        let is_list = self.list_length().is_some();
        let found = if let Some((_, pane)) = &mut self.above {
            pane.find(&self.search)
        } else if is_list {
            self.find_routine()
        } else {
            self.panes[self.at].as_mut().is_some_and(|pane| pane.find(&self.search))
        };
        if !found {
            self.message = format!("\"{}\" is not in this chapter", self.search);
        }
    }

    fn find_routine(&mut self) -> bool {
        let wanted = self.search.to_lowercase();
        let rows = self.chapters.routines(self.at).unwrap_or_default();
        let here = |row: &RoutineRow| row.routine.to_lowercase().contains(&wanted);
        let from = self.selected[self.at].selected().map_or(0, |row| row + 1);
        let next = rows.iter().skip(from).position(here).map(|row| row + from);
        let found = next.or_else(|| rows.iter().position(here));
        if found.is_some() {
            self.selected[self.at].select(found);
        }
        found.is_some()
    }

    /// The number of rows, if the chapter is a list.
    fn list_length(&self) -> Option<usize> {
        self.chapters.routines(self.at).map(<[RoutineRow]>::len)
    }

    fn open_routine(&mut self) {
        if self.above.is_some() {
            return;
        }
        let chosen = self.selected[self.at].selected();
        let rows = self.chapters.routines(self.at);
        let Some(row) = rows.and_then(|rows| rows.get(chosen?)).cloned() else { return };
        match self.chapters.annotate(&row.routine, self.width) {
            Ok(text) => self.above = Some((row.routine, Pane::new(&text))),
            Err(reason) => self.message = reason.lines().collect::<Vec<_>>().join(" "),
        }
    }

    fn scroll(&mut self, key: KeyCode) {
        if let (None, Some(rows)) = (&self.above, self.list_length()) {
            let row = self.selected[self.at].selected().unwrap_or(0);
            let row = match key {
                KeyCode::Down | KeyCode::Char('j') => row + 1,
                KeyCode::Up | KeyCode::Char('k') => row.saturating_sub(1),
                KeyCode::PageDown | KeyCode::Char(' ') => row + self.page,
                KeyCode::PageUp => row.saturating_sub(self.page),
                KeyCode::Home | KeyCode::Char('g') => 0,
                KeyCode::End | KeyCode::Char('G') => rows,
                _ => row,
            };
            self.selected[self.at].select(Some(row.min(rows.saturating_sub(1))));
            return;
        }
        let pane = match &mut self.above {
            Some((_, pane)) => Some(pane),
            None => self.panes[self.at].as_mut(),
        };
        let Some(pane) = pane else { return };
        match key {
            KeyCode::Down | KeyCode::Char('j') => pane.scroll(1),
            KeyCode::Up | KeyCode::Char('k') => pane.scroll(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => pane.page(1),
            KeyCode::PageUp => pane.page(-1),
            KeyCode::Home | KeyCode::Char('g') => pane.go_to_begin(),
            KeyCode::End | KeyCode::Char('G') => pane.go_to_end(),
            _ => {}
        }
    }

    /// Draws a frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)]);
        let [tabs, body, help] = rows.areas(frame.area());
        let width = usize::from(body.width);
        if width != self.width {
            self.width = width;
            // Texts are fitted to the width, each when it is first shown.
            for (chapter, pane) in self.panes.iter_mut().enumerate() {
                if let Some(pane) = pane {
                    pane.replace(&self.chapters.text(chapter, width));
                }
            }
        }
        frame.render_widget(self.tabs(), tabs);
        let position = self.draw_body(frame, body);
        frame.render_widget(self.help(&position), help);
    }

    /// Draws the chapter or the page above it; returns the position in it.
    fn draw_body(&mut self, frame: &mut Frame<'_>, area: Rect) -> String {
        if let Some((_, pane)) = &mut self.above {
            pane.draw(frame, area);
            return pane.position();
        }
        if let Some(rows) = self.chapters.routines(self.at) {
            self.page = usize::from(area.height.saturating_sub(2)).max(1);
            let state = &mut self.selected[self.at];
            frame.render_stateful_widget(routine_table(rows), area, state);
            return format!(
                "{} of {}",
                state.selected().map_or(0, |row| row + 1).min(rows.len()),
                rows.len()
            );
        }
        if self.panes[self.at].is_none() {
            self.panes[self.at] = Some(Pane::new(&self.chapters.text(self.at, self.width)));
        }
        let pane = self.panes[self.at].as_mut().expect("made above");
        pane.draw(frame, area);
        pane.position()
    }

    fn tabs(&self) -> Line<'static> {
        let mut spans = Vec::new();
        for (number, name) in self.names.iter().enumerate() {
            let text = format!(" {} {name} ", number + 1);
            let style = match (number == self.at, &self.above) {
                (true, None) => Style::new().add_modifier(Modifier::REVERSED),
                (true, Some(_)) => Style::new().add_modifier(Modifier::UNDERLINED),
                _ => Style::new(),
            };
            spans.push(Span::styled(text, style));
        }
        if let Some((name, _)) = &self.above {
            let style = Style::new().add_modifier(Modifier::REVERSED);
            spans.push(Span::styled(format!(" {name} "), style));
        }
        spans.push(Span::raw(format!("  {}", self.chapters.title())));
        Line::from(spans)
    }

    fn help(&self, position: &str) -> Line<'static> {
        let text = match (&self.typing, self.message.as_str()) {
            (Some(typed), _) => format!("search: {typed}_   Enter finds, Esc leaves"),
            (None, "") => {
                let enter = match (&self.above, self.list_length()) {
                    (Some(_), _) => "Esc back  ",
                    (None, Some(_)) => "Enter code  ",
                    _ => "",
                };
                format!("{position}   up/down scroll  left/right chapter  {enter}/ search  ? keys  q quit")
            }
            (None, message) => message.to_string(),
        };
        Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
    }
}

fn routine_table(rows: &[RoutineRow]) -> Table<'_> {
    let cells = |row: [&str; 5]| Row::new(row.map(|text| Cell::from(text.to_string())));
    let lines = rows.iter().map(|row| cells([&row.event, &row.cost, &row.samples, &row.routine, &row.image]));
    let longest = |of: fn(&RoutineRow) -> &str, title: &str| {
        let widths = rows.iter().map(|row| of(row).chars().count());
        u16::try_from(widths.max().unwrap_or(0).max(title.len())).unwrap_or(u16::MAX)
    };
    let widths = [
        Constraint::Length(longest(|row| &row.event, "event")),
        Constraint::Length(longest(|row| &row.cost, "cost")),
        Constraint::Length(longest(|row| &row.samples, "samples")),
        Constraint::Fill(3),
        Constraint::Fill(2),
    ];
    Table::new(lines, widths)
        .header(cells(["event", "cost", "samples", "routine", "image"]).style(Modifier::BOLD))
        .column_spacing(2)
        .row_highlight_style(Modifier::REVERSED)
}
