//! `hardmeter events`: list the events, by the question they answer.

use super::{CommandError, Globals, Outcome};

/// List the events, by the question they answer.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter events")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
