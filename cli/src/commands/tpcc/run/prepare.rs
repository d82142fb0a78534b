//! Prepares the database of a run: loads an empty one, or continues an interrupted load.

use super::order::Population;
use crate::commands::tpcc::load::order_for;
use crate::commands::workload::{remark, Bar};
use crate::commands::{CommandError, Globals};
use hardmeter_session::{ensure_database, usual_jobs, Session, Stop, Target};
use hardmeter_tpcc::load::{Loaded, Mark};
use hardmeter_tpcc::{mariadb, TpccError};

/// Ensures that all warehouses are loaded. `wanted`: their number, if the user gave one.
pub(super) fn populate(
    target: &Target,
    wanted: Option<u32>,
    may_load: bool,
    stop: &Stop,
    globals: &Globals,
) -> Result<Population, CommandError> {
    ensure_database(target, stop)?;
    let found = Mark::of(&mut Session::open(target, stop)?)?;
    let order = match &found {
        Some(mark) if mark.complete => {
            check_size(mark.warehouses, &mark.in_words(), wanted)?;
            return Ok(Population { warehouses: mark.warehouses, load_last: Some(mark.c_last) });
        }
        _ if !may_load => {
            return Err(not_loaded_for_several());
        }
        Some(mark) => {
            check_size(mark.warehouses, &mark.in_words(), wanted)?;
            remark(globals, &format!("continuing an interrupted load: {}", mark.in_words()));
            mark.order()
        }
        None => {
            let order = order_for(wanted.unwrap_or(DEFAULT_WAREHOUSES));
            remark(
                globals,
                &format!("loading {} warehouses into {}", order.warehouses, target.description()),
            );
            order
        }
    };
    let bar = Bar::new(globals);
    let loaded = order.load(target, stop, &bar)?;
    drop(bar);
    remark(globals, &in_words(&loaded));
    Ok(Population { warehouses: loaded.mark.warehouses, load_last: Some(loaded.mark.c_last) })
}

/// The default number of warehouses.
pub(super) const DEFAULT_WAREHOUSES: u32 = 10;

fn check_size(there: u32, found: &str, wanted: Option<u32>) -> Result<(), CommandError> {
    match wanted {
        Some(wanted) if wanted != there => Err(CommandError::new(
            format!("this database holds {found}, not {wanted} warehouses"),
            format!(
                "run on those (--warehouses {there}), load again (hardmeter tpcc load --replace --warehouses {wanted}), or name \
                 another database: --database NAME"
            ),
        )),
        _ => Ok(()),
    }
}

fn not_loaded_for_several() -> CommandError {
    CommandError::new(
        "this driver is one of several, and the database is not loaded",
        "load it before they begin: hardmeter tpcc load --warehouses N",
    )
}

/// The same in MariaDB, for whole tables. `load` continues an interrupted load, with partitions and shards.
pub(super) fn populate_mariadb(
    target: &mariadb::Target,
    wanted: Option<u32>,
    may_load: bool,
    stop: &Stop,
    globals: &Globals,
) -> Result<Population, CommandError> {
    mariadb::ensure_database(target, stop)?;
    let mark = match mariadb::mark(target, stop) {
        Ok(mark) => {
            check_size(mark.warehouses, &mark.in_words(), wanted)?;
            mark
        }
        Err(TpccError::NoData { .. }) if may_load => {
            let order = mariadb::LoadOrder {
                warehouses: wanted.unwrap_or(DEFAULT_WAREHOUSES),
                seed: 1,
                layout: mariadb::Layout::Whole,
                replace: false,
                jobs: usual_jobs(),
            };
            remark(
                globals,
                &format!("loading {} warehouses into {}", order.warehouses, target.description()),
            );
            let bar = Bar::new(globals);
            order.load(target, stop, &bar)?.mark
        }
        Err(TpccError::NoData { .. }) => return Err(not_loaded_for_several()),
        Err(error) => return Err(error.into()),
    };
    Ok(Population { warehouses: mark.warehouses, load_last: Some(mark.c_last) })
}

fn in_words(loaded: &Loaded) -> String {
    let seconds = &loaded.seconds;
    format!("loaded in {:.1} s", seconds.copy + seconds.keys + seconds.vacuum)
}
