//! What code is to the server: operators of a plan, phases of a transaction.

use crate::program::Program;
use hardmeter_samples::object_notes::CodeMarkKind;
use std::ops::Range;

/// A stretch of code and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Addresses of the image's own numbering.
    pub range: Range<u64>,
    /// Operator or phase.
    pub kind: CodeMarkKind,
    /// Its name.
    pub name: &'static str,
}

/// All marks of a program.
pub(crate) fn of(_program: &Program) -> Vec<Mark> {
    Vec::new()
}
