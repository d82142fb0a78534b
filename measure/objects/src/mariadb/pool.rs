//! The buffer pool: its frames, and the descriptor of each. It is recognised by its descriptors, which point
//! to adjacent frames:
//!
//! ```text
//!   chunk:  | descriptor 0 | descriptor 1 | ... | descriptor n-1 |  | frame 0 | frame 1 | ... | frame n-1 |
//!             | id | ... | frame ─────────────────────────────────────^
//! ```
//! Since 10.11.12 and 11.4.6 a chunk is 8 MB at a multiple of that; before, it began where its memory was
//! mapped. Neither the size of a descriptor nor the offsets of its fields are assumed: a size and an offset
//! are accepted if eight adjacent descriptors point to frames one page apart. The offset of the page's id in
//! a descriptor is found by comparison with the ids in the pages.

use super::page::{PageId, HEADER};
use crate::bytes::u64_at;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use hardmeter_samples::model::{ByteCount, VirtualAddress};

/// Number of descriptors that must agree.
const AGREEING: usize = 8;
/// Range of a descriptor's size; in all versions so far 112 to 200.
const SIZES: std::ops::RangeInclusive<usize> = 96..=512;
/// Largest offset of the frame's address in a descriptor.
const FRAME_AT_MOST: usize = 160;
/// Bytes read where a chunk may begin.
const PROBE: usize = 1024;
/// Least alignment of a chunk: the processor's pages.
const MAPPED: u64 = 4096;
/// Alignment of chunks since 10.11.12.
const EXTENT: u64 = 8 << 20;
/// A smaller mapping has no chunk.
const LEAST: u64 = 1 << 20;
/// Limit of examined places in total: those of 16 GB of memory.
const MOST_PROBES: u64 = (16 << 30) / MAPPED;
/// Number of frames that are compared to find the offset of the id.
const MOST_COMPARED: usize = 4096;

/// Adjacent frames, with their descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The first descriptor.
    pub descriptors: VirtualAddress,
    /// The first frame.
    pub frames: VirtualAddress,
    /// The number of frames.
    pub count: u64,
}

/// The layout of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    size: u64,
    frame_at: u64,
}

/// All chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// Bytes of a page.
    pub page: u64,
    /// In the order of their addresses.
    pub chunks: Vec<Chunk>,
    shape: Shape,
    /// The offset of the page's id in a descriptor.
    id_at: u64,
}

/// The meaning of an address in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// In a frame: the frame, and its descriptor.
    Frame(VirtualAddress, VirtualAddress),
    /// In a descriptor, of this frame.
    Descriptor(VirtualAddress, VirtualAddress),
}

fn plus(address: VirtualAddress, bytes: u64) -> VirtualAddress {
    VirtualAddress(address.0.wrapping_add(bytes))
}

/// The layout of the first chunk in bytes read at an address where one may begin.
fn shape_in(bytes: &[u8], at: VirtualAddress, end: VirtualAddress, page: u64) -> Option<Shape> {
    let word = |offset: usize| u64_at(bytes, offset);
    for frame_at in (0..=FRAME_AT_MOST).step_by(8) {
        let Some(frame) = word(frame_at) else { break };
        // Frames follow the descriptors, which take a hundredth of their space.
        if !frame.is_multiple_of(page)
            || frame <= at.0
            || frame >= end.0
            || frame - at.0 > (end.0 - at.0) / 8 + page
        {
            continue;
        }
        let follows = |size: usize| {
            (1..)
                .map_while(|index| Some((index, word(frame_at + index as usize * size)?)))
                .all(|(index, next)| next == frame.wrapping_add(index * page))
        };
        let known = SIZES.step_by(8).find(|size| frame_at + size < bytes.len() && follows(*size));
        if let Some(size) = known {
            return Some(Shape { size: size as u64, frame_at: frame_at as u64 });
        }
    }
    None
}

impl Shape {
    /// The chunk that begins at an address, if any.
    fn chunk(&self, memory: &ProcessMemory, at: VirtualAddress, page: u64) -> Option<Chunk> {
        let first = memory.u64(plus(at, self.frame_at)).ok().filter(|first| *first > at.0)?;
        let room = (first - at.0) / self.size;
        let mut count = 0;
        // The array of descriptors is read in pieces.
        const PIECE: u64 = 4096;
        while count < room {
            let take = PIECE.min(room - count);
            let mut bytes = vec![0; (take * self.size) as usize];
            let got = memory.read_part(plus(at, count * self.size), &mut bytes);
            let fitting = bytes[..got]
                .chunks_exact(self.size as usize)
                .zip(count..)
                .take_while(|(one, index)| u64_at(one, self.frame_at as usize) == Some(first + index * page))
                .count() as u64;
            count += fitting;
            if fitting < take {
                break;
            }
        }
        (count >= AGREEING as u64).then_some(Chunk { descriptors: at, frames: VirtualAddress(first), count })
    }
}

