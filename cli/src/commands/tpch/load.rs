//! `hardmeter tpch load`.

use super::place::Place;
use super::{argument, cancelled_by_signals, Bar, Output};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::{ensure_database, usual_jobs};
use hardmeter_tpch::load::{load, LoadOrder, LoadProgress, Loaded};
use hardmeter_tpch::Scale;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

/// Make the tables and indexes of TPC-H and fill them.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The data are made while they are loaded; nothing is written but into the server.\n\n\
                  Example:\n  hardmeter tpch load --scale 0.1\n  \
                  hardmeter tpch load --scale 1 --connection 'host=/run/postgresql user=postgres' --database tpch"
)]
pub(super) struct Load {
    /// How much: 1 is 1 GB of raw rows, 1.7 GB in PostgreSQL with indexes; from 0.01 to 300.
    #[arg(long, value_name = "SF", default_value = "1", value_parser = argument::<Scale>)]
    scale: Scale,
    /// Throw the tables of TPC-H away that are there already.
    #[arg(long)]
    replace: bool,
    /// How many sessions load side by side [default: as many as processors, 4 at most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

impl LoadProgress for Bar {
    fn phase(&self, what: &str, units: u64) {
        self.0.reset();
        self.0.set_length(units);
        self.0.set_message(what.to_owned());
    }

    fn advance(&self, units: u64) {
        self.0.inc(units);
    }
}

impl Load {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let target = self.place.find_or_make(self.scale, globals)?;
        let stop = cancelled_by_signals();
        ensure_database(&target, &stop)?;
        let jobs = self.jobs.map_or_else(usual_jobs, usize::from);
        let order = LoadOrder { scale: self.scale, replace: self.replace, jobs };
        let bar = Bar::new(globals);
        let loaded = load(&target, &order, &stop, &bar)?;
        drop(bar);
        self.output.print(|| in_words(&loaded, target.description()), || json!(loaded))?;
        Ok(Outcome::Complete)
    }
}

fn in_words(loaded: &Loaded, place: &str) -> String {
    let all: u64 = loaded.rows.iter().map(|(_, rows)| rows).sum();
    let mut text = format!(
        "TPC-H, scale {}, in the database {place}: {} rows, {} with indexes\n",
        loaded.scale,
        HumanCount(all),
        HumanBytes(loaded.bytes)
    );
    for (table, rows) in &loaded.rows {
        text += &format!("  {table:<10} {:>13}\n", HumanCount(*rows).to_string());
    }
    let seconds = &loaded.seconds;
    text += &format!(
        "copied in {:.1} s, indexed in {:.1} s, vacuumed and analyzed in {:.1} s\n",
        seconds.copy, seconds.index, seconds.vacuum
    );
    text
}
