//! Converts Arm's records to perf_event's data-source word, as perf does.
//!
//! The architecture defines that there is a data source and leaves its numbers to each processor. Arm's own cores
//! from Neoverse N1 on share one table:
//!
//! | number | served by | level | snoop |
//! |---|---|---|---|
//! | 0 | L1D | L1 | none |
//! | 8 | L2 | L2 | none |
//! | 9 | another core | L2 | from a peer |
//! | 10, 12 | a core of this cluster, of another cluster | L3 | from a peer |
//! | 11 | the system's cache | L3 | hit |
//! | 13 | the other socket | remote | from a peer |
//! | 14 | memory | DRAM | none |
//!
//! Ampere's AmpereOne uses other numbers for the same sources. Other processors report only which caches missed, by
//! events.

use super::record::{Events, Operation, Record};
use crate::model::DataSource;

/// `MIDR_EL1`: which processor a core is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Midr(pub u64);

/// Processor families by their numbering of data sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Arm,
    AmpereOne,
}

impl Midr {
    /// From the text of a capture's header, for example `0x00000000413fd0c1`.
    pub fn parse(text: &str) -> Option<Midr> {
        let digits = text.trim().strip_prefix("0x").unwrap_or(text.trim());
        u64::from_str_radix(digits, 16).ok().map(Midr)
    }

    fn numbering(self) -> Option<Numbering> {
        let (implementer, part) = (self.0 >> 24 & 0xff, self.0 >> 4 & 0xfff);
        match (implementer, part) {
            // Neoverse N1, N2, N3, V1, V2, V3, V3AE.
            (0x41, 0xd0c | 0xd49 | 0xd8e | 0xd40 | 0xd4f | 0xd84 | 0xd83) => Some(Numbering::Arm),
            // Cortex-A78C, A715, A720, A725, X1, X1C, X3, X4, X925.
            (0x41, 0xd4b | 0xd4d | 0xd81 | 0xd87 | 0xd44 | 0xd4c | 0xd4e | 0xd82 | 0xd85) => {
                Some(Numbering::Arm)
            }
            (0xc0, 0xac4) => Some(Numbering::AmpereOne),
            _ => None,
        }
    }
}

// Fields of union perf_mem_data_src (include/uapi/linux/perf_event.h).
const fn field(value: u64, shift: u32) -> u64 {
    value << shift
}
const OP_LOAD: u64 = field(0x02, 0);
const OP_STORE: u64 = field(0x04, 0);
const LVL_NA: u64 = field(0x01, 5);
const LVL_HIT: u64 = field(0x02, 5);
const LVL_MISS: u64 = field(0x04, 5);
const LVL_L1: u64 = field(0x08, 5);
const LVL_L2: u64 = field(0x20, 5);
const LVL_L3: u64 = field(0x40, 5);
const LVL_LOCAL_RAM: u64 = field(0x80, 5);
const SNOOP_NA: u64 = field(0x01, 19);
const SNOOP_NONE: u64 = field(0x02, 19);
const SNOOP_HIT: u64 = field(0x04, 19);
const TLB_HIT: u64 = field(0x02, 26);
const TLB_MISS: u64 = field(0x04, 26);
const TLB_WALKER: u64 = field(0x20, 26);
const NUMBER_L1: u64 = field(0x01, 33);
const NUMBER_L2: u64 = field(0x02, 33);
const NUMBER_L3: u64 = field(0x03, 33);
const NUMBER_RAM: u64 = field(0x0d, 33);
const NUMBER_NA: u64 = field(0x0f, 33);
const REMOTE: u64 = field(1, 37);
const SNOOPX_PEER: u64 = field(0x02, 38);

impl Record {
    /// The data-source word of a load or store; `None` for anything else.
    pub fn data_source_word(&self, processor: Midr) -> Option<DataSource> {
        let Some(Operation::Memory { store, .. }) = self.operation else { return None };
        let numbered = processor.numbering().and_then(|numbering| match store {
            // These processors do not report the source of a store, though their events have more.
            true => Some(LVL_NA | NUMBER_NA | SNOOP_NA),
            false => served_by(numbering, self.data_source?),
        });
        let level = numbered.unwrap_or_else(|| level_by_events(self.events));
        let operation = if store { OP_STORE } else { OP_LOAD };
        Some(DataSource(operation | level | translation_by_events(self.events)))
    }
}

/// The level of a numbered source; `None` for an unknown number.
fn served_by(numbering: Numbering, source: u16) -> Option<u64> {
    let source = match numbering {
        Numbering::Arm => source,
        Numbering::AmpereOne => match source {
            0 => 9,
            3 => 11,
            5 => 13,
            7 => 14,
            8 => 0,
            9 => 8,
            _ => return None,
        },
    };
    Some(match source {
        0 => LVL_L1 | LVL_HIT | NUMBER_L1 | SNOOP_NONE,
        8 => LVL_L2 | LVL_HIT | NUMBER_L2 | SNOOP_NONE,
        9 => LVL_L2 | LVL_HIT | NUMBER_L2 | SNOOPX_PEER,
        10 | 12 => LVL_L3 | LVL_HIT | NUMBER_L3 | SNOOPX_PEER,
        11 => LVL_L3 | LVL_HIT | NUMBER_L3 | SNOOP_HIT,
        13 => LVL_NA | NUMBER_NA | REMOTE | SNOOPX_PEER,
        14 => LVL_LOCAL_RAM | LVL_HIT | NUMBER_RAM | SNOOP_NONE,
        _ => return None,
    })
}

