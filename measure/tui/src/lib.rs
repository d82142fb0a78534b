//! A capture in the terminal: the chapters of the report, by keyboard alone; and the choice of what to record.
//!
//! ```text
//!   Chapters (a capture's answers) ──> Browser ── draw ──> frame
//!                                        ^ └── key ──> scroll, search, annotate, quit
//!   Choices (servers, sources, events) ──> Chooser ──> arguments of `hardmeter record`
//! ```
//!
//! State and drawing know no terminal: tests draw into ratatui's `TestBackend`. [`browse`] and [`choose`] run them on
//! the real one.

mod browser;
mod capture;
mod chooser;
mod pane;
mod screen;

pub use browser::{Browser, Chapters, Flow, RoutineRow};
pub use capture::CaptureChapters;
pub use chooser::{Choice, Chooser, Picked};
pub use ratatui;
pub use screen::{browse, choose};
