//! What can keep a view from being made.

use hardmeter_samples::perf_data::ReadError;

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] ReadError),
    /// A result cannot be written.
    #[error("cannot write the result: {0}")]
    Io(#[from] std::io::Error),
    /// A result cannot be put into rows.
    #[error("cannot write comma-separated values: {0}")]
    Csv(#[from] csv::Error),
    /// No sample lies in the routine asked for.
    #[error("no sample lies in {wanted}\n  remedy: {remedy}")]
    NoSuchRoutine {
        /// The routine.
        wanted: String,
        /// Close names, or where to look.
        remedy: String,
    },
    /// A name leads to no relation.
    #[error(transparent)]
    NoRelation(#[from] hardmeter_answers::RelationError),
    /// The routine's code cannot be shown.
    #[error(transparent)]
    Code(#[from] hardmeter_symbols::DisassemblyError),
    /// No event of the capture has this name.
    #[error("the capture has no event \"{name}\"\n  remedy: one of its events: {known}")]
    NoSuchEvent {
        /// The name asked for.
        name: String,
        /// Those it has.
        known: String,
    },
}

impl ReportError {
    /// The system's error, if writing the result failed: the caller knows the file's name.
    ///
    /// # Errors
    ///
    /// The same error, if it is not about writing.
    pub fn into_io(self) -> Result<std::io::Error, ReportError> {
        match self {
            ReportError::Io(error) => Ok(error),
            ReportError::Csv(error) if error.is_io_error() => match error.into_kind() {
                csv::ErrorKind::Io(error) => Ok(error),
                other => Ok(std::io::Error::other(format!("{other:?}"))),
            },
            other => Err(other),
        }
    }
}
