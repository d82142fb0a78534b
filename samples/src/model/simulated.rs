//! What only the software PMU knows about an access. It travels in `PERF_SAMPLE_RAW`, which perf skips for
//! events that are not tracepoints, so the detail stays with its sample through `perf script`, copies and merges.
//!
//! ```text
//! byte  0      4        5       6       7       8            12
//!       | magic | size   | cause | level | flags | set (u32)  | wall time, ns (u64) |   20 bytes
//! ```

use super::units::{AccessSize, Timestamp};
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
    /// Another core's write took the line away.
    Coherence,
}

/// The part of a simulated sample that has no place in a hardware sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedDetail {
    /// Bytes touched by the access.
    pub access_size: AccessSize,
    /// Why it missed; `None` when causes were not simulated or the event is no cache miss.
    pub cause: Option<MissCause>,
    /// The set of the missing cache, in the level of the event.
    pub set: u32,
    /// Wall-clock time (`CLOCK_MONOTONIC`), since the sample's own time is simulated.
    pub wall_time: Timestamp,
}

impl SimulatedDetail {
    /// The first four bytes of the raw field.
    pub const MAGIC: [u8; 4] = *b"HMs1";
    /// Bytes of the raw field.
    pub const SIZE: usize = 20;

    /// Reads the detail from a sample's raw field; `None` if the field is not ours.
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
        Some(SimulatedDetail {
            access_size: AccessSize(raw[4]),
            cause,
            set: u32::from_le_bytes(raw[8..12].try_into().ok()?),
            wall_time: Timestamp(u64::from_le_bytes(raw[12..20].try_into().ok()?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detail_is_read_back_and_foreign_bytes_are_not() {
        let mut raw = *b"HMs1\x08\x03\x01\x00\x0c\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00";
        let detail = SimulatedDetail::decode(&raw).expect("our magic");
        assert_eq!(detail.access_size, AccessSize(8));
        assert_eq!(detail.cause, Some(MissCause::Conflict));
        assert_eq!(detail.set, 12);
        assert_eq!(detail.wall_time, Timestamp(0x201));
        raw[0] = b'X';
        assert_eq!(SimulatedDetail::decode(&raw), None);
        assert_eq!(SimulatedDetail::decode(b"HMs1"), None);
    }
}
