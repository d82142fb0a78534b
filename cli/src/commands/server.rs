//! `hardmeter server`: start, load and stop throwaway database servers.

use super::{CommandError, Globals, Outcome};

/// Start, load and stop throwaway database servers.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter server start postgres")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
