//! `hardmeter report`: show where the misses are.

use super::{CommandError, Globals, Outcome};

/// Show where the misses are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter report --by routine")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
