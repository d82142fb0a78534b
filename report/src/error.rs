//! What can keep a view from being made.

use hardmeter_samples::perf_data::ReadError;
use std::path::PathBuf;

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] ReadError),
    /// A result file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A result cannot be put together.
    #[error("cannot put the result together: {0}")]
    Io(#[from] std::io::Error),
    /// A result cannot be put into rows.
    #[error("cannot write comma-separated values: {0}")]
    Csv(#[from] csv::Error),
    /// A result cannot be put into JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// No sample lies in the routine asked for.
    #[error("no sample lies in {wanted}; {remedy}")]
    NoSuchRoutine {
        /// The routine.
        wanted: String,
        /// Close names, or where to look.
        remedy: String,
    },
    /// The routine's code cannot be shown.
    #[error(transparent)]
    Code(#[from] hardmeter_attribution::DisassemblyError),
    /// No event of the capture has this name.
    #[error("the capture has no event \"{name}\"; its events are: {known}")]
    NoSuchEvent {
        /// The name asked for.
        name: String,
        /// Those it has.
        known: String,
    },
}

impl ReportError {
    /// The kind of the I/O error inside, so that a reader that closed its pipe is recognised.
    pub fn io_kind(&self) -> std::io::ErrorKind {
        match self {
            ReportError::Io(error) => error.kind(),
            ReportError::Csv(error) => match error.kind() {
                csv::ErrorKind::Io(error) => error.kind(),
                _ => std::io::ErrorKind::Other,
            },
            _ => std::io::ErrorKind::Other,
        }
    }
}
