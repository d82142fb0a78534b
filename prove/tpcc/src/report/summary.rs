//! The figures of a run for text, HTML and JSON.

use super::batches::{self, Batches, Estimate};
use crate::backend::Style;
use crate::measure::{RunResult, Times};
use crate::order::{Mix, Mode, Queueing, RunOrder};
use crate::time::Micros;
use crate::work::Kind;
use serde::Serialize;

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// New-Orders a minute, those rolled back too (clause 5.4.1).
    pub new_orders_a_minute: f64,
    /// Half of its 95 % interval, from batch means of 10 s or more; `None` for a run below a minute.
    pub half_interval: Option<f64>,
    /// Committed New-Orders per minute: NOPM of other tools.
    pub nopm: f64,
    /// New-Orders a minute and warehouse.
    pub per_warehouse: f64,
    /// Transactions of all kinds that ended in the interval.
    pub transactions: u64,
    /// Seconds of the measurement interval that there were.
    pub measured_seconds: f64,
    /// CPU seconds of all drivers, by 1,000 New-Orders.
    pub driver_cpu_per_1000: Option<f64>,
    /// CPU seconds of the server per 1,000 New-Orders; `None` if not observed.
    pub server_cpu_per_1000: Option<f64>,
    /// The drivers' largest resident memory, summed.
    pub driver_resident_bytes: u64,
    /// Figures by transaction.
    pub kinds: Vec<KindSummary>,
    /// Deferred deliveries, from being queued to being done.
    pub delivery: Option<Quantiles>,
}

/// The figures of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindSummary {
    /// Which.
    pub kind: Kind,
    /// Ended in the interval.
    pub completed: u64,
    /// Share of all transactions in percent.
    pub share: f64,
    /// Rolled back as they should be.
    pub rolled_back: u64,
    /// Given up.
    pub failed: u64,
    /// Tried again.
    pub retried: u64,
    /// Response times.
    pub response: Option<Quantiles>,
    /// The driver's own lag.
    pub lag: Option<Quantiles>,
    /// Waiting in the monitor.
    pub queued: Option<Quantiles>,
    /// In the server, and on the way.
    pub service: Option<Quantiles>,
}

/// Some times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // each is the quantile of that name
pub struct Quantiles {
    pub n: u64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Quantiles {
    /// The quantiles of times; `None` if there are none.
    pub fn of(times: &Times) -> Option<Quantiles> {
        let at = |share| times.quantile(share).map(Micros::as_seconds);
        Some(Quantiles {
            n: times.count(),
            mean: times.mean_seconds()?,
            p50: at(0.5)?,
            p90: at(0.9)?,
            p95: at(0.95)?,
            p99: at(0.99)?,
            p999: at(0.999)?,
            max: times.max()?.as_seconds(),
        })
    }
}

impl Summary {
    /// The summary of a run.
    pub fn of(result: &RunResult) -> Summary {
        let transactions: u64 = result.kinds.iter().map(|kind| kind.completed).sum();
        let orders = result.of(Kind::NewOrder).completed;
        let by_1000 = |seconds: f64| (orders > 0).then(|| seconds / orders as f64 * 1e3);
        let kinds = result.kinds.iter().map(|kind| KindSummary {
            kind: kind.kind,
            completed: kind.completed,
            share: kind.completed as f64 / transactions.max(1) as f64 * 100.0,
            rolled_back: kind.rolled_back,
            failed: kind.failed,
            retried: kind.retried,
            response: Quantiles::of(&kind.response),
            lag: Quantiles::of(&kind.lag),
            queued: Quantiles::of(&kind.queued),
            service: Quantiles::of(&kind.service),
        });
        Summary {
            new_orders_a_minute: result.throughput(),
            half_interval: throughput(result).map(|estimate| estimate.half),
            nopm: result.new_orders_per_minute(),
            per_warehouse: result.throughput() / f64::from(result.order.warehouses.max(1)),
            transactions,
            measured_seconds: result.measured_seconds,
            driver_cpu_per_1000: by_1000(result.drivers.iter().map(|driver| driver.cpu_seconds).sum()),
            server_cpu_per_1000: result.server.and_then(|server| by_1000(server.cpu_seconds)),
            driver_resident_bytes: result.drivers.iter().map(|driver| driver.resident_bytes).sum(),
            kinds: kinds.collect(),
            delivery: Quantiles::of(&result.delivery),
        }
    }
}

/// New-Orders per minute, by batch means.
pub fn throughput(result: &RunResult) -> Option<Estimate> {
    let a_second = Batches::of(&batches::new_orders(result)).mean()?;
    Some(Estimate { value: a_second.value * 60.0, half: a_second.half * 60.0 })
}

/// The parameters in words: name, value.
pub fn order_in_words(order: &RunOrder) -> Vec<(&'static str, String)> {
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_string();
    let warehouses = if order.warehouses == order.all_warehouses {
        order.warehouses.to_string()
    } else {
        format!(
            "{} to {} of {}",
            order.first_warehouse,
            u64::from(order.first_warehouse) + u64::from(order.warehouses) - 1,
            order.all_warehouses
        )
    };
    let constants = order.constants;
    vec![
        ("warehouses", warehouses),
        ("mode", mode_in_words(order.mode)),
        (
            "mix",
            match order.mix {
                Mix::Weights => "by weights that are adjusted",
                Mix::Deck => "from decks of 23 cards",
            }
            .into(),
        ),
        (
            "transactions",
            match order.style {
                Style::Procedures => "stored procedures",
                Style::Client => "SQL of the client",
            }
            .into(),
        ),
        ("database connections", order.connections.to_string()),
        ("driver threads", order.threads.to_string()),
        (
            "queueing",
            match order.queueing {
                Queueing::Fifo => "first come, first served",
                Queueing::Priority => "by kind of transaction",
            }
            .into(),
        ),
        ("affinity of warehouses to connections", yes(order.affinity)),
        ("retries", order.retries.to_string()),
        ("ramp", super::number::duration(order.ramp_seconds)),
        ("measurement interval", super::number::duration(order.interval_seconds)),
        ("settings of connections", crate::settings::in_words(&order.settings)),
        ("seed", order.seed.to_string()),
        (
            "C of NURand: C_LAST, C_ID, OL_I_ID",
            format!("{}, {}, {}", constants.last, constants.customer, constants.item),
        ),
        ("C-Load of C_LAST", order.load_last.map_or("not known".into(), |load| load.to_string())),
        (
            "checkpoints",
            order.checkpoint_seconds.map_or("the server's own".into(), |seconds| {
                format!("asked for every {}", super::number::duration(seconds))
            }),
        ),
    ]
}

/// The mode in words.
pub fn mode_in_words(mode: Mode) -> String {
    match mode {
        Mode::Terminals { time_factor: 1.0 } => "terminals with keying and think times".into(),
        Mode::Terminals { time_factor } => {
            format!("terminals with keying and think times, multiplied with {time_factor}")
        }
        Mode::Closed { clients } => format!("closed loop: {clients} clients without think time"),
        Mode::Open { rate } => format!("open arrivals: {rate} transactions a second"),
    }
}
