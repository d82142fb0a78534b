//! `hardmeter split`: which kinds of requests pollute the caches, which suffer, and which cores suit them (SPLiT).

mod analyze;
mod folder;
mod metrics;
mod off;
mod report;
mod simulate;
mod status;
mod top;

use super::{interruption, CommandError, Globals, Outcome};

/// Run each class of requests on the cores that suit its cache behaviour (SPLiT), while that provably helps.
#[derive(clap::Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Servers load a module of SPLiT (mod_split, MariaDB's and PostgreSQL's plugins) and measure; the analyzer reads what \
                  they measured, and decides.\n\n\
                  Example:\n  hardmeter split analyze                  # report only\n  \
                  hardmeter split analyze --policy soft    # and place, guarded\n  hardmeter split top"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Analyze(analyze::Analyze),
    Top(top::Top),
    Report(report::Report),
    Metrics(metrics::Metrics),
    Status(status::Status),
    Off(off::Off),
    Simulate(simulate::Simulate),
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    match &arguments.action {
        Action::Analyze(analyze) => analyze.run(),
        Action::Top(top) => top.run(globals),
        Action::Report(report) => report.run(),
        Action::Metrics(metrics) => metrics.run(),
        Action::Status(status) => status.run(globals),
        Action::Off(off) => off.run(),
        Action::Simulate(simulate) => simulate.run(globals),
    }
}
