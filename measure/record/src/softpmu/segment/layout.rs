//! The layout of the segment: the counterpart of the structures of `measure/simulate/sim/segment.h`, which
//! documents them.

use hardmeter_samples::machine::{CacheGeometry, CoreModel, TlbGeometry};
use hardmeter_samples::model::{MemoryEvent, StateRule};
use std::sync::atomic::{AtomicU32, AtomicU64};

pub(super) const MAGIC: [u8; 8] = *b"HMSOFTPM";
pub(super) const VERSION: u32 = 5;
pub(in crate::softpmu) const MAX_CORES: usize = 64;
pub(super) const EVENTS: usize = MemoryEvent::ALL.len();
pub(super) const RING_OFFSET: usize = 65536;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct CacheConfig {
    pub(super) size: u32,
    pub(super) ways: u32,
    pub(super) latency: u32,
    pub(super) reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct TlbConfig {
    pub(super) entries: u32,
    pub(super) ways: u32,
    pub(super) latency: u32,
    pub(super) reserved: u32,
}

/// `struct hm_core_config`; all 0: every miss costs its whole latency.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::softpmu) struct CoreConfig {
    pub(super) reorder_window: u32,
    pub(super) fill_buffers: u32,
    pub(super) store_buffer: u32,
    pub(super) prefetchers: u32,
    pub(super) stream_distance: u32,
    pub(super) line_cycles: u32,
    pub(super) reserved: [u32; 2],
}

impl CoreConfig {
    /// The core of a machine.
    pub fn new(core: &CoreModel) -> CoreConfig {
        CoreConfig {
            reorder_window: core.reorder_window,
            fill_buffers: core.fill_buffers,
            store_buffer: core.store_buffer,
            prefetchers: core.prefetchers(),
            stream_distance: core.stream_distance,
            line_cycles: core.line_cycles,
            reserved: [0; 2],
        }
    }
}

/// `struct hm_config`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(in crate::softpmu) struct Config {
    pub cores: u32,
    pub clock_mhz: u32,
    pub milli_cpi: u32,
    pub memory_latency: u32,
    pub walk_latency: u32,
    pub flags: u32,
    pub set_sampling: u32,
    pub callchain_depth: u32,
    pub(super) caches: [CacheConfig; 4],
    pub(super) tlbs: [TlbConfig; 3],
    pub period: [u64; EVENTS],
    pub branch_predictor: u32,
    pub transfer_latency: u32,
    pub core: CoreConfig,
}

/// The flags of `enum hm_flags` that the recorder sets.
pub(in crate::softpmu) const FLAG_CAUSES: u32 = 1;
pub(in crate::softpmu) const FLAG_TLB_FLUSH_SWITCH: u32 = 1 << 1;
pub(in crate::softpmu) const FLAG_REUSE: u32 = 1 << 3;
pub(in crate::softpmu) const FLAG_HUGE_PAGES: u32 = 1 << 4;
pub(in crate::softpmu) const FLAG_INTERLEAVE: u32 = 1 << 5;

impl Config {
    /// A configuration with the given levels (L1I, L1D, L2, L3; ITLB, DTLB, STLB) and defaults for all else.
    pub fn new(caches: [Option<CacheGeometry>; 4], tlbs: [Option<TlbGeometry>; 3]) -> Config {
        let cache = |geometry: Option<CacheGeometry>| {
            geometry.map_or(CacheConfig::default(), |cache| CacheConfig {
                size: cache.size,
                ways: cache.ways,
                latency: cache.latency,
                reserved: 0,
            })
        };
        let tlb = |geometry: Option<TlbGeometry>| {
            geometry.map_or(TlbConfig::default(), |tlb| TlbConfig {
                entries: tlb.entries,
                ways: tlb.ways,
                latency: tlb.latency,
                reserved: 0,
            })
        };
        Config {
            cores: 1,
            clock_mhz: 1000,
            milli_cpi: 1000,
            memory_latency: 0,
            walk_latency: 0,
            flags: 0,
            set_sampling: 1,
            callchain_depth: 0,
            caches: caches.map(cache),
            tlbs: tlbs.map(tlb),
            period: [0; EVENTS],
            branch_predictor: 0,
            transfer_latency: 0,
            core: CoreConfig::default(),
        }
    }
}

/// `struct hm_core_counts`.
#[repr(C)]
pub(super) struct CoreCounts {
    pub(super) events: [AtomicU64; EVENTS],
    pub(super) cycles: AtomicU64,
    pub(super) switches: AtomicU64,
    pub(super) walks_all_huge: AtomicU64,
    pub(super) walks_shared_huge: AtomicU64,
    pub(super) exposed_cycles: AtomicU64,
    pub(super) prefetched: AtomicU64,
    pub(super) prefetched_late: AtomicU64,
    pub(super) dependent: AtomicU64,
    pub(super) reserved: [u64; 3],
}

#[repr(C, align(64))]
pub(super) struct Aligned<T>(pub(super) T);

/// `struct hm_header`.
#[repr(C)]
pub(super) struct Header {
    pub(super) magic: [u8; 8],
    pub(super) version: u32,
    pub(super) header_size: u32,
    pub(super) segment_size: u64,
    pub(super) ring_size: u64,
    pub(super) config: Config,
    pub(super) control: Aligned<Control>,
    pub(super) ring_head: Aligned<AtomicU64>,
    pub(super) ring_tail: Aligned<AtomicU64>,
    pub(super) ring_lock: Aligned<AtomicU32>,
    pub(super) results: Aligned<Results>,
    pub(super) states: Aligned<States>,
}

