//! Memory that PostgreSQL allocates and frees in shared memory while it runs (a *dynamic shared area*), read
//! from outside.
//!
//! ```text
//!   pointer      [ number of the segment | 40 bits of offset ]
//!   segment 0    in the main segment, where the area was created: its header, the area's handle, handles of all segments
//!   segment 1 ...  handle even: a file, /dev/shm/PostgreSQL.HANDLE or pg_dynshmem/mmap.HANDLE
//!                  handle odd:  pages reserved in the main segment (min_dynamic_shared_memory)
//! ```
//!
//! Backends map the segments at any address, or not at all; the files are the same memory. Structures that
//! are in no header file (`dsa_area_control`, `dsa_segment_header` of dsa.c, `dsm_control_item` of dsm.c) are
//! used only at their beginnings, which are the same in 15 to 18 and tested on each server by the magic
//! numbers.

use crate::bytes::{u32_at, u64_at};
use crate::postgres::attach::Server;
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// A place in the area; 0: null.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pointer(pub u64);

impl Pointer {
    /// Bits of the offset in a 64-bit pointer.
    const OFFSET_BITS: u32 = 40;

    fn segment(self) -> u64 {
        self.0 >> Self::OFFSET_BITS
    }

    fn offset(self) -> u64 {
        self.0 & ((1 << Self::OFFSET_BITS) - 1)
    }
}

/// The beginning of each segment: magic number (4 bytes and as many unused), pages, size, two neighbours, bin, a flag.
mod header {
    /// Combined with the area's handle and the segment's number by exclusive or.
    pub const MAGIC: u32 = 0x0ce2_6608;
    pub const SIZE_AT: usize = 16;
    pub const LENGTH: usize = 56;
}

/// The data that follows it in the first segment.
mod control {
    use super::header;
    pub const HANDLE: usize = header::LENGTH;
    pub const HANDLES: usize = HANDLE + 4;
    pub const MOST_SEGMENTS: u64 = 1024;
}

/// The list of all dynamic segments of the server: a magic number, the number in use, the largest number; and
/// each segment.
mod list {
    pub const MAGIC: u32 = 0x9a50_3d32;
    pub const HEAD: usize = 16;
    pub const ITEM: usize = 40;
    /// Handle, count of users, first page, pages.
    pub const USERS: usize = 4;
    pub const FIRST_PAGE: usize = 8;
    pub const PAGES: usize = 16;
    pub const PAGE: u64 = 4096;
    /// 64, and two for each backend (at most 262143).
    pub const MOST: u32 = 64 + 2 * 262_143;
}

/// Until PG16 an area reports this size for its first segment, independent of its real size.
const SAID_SIZE: u64 = 1 << 20;

/// The place where a segment can be read.
#[derive(Debug)]
enum Segment {
    Memory(Range<VirtualAddress>),
    File(File),
}

/// An area of a running server. Segments are looked up once: create a new value for each reading.
#[derive(Debug)]
pub(crate) struct DynamicArea<'a> {
    server: &'a Server,
    first: Range<VirtualAddress>,
    handle: u32,
    segments: HashMap<u64, Segment>,
}

impl<'a> DynamicArea<'a> {
    /// The area at a place in the main segment. Otherwise returns the reason.
    pub fn open(server: &'a Server, first: Range<VirtualAddress>) -> Result<DynamicArea<'a>, String> {
        let head: [u8; control::HANDLES] = server
            .memory
            .bytes(first.start)
            .map_err(|error| format!("their area cannot be read: {error}"))?;
        let handle = u32_at(&head, control::HANDLE).unwrap_or(0);
        let length = first.end.0 - first.start.0;
        let said = u64_at(&head, header::SIZE_AT).unwrap_or(0);
        // Statistics of extensions may follow it (PG18).
        if u32_at(&head, 0) != Some(header::MAGIC ^ handle) || said > length && said != SAID_SIZE {
            return Err(format!("their area of {length} bytes at {} has an unexpected header", first.start));
        }
        let first = first.start..VirtualAddress(first.start.0 + said.min(length));
        Ok(DynamicArea { server, first, handle, segments: HashMap::new() })
    }

    /// Fills `into` from a place of the area.
    pub fn read(&mut self, at: Pointer, into: &mut [u8]) -> Result<(), String> {
        let server = self.server;
        let length = into.len() as u64;
        match self.segment(at.segment())? {
            Segment::Memory(range) => {
                let start = within(range, at.offset(), length)
                    .ok_or_else(|| format!("{:#x} does not lie in its segment", at.0))?;
                server.memory.read(start, into).map_err(|error| error.to_string())
            }
            Segment::File(file) => file
                .read_exact_at(into, at.offset())
                .map_err(|error| format!("segment {} cannot be read: {error}", at.segment())),
        }
    }

    /// Reads pieces of `size` bytes at many places; piece `i` is stored at `i * size`. An error if one is
    /// missing.
    pub fn read_pieces(&mut self, at: &[Pointer], size: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; at.len() * size];
        let mut in_memory = Vec::new();
        for (index, pointer) in at.iter().enumerate() {
            match self.segment(pointer.segment())? {
                Segment::Memory(range) => {
                    let start = within(range, pointer.offset(), size as u64);
                    in_memory.push((index, start.ok_or("a pointer leads out of its segment")?));
                }
                Segment::File(_) => self.read(*pointer, &mut bytes[index * size..(index + 1) * size])?,
            }
        }
        let places: Vec<VirtualAddress> = in_memory.iter().map(|(_, place)| *place).collect();
        let (pieces, fine) = self.server.memory.read_pieces(&places, size);
        if fine.contains(&false) {
            return Err("part of a segment cannot be read".into());
        }
        for ((index, _), piece) in in_memory.iter().zip(pieces.chunks_exact(size.max(1))) {
            bytes[index * size..(index + 1) * size].copy_from_slice(piece);
        }
        Ok(bytes)
    }

