//! Progress of a piece of work.

/// Receives the progress of a piece of work.
pub trait Progress: Sync {
    /// A part begins, with its number of units (rows, indexes, tables).
    fn phase(&self, what: &str, units: u64);
    /// This number of further units is done.
    fn advance(&self, units: u64);
}
