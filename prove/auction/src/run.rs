//! One run: visitors on a site, with the servers' resource use.

use crate::drive::{drive, Mode, Plan, Watcher};
use crate::error::AuctionError;
use crate::result::{RunResult, Visited};
use crate::scenario::Clients;
use crate::site::Site;
use crate::usage::{Counted, CpuSeconds};
use crate::visit::{Visitors, Visits};
use mysql::Conn;
use std::time::Duration;

/// The parameters of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The load.
    pub visited: Visited,
    /// Seed of visitors and arrivals.
    pub seed: u64,
    /// Duration of a mix before the measurement.
    pub warmup: Duration,
    /// Measured duration of a mix.
    pub duration: Duration,
    /// Time limit of an answer.
    pub patience: Duration,
}

/// Receives the progress of a run: answers so far, their total if known, and the time. An error ends the run.
pub type Told<'a> = &'a mut dyn FnMut(u64, Option<u64>, Duration) -> Result<(), AuctionError>;

/// Runs the load on a site.
///
/// # Errors
///
/// [`AuctionError`] if a server is gone, or the driver cannot start.
pub fn run(site: &mut Site, order: &Order, told: Told) -> Result<RunResult, AuctionError> {
    let population = site.state().population;
    let mut visitors: Box<dyn Visits> = match &order.visited {
        Visited::OpenMix { mix, .. } | Visited::ClosedMix { mix, .. } => {
            Box::new(Visitors::new(*mix, population, order.seed))
        }
        Visited::Scenario { scenario, clients, .. } => {
            Box::new(Clients::new(*scenario, *clients as u32, order.seed))
        }
    };
    let mode = match order.visited {
        Visited::OpenMix { rate, arrivals, connections, visitors, .. } => {
            Mode::Open { rate, arrivals, connections, visitors, seed: order.seed }
        }
        Visited::ClosedMix { clients, .. } | Visited::Scenario { clients, .. } => Mode::Closed { clients },
    };
    let fixed = matches!(order.visited, Visited::Scenario { .. });
    let plan = Plan {
        address: site.address(),
        mode,
        warmup: if fixed { Duration::ZERO } else { order.warmup },
        duration: (!fixed).then_some(order.duration),
        patience: order.patience,
    };
    let total = visitors.total();
    let connection = site.connect()?;
    let mut meter = Meter { site, connection, told, total, before: None, used: None };
    let driven = drive(&plan, visitors.as_mut(), &mut meter)?;
    let (counted, cpu) = meter.used.unwrap_or_default();
    Ok(RunResult::new(order.visited.clone(), site.state(), order.seed, &mode, &driven, counted, cpu))
}

/// Reads what the servers used when requests begin to count, and at the end.
struct Meter<'a> {
    site: &'a mut Site,
    connection: Conn,
    told: Told<'a>,
    total: Option<u64>,
    before: Option<(Counted, CpuSeconds)>,
    used: Option<(Counted, CpuSeconds)>,
}

impl Watcher for Meter<'_> {
    fn begins(&mut self) -> Result<(), AuctionError> {
        self.before = Some((Counted::now(&mut self.connection)?, self.site.cpu()));
        Ok(())
    }

    fn looks(&mut self, answers: u64, elapsed: Duration) -> Result<(), AuctionError> {
        self.site.check(elapsed)?;
        (self.told)(answers, self.total, elapsed)
    }

    fn ends(&mut self) -> Result<(), AuctionError> {
        let cpu = self.site.cpu();
        let counted = Counted::now(&mut self.connection)?;
        let (counted_before, cpu_before) = self.before.unwrap_or_default();
        self.used = Some((counted.since(counted_before), cpu.since(&cpu_before)));
        Ok(())
    }
}
