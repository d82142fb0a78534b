//! The data-source word: the kind of a memory access and what served it (`union perf_mem_data_src`).
//!
//! ```text
//! bits  0..4  5..18  19..23  24..25  26..32  33..36   37      38..39  40..42  43..45
//!       op    lvl    snoop   lock    dtlb    lvl_num  remote  snoopx  blk     hops
//! ```
//! The exact bit positions are those of `include/uapi/linux/perf_event.h`; the raw word is kept, so that bits of
//! newer kernels survive.

use serde::{Deserialize, Serialize};

/// The memory operation of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryOperation {
    /// A data load.
    Load,
    /// A data store.
    Store,
    /// A software prefetch.
    Prefetch,
    /// An instruction fetch.
    Execute,
    /// Unknown.
    Unknown,
}

/// The level of the hierarchy that served the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryLevel {
    /// First-level cache.
    L1,
    /// Line-fill buffer: a fill of the line was already outstanding.
    LineFillBuffer,
    /// Second-level cache.
    L2,
    /// Third-level cache.
    L3,
    /// Another core's cache, same package.
    OtherCore,
    /// DRAM of this node.
    LocalDram,
    /// DRAM or cache of another node.
    Remote,
    /// Persistent memory.
    PersistentMemory,
    /// I/O or uncached memory.
    Uncached,
    /// Unknown.
    Unknown,
}

/// The result of snooping other caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Snoop {
    /// No snoop was needed.
    None,
    /// Another cache held the line, unmodified.
    Hit,
    /// No other cache held it.
    Miss,
    /// Another cache held the line modified: true or false sharing.
    HitModified,
    /// Forwarded by another cache.
    Forward,
    /// Served from a peer.
    Peer,
    /// Unknown.
    Unknown,
}

/// How the address translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlbOutcome {
    /// First-level TLB.
    L1Hit,
    /// Second-level TLB.
    L2Hit,
    /// A page walk (by hardware, or by the operating system).
    Walk,
    /// Unknown.
    Unknown,
}

/// A raw data-source word and its decoders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DataSource(pub u64);

// Bit positions of union perf_mem_data_src.
const OP_SHIFT: u32 = 0;
const LVL_SHIFT: u32 = 5;
const SNOOP_SHIFT: u32 = 19;
const LOCK_SHIFT: u32 = 24;
const TLB_SHIFT: u32 = 26;
const LVL_NUM_SHIFT: u32 = 33;
const REMOTE_SHIFT: u32 = 37;
const SNOOPX_SHIFT: u32 = 38;

impl DataSource {
    fn bits(self, shift: u32, width: u32) -> u64 {
        (self.0 >> shift) & ((1 << width) - 1)
    }

    /// The memory operation.
    pub fn operation(self) -> MemoryOperation {
        let op = self.bits(OP_SHIFT, 5);
        // The kernel sets one bit; a word with several (load + prefetch) gets the strongest one.
        if op & 0x04 != 0 {
            MemoryOperation::Store
        } else if op & 0x08 != 0 {
            MemoryOperation::Prefetch
        } else if op & 0x02 != 0 {
            MemoryOperation::Load
        } else if op & 0x10 != 0 {
            MemoryOperation::Execute
        } else {
            MemoryOperation::Unknown
        }
    }

    /// The level that served the access: `mem_lvl_num` if the kernel sets it, else the older `mem_lvl` bits.
    pub fn level(self) -> MemoryLevel {
        let remote = self.bits(REMOTE_SHIFT, 1) != 0;
        match self.bits(LVL_NUM_SHIFT, 4) {
            _ if remote => return MemoryLevel::Remote,
            1 => return MemoryLevel::L1,
            2 => return MemoryLevel::L2,
            3 => return MemoryLevel::L3,
            4 => return MemoryLevel::L3, // an L4 is a memory-side cache; the model has no level for it
            0xa => return MemoryLevel::Uncached,
            0xb => return MemoryLevel::OtherCore,
            0xc => return MemoryLevel::LineFillBuffer,
            0xd => return MemoryLevel::LocalDram,
            0xe => return MemoryLevel::PersistentMemory,
            _ => {}
        }
        let level = self.bits(LVL_SHIFT, 14);
        let (hit, miss) = (level & 0x02 != 0, level & 0x04 != 0);
        if miss && !hit {
            // The level that missed (a store on Intel, an access on Arm without a data source). What served it is
            // known only after the last level.
            return match level {
                _ if level & 0xf00 != 0 => MemoryLevel::Remote,
                _ if level & 0x40 != 0 => MemoryLevel::LocalDram,
                _ => MemoryLevel::Unknown,
            };
        }
        if level & 0x08 != 0 {
            MemoryLevel::L1
        } else if level & 0x10 != 0 {
            MemoryLevel::LineFillBuffer
        } else if level & 0x20 != 0 {
            MemoryLevel::L2
        } else if level & 0x40 != 0 {
            MemoryLevel::L3
        } else if level & 0x80 != 0 {
            MemoryLevel::LocalDram
        } else if level & 0xf00 != 0 {
            MemoryLevel::Remote
        } else if level & 0x3000 != 0 {
            MemoryLevel::Uncached
        } else {
            MemoryLevel::Unknown
        }
    }

