//! Filters samples in software where the hardware cannot.
//!
//! AMD's IBS samples every n-th operation of any kind, in any mode. Keeping only those whose data source is beyond
//! L2, for example, gives every n-th operation that missed L2: each kept sample stands for n such operations, so
//! periods remain correct.

use super::attributes::Modes;
use hardmeter_samples::model::{CpuMode, DataSource, MemoryLevel, MemoryOperation, TlbOutcome};
use hardmeter_samples::perf_data::abi::sample_type;
use hardmeter_samples::perf_data::abi::PerfEventAttr;

/// The filter of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleFilter {
    /// Data accesses that L1 did not serve.
    MissedL1,
    /// Data accesses that missed both L1 and L2.
    MissedL2,
    /// Data accesses that no cache of this socket served.
    MissedL3,
    /// Translations that the first-level TLB did not have.
    MissedL1Tlb,
    /// Translations that needed a page walk.
    PageWalk,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// All samples; only the mode is checked.
    Everything,
}

impl SampleFilter {
    /// Whether to keep a data source.
    pub fn accepts(self, source: DataSource) -> bool {
        use MemoryLevel::*;
        let operation = source.operation();
        let accesses = matches!(operation, MemoryOperation::Load | MemoryOperation::Store);
        match self {
            SampleFilter::MissedL1 => accesses && !matches!(source.level(), L1 | Unknown | Uncached),
            SampleFilter::MissedL2 => {
                accesses && !matches!(source.level(), L1 | LineFillBuffer | L2 | Unknown | Uncached)
            }
            SampleFilter::MissedL3 => {
                accesses && matches!(source.level(), LocalDram | Remote | PersistentMemory)
            }
            SampleFilter::MissedL1Tlb => matches!(source.tlb(), TlbOutcome::L2Hit | TlbOutcome::Walk),
            SampleFilter::PageWalk => source.tlb() == TlbOutcome::Walk,
            SampleFilter::Loads => operation == MemoryOperation::Load,
            SampleFilter::Stores => operation == MemoryOperation::Store,
            SampleFilter::Everything => true,
        }
    }
}

/// A filter ready for the raw records of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFilter {
    wanted: SampleFilter,
    modes: Modes,
    /// Words between the record header and the call chain, or the weight if there is no call chain.
    words_before_chain: usize,
    has_chain: bool,
    has_weight: bool,
}

impl RecordFilter {
    /// The filter for the samples of an attribute. `None` where they carry no data source to decide by.
    pub fn new(wanted: SampleFilter, modes: Modes, attr: &PerfEventAttr) -> Option<RecordFilter> {
        use sample_type::*;
        let between = READ | RAW | BRANCH_STACK | REGS_USER | STACK_USER;
        if attr.sample_type & DATA_SRC == 0 || attr.sample_type & between != 0 {
            return None;
        }
        let fixed = IDENTIFIER | IP | TID | TIME | ADDR | ID | STREAM_ID | CPU | PERIOD;
        Some(RecordFilter {
            wanted,
            modes,
            words_before_chain: (attr.sample_type & fixed).count_ones() as usize,
            has_chain: attr.sample_type & CALLCHAIN != 0,
            has_weight: attr.sample_type & (WEIGHT | WEIGHT_STRUCT) != 0,
        })
    }

    /// Whether to keep a sample record (header included). A record that is too short is kept: the file's reader
    /// reports it.
    pub fn accepts(&self, record: &[u8]) -> bool {
        let misc = u16::from_le_bytes([record[4], record[5]]);
        let in_mode = match CpuMode::from_misc(misc) {
            CpuMode::User => self.modes.user,
            CpuMode::Kernel => self.modes.kernel,
            _ => true,
        };
        in_mode && self.data_source(record).is_none_or(|source| self.wanted.accepts(source))
    }

    fn data_source(&self, record: &[u8]) -> Option<DataSource> {
        let word = |index: usize| -> Option<u64> {
            let start = 8usize.checked_add(index.checked_mul(8)?)?;
            Some(u64::from_ne_bytes(record.get(start..start.checked_add(8)?)?.try_into().ok()?))
        };
        let mut at = self.words_before_chain;
        if self.has_chain {
            at = at.checked_add(1)?.checked_add(usize::try_from(word(at)?).ok()?)?;
        }
        word(at + usize::from(self.has_weight)).map(DataSource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Data-source words of a recorded capture, explained in ground/samples/src/model/data_source.rs.
    const LOAD_FROM_L1: u64 = 0x10268100142;
    const LOAD_FROM_L2: u64 = 0x10468100442;
    const LOAD_FROM_L3_WITH_WALK: u64 = 0x10650100842;

    #[test]
    fn levels_and_walks_are_told_apart() {
        use SampleFilter::*;
        let answers = |filter: SampleFilter| {
            [LOAD_FROM_L1, LOAD_FROM_L2, LOAD_FROM_L3_WITH_WALK].map(|word| filter.accepts(DataSource(word)))
        };
        assert_eq!(answers(MissedL1), [false, true, true]);
        assert_eq!(answers(MissedL2), [false, false, true]);
        assert_eq!(answers(MissedL3), [false, false, false]);
        assert_eq!(answers(PageWalk), [false, false, true]);
        assert_eq!(answers(Loads), [true, true, true]);
        assert_eq!(answers(Stores), [false, false, false]);
    }

    fn sample(misc: u16, words: &[u64]) -> Vec<u8> {
        let mut record = 9u32.to_ne_bytes().to_vec();
        record.extend(misc.to_ne_bytes());
        record.extend(((8 + words.len() * 8) as u16).to_ne_bytes());
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn the_data_source_is_found_behind_a_call_chain() {
        use sample_type::*;
        let mut attr = PerfEventAttr::new(4, 0);
        attr.sample_type = IDENTIFIER | IP | CALLCHAIN | WEIGHT_STRUCT | DATA_SRC | PHYS_ADDR;
        let filter = RecordFilter::new(SampleFilter::MissedL2, Modes::USER, &attr).expect("a data source");
        let missed = sample(2, &[1, 0x401000, 2, 0x401000, 0x402000, 77, LOAD_FROM_L3_WITH_WALK, 0]);
        let hit = sample(2, &[1, 0x401000, 0, 77, LOAD_FROM_L2, 0]);
        assert!(filter.accepts(&missed));
        assert!(!filter.accepts(&hit));
        // Kernel samples are dropped, and an invalid chain length causes no panic.
        assert!(!filter.accepts(&sample(1, &[1, 0x401000, 0, 77, LOAD_FROM_L3_WITH_WALK, 0])));
        assert!(filter.accepts(&sample(2, &[1, 0x401000, u64::MAX])));
        attr.sample_type = IP;
        assert_eq!(RecordFilter::new(SampleFilter::Loads, Modes::USER, &attr), None);
    }
}
