//! `hardmeter export`: write a capture in the format of another tool.

use super::{CommandError, Globals, Outcome};

/// Write a capture in the format of another tool.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter export --to folded")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
