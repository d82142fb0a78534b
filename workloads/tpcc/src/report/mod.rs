//! What a [`crate::measure::RunResult`] says: verdicts clause by clause, one HTML file with the graphs of clause 5.6, text, the
//! comparison of two runs, the sum of several drivers.
