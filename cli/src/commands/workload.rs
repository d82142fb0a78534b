//! Shared by the commands of workloads (`tpch`, `oo1`): progress, and checks of result files.

use super::output::Output;
use super::{interruption, CommandError, Globals};
use hardmeter_session::{Progress, SessionError, Stop};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// A line on standard error with the progress of the work; on a terminal only, and removed afterwards.
pub(super) struct Bar(pub(super) ProgressBar);

impl Bar {
    /// An empty one.
    pub(super) fn new(globals: &Globals) -> Bar {
        let bar = if globals.quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{msg}  [{bar:30}] {human_pos}/{human_len}  {eta} left");
            ProgressBar::new(0).with_style(style.expect("a valid template").progress_chars("=> "))
        };
        Bar(bar)
    }
}

impl Bar {
    /// The number of finished steps and of all steps; this one begins.
    pub(super) fn stands_at(&self, done: usize, of: usize, what: &str) {
        self.0.set_length(of as u64);
        self.0.set_position(done as u64);
        self.0.set_message(what.to_owned());
    }
}

impl Progress for Bar {
    fn phase(&self, what: &str, units: u64) {
        self.0.reset();
        self.0.set_length(units);
        self.0.set_message(what.to_owned());
    }

    fn advance(&self, units: u64) {
        self.0.inc(units);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Prints a line on standard error that is not part of the result.
pub(super) fn remark(globals: &Globals, what: &str) {
    if !globals.quiet {
        eprintln!("hardmeter: {what}");
    }
}

/// The output of a workload's measurements: all of them to a file, a table to standard output.
#[derive(clap::Args, Debug)]
pub(super) struct Results {
    /// Write all measurements to this file, as JSON.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(super) printed: Output,
}

impl Results {
    /// Checks that the requested file can be written.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        self.path.as_deref().map_or(Ok(()), writable)
    }

    /// Writes the requested file.
    pub(super) fn write<E>(&self, write: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
        self.path.as_deref().map_or(Ok(()), write)
    }
}

/// Checks that the result can be written: an error is better before an hour of measuring than after it.
pub(super) fn writable(path: &Path) -> Result<(), CommandError> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|error| {
        CommandError::new(
            format!("cannot write {}: {error}", path.display()),
            "name a file in a folder that you may write to",
        )
    })
}

impl From<SessionError> for CommandError {
    fn from(error: SessionError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}

/// Cancels running statements when this program receives a terminating signal.
pub(super) fn cancelled_by_signals() -> Stop {
    let stop = Stop::new();
    let asked = stop.clone();
    interruption::watch(move || asked.ask());
    stop
}
