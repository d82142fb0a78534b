//! A capture in the terminal: the chapters of the report, by keyboard alone; and the choice of what to record.
//!
//! ```text
//!   Chapters (a capture's answers) ──> Browser ── draw ──> frame
//!                                        ^ └── key ──> scroll, search, annotate, quit
//!   Recording (a process) ── count, Glimpse (a read of the file as it grows) ──> Watch ── draw ──> frame
//!   Choices (servers, sources, events) ──> Chooser ──> arguments of `hardmeter record`
//! ```
//!
//! State and drawing know no terminal: tests draw into ratatui's `TestBackend`. [`browse`], [`choose`]
//! and [`watch`] run them on the real one.
//!
//! ```
//! use hardmeter_tui::ratatui::crossterm::event::KeyCode;
//! use hardmeter_tui::{Choice, Chooser};
//!
//! let choice = |label: &str, words: &[&str]| Choice {
//!     label: label.into(),
//!     about: String::new(),
//!     words: words.iter().map(|word| word.to_string()).collect(),
//!     possible: true,
//! };
//! let targets = vec![choice("the whole machine", &["-a"])];
//! let sources = vec![choice("timer", &["--source", "timer"])];
//! let mut chooser = Chooser::new(targets, sources, Vec::new(), &[]);
//! chooser.key(KeyCode::Enter);
//! let picked = chooser.picked().unwrap();
//! assert_eq!((picked.arguments.join(" ").as_str(), picked.seconds), ("-a --source timer", 10));
//! ```

mod browser;
mod capture;
mod chooser;
mod glimpse;
mod pane;
mod recording;
mod screen;
mod watch;

pub use browser::{Browser, Chapters, Flow, RoutineRow};
pub use capture::CaptureChapters;
pub use chooser::{Choice, Chooser, Picked};
pub use glimpse::{Glimpse, GlimpseEvent, GlimpseRow};
pub use ratatui;
pub use recording::{Ended, Recording};
pub use screen::{browse, choose, watch};
pub use watch::Watch;
