//! Compares two sides, A and B, by their finished runs.
//!
//! ```text
//! runs       results of finished runs; one a side is described, several that took turns are judged   [`of_runs`]
//! blocks     short runs on one database that take turns in drawn order                                 [`of_blocks`]
//! contest    the measures of a run or block, and the verdict on all pairs so far ([`hardmeter_evidence::Trial`])
//! differ     what two results have otherwise in order and environment
//! text       the comparison as text: the answer first
//! ```
//!
//! The unit is a whole run (or block), never a second of it. Seconds of one run are alike: they have the same
//! neighbours, the same caches, the same hour. Treated as observations they call one configuration at two hours
//! "better". So the difference of two runs that are neighbours in time is one observation, and a verdict needs at
//! least seven of them.
//!
//! Invariants:
//! 1. A pair has one run of each side, adjacent in time: nothing ran between them.
//! 2. Pairs are chosen by sides and times only, before any figure is read.
//! 3. Finished runs have a verdict only if each side was the first in a quarter of the pairs or more: what changes
//!    with time (the database grows) would otherwise count for one side.

mod blocks;
mod contest;
mod differ;
mod runs;
mod text;

pub use blocks::{of_blocks, BlockComparison, Measured, Pace, Sides};
pub use contest::{Answer, Figures, Measure, Row, Side, MINIMUM_EFFECT};
pub use differ::Difference;
pub use runs::{of_runs, Run, RunComparison};
