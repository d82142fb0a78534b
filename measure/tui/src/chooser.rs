//! What to record: a server or the whole machine, a source, events; each with its known cost.
//!
//! Invariants: one target and one source are chosen, and both are possible ones; `cursor` is a line that can be
//! chosen.

use crate::browser::Flow;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Wrap};
use ratatui::Frame;

/// Something that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub label: String,
    /// Its text, and its cost.
    pub about: String,
    /// Arguments of `hardmeter record`; of an event its name.
    pub words: Vec<String>,
    /// Whether it works here.
    pub possible: bool,
}

/// What the user chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picked {
    /// Arguments of `hardmeter record`, before the command.
    pub arguments: Vec<String>,
    /// Seconds to record.
    pub seconds: u32,
}

const TITLES: [&str; 3] = ["What to record", "Source", "Events"];
const EVENTS: usize = 2;
const DURATIONS: [u32; 6] = [5, 10, 20, 60, 300, 900];

/// The state of the choice.
pub struct Chooser {
    /// Targets, sources, events.
    lists: [Vec<Choice>; 3],
    chosen: [Vec<bool>; 3],
    /// List and row.
    cursor: (usize, usize),
    duration: usize,
    picked: Option<Picked>,
    message: String,
}

impl Chooser {
    /// A choice among these; the first possible target and source, and `default_events`, are chosen.
    pub fn new(
        targets: Vec<Choice>,
        sources: Vec<Choice>,
        events: Vec<Choice>,
        default_events: &[&str],
    ) -> Chooser {
        let first = |list: &[Choice]| {
            let at = list.iter().position(|choice| choice.possible);
            (0..list.len()).map(|row| Some(row) == at).collect::<Vec<bool>>()
        };
        let wanted = |choice: &Choice| choice.possible && default_events.contains(&choice.label.as_str());
        let chosen = [first(&targets), first(&sources), events.iter().map(wanted).collect()];
        let mut chooser = Chooser {
            lists: [targets, sources, events],
            chosen,
            cursor: (0, 0),
            duration: 1,
            picked: None,
            message: String::new(),
        };
        let possible = chooser.places().next();
        chooser.cursor = possible.unwrap_or((0, 0));
        chooser
    }

    /// The choice, once the user starts the recording.
    pub fn picked(self) -> Option<Picked> {
        self.picked
    }

    /// Lines that can be chosen.
    fn places(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + '_ {
        let of = move |list: usize| (0..self.lists[list].len()).map(move |row| (list, row));
        (0..self.lists.len()).flat_map(of).filter(move |(list, row)| self.lists[*list][*row].possible)
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyCode) -> Flow {
        self.message.clear();
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Flow::Quit,
            KeyCode::Down | KeyCode::Char('j') => {
                let next = self.places().find(|place| *place > self.cursor);
                self.cursor = next.unwrap_or(self.cursor);
            }
            KeyCode::Up | KeyCode::Char('k') => {
                let next = self.places().rfind(|place| *place < self.cursor);
                self.cursor = next.unwrap_or(self.cursor);
            }
            KeyCode::Tab => {
                let next = self.places().find(|(list, _)| *list > self.cursor.0);
                self.cursor = next.or_else(|| self.places().next()).unwrap_or(self.cursor);
            }
            KeyCode::Char(' ') => self.toggle(),
            KeyCode::Char('+') => self.duration = (self.duration + 1).min(DURATIONS.len() - 1),
            KeyCode::Char('-') => self.duration = self.duration.saturating_sub(1),
            KeyCode::Enter | KeyCode::Char('r') => match self.pick() {
                Ok(picked) => {
                    self.picked = Some(picked);
                    return Flow::Quit;
                }
                Err(reason) => self.message = reason.into(),
            },
            _ => {}
        }
        Flow::Continue
    }

    fn toggle(&mut self) {
        let (list, row) = self.cursor;
        let Some(chosen) = self.chosen[list].get(row).copied() else { return };
        if list != EVENTS {
            self.chosen[list].fill(false);
        }
        self.chosen[list][row] = list != EVENTS || !chosen;
    }

    fn words(&self, list: usize) -> impl Iterator<Item = &Choice> {
        self.lists[list]
            .iter()
            .zip(&self.chosen[list])
            .filter(|(_, chosen)| **chosen)
            .map(|(choice, _)| choice)
    }

    /// Whether the chosen source takes events: live and timer sample time.
    fn counts_events(&self) -> bool {
        self.words(1).any(|source| ["auto", "hardware", "simulated"].contains(&source.label.as_str()))
    }

    fn pick(&self) -> Result<Picked, &'static str> {
        let target =
            self.words(0).next().ok_or("nothing here can be recorded: `hardmeter doctor` shows why")?;
        let source = self.words(1).next().ok_or("no source works here: `hardmeter doctor` shows why")?;
        let mut arguments: Vec<String> = target.words.iter().chain(&source.words).cloned().collect();
        if self.counts_events() {
            let events: Vec<&str> = self.words(EVENTS).map(|event| event.label.as_str()).collect();
            if events.is_empty() {
                return Err("choose an event with the space bar");
            }
            arguments.extend(["-e".to_string(), events.join(",")]);
        }
        Ok(Picked { arguments, seconds: DURATIONS[self.duration] })
    }

    /// Draws a frame.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let rows = Layout::vertical([Constraint::Min(1), Constraint::Length(3), Constraint::Length(1)]);
        let [body, about, help] = rows.areas(frame.area());
        let (mut lines, mut at) = (Vec::new(), 0);
        for (list, title) in TITLES.iter().enumerate() {
            let unused = list == EVENTS && !self.counts_events();
            let title =
                if unused { format!("{title} (this source samples time)") } else { (*title).to_string() };
            lines.push(Line::styled(title, Modifier::BOLD));
            for (row, choice) in self.lists[list].iter().enumerate() {
                if (list, row) == self.cursor {
                    at = lines.len();
                }
                lines.push(self.line(list, row, choice, unused));
            }
            if self.lists[list].is_empty() {
                lines.push(Line::styled("  none found", Modifier::DIM));
            }
            lines.push(Line::raw(""));
        }
        let height = usize::from(body.height);
        let top = u16::try_from(at.saturating_sub(height.saturating_sub(2))).unwrap_or(0);
        frame.render_widget(Paragraph::new(lines).scroll((top, 0)), body);
        let (list, row) = self.cursor;
        let text = self.lists[list].get(row).map_or("", |choice| choice.about.as_str());
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), about);
        let keys = match self.message.as_str() {
            "" => format!(
                "up/down move  space choose  +/- seconds ({})  Enter record  q quit",
                DURATIONS[self.duration]
            ),
            message => message.to_string(),
        };
        frame.render_widget(Line::styled(keys, Modifier::BOLD), help);
    }

    fn line(&self, list: usize, row: usize, choice: &Choice, unused: bool) -> Line<'static> {
        let mark = match (choice.possible, self.chosen[list][row], list == EVENTS) {
            (false, ..) => " - ",
            (true, true, true) => "[x]",
            (true, false, true) => "[ ]",
            (true, true, false) => "(o)",
            (true, false, false) => "( )",
        };
        let about = choice.about.lines().next().unwrap_or_default();
        let style = match ((list, row) == self.cursor, choice.possible && !unused) {
            (true, _) => Style::new().add_modifier(Modifier::REVERSED),
            (false, true) => Style::new(),
            (false, false) => Style::new().add_modifier(Modifier::DIM),
        };
        Line::styled(format!("  {mark} {:<22} {about}", choice.label), style)
    }
}