impl Pool {
    /// Finds the pool of a server. `None`: it has none yet, or one that is not recognised.
    pub fn find(memory: &ProcessMemory, mappings: &Mappings, page: u64) -> Option<Pool> {
        let mut chunks = Vec::new();
        let mut shape = None;
        let mut probes = MOST_PROBES;
        let candidates = mappings.iter().filter(|mapping| may_hold_chunks(mapping));
        for mapping in candidates {
            let mut at = mapping.start;
            while at < mapping.end && probes > 0 {
                match next_chunk(memory, mapping, at, page, &mut shape, &mut probes) {
                    Some(chunk) => {
                        chunks.push(chunk);
                        at = plus(chunk.frames, chunk.count * page);
                    }
                    None => break,
                }
            }
        }
        let shape = shape?;
        let mut pool = Pool { page, chunks, shape, id_at: 0 };
        pool.id_at = pool.find_id(memory)?;
        Some(pool)
    }

    /// The offset of the page's id in descriptors: where nearly all agree with the pages.
    fn find_id(&self, memory: &ProcessMemory) -> Option<u64> {
        /// Required agreement of the compared pages, in percent: some are being read or freed.
        const AGREEMENT: usize = 80;
        const LEAST: usize = 4;
        let mut votes = vec![0; (self.shape.size / 8) as usize];
        let mut compared = 0;
        for chunk in &self.chunks {
            if compared >= MOST_COMPARED {
                break;
            }
            let frames: Vec<VirtualAddress> =
                (0..chunk.count).map(|index| plus(chunk.frames, index * self.page)).collect();
            let (heads, _) = memory.read_pieces(&frames, HEADER);
            let mut descriptors = vec![0; (chunk.count * self.shape.size) as usize];
            memory.read_part(chunk.descriptors, &mut descriptors);
            for (head, descriptor) in
                heads.chunks_exact(HEADER).zip(descriptors.chunks_exact(self.shape.size as usize))
            {
                // A page of zeroes would agree with many values.
                let Some(id) = PageId::of(head).filter(|id| id.descriptor() != 0) else { continue };
                compared += 1;
                for (vote, word) in votes.iter_mut().zip(descriptor.as_chunks::<8>().0) {
                    *vote += usize::from(u64::from_le_bytes(*word) == id.descriptor());
                }
            }
        }
        let (at, most) = votes.iter().enumerate().max_by_key(|(_, votes)| **votes)?;
        (*most >= LEAST && most * 100 >= compared * AGREEMENT).then_some(at as u64 * 8)
    }

    /// The meaning of an address in the pool.
    pub fn slot(&self, address: VirtualAddress) -> Option<Slot> {
        let after = self.chunks.partition_point(|chunk| chunk.descriptors <= address);
        let chunk = self.chunks[..after].last()?;
        let descriptor = |index: u64| plus(chunk.descriptors, index * self.shape.size);
        let frame = |index: u64| plus(chunk.frames, index * self.page);
        if address >= chunk.frames {
            let index = (address.0 - chunk.frames.0) / self.page;
            return (index < chunk.count).then(|| Slot::Frame(frame(index), descriptor(index)));
        }
        let index = (address.0 - chunk.descriptors.0) / self.shape.size;
        (index < chunk.count).then(|| Slot::Descriptor(frame(index), descriptor(index)))
    }

    /// Bytes of a descriptor.
    pub fn descriptor_size(&self) -> u64 {
        self.shape.size
    }

    /// The id of a page in its descriptor.
    pub fn id_in(&self, memory: &ProcessMemory, descriptor: VirtualAddress) -> Option<PageId> {
        let id = memory.u64(plus(descriptor, self.id_at)).ok()?;
        Some(PageId { space: (id >> 32) as u32, number: id as u32 })
    }

    /// The memory from the first chunk's first page to the end of the last chunk.
    pub fn region(&self) -> Option<(VirtualAddress, ByteCount)> {
        let (first, last) = (self.chunks.first()?, self.chunks.last()?);
        let start = first.frames.0 - (first.frames.0 - first.descriptors.0) / self.page * self.page;
        let end = last.frames.0 + last.count * self.page;
        Some((VirtualAddress(start), ByteCount(end - start)))
    }

    /// All frames.
    pub fn frames(&self) -> impl Iterator<Item = VirtualAddress> + '_ {
        self.chunks
            .iter()
            .flat_map(|chunk| (0..chunk.count).map(|index| plus(chunk.frames, index * self.page)))
    }
}

/// True for memory that may contain chunks: allocated, or huge pages.
fn may_hold_chunks(mapping: &Mapping) -> bool {
    let anonymous = mapping.inode == 0 && mapping.name.is_empty() || mapping.name.contains("hugepage");
    anonymous && mapping.readable && mapping.writable && !mapping.executable && mapping.length().0 >= LEAST
}

