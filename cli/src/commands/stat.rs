//! `hardmeter stat`: count events without sampling.

use super::{CommandError, Globals, Outcome};

/// Count events without sampling.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter stat -e l1d-miss,loads -- ls")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
