//! What to run.

use crate::backend::Style;
use crate::random::Constants;
use serde::{Deserialize, Serialize};

/// What to run. It is part of the result, so that a number never goes without what it was measured by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOrder {
    /// Warehouses in the database.
    pub all_warehouses: u32,
    /// The first warehouse of this driver, from 1.
    pub first_warehouse: u32,
    /// How many warehouses are this driver's, from the first one.
    pub warehouses: u32,
    /// Who asks, and when.
    pub mode: Mode,
    /// How the transactions are mixed.
    #[serde(default)]
    pub mix: Mix,
    /// How the transactions are written.
    pub style: Style,
    /// P: database connections of this driver, over all its threads.
    pub connections: u32,
    /// Threads of this driver; each has its own terminals, timer wheel, queues and connections.
    pub threads: u32,
    /// Which of the waiting transactions goes first.
    pub queueing: Queueing,
    /// Whether a warehouse's transactions go over its own connection (w mod P) even if another one is free.
    pub affinity: bool,
    /// How often the same transaction is tried again after a failure that may pass, at most.
    pub retries: u32,
    /// Seconds until the measurement interval begins.
    pub ramp_seconds: f64,
    /// Seconds of the measurement interval.
    pub interval_seconds: f64,
    /// What decides over everything that is drawn.
    pub seed: u64,
    /// C of NURand of this run (clause 2.1.6.1).
    pub constants: Constants,
    /// C-Load: what last names were drawn with when the database was loaded, if it says so.
    pub load_last: Option<u32>,
    /// Seconds between checkpoints that the driver asks for; `None`: the server's own.
    pub checkpoint_seconds: Option<f64>,
    /// When the run begins by the calendar, microseconds since 1970: several drivers begin together. `None`: now.
    pub start_at: Option<u64>,
}

/// Who asks, and when.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Mode {
    /// The specification: ten terminals a warehouse, keying and think times.
    Terminals {
        /// What keying and think times are multiplied with: 1 is the specification.
        time_factor: f64,
    },
    /// This number of clients; each sends its next request when it has the answer.
    Closed {
        /// How many.
        clients: u32,
    },
    /// Transactions come by a Poisson process, independent of earlier ones.
    Open {
        /// Transactions a second, on average.
        rate: f64,
    },
}

/// How a terminal comes to its next transaction (clause 5.2.4.2 has these two techniques).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// By weights that are adjusted in the run, within 5 %, so that the least shares of clause 5.2.3 come out and not much
    /// more: 12.70 New-Orders a minute and warehouse at most. Only of terminals: the others are dealt cards.
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

/// Which of the waiting transactions goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queueing {
    /// Who came first. Deferred deliveries go behind all others, but for those that wait for 40 s.
    Fifo,
    /// By kind: New-Order, Payment, Order-Status, Stock-Level, then deferred deliveries; within one, who came first. A
    /// delivery that waits for 40 s goes first, so that none starves (clause 2.7.2.2 wants 90 % within 80 s). Without
    /// terminals ([`Mode::Closed`], [`Mode::Open`]) deliveries go first by either policy: something always waits there,
    /// and behind all others they would never be done.
    Priority,
}
