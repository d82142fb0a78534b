//! Clause 3 on a real server: atomicity, the nine isolation scenarios, consistency under load, durability.
//!
//! ```text
//! atomicity     3.2.2: a Payment committed, a Payment rolled back; rows before and after        ([`atomicity`])
//! isolation     3.4.2: nine interleavings of two or three transactions, each held open          ([`isolation`])
//! consistency   3.3.3: the twelve conditions before and after a load of all five                ([`consistency`])
//! durability    3.5.4: the server killed under load; what it had acknowledged is there again    ([`durability`])
//! ```
//!
//! # Design constraints
//!
//! * *A scenario does not know how the transactions are written.* It asks [`Ways`] for "all of a New-Order but its
//!   COMMIT", so that the same nine run over stored procedures, over the client's SQL, and over ways that are wrong on
//!   purpose: a test that cannot fail proves nothing (tests/tpcc_acid.rs).
//! * *The server reports that a session waits, and for which* (pg_stat_activity, pg_blocking_pids); no sleep stands
//!   for it.
//! * *What was changed for a scenario is put back*: prices, and the rows of NEW-ORDER of one district. Orders and payments
//!   of the scenarios stay, as a run's do, and the conditions hold with them.
//! * *No other client may work in the database* meanwhile: a row that it changed looks like a broken transaction.
//!
//! # Verified, and not
//!
//! Read in a copy of the official text, revision 5.11: clauses 3.2.2.1 and 3.2.2.2, the table of 3.4.1 (level 3 between
//! New-Order, Payment, Delivery and Order-Status), cases B to D of test 7, what test 8 is about. From memory, and said so
//! in the output: the steps of tests 1 to 6 and 9, case A of 7, 3.5.4.

pub mod atomicity;
pub mod consistency;
pub mod durability;
pub mod isolation;
mod players;
mod real;
mod rows;
mod success;
pub mod ways;

use crate::audit::Verdict;
use crate::backend::Style;
use crate::error::TpccError;
use crate::load::Mark;
use crate::order::{Mix, Mode, Queueing, RunOrder};
use crate::random::Constants;
use hardmeter_session::{Session, Target};

pub use real::Real;
pub use ways::{LastOrder, Ways};

/// Where the steps of a trial are known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A copy of the official text, revision 5.11.
    Text,
    /// Memory of it: not verified against the official text.
    Memory,
    /// Our own, beyond the specification.
    Ours,
}

/// One test of clause 3, and what came of it.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Trial {
    /// Its clause.
    pub clause: &'static str,
    /// What it is about.
    pub name: String,
    /// Where its steps are known from.
    pub source: Source,
    /// Whether it was as it must be.
    pub verdict: Verdict,
    /// Which of the outcomes was seen that the clause allows, where it allows several.
    pub case: Option<String>,
    /// What was seen, in the order in which it was.
    pub seen: Vec<String>,
}

/// A part of clause 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is the property of that name
pub enum Property {
    Atomicity,
    Isolation,
    Consistency,
    Durability,
}

/// What came of a part, in one style of transactions.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Tried {
    /// Which part.
    pub property: Property,
    /// How the transactions were written, in words.
    pub transactions: String,
    /// Its tests.
    pub trials: Vec<Trial>,
}

/// Collects what is seen in a trial, and whether it is as it must be.
struct Observations {
    seen: Vec<String>,
    broken: bool,
}

impl Observations {
    fn new() -> Observations {
        Observations { seen: vec![], broken: false }
    }

    /// Something that is worth saying.
    fn note(&mut self, what: impl Into<String>) {
        self.seen.push(what.into());
    }

    /// Something that must be so: it is said either way.
    fn must(&mut self, so: bool, what: impl Into<String>) {
        let what = what.into();
        self.seen.push(if so { what } else { format!("NOT SO: {what}") });
        self.broken |= !so;
    }

    /// Something that must have this value.
    fn must_be<T: PartialEq + std::fmt::Display>(&mut self, what: &str, found: &T, wanted: &T) {
        if found == wanted {
            self.note(format!("{what} is {found}"));
        } else {
            self.must(false, format!("{what} is {wanted}; it is {found}"));
        }
    }

    fn verdict(&self) -> Verdict {
        if self.broken {
            Verdict::Short
        } else {
            Verdict::Held
        }
    }
}

/// Fails while other clients work in the database: sessions that are not idle, except the one asking.
///
/// # Errors
///
/// [`TpccError::NotAlone`] with the number of other sessions; otherwise as [`Session::query`].
pub fn require_alone(session: &mut Session, target: &Target) -> Result<(), TpccError> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
               AND backend_type = 'client backend' AND state <> 'idle'";
    let others = session.query("looking for others at work", sql)?;
    match others.single().and_then(|count| count.parse().ok()).unwrap_or(0u32) {
        0 => Ok(()),
        others => Err(TpccError::NotAlone { place: target.description().to_owned(), others }),
    }
}

/// The load that consistency and durability are tried under: all five transactions, without pauses.
fn load_order(mark: &Mark, style: Style, seed: u64, seconds: f64) -> RunOrder {
    RunOrder {
        all_warehouses: mark.warehouses,
        first_warehouse: 1,
        warehouses: mark.warehouses,
        mode: Mode::Closed { clients: durability::CONNECTIONS },
        mix: Mix::Deck,
        style,
        connections: durability::CONNECTIONS,
        threads: 1,
        queueing: Queueing::Fifo,
        affinity: false,
        retries: 10,
        ramp_seconds: 0.0,
        interval_seconds: seconds,
        seed,
        constants: Constants::for_run(mark.c_last, seed),
        load_last: Some(mark.c_last),
        checkpoint_seconds: None,
        start_at: None,
    }
}
