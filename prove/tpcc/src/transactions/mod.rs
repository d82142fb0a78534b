//! The five transactions for PostgreSQL (clauses 2.4 to 2.8), in two styles that leave the same database: one call
//! of a stored procedure each ([`Procedures`], installed by [`install`]), and statements of the client
//! ([`ClientSql`]).
//!
//! ```text
//!               round trips                                      why not fewer
//!   New-Order   2   all that locks; then the inserts and COMMIT  what has no item is rolled back (clause 2.4.2.3)
//!   Payment     1   all and COMMIT
//!   Order-Status 1  one statement
//!   Delivery    2   the oldest orders; all else and COMMIT       3 if a district has none
//!   Stock-Level 1   one statement
//! ```
//!
//! # Isolation (clause 3.4)
//!
//! New-Order, Payment, Order-Status and Delivery have to be serializable against each other (level 3, no phantoms).
//! They are at READ COMMITTED, which has no serialization failures:
//!
//! * *What they read is either locked or does not change.* D_NEXT_O_ID, the YTDs, balances, counters, C_DATA and
//!   S_QUANTITY are read by the UPDATE that changes them, which waits for the transaction that changed the row
//!   before and then reads its committed values. An item that occurs twice in an order has one price, read once
//!   (test 7 changes prices). All other data that an updating transaction reads (taxes, discounts, names, prices,
//!   S_DIST, an order's customer, its lines and their amounts) does not change in the mix once it is committed.
//!   Locks are held up to the commit: strict two-phase locking, so the order of commits is a serial order.
//! * *The one predicate is Delivery's*: the oldest NEW-ORDER of a district. If there is one it is locked (FOR
//!   UPDATE), and no older one can be inserted, because numbers are assigned under the lock of the district's row.
//!   If there is none, Delivery locks the district's row, repeats the query, and keeps the lock: a New-Order of
//!   that district waits for it, and no phantom appears (test 8 of clause 3.4.2).
//! * *Two Deliveries of one warehouse*: the second waits at the first district that the first one holds, then finds
//!   that row deleted and takes the next oldest. SKIP LOCKED would let it deliver a younger order before an older
//!   one that may yet stay undelivered, which violates clause 2.7.4.2.
//! * *Order-Status and Stock-Level are read-only and use one snapshot*: one statement, or a STABLE function, which
//!   uses the snapshot of the calling statement. A snapshot is a prefix of the order of commits, which is a serial
//!   order by the above. Tests that hold them open to read twice (1, 2, 9) begin REPEATABLE READ, READ ONLY.
//!
//! # No deadlocks
//!
//! Rows are locked in one order of tables: WAREHOUSE, NEW-ORDER, DISTRICT, STOCK, CUSTOMER; within a table by key:
//! New-Order updates STOCK by supplying warehouse and item ([`lines`]), Delivery takes districts 1 to 10. Two
//! Deliveries of a warehouse never reach its customers together; a Payment locks one customer, last. Orders and
//! their lines are touched by the one Delivery that holds their NEW-ORDER.
//!
//! # Citus
//!
//! Where the tables are distributed, [`install`] takes other procedures, whose statements name one warehouse each
//! (procedures_citus.sql), and client SQL is refused ([`prepare`]).
//!
//! # Sources
//!
//! Verified against the text of revision 5.11: level 3, and test 8. From memory, not verified: the rule of +91 for
//! stock, the layout of C_DATA and H_DATA, the exact contents of each screen.

mod client;
mod install;
mod lines;
mod procedures;
mod settings;

pub use client::{statements, ClientSql};
pub use install::{install, Installed};
pub use procedures::{calls, Procedures, ITEM_NOT_VALID};

use crate::backend::Style;
use crate::error::TpccError;
use crate::load::Mark;
use crate::origin::Origin;
use crate::wire::{PostgresBackends, Scripts};
use hardmeter_session::{Session, Stop, Target};

/// The scripts of a style; statements carry their origin if there is one. Procedures have to be installed
/// ([`install`]).
pub fn scripts(style: Style, origin: Option<Origin>) -> Box<dyn Scripts> {
    match style {
        Style::Procedures => Box::new(Procedures::new(origin)),
        Style::Client => Box::new(ClientSql::new(origin)),
    }
}

/// A server by a style.
pub fn backends(style: Style, origin: Option<Origin>, target: Target) -> PostgresBackends {
    PostgresBackends::new(target, scripts(style, origin))
}

/// Prepares a database for transactions of a style: installs the stored procedures if they are missing.
///
/// # Errors
///
/// [`TpccError::ClientOnCitus`] for client SQL where Citus distributes the tables; otherwise as [`install`].
pub fn prepare(style: Style, target: &Target, stop: &Stop) -> Result<(), TpccError> {
    match style {
        Style::Procedures => install(target, stop).map(|_| ()),
        Style::Client if Mark::is_distributed(&mut Session::open(target, stop)?)? => {
            Err(TpccError::ClientOnCitus)
        }
        Style::Client => Ok(()),
    }
}
