//! `hardmeter split`: which kinds of requests pollute the caches, which suffer, and which cores suit them (SPLiT).

mod analyze;
mod off;
mod simulate;
mod status;

use super::{interruption, CommandError, Globals, Outcome};
use std::path::PathBuf;

/// Give each kind of request the cores that suit its cache behaviour (SPLiT), as long as that provably helps.
#[derive(clap::Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Servers load a module of SPLiT (mod_split, MariaDB's and PostgreSQL's plugins) and measure; the analyzer reads what \
                  they measured, and decides.\n\n\
                  Example:\n  hardmeter split analyze                  # report only\n  \
                  hardmeter split analyze --policy soft    # and place, guarded\n  hardmeter split status"
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    Analyze(analyze::Analyze),
    Status(status::Status),
    Off(off::Off),
    Simulate(simulate::Simulate),
}

/// Runs the command.
pub fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    match &arguments.action {
        Action::Analyze(analyze) => analyze.run(),
        Action::Status(status) => status.run(globals),
        Action::Off(off) => off.run(),
        Action::Simulate(simulate) => simulate.run(globals),
    }
}

/// Where servers and analyzer meet.
#[derive(clap::Args, Debug)]
struct Folder {
    /// The segments' folder [default: the environment's SPLIT_DIRECTORY, else /run/hardmeter-split].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl Folder {
    fn path(&self) -> PathBuf {
        hardmeter_split::segment::directory(self.directory.as_deref())
    }
}
