//! What can keep a result from being written.

use hardmeter_answers::AnswersError;

/// Why a result is not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// There is no answer to write.
    #[error(transparent)]
    Answers(#[from] AnswersError),
    /// A result cannot be written.
    #[error("cannot write the result: {0}")]
    Io(#[from] std::io::Error),
    /// A result cannot be put into rows.
    #[error("cannot write comma-separated values: {0}")]
    Csv(#[from] csv::Error),
}

impl ReportError {
    /// The system's error, if writing the result failed: the caller knows the file's name.
    ///
    /// # Errors
    /// Gives the error back unchanged if anything else failed.
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
