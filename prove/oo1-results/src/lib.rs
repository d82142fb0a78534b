//! OO1 side by side: makes the graphs and stores, runs the programs of `prove/oo1` in turn, compares what they say.
//!
//! ```text
//! programs  which modes are built here, and why others are not               ([`programs`], [`modes`])
//! stores    a graph, and the store of each mode, made once and kept           ([`stores`])
//! order     what to run: graphs, modes, measures, protocols                   ([`order`])
//! compare   every mode in turn, ABBA, in rounds; do all checksums agree?      ([`compare()`])
//! report    times, ratios with their intervals, as written to the result file ([`report`], [`metrics`])
//! figures   the three figures of the P3L paper of 1994, as SVG                ([`figures`])
//! ```
//!
//! # Design constraints
//!
//! * *A run is a process.* What one mode leaves in memory is gone before the next begins; the contract with the programs is
//!   their command line and one JSON object (prove/oo1/README.md, [`run`]).
//! * *Compared within rounds.* In a round every mode runs twice, the second half in mirrored order, all on the same
//!   patterns; ratios are of what ran within a round (`hardmeter_evidence`).
//! * *Answers are part of the measurement.* All modes must have visited the same parts, in the same order, with the same
//!   contents. One whose checksum differs is named, and is in no ratio.
//! * *The best form of each rival*: where a rival has several (Texas by `mprotect` or by `userfaultfd`), ratios are to the
//!   one that was faster in this run.

pub mod compare;
mod error;
pub mod figures;
mod memory;
pub mod metrics;
pub mod modes;
pub mod order;
mod process;
pub mod programs;
pub mod report;
pub mod run;
pub mod stop;
pub mod stores;

pub use compare::compare;
pub use error::Oo1Error;
