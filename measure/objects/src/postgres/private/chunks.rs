//! The chunks of a block, each with a header that contains its length.
//!
//! ```text
//!   15        AllocSet:    size | context            | data          16 bytes of header
//!             Generation:  size | block | context    | data          24
//!   16 to 18  all:         one word                  | data           8
//!                          kind, "external", value, distance to the block
//! ```
//!
//! The value is the size; in an AllocSet it is the number of a power of two. An external chunk has its own
//! block. The chunks of Bump contexts have no headers: such a block is not divided.

use super::contexts::{Block, ContextLayout, Kind, Readable};
use crate::bytes::u64_at;
use hardmeter_samples::model::VirtualAddress;

/// Blocks are at most 8 MB, unless they contain a single chunk.
const BLOCK_READ: u64 = (8 << 20) + 4096;

/// A chunk of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// First byte of its header.
    pub(super) header: VirtualAddress,
    /// First byte for its owner.
    pub(super) data: VirtualAddress,
    /// First byte after it.
    pub(super) end: VirtualAddress,
    /// True if it is certainly free: only PostgreSQL 15 shows that.
    pub(super) is_free: bool,
}

impl Chunk {
    pub(super) fn size(&self) -> u64 {
        self.end.0 - self.data.0
    }
}

/// The content of a header: bytes of the header, bytes of data (`None`: all the rest), whether it is free.
type Header = (u64, Option<u64>, bool);

/// The chunks of a block, in order, up to the first invalid one.
pub(super) fn chunks(
    memory: &dyn Readable,
    layout: &ContextLayout,
    kind: Kind,
    context: VirtualAddress,
    block: &Block,
) -> Vec<Chunk> {
    let used = block.free.0 - block.data.0;
    if matches!(kind, Kind::Bump | Kind::Slab) || used == 0 {
        return Vec::new();
    }
    let mut bytes = vec![0; used.min(BLOCK_READ) as usize];
    let got = memory.fill(block.data, &mut bytes);
    bytes.truncate(got);
    let mut found = Vec::new();
    let mut at = 0u64;
    while at < used {
        let Some((header, size, is_free)) = header(&bytes, at as usize, layout.major, kind, context) else {
            break;
        };
        let rest = used - at;
        let size = size.unwrap_or_else(|| rest.saturating_sub(header));
        let Some(length) = size.checked_add(header).filter(|length| *length <= rest) else { break };
        let start = block.data.0 + at;
        found.push(Chunk {
            header: VirtualAddress(start),
            data: VirtualAddress(start + header),
            end: VirtualAddress(start + length),
            is_free,
        });
        at += length;
    }
    found
}

fn header(bytes: &[u8], at: usize, major: u32, kind: Kind, context: VirtualAddress) -> Option<Header> {
    if major >= 16 {
        return word(u64_at(bytes, at)?, major, kind);
    }
    let size = u64_at(bytes, at)?;
    let (length, owner) = match kind {
        Kind::Generation => (24, u64_at(bytes, at + 16)?),
        _ => (16, u64_at(bytes, at + 8)?),
    };
    if !size.is_multiple_of(8) {
        return None;
    }
    // The owner of a free chunk is the next free one, or null.
    Some((length, Some(size), owner != context.0))
}

/// The header word since PostgreSQL 16.
fn word(word: u64, major: u32, kind: Kind) -> Option<Header> {
    const VALUE: u64 = (1 << 30) - 1;
    const ALLOC_SET: u64 = 3;
    const GENERATION: u64 = 4;
    /// Number of sizes of an AllocSet: 8 bytes to 8 KB.
    const POWERS: u64 = 11;
    const HEADER: u64 = 8;
    let bits = if major >= 17 { 4 } else { 3 };
    let method = word & ((1 << bits) - 1);
    let expected = if kind == Kind::Generation { GENERATION } else { ALLOC_SET };
    // A chunk with a larger alignment has a second header inside; the outer one has the context's kind.
    if method != expected {
        return None;
    }
    if word >> bits & 1 == 1 {
        return Some((HEADER, None, false));
    }
    let value = word >> (bits + 1) & VALUE;
    match kind {
        Kind::AllocSet if value < POWERS => Some((HEADER, Some(8 << value), false)),
        Kind::Generation if value.is_multiple_of(8) => Some((HEADER, Some(value), false)),
        _ => None,
    }
}

/// The chunk that contains an address.
pub(super) fn at(chunks: &[Chunk], address: VirtualAddress) -> Option<&Chunk> {
    let after = chunks.partition_point(|chunk| chunk.header <= address);
    chunks[..after].last().filter(|chunk| address < chunk.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_words_of_each_version() {
        // 16: three bits of kind, external, 30 bits of value. AllocSet (3), power 4: 3 | 4 << 4 -> 128 bytes.
        assert_eq!(word(3 | 4 << 4 | 40 << 34, 16, Kind::AllocSet), Some((8, Some(128), false)));
        // 17: four bits of kind. The same word there: 3 | 4 << 5.
        assert_eq!(word(3 | 4 << 5 | 40 << 34, 17, Kind::AllocSet), Some((8, Some(128), false)));
        assert_eq!(word(4 | 200 << 5, 18, Kind::Generation), Some((8, Some(200), false)));
        assert_eq!(word(3 | 1 << 4, 17, Kind::AllocSet), Some((8, None, false)), "external");
        assert_eq!(word(3 | 1 << 3, 16, Kind::AllocSet), Some((8, None, false)), "external");
        // glibc's, an unused one, and a power that does not exist.
        assert_eq!(word(1, 17, Kind::AllocSet), None);
        assert_eq!(word(0, 17, Kind::AllocSet), None);
        assert_eq!(word(3 | 11 << 5, 17, Kind::AllocSet), None);
    }
}
