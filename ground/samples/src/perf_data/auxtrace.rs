//! The records about traces: perf's announcement (`AUXTRACE_INFO`, `TIME_CONV`), and the position of the bytes
//! (`AUXTRACE`).

use super::abi::{record_type, AUXTRACE_ARM_SPE};
use super::bytes::Cursor;
use super::stream::RawRecord;
use crate::arm_spe::Midr;
use crate::model::Timestamp;
use std::collections::HashMap;
use std::ops::Range;

/// The announcement of a capture's Arm SPE traces.
#[derive(Clone, Debug, Default)]
pub(super) struct TraceHeader {
    /// The PMU whose event the traces belong to; `None` if there are no traces, or of another kind.
    pub(super) pmu_type: Option<u32>,
    /// The kind of traces, decoded or not; 0 without an announcement.
    pub(super) kind: u32,
    /// The processor of each CPU, recorded by perf 6.14 and later.
    pub(super) processors: HashMap<u32, Midr>,
    /// From ticks of the system counter to the capture's time.
    pub(super) clock: Option<CounterClock>,
}

/// The words of `AUXTRACE_INFO` in its first form: the PMU's type, and whether there is a buffer per CPU.
const FIRST_FORM_WORDS: usize = 2;

impl TraceHeader {
    /// Processes one of these records; ignores others.
    pub(super) fn take(&mut self, record: RawRecord<'_>) {
        match record.kind {
            record_type::AUXTRACE_INFO => {
                self.take_info(record.body);
            }
            record_type::TIME_CONV => self.clock = CounterClock::decode(record.body).or(self.clock),
            _ => {}
        }
    }

    fn take_info(&mut self, body: &[u8]) -> Option<()> {
        let mut fields = Cursor::new(body);
        let (kind, _) = fields.u32_pair()?;
        self.kind = kind;
        if kind != AUXTRACE_ARM_SPE {
            return None;
        }
        if fields.rest().len() / 8 == FIRST_FORM_WORDS {
            self.pmu_type = Some(fields.u64()? as u32);
            return Some(());
        }
        // The second form: version, words in this header, PMU type, number of CPUs; then, for each CPU, a magic
        // number, its own number, the number of words that follow, and these words: MIDR first.
        let (_version, header_words) = (fields.u64()?, fields.u64()?);
        let (pmu_type, cpus) = (fields.u64()?, fields.u64()?);
        self.pmu_type = Some(pmu_type as u32);
        fields.words(header_words.checked_sub(4)?)?;
        for _ in 0..cpus {
            let (_magic, cpu, count) = (fields.u64()?, fields.u64()?, fields.u64()?);
            let words = fields.words(count)?;
            if let Some(midr) = words.first() {
                self.processors.insert(cpu as u32, Midr(u64::from_le_bytes(*midr)));
            }
        }
        Some(())
    }
}

/// Conversion of counter ticks to `perf_clock`, from the first page of a ring (`struct perf_event_mmap_page`), as
/// copied by perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterClock {
    shift: u32,
    multiplier: u64,
    zero: u64,
    /// For a counter that overflows: a reference value, and its bits.
    short: Option<(u64, u64)>,
}

impl CounterClock {
    fn decode(body: &[u8]) -> Option<CounterClock> {
        let mut fields = Cursor::new(body);
        let (shift, multiplier, zero) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let mut short = None;
        // Files of perf before 5.10 end here.
        if let (Some(cycles), Some(mask), Some(capable)) = (fields.u64(), fields.u64(), fields.u64()) {
            // Two bytes: whether `zero` is valid, whether the counter is short. perf omits the record if the first
            // is false.
            short = (capable >> 8 & 0xff != 0).then_some((cycles, mask));
        }
        let usable = shift < 64 && multiplier != 0;
        usable.then_some(CounterClock { shift: shift as u32, multiplier, zero, short })
    }

    /// The time of a counter's value. Wraps as the kernel's arithmetic does.
    pub(super) fn time(&self, ticks: u64) -> Timestamp {
        let ticks = match self.short {
            Some((cycles, mask)) => cycles.wrapping_add(ticks.wrapping_sub(cycles) & mask),
            None => ticks,
        };
        let (whole, rest) = (ticks >> self.shift, ticks & ((1 << self.shift) - 1));
        let nanoseconds = self
            .zero
            .wrapping_add(whole.wrapping_mul(self.multiplier))
            .wrapping_add(rest.wrapping_mul(self.multiplier) >> self.shift);
        Timestamp(nanoseconds)
    }
}

