//! Compares OO1's programs: creates graphs and stores, runs the programs of `prove/oo1` in turn, compares their
//! results.
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
//! * *A run is a process*, so that no mode affects the memory of the next; the interface of the programs is their
//!   command line and one JSON object (prove/oo1/README.md, [`run`]).
//! * *Compared within rounds.* In a round every mode runs twice, the second half in mirrored order, all on the same
//!   patterns; ratios are of what ran within a round (`hardmeter_evidence`).
//! * *Answers are part of the measurement.* All modes must have visited the same parts, in the same order, with the
//!   same contents. A mode with a different checksum is reported, and excluded from all ratios.
//! * *The best form of each competitor*: if one has several (Texas by `mprotect` or by `userfaultfd`), ratios use
//!   the one that was faster in this run.
//!
//! ```
//! use hardmeter_oo1::programs::Programs;
//!
//! let programs = Programs::in_folder(&std::env::current_dir()?)?;
//! let error = programs.require("no-such-mode").expect_err("there is no such mode");
//! assert!(error.to_string().contains("no-such-mode"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
