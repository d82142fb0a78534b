//! The interface to a system under test: the P connections behind the transaction monitor.
//!
//! One implementation each for PostgreSQL ([`crate::wire`]), MariaDB ([`crate::mariadb`]) and a stub that answers
//! after a fixed time and holds no data, for measurements of the driver ([`crate::stub`]).

use crate::error::TpccError;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Work};

/// The style of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// One call of a stored procedure for each transaction.
    Procedures,
    /// SQL statements from the client, with as few round trips as the transaction's data dependences allow.
    Client,
}

/// The P connections of one driver thread. Not shared: each thread opens its own.
pub trait Backend {
    /// Number of connections.
    fn connections(&self) -> u32;

    /// Submits work to a free connection. Returns at once; the bytes may go out during the next [`Backend::wait`].
    ///
    /// A connection has at most one piece of work. A failure to send is returned as a [`Completion`].
    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros);

    /// Waits until work completes, or until the given time, and appends completions. `None`: no time limit. May
    /// return early without any.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if waiting fails; a lost connection is a [`Completion`], not an error.
    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError>;

    /// Reopens a lost connection. May block for long; fails while the server is down.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection.
    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError>;

    /// Process ids of the server's backends, by connection; empty if they are not on this machine.
    fn server_processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Opens backends: one for each thread of the driver.
pub trait Backends: Sync {
    /// Opens this number of connections, with prepared statements and settings.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a connection cannot be opened or prepared.
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError>;

    /// A description: "PostgreSQL 15.20 at /run/postgresql, procedures".
    fn description(&self) -> String;
}
