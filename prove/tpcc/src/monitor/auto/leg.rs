//! A short run, and one of a sweep: clients without think times over a number of connections.

use super::super::{drive_with, Logs, Patience, Sources};
use super::gauge::Gauge;
use super::Settings;
use crate::backend::Backends;
use crate::error::TpccError;
use crate::measure::{Ending, RunResult, Times};
use crate::observe::Process;
use crate::order::{Mode, RunOrder};
use crate::time::Micros;
use crate::work::Kind;
use hardmeter_session::{Progress, Stop};

/// The measurements of a short run.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// New-Orders that ended in the interval.
    pub new_orders: u64,
    /// New-Orders a minute.
    pub throughput: f64,
    /// CPU seconds of the driver.
    pub driver_cpu: f64,
    /// CPU seconds of all the server's processes, if known.
    pub server_cpu: Option<f64>,
    /// m of the backends, if known.
    pub multiplicity: Option<f64>,
    /// Response times of New-Order.
    pub response: Times,
    /// Given up, of all transactions.
    pub failed: u64,
}

/// A block of a sweep: P connections, and a client on each.
#[derive(Clone, Debug, PartialEq)]
pub struct Leg {
    /// P.
    pub connections: u32,
    /// Its measurements.
    pub block: Block,
}

/// The common parameters of all legs.
pub(super) struct Course<'a> {
    pub order: &'a RunOrder,
    pub backends: &'a dyn Backends,
    pub sources: &'a Sources<'a>,
    /// The server's first process, if known.
    pub server: Option<Process>,
    pub settings: &'a Settings,
    pub stop: &'a Stop,
}

struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

impl Course<'_> {
    /// Runs leg `number`; each leg draws its own transactions. `None`: stop requested.
    pub fn leg(&self, number: u32, connections: u32) -> Result<Option<Leg>, TpccError> {
        let Settings { leg_seconds, ramp_seconds, .. } = *self.settings;
        let ramp_seconds = ramp_seconds + 0.02 * f64::from(connections);
        let order = RunOrder {
            mode: Mode::Closed { clients: connections },
            connections,
            threads: self.order.threads.min(connections),
            ramp_seconds,
            interval_seconds: leg_seconds,
            seed: self.order.seed.wrapping_add(u64::from(number) << 32),
            checkpoint_seconds: None,
            start_at: None,
            ..self.order.clone()
        };
        let block = block(&order, self.backends, self.sources, self.server, self.stop)?;
        Ok(block.map(|block| Leg { connections, block }))
    }
}

/// Measures a short run over new connections. `None`: stop requested.
///
/// # Errors
///
/// [`TpccError`] if it cannot begin, the server goes away, or no New-Order is done.
pub fn block(
    order: &RunOrder,
    backends: &dyn Backends,
    sources: &Sources,
    server: Option<Process>,
    stop: &Stop,
) -> Result<Option<Block>, TpccError> {
    let (connections, seconds) = (order.connections, order.interval_seconds);
    let gauge = Gauge::around(backends, server, Micros::of_seconds(order.ramp_seconds));
    let patience = Patience { winding_up: Micros::seconds(5), ..Patience::default() };
    let result = drive_with(order, &gauge, sources, &Logs::default(), patience, stop, &Silent)?;
    match &result.ending {
        Ending::Complete => {}
        Ending::Interrupted => return Ok(None),
        Ending::Failed { reason } => {
            return Err(TpccError::LegFailed { connections, reason: reason.clone() })
        }
    }
    let gauged = gauge.read();
    let orders = result.of(Kind::NewOrder);
    if orders.completed == 0 {
        let reason = format!("no New-Order was done in {seconds} s{}", first_error(&result));
        return Err(TpccError::LegFailed { connections, reason });
    }
    Ok(Some(Block {
        new_orders: orders.completed,
        throughput: result.throughput(),
        driver_cpu: result.drivers.iter().map(|driver| driver.cpu_seconds).sum(),
        server_cpu: gauged.server_cpu,
        multiplicity: gauged.backends.and_then(|seen| seen.effective_multiplicity()),
        response: orders.response.clone(),
        failed: result.kinds.iter().map(|kind| kind.failed).sum(),
    }))
}

fn first_error(result: &RunResult) -> String {
    result.errors.first().map_or_else(String::new, |error| format!(": {} ({})", error.example, error.code))
}