    /// The result of snooping.
    pub fn snoop(self) -> Snoop {
        let extended = self.bits(SNOOPX_SHIFT, 2);
        let snoop = self.bits(SNOOP_SHIFT, 5);
        if snoop & 0x10 != 0 {
            Snoop::HitModified
        } else if extended & 0x1 != 0 {
            Snoop::Forward
        } else if extended & 0x2 != 0 {
            Snoop::Peer
        } else if snoop & 0x04 != 0 {
            Snoop::Hit
        } else if snoop & 0x08 != 0 {
            Snoop::Miss
        } else if snoop & 0x02 != 0 {
            Snoop::None
        } else {
            Snoop::Unknown
        }
    }

    /// Whether the access was a locked (atomic) one.
    pub fn locked(self) -> bool {
        self.bits(LOCK_SHIFT, 2) & 0x2 != 0
    }

    /// How the translation was found.
    pub fn tlb(self) -> TlbOutcome {
        let tlb = self.bits(TLB_SHIFT, 7);
        let (hit, miss) = (tlb & 0x02 != 0, tlb & 0x04 != 0);
        let (l1, l2, walker) = (tlb & 0x08 != 0, tlb & 0x10 != 0, tlb & 0x60 != 0);
        // Intel sets "hit" with both L1 and L2 if it only knows that no walk was needed.
        if miss || (walker && !hit) {
            TlbOutcome::Walk
        } else if hit && l1 {
            TlbOutcome::L1Hit
        } else if hit && l2 {
            TlbOutcome::L2Hit
        } else {
            TlbOutcome::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PERF_MEM_LVL_HIT is 2, MISS 4, L1 8, L3 0x40, REM_CCE1 0x400, from bit 5 on.
    #[test]
    fn a_level_that_was_missed_did_not_serve() {
        assert_eq!(DataSource((0x08 | 0x02) << 5).level(), MemoryLevel::L1);
        assert_eq!(DataSource((0x08 | 0x04) << 5).level(), MemoryLevel::Unknown);
        assert_eq!(DataSource((0x40 | 0x02) << 5).level(), MemoryLevel::L3);
        assert_eq!(DataSource((0x40 | 0x04) << 5).level(), MemoryLevel::LocalDram);
        assert_eq!(DataSource(0x400 << 5).level(), MemoryLevel::Remote);
    }

    /// The six words of `perf.data.weight_struct`, with the texts of `perf script`.
    #[test]
    fn words_of_a_recorded_skylake_capture() {
        let cases = [
            (0x11868100242, MemoryLevel::LineFillBuffer, false, TlbOutcome::L1Hit),
            (0x10668100842, MemoryLevel::L3, false, TlbOutcome::L1Hit),
            (0x10268100142, MemoryLevel::L1, false, TlbOutcome::L1Hit),
            (0x1026a100142, MemoryLevel::L1, true, TlbOutcome::L1Hit),
            (0x10468100442, MemoryLevel::L2, false, TlbOutcome::L1Hit),
            (0x10650100842, MemoryLevel::L3, false, TlbOutcome::Walk),
        ];
        for (word, level, locked, tlb) in cases {
            let source = DataSource(word);
            assert_eq!(source.operation(), MemoryOperation::Load, "{word:#x}");
            assert_eq!(source.level(), level, "{word:#x}");
            assert_eq!(source.locked(), locked, "{word:#x}");
            assert_eq!(source.tlb(), tlb, "{word:#x}");
            assert_eq!(source.snoop(), Snoop::None, "{word:#x}");
        }
    }
}
