//! Reads the parts of a sample that an observer needs, at offsets given by the event's attributes.
//!
//! ```text
//! header | IDENTIFIER IP TID TIME ADDR CPU PERIOD | CALLCHAIN | RAW | WEIGHT DATA_SRC | REGS_INTR ...
//!          one word each                            counted     counted  one word each  abi, one word each
//! ```
//! It is not the reader of captures (`ground/samples`): it supports only the fields that this recorder requests,
//! and skips samples with others.

use hardmeter_samples::model::{
    Architecture, DataSource, MemoryOperation, Pid, SimulatedDetail, StateId, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::EventAttributes;
use std::collections::HashMap;

/// A sampled data access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedAccess {
    /// The process.
    pub pid: Pid,
    /// The data address.
    pub address: VirtualAddress,
    /// The time (`CLOCK_MONOTONIC`).
    pub time: Timestamp,
    /// The stack pointer, where registers were recorded.
    pub stack_pointer: Option<VirtualAddress>,
    /// The bytes that the state rules read at the sample.
    pub states: Vec<(StateId, Vec<u8>)>,
}

/// Fields of one word each before those with a count, in the kernel's order.
const LEADING: [u64; 9] = [
    sample_type::IDENTIFIER,
    sample_type::IP,
    sample_type::TID,
    sample_type::TIME,
    sample_type::ADDR,
    sample_type::ID,
    sample_type::STREAM_ID,
    sample_type::CPU,
    sample_type::PERIOD,
];
/// Fields that the recorder never requests; positions after them are unknown.
const UNKNOWN: u64 =
    sample_type::READ | sample_type::BRANCH_STACK | sample_type::REGS_USER | sample_type::STACK_USER;

/// Positions of the needed fields in an event's samples.
#[derive(Clone, Copy, Debug)]
struct Layout {
    process: usize,
    time: usize,
    address: usize,
    leading: usize,
    callchain: bool,
    raw: bool,
    weight: bool,
    source: bool,
    /// Position of the stack pointer among the registers.
    stack_pointer: Option<usize>,
    /// Whether the sample's time is CLOCK_MONOTONIC; a simulated sample has that time in RAW.
    monotonic: bool,
}

impl Layout {
    /// `None` for an event that has no data addresses, or fields unknown here.
    fn of(attr: &PerfEventAttr) -> Option<Layout> {
        let has = |bits: u64| attr.sample_type & bits != 0;
        let needed = sample_type::IDENTIFIER | sample_type::TID | sample_type::TIME | sample_type::ADDR;
        if attr.sample_type & needed != needed || has(UNKNOWN | sample_type::TRANSACTION) {
            return None;
        }
        let before =
            |field: u64| LEADING.iter().take_while(|bit| **bit != field).filter(|bit| has(**bit)).count();
        // No register is recorded on an architecture that is not known: no bit is set in its mask.
        let pointer = Architecture::HOST.map_or(0, |machine| 1u64 << machine.stack_pointer());
        let mask = attr.sample_regs_intr;
        Some(Layout {
            process: before(sample_type::TID),
            time: before(sample_type::TIME),
            address: before(sample_type::ADDR),
            leading: before(0),
            callchain: has(sample_type::CALLCHAIN),
            raw: has(sample_type::RAW),
            weight: has(sample_type::WEIGHT | sample_type::WEIGHT_STRUCT),
            source: has(sample_type::DATA_SRC),
            stack_pointer: (has(sample_type::REGS_INTR) && mask & pointer != 0)
                .then(|| (mask & (pointer - 1)).count_ones() as usize),
            monotonic: attr.has(attr_flag::USE_CLOCKID) && attr.clockid == libc::CLOCK_MONOTONIC,
        })
    }

    /// The access of a sample; `None` if it is not a data access or too short. `now` replaces the time of samples
    /// with another clock.
    fn read(&self, body: &[u8], now: Timestamp) -> Option<ObservedAccess> {
        let at = |offset: usize| -> Option<u64> {
            Some(u64::from_le_bytes(body.get(offset..offset + 8)?.try_into().ok()?))
        };
        let address = at(self.address * 8)?;
        let mut offset = self.leading * 8;
        if self.callchain {
            offset =
                usize::try_from(at(offset)?).ok()?.checked_add(1)?.checked_mul(8)?.checked_add(offset)?;
        }
        let mut raw: &[u8] = &[];
        if self.raw {
            let size = u32::from_le_bytes(body.get(offset..offset.checked_add(4)?)?.try_into().ok()?);
            raw = body.get(offset + 4..(offset + 4).checked_add(size as usize)?)?;
            offset += 4 + size as usize;
        }
        offset += 8 * usize::from(self.weight);
        if self.source {
            let source = DataSource(at(offset)?);
            offset += 8;
            if source.operation() == MemoryOperation::Execute {
                return None; // the address of code
            }
        }
        // The first word is the ABI: 0 means no registers.
        let stack_pointer = self.stack_pointer.filter(|_| at(offset) != Some(0));
        let stack_pointer = stack_pointer.and_then(|index| at(offset + 8 + index * 8)).map(VirtualAddress);
        let wall_time = SimulatedDetail::decode(raw).map(|detail| detail.wall_time);
        (address != 0).then_some(ObservedAccess {
            pid: Pid(at(self.process * 8)? as u32 as i32),
            address: VirtualAddress(address),
            time: match wall_time {
                Some(time) => time,
                None if self.monotonic => Timestamp(at(self.time * 8)?),
                None => now,
            },
            stack_pointer,
            states: SimulatedDetail::states(raw).map(|(id, bytes)| (id, bytes.to_vec())).collect(),
        })
    }
}