/// The next chunk of a mapping from an address on.
fn next_chunk(
    memory: &ProcessMemory,
    mapping: &Mapping,
    from: VirtualAddress,
    page: u64,
    shape: &mut Option<Shape>,
    probes: &mut u64,
) -> Option<Chunk> {
    let mut probe = |at: VirtualAddress, bytes: &[u8]| {
        let found = shape_in(bytes, at, mapping.end, page)?;
        if shape.is_some_and(|known| known != found) {
            return None;
        }
        let chunk = found.chunk(memory, at, page)?;
        *shape = Some(found);
        Some(chunk)
    };
    // First the place where a present-day chunk begins.
    let mut bytes = [0; PROBE];
    let aligned = VirtualAddress(from.0.next_multiple_of(EXTENT));
    if aligned < mapping.end && memory.read(aligned, &mut bytes).is_ok() {
        if let Some(chunk) = probe(aligned, &bytes) {
            return Some(chunk);
        }
    }
    const AT_ONCE: u64 = 1024;
    let mut at = from.0.next_multiple_of(MAPPED);
    while at + PROBE as u64 <= mapping.end.0 && *probes > 0 {
        let places: Vec<VirtualAddress> = (0..AT_ONCE.min(*probes))
            .map(|index| VirtualAddress(at + index * MAPPED))
            .take_while(|place| place.0 + PROBE as u64 <= mapping.end.0)
            .collect();
        *probes -= places.len() as u64;
        let (bytes, fine) = memory.read_pieces(&places, PROBE);
        let pieces = places.iter().zip(bytes.chunks_exact(PROBE)).zip(fine);
        for ((place, bytes), _) in pieces.filter(|(_, fine)| *fine) {
            if let Some(chunk) = probe(*place, bytes) {
                return Some(chunk);
            }
        }
        at += places.len() as u64 * MAPPED;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::page::tests::index_page;
    use super::*;
    use hardmeter_samples::model::Pid;

    const PAGE: usize = 16384;

    /// A pool in this process's memory: descriptors of `size` bytes with the id at `id_at` and the frame at
    /// `frame_at`.
    pub struct Made {
        pub start: VirtualAddress,
        pub length: usize,
    }

    pub fn make(count: usize, size: usize, id_at: usize, frame_at: usize, into: &mut [u8]) -> Made {
        let base = into.as_ptr() as usize;
        let start = base.next_multiple_of(4096);
        let first = (start + count * size).next_multiple_of(PAGE);
        for index in 0..count {
            let frame = first + index * PAGE;
            let id = PageId { space: 5, number: 3 + index as u32 };
            let at = start - base + index * size;
            into[at + id_at..at + id_at + 8].copy_from_slice(&id.descriptor().to_le_bytes());
            into[at + frame_at..at + frame_at + 8].copy_from_slice(&(frame as u64).to_le_bytes());
            let page = index_page(PAGE, id, 23, 0);
            into[frame - base..frame - base + PAGE].copy_from_slice(&page);
        }
        Made { start: VirtualAddress(start as u64), length: first + count * PAGE - start }
    }

    fn mapped(made: &Made) -> Mappings {
        let (start, end) = (made.start.0, made.start.0 + made.length as u64);
        Mappings::parse(&format!("{start:x}-{end:x} rw-p 00000000 00:00 0 \n"))
    }

    fn own() -> ProcessMemory {
        ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run")
    }

    #[test]
    fn a_pool_is_recognised_whatever_its_descriptors_look_like() {
        for (size, id_at, frame_at) in [(160, 0, 48), (112, 8, 24), (200, 64, 128)] {
            let mut bytes = vec![0; 140 * PAGE];
            let made = make(120, size, id_at, frame_at, &mut bytes);
            let pool = Pool::find(&own(), &mapped(&made), PAGE as u64).expect("a pool");
            assert_eq!((pool.chunks.len(), pool.chunks[0].count), (1, 120), "{size}");
            assert_eq!((pool.shape.size, pool.id_at), (size as u64, id_at as u64));
            let frame = pool.chunks[0].frames;
            let descriptor = plus(made.start, 2 * size as u64);
            let third = plus(frame, 2 * PAGE as u64);
            assert_eq!(pool.slot(plus(third, 100)), Some(Slot::Frame(third, descriptor)));
            assert_eq!(pool.slot(plus(descriptor, 9)), Some(Slot::Descriptor(third, descriptor)));
            assert_eq!(pool.id_in(&own(), descriptor), Some(PageId { space: 5, number: 5 }));
            assert_eq!(pool.slot(plus(frame, 120 * PAGE as u64)), None, "behind it");
            assert_eq!(pool.slot(VirtualAddress(made.start.0 - 1)), None, "before it");
            let (start, length) = pool.region().expect("chunks");
            assert_eq!((start.0 % PAGE as u64, start.0 + length.0), (0, frame.0 + 120 * PAGE as u64));
        }
    }

    #[test]
    fn memory_without_a_pool_and_one_whose_ids_do_not_agree_are_not_taken() {
        let mut bytes = vec![0; 140 * PAGE];
        let made = Made {
            start: VirtualAddress((bytes.as_ptr() as u64).next_multiple_of(4096)),
            length: 130 * PAGE,
        };
        assert_eq!(Pool::find(&own(), &mapped(&made), PAGE as u64), None);
        let made = make(120, 160, 0, 48, &mut bytes);
        let base = bytes.as_ptr() as u64;
        for index in 0..120 {
            bytes[(made.start.0 - base) as usize + index * 160] ^= 0x80; // another page than the frame's
        }
        assert_eq!(Pool::find(&own(), &mapped(&made), PAGE as u64), None);
    }
}
