//! Clause 3.4.2: the nine isolation scenarios. T1 is held open before its end, T2 is started, and its outcome is
//! checked.
//!
//! ```text
//! 1, 2  Order-Status against a New-Order that commits, that is rolled back     ([`mod@status`])
//! 3, 4  New-Order against a New-Order of its district, likewise                ([`mod@orders`])
//! 5, 6  Payment against a Delivery to its customer, likewise                   ([`mod@money`])
//! 7     New-Order reads prices while they are changed                          ([`mod@prices`])
//! 8     Delivery finds nothing in a district; a New-Order of it arrives        ([`mod@phantoms`])
//! 9     Order-Status finds a last order; a New-Order of the customer arrives   ([`mod@phantoms`])
//! ```

mod money;
mod orders;
mod phantoms;
mod prices;
mod stage;
mod status;

use super::{Trial, Ways};
use crate::error::TpccError;
use crate::load::Mark;
use crate::random::{Part, Stream};
use hardmeter_session::{Progress, Session, Stop, Target};
use stage::Stage;
use std::sync::Arc;

/// Number of scenarios.
pub const SCENARIOS: u8 = 9;

/// Runs the requested scenarios, 1 to 9; returns a trial for each.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested.
pub fn run(
    target: &Target,
    ways: &Arc<dyn Ways>,
    warehouses: u32,
    seed: u64,
    wanted: &[u8],
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Vec<Trial>, TpccError> {
    progress.phase("playing isolation scenarios", wanted.len() as u64);
    let mut onlooker = Session::open(target, stop)?;
    let distributed = Mark::is_distributed(&mut onlooker)?;
    let mut stage = Stage {
        target,
        stop,
        ways: ways.clone(),
        onlooker,
        distributed,
        warehouses,
        chance: Stream::of(seed, Part::Constants, u32::MAX - 1),
    };
    let mut trials = vec![];
    for &number in wanted {
        let scenario = match number {
            1 => status::committed,
            2 => status::rolled_back,
            3 => orders::committed,
            4 => orders::rolled_back,
            5 => money::committed,
            6 => money::rolled_back,
            7 => prices::repeatable,
            8 => phantoms::delivery,
            _ => phantoms::order_status,
        };
        trials.push(scenario(&mut stage)?);
        progress.advance(1);
    }
    Ok(trials)
}
