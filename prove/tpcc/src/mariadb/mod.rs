//! MariaDB, alone or with Spider over several servers: load, the five transactions, the consistency conditions.
//!
//! ```text
//! target, session    which server; one connection, interruptible                     ([`Target`])
//! sites, schema      one server or a head and several; whole tables or parts         ([`Layout`])
//! load               the same rows as in PostgreSQL, by LOAD DATA                     ([`LoadOrder`])
//! client, procedures the five transactions: prepared statements; one CALL            ([`Mariadb`])
//! signed             statements that say who sends them
//! backend            a thread for each connection
//! observer           the server's own statistics during a run                        ([`Observer`])
//! audit, conditions  the same questions, in MariaDB's SQL                            ([`audit()`])
//! ```

mod audit;
mod backend;
mod client;
mod conditions;
mod fault;
mod load;
mod observer;
mod procedures;
mod schema;
mod session;
mod signed;
mod sites;
mod target;

pub use audit::{audit, check_conditions};
pub use backend::Mariadb;
pub use load::{ensure_database, mark, LoadOrder, Loaded, Mark};
pub use observer::Observer;
pub use procedures::SOURCE as PROCEDURES;
pub use schema::{server_name, Layout};
pub use target::Target;
