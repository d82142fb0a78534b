//! `hardmeter tpcc load`.

use super::TPCC;
use crate::commands::place::{memory_mb, Place};
use crate::commands::workload::{cancelled_by_signals, Bar, Output};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::{ensure_database, usual_jobs};
use hardmeter_tpcc::load::{load, LoadOrder, Loaded};
use hardmeter_tpcc::schema::Layout;
use indicatif::HumanBytes;
use serde_json::json;

/// Make the nine tables and fill them, a warehouse at a time; a load that was cut off goes on.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The rows are decided by the seed and made while they are loaded. After an interruption the same \
                  command goes on with the warehouses that are missing.\n\n\
                  Example:\n  hardmeter tpcc load --warehouses 4\n  \
                  hardmeter tpcc load --warehouses 100 --partitions 8 --connection 'host=/run/postgresql user=postgres'"
)]
pub(super) struct Load {
    /// How many warehouses: about 110 MB each.
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: u32,
    /// What decides over all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Cut each table of the warehouses into so many parts, by the hash of the warehouse.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    partitions: u32,
    /// Fill pages only to so many percent [default: the server's].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(10..=100))]
    fill: Option<u8>,
    /// Throw the tables of TPC-C away that an earlier load of ours made.
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

impl Load {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let target = self.place.find_or_make(&TPCC, &settings_for(self.warehouses), globals)?;
        let stop = cancelled_by_signals();
        ensure_database(&target, &stop)?;
        let order = LoadOrder {
            seed: self.seed,
            layout: Layout { hash_partitions: self.partitions, fill: self.fill },
            replace: self.replace,
            jobs: self.jobs.map_or_else(usual_jobs, usize::from),
            ..order_for(self.warehouses)
        };
        let bar = Bar::new(globals);
        let loaded = load(&target, &order, &stop, &bar)?;
        drop(bar);
        self.output.print(|| in_words(&loaded, target.description()), || json!(loaded))?;
        Ok(Outcome::Complete)
    }
}

/// What a load does where nobody says more than how many warehouses.
pub(super) fn order_for(warehouses: u32) -> LoadOrder {
    let layout = Layout { hash_partitions: 0, fill: None };
    LoadOrder { warehouses, seed: 1, layout, replace: false, jobs: usual_jobs() }
}

fn in_words(loaded: &Loaded, place: &str) -> String {
    let mut text = format!(
        "TPC-C, {} warehouses, seed {}, C-Load {}, in the database {place}: {} with indexes\n",
        loaded.mark.warehouses,
        loaded.mark.seed,
        loaded.mark.c_last,
        HumanBytes(loaded.bytes)
    );
    if loaded.resumed > 0 {
        text += &format!("{} warehouses were there already, of a load that was cut off\n", loaded.resumed);
    }
    let seconds = &loaded.seconds;
    text += &format!(
        "copied in {:.1} s, keys in {:.1} s, vacuumed and analyzed in {:.1} s\n",
        seconds.copy, seconds.keys, seconds.vacuum
    );
    text
}

/// Settings of a throwaway server: a workload of transactions on it shall wait for the disk as on a real one, but not for
/// checkpoints of a small log.
pub(super) fn settings_for(warehouses: u32) -> Vec<(&'static str, String)> {
    let wanted = 256 + 120 * u64::from(warehouses);
    vec![
        ("shared_buffers", format!("{}MB", wanted.min(memory_mb() / 4).max(128))),
        ("max_wal_size", "8GB".into()),
        ("checkpoint_timeout", "30min".into()),
        ("max_connections", "200".into()),
    ]
}
