//! PostgreSQL as a [`crate::backend::Backend`]: P nonblocking connections in one epoll set, the extended protocol,
//! pipelined and binary.
//!
//! ```text
//!   Work -> Script --Requests--> one write ... server ... one read --Replies--> Script -> Step: more, or a Completion
//! ```
//!
//! A [`Script`] decides what is sent to the server ([`crate::transactions`]); this module sends it. It is the
//! driver's hot path: requests are written into the connection's buffer and sent by one write, answers are read in
//! place, and a transaction needs no allocation.

mod answer;
mod backend;
mod connect;
mod connection;
mod failure;
#[cfg(fuzzing)]
pub mod fuzz;
mod numeric;
mod poll;
mod refusal;
mod replies;
mod requests;
mod script;
mod socket;

pub use backend::PostgresBackends;
pub use refusal::Refusal;
pub use replies::{Columns, Elements, Replies, Reply, Row, Rows, Unexpected, Value};
pub use requests::{Parameters, Requests};
pub use script::{types, Next, Script, Scripts, StatementText, Step};