/// One piece of a trace, announced by an `AUXTRACE` record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Position of its bytes in the file.
    pub(super) payload: Range<u64>,
    /// Offset of its first byte in the trace.
    pub(super) offset: u64,
    /// The buffer it came from.
    pub(super) buffer: u32,
    /// The thread, where the buffer is one thread's.
    pub(super) tid: Option<i32>,
    /// The CPU, where the buffer is one CPU's.
    pub(super) cpu: Option<u32>,
}

impl Block {
    /// Reads the record; `payload` is what follows it.
    pub(super) fn decode(record: RawRecord<'_>, payload: Range<u64>) -> Option<Block> {
        let mut fields = Cursor::new(record.body);
        let (_size, offset, _reference) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (buffer, tid) = fields.u32_pair()?;
        let cpu = fields.u32()?;
        Some(Block {
            payload,
            offset,
            buffer,
            tid: Some(tid as i32).filter(|tid| *tid != -1),
            cpu: Some(cpu).filter(|cpu| *cpu != u32::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn taken(kind: u32, body: &[u64]) -> TraceHeader {
        let mut header = TraceHeader::default();
        header.take(RawRecord { kind, misc: 0, body: &words(body) });
        header
    }

    #[test]
    fn both_forms_of_the_announcement() {
        let first = taken(record_type::AUXTRACE_INFO, &[4, 12, 1]);
        assert_eq!((first.pmu_type, first.processors.len()), (Some(12), 0));
        // Two CPUs of different kinds, with four words and one word.
        let magic = 0x1010_1010_1010_1010;
        let second = [4, 2, 4, 12, 2, magic, 0, 4, 0x413f_d0c1, 12, 1024, 1, magic, 1, 1, 0x410f_d490];
        let second = taken(record_type::AUXTRACE_INFO, &second);
        assert_eq!(second.pmu_type, Some(12));
        assert_eq!(second.processors[&0], Midr(0x413f_d0c1));
        assert_eq!(second.processors[&1], Midr(0x410f_d490));
        assert_eq!(taken(record_type::AUXTRACE_INFO, &[1, 12, 1]).pmu_type, None, "Intel PT");
        assert_eq!(taken(record_type::AUXTRACE_INFO, &[]).pmu_type, None);
        // More CPUs than words.
        assert_eq!(taken(record_type::AUXTRACE_INFO, &[4, 2, 4, 12, u64::MAX, magic]).pmu_type, Some(12));
    }

    /// A counter of 25 MHz, 40 ns a tick, as on Neoverse N1: 40 = 671088640 / 2^24.
    #[test]
    fn ticks_become_nanoseconds() {
        let clock = taken(record_type::TIME_CONV, &[24, 671_088_640, 1_000]).clock.expect("usable");
        assert_eq!(clock.time(0), Timestamp(1_000));
        assert_eq!(clock.time(1), Timestamp(1_040));
        assert_eq!(clock.time(25_000_000), Timestamp(1_000_001_000));
        assert_eq!(clock.time(25_000_000 * 3600 * 24 * 365), Timestamp(365 * 86_400 * 1_000_000_000 + 1_000));
        // A counter of 56 bits that was at 2^56 - 1 and advanced by two: it reads 1.
        let mask = (1u64 << 56) - 1;
        let short =
            taken(record_type::TIME_CONV, &[24, 671_088_640, 0, mask, mask, 0x101]).clock.expect("usable");
        assert_eq!(short.time(1), Timestamp(((1u64 << 56) + 1).wrapping_mul(40)));
        assert_eq!(taken(record_type::TIME_CONV, &[64, 1, 0]).clock, None);
        assert_eq!(taken(record_type::TIME_CONV, &[10, 0, 0]).clock, None);
        assert_eq!(taken(record_type::TIME_CONV, &[10, 1]).clock, None);
    }

    #[test]
    fn a_block_is_of_a_cpu_or_of_a_thread() {
        let body = words(&[64, 4096, 7, 3 | 0xffff_ffff << 32, 3]);
        let record = RawRecord { kind: record_type::AUXTRACE, misc: 0, body: &body };
        let block = Block::decode(record, 500..564).expect("whole");
        assert_eq!(block, Block { payload: 500..564, offset: 4096, buffer: 3, tid: None, cpu: Some(3) });
        let body = words(&[64, 4096, 7, 3 | 99 << 32, 0xffff_ffff]);
        let record = RawRecord { kind: record_type::AUXTRACE, misc: 0, body: &body };
        let block = Block::decode(record, 500..564).expect("whole");
        assert_eq!((block.tid, block.cpu), (Some(99), None));
    }
}
