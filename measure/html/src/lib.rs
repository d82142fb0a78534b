//! The reports of a capture and of a comparison ([`DifferencePage`]), each as one HTML file: findings,
//! treemap, flame graph, tables, down to the instruction.
//!
//! ```text
//!   Answers ── first walk ──> cube, why, sharing, quality ──> Chapters ──> sections that need no script (maud)
//!      └────── second walk ─> pages, annotate (for the first's results)      └──> JSON ──> web/*.js draw what filters
//! ```
//!
//! Out of scope: counting (`measure/answers`), and the frame, style sheet and policy of a page
//! (`hardmeter_evidence::page`).
//!
//! # Design constraints
//!
//! * *One file, from disk, without a network.* The page's policy forbids every request.
//! * *Names are untrusted.* In markup `maud` escapes them; in the data they are JSON strings without `<`; the
//!   script sets text, never markup.
//! * *Bounded.* Rows, paths, tables and listings have limits, and the last chapter says what was merged or
//!   left out.
//! * *Readable without a script.* Findings and all chapters that do not filter are markup; the others have a
//!   table.

mod ask;
mod chapters;
mod data;
mod difference;
mod findings;
mod measures;
mod names;
mod script;

pub use ask::HtmlReport;
pub use difference::DifferencePage;
