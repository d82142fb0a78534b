//! Latencies of a group of samples: their sum, mean and median.

use crate::estimate::{Interval, WeightedShare, Weights};
use hardmeter_samples::model::Cycles;
use serde::Serialize;
use std::collections::BTreeMap;

/// A histogram of latencies: a group has many samples but few distinct latencies, so the median is exact.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    counts: BTreeMap<u64, u64>,
}

impl Latencies {
    /// Adds `count` samples of one latency.
    pub fn add(&mut self, latency: Cycles, count: u64) {
        *self.counts.entry(latency.0).or_default() += count;
    }

    /// The median, for an even number of samples the lower of the two; `None` without samples.
    pub fn median(&self) -> Option<Cycles> {
        let total: u64 = self.counts.values().sum();
        let mut left = total.div_ceil(2);
        self.counts.iter().find_map(|(latency, count)| {
            if left > 0 && left <= *count {
                return Some(Cycles(*latency));
            }
            left = left.saturating_sub(*count);
            None
        })
    }
}

/// Summary of a group's latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Samples that carried a latency.
    pub samples: u64,
    /// Their sum.
    pub sum: Cycles,
    /// The sum of their squares, for the error of a share.
    #[serde(skip)]
    pub squares: f64,
    /// The exact median, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median: Option<Cycles>,
}

impl LatencySummary {
    /// The mean in cycles, `None` of no samples.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum.0 as f64 / self.samples as f64)
    }

    /// Its share of the sum in `all`, in percent; `None` if that is 0.
    pub fn percent_of(&self, all: Cycles) -> Option<f64> {
        (all.0 > 0).then(|| self.sum.0 as f64 * 100.0 / all.0 as f64)
    }

    /// Its share of the latencies in `all`, which include its own; `None` if those are 0.
    pub fn stall_of(&self, all: &LatencySummary) -> Option<StallShare> {
        StallShare::of(self.weights(), all.weights())
    }

    fn weights(&self) -> Weights {
        Weights { sum: self.sum.0, squares: self.squares }
    }
}

/// A share of the exposed latencies of an event.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StallShare {
    /// In percent.
    #[serde(rename = "stall")]
    pub percent: f64,
    /// Its 95 % interval, in percent.
    #[serde(rename = "stall_interval_95")]
    pub interval: Interval,
}

impl StallShare {
    /// The share of `part` in `total`, which includes it; `None` if that is 0.
    pub(crate) fn of(part: Weights, total: Weights) -> Option<StallShare> {
        let share = WeightedShare { part, total };
        let interval = share.interval()?.map(|end| end * 100.0);
        Some(StallShare { percent: share.fraction() * 100.0, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_even_and_no_samples() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.median(), None);
        latencies.add(Cycles(70), 1);
        assert_eq!(latencies.median(), Some(Cycles(70)));
        latencies.add(Cycles(249), 1);
        assert_eq!(latencies.median(), Some(Cycles(70)), "lower of two");
        latencies.add(Cycles(90), 1);
        assert_eq!(latencies.median(), Some(Cycles(90)));
        latencies.add(Cycles(300), 10);
        assert_eq!(latencies.median(), Some(Cycles(300)));
    }
}