/// The level from the event flags: the last one that was accessed.
fn level_by_events(events: Events) -> u64 {
    let outcome = |missed| if events.has(missed) { LVL_MISS } else { LVL_HIT };
    let mut level = 0;
    if events.has(Events::LAST_LEVEL_ACCESS | Events::LAST_LEVEL_MISS) {
        level = LVL_L3 | outcome(Events::LAST_LEVEL_MISS);
    } else if events.has(Events::L1D_ACCESS | Events::L1D_REFILL) {
        level = LVL_L1 | outcome(Events::L1D_REFILL);
    }
    if events.has(Events::REMOTE_ACCESS) {
        level |= REMOTE;
    }
    level
}

fn translation_by_events(events: Events) -> u64 {
    if events.has(Events::TLB_WALK) {
        TLB_WALKER | TLB_MISS
    } else if events.has(Events::TLB_ACCESS) {
        TLB_WALKER | TLB_HIT
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MemoryLevel, MemoryOperation, Snoop, TlbOutcome};

    const N1: Midr = Midr(0x413f_d0c1);
    const AMPERE_ONE: Midr = Midr(0xc00f_ac40);
    const SOME_OTHER: Midr = Midr(0x481f_d010);

    fn access(detail: u8, source: Option<u16>, events: u64) -> Record {
        Record {
            operation: Some(Operation::new(1, detail)),
            data_source: source,
            events: Events(events),
            ..Record::default()
        }
    }

    /// The table at the top, row by row, in both numberings.
    #[test]
    fn loads_by_number() {
        let rows = [
            (0, Some(8), MemoryLevel::L1, Snoop::None),
            (8, Some(9), MemoryLevel::L2, Snoop::None),
            (9, Some(0), MemoryLevel::L2, Snoop::Peer),
            (10, None, MemoryLevel::L3, Snoop::Peer),
            (11, Some(3), MemoryLevel::L3, Snoop::Hit),
            (12, None, MemoryLevel::L3, Snoop::Peer),
            (13, Some(5), MemoryLevel::Remote, Snoop::Peer),
            (14, Some(7), MemoryLevel::LocalDram, Snoop::None),
        ];
        for (arm, ampere, level, snoop) in rows {
            let source = access(0, Some(arm), 0x02).data_source_word(N1).expect("a load");
            assert_eq!(source.operation(), MemoryOperation::Load);
            assert_eq!((source.level(), source.snoop()), (level, snoop), "{arm}");
            assert_eq!(source.tlb(), TlbOutcome::Unknown);
            if let Some(ampere) = ampere {
                assert_eq!(access(0, Some(ampere), 0x02).data_source_word(AMPERE_ONE), Some(source));
            }
        }
        // perf 6.1's word for a load from DRAM without a page walk: op 2, HIT and LOC_RAM, snoop NONE, TLB WK and
        // HIT, number 0xd.
        let word = access(0, Some(14), 0x12).data_source_word(N1).expect("a load");
        assert_eq!(word.0, 0x2 | 0x82 << 5 | 0x2 << 19 | 0x22 << 26 | 0xd << 33);
        assert_eq!(
            access(0, Some(14), 0x22).data_source_word(N1).map(DataSource::tlb),
            Some(TlbOutcome::Walk)
        );
    }

    #[test]
    fn without_a_table_the_events_tell() {
        let level =
            |events| access(0, Some(14), events).data_source_word(SOME_OTHER).expect("a load").level();
        assert_eq!(level(0x06), MemoryLevel::L1, "L1D was asked and had it");
        assert_eq!(level(0x0e), MemoryLevel::Unknown, "L1D had to refill: from where is not told");
        assert_eq!(level(0x10e), MemoryLevel::L3, "the last level was asked and had it");
        assert_eq!(level(0x30e), MemoryLevel::LocalDram, "no cache had it");
        assert_eq!(level(0x70e), MemoryLevel::Remote);
        assert_eq!(level(0x02), MemoryLevel::Unknown);
        // A known processor, an unknown number.
        let source = access(0, Some(99), 0x06).data_source_word(N1).expect("a load");
        assert_eq!(source.level(), MemoryLevel::L1);
    }

    #[test]
    fn stores_are_stores_and_the_rest_has_no_source() {
        let store = access(1, None, 0x0e).data_source_word(N1).expect("a store");
        assert_eq!((store.operation(), store.level()), (MemoryOperation::Store, MemoryLevel::Unknown));
        let store = access(1, None, 0x06).data_source_word(SOME_OTHER).expect("a store");
        assert_eq!((store.operation(), store.level()), (MemoryOperation::Store, MemoryLevel::L1));
        let branch = Record { operation: Some(Operation::new(2, 0)), ..Record::default() };
        assert_eq!(branch.data_source_word(N1), None);
        assert_eq!(Record::default().data_source_word(N1), None);
    }

    #[test]
    fn midr_as_headers_write_it() {
        assert_eq!(Midr::parse("0x00000000413fd0c1"), Some(N1));
        assert_eq!(Midr::parse("413fd0c1\n"), Some(N1));
        assert_eq!(Midr::parse("GenuineIntel,6,85,4"), None);
    }
}
