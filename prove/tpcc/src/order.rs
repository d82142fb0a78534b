//! The parameters of a run.

use crate::backend::Style;
use crate::random::Constants;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The parameters of a run. They are part of the result, so that each figure has its conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOrder {
    /// Warehouses in the database.
    pub all_warehouses: u32,
    /// The first warehouse of this driver, from 1.
    pub first_warehouse: u32,
    /// Number of this driver's warehouses, from the first one.
    pub warehouses: u32,
    /// Which clients send transactions, and when.
    pub mode: Mode,
    /// How the mix is produced.
    #[serde(default)]
    pub mix: Mix,
    /// The style of the transactions.
    pub style: Style,
    /// P: database connections of this driver, over all its threads.
    pub connections: u32,
    /// Threads of this driver; each has its own terminals, timer wheel, queues and connections.
    pub threads: u32,
    /// Priority among waiting transactions.
    pub queueing: Queueing,
    /// Whether a warehouse's transactions use its own connection (w mod P) even if another one is free.
    pub affinity: bool,
    /// Maximum number of retries after a transient failure.
    pub retries: u32,
    /// Seconds before the measurement interval begins.
    pub ramp_seconds: f64,
    /// Seconds of the measurement interval.
    pub interval_seconds: f64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// C of NURand of this run (clause 2.1.6.1).
    pub constants: Constants,
    /// C-Load: the constant for last names of the load, if the database has it recorded.
    pub load_last: Option<u32>,
    /// Seconds between checkpoints that the driver requests; `None`: only the server's own.
    pub checkpoint_seconds: Option<f64>,
    /// Settings of its connections that the user chose, by name; secrets are masked.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Start in calendar time, microseconds since 1970, for several drivers that begin together. `None`: now.
    pub start_at: Option<u64>,
}

impl RunOrder {
    /// Clients without think times, one a connection, over all warehouses of a database.
    pub fn closed(warehouses: u32, load_last: Option<u32>, clients: u32, seed: u64) -> RunOrder {
        RunOrder {
            all_warehouses: warehouses,
            first_warehouse: 1,
            warehouses,
            mode: Mode::Closed { clients },
            mix: Mix::Deck,
            style: Style::Procedures,
            connections: clients,
            threads: 1,
            queueing: Queueing::Fifo,
            affinity: false,
            retries: 5,
            ramp_seconds: 0.0,
            interval_seconds: 0.0,
            seed,
            // Without C-Load the legal distance is unknown; the report warns about it.
            constants: Constants::for_run(load_last.unwrap_or(0), seed),
            load_last,
            checkpoint_seconds: None,
            settings: BTreeMap::new(),
            start_at: None,
        }
    }
}

/// Which clients send transactions, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mode {
    /// The specification: ten terminals a warehouse, keying and think times.
    Terminals {
        /// Factor of keying and think times: 1 is the specification.
        time_factor: f64,
    },
    /// This number of clients; each sends its next request after its answer.
    Closed {
        /// Number of clients.
        clients: u32,
    },
    /// Transactions arrive as a Poisson process, independent of earlier ones.
    Open {
        /// Transactions a second, on average.
        rate: f64,
    },
}

/// How a terminal selects its next transaction (clause 5.2.4.2 has these two techniques).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// By weights adjusted during the run within 5 %, so that the minimum shares of clause 5.2.3 are met with
    /// little excess: at most 12.70 New-Orders per minute and warehouse. Only for terminals: other clients use
    /// decks.
    #[default]
    Weights,
    /// From decks of 23 cards, 10/10/1/1/1: 12.60 at most.
    Deck,
}

impl Mix {
    /// Weights for terminals where enough transactions will be measured for exact shares, else decks. With
    /// 28,000 of 1,000 terminals all least shares are held with more than 99 %, with a fifth of that every other time only.
    pub fn suited(mode: Mode, warehouses: u32, interval_seconds: f64) -> Mix {
        match mode {
            Mode::Terminals { time_factor }
                if f64::from(warehouses) * 10.0 * interval_seconds / (20.8 * time_factor) >= 28_000.0 =>
            {
                Mix::Weights
            }
            _ => Mix::Deck,
        }
    }
}

/// Priority among waiting transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// First in, first out. Deferred deliveries have the lowest priority, unless they wait for 40 s.
    Fifo,
    /// By type: New-Order, Payment, Order-Status, Stock-Level, then deferred deliveries; within a type first in,
    /// first out. A delivery that waits for 40 s goes first, so that none starves (clause 2.7.2.2 requires 90 %
    /// within 80 s). Without terminals ([`Mode::Closed`], [`Mode::Open`]) deliveries always go first: the queue is
    /// never empty there, so that they would never run at low priority.
    Priority,
}
