//! Confidence intervals of counts of samples, from `hardmeter-evidence`.

pub use hardmeter_evidence::{count_interval, Interval, Share, WeightedShare, Weights};
