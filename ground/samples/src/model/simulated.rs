//! Additional data of the software PMU about an access. They are stored in `PERF_SAMPLE_RAW`, which perf skips for
//! events that are not tracepoints, so they stay with their sample through `perf script`, copies and merges.
//!
//! ```text
//! byte  0      4        5       6       7         8            12                       20
//!       | magic | size   | cause | level | pattern | set (u32)  | wall time, ns (u64) | sections ...
//!
//! section  0           2             4          8
//!          | kind (u16) | bytes (u16) | reserved | payload, padded to a multiple of 8 |
//!
//! kind 1, sharing     0         1        2      3      4           8
//!                     | verdict | offset | size | kind | pid (u32) | ip (u64)   | the other side
//! kind 2, statement   | hash of the statement's text without constants (u64) | 1 if it is over (u64, may be absent) |
//! kind 3, state       | rule (u32) | length (u32) | bytes |
//! kind 4, allocation  | first byte of the block (u64) | its size (u64) | where it was requested (u64) |
//! kind 5, stride      | distance to the instruction's previous miss, if that was its distance before, too (i64) |
//! ```
//!
//! Unknown kinds are skipped; a truncated section ends the list.
//!
//! Samples of source `live` carry the same field under another magic: bytes 4 to 11 are zero, and only sections of
//! kind 2 and 3 follow, [what the server executed](ServerState) when the sample was taken.

use super::data_source::MemoryOperation;
use super::state::StateId;
use super::units::{AccessSize, ByteCount, Pid, Timestamp, VirtualAddress};
use serde::{Deserialize, Serialize};

/// Why a line was not in the cache (Hill's three classes, and the fourth of shared memory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissCause {
    /// First access to the line by this cache.
    Cold,
    /// A fully associative cache of the same size would have missed as well.
    Capacity,
    /// A fully associative cache of the same size would have hit.
    Conflict,
    /// Another core's write invalidated the line.
    Coherence,
}

/// How an instruction computed the address of its miss. `None` in a sample: its first miss, or the machine
/// was simulated without its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissPattern {
    /// From a load under way that itself had waited for one, or from its own latest result: a list, a tree.
    Chase,
    /// From a load under way that had waited for none: a table of pointers or indices, the entry behind a bucket.
    Indirect,
    /// At a constant distance.
    Stride,
    /// At no constant distance, and known early: a hash bucket, a random element.
    Scattered,
}

/// Whether two cores use the same words of a line that both access (Torrellas, Lam & Hennessy 1994: by the word
/// that missed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharingVerdict {
    /// Another core wrote the accessed word since this core lost the line.
    True,
    /// Other cores wrote only other words of the line.
    False,
}

/// The other side of a coherence miss, or of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// True or false; `None` for an invalidation, since the later reads are not known yet.
    pub verdict: Option<SharingVerdict>,
    /// The other's process.
    pub pid: Pid,
    /// The instruction of the other core: for a coherence miss the latest write that invalidated the line, for an
    /// invalidation the latest access by the core that loses it.
    pub ip: VirtualAddress,
    /// Offset of the other core's access on the line in bytes.
    pub offset: u8,
    /// Its size in bytes.
    pub size: AccessSize,
    /// Whether the other loaded or stored.
    pub operation: MemoryOperation,
}

pub use hardmeter_statement::StatementId;

/// The heap block of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeapBlock {
    /// Its first byte.
    pub start: VirtualAddress,
    /// Its requested size.
    pub size: ByteCount,
    /// Where the program allocated it: the return address of the call of `malloc`.
    pub site: VirtualAddress,
}

/// The state of a server process at a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// The statement that the process executed, or, if that is over, had executed last.
    pub statement: Option<StatementId>,
    /// Whether the statement had ended: the process was cleaning up, or waiting for the next one.
    pub statement_over: bool,
}

/// The part of a simulated sample that hardware samples do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedDetail {
    /// Bytes touched by the access.
    pub access_size: AccessSize,
    /// The cause of the miss; `None` if causes were not simulated or the event is not a cache miss.
    pub cause: Option<MissCause>,
    /// The set of the missing cache, in the level of the event.
    pub set: u32,
    /// Wall-clock time (`CLOCK_MONOTONIC`), since the sample's own time is simulated.
    pub wall_time: Timestamp,
    /// The other core that uses the line, for sharing events and coherence misses.
    pub sharing: Option<Sharing>,
    /// The state of the server process.
    pub server: ServerState,
    /// The heap block, where allocations were recorded.
    pub heap_block: Option<HeapBlock>,
    /// The pattern of the instruction's misses.
    pub pattern: Option<MissPattern>,
    /// The constant distance between the instruction's misses, in bytes; 0 if there is none.
    pub stride: i64,
}

/// Bytes of a section before its payload.
const SECTION_HEADER: usize = 8;
const SHARING: u16 = 1;
const STATEMENT: u16 = 2;
const STATE: u16 = 3;
const ALLOCATION: u16 = 4;
const STRIDE: u16 = 5;

