//! TPC-C for PostgreSQL: its population, the load, the twelve consistency conditions, and an audit of what a load and a
//! run left in a database, ours or another tool's.
//!
//! ```text
//! random, text   clauses 2.1.5, 2.1.6, 4.3.2: numbers and texts                    ([`random`], [`text`])
//! population     clause 4.3.3.1: every row of every warehouse, from a seed         ([`population`], [`copy`])
//! load           warehouses side by side, cut off and gone on with                 ([`load`], [`schema`])
//! audit          conditions 3.3.2.1 to 3.3.2.12; what the data say of their maker  ([`audit`])
//! ```
//!
//! # Design constraints
//!
//! * *The rows are decided by the seed*, warehouse by warehouse: whichever session loads one, the bytes are the same.
//! * *A warehouse is loaded in one transaction* that also notes it, so a load that was killed goes on where it was.
//! * *An audit reads.* One snapshot for all conditions, so that it may run beside a workload.
//! * What is derived from TPC-C here is not comparable to published TPC-C results, and is not called tpmC.
//!
//! A run goes through the rooms as [`work`] draws it: [`terminals`], [`monitor`], a [`backend`] ([`wire`] with
//! [`transactions`], [`mariadb`], [`stub`]), [`measure`], [`report`]; [`acid`] tries clause 3.

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
