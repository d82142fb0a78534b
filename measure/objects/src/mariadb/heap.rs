//! Blocks of malloc in the memory of a server: their extents, and their classes by their first words.
//!
//! ```text
//!   heap of a thread (64 MB, aligned):  | heap | arena | chunk | chunk | ... | top |
//!   heap of the program (brk):          | chunk | chunk | ... | top |
//!   chunk:                              | size of the one before | size, flags | bytes of the program ... |
//! ```
//! glibc keeps no list of blocks in use, but the size of each leads to the next: a walk that ends exactly at
//! the heap's end has followed chunks. The object in a block is recognised by its contents: a pointer to a
//! virtual table, which names its class (`names`); the header of the server's own allocator; the header of an
//! InnoDB memory heap.

use super::attach::Server;
use super::names::ClassNames;
use crate::bytes::u64_at;
use crate::found::Found;
use crate::process_memory::{Mapping, ProcessMemory};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Alignment and largest size of the heaps of threads.
const HEAP: u64 = 64 << 20;
/// Bytes of a chunk's header.
const HEADER: u64 = 16;
/// Limit of the walked part of a heap.
const LARGEST: u64 = 512 << 20;
/// Heaps are walked again at the earliest after this time, and after twenty times the duration of a walk.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_PER_COST: u32 = 20;
/// Bytes of a block that are examined.
const LOOKED_AT: usize = 128;

/// The chunks of heaps at the last check.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// The beginnings of chunks, by the first address of the heap. Empty: not a heap.
    walked: HashMap<u64, Vec<u64>>,
    since: Option<Instant>,
    /// The cost of walks since then.
    cost: Duration,
}

/// Follows the sizes from one place of a heap; returns the beginnings of chunks, and the end. `None`: the
/// sizes are not consistent.
fn walk(bytes: &[u8], from: usize) -> Option<Vec<usize>> {
    const LEAST: u64 = 32;
    let mut starts = Vec::new();
    let mut at = from;
    while at < bytes.len() {
        starts.push(at);
        // The last chunk may end with the heap, and then the walk ends there.
        let size = u64_at(bytes, at + 8)? & !7;
        if size < LEAST || !size.is_multiple_of(HEADER) {
            return None;
        }
        at = at.checked_add(usize::try_from(size).ok()?)?;
    }
    (at == bytes.len() && starts.len() > 1).then(|| {
        starts.push(at);
        starts
    })
}

/// The range in which the first chunk of a heap may begin.
fn first_chunks(bytes: &[u8], start: u64) -> Range<usize> {
    /// Limits of the size of an arena with the data before it.
    const ARENA: Range<usize> = 0x800..0xa00;
    /// Limits of the size of the data before the chunks of another heap, or of the program's.
    const HEAD: Range<usize> = 0..0x80;
    match u64_at(bytes, 0) {
        Some(arena) if start.is_multiple_of(HEAP) && (start..start + 0x80).contains(&arena) => ARENA,
        _ => HEAD,
    }
}

impl Heaps {
    /// Earlier walks may be outdated; they are repeated after a while.
    pub fn begin_look(&mut self) {
        if self.since.is_none_or(|since| since.elapsed() >= PAUSE.max(self.cost * PAUSE_PER_COST)) {
            self.since = Some(Instant::now());
            self.cost = Duration::ZERO;
            self.walked.clear();
        }
    }

    /// The heap that contains an address of a mapping.
    fn heap_of(mapping: &Mapping, address: VirtualAddress) -> Range<u64> {
        let aligned = address.0 / HEAP * HEAP;
        let start = aligned.max(mapping.start.0);
        let end = mapping.end.0;
        // A heap of a thread ends before the next one may begin; the program's has no such limit.
        if start == aligned {
            start..end.min(aligned + HEAP)
        } else {
            start..end
        }
    }

    /// The chunk that contains an address.
    fn chunk(
        &mut self,
        memory: &ProcessMemory,
        mapping: &Mapping,
        address: VirtualAddress,
    ) -> Option<Range<u64>> {
        let heap = Heaps::heap_of(mapping, address);
        let Heaps { walked, cost, .. } = self;
        let chunks = walked.entry(heap.start).or_insert_with(|| {
            let begun = Instant::now();
            let length = (heap.end - heap.start).min(LARGEST) as usize;
            let mut bytes = vec![0; length];
            let got = memory.read_part(VirtualAddress(heap.start), &mut bytes);
            bytes.truncate(got);
            let starts = first_chunks(&bytes, heap.start).step_by(HEADER as usize);
            let chunks = starts.filter_map(|from| walk(&bytes, from)).next();
            *cost += begun.elapsed();
            chunks.map_or(Vec::new(), |starts| starts.iter().map(|at| heap.start + *at as u64).collect())
        });
        let after = chunks.partition_point(|start| *start <= address.0);
        let (start, end) = (*chunks.get(after.checked_sub(1)?)?, *chunks.get(after)?);
        // It may have been split or merged since the walk.
        let size = memory.u64(VirtualAddress(start + 8)).ok()? & !7;
        (start + size > address.0).then_some(start..end.min(start + size))
    }

