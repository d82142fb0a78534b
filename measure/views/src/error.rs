//! Errors of writing a result.

use hardmeter_answers::AnswersError;

/// The reason why a result is not written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The answer could not be computed.
    #[error(transparent)]
    Answers(#[from] AnswersError),
    /// A result cannot be written.
    #[error("cannot write the result: {0}")]
    Io(#[from] std::io::Error),
    /// The result cannot be written as CSV.
    #[error("cannot write comma-separated values: {0}")]
    Csv(#[from] csv::Error),
    /// The result cannot be written as Parquet.
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl ReportError {
    /// The I/O error, if writing the result failed: the caller knows the file's name.
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
            ReportError::Parquet(parquet::errors::ParquetError::External(cause)) => match cause.downcast() {
                Ok(error) => Ok(*error),
                Err(other) => Err(ReportError::Parquet(parquet::errors::ParquetError::External(other))),
            },
            other => Err(other),
        }
    }
}
