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
/// A heap that could not be walked is walked again after this time, up to this size.
const RETRY: Duration = Duration::from_millis(10);
const LARGEST_RETRIED: u64 = 16 << 20;
/// Chunks that are followed from one that was known.
const STEPS: usize = 64;
/// Bytes of a block that are read.
const LOOKED_AT: usize = 128;

/// The chunks of heaps at the last check.
#[derive(Debug, Default)]
pub(super) struct Heaps {
    /// The beginnings of chunks, by the first address of the heap. Empty: not a heap.
    walked: HashMap<u64, Vec<u64>>,
    /// By the first address of a mapping: the chunks that were mapped there on their own.
    mapped: HashMap<u64, Vec<Range<u64>>>,
    /// When a walk met an implausible size.
    lost: HashMap<u64, Instant>,
    since: Option<Instant>,
    /// The cost of walks since then.
    cost: Duration,
}

/// Follows the sizes of chunks from one place of a heap; returns the starts of chunks, and the end of the
/// last one. `None`: the first size is implausible. A thread may split a chunk while it is read: if a long
/// walk ends in an implausible size, the chunks before it are valid.
fn walk(bytes: &[u8], from: usize) -> Option<Vec<usize>> {
    /// Where a program's heap continues elsewhere, glibc leaves two chunks of this size, which hold nothing.
    const FENCE: u64 = 16;
    /// Other bytes do not form so long a chain by chance.
    const CONVINCING: usize = 32;
    let mut starts = Vec::new();
    let mut at = from;
    while at < bytes.len() {
        // The last chunk may end with the heap, and the walk with it.
        let size = u64_at(bytes, at + 8).map_or(0, |size| size & !7);
        if size < FENCE || !size.is_multiple_of(HEADER) {
            break;
        }
        starts.push(at);
        at = at.checked_add(usize::try_from(size).ok()?)?;
    }
    let whole = at == bytes.len() && starts.len() > 1;
    (whole || starts.len() >= CONVINCING).then(|| {
        starts.push(at.min(bytes.len()));
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
            self.mapped.clear();
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
        let Heaps { walked, cost, lost, .. } = self;
        // The failed walk met a concurrent change: the next one may succeed.
        let again = lost.get(&heap.start).is_some_and(|when: &Instant| when.elapsed() >= RETRY);
        if again && heap.end - heap.start <= LARGEST_RETRIED {
            walked.remove(&heap.start);
        }
        let chunks = walked.entry(heap.start).or_insert_with(|| {
            let begun = Instant::now();
            lost.remove(&heap.start);
            let length = (heap.end - heap.start).min(LARGEST) as usize;
            let mut bytes = vec![0; length];
            let got = memory.read_part(VirtualAddress(heap.start), &mut bytes);
            bytes.truncate(got);
            let starts = first_chunks(&bytes, heap.start).step_by(HEADER as usize);
            let chunks = starts.filter_map(|from| walk(&bytes, from)).next();
            *cost += begun.elapsed();
            if chunks.is_none() {
                lost.insert(heap.start, Instant::now());
            }
            chunks.map_or(Vec::new(), |starts| starts.iter().map(|at| heap.start + *at as u64).collect())
        });
        let after = chunks.partition_point(|start| *start <= address.0);
        let mut at = *chunks.get(after.checked_sub(1)?)?;
        // The chunk may have been split or merged since the walk: its current sizes are followed from its old
        // start.
        for _ in 0..STEPS {
            let size = memory.u64(VirtualAddress(at + 8)).ok()? & !7;
            let end = at.checked_add(size).filter(|end| size >= HEADER && *end <= heap.end)?;
            if address.0 < end {
                return Some(at..end);
            }
            at = end;
        }
        None
    }

    /// The chunk with a mapping of its own that an address lies in.
    fn mapped_chunk(
        &mut self,
        memory: &ProcessMemory,
        mapping: &Mapping,
        address: VirtualAddress,
    ) -> Option<Range<u64>> {
        let Heaps { mapped, cost, .. } = self;
        let chunks = mapped.entry(mapping.start.0).or_insert_with(|| {
            let begun = Instant::now();
            let chunks = mapped_chunks(memory, mapping);
            *cost += begun.elapsed();
            chunks
        });
        let after = chunks.partition_point(|chunk| chunk.start <= address.0);
        chunks.get(after.checked_sub(1)?).filter(|chunk| chunk.contains(&address.0)).cloned()
    }

    /// The object at an address of an allocated mapping.
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
            .or_else(|| self.mapped_chunk(&server.memory, mapping, address))?;
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
    // A chunk holds the requested bytes and a word, in steps of 16; one step more where the rest was
    // too small for a chunk.
    let fits = |asked: u64| {
        let needed = if asked < length { (asked + 8).next_multiple_of(16).max(32) } else { 0 };
        needed == length || needed + 16 == length
    };
    if let Some(name) = word(0).and_then(&mut class_of) {
        return Some(("object", name));
    }
    // An InnoDB memory heap: its length, its used bytes, and the offset of its first object.
    if let (Some(size), Some(free), Some(first)) = (word(40), word(64), word(72)) {
        if fits(size) && (1..256).contains(&first) && first <= free && free <= size {
            return Some(("InnoDB memory", "mem_heap".into()));
        }
    }
    // A block of the server's own allocator: owner, size with two flags, key.
    let size = word(8).map(|size| size & !3)?;
    if !fits(size.checked_add(OWN as u64)?) {
        return None;
    }
    if let Some(name) = word(OWN).and_then(&mut class_of) {
        return Some(("object", name));
    }
    // A block of a memory root: the next one, the free bytes, and its size, which is the requested size.
    let (left, whole) = (word(OWN + 8)?, word(OWN + 16)?);
    Some(match left <= whole && whole == size {
        true => ("memory root", "of a statement, a prepared statement or a table".into()),
        false => ("server memory", "my_malloc".into()),
    })
}

/// Chunks that were mapped separately; in the kernel's list adjacent ones form one mapping: all chunks of one
/// such mapping.
fn mapped_chunks(memory: &ProcessMemory, mapping: &Mapping) -> Vec<Range<u64>> {
    const MAPPED: u64 = 2;
    const PAGE: u64 = 4096;
    /// Pages that are read with one call, and all together: a thousand calls for a mapping of 4 GB.
    const AT_ONCE: u64 = 1024;
    const MOST: usize = 1 << 20;
    let mut chunks = Vec::new();
    let mut at = mapping.start.0;
    let mut read = 0;
    while at < mapping.end.0 && read < MOST {
        let pages: Vec<VirtualAddress> =
            (at..mapping.end.0).step_by(PAGE as usize).take(AT_ONCE as usize).map(VirtualAddress).collect();
        read += pages.len();
        let (heads, fine) = memory.read_pieces(&pages, HEADER as usize);
        let mut next = at;
        for ((page, head), fine) in pages.iter().zip(heads.chunks_exact(HEADER as usize)).zip(fine) {
            if page.0 < next {
                continue;
            }
            next = page.0 + PAGE;
            let (Some(before), Some(size)) = (u64_at(head, 0), u64_at(head, 8)) else { continue };
            let length = size & !7;
            let is_chunk = before == 0 && size & 7 == MAPPED && length.is_multiple_of(PAGE) && length > 0;
            if fine && is_chunk && length <= mapping.end.0 - page.0 {
                chunks.push(page.0..page.0 + length);
                next = page.0 + length;
            }
        }
        at = next;
    }
    chunks
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
        let fenced = heap(0, &[0x40, 16, 16, 0x60]);
        assert_eq!(walk(&fenced, 0), Some(vec![0, 0x40, 0x50, 0x60, 0xc0]), "a heap in two pieces");
        let mut torn = heap(0, &[0x20; 40]);
        torn[39 * 0x20 + 8] = 7;
        assert_eq!(
            walk(&torn, 0).map(|starts| starts.len()),
            Some(40),
            "39 chunks, and where the last one ends"
        );
    }

    #[test]
    fn chunks_with_a_mapping_of_their_own_follow_one_another() {
        let memory =
            ProcessMemory::open(hardmeter_samples::model::Pid(std::process::id() as i32)).expect("we run");
        // Nine pages: nothing, a chunk of two pages, one of one page, nothing, one that would be larger than the rest.
        let length = 9 * 4096usize;
        let pages = std::alloc::Layout::from_size_align(length, 4096).expect("nine pages");
        // SAFETY: the layout has a size.
        let at = unsafe { std::alloc::alloc_zeroed(pages) };
        assert!(!at.is_null());
        let start = at as u64;
        for (page, size) in [(1u64, 0x2002u64), (2, 0x1002), (3, 0x1002), (6, 0x9002)] {
            // SAFETY: within the pages.
            unsafe { at.add(page as usize * 4096 + 8).cast::<u64>().write(size) };
        }
        let line = format!("{start:x}-{:x} rw-p 00000000 00:00 0 \n", start + length as u64);
        let mappings = crate::process_memory::Mappings::parse(&line);
        let mapping = mappings.iter().next().expect("one");
        let page = |number: u64| start + number * 4096;
        assert_eq!(mapped_chunks(&memory, mapping), [page(1)..page(3), page(3)..page(4)]);
        // SAFETY: as allocated above.
        unsafe { std::alloc::dealloc(at, pages) };
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
        assert_eq!(kind(&[(8, 100 | 1), (24, 0x77)], 160), object, "16 bytes that were too few for a chunk");
        assert_eq!(kind(&[(8, 100 | 1), (24, 0x77)], 176), None, "another size");
        // As MariaDB 10.11 has it: two flags in the size; a root's block has its size again.
        let root = Some(("memory root", "of a statement, a prepared statement or a table".to_string()));
        assert_eq!(kind(&[(8, 0x7fe3), (32, 0x7fc8), (40, 0x7fe0)], 0x8000), root);
        assert_eq!(
            kind(&[(8, 0x7fe3), (32, 0x7fe1), (40, 0x7fe0)], 0x8000).map(|it| it.0),
            Some("server memory")
        );
        assert_eq!(kind(&[(8, 100), (24, 5)], 144), Some(("server memory", "my_malloc".into())));
        let heap = Some(("InnoDB memory", "mem_heap".to_string()));
        assert_eq!(kind(&[(40, 1000), (64, 500), (72, 96)], 1008), heap);
        assert_eq!(kind(&[(40, 1000), (64, 1001), (72, 96)], 1008), None, "more used than there is");
        assert_eq!(kind(&[], 1008), None);
    }
}
