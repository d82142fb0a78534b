//! The kernel's ring buffers of records.
//!
//! The arithmetic of a ring ([`unread`], [`for_each_record`]) is separate from the shared memory ([`Ring`]),
//! so that wrap-around and broken contents are tested with rings made of plain bytes.
//!
//! ```text
//!  metadata page            data area, a power of two
//! +-----------------+      +-----------------------------+
//! | data_head  --------------------------> ^             |
//! | data_tail  -----------> ^  unread      |             |
//! |                 |      +-----------------------------+
//! +-----------------+        tail              head
//! ```
//!
//! Head and tail only ever grow; their position in the area is the remainder by its size. The kernel writes the
//! head after the bytes (release), the reader reads it before them (acquire); the reader writes the tail after it
//! has finished with the bytes (release), and the kernel does not write beyond it.

mod mapping;

pub use mapping::{Ring, RingWatch};

/// Invalid contents of a ring: the reader cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// A record is shorter than its header or longer than what was written.
    #[error("a ring buffer holds a record of {size} bytes where {available} were written")]
    BrokenRecord {
        /// The length that the record claims.
        size: usize,
        /// Bytes between it and the head.
        available: usize,
    },
    /// The distance of head and tail exceeds the ring's size.
    #[error("a ring buffer of {capacity} bytes claims {claimed} unread bytes")]
    Overrun {
        /// Size of the data area.
        capacity: usize,
        /// Distance from tail to head.
        claimed: u64,
    },
}

/// The unread part of a ring, in one or two pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unread {
    /// Position and length of the older piece.
    pub first: (usize, usize),
    /// Length of the newer piece, which starts at position 0; zero without wrap-around.
    pub second: usize,
}

/// Positions of the bytes from `tail` to `head` in a ring of `capacity` bytes (a power of two).
///
/// # Errors
///
/// [`RingError::Overrun`] if more than `capacity` bytes lie between them.
pub fn unread(tail: u64, head: u64, capacity: usize) -> Result<Unread, RingError> {
    debug_assert!(capacity.is_power_of_two());
    let length = head.wrapping_sub(tail);
    if length > capacity as u64 {
        return Err(RingError::Overrun { capacity, claimed: length });
    }
    let length = length as usize;
    let start = tail as usize & (capacity - 1);
    let first = length.min(capacity - start);
    Ok(Unread { first: (start, first), second: length - first })
}

/// Bytes of `struct perf_event_header`.
const HEADER: usize = 8;