impl SimulatedDetail {
    /// The first four bytes of the raw field.
    pub const MAGIC: [u8; 4] = *b"HMs1";
    /// Bytes of the raw field before its sections.
    pub const SIZE: usize = 20;

    /// Reads the detail from a sample's raw field; `None` if the field has another format.
    pub fn decode(raw: &[u8]) -> Option<SimulatedDetail> {
        if raw.len() < Self::SIZE || raw[..4] != Self::MAGIC {
            return None;
        }
        let cause = match raw[5] {
            1 => Some(MissCause::Cold),
            2 => Some(MissCause::Capacity),
            3 => Some(MissCause::Conflict),
            4 => Some(MissCause::Coherence),
            _ => None,
        };
        let mut detail = SimulatedDetail {
            access_size: AccessSize(raw[4]),
            cause,
            set: u32::from_le_bytes(raw[8..12].try_into().ok()?),
            wall_time: Timestamp(u64::from_le_bytes(raw[12..20].try_into().ok()?)),
            sharing: None,
            server: ServerState::default(),
            heap_block: None,
            pattern: match raw[7] {
                1 => Some(MissPattern::Chase),
                2 => Some(MissPattern::Indirect),
                3 => Some(MissPattern::Stride),
                4 => Some(MissPattern::Scattered),
                _ => None,
            },
            stride: 0,
        };
        for (kind, payload) in sections(raw) {
            match kind {
                SHARING => detail.sharing = sharing(payload),
                STATEMENT => detail.server = statement(payload),
                ALLOCATION => detail.heap_block = heap_block(payload),
                STRIDE => detail.stride = word(payload, 0).map_or(0, |word| word as i64),
                _ => {}
            }
        }
        Some(detail)
    }

    /// The bytes of the server's state at the sample, by state rule; none if the raw field has another format.
    pub fn states(raw: &[u8]) -> impl Iterator<Item = (StateId, &[u8])> {
        let raw = if has_sections(raw) { raw } else { &[] };
        sections(raw).filter(|(kind, _)| *kind == STATE).filter_map(|(_, payload)| {
            let id = u32::from_le_bytes(payload.get(..4)?.try_into().ok()?);
            let length = u32::from_le_bytes(payload.get(4..8)?.try_into().ok()?);
            Some((StateId(id), payload.get(8..)?.get(..length as usize)?))
        })
    }
}

impl ServerState {
    /// The first four bytes of a live sample's raw field.
    pub const LIVE_MAGIC: [u8; 4] = *b"HMl1";

    /// Decodes it from the raw field of a simulated or live sample; `None` if the field has another format or no
    /// statement.
    pub fn decode(raw: &[u8]) -> Option<ServerState> {
        let ours = if has_sections(raw) { raw } else { &[] };
        let (_, payload) = sections(ours).find(|(kind, _)| *kind == STATEMENT)?;
        Some(statement(payload)).filter(|state| state.statement.is_some())
    }

    /// The raw field of a live sample, taken at `time`. Its size is four bytes more than a multiple of eight, as the
    /// format of samples wants it.
    ///
    /// ```
    /// use hardmeter_samples::model::{ServerState, StateId, StatementId, Timestamp};
    ///
    /// let state = ServerState { statement: Some(StatementId(7)), statement_over: false };
    /// let raw = state.encode(Timestamp(5), &[(StateId::SERVERS_STATEMENT, 42)]);
    /// assert_eq!(ServerState::decode(&raw), Some(state));
    /// assert_eq!(raw.len() % 8, 4);
    /// ```
    pub fn encode(&self, time: Timestamp, words: &[(StateId, u64)]) -> Vec<u8> {
        let mut raw = Self::LIVE_MAGIC.to_vec();
        raw.extend([0; 8]);
        raw.extend(time.0.to_le_bytes());
        let mut section = |kind: u16, payload: &[u8]| {
            raw.extend(kind.to_le_bytes());
            raw.extend((payload.len() as u16).to_le_bytes());
            raw.extend([0; 4]);
            raw.extend(payload);
        };
        if let Some(statement) = self.statement {
            section(
                STATEMENT,
                &[statement.0.to_le_bytes(), u64::from(self.statement_over).to_le_bytes()].concat(),
            );
        }
        for (id, value) in words {
            let head = [id.0.to_le_bytes(), 8u32.to_le_bytes()].concat();
            section(STATE, &[head, value.to_le_bytes().to_vec()].concat());
        }
        raw
    }
}

/// Whether a raw field has our sections.
fn has_sections(raw: &[u8]) -> bool {
    raw.len() >= SimulatedDetail::SIZE
        && (raw[..4] == SimulatedDetail::MAGIC || raw[..4] == ServerState::LIVE_MAGIC)
}

fn statement(payload: &[u8]) -> ServerState {
    ServerState {
        statement: word(payload, 0).map(StatementId),
        statement_over: word(payload, 1).is_some_and(|flags| flags & 1 != 0),
    }
}

