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
//! * *A scenario is independent of the style of the transactions.* It calls [`Ways`] for a New-Order without its
//!   COMMIT, so that the same nine run with stored procedures, with the client's SQL, and with implementations that
//!   are wrong on purpose, which show that the tests can fail (tests/tpcc_acid.rs).
//! * *The server reports that a session waits, and for which* (pg_stat_activity, pg_blocking_pids); no test relies
//!   on a sleep.
//! * *Changes for a scenario are reverted*: prices, and the rows of NEW-ORDER of one district. Orders and payments
//!   of the scenarios stay, as after a run; the conditions hold with them.
//! * *No other client may work in the database* meanwhile: a row that it changed looks like a broken transaction.
//!
//! # Sources
//!
//! Read in a copy of the official text, revision 5.11: clauses 3.2.2.1 and 3.2.2.2, the table of 3.4.1 (level 3
//! between New-Order, Payment, Delivery and Order-Status), cases B to D of test 7, the subject of test 8. From
//! memory, and marked so in the output: the steps of tests 1 to 6 and 9, case A of 7, 3.5.4.

pub mod atomicity;
pub mod consistency;
pub mod durability;
pub mod isolation;
mod load_order;
mod players;
mod real;
mod rows;
mod success;
mod trial;
pub mod ways;

use crate::error::TpccError;
use hardmeter_session::{Session, Target};

pub use real::Real;
pub use trial::{Source, Trial};
pub use ways::{LastOrder, Ways};

use load_order::{load_order, CONNECTIONS};
use trial::Observations;

/// A part of clause 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is the ACID property of that name
pub enum Property {
    Atomicity,
    Isolation,
    Consistency,
    Durability,
}

/// The result of a part, for one style of transactions.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Tried {
    /// The property.
    pub property: Property,
    /// The style of the transactions, as text.
    pub transactions: String,
    /// Its tests.
    pub trials: Vec<Trial>,
}

/// Fails if other clients use the database: sessions that are not idle, except the calling one.
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
