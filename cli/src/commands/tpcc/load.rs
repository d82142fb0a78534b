//! `hardmeter tpcc load`.

use super::load_mariadb;
use super::name::TPCC;
use crate::commands::output::Output;
use crate::commands::place::memory_mb;
use crate::commands::place_engines::{mariadb_settings, Data, EnginePlace, Making};
use crate::commands::workload::{cancelled_by_signals, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_servers::Engine;
use hardmeter_session::{ensure_database, usual_jobs, Target};
use hardmeter_tpcc::inspection::Check;
use hardmeter_tpcc::load::{LoadOrder, Loaded};
use hardmeter_tpcc::schema::{self, Layout};
use indicatif::HumanBytes;
use serde_json::json;

/// Create the nine tables and fill them, a warehouse at a time; an interrupted load continues.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The rows are decided by the seed and made while they are loaded. After an interruption the same \
                  command goes on with the warehouses that are missing.\n\n\
                  Example:\n  hardmeter tpcc load --warehouses 4\n  \
                  hardmeter tpcc load --warehouses 100 --partitions 8 --connection 'host=/run/postgresql user=postgres'"
)]
pub struct Load {
    /// Number of warehouses: about 110 MB each.
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) warehouses: u32,
    /// Seed of all random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Divide each table of the warehouses into this many parts, by warehouse.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(super) partitions: u32,
    /// How warehouses are assigned to partitions.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = PartitionBy::Hash, requires = "partitions")]
    partition_by: PartitionBy,
    /// Spread the warehouses over this many servers behind one (MariaDB with Spider).
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=64))]
    pub(super) shards: u32,
    /// Distribute the warehouses over the nodes of Citus; its extension must be in the database.
    #[arg(long, conflicts_with = "partitions", conflicts_with = "shards")]
    pub(super) distribute: bool,
    /// Fill factor of pages in percent [default: the server's].
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(10..=100))]
    pub(super) fill: Option<u8>,
    /// Remove the tables of TPC-C that an earlier load of Hardmeter made.
    #[arg(long)]
    pub(super) replace: bool,
    /// Number of sessions that load in parallel [default: as many as processors, at most 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) jobs: Option<u8>,
    #[command(flatten)]
    place: EnginePlace,
    #[command(flatten)]
    pub(super) output: Output,
}

/// How warehouses are assigned to partitions.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartitionBy {
    /// By the hash of a warehouse's number.
    Hash,
    /// Neighbours are together.
    Range,
}

impl Load {
    pub(super) fn run(&self, globals: &Globals) -> Result<Outcome, CommandError> {
        let settings = |engine| match engine {
            Engine::Postgres => settings_for(self.warehouses),
            Engine::Mariadb => mariadb_settings(self.warehouses, memory_mb()),
        };
        let making = Making { settings: &settings, shards: self.shards };
        match self.place.find_or_make(&TPCC, &making, globals)? {
            Data::Postgres(target) => self.run_postgres(&target, globals),
            Data::Mariadb(target) => load_mariadb::run(self, &target, globals),
        }
    }

    /// Whether neighbouring warehouses are to be in one part.
    pub(super) fn is_by_range(&self) -> bool {
        self.partition_by == PartitionBy::Range
    }

    fn run_postgres(&self, target: &Target, globals: &Globals) -> Result<Outcome, CommandError> {
        if self.shards > 0 {
            return Err(CommandError::new(
                "--shards is for MariaDB with Spider",
                "leave it out, name a MariaDB (--engine mariadb), or have Citus spread the warehouses: --distribute",
            ));
        }
        let stop = cancelled_by_signals();
        ensure_database(target, &stop)?;
        let order = LoadOrder {
            seed: self.seed,
            layout: Layout {
                partitions: self.partitions,
                by: match self.partition_by {
                    PartitionBy::Hash => schema::PartitionBy::Hash,
                    PartitionBy::Range => schema::PartitionBy::Range,
                },
                distributed: self.distribute,
                fill: self.fill,
            },
            replace: self.replace,
            jobs: self.jobs.map_or_else(usual_jobs, usize::from),
            ..order_for(self.warehouses)
        };
        let bar = Bar::new(globals);
        let loaded = order.load(target, &stop, &bar)?;
        drop(bar);
        self.output.print("tpcc-load", || in_words(&loaded, target.description()), || json!(loaded))?;
        Ok(if loaded.is_right() { Outcome::Complete } else { Outcome::Partial })
    }
}

/// The load for an order with only a number of warehouses.
pub(super) fn order_for(warehouses: u32) -> LoadOrder {
    LoadOrder { warehouses, seed: 1, layout: Layout::default(), replace: false, jobs: usual_jobs() }
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
        text += &format!("{} warehouses were there already, of an interrupted load\n", loaded.resumed);
    }
    let seconds = &loaded.seconds;
    text += &format!(
        "copied in {:.1} s, keys in {:.1} s, vacuumed and analyzed in {:.1} s\n",
        seconds.copy, seconds.keys, seconds.vacuum
    );
    text + &checks_in_words(loaded)
}

/// One line if all checks pass.
fn checks_in_words(loaded: &Loaded) -> String {
    let seconds = loaded.seconds.checks;
    let wrong: Vec<&Check> = loaded.checks.iter().filter(|check| !check.holds()).collect();
    if wrong.is_empty() {
        return format!(
            "checked in {seconds:.1} s: all tables have their rows, and what should be a tenth of them is one (clause 4.3.3.1)\n"
        );
    }
    let mut text = format!("checked in {seconds:.1} s, and this is NOT the population of clause 4.3.3.1:\n");
    for Check { what, found, low, high } in wrong {
        text += &format!("  {what}: {found}, not {low}");
        text += &if low < high { format!(" to {high}\n") } else { "\n".into() };
    }
    text
}

/// Settings of a throwaway server: transactions wait for the disk as on a production server, but not for
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