/// Reads what passes by of a recording's events.
#[derive(Debug, Default)]
pub(super) struct AccessReader {
    layouts: HashMap<u64, Layout>,
}

impl AccessReader {
    pub(super) fn new(events: &[EventAttributes]) -> AccessReader {
        let layouts = events
            .iter()
            .filter_map(|event| Some((Layout::of(&event.attr)?, &event.ids)))
            .flat_map(|(layout, ids)| ids.iter().map(move |id| (*id, layout)))
            .collect();
        AccessReader { layouts }
    }

    /// The accesses of several records.
    pub(super) fn read(&self, mut records: &[u8], now: Timestamp) -> Vec<ObservedAccess> {
        let mut accesses = Vec::new();
        while let Some(header) = records.first_chunk::<8>() {
            let length = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            let Some((record, rest)) = records.split_at_checked(length.max(8)) else { break };
            records = rest;
            let kind = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
            let body = &record[8..];
            if let (record_type::SAMPLE, Some(id)) = (kind, body.first_chunk::<8>()) {
                let layout = self.layouts.get(&u64::from_le_bytes(*id));
                accesses.extend(layout.and_then(|layout| layout.read(body, now)));
            }
        }
        accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u64 = 3;

    fn machine() -> Architecture {
        Architecture::HOST.unwrap_or(Architecture::X86_64)
    }

    fn event(fields: u64, flags: u64) -> EventAttributes {
        let mut attr = PerfEventAttr::new(4, 0);
        attr.sample_type = fields;
        attr.flags = flags;
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.sample_regs_intr = machine().general_mask();
        EventAttributes { name: "l1d-miss".into(), attr, ids: vec![ID] }
    }

    const PLAIN: u64 = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::CPU;

    fn record(words: &[u64]) -> Vec<u8> {
        let mut bytes = record_type::SAMPLE.to_ne_bytes().to_vec();
        bytes.extend([2, 0]);
        bytes.extend(((8 + words.len() * 8) as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_kernel_sample_tells_address_process_and_time() {
        let now = Timestamp(900);
        let records =
            [record(&[ID, 0x401000, 17 | 18 << 32, 100, 0x7f00, 0]), record(&[99, 0, 0, 0, 0, 0])].concat();
        let reader = AccessReader::new(&[event(PLAIN, attr_flag::USE_CLOCKID)]);
        let access = ObservedAccess {
            pid: Pid(17),
            address: VirtualAddress(0x7f00),
            time: Timestamp(100),
            stack_pointer: None,
            states: Vec::new(),
        };
        assert_eq!(reader.read(&records, now), std::slice::from_ref(&access));
        // Another clock's time is useless here; the time of reading is off by at most a second.
        let reader = AccessReader::new(&[event(PLAIN, 0)]);
        assert_eq!(reader.read(&records, now), [ObservedAccess { time: now, ..access }]);
        assert_eq!(AccessReader::new(&[event(PLAIN & !sample_type::ADDR, 0)]).read(&records, now), []);
    }

    #[test]
    fn a_simulated_sample_tells_wall_time_stack_pointer_and_states() {
        let fields = PLAIN
            | sample_type::CALLCHAIN
            | sample_type::RAW
            | sample_type::WEIGHT_STRUCT
            | sample_type::DATA_SRC
            | sample_type::REGS_INTR;
        let reader = AccessReader::new(&[event(fields, 0)]);
        let mut words = vec![ID, 0x401000, 17, 100, 0x7f00, 0];
        words.extend([2, 0xffff_ffff_ffff_fe00, 0x401000]); // two callers
        let mut raw = b"HMs1\x08\0\0\0\0\0\0\0".to_vec();
        raw.extend(777u64.to_le_bytes());
        raw.extend(b"\x03\0\x0b\0\0\0\0\0\x05\0\0\0\x03\0\0\0tag\0\0\0\0\0");
        let counted = [(raw.len() as u32).to_le_bytes().to_vec(), raw].concat();
        assert_eq!(counted.len() % 8, 0);
        words.extend(counted.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        let source_at = words.len() + 1;
        words.extend([12, 0x02]); // weight, a load
        words.push(2); // ABI of the registers
        words.extend((0..machine().general_mask().count_ones()).map(|index| 0x1000 + u64::from(index)));
        let read = reader.read(&record(&words), Timestamp(900));
        assert_eq!(
            read,
            [ObservedAccess {
                pid: Pid(17),
                address: VirtualAddress(0x7f00),
                time: Timestamp(777),
                // AX, BX, CX, DX, SI, DI, BP come before SP; or x0 to x30.
                stack_pointer: Some(VirtualAddress(match machine() {
                    Architecture::X86_64 => 0x1007,
                    Architecture::Aarch64 => 0x101f,
                })),
                states: vec![(StateId(5), b"tag".to_vec())],
            }]
        );
        // A fetched instruction is not data; a truncated record is ignored.
        let mut fetched = words.clone();
        fetched[source_at] = 0x10;
        assert_eq!(reader.read(&record(&fetched), Timestamp(900)), []);
        for length in 0..source_at {
            assert_eq!(reader.read(&record(&words[..length]), Timestamp(900)), [], "{length} words");
        }
        let whole = record(&words);
        (0..whole.len()).for_each(|length| assert_eq!(reader.read(&whole[..length], Timestamp(900)), []));
    }
}
