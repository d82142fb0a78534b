//! The sums in a row of a table: samples, the events they stand for, their latencies.

use crate::estimate::{Share, Weights};
use crate::latency::LatencySummary;
use hardmeter_samples::model::{Cycles, Period, Sample};

/// Sums over the samples of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub count: u64,
    pub events: u64,
    pub latency_samples: u64,
    pub latencies: Weights,
}

impl Tally {
    /// Counts one sample.
    pub fn add(&mut self, sample: &Sample<'_>) {
        self.count += 1;
        self.events = self.events.saturating_add(sample.period.0);
        if let Some(weight) = sample.weight {
            self.latency_samples += 1;
            self.latencies.add(weight.latency.0);
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Tally) {
        self.count += other.count;
        self.events = self.events.saturating_add(other.events);
        self.latency_samples += other.latency_samples;
        self.latencies.merge(other.latencies);
    }

    /// Its share of `total` samples.
    pub fn share(&self, total: u64) -> Share {
        Share { count: self.count, total }
    }

    /// The events that the samples stand for (sum of periods).
    pub fn events(&self) -> Period {
        Period(self.events)
    }

    /// Their latencies; the caller supplies the median.
    pub fn latency(&self, median: Option<Cycles>) -> LatencySummary {
        LatencySummary {
            samples: self.latency_samples,
            sum: Cycles(self.latencies.sum),
            squares: self.latencies.squares,
            median,
        }
    }
}
