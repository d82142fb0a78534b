//! Settings compared by blocks that take turns on one database.

use crate::commands::output::Output;
use crate::commands::place_engines::EnginePlace;
use crate::commands::tpcc::run::order::{Population, StyleName};
use crate::commands::tpcc::run::system::System;
use crate::commands::workload::{cancelled_by_signals, remark, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::Stop;
use hardmeter_tpcc::compare::{of_blocks, Pace, Sides, MINIMUM_EFFECT};
use hardmeter_tpcc::order::{Mode, RunOrder};
use hardmeter_tpcc::settings::Settings;
use serde_json::json;

/// The options of blocks.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Blocks")]
pub(super) struct Blocks {
    /// Most blocks, of both sides together; a verdict takes 14 or more.
    #[arg(long, value_name = "N", default_value_t = 48, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    blocks: u32,
    /// Measured seconds of a block.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds before each block that do not count.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    warm_up: f64,
    /// The smallest change that matters, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = MINIMUM_EFFECT * 100.0, value_parser = percent)]
    minimum: f64,
    /// Number of warehouses [default: those that are loaded, or 10]. An empty database is loaded first.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: Option<u32>,
    /// Number of clients without think times.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    clients: u32,
    /// Instead of clients: transactions per second on average, at a load that both sides can do.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Number of connections to the server [default: one per client up to 64].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Option<u32>,
    /// One call of a stored procedure for a transaction, or SQL from the client.
    #[arg(long, value_enum, default_value_t = StyleName::Procedures)]
    style: StyleName,
    /// Seed of the order of the blocks and of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn number(text: &str, what: &str, low: f64, high: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (low..=high).contains(&value) => Ok(value),
        _ => Err(format!("invalid {what} '{text}': expected {low} to {high}")),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, "number of seconds", 0.1, 3600.0)
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, "percentage", 0.1, 50.0)
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, "rate", 0.1, 1e6)
}

impl Blocks {
    pub(super) fn run(
        &self,
        [a, b]: [&Settings; 2],
        place: &EnginePlace,
        output: &Output,
        globals: &Globals,
    ) -> Result<Outcome, CommandError> {
        let system = System::find_or_make(place, self.warehouses, globals)?;
        let stop = cancelled_by_signals();
        let population = system.population(self.warehouses, true, &stop, globals)?;
        let style = self.style.style();
        let [first, other] = [a, b].map(|side| system.backends(style, None, side, &stop));
        let (first, other) = (first?, other?);
        let server = system.observer(&Stop::new())?.and_then(|server| server.first_process());
        if server.is_none() {
            remark(globals, "the server's processes cannot be seen from here: its CPU time is not compared");
        }
        let pace = Pace {
            most_blocks: self.blocks,
            block_seconds: self.seconds,
            warm_up_seconds: self.warm_up,
            minimum_effect: self.minimum / 100.0,
        };
        let sides = Sides { a: first.as_ref(), b: other.as_ref(), server };
        let bar = Bar::new(globals);
        let comparison = of_blocks(&self.order(population), sides, pace, &stop, &bar)?;
        drop(bar);
        output.print(
            "tpcc-compare",
            || comparison.in_words(&a.to_string(), &b.to_string()),
            || {
                json!({
                    "system": first.description(),
                    "settings": { "a": a.to_show(), "b": b.to_show() },
                    "blocks": comparison,
                })
            },
        )?;
        Ok(if comparison.interrupted { Outcome::Partial } else { Outcome::Complete })
    }

    fn order(&self, population: Population) -> RunOrder {
        let Population { warehouses, load_last } = population;
        let usual = RunOrder::closed(warehouses, load_last, self.clients, self.seed);
        RunOrder {
            mode: self.rate.map_or(usual.mode, |rate| Mode::Open { rate }),
            connections: self.connections.unwrap_or(self.clients.min(64)),
            style: self.style.style(),
            ..usual
        }
    }
}
