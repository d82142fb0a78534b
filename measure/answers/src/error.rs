//! Reasons why a question cannot be answered.

use hardmeter_samples::perf_data::ReadError;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswersError {
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] ReadError),
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
    NoRelation(#[from] crate::pages::RelationError),
    /// The routine's code cannot be shown.
    #[error(transparent)]
    Code(#[from] hardmeter_symbols::DisassemblyError),
    /// No event of the capture has this name.
    #[error("the capture has no event \"{name}\"\n  remedy: one of its events: {known}")]
    NoSuchEvent {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
}
