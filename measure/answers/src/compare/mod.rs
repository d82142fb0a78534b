//! Two sides of one or several captures each: which rates differ, by how much, and where in the code.
//!
//! ```text
//!  captures of A ── Answers::compare_run ──> CompareRun ... ─┐
//!                                                            ├─ comparable? ─> Comparison: totals, tables, notes
//!  captures of B ── Answers::compare_run ──> CompareRun ... ─┘
//! ```
//!
//! # Invariants
//!
//! 1. A row is aligned by properties that do not change when code moves: the function's name, the instruction
//!    without addresses, the source line counted from the function's first one, the object, the statement. A
//!    function without a name is aligned by its instructions.
//! 2. All figures are rates for one unit of work, the same for both sides ([`Per`]).
//! 3. A row is called different only if its probability, adjusted for the number of rows in its table
//!    (Benjamini and Hochberg), is at most [`DISCOVERY`]. Rows of fewer than [`JUDGED`] samples on both sides
//!    together are not judged, because they could not be significant.

mod comparable;
mod instruction;
mod per;
mod profile;
mod run;
mod study;
#[cfg(test)]
mod tests;

pub(crate) use profile::CompareInquiry;

pub use comparable::Incomparable;
pub use per::{Per, UnknownPer};
pub use run::{CompareColumn, CompareRun, Label, RunEvent, RunRow, RunSum};
pub use study::{ComparedEvent, ComparedRow, ComparedTable, Comparison, Side, DISCOVERY, JUDGED};
