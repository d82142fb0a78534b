//! How far a piece of work is.

/// Told how far a piece of work is.
pub trait Progress: Sync {
    /// A part begins, of so many units (rows, indexes, tables).
    fn phase(&self, what: &str, units: u64);
    /// So many units more are done.
    fn advance(&self, units: u64);
}