    fn segment(&mut self, number: u64) -> Result<&Segment, String> {
        if !self.segments.contains_key(&number) {
            let found = self.find(number)?;
            self.segments.insert(number, found);
        }
        Ok(&self.segments[&number])
    }

    fn find(&self, number: u64) -> Result<Segment, String> {
        if number == 0 {
            return Ok(Segment::Memory(self.first.clone()));
        }
        if number >= control::MOST_SEGMENTS {
            return Err(format!("there is no segment {number} in an area"));
        }
        let memory = &self.server.memory;
        let handle_at = VirtualAddress(self.first.start.0 + control::HANDLES as u64 + number * 4);
        let handle = memory.u32(handle_at).map_err(|error| error.to_string())?;
        let named = |reason: String| format!("segment {number} of their area {reason}");
        let found = find_segment(self.server, handle).map_err(named)?;
        let mut head = [0; 4];
        match &found {
            Segment::Memory(range) => {
                memory.read(range.start, &mut head).map_err(|error| error.to_string())?
            }
            Segment::File(file) => file.read_exact_at(&mut head, 0).map_err(|error| error.to_string())?,
        }
        if u32::from_le_bytes(head) != header::MAGIC ^ self.handle ^ number as u32 {
            return Err(named("has an unexpected header".into()));
        }
        Ok(found)
    }
}

fn within(range: &Range<VirtualAddress>, offset: u64, length: u64) -> Option<VirtualAddress> {
    let room = range.end.0 - range.start.0;
    (offset.checked_add(length)? <= room).then(|| VirtualAddress(range.start.0 + offset))
}

fn find_segment(server: &Server, handle: u32) -> Result<Segment, String> {
    if handle == 0 {
        return Err("is not there".into());
    }
    if handle % 2 == 1 {
        return set_aside(server, handle).map(Segment::Memory);
    }
    open_file(server, handle).map(Segment::File)
}

/// The file of a segment, for both values of `dynamic_shared_memory_type` that use files.
fn open_file(server: &Server, handle: u32) -> Result<File, String> {
    let posix = server.memory.file(&PathBuf::from(format!("/dev/shm/PostgreSQL.{handle}")));
    let mapped = server.data.join(format!("pg_dynshmem/mmap.{handle}"));
    File::open(&posix).or_else(|first| File::open(&mapped).map_err(|_| first)).map_err(|error| {
        format!(
            "cannot be read ({}: {error}; files of dynamic_shared_memory_type posix and mmap are known)",
            posix.display()
        )
    })
}

/// The range of a segment in the main segment's reserved pages.
fn set_aside(server: &Server, handle: u32) -> Result<Range<VirtualAddress>, String> {
    let room = server.areas.named(&["Preallocated DSM"]).ok_or("has a handle that is not known")?;
    let file = open_file(server, server.dynamic_segments.0)?;
    let mut head = [0; list::HEAD];
    file.read_exact_at(&mut head, 0).map_err(|error| error.to_string())?;
    let count = u32_at(&head, 4).unwrap_or(0).min(list::MOST);
    if u32_at(&head, 0) != Some(list::MAGIC) {
        return Err("is in a list that has an unexpected header".into());
    }
    let mut items = vec![0; count as usize * list::ITEM];
    file.read_exact_at(&mut items, list::HEAD as u64).map_err(|error| error.to_string())?;
    let used = |item: &&[u8]| {
        u32_at(item, 0) == Some(handle) && u32_at(item, list::USERS).is_some_and(|users| users > 0)
    };
    let item = items.chunks_exact(list::ITEM).find(used).ok_or("is not in the list of segments")?;
    let bytes = |at| u64_at(item, at).and_then(|pages| pages.checked_mul(list::PAGE));
    let (start, length) = bytes(list::FIRST_PAGE).zip(bytes(list::PAGES)).ok_or("is too long")?;
    let end = start.checked_add(length).filter(|end| *end <= room.size.0).ok_or("exceeds its space")?;
    Ok(VirtualAddress(room.start.0 + start)..VirtualAddress(room.start.0 + end))
}
