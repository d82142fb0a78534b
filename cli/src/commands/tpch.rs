//! `hardmeter tpch`: load TPC-H, check its answers, run its queries by several variants of a session.

mod arguments;
mod check;
mod load;
mod run;
mod show;

use super::output::Output;
use super::workload::{cancelled_by_signals, remark, Bar, Results};
use super::{CommandError, Globals, Outcome};
use hardmeter_tpch::TpchError;

/// Load TPC-H into PostgreSQL, check its answers, compare settings by its queries.
#[derive(clap::Subcommand, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Without --server or --connection a throwaway server of its own is used, which load makes.\n\
                  Results are derived from TPC-H and not comparable to published TPC-H results.\n\n\
                  Example:\n  hardmeter tpch load --scale 1\n  hardmeter tpch check\n  \
                  hardmeter tpch run --variant stock= --variant 'no-nl=enable_nestloop=off'"
)]
pub enum Action {
    Load(load::Load),
    Check(check::Check),
    Run(run::Run),
    Show(show::Show),
}

/// Runs the command.
pub fn run(action: &Action, globals: &Globals) -> Result<Outcome, CommandError> {
    match action {
        Action::Load(load) => load.run(globals),
        Action::Check(check) => check.run(globals),
        Action::Run(run) => run.run(globals),
        Action::Show(show) => show.run(),
    }
}

impl From<TpchError> for CommandError {
    fn from(error: TpchError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}
