//! `hardmeter tpcc sweep`.

use super::run::order::{Population, StyleName};
use super::run::system::System;
use crate::commands::output::Output;
use crate::commands::place_engines::EnginePlace;
use crate::commands::workload::{cancelled_by_signals, remark, writable, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::Stop;
use hardmeter_tpcc::measure::files::write_whole;
use hardmeter_tpcc::monitor::auto::{self, sweep};
use hardmeter_tpcc::order::RunOrder;
use hardmeter_tpcc::settings::Settings;
use hardmeter_tpcc::TpccError;
use serde_json::json;
use std::path::PathBuf;

/// Find the best number of connections: throughput and CPU over 1 to 64 of them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Clients without think times, one a connection, over each number of connections in turn, in several \
                  rounds. The effective multiplicity m of a server process, cpu / (cpu + wait), says where to look: \
                  2 x CPUs / m. What --connections auto of hardmeter tpcc run would choose is measured along with it.\n\n\
                  It runs transactions: the database grows. Nothing else should run on the machine meanwhile.\n\n\
                  Example:\n  hardmeter tpcc sweep --warehouses 4 --output knee.svg\n  \
                  hardmeter tpcc sweep --style client --connections 4,8,12,16,24,32 --rounds 5"
)]
pub struct Sweep {
    /// Number of warehouses [default: those that are loaded, or 10]. An empty database is loaded first.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: Option<u32>,
    /// Numbers of connections to try, in addition to those of auto.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,
    /// Number of rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Measured seconds of each number in a round, after the ramp.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    leg: f64,
    /// One call of a stored procedure for a transaction, or SQL from the client.
    #[arg(long, value_enum, default_value_t = StyleName::Procedures)]
    style: StyleName,
    /// Send a warehouse's transactions over its own connection, even if another one is free.
    #[arg(long)]
    affinity: bool,
    /// Number of driver threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: u32,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Draw throughput and CPU over the number of connections into this SVG file.
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    #[command(flatten)]
    place: EnginePlace,
    #[command(flatten)]
    format: Output,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err(format!("invalid time '{text}': expected 0.1 to 3600 seconds")),
    }
}

impl Sweep {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        if let Some(path) = &self.output {
            writable(path)?;
        }
        let system = System::find_or_make(&self.place, self.warehouses, globals)?;
        let stop = cancelled_by_signals();
        let population = system.population(self.warehouses, true, &stop, globals)?;
        let backends = system.backends(self.style.style(), None, &Settings::default(), &stop)?;
        let server = system.observer(&Stop::new())?.and_then(|server| server.first_process());
        let settings = auto::Settings {
            counts: self.connections.clone(),
            rounds: self.rounds,
            leg_seconds: self.leg,
            ..auto::Settings::default()
        };
        let bar = Bar::new(globals);
        let swept = sweep(&self.order(population), backends.as_ref(), server, &settings, &stop, &bar)?;
        drop(bar);
        let Some(swept) = swept else {
            remark(globals, "interrupted: too few measurements for a result");
            return Ok(Outcome::Partial);
        };
        let draw =
            |path: &PathBuf| -> Result<(), TpccError> { write_whole(path, swept.to_svg()?.as_bytes()) };
        // Print the result even if it cannot be saved.
        let drawn = self.output.as_ref().map(draw);
        self.format.print("tpcc-sweep", || swept.in_words(), || json!(swept))?;
        drawn.transpose()?;
        Ok(Outcome::Complete)
    }

    fn order(&self, population: Population) -> RunOrder {
        let Population { warehouses, load_last } = population;
        RunOrder {
            style: self.style.style(),
            threads: self.threads.min(warehouses),
            affinity: self.affinity,
            interval_seconds: self.leg,
            ..RunOrder::closed(warehouses, load_last, 1, self.seed)
        }
    }
}