#[repr(C)]
pub(super) struct Control {
    pub(super) measuring: AtomicU32,
    pub(super) recorder_pid: AtomicU32,
    pub(super) init_state: AtomicU32,
    pub(super) attached: AtomicU32,
    pub(super) frames_exhausted: AtomicU32,
    pub(super) next_object: AtomicU32,
    pub(super) heap_next: u64,
    pub(super) root: u64,
    pub(super) reuse: AtomicU64,
    pub(super) statements: AtomicU64,
}

#[repr(C)]
pub(super) struct Results {
    pub(super) clock_max: AtomicU64,
    pub(super) counts: [CoreCounts; MAX_CORES],
}

/// `struct hm_reuse_counts`: each core has one.
pub(in crate::softpmu) const REUSE_BUCKETS: usize = 112;
/// `HM_REUSE_ONE_LINE_IN`.
pub(in crate::softpmu) const REUSE_ONE_LINE_IN: u32 = 64;
#[repr(C)]
pub(super) struct ReuseCounts {
    pub(super) cold: AtomicU64,
    pub(super) buckets: [AtomicU64; REUSE_BUCKETS],
}

/// `enum hm_state_kind`.
pub(super) const STATE_STATEMENT: u32 = 1;
pub(super) const STATE_WORD: u32 = 2;
pub(super) const STATE_ENTRY: u32 = 3;
pub(super) const STATE_THREAD_STATEMENT: u32 = 4;
pub(super) const STATE_PAGE: u32 = 5;
/// `HM_STATE_LONGEST`.
pub(super) const STATE_LONGEST: u32 = 32;

/// `struct hm_state_rule`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RawStateRule {
    pub(super) kind: u32,
    pub(super) id: u32,
    pub(super) base: u64,
    pub(super) size: u64,
    pub(super) stride: u64,
    pub(super) table: u64,
    pub(super) table_stride: u64,
    pub(super) offset: u64,
    pub(super) indirect: u32,
    pub(super) length: u32,
}

#[repr(C)]
pub(super) struct States {
    pub(super) number: AtomicU32,
    pub(super) rules: [RawStateRule; StateRule::MOST],
}

/// Up to four offsets in a word, the first one lowest.
fn packed(offsets: &[u16]) -> u64 {
    offsets.iter().rev().fold(0, |word, offset| word << 16 | u64::from(*offset))
}

impl RawStateRule {
    pub(super) fn new(rule: &StateRule) -> RawStateRule {
        let none = RawStateRule::default();
        match *rule {
            StateRule::Statement { pointer, last } => RawStateRule {
                kind: STATE_STATEMENT,
                base: pointer.0,
                table: last.map_or(0, |last| last.base.0),
                offset: last.map_or(0, |last| last.offset.0),
                indirect: u32::from(last.is_some()),
                ..none
            },
            StateRule::Word { id, base, offset, length } => RawStateRule {
                kind: STATE_WORD,
                id: id.0,
                base: base.0,
                offset: offset.map_or(0, |offset| offset.0),
                indirect: u32::from(offset.is_some()),
                length: length.min(8),
                ..none
            },
            StateRule::Entry { id, region, size, stride, table, table_stride, length } => RawStateRule {
                kind: STATE_ENTRY,
                id: id.0,
                base: region.0,
                size: size.0,
                stride: stride.0,
                table: table.0,
                table_stride: table_stride.0,
                length: length.min(STATE_LONGEST),
                ..none
            },
            StateRule::ThreadStatement { session, text, connection } => RawStateRule {
                kind: STATE_THREAD_STATEMENT,
                base: session as u64,
                table: connection.0,
                offset: text.0,
                ..none
            },
            StateRule::Page { id, region, size, page, words } => RawStateRule {
                kind: STATE_PAGE,
                id: id.0,
                base: region.0,
                size: size.0,
                stride: page.0,
                table: packed(&words[..4]),
                table_stride: packed(&words[4..]),
                length: 4 * words.len() as u32,
                ..none
            },
        }
    }
}

/// `struct hm_statement`.
#[repr(C)]
pub(super) struct RawStatement {
    pub(super) hash: AtomicU64,
    pub(super) length: AtomicU32,
    pub(super) reserved: AtomicU32,
    pub(super) text: [u8; 1008],
}

/// `HM_STATEMENTS`, `HM_STATEMENT_TEXT`: slots of the table, and bytes of a text in one.
pub(super) const STATEMENTS: usize = 4096;
pub(super) const STATEMENT_TEXT: usize = 1004;

const _: () = {
    assert!(std::mem::size_of::<CacheConfig>() == 16);
    assert!(std::mem::size_of::<TlbConfig>() == 16);
    assert!(std::mem::size_of::<CoreConfig>() == 32);
    assert!(std::mem::size_of::<Config>() == 288);
    assert!(std::mem::size_of::<CoreCounts>() == 192);
    assert!(std::mem::offset_of!(Header, config) == 32);
    assert!(std::mem::offset_of!(Header, control) == 320);
    assert!(std::mem::offset_of!(Header, ring_head) == 384);
    assert!(std::mem::offset_of!(Header, ring_tail) == 448);
    assert!(std::mem::offset_of!(Header, results) == 576);
    assert!(std::mem::size_of::<ReuseCounts>() == 904);
    assert!(std::mem::size_of::<RawStateRule>() == 64);
    assert!(std::mem::size_of::<RawStatement>() == 1024);
    assert!(std::mem::offset_of!(Header, states) == 12928);
    assert!(std::mem::offset_of!(States, rules) == 8);
    assert!(std::mem::size_of::<Header>() <= RING_OFFSET);
};
