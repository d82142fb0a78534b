//! Reports on a [`crate::measure::RunResult`]: verdicts by clause, an HTML file with the graphs of clause 5.6,
//! text, the sum of several drivers.
//!
//! ```text
//!   result file(s) --> verdicts --> text, html, JSON       (the same verdicts in all three)
//!                  --> merge        several drivers' results of one run become one result
//! ```
//!
//! Reports depend only on result files, so that a newer version can report on an old file. [`crate::compare`] compares
//! results.
//!
//! The mix, keying and think times, response times, their average, and the 80 s of deferred deliveries were read in
//! pages of revision 5.11 (clauses 5.2.5.6, 5.2.5.7). **Not verified against the official text**, and marked so
//! line by line ([`verdicts::Basis`]): skipped districts, the menu, the definition of the steady state, checkpoints
//! in the interval; the graphs' details (clause 5.6).

mod batches;
mod chance;
pub mod context;
pub mod html;
pub mod merge;
pub(crate) mod number;
pub mod prices;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod verdicts;

pub use number::probability;

/// The notice that must accompany each figure.
pub const DISCLAIMER: &str = "derived from TPC-C, not a TPC result, and not comparable to published ones";
