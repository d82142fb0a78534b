//! `hardmeter tpcc load` into MariaDB.

use super::load::Load;
use crate::commands::workload::{cancelled_by_signals, Bar};
use crate::commands::{CommandError, Globals, Outcome};
use hardmeter_session::usual_jobs;
use hardmeter_tpcc::mariadb::{ensure_database, Layout, LoadOrder, Loaded, Target};
use hardmeter_tpcc::TpccError;
use indicatif::HumanBytes;
use serde_json::json;

/// Loads, and prints what was loaded.
pub(super) fn run(load_of: &Load, target: &Target, globals: &Globals) -> Result<Outcome, CommandError> {
    let order = LoadOrder {
        warehouses: load_of.warehouses,
        seed: load_of.seed,
        layout: layout(load_of)?,
        replace: load_of.replace,
        jobs: load_of.jobs.map_or_else(usual_jobs, usize::from),
    };
    let stop = cancelled_by_signals();
    ensure_database(target, &stop)?;
    let bar = Bar::new(globals);
    let loaded = order.load(target, &stop, &bar)?;
    drop(bar);
    load_of.output.print("tpcc-load", || in_words(&loaded, target.description()), || json!(loaded))?;
    Ok(Outcome::Complete)
}

fn layout(load: &Load) -> Result<Layout, CommandError> {
    let refused = |what: &str, reason: &str, remedy: &str| {
        let (what, reason, remedy) = (what.into(), reason.into(), remedy.into());
        Err(TpccError::NotInMariadb { what, reason, remedy }.into())
    };
    match (load.shards, load.partitions) {
        _ if load.fill.is_some() => refused(
            "--fill",
            "InnoDB has one fill factor for the whole server",
            "leave it out, or: SET GLOBAL innodb_fill_factor",
        ),
        _ if load.distribute => {
            refused("--distribute", "Citus is PostgreSQL's", "spread the warehouses by Spider: --shards N")
        }
        (1.., 1..) => {
            refused("--shards with --partitions", "the shards are the partitions", "leave one of them out")
        }
        (0, 0) => Ok(Layout::Whole),
        (0, parts) if load.is_by_range() => Ok(Layout::Range { parts }),
        (0, parts) => Ok(Layout::Hash { parts }),
        (servers, 0) => Ok(Layout::Shards { servers }),
    }
}

fn in_words(loaded: &Loaded, place: &str) -> String {
    let Loaded { mark, resumed, bytes, seconds } = loaded;
    let mut text = format!(
        "TPC-C, {}, C-Load {}, in the database {place}: {} with indexes\n",
        mark.in_words(),
        mark.c_last,
        HumanBytes(*bytes)
    );
    if *resumed > 0 {
        text += &format!("{resumed} warehouses were there already, of an interrupted load\n");
    }
    text += &format!(
        "copied in {:.1} s, further indexes in {:.1} s, analyzed in {:.1} s\n",
        seconds.copy, seconds.keys, seconds.vacuum
    );
    text
}
