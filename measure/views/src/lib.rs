//! Views: answers as text for a terminal, as JSON or CSV, or in the format of another program.
//!
//! ```text
//!  Capture (a file, its header, its side files)
//!     └─ walk ──> answers ───┬─> TopReport      tables: text, JSON, CSV
//!                            ├─> Listing        a routine with counts and source: text, JSON
//!                            └─> exports        folded stacks, pprof, Firefox Profiler, one row per sample
//! ```
//!
//! Out of scope: counting (`measure/answers`), parsing arguments (`cli`).
//!
//! # Design constraints
//!
//! * *Plain when piped.* Colours and cutting to the terminal's width are decided by the caller's
//!   [`Style`]; without it, text is complete and without escape sequences.
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

mod capture;
mod data_names;
mod error;
mod firefox;
mod folded;
mod grading;
mod heading;
mod html;
mod instructions;
mod layout;
mod listing;
mod number;
mod objects_view;
mod output;
mod page_view;
mod pprof;
mod protobuf;
mod quality_view;
mod queries_view;
mod register_view;
mod routine_code;
mod routine_search;
mod sample_rows;
mod sharing_view;
mod side_by_side_view;
mod symbols;
mod top_view;
mod why;
mod workload;

pub use capture::{Capture, Visitor, Walk, WalkOptions};
pub use error::ReportError;
pub use firefox::FirefoxProfile;
pub use folded::folded;
pub use heading::{EventHeading, Heading};
pub use layout::{printable, wrap, Align, Cut, Style, TextTable, Tone};
pub use listing::{Listing, ListingOptions};
pub use number::{counted, duration, grouped, percent, percent_interval, rounded};
pub use objects_view::{ObjectsOptions, ObjectsReport};
pub use output::write_file;
pub use page_view::PageReport;
pub use pprof::write_pprof;
pub use quality_view::QualityReport;
pub use queries_view::{QueriesOptions, QueriesReport};
pub use register_view::{RegisterRecord, RegisterView};
pub use routine_search::RoutineWanted;
pub use sample_rows::SampleRows;
pub use sharing_view::{
    AccessReport, CodeName, FightReport, GroupReport, LineReport, SharingDetail, SharingOptions,
    SharingReport,
};
pub use symbols::SymbolNames;
pub use top_view::{closing_text, remark_json, sentences_text, Shown, TopReport};
pub use why::{WhyReport, WhyReportOptions};
pub use workload::Workload;
