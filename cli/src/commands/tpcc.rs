//! `hardmeter tpcc`: loads and runs TPC-C, audits databases of Hardmeter and of other tools.

mod acid;
mod audit;
mod compare;
mod load;
mod load_mariadb;
mod merge;
mod name;
mod run;
mod show;
mod sweep;

use super::{CommandError, Globals, Outcome};
use hardmeter_tpcc::TpccError;

/// Load and run TPC-C; audit a TPC-C database made by any tool.
#[derive(clap::Subcommand, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Without --server or --connection a throwaway server of its own is used, which load and run make.\n\
                  What this does is derived from TPC-C and gives no TPC result.\n\n\
                  Example:\n  hardmeter tpcc run --warehouses 10\n  hardmeter tpcc load --warehouses 4\n  hardmeter tpcc audit\n  \
                  hardmeter tpcc audit --foreign benchbase --connection 'host=/run/postgresql dbname=bench'"
)]
pub enum Action {
    Load(load::Load),
    Run(Box<run::Run>),
    Sweep(sweep::Sweep),
    Audit(audit::Audit),
    Show(show::Show),
    Compare(compare::Compare),
    Merge(merge::Merge),
    Acid(acid::Acid),
}

/// Runs the command.
pub fn run(action: &Action, globals: &Globals) -> Result<Outcome, CommandError> {
    match action {
        Action::Load(load) => load.run(globals),
        Action::Run(run) => run.run(globals),
        Action::Sweep(sweep) => sweep.run(globals),
        Action::Audit(audit) => audit.run(globals),
        Action::Show(show) => show.run(globals),
        Action::Compare(compare) => compare.run(globals),
        Action::Merge(merge) => merge.run(globals),
        Action::Acid(acid) => acid.run(globals),
    }
}

impl From<TpccError> for CommandError {
    fn from(error: TpccError) -> CommandError {
        CommandError::new(&error, error.remedy())
    }
}
