//! TPC-C for PostgreSQL and MariaDB: load, run by the specification's terminals, measure, judge, audit anybody's database.
//!
//! It is not for what a user types or sees on a terminal (`cli`), nor for making servers (`servers`).
//!
//! ```text
//! random, text   clauses 2.1.5, 2.1.6, 4.3.2: numbers and texts                    ([`random`], [`text`])
//! population     clause 4.3.3.1: every row of every warehouse, from a seed         ([`population`], [`copy`])
//! load           warehouses side by side, cut off and gone on with                 ([`load`], [`schema`], [`inspection`])
//! run            what is asked for, who asks, over which connections               ([`order`], [`terminals`], [`monitor`])
//!   systems      what stands behind: PostgreSQL, MariaDB, nothing at all           ([`backend`]: [`wire`] with
//!                                                                                   [`transactions`], [`mariadb`], [`stub`])
//!   beside it    what the server used, which CPUs it had                           ([`observe`])
//! result         what was counted; what it says, clause by clause                  ([`measure`], [`report`])
//! audit          conditions 3.3.2.1 to 3.3.2.12; what the data say of their maker  ([`audit`])
//! clause 3       transactions held open, servers killed                            ([`acid`])
//! ```
//!
//! [`work`] and [`time`] are what the rooms of a run hand each other; [`origin`] is how statements say who sends them.
//!
//! # Design constraints
//!
//! * *The rows are decided by the seed*, warehouse by warehouse: whichever session loads one, the bytes are the same.
//! * *A warehouse is loaded in one transaction* that also notes it, so a load that was killed goes on where it was.
//! * *An audit reads.* One snapshot for all conditions, so that it may run beside a workload.
//! * *Response times count from when a terminal was due*: a late driver is a slow system, never a fast one.
//! * *A result file holds all that is ever said of a run.*
//! * What is derived from TPC-C here is not comparable to published TPC-C results, and is not called tpmC.

pub mod acid;
pub mod audit;
pub mod backend;
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
pub mod stub;
pub mod terminals;
pub mod text;
pub mod time;
pub mod transactions;
pub mod wire;
pub mod work;

pub use error::TpccError;
