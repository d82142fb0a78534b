//! Views: answers as text for a terminal, as JSON or CSV, or in the format of another program.
//!
//! ```text
//!  Answers (measure/answers) ──┬─> TopReport, WhyReport, ObjectsReport ...   text, JSON, CSV, HTML
//!                              ├─> Listing                                   a routine with counts and source
//!                              └─> exports    folded stacks, pprof, OTLP, Firefox Profiler, CSV, Parquet
//! ```
//!
//! What this crate is *not* for: it does not count or open captures (`measure/answers`), nor parse arguments
//! (`cli`).
//!
//! # Design constraints
//!
//! * *A screen first.* Every view has a first screen of at most [`LINES`] lines, as wide as the terminal, and a
//!   complete text. Colours and widths are decided by the caller's [`Style`]; without it, the complete text is not
//!   cut and has no escape sequences.
//! * *No number without its conditions.* Every view begins with a [`Heading`]: source, machine, events and
//!   periods, losses, limits.
//! * *Names are untrusted.* They come from files of unknown origin; control characters never reach the terminal.
//! * *All or nothing.* A result file appears under its final name when it is complete, see [`write_file`].
//!
//! ```
//! use hardmeter_answers::Share;
//! use hardmeter_views::{grouped, percent, percent_interval};
//!
//! let share = Share { count: 5_384, total: 12_830 };
//! assert_eq!(grouped(share.count), "5,384");
//! assert_eq!(percent(share), "41.96 %");
//! assert_eq!(percent_interval(share), "41.11..42.82 %");
//! ```

pub mod advice;
mod compare_view;
mod drawn;
mod error;
mod event_words;
mod firefox;
mod fleet;
mod folded;
mod heading;
mod html;
mod identity;
mod labelled;
mod latency_view;
mod listing;
mod number;
mod objects_view;
mod otlp;
mod output;
mod page_view;
mod pprof;
mod protobuf;
mod quality_view;
mod queries_view;
mod register_view;
mod rows;
mod sample_rows;
mod screen;
mod sharing_view;
mod side_by_side_view;
mod size;
mod top_view;
mod why;
mod workload;

use hardmeter_evidence::table as layout;

pub use compare_view::{CompareReport, CountsReport};
pub use error::ReportError;
pub use event_words::event_noun;
pub use firefox::FirefoxProfile;
pub use fleet::{
    write_fleet, ColumnKind, FleetColumn, FleetWritten, CAPTURE_COLUMNS, FINDING_COLUMNS, SAMPLE_COLUMNS,
    SCHEMA_VERSION,
};
pub use folded::folded;
pub use hardmeter_evidence::table::{printable, wrap, Column, Cut, Style, TextTable, Tone};
pub use identity::CaptureIdentity;
pub use labelled::LabelledStacks;
pub use latency_view::LatencyReport;
pub use listing::Listing;
pub use number::{counted, duration, grouped, percent, percent_interval, rounded, stall_share};
pub use objects_view::ObjectsReport;
pub use otlp::write_otlp;
pub use output::write_file;
pub use page_view::PageReport;
pub use pprof::write_pprof;
pub use quality_view::QualityReport;
pub use queries_view::QueriesReport;
pub use sample_rows::SampleRows;
pub use screen::{sentences_text, Wanted, COLUMNS, LINES};
pub use sharing_view::{SharingDetail, SharingReport};
pub use top_view::{closing_text, remark_json, TopReport};
pub use why::WhyReport;
