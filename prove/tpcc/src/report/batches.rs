//! Throughput of a run with its confidence interval.
//!
//! Neighbouring seconds are correlated (a checkpoint lasts several seconds, a late terminal stays late): treated as
//! independent they give too narrow an interval. Means of longer batches are nearly independent: the method of
//! batch means, with batches of at least 10 s.

use crate::measure::{RunResult, Second};
use crate::work::Kind;
use hardmeter_evidence::{quantile_95, Sample};

/// The shortest batch.
pub const BATCH_SECONDS: usize = 10;
/// Minimum number of batches for a meaningful interval.
pub const FEWEST: usize = 6;
/// Maximum number of batches; beyond it they become longer.
const MOST: usize = 30;

/// The seconds of the series that lie completely in the measurement interval.
pub fn interval(result: &RunResult) -> &[Second] {
    let begin = result.order.ramp_seconds.ceil() as usize;
    let end = (result.order.ramp_seconds + result.measured_seconds).floor() as usize;
    let end = end.min(result.series.len());
    &result.series[begin.min(end)..end]
}

/// New-Orders of each second of the measurement interval.
pub fn new_orders(result: &RunResult) -> Vec<f64> {
    interval(result).iter().map(|second| second.completed[Kind::NewOrder.index()] as f64).collect()
}

/// Means over batches of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Batches {
    /// Seconds of each.
    pub seconds: usize,
    /// The mean of each batch, in order.
    pub means: Vec<f64>,
}

/// A number, and half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Half the width of its 95 % interval.
    pub half: f64,
}

impl Batches {
    /// Batches of this many seconds; the remainder at the end is dropped.
    pub fn of(values: &[f64]) -> Batches {
        let seconds = BATCH_SECONDS.max(values.len() / MOST);
        let means = values.chunks_exact(seconds).map(|batch| batch.iter().sum::<f64>() / seconds as f64);
        Batches { seconds, means: means.collect() }
    }

    /// Their mean with its interval; `None` with fewer than [`FEWEST`].
    pub fn mean(&self) -> Option<Estimate> {
        if self.means.len() < FEWEST {
            return None;
        }
        let sample = Sample::of(&self.means);
        let interval = sample.interval()?;
        Some(Estimate { value: sample.mean, half: (interval.high - interval.low) / 2.0 })
    }

    /// The relative change from the beginning to the end, by linear regression over the batches; `None` with fewer
    /// than [`FEWEST`], or if nothing was done.
    pub fn trend(&self) -> Option<Estimate> {
        let n = self.means.len();
        let mean = self.means.iter().sum::<f64>() / n as f64;
        if n < FEWEST || mean <= 0.0 {
            return None;
        }
        let middle = (n - 1) as f64 / 2.0;
        let spread: f64 = (0..n).map(|at| (at as f64 - middle).powi(2)).sum();
        let along: f64 = self.means.iter().enumerate().map(|(at, value)| (at as f64 - middle) * value).sum();
        let slope = along / spread;
        let residual = |at: usize| self.means[at] - mean - slope * (at as f64 - middle);
        let variance = (0..n).map(|at| residual(at).powi(2)).sum::<f64>() / (n - 2) as f64;
        let whole = n as f64 / mean;
        let half = quantile_95((n - 2) as f64) * (variance / spread).sqrt();
        Some(Estimate { value: slope * whole, half: half * whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_ten_seconds_or_longer() {
        let batches = Batches::of(&[2.0; 125]);
        assert_eq!((batches.seconds, batches.means.len()), (10, 12));
        assert_eq!(batches.mean(), Some(Estimate { value: 2.0, half: 0.0 }));
        assert_eq!(Batches::of(&[1.0; 7200]).means.len(), 30);
        assert_eq!(Batches::of(&[1.0; 59]).mean(), None);
    }

    #[test]
    fn the_interval_is_that_of_students_table() {
        // Six batches 1 to 6: mean 3.5, deviation 1.8708, t(5) = 2.571: 2.571 * 1.8708 / sqrt(6) = 1.963.
        let batches = Batches { seconds: 10, means: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let mean = batches.mean().unwrap();
        assert!((mean.value - 3.5).abs() < 1e-12 && (mean.half - 1.963).abs() < 1e-3, "{mean:?}");
        // A straight line has no residual; it rises by 1 per batch, 6 in total, relative to a mean of 3.5.
        let trend = batches.trend().unwrap();
        assert!((trend.value - 6.0 / 3.5).abs() < 1e-12 && trend.half < 1e-12, "{trend:?}");
    }
}