    /// What is at an address of an allocated mapping.
    pub fn at(
        &mut self,
        server: &Server,
        names: &mut ClassNames,
        sessions: &[(u64, u64)],
        mapping: &Mapping,
        address: VirtualAddress,
    ) -> Option<Found> {
        let chunk = self
            .chunk(&server.memory, mapping, address)
            .or_else(|| mapped_chunk(&server.memory, mapping, address))?;
        let (start, length) = (VirtualAddress(chunk.start + HEADER), chunk.end - chunk.start);
        let session = sessions.iter().find(|(at, _)| chunk.contains(at));
        if let Some((_, connection)) = session {
            let found = Found::new("session", start, length).named("THD");
            return Some(found.instance(format!("connection {connection}")));
        }
        let mut bytes = [0; LOOKED_AT];
        let wanted = (length.saturating_sub(8) as usize).min(LOOKED_AT);
        let got = server.memory.read_part(start, &mut bytes[..wanted]);
        let found = |class: &'static str| Found::new(class, start, length);
        let class = |word| names.class_of(&server.memory, &server.program, VirtualAddress(word));
        Some(match kind_of(&bytes[..got], length, class) {
            Some((class, name)) => found(class).named(name),
            None => found("private memory").named("heap block").instance(format!("{length} bytes")),
        })
    }
}

/// Class and name of a block, by its beginning.
fn kind_of(
    bytes: &[u8],
    length: u64,
    mut class_of: impl FnMut(u64) -> Option<String>,
) -> Option<(&'static str, String)> {
    /// Bytes of the header of the server's own allocator.
    const OWN: usize = 24;
    let word = |at: usize| u64_at(bytes, at);
    // A chunk has the size that the request and one word need, in steps of 16.
    let fits = |asked: u64| asked < length && (asked + 8).next_multiple_of(16).max(32) == length;
    if let Some(name) = word(0).and_then(&mut class_of) {
        return Some(("object", name));
    }
    // An InnoDB memory heap: its length, its used bytes, and the offset of its first object.
    if let (Some(size), Some(free), Some(first)) = (word(40), word(64), word(72)) {
        if fits(size) && (1..256).contains(&first) && first <= free && free <= size {
            return Some(("InnoDB memory", "mem_heap".into()));
        }
    }
    // A block of the server's own allocator: owner, size, key.
    let size = word(8).map(|size| size & !1)?;
    if !fits(size.checked_add(OWN as u64)?) {
        return None;
    }
    Some(match word(OWN).and_then(&mut class_of) {
        Some(name) => ("object", name),
        None => ("server memory", "my_malloc".into()),
    })
}

/// A chunk with a separate mapping, which others may follow without a gap.
fn mapped_chunk(memory: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Range<u64>> {
    const MAPPED: u64 = 2;
    const PAGE: u64 = 4096;
    const MOST: usize = 4096;
    let mut at = mapping.start.0;
    for _ in 0..MOST {
        if at > address.0 {
            return None;
        }
        let head = memory.bytes::<16>(VirtualAddress(at)).ok()?;
        let (before, size) = (u64_at(&head, 0)?, u64_at(&head, 8)?);
        let length = size & !7;
        let is_chunk = before == 0 && size & 7 == MAPPED && length.is_multiple_of(PAGE) && length > 0;
        if !is_chunk || length > mapping.end.0 - at {
            at += PAGE;
            continue;
        }
        if address.0 < at + length {
            return Some(at..at + length);
        }
        at += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A heap of chunks with these sizes.
    fn heap(head: usize, sizes: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; head + sizes.iter().sum::<u64>() as usize];
        let mut at = head;
        for size in sizes {
            bytes[at + 8..at + 16].copy_from_slice(&(size | 1).to_le_bytes());
            at += *size as usize;
        }
        bytes
    }

    #[test]
    fn sizes_lead_from_chunk_to_chunk_up_to_the_end() {
        let bytes = heap(0x30, &[0x290, 0x40, 0x20, 0x1000]);
        assert_eq!(walk(&bytes, 0x30), Some(vec![0x30, 0x2c0, 0x300, 0x320, 0x1320]));
        assert_eq!(walk(&bytes, 0x20), None, "not where one begins");
        assert_eq!(walk(&bytes[..0x1310], 0x30), None, "the last one ends behind the heap");
        assert_eq!(walk(&[], 0), None);
    }

    /// A block with these words at these offsets.
    fn block(words: &[(usize, u64)]) -> [u8; 128] {
        let mut bytes = [0; 128];
        words.iter().for_each(|(at, word)| bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    #[test]
    fn blocks_are_known_by_how_they_begin() {
        let class = |word: u64| (word == 0x77).then(|| "ha_innobase".to_string());
        let kind = |words: &[(usize, u64)], length| kind_of(&block(words), length, class);
        let object = Some(("object", "ha_innobase".to_string()));
        assert_eq!(kind(&[(0, 0x77)], 208), object);
        // 100 bytes after a header of 24, in a chunk of 144: 100 + 24 + 8, rounded up.
        assert_eq!(kind(&[(8, 100 | 1), (24, 0x77)], 144), object);
        assert_eq!(kind(&[(8, 100 | 1), (24, 0x77)], 160), None, "another size");
        assert_eq!(kind(&[(8, 100), (24, 5)], 144), Some(("server memory", "my_malloc".into())));
        let heap = Some(("InnoDB memory", "mem_heap".to_string()));
        assert_eq!(kind(&[(40, 1000), (64, 500), (72, 96)], 1008), heap);
        assert_eq!(kind(&[(40, 1000), (64, 1001), (72, 96)], 1008), None, "more used than there is");
        assert_eq!(kind(&[], 1008), None);
    }
}
