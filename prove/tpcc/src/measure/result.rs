//! The result of a run: one JSON file, the input of reports, comparisons and sums over drivers.

use super::Times;
use crate::order::RunOrder;
use crate::work::Kind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the file's format.
pub const RESULT_VERSION: u32 = 1;

/// The result of a run, of one driver or of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// [`RESULT_VERSION`].
    pub version: u32,
    /// The order of the run. Over several drivers warehouses, connections and threads are summed.
    pub order: RunOrder,
    /// The system under test, and where the driver ran.
    pub environment: Environment,
    /// When it began by the calendar, microseconds since 1970.
    pub started_at: u64,
    /// The way it ended.
    pub ending: Ending,
    /// Actual length of the measurement interval in seconds: less than ordered if it was cut off.
    pub measured_seconds: f64,
    /// By transaction, in the order of [`Kind::ALL`].
    pub kinds: Vec<KindResult>,
    /// Input data drawn in the measurement interval.
    pub draws: Draws,
    /// Second by second from the beginning of the run.
    pub series: Vec<Second>,
    /// Deferred deliveries in the measurement interval: from queueing to completion.
    pub delivery: Times,
    /// Districts that had nothing to deliver, and districts delivered to, in the measurement interval.
    pub delivery_districts: (u64, u64),
    /// Failures of the whole run.
    pub errors: Vec<Errors>,
    /// The server's observed checkpoints.
    pub checkpoints: Vec<Checkpoint>,
    /// The server's resource use in the measurement interval, if it could be observed.
    pub server: Option<ServerCost>,
    /// The driver processes.
    pub drivers: Vec<DriverPart>,
    /// The consistency conditions after the run; empty if not checked.
    pub conditions: Vec<Condition>,
}

impl RunResult {
    /// The result of a transaction type.
    pub fn of(&self, kind: Kind) -> &KindResult {
        &self.kinds[kind.index()]
    }

    /// New-Orders a minute that ended in the measurement interval, rolled back ones too (clause 5.4.1): what the
    /// specification calls MQTh, not truncated.
    pub fn throughput(&self) -> f64 {
        self.a_minute(self.of(Kind::NewOrder).completed)
    }

    /// NOPM: committed New-Orders per minute, without rolled-back ones.
    pub fn new_orders_per_minute(&self) -> f64 {
        let orders = self.of(Kind::NewOrder);
        self.a_minute(orders.completed - orders.rolled_back)
    }

    /// A count of the measurement interval, per minute; 0 if the run ended before it.
    fn a_minute(&self, number: u64) -> f64 {
        if self.measured_seconds > 0.0 {
            number as f64 * 60.0 / self.measured_seconds
        } else {
            0.0
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how")]
pub enum Ending {
    /// As ordered.
    Complete,
    /// On a request to stop.
    Interrupted,
    /// The server went away and did not come back, or every transaction failed.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// One of the five transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// The kind of transaction.
    pub kind: Kind,
    /// Ended in the measurement interval, including rolled-back ones. For Delivery: the interactive part.
    pub completed: u64,
    /// New-Orders of these that were rolled back as they should.
    pub rolled_back: u64,
    /// Given up after all retries in the interval; not in `completed`.
    pub failed: u64,
    /// Tried again, in the interval.
    pub retried: u64,
    /// Times from due to answered, in the interval.
    pub response: Times,
    /// From due to entered: the driver's own lag, included in `response`.
    pub lag: Times,
    /// From entered to dispatched: the wait in the monitor.
    pub queued: Times,
    /// Times from dispatched to answered.
    pub service: Times,
    /// Times from due to answered, before the interval.
    pub ramp_response: Times,
    /// Actual keying times in the interval; only with terminals.
    pub keying: Times,
    /// Actual think times in the interval; only with terminals.
    pub think: Times,
}

/// Input data of the transactions that ended in the measurement interval (clauses 2.4.1, 2.5.1, 2.6.1, 9.2.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draws {
    /// New-Orders by number of lines: index 0 to 10 for 5 to 15 lines.
    pub orders_by_lines: [u64; 11],
    /// All order lines.
    pub lines: u64,
    /// Order lines with a remote supplying warehouse.
    pub remote_lines: u64,
    /// New-Orders by district.
    pub orders_by_district: [u64; 10],
    /// Payments, those of customers of other warehouses, those by last name.
    pub payments: u64,
    /// Payments for a customer of a remote warehouse.
    pub remote_payments: u64,
    /// Payments that select the customer by name.
    pub payments_by_name: u64,
    /// Order-Status, and those by last name.
    pub order_statuses: u64,
    /// Order-Status transactions that select the customer by name.
    pub order_statuses_by_name: u64,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Transactions that ended in it, in the order of [`Kind::ALL`].
    pub completed: [u64; 5],
    /// The sum of New-Order response times in microseconds.
    #[serde(default)]
    pub response_total: u64,
    /// The longest response time of a New-Order in microseconds; 0 without New-Orders.
    pub longest: u64,
    /// The most that waited in the monitor for a connection.
    pub waiting: u32,
    /// Failures, those tried again too.
    pub failures: u32,
}

/// Failures of a transaction with one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The kind of the transaction.
    pub kind: Kind,
    /// SQLSTATE or the engine's code; empty: not from the server.
    pub code: String,
    /// Number of failures.
    pub count: u64,
    /// The transactions that were retried.
    pub retried: u64,
    /// The server's message at the first one.
    pub example: String,
}

/// A checkpoint of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// When its end was observed, in seconds since the start of the run.
    pub at: f64,
    /// Whether the driver or another client requested it.
    pub requested: bool,
}

/// The server's resource use in the measurement interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerCost {
    /// CPU seconds of all its processes.
    pub cpu_seconds: f64,
}

/// A driver process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriverPart {
    /// Its machine.
    pub host: String,
    /// Its first warehouse.
    pub first_warehouse: u32,
    /// Number of warehouses.
    pub warehouses: u32,
    /// Number of terminals or clients.
    pub terminals: u32,
    /// When it began by the calendar, microseconds since 1970.
    pub started_at: u64,
    /// Seconds by which its machine's wall clock was stepped during the run.
    pub clock_step_seconds: f64,
    /// Its CPU seconds in the measurement interval.
    pub cpu_seconds: f64,
    /// Its largest resident memory, in bytes.
    pub resident_bytes: u64,
    /// Work still waiting or in progress at the end of the run: in an overloaded system, response times do not
    /// include it.
    #[serde(default)]
    pub abandoned: u64,
    /// CPUs that it could use.
    pub cpus: u32,
}

/// The system under test, and where the driver ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The version of this program.
    pub hardmeter: String,
    /// "PostgreSQL 15.20 at /run/postgresql, procedures".
    pub system: String,
    /// The processor's model, and how many.
    pub processor: String,
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// The server's non-default settings: name, value.
    pub settings: BTreeMap<String, String>,
    /// Bytes of the database before the run, and after it.
    pub database_bytes: (u64, u64),
    /// The CPU plan, if any: "daemons=0 backends=1-7 driver=0".
    #[serde(default)]
    pub cpu_plan: Option<String>,
    /// Warnings about server and machines: a restart, missing observations.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// A consistency condition after the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its number in clause 3.3.2.
    pub number: u8,
    /// Its rule.
    pub rule: String,
    /// Whether it holds; `None`: not applicable.
    pub held: Option<bool>,
    /// The first rows that break it.
    pub examples: Vec<String>,
}
