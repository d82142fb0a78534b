//! Counts records while they are written, for the recorder's report.

use hardmeter_samples::model::Timestamp;
use hardmeter_samples::perf_data::abi::{record_type, sample_type};
use hardmeter_samples::perf_data::EventAttributes;
use std::collections::HashMap;

/// Counts of records.
#[derive(Debug, Default)]
pub struct Tally {
    /// Samples, by event in the order of the file.
    pub samples: Vec<u64>,
    /// Records that the kernel dropped because a ring was full.
    pub lost_records: u64,
    /// Samples that the kernel could not even begin to write.
    pub lost_samples: u64,
    /// The number of times that the kernel throttled an event because of too many interrupts.
    pub throttled: u64,
    /// Processes that had a sample.
    pub processes: std::collections::BTreeSet<i32>,
    /// Time of the earliest and the latest sample.
    pub times: Option<(Timestamp, Timestamp)>,
    events: HashMap<u64, usize>,
    /// Cache: consecutive samples usually have the same event and process.
    last_id: (u64, usize),
    last_process: Option<i32>,
    /// Word position of process and time in a sample, the same for all events: the recorder requests the same
    /// leading fields.
    process_at: Option<usize>,
    time_at: Option<usize>,
}

impl Tally {
    /// Ready for the records of these events.
    pub fn new(events: &[EventAttributes]) -> Tally {
        let ids = events.iter().enumerate();
        let first = events.first().map_or(0, |event| event.attr.sample_type);
        let words = |mask: u64| (first & mask).count_ones() as usize;
        let before = sample_type::IDENTIFIER | sample_type::IP;
        Tally {
            samples: vec![0; events.len()],
            events: ids.flat_map(|(index, event)| event.ids.iter().map(move |id| (*id, index))).collect(),
            last_id: (u64::MAX, 0),
            process_at: (first & sample_type::TID != 0).then(|| words(before)),
            time_at: (first & sample_type::TIME != 0).then(|| words(before | sample_type::TID)),
            ..Tally::default()
        }
    }

    /// Examines one record.
    pub fn see(&mut self, record: &[u8]) {
        let Some(header) = record.first_chunk::<8>() else { return };
        let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let word = |index: usize| {
            let start = 8 + index * 8;
            record
                .get(start..start + 8)
                .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
        };
        match kind {
            record_type::SAMPLE => {
                let Some(id) = word(0) else { return };
                if id != self.last_id.0 {
                    self.last_id = (id, self.events.get(&id).copied().unwrap_or(0));
                }
                if let Some(count) = self.samples.get_mut(self.last_id.1) {
                    *count += 1;
                }
                let process = self.process_at.and_then(word).map(|word| word as u32 as i32);
                if process != self.last_process {
                    self.last_process = process;
                    self.processes.extend(process);
                }
                if let Some(time) = self.time_at.and_then(word).map(Timestamp) {
                    let (first, last) = self.times.unwrap_or((time, time));
                    self.times = Some((first.min(time), last.max(time)));
                }
            }
            // LOST carries the event's id and then how many, LOST_SAMPLES only how many.
            record_type::LOST => self.lost_records += word(1).unwrap_or(0),
            record_type::LOST_SAMPLES => self.lost_samples += word(0).unwrap_or(0),
            record_type::THROTTLE => self.throttled += 1,
            _ => {}
        }
    }

    /// Samples of all events.
    pub fn total(&self) -> u64 {
        self.samples.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::perf_data::abi::PerfEventAttr;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(((8 + words.len() * 8) as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn samples_losses_and_throttles_are_counted() {
        let mut attr = PerfEventAttr::new(1, 0);
        attr.sample_type = sample_type::IDENTIFIER
            | sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CPU;
        let event = |name: &str, ids: &[u64]| EventAttributes { name: name.into(), attr, ids: ids.to_vec() };
        let mut tally = Tally::new(&[event("a", &[5, 6]), event("b", &[9])]);
        tally.see(&record(9, &[5, 0x401000, 17 | 18 << 32, 100, 0]));
        tally.see(&record(9, &[6, 0x401000, 17 | 17 << 32, 90, 0]));
        tally.see(&record(9, &[9, 0x401000, 21 | 21 << 32, 300, 0]));
        tally.see(&record(2, &[5, 44]));
        tally.see(&record(13, &[3]));
        tally.see(&record(5, &[0, 5, 5]));
        tally.see(&[1, 2, 3]);
        assert_eq!(tally.samples, [2, 1]);
        assert_eq!(tally.total(), 3);
        assert_eq!((tally.lost_records, tally.lost_samples, tally.throttled), (44, 3, 1));
        assert_eq!(tally.processes.iter().copied().collect::<Vec<_>>(), [17, 21]);
        assert_eq!(tally.times, Some((Timestamp(90), Timestamp(300))));
    }
}
