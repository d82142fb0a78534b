//! A histogram of times, 1 us to 1 h with three digits, that grows as it needs and is never clipped.

use crate::time::Micros;
use base64::Engine as _;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer};
use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Offset of the number of digits in HdrHistogram's V2 format.
const DIGITS_AT: std::ops::Range<usize> = 12..16;

/// A histogram of times. Times above an hour enlarge it: a run that hangs must not look better than it is (go-tpc
/// clips at 16 s, docs/design/prove.md, 1).
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

impl Times {
    /// An empty histogram. Its memory grows with the largest time: 10 KiB at 10 ms, 100 KiB at an hour.
    pub fn new() -> Times {
        let mut histogram = Histogram::new(3).expect("three digits are valid");
        histogram.auto(true);
        Times(histogram)
    }

    /// One more. Times below a microsecond count as one.
    pub fn record(&mut self, time: Micros) {
        // Not saturating_record, which clips to the largest time so far instead of growing.
        self.0.record(time.0.max(1)).expect("a histogram that grows takes everything");
    }

    /// Adds the times of another driver or thread.
    pub fn add(&mut self, other: &Times) {
        self.0.add(&other.0).expect("a histogram that grows takes everything");
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The quantile at `share`; `None` if empty.
    pub fn quantile(&self, share: f64) -> Option<Micros> {
        (self.count() > 0).then(|| Micros(self.0.value_at_quantile(share)))
    }

    /// The mean in seconds; `None` if empty.
    pub fn mean_seconds(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.mean() / 1e6)
    }

    /// The longest.
    pub fn max(&self) -> Option<Micros> {
        (self.count() > 0).then(|| Micros(self.0.max()))
    }

    /// The standard deviation in seconds; `None` if empty.
    pub fn deviation_seconds(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.0.stdev() / 1e6)
    }

    /// Number of times up to this length, within the histogram's resolution.
    pub fn count_up_to(&self, time: Micros) -> u64 {
        self.0.count_between(0, time.0)
    }

    /// The non-empty buckets in order: the longest time of each, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (Micros, u64)> + '_ {
        self.0
            .iter_recorded()
            .map(|bucket| (Micros(bucket.value_iterated_to()), bucket.count_since_last_iteration()))
    }

    /// The shortest time of the bucket that a time belongs to.
    pub fn bucket_begin(&self, time: Micros) -> Micros {
        Micros(self.0.lowest_equivalent(time.0))
    }
}

impl Serialize for Times {
    /// HdrHistogram's own V2 format in base 64, which other tools read too.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        serializer.serialize_str(&base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Times, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(D::Error::custom)?;
        // A file of unknown origin must not control memory: five digits would take 25 MiB for a few bytes.
        if bytes.get(DIGITS_AT) != Some([0u8, 0, 0, 3].as_slice()) {
            return Err(D::Error::custom("no histogram of three digits"));
        }
        let mut histogram: Histogram<u32> = HdrDeserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| D::Error::custom(format!("no histogram: {error:?}")))?;
        histogram.auto(true);
        Ok(Times(histogram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_unclipped_and_come_back_from_a_file() {
        let mut times = Times::new();
        for seconds in [1u64, 2, 3, 4, 7200] {
            times.record(Micros::seconds(seconds));
        }
        times.record(Micros::ZERO);
        let again: Times = serde_json::from_str(&serde_json::to_string(&times).unwrap()).unwrap();
        assert_eq!(again, times);
        assert_eq!(again.count(), 6);
        assert!((7200.0..7208.0).contains(&again.max().unwrap().as_seconds()));
        assert_eq!(again.count_up_to(Micros::seconds(3)), 4);
        let mut twice = again.clone();
        twice.add(&times);
        assert_eq!(twice.count(), 12);
        assert!(serde_json::from_str::<Times>("\"AAAA\"").is_err());
        let mut fine = Histogram::<u32>::new(5).unwrap();
        fine.record(7).unwrap();
        let text = serde_json::to_string(&Times(fine)).unwrap();
        let refused = serde_json::from_str::<Times>(&text).unwrap_err().to_string();
        assert!(refused.contains("three digits"), "{refused}");
    }
}
