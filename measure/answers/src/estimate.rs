//! How much a count of samples can be trusted: the intervals of `hardmeter-evidence`.

pub use hardmeter_evidence::{count_interval, Interval, Share};
