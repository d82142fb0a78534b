//! TPC-H for PostgreSQL: its data, its 22 queries, its refresh functions, its published answers, and a power run that
//! measures several *variants* of a session side by side.
//!
//! ```text
//! load     tables and indexes, filled by COPY from a generator without state                  ([`load`])
//! queries  the specification's statements, validation or random parameters ([`queries`], [`parameters`])
//! check    the answers at scale 1 against the published ones, by the specification's rules    ([`answers`])
//! run      each query by each variant in turn, ABBA; CPU time, wall time, the same answers?   ([`power`])
//! ```
//!
//! # Design constraints
//!
//! * *A variant is a session.* Its settings are made once, after connecting, and do not affect others. A library
//!   that a variant loads is not loaded in the others.
//! * *Compared within blocks.* In a block every variant runs a query twice, the second half in mirrored order; ratios
//!   are of what ran within a block, and their intervals need no assumption about the noise ([`hardmeter_evidence`]).
//! * *Answers are part of the measurement*: every answer of every run is compared byte for byte with the first
//!   variant's. A faster wrong answer is not a result.
//! * *An interruption leaves a consistent server*: a running statement is cancelled by the protocol's own request,
//!   an unfinished load is undone ([`hardmeter_session::Stop`]).
//! * Results are *derived from* TPC-H and not comparable to published ones.
//!
//! ```
//! use hardmeter_tpch::queries::Query;
//!
//! let numbers: Vec<u8> = Query::list("6,1-3")?.into_iter().map(Query::number).collect();
//! assert_eq!(numbers, [6, 1, 2, 3]);
//! assert!(Query::list("23").is_err());
//! # Ok::<(), hardmeter_tpch::TpchError>(())
//! ```

pub mod answers;
mod error;
pub mod load;
pub mod parameters;
pub mod power;
pub mod queries;
pub mod refresh;
pub mod report;
pub mod scale;
pub mod schema;
pub mod variants;

pub use error::TpchError;
pub use scale::Scale;
