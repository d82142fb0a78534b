//! `hardmeter record`: record memory samples of a command, a process or a server.

use super::{CommandError, Globals, Outcome};

/// Record memory samples of a command, a process or a server.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  hardmeter record -e l1d-miss,l2-miss -- pgbench -c 10")]
pub struct Arguments {}

/// Runs the command.
pub fn run(_arguments: &Arguments, _globals: &Globals) -> Result<Outcome, CommandError> {
    Err(CommandError::new("not written yet", ""))
}
