//! The transactions of a trial: each without the COMMIT or ROLLBACK at its end.

use crate::error::TpccError;
use crate::work::{Delivery, Kind, NewOrder, OrderStatus, Payment};
use hardmeter_session::Session;

/// The result of Order-Status for a customer's last order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastOrder {
    /// O_ID.
    pub order: u32,
    /// Its lines, as the server returned them.
    pub lines: Vec<String>,
}

impl std::fmt::Display for LastOrder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "order {} of {} lines", self.order, self.lines.len())
    }
}

/// An implementation of the transactions. The methods run in a transaction that [`Ways::begin`] has begun, and do
/// not end it.
pub trait Ways: Send + Sync {
    /// Its name as text.
    fn description(&self) -> String;

    /// Settings of a session before its first transaction.
    fn settings(&self) -> &str {
        ""
    }

    /// The statement that begins a transaction of a kind.
    fn begin(&self, kind: Kind) -> &'static str;

    /// New-Order; returns O_ID.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails.
    fn new_order(&self, session: &mut Session, order: &NewOrder) -> Result<u32, TpccError>;

    /// Payment.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails.
    fn payment(&self, session: &mut Session, payment: &Payment) -> Result<(), TpccError>;

    /// Order-Status.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails.
    fn order_status(&self, session: &mut Session, status: &OrderStatus) -> Result<LastOrder, TpccError>;

    /// Delivery; returns the O_ID of each district, 0 if it had no order to deliver.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a statement fails.
    fn delivery(&self, session: &mut Session, delivery: &Delivery) -> Result<[u32; 10], TpccError>;
}
