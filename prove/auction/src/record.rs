//! The recordings of a run: durations by interaction, from when requests were due; errors by kind; bytes.

use crate::interaction::Interaction;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// A histogram of times in microseconds with three significant digits; it grows as needed and never clips.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Times {
        let mut histogram = Histogram::new(3).expect("three digits are valid");
        histogram.auto(true);
        Times(histogram)
    }
}

impl Times {
    /// Adds a time; below a microsecond it counts as one.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 1).max(1);
        self.0.record(micros).expect("a histogram that grows takes everything");
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile at `share` in microseconds; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The mean in microseconds; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The longest, in microseconds.
    pub fn max(&self) -> u64 {
        if self.count() == 0 {
            0
        } else {
            self.0.max()
        }
    }

    /// All buckets: (longest time in microseconds, count).
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded.map(|bucket| (bucket.value_iterated_to(), bucket.count_since_last_iteration())).collect()
    }
}

/// How a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A page that refuses (422): outbid meanwhile, sold out. Not an error of the site.
    Refused,
    /// Another status than 200.
    Status(u16),
    /// The connection could not be made.
    Connect,
    /// The connection ended before the answer did.
    CutOff,
    /// The answer is not HTTP.
    BadAnswer,
    /// No answer within the patience.
    TimedOut,
}

impl Fault {
    /// Its name in results.
    pub fn name(self) -> String {
        match self {
            Fault::Refused => "refused".into(),
            Fault::Status(status) => format!("status {status}"),
            Fault::Connect => "no connection".into(),
            Fault::CutOff => "cut off".into(),
            Fault::BadAnswer => "no HTTP".into(),
            Fault::TimedOut => "timed out".into(),
        }
    }
}

/// The recordings of one interaction.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// From when it was due to its last byte; for failed ones, to the failure.
    pub times: Times,
    /// Number of these that failed.
    pub faults: u64,
    /// Bytes of bodies.
    pub bytes: u64,
}

/// The recordings of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// By interaction.
    pub interactions: BTreeMap<Interaction, Kept>,
    /// Failures by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// All times.
    pub times: Times,
    /// Times from sending instead of from due, as a closed loop would report them. For comparison.
    pub from_sending: Times,
}

impl Record {
    /// Records the end of a request.
    pub fn ended(
        &mut self,
        interaction: Interaction,
        since_due: Duration,
        since_sent: Duration,
        bytes: u64,
        fault: Option<Fault>,
    ) {
        let kept = self.interactions.entry(interaction).or_default();
        kept.times.record(since_due);
        kept.bytes += bytes;
        self.times.record(since_due);
        self.from_sending.record(since_sent);
        if let Some(fault) = fault {
            kept.faults += u64::from(fault != Fault::Refused);
            *self.faults.entry(fault).or_default() += 1;
        }
    }

    /// Requests that ended in any way.
    pub fn requests(&self) -> u64 {
        self.times.count()
    }

    /// Failed requests, without refusals.
    pub fn errors(&self) -> u64 {
        self.faults.iter().filter(|(fault, _)| **fault != Fault::Refused).map(|(_, count)| count).sum()
    }

    /// Bytes of bodies.
    pub fn bytes(&self) -> u64 {
        self.interactions.values().map(|kept| kept.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_unclipped_and_refusals_are_no_errors() {
        let mut record = Record::default();
        for (seconds, fault) in [(1, None), (2, Some(Fault::Refused)), (7200, Some(Fault::TimedOut))] {
            let time = Duration::from_secs(seconds);
            record.ended(Interaction::Item, time, Duration::from_millis(1), 100, fault);
        }
        assert_eq!((record.requests(), record.errors(), record.bytes()), (3, 1, 300));
        assert_eq!(record.interactions[&Interaction::Item].faults, 1);
        let max = record.times.max() as f64;
        assert!((max / 7.2e9 - 1.0).abs() < 1e-3, "an hour is not a limit: {max}");
        assert!((record.times.quantile(0.5) as f64 / 2e6 - 1.0).abs() < 1e-3);
        assert_eq!(record.times.buckets().iter().map(|(_, count)| count).sum::<u64>(), 3);
        assert_eq!((Times::default().quantile(0.99), Times::default().max()), (0, 0));
    }
}
