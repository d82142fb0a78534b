//! What stands behind the transaction monitor: P connections to a system under test.
//!
//! One implementation each for PostgreSQL ([`crate::wire`]), MariaDB ([`crate::mariadb`]) and a stub that answers after a
//! fixed time and holds no data, by which the driver itself is measured ([`crate::stub`]).

use crate::error::TpccError;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Work};

/// How the transactions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// One call of a stored procedure for each transaction.
    Procedures,
    /// SQL statements from the client, as few round trips as the transaction's data flow allows.
    Client,
}

/// P connections of one thread of the driver. Not shared between threads: each opens its own.
pub trait Backend {
    /// How many connections there are.
    fn connections(&self) -> u32;

    /// Gives a free connection something to do. Returns at once; the bytes may go out during the next [`Backend::wait`].
    ///
    /// The caller gives a connection one piece of work at a time. A failure to send is a [`Completion`] like any other.
    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros);

    /// Waits until something is done, or until the given time, and appends what is done. `None`: no time limit.
    /// May return early with nothing.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if waiting fails; a lost connection is a [`Completion`], not an error.
    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError>;

    /// Reopens a lost connection. May take long; fails while the server is down.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection.
    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError>;

    /// The process ids of the server's backends, by connection, where they are processes of this machine; else empty.
    fn server_processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Opens backends: each thread of the driver asks for its own.
pub trait Backends: Sync {
    /// Opens this number of connections, all ready: statements prepared, settings made.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if a connection cannot be opened or prepared.
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError>;

    /// What it is, in words: "PostgreSQL 15.20 at /run/postgresql, procedures".
    fn description(&self) -> String;
}
