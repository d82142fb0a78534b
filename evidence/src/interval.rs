//! The one type of interval.

use serde::{Deserialize, Serialize};

/// An interval, both ends included; 95 % unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// All numbers: without information.
    pub const EVERYTHING: Interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// An interval of `half` on either side of `value`.
    pub fn around(value: f64, half: f64) -> Interval {
        Interval { low: value - half, high: value + half }
    }

    /// True if `value` lies in the interval.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// True if the whole interval lies within `limit` of zero.
    pub fn is_within(self, limit: f64) -> bool {
        -limit <= self.low && self.high <= limit
    }

    /// True if both ends are finite.
    pub fn is_finite(self) -> bool {
        self.low.is_finite() && self.high.is_finite()
    }

    /// Applies a rising function to both ends.
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Interval {
        Interval { low: rising(self.low), high: rising(self.high) }
    }
}
