//! `hardmeter doctor`: tell which event sources this machine has, and what mends the others.

use super::{CommandError, Globals, Outcome};

/// Tell which event sources this machine has, and what mends the others.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter doctor")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