/// The sections of a raw field of the software PMU: kind and payload, padding included.
fn sections(raw: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = raw.get(SimulatedDetail::SIZE..).unwrap_or_default();
    std::iter::from_fn(move || {
        let header = rest.get(..SECTION_HEADER)?;
        let kind = u16::from_le_bytes([header[0], header[1]]);
        let length = usize::from(u16::from_le_bytes([header[2], header[3]])).next_multiple_of(8);
        let payload = rest.get(SECTION_HEADER..SECTION_HEADER + length)?;
        rest = &rest[SECTION_HEADER + length..];
        Some((kind, payload))
    })
}

fn word(payload: &[u8], index: usize) -> Option<u64> {
    Some(u64::from_le_bytes(payload.get(8 * index..8 * index + 8)?.try_into().ok()?))
}

fn sharing(payload: &[u8]) -> Option<Sharing> {
    let ip = VirtualAddress(word(payload, 1)?);
    Some(Sharing {
        verdict: match payload[0] {
            1 => Some(SharingVerdict::True),
            2 => Some(SharingVerdict::False),
            _ => None,
        },
        offset: payload[1],
        size: AccessSize(payload[2]),
        operation: if payload[3] == 1 { MemoryOperation::Store } else { MemoryOperation::Load },
        pid: Pid(i32::from_le_bytes(payload[4..8].try_into().ok()?)),
        ip,
    })
}

fn heap_block(payload: &[u8]) -> Option<HeapBlock> {
    Some(HeapBlock {
        start: VirtualAddress(word(payload, 0)?),
        size: ByteCount(word(payload, 1)?),
        site: VirtualAddress(word(payload, 2)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8; 20] = b"HMs1\x08\x03\x01\x00\x0c\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00";

    fn section(kind: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((payload.len() as u16).to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn detail_is_read_back_and_foreign_bytes_are_not() {
        let mut raw = *PLAIN;
        let detail = SimulatedDetail::decode(&raw).expect("our magic");
        assert_eq!(detail.access_size, AccessSize(8));
        assert_eq!(detail.cause, Some(MissCause::Conflict));
        assert_eq!(detail.set, 12);
        assert_eq!(detail.wall_time, Timestamp(0x201));
        assert_eq!((detail.sharing, detail.server.statement, detail.heap_block), (None, None, None));
        raw[0] = b'X';
        assert_eq!(SimulatedDetail::decode(&raw), None);
        assert_eq!(SimulatedDetail::decode(b"HMs1"), None);
    }

    #[test]
    fn sections_are_read_and_unknown_ones_skipped() {
        let mut raw = PLAIN.to_vec();
        raw.extend(section(99, b"whatever"));
        raw.extend(section(STATEMENT, &7u64.to_le_bytes()));
        raw.extend(section(STATE, b"\x05\0\0\0\x03\0\0\0tag"));
        let mut other = vec![2, 60, 4, 1];
        other.extend(4711u32.to_le_bytes());
        other.extend(0x401000u64.to_le_bytes());
        raw.extend(section(SHARING, &other));
        let detail = SimulatedDetail::decode(&raw).expect("ours");
        assert_eq!((detail.server.statement, detail.server.statement_over), (Some(StatementId(7)), false));
        let sharing = detail.sharing.expect("a section of it");
        assert_eq!(sharing.verdict, Some(SharingVerdict::False));
        assert_eq!((sharing.offset, sharing.size), (60, AccessSize(4)));
        assert_eq!((sharing.pid, sharing.ip), (Pid(4711), VirtualAddress(0x401000)));
        assert_eq!(sharing.operation, MemoryOperation::Store);
        let states: Vec<_> = SimulatedDetail::states(&raw).collect();
        assert_eq!(states, [(StateId(5), &b"tag"[..])]);
    }

    #[test]
    fn a_pattern_comes_with_its_stride() {
        let mut raw = PLAIN.to_vec();
        assert_eq!(
            SimulatedDetail::decode(&raw).map(|detail| (detail.pattern, detail.stride)),
            Some((None, 0))
        );
        raw[7] = 3;
        raw.extend(section(STRIDE, &(-4096i64).to_le_bytes()));
        let detail = SimulatedDetail::decode(&raw).expect("ours");
        assert_eq!((detail.pattern, detail.stride), (Some(MissPattern::Stride), -4096));
    }

    #[test]
    fn a_statement_that_is_over_says_so() {
        let mut raw = PLAIN.to_vec();
        raw.extend(section(STATEMENT, &[7u64.to_le_bytes(), 1u64.to_le_bytes()].concat()));
        let detail = SimulatedDetail::decode(&raw).expect("ours");
        assert_eq!((detail.server.statement, detail.server.statement_over), (Some(StatementId(7)), true));
    }

    #[test]
    fn a_section_cut_anywhere_ends_the_list_and_harms_nobody() {
        let mut raw = PLAIN.to_vec();
        raw.extend(section(STATE, b"\x05\0\0\0\xff\xff\xff\xfftag"));
        raw.extend(section(SHARING, &[0; 16]));
        for length in 0..raw.len() {
            SimulatedDetail::decode(&raw[..length]);
            assert_eq!(
                SimulatedDetail::states(&raw[..length]).count(),
                0,
                "its length is beyond the payload"
            );
        }
    }
}
