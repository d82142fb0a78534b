//! The result of a run: one JSON file, which the report, comparisons and the sum of several drivers are made from.

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
    /// What was run. Of several drivers: warehouses, connections and threads are sums.
    pub order: RunOrder,
    /// The system under test, and where the driver ran.
    pub environment: Environment,
    /// When it began by the calendar, microseconds since 1970.
    pub started_at: u64,
    /// How it ended.
    pub ending: Ending,
    /// Seconds of the measurement interval that there were: less than ordered if it was cut off.
    pub measured_seconds: f64,
    /// By transaction, in the order of [`Kind::ALL`].
    pub kinds: Vec<KindResult>,
    /// What was drawn in the measurement interval.
    pub draws: Draws,
    /// Second by second from the beginning of the run.
    pub series: Vec<Second>,
    /// Deferred deliveries: from being queued to being done, in the measurement interval.
    pub delivery: Times,
    /// Districts that had nothing to deliver, and districts delivered to, in the measurement interval.
    pub delivery_districts: (u64, u64),
    /// Failures of the whole run.
    pub errors: Vec<Errors>,
    /// Checkpoints of the server that were seen.
    pub checkpoints: Vec<Checkpoint>,
    /// What the server used in the measurement interval, where it could be seen.
    pub server: Option<ServerCost>,
    /// The driver processes.
    pub drivers: Vec<DriverPart>,
    /// The consistency conditions after the run; empty if they were not checked.
    pub conditions: Vec<Condition>,
}

impl RunResult {
    /// What there is of a transaction.
    pub fn of(&self, kind: Kind) -> &KindResult {
        &self.kinds[kind.index()]
    }

    /// New-Orders a minute that ended in the measurement interval, rolled back ones too (clause 5.4.1): what the
    /// specification calls MQTh, not truncated.
    pub fn throughput(&self) -> f64 {
        self.a_minute(self.of(Kind::NewOrder).completed)
    }

    /// NOPM: New-Orders a minute that are in the database, without those rolled back.
    pub fn new_orders_per_minute(&self) -> f64 {
        let orders = self.of(Kind::NewOrder);
        self.a_minute(orders.completed - orders.rolled_back)
    }

    /// So many in the measurement interval, by the minute; 0 if the run was cut off before it.
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
    /// Somebody asked it to stop.
    Interrupted,
    /// The server went away and did not come back, or nothing worked any more.
    Failed {
        /// Why.
        reason: String,
    },
}

/// One of the five transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindResult {
    /// Which.
    pub kind: Kind,
    /// Ended in the measurement interval, rolled back ones too. Delivery: the interactive part.
    pub completed: u64,
    /// New-Orders of these that were rolled back as they should.
    pub rolled_back: u64,
    /// Given up after all retries, in the interval; not in `completed`.
    pub failed: u64,
    /// Tried again, in the interval.
    pub retried: u64,
    /// From due to answered, in the interval.
    pub response: Times,
    /// From due to entered: the driver's own lag. It is inside of `response`.
    pub lag: Times,
    /// From entered to dispatched: waiting in the monitor.
    pub queued: Times,
    /// From dispatched to answered.
    pub service: Times,
    /// From due to answered, before the interval.
    pub ramp_response: Times,
    /// Keying times as they were, in the interval; only of terminals.
    pub keying: Times,
    /// Think times as they were, in the interval; only of terminals.
    pub think: Times,
}

/// What was drawn for transactions that ended in the measurement interval (clauses 2.4.1, 2.5.1, 2.6.1, 9.2.2.5).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draws {
    /// New-Orders by how many lines they have: 5 to 15 at 0 to 10.
    pub orders_by_lines: [u64; 11],
    /// Order lines, and those whose supplying warehouse is another one.
    pub lines: u64,
    /// See `lines`.
    pub remote_lines: u64,
    /// New-Orders by district.
    pub orders_by_district: [u64; 10],
    /// Payments, those of customers of other warehouses, those by last name.
    pub payments: u64,
    /// See `payments`.
    pub remote_payments: u64,
    /// See `payments`.
    pub payments_by_name: u64,
    /// Order-Status, and those by last name.
    pub order_statuses: u64,
    /// See `order_statuses`.
    pub order_statuses_by_name: u64,
}

/// One second of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Second {
    /// Transactions that ended in it, in the order of [`Kind::ALL`].
    pub completed: [u64; 5],
    /// The response times of New-Order together, in microseconds: their mean is a division away.
    #[serde(default)]
    pub response_total: u64,
    /// The longest response time of New-Order, in microseconds; 0 if there was none.
    pub longest: u64,
    /// The most that waited in the monitor for a connection.
    pub waiting: u32,
    /// Failures, those tried again too.
    pub failures: u32,
}

/// Failures of a transaction with one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Which transaction.
    pub kind: Kind,
    /// SQLSTATE or the engine's code; empty: not the server's.
    pub code: String,
    /// How often.
    pub count: u64,
    /// How many of these were tried again.
    pub retried: u64,
    /// What the server said at the first one.
    pub example: String,
}

/// A checkpoint of the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// When it was seen to be done, in seconds since the beginning of the run.
    pub at: f64,
    /// Whether the driver, or somebody, asked for it.
    pub requested: bool,
}

/// What the server used in the measurement interval.
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
    /// How many warehouses.
    pub warehouses: u32,
    /// How many terminals, or clients.
    pub terminals: u32,
    /// When it began by the calendar, microseconds since 1970.
    pub started_at: u64,
    /// By how many seconds its machine's calendar was stepped during the run.
    pub clock_step_seconds: f64,
    /// Its CPU seconds in the measurement interval.
    pub cpu_seconds: f64,
    /// Its largest resident memory, in bytes.
    pub resident_bytes: u64,
    /// Work that still waited, or was under way for too long, when the run was over: of an overloaded system this is what
    /// its response times do not tell of.
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
    /// The server's settings that are not its defaults: name, value.
    pub settings: BTreeMap<String, String>,
    /// Bytes of the database before the run, and after it.
    pub database_bytes: (u64, u64),
    /// Which processes ran on which CPUs, if somebody said so: "daemons=0 backends=1-7 driver=0".
    #[serde(default)]
    pub cpu_plan: Option<String>,
    /// What else is to be said of the server and the machines: a restart, what could not be seen.
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
    /// Whether it holds; `None`: it does not apply.
    pub held: Option<bool>,
    /// The first rows that break it.
    pub examples: Vec<String>,
}
