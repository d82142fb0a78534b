//! `hardmeter oo1`: compares P3L with other stores on the OO1 benchmark.

mod arguments;
mod clear;
mod modes;
mod run;
mod show;
mod table;

use super::output::Output;
use super::workload::{remark, writable, Bar, Results};
use super::{interruption, CommandError, Globals, Outcome};
use hardmeter_oo1::Oo1Error;

/// Navigate persistent objects (OO1): compares P3L with plain pointers, Texas, E, offsets, LMDB, SQLite,
/// libpmemobj.
#[derive(clap::Subcommand, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Graphs and stores are made once and kept: hardmeter oo1 clear deletes them.\n\n\
                  Example:\n  hardmeter oo1 modes\n  hardmeter oo1 run\n  \
                  hardmeter oo1 run --parts 2000000 --locality no --modes plain,p3l-plugin,texas -o result.json"
)]
pub enum Action {
    Run(run::Run),
    Modes(modes::Modes),
    Show(show::Show),
    Clear(clear::Clear),
}

/// Runs the command.
pub fn run(action: &Action, globals: &Globals) -> Result<Outcome, CommandError> {
    match action {
        Action::Run(run) => run.run(globals),
        Action::Modes(modes) => modes.run(),
        Action::Show(show) => show.run(globals),
        Action::Clear(clear) => clear.run(),
    }
}

impl From<Oo1Error> for CommandError {
    fn from(error: Oo1Error) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}
