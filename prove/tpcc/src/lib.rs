//! TPC-C for PostgreSQL and MariaDB: load, run by the specification's terminals, measure, judge, audit a database of any tool.
//!
//! Out of scope: the command line (`cli`), making servers (`ground/servers`).
//!
//! ```text
//! random, text   clauses 2.1.5, 2.1.6, 4.3.2: numbers and texts                    ([`random`], [`text`])
//! population     clause 4.3.3.1: every row of every warehouse, from a seed         ([`population`], [`copy`])
//! load           warehouses in parallel; an interrupted load continues             ([`load`], [`schema`], [`inspection`])
//! run            the order, the terminals, the connections                         ([`order`], [`terminals`], [`monitor`])
//!   settings     of its connections, chosen by the user                            ([`settings`])
//!   systems      what is driven: PostgreSQL, MariaDB, a stub                       ([`backend`]: [`wire`] with
//!                                                                                   [`transactions`], [`mariadb`], [`stub`])
//!   beside it    what the server used, which CPUs it had                           ([`observe`])
//! result         counts; verdicts, clause by clause                                ([`measure`], [`report`])
//! compare        two sides: is one better? The unit is a run, or a block           ([`compare`])
//! audit          conditions 3.3.2.1 to 3.3.2.12; signs of how the data was made    ([`audit`])
//! clause 3       transactions held open, servers killed                            ([`acid`])
//! ```
//!
//! [`work`] and [`time`] are the types that the modules of a run exchange; [`origin`] marks statements with their sender.
//!
//! # Design constraints
//!
//! * *The seed decides the rows*, warehouse by warehouse: the bytes do not depend on the session that loads them.
//! * *A warehouse is loaded in one transaction* that also records it, so an interrupted load continues where it stopped.
//! * *An audit reads.* One snapshot for all conditions, so that it may run beside a workload.
//! * *Response times count from when a terminal was due*: a late driver makes the system look slow, never fast.
//! * *A result file is complete*: all reports on a run are computed from it.
//! * Results are derived from TPC-C; they are not comparable to published ones, and are not called tpmC.
//!
//! ```
//! // Clause 4.3.2.3: a last name is made of three syllables, one for each digit.
//! assert_eq!(hardmeter_tpcc::text::last_name(371), "PRICALLYOUGHT");
//! ```

pub mod acid;
pub mod audit;
pub mod backend;
pub mod compare;
pub mod copy;
mod error;
pub mod inspection;
pub mod load;
pub mod mariadb;
pub mod measure;
pub mod monitor;
pub mod observe;
pub mod order;
pub mod origin;
pub mod population;
pub mod random;
pub mod report;
pub mod schema;
pub mod settings;
pub mod stub;
pub mod terminals;
pub mod text;
pub mod time;
pub mod transactions;
pub mod wire;
pub mod work;

pub use error::TpccError;
