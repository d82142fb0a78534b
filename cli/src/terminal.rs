//! Standard output and error: colours, width, progress, a pipe that closes early.

use crate::commands::{Color, CommandError, Globals};
use hardmeter_views::{Style, Tone};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The style of text on standard output: without a terminal, text is never cut.
pub fn style(globals: &Globals) -> Style {
    let terminal = io::stdout().is_terminal();
    let width = terminal.then(terminal_size::terminal_size).flatten();
    Style { color: colored(globals, terminal), width: width.map(|(width, _)| usize::from(width.0)) }
}

/// The style of a first screen: like [`style`], but `COLUMNS` wide without a terminal.
pub fn screen_style(globals: &Globals) -> Style {
    let style = style(globals);
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    Style { width: style.width.or_else(columns).map(|width: usize| width.max(40)), ..style }
}

/// A highlighted word on standard error.
pub fn warning(globals: &Globals, word: &str) -> String {
    Style { color: colored(globals, io::stderr().is_terminal()), width: None }.paint(Tone::Hot, word)
}

fn colored(globals: &Globals, terminal: bool) -> bool {
    match globals.color {
        Color::Always => true,
        Color::Never => false,
        // https://no-color.org
        Color::Auto => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    }
}

/// Prints a result. It is not an error if the reader closes the pipe (`| head`).
pub fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::new(
            format!("cannot write to standard output: {error}"),
            "free some space, or write to another place",
        )),
        _ => Ok(()),
    }
}

/// Prints a result as JSON.
pub fn print_json(value: &serde_json::Value) -> Result<(), CommandError> {
    print(&format!("{value:#}\n"))
}

/// Prints a long result: through a pager on a terminal, otherwise directly.
pub fn page(text: &str) -> Result<(), CommandError> {
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.is_empty());
    let pager = pager.unwrap_or_else(|| "less".to_string());
    if !io::stdout().is_terminal() || pager == "cat" {
        return print(text);
    }
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // Quit immediately if the text fits the screen, show colours, keep the text on the screen.
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return print(text) };
    if let Some(mut input) = child.stdin.take() {
        // It is not an error if the user quits the pager.
        let _ = input.write_all(text.as_bytes());
    }
    match child.wait() {
        // The shell did not find the program.
        Ok(status) if status.code() == Some(127) => print(text),
        _ => Ok(()),
    }
}

/// A line on standard error that shows the progress of a walk. It appears after two seconds, only on a
/// terminal, and is removed at the end.
pub struct Progress {
    bar: ProgressBar,
    begin: std::time::Instant,
}

impl Progress {
    /// Creates the line; nothing is shown at first.
    pub fn start(globals: &Globals) -> Progress {
        let bar = if globals.quiet || !io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let template = ProgressStyle::with_template("{spinner} {human_pos} samples read, {per_sec}");
            ProgressBar::new_spinner().with_style(template.expect("a valid template"))
        };
        Progress { bar, begin: std::time::Instant::now() }
    }

    /// Shows what is being done.
    pub fn say(&self, what: &str) {
        let template = ProgressStyle::with_template("{spinner} {msg}");
        self.bar.set_style(template.expect("a valid template"));
        self.bar.set_message(what.to_string());
    }

    /// Shows the number of samples so far.
    pub fn samples(&self, count: u64) {
        if self.begin.elapsed() > Duration::from_secs(2) {
            self.bar.set_position(count);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
