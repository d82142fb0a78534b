//! The loop between the terminal's keys and frames. The terminal is restored whatever happens, panics included.

use crate::browser::{Browser, Chapters, Flow};
use crate::chooser::{Chooser, Picked};
use crate::recording::Recording;
use crate::watch::Watch;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use std::io;
use std::time::Duration;

/// Time between two frames of a recording.
const TICK: Duration = Duration::from_millis(250);

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

/// Shows a recording until it ends or the user stops it; the caller waits for its end.
///
/// # Errors
/// If the terminal cannot be used, or the recorder's state not be read.
pub fn watch(recording: &mut Recording, mut watch: Watch) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    // The choice was drawn here before.
    terminal.clear()?;
    let result = loop {
        while let Some(line) = recording.next_line() {
            watch.say(&line);
        }
        if let Some((glimpse, took)) = recording.next_glimpse() {
            watch.see(glimpse, took);
        }
        watch.progress(recording.elapsed(), recording.bytes());
        let pressed = terminal.draw(|frame| watch.draw(frame)).map(drop).and_then(|()| next_key(TICK));
        match (recording.is_running(), pressed) {
            (Err(error), _) | (_, Err(error)) => break Err(error),
            (Ok(false), _) => break Ok(()),
            (Ok(true), Ok(Some(key))) => {
                if watch.key(key) == Flow::Quit {
                    recording.stop();
                }
            }
            (Ok(true), Ok(None)) => {}
        }
    };
    ratatui::try_restore()?;
    result
}

/// The key that is pressed within some time; Ctrl-C is a `q`.
fn next_key(patience: Duration) -> io::Result<Option<KeyCode>> {
    if !event::poll(patience)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(pressed) if pressed.kind == KeyEventKind::Press => {
            let interrupt =
                pressed.code == KeyCode::Char('c') && pressed.modifiers.contains(KeyModifiers::CONTROL);
            Some(if interrupt { KeyCode::Char('q') } else { pressed.code })
        }
        _ => None,
    })
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
