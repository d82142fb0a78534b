//! `hardmeter tpch load`.

use super::arguments::{argument, TPCH};
use super::{cancelled_by_signals, Bar, Output};
use crate::commands::place::{memory_mb, Place};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_evidence::table::{Style, TextTable};
use hardmeter_session::{ensure_database, usual_jobs};
use hardmeter_tpch::load::{load, LoadOrder, Loaded};
use hardmeter_tpch::Scale;
use indicatif::{HumanBytes, HumanCount};
use serde_json::json;

/// Make the tables and indexes of TPC-H and fill them.
#[derive(clap::Args, Debug)]
#[command(after_help = "The data are made while they are loaded; only the server's database is written.\n\n\
                  Example:\n  hardmeter tpch load --scale 0.1\n  \
                  hardmeter tpch load --scale 1 --connection 'host=/run/postgresql user=postgres' --database tpch")]
pub struct Load {
    /// Size of the data: 1 is 1 GB of raw rows, 1.7 GB in PostgreSQL with indexes; from 0.01 to 300.
    #[arg(long, value_name = "SF", default_value = "1", value_parser = argument::<Scale>)]
    scale: Scale,
    /// Delete existing tables of TPC-H.
    #[arg(long)]
    replace: bool,
    /// Number of sessions that load in parallel [default: as many as processors, at most 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: Option<u8>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    output: Output,
}

impl Load {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let target = self.place.find_or_make(&TPCH, &settings_for(self.scale), globals)?;
        let stop = cancelled_by_signals();
        ensure_database(&target, &stop)?;
        let jobs = self.jobs.map_or_else(usual_jobs, usize::from);
        let order = LoadOrder { scale: self.scale, replace: self.replace, jobs };
        let bar = Bar::new(globals);
        let loaded = load(&target, &order, &stop, &bar)?;
        drop(bar);
        self.output.print("tpch-load", || in_words(&loaded, target.description()), || json!(loaded))?;
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
    let mut tables = TextTable::of_figures(["table", "rows"]).untitled();
    for (table, rows) in &loaded.rows {
        tables.plain([table.to_string(), HumanCount(*rows).to_string()]);
    }
    text += &tables.render(Style::default(), 2);
    let seconds = &loaded.seconds;
    text += &format!(
        "copied in {:.1} s, indexed in {:.1} s, vacuumed and analyzed in {:.1} s\n",
        seconds.copy, seconds.index, seconds.vacuum
    );
    text
}

/// Settings of a throwaway server for a scale: all data fit into its buffers if the machine has enough memory, a
/// load writes no log, and nothing runs beside the queries. `fsync` is off: after a crash of the machine the data
/// must be loaded again.
fn settings_for(scale: Scale) -> Vec<(&'static str, String)> {
    let wanted = 256 + (2000.0 * scale.factor()) as u64;
    let buffers = wanted.min(memory_mb() / 3).max(128);
    vec![
        ("shared_buffers", format!("{buffers}MB")),
        ("wal_level", "minimal".into()),
        ("max_wal_senders", "0".into()),
        ("max_wal_size", "8GB".into()),
        ("checkpoint_timeout", "30min".into()),
        ("fsync", "off".into()),
        ("autovacuum", "off".into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_the_data_or_a_third_of_the_memory() {
        let megabytes = |factor| -> u64 {
            let settings = settings_for(Scale::new(factor).unwrap());
            settings[0].1.trim_end_matches("MB").parse().unwrap()
        };
        assert_eq!(megabytes(0.01), 276.min(memory_mb() / 3).max(128));
        assert!(megabytes(300.0) <= (memory_mb() / 3).max(128));
    }
}
