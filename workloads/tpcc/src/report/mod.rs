//! What a [`crate::measure::RunResult`] says: verdicts clause by clause, one HTML file with the graphs of clause 5.6, text, the
//! comparison of two runs, the sum of several drivers.
//!
//! ```text
//!   result file(s) --> verdicts --> text, html, JSON       (the same verdicts in all three)
//!                  --> compare      two runs, with intervals: is there a difference?
//!                  --> merge        several drivers' results of one run become one result
//! ```
//!
//! Nothing here measures; everything is a function of result files, so that an old file can be read by a newer report.
//!
//! What is **not verified against the official text** is marked so, line by line ([`verdicts::Basis`]): the 80 s of deferred
//! deliveries, skipped districts, average below the 90th percentile, checkpoints in the interval, the graphs' details.

mod batches;
mod chance;
pub mod compare;
pub mod context;
pub mod html;
pub mod merge;
mod number;
pub mod prices;
pub mod summary;
#[cfg(test)]
mod testing;
pub mod text;
pub mod verdicts;

/// What has to stand wherever a figure of ours does.
pub const DISCLAIMER: &str = "derived from TPC-C, not a TPC result, and not comparable to published ones";
