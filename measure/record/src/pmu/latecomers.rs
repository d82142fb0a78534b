//! Processes of a target whose fork the kernel did not report: they started after the target's processes were
//! listed and before the events ran. Their samples need names and mappings, too.

use super::synthesize::Synthesizer;
use hardmeter_samples::model::Pid;
use hardmeter_samples::perf_data::RecordEncoder;
use std::collections::BTreeSet;

/// Makes the records of each process once.
pub struct Latecomers {
    encoder: RecordEncoder,
    data_mappings: bool,
    /// Processes whose records are in the capture.
    known: BTreeSet<Pid>,
    waiting: BTreeSet<Pid>,
}

impl Latecomers {
    /// `known`: the processes whose records were written at the start.
    pub fn new(
        encoder: RecordEncoder,
        data_mappings: bool,
        known: impl IntoIterator<Item = Pid>,
    ) -> Latecomers {
        Latecomers { encoder, data_mappings, known: known.into_iter().collect(), waiting: BTreeSet::new() }
    }

    /// Members that were found running.
    pub fn found(&mut self, members: impl IntoIterator<Item = Pid>) {
        let known = &mut self.known;
        self.waiting.extend(members.into_iter().filter(|pid| known.insert(*pid)));
    }

    /// Forgets processes that have ended, whose numbers may be used again.
    pub fn forget_ended(&mut self) {
        self.known.retain(|pid| crate::target::runs(*pid));
    }

    /// The records of those found since the last call, one after the other.
    pub fn take_records(&mut self) -> Vec<u8> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut synthesizer = Synthesizer::new(self.encoder, self.data_mappings);
        std::mem::take(&mut self.waiting).into_iter().for_each(|pid| synthesizer.process(pid));
        synthesizer.finish().records
    }
}

/// The single records of several that follow one another.
pub fn each_record(mut records: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let header = records.first_chunk::<8>()?;
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]])).max(8);
        let (record, rest) = records.split_at_checked(length)?;
        records = rest;
        Some(record)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::perf_data::abi::{record_type, PerfEventAttr};
    use hardmeter_samples::perf_data::EventAttributes;

    #[test]
    fn each_member_gets_its_name_and_mappings_once() {
        let event = EventAttributes { name: "dummy".into(), attr: PerfEventAttr::new(1, 9), ids: vec![1] };
        let own = Pid(std::process::id() as i32);
        let mut late = Latecomers::new(RecordEncoder::new(&event), false, []);
        late.found([own]);
        let records = late.take_records();
        let kinds: Vec<u32> = each_record(&records)
            .map(|record| u32::from_ne_bytes(record[..4].try_into().expect("four bytes")))
            .collect();
        assert!(kinds.contains(&record_type::COMM) && kinds.contains(&record_type::MMAP2), "{kinds:?}");
        assert_eq!(each_record(&records).map(<[u8]>::len).sum::<usize>(), records.len());
        late.found([own]);
        assert!(late.take_records().is_empty());
        let mut known = Latecomers::new(RecordEncoder::new(&event), false, [own]);
        known.found([own]);
        assert!(known.take_records().is_empty());
    }
}
