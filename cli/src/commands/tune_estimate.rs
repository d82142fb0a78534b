//! `hardmeter tune estimate`: estimates how much of the machine a target rate of transactions needs.

use super::output::Output;
use super::tune_server::TunedServer;
use super::workload::{cancelled_by_signals, Bar};
use super::{CommandError, Globals, Outcome};
use crate::terminal;
use hardmeter_advise::trial::{Ledger, Load, LoadCommand, Running};
use hardmeter_advise::{look, Estimate};
use std::ffi::OsString;
use std::time::Duration;

/// Estimate the resources for a target of transactions a second, and which limit is reached first.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
It looks at the server under its own traffic or LOAD, and extends what it saw in proportion: a lower bound, since queues
grow faster than a load. What a device or a network carries, no look can see.

Example:
  hardmeter tune estimate --tps 5000 --server /var/tmp/pg -- pgbench -n -c 4 -T 60")]
pub struct Arguments {
    /// The target, in transactions a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    tps: u64,
    #[command(flatten)]
    server: TunedServer,
    /// How long to look.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    #[command(flatten)]
    output: Output,
    /// A command that gives the server its load [default: the traffic that it has].
    #[arg(last = true, value_name = "LOAD")]
    load: Vec<OsString>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, globals: &Globals) -> Result<Outcome, CommandError> {
    let target = arguments.server.target()?;
    let load = match arguments.load.is_empty() {
        true => Load::Traffic,
        false => {
            Load::Throughout(LoadCommand { words: arguments.load.clone(), environment: target.environment() })
        }
    };
    let running = Running::start(&load, Ledger::of_user().beside("load.log"))?;
    let (stop, bar) = (cancelled_by_signals(), Bar::new(globals));
    let progress = |share: f64| bar.stands_at((share * 1000.0) as usize, 1000, "observing the server");
    let look = look(&target, Duration::from_secs(arguments.seconds), &stop, &progress)?;
    drop(bar);
    running.still_works()?;
    let estimate = Estimate::of(&look, arguments.tps as f64).ok_or_else(|| {
        CommandError::new(
            format!("the server ended no transaction in {} s", arguments.seconds),
            "run this while the server has load, or give a load: -- LOAD",
        )
    })?;
    let style = terminal::style(globals);
    arguments.output.print("tune-estimate", || estimate.text(style), || estimate.json())?;
    Ok(Outcome::Complete)
}
