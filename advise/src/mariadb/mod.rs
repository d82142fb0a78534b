//! A look at a live MariaDB, and its remedies, built like those of PostgreSQL.
//!
//! | file | contents |
//! |---|---|
//! | `target` | how a server is reached, and a session |
//! | `sample` | what each connection does: the process list joined with what the kernel counts for its thread |
//! | `scans` | plans of the statements that were seen most, by EXPLAIN |
//! | `schema` | indexes that are duplicates, or were not used |
//! | `look` | the look; what only MariaDB has is [`Maria`] |
//! | `rules` | what the rules of several remedies need |
//! | `remedies/` | one file a remedy, with its test |

mod look;
mod remedies;
mod rules;
mod sample;
mod scans;
mod schema;
mod target;

pub use look::{look_at_mariadb, Maria};
pub use remedies::MARIADB_REMEDIES;
pub use scans::Scan;
pub use schema::{Duplicate, Unused};
pub use target::{MariaSession, MariaTarget};

pub(crate) use target::{literal, name};
