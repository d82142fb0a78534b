//! `hardmeter annotate`: show disassembly and source with a count beside each instruction.

use super::{CommandError, Globals, Outcome};

/// Show disassembly and source with a count beside each instruction.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter annotate LWLockRelease")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
