//! The loop between the terminal's keys and frames. The terminal is restored whatever happens, panics included.

use crate::browser::{Browser, Chapters, Flow};
use crate::chooser::{Chooser, Picked};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use std::io;

/// Browses until the user quits.
///
/// # Errors
/// If the terminal cannot be used.
pub fn browse<C: Chapters>(chapters: C) -> io::Result<()> {
    let mut browser = Browser::new(chapters);
    on_terminal(&mut browser, Browser::draw, Browser::key)
}

/// Chooses what to record; `None` if the user quits.
///
/// # Errors
/// If the terminal cannot be used.
pub fn choose(mut chooser: Chooser) -> io::Result<Option<Picked>> {
    on_terminal(&mut chooser, |chooser, frame| chooser.draw(frame), Chooser::key)?;
    Ok(chooser.picked())
}

fn on_terminal<S>(
    state: &mut S,
    draw: impl Fn(&mut S, &mut Frame<'_>),
    key: impl Fn(&mut S, KeyCode) -> Flow,
) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = loop {
        if let Err(error) = terminal.draw(|frame| draw(state, frame)) {
            break Err(error);
        }
        match event::read() {
            Ok(Event::Key(pressed)) if pressed.kind == KeyEventKind::Press => {
                let interrupt =
                    pressed.code == KeyCode::Char('c') && pressed.modifiers.contains(KeyModifiers::CONTROL);
                if interrupt || key(state, pressed.code) == Flow::Quit {
                    break Ok(());
                }
            }
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    result
}