/// Passes every record of two consecutive pieces to `sink`, header included, and returns the bytes consumed.
///
/// A record across the wrap-around is copied to `scratch`; all others are passed in place. The kernel publishes
/// whole records only, so a partial one at the end is an error.
///
/// # Errors
///
/// The error of `sink`, or [`RingError::BrokenRecord`] if a size does not fit the bytes that are left.
pub fn for_each_record<E: From<RingError>>(
    first: &[u8],
    second: &[u8],
    scratch: &mut Vec<u8>,
    mut sink: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<usize, E> {
    let total = first.len() + second.len();
    let mut at = 0;
    while at < total {
        let available = total - at;
        let size = record_size(first, second, at);
        if size < HEADER || size > available {
            return Err(RingError::BrokenRecord { size, available }.into());
        }
        if at + size <= first.len() {
            sink(&first[at..at + size])?;
        } else if at >= first.len() {
            sink(&second[at - first.len()..at - first.len() + size])?;
        } else {
            scratch.clear();
            scratch.extend_from_slice(&first[at..]);
            scratch.extend_from_slice(&second[..at + size - first.len()]);
            sink(scratch)?;
        }
        at += size;
    }
    Ok(at)
}

/// The 16-bit length at byte 6 of the header at `at`; 0 if the header is incomplete.
fn record_size(first: &[u8], second: &[u8], at: usize) -> usize {
    let byte = |index: usize| -> Option<u8> {
        first.get(index).or_else(|| second.get(index.wrapping_sub(first.len()))).copied()
    };
    match (byte(at + 6), byte(at + 7)) {
        (Some(low), Some(high)) => u16::from_le_bytes([low, high]) as usize,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of plain bytes with the kernel's way of writing.
    struct MemoryRing {
        bytes: Vec<u8>,
        head: u64,
        tail: u64,
    }

    impl MemoryRing {
        fn new(capacity: usize) -> Self {
            MemoryRing { bytes: vec![0; capacity], head: 0, tail: 0 }
        }

        fn write(&mut self, record: &[u8]) -> bool {
            if (self.head - self.tail) as usize + record.len() > self.bytes.len() {
                return false;
            }
            for byte in record {
                let at = self.head as usize & (self.bytes.len() - 1);
                self.bytes[at] = *byte;
                self.head += 1;
            }
            true
        }

        fn drain(&mut self) -> Result<Vec<Vec<u8>>, RingError> {
            let pieces = unread(self.tail, self.head, self.bytes.len())?;
            let (start, length) = pieces.first;
            let mut records = Vec::new();
            let consumed = for_each_record(
                &self.bytes[start..start + length],
                &self.bytes[..pieces.second],
                &mut Vec::new(),
                |record| {
                    records.push(record.to_vec());
                    Ok::<(), RingError>(())
                },
            )?;
            self.tail += consumed as u64;
            Ok(records)
        }
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend_from_slice(&0u16.to_le_bytes());
        bytes.extend_from_slice(&((HEADER + body.len()) as u16).to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_hundred_times_around_the_ring_every_record_comes_out_as_it_went_in() {
        // 64 bytes; records of 24, 16, 8, 32 bytes wrap at every possible 8-byte boundary.
        let mut ring = MemoryRing::new(64);
        let mut sent = 0u32;
        let mut seen = 0u32;
        while sent < 400 {
            while ring.write(&record(sent, &vec![sent as u8; [16, 8, 0, 24][sent as usize % 4]])) {
                sent += 1;
            }
            for found in ring.drain().expect("whole records") {
                assert_eq!(found, record(seen, &vec![seen as u8; [16, 8, 0, 24][seen as usize % 4]]));
                seen += 1;
            }
        }
        assert_eq!(seen, sent);
        assert_eq!(ring.tail, ring.head);
    }

    #[test]
    fn the_seam_may_lie_inside_the_header() {
        let whole = record(7, &[1, 2, 3, 4, 5, 6, 7, 8]);
        for cut in 0..=whole.len() {
            let mut seen = Vec::new();
            let consumed = for_each_record(&whole[..cut], &whole[cut..], &mut Vec::new(), |bytes| {
                seen.push(bytes.to_vec());
                Ok::<(), RingError>(())
            });
            assert_eq!(consumed, Ok(16));
            assert_eq!(seen, std::slice::from_ref(&whole));
        }
    }

    #[test]
    fn positions_beyond_32_bits_and_a_full_ring_are_in_order() {
        let tail = (1u64 << 40) + 56;
        assert_eq!(unread(tail, tail + 64, 64), Ok(Unread { first: (56, 8), second: 56 }));
        assert_eq!(unread(tail, tail, 64), Ok(Unread { first: (56, 0), second: 0 }));
        assert_eq!(unread(tail, tail + 65, 64), Err(RingError::Overrun { capacity: 64, claimed: 65 }));
    }

    #[test]
    fn broken_lengths_are_refused_not_followed() {
        let mut scratch = Vec::new();
        let ignore = |_: &[u8]| Ok::<(), RingError>(());
        let mut zero = record(1, &[]);
        zero[6] = 0;
        let broken = for_each_record(&zero, &[], &mut scratch, ignore);
        assert_eq!(broken, Err(RingError::BrokenRecord { size: 0, available: 8 }));
        let mut long = record(1, &[0; 8]);
        long[6] = 255;
        let broken = for_each_record(&long, &[], &mut scratch, ignore);
        assert_eq!(broken, Err(RingError::BrokenRecord { size: 255, available: 16 }));
        let broken = for_each_record(&long[..5], &[], &mut scratch, ignore);
        assert_eq!(broken, Err(RingError::BrokenRecord { size: 0, available: 5 }));
    }
}
