//! The named areas of PostgreSQL's shared memory, from its own index: a hash table of {name, location, size}.
//!
//! ```text
//!   segment: PGShmemHeader.index ──> table header (keysize 48, entrysize 72, segments ...)
//!                                    directory  [segment 0][segment 1]...
//!                                    segment    [bucket 0][bucket 1] ... 256
//!                                    bucket ──> {link, hash, entry} ──> {link, hash, entry} ──> null
//! ```
//!
//! Memory that an area allocates while it is created (the elements of a hash table) has no name, but follows
//! the area directly, because shared memory is only allocated upwards: a gap belongs to the area before it.

use crate::bytes::{u32_at, u64_at};
use crate::postgres::layout::{Layout, Missing};
use crate::process_memory::{text_of, ProcessMemory};
use hardmeter_samples::model::{ByteCount, VirtualAddress};
use std::ops::Range;

/// A named area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    /// Its name in `pg_shmem_allocations`.
    pub name: String,
    /// First byte.
    pub start: VirtualAddress,
    /// Its size.
    pub size: ByteCount,
}

/// All areas, in the order of their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas(Vec<Area>);

/// The layout of a hash table's header (`struct HASHHDR` of dynahash.c, which is in no header file; the same
/// in 15 to 18). It is tested on each server: the sizes of key and entry must be those of the index.
mod header {
    pub const SEGMENTS: usize = 776;
    pub const KEY_SIZE: usize = 800;
    pub const ENTRY_SIZE: usize = 808;
    pub const SEGMENT_SIZE: usize = 832;
    pub const SIZE: usize = 848;
    /// `HASHELEMENT`: link and hash value.
    pub const ELEMENT: u64 = 16;
}

/// Limit of areas, segments and buckets.
const MOST_AREAS: usize = 4096;
const MOST_SEGMENTS: u64 = 64;
const MOST_BUCKETS: u64 = 4096;

impl Areas {
    /// Walks the index of a segment. Otherwise returns the reason.
    pub fn read(
        memory: &ProcessMemory,
        layout: &Layout,
        segment: &Range<VirtualAddress>,
    ) -> Result<Areas, String> {
        let missing = |error: Missing| error.to_string();
        let index_at = layout.offset("PGShmemHeader", "index").map_err(missing)?;
        let entry = layout.structure("ShmemIndexEnt").map_err(missing)?;
        let at = |name: &str| layout.offset("ShmemIndexEnt", name).map(|offset| offset as usize);
        let (location_at, size_at) = (at("location").map_err(missing)?, at("size").map_err(missing)?);

        let unreadable = |_| "the index of shared memory cannot be read".to_string();
        let index = memory.pointer(VirtualAddress(segment.start.0 + index_at)).map_err(unreadable)?;
        if !segment.contains(&index) {
            return Err(format!("the index of shared memory is said to be at {index}, outside of it"));
        }
        let header: [u8; header::SIZE] = memory.bytes(index).map_err(unreadable)?;
        let word = |offset| u64_at(&header, offset).unwrap_or(0);
        if word(header::KEY_SIZE) != layout.shmem_index_key || word(header::ENTRY_SIZE) != entry.size {
            return Err(format!(
                "the index of shared memory has keys of {} and entries of {} bytes instead of {} and {}",
                word(header::KEY_SIZE),
                word(header::ENTRY_SIZE),
                layout.shmem_index_key,
                entry.size
            ));
        }
        let (segments, buckets) = (word(header::SEGMENTS), word(header::SEGMENT_SIZE));
        if segments > MOST_SEGMENTS || buckets > MOST_BUCKETS {
            return Err(format!("the index of shared memory has {segments} segments of {buckets} buckets"));
        }
        let mut areas = Vec::new();
        let mut element = vec![0; (header::ELEMENT + entry.size) as usize];
        for number in 0..segments {
            let slot = VirtualAddress(index.0 + header::SIZE as u64 + number * 8);
            let mut table = vec![0; buckets as usize * 8];
            let table_at = memory.pointer(slot).map_err(unreadable)?;
            memory.read(table_at, &mut table).map_err(unreadable)?;
            for bucket in 0..buckets as usize {
                let mut next = u64_at(&table, bucket * 8).unwrap_or(0);
                while segment.contains(&VirtualAddress(next)) && areas.len() < MOST_AREAS {
                    memory.read(VirtualAddress(next), &mut element).map_err(unreadable)?;
                    next = u64_at(&element, 0).unwrap_or(0);
                    let entry = &element[header::ELEMENT as usize..];
                    let start = VirtualAddress(u64_at(entry, location_at).unwrap_or(0));
                    let size = ByteCount(u64_at(entry, size_at).unwrap_or(0));
                    let name = text_of(&entry[..(layout.shmem_index_key as usize).min(entry.len())]);
                    if segment.contains(&start) && size.0 <= segment.end.0 - start.0 && !name.is_empty() {
                        areas.push(Area { name, start, size });
                    }
                }
            }
        }
        Ok(Areas::new(areas))
    }

    /// Areas in any order.
    pub fn new(mut areas: Vec<Area>) -> Areas {
        areas.sort_by_key(|area| area.start);
        Areas(areas)
    }

    /// The area that contains an address, or the one before the gap that does; and the end of area and gap.
    pub fn at(&self, address: VirtualAddress, end: VirtualAddress) -> Option<(&Area, VirtualAddress)> {
        let after = self.0.partition_point(|area| area.start <= address);
        let area = self.0[..after].last()?;
        Some((area, self.0.get(after).map_or(end, |next| next.start)))
    }

    /// An area by one of its names; some were renamed between versions.
    pub fn named(&self, names: &[&str]) -> Option<&Area> {
        self.0.iter().find(|area| names.contains(&area.name.as_str()))
    }

    /// All areas.
    pub fn iter(&self) -> impl Iterator<Item = &Area> {
        self.0.iter()
    }
}

/// Bytes from one element of a hash table in shared memory to the next, from its header; `None` if it is not
/// a hash table.
pub(crate) fn element_stride(memory: &ProcessMemory, table: &Area) -> Option<u64> {
    let header: [u8; header::SIZE] = memory.bytes(table.start).ok()?;
    let (key, entry) = (u64_at(&header, header::KEY_SIZE)?, u64_at(&header, header::ENTRY_SIZE)?);
    let masks = (u32_at(&header, 788)?, u32_at(&header, 792)?);
    let plausible = (1..=256).contains(&key) && key <= entry && entry <= 4096 && masks.0 >= masks.1;
    (plausible && table.size.0 >= header::SIZE as u64).then(|| header::ELEMENT + entry.next_multiple_of(8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::Pid;

    /// An image of a segment in this process's memory: header, index table with one segment of two buckets,
    /// three entries.
    #[test]
    fn an_index_made_by_hand() {
        let layout = Layout::of(15).expect("known");
        let mut image = vec![0u8; 8192];
        let base = image.as_ptr() as u64;
        let put = |image: &mut Vec<u8>, at: usize, value: u64| {
            image[at..at + 8].copy_from_slice(&value.to_le_bytes())
        };
        put(&mut image, layout.offset("PGShmemHeader", "index").expect("known") as usize, base + 64);
        for (offset, value) in [(776, 1), (800, 48), (808, 72), (832, 2), (848, base + 2000)] {
            put(&mut image, 64 + offset, value);
        }
        put(&mut image, 2000, base + 3000);
        put(&mut image, 2008, base + 3100);
        for (at, next, name, start, size) in [
            (3000, base + 3200, "XLOG Ctl", 4096, 100),
            (3200, 0, "Proc Header", 5000, 40),
            (3100, 0, "outside", 9000, 40),
        ] {
            put(&mut image, at, next);
            image[at + 16..at + 16 + name.len()].copy_from_slice(name.as_bytes());
            put(&mut image, at + 16 + 48, base + start);
            put(&mut image, at + 16 + 56, size);
        }
        let memory = ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run");
        let segment = VirtualAddress(base)..VirtualAddress(base + 8192);
        let areas = Areas::read(&memory, &layout, &segment).expect("an index");
        let names: Vec<&str> = areas.iter().map(|area| area.name.as_str()).collect();
        assert_eq!(names, ["XLOG Ctl", "Proc Header"]);
        let (area, end) = areas.at(VirtualAddress(base + 4500), segment.end).expect("in the gap");
        assert_eq!((area.name.as_str(), end), ("XLOG Ctl", VirtualAddress(base + 5000)));
        assert!(areas.at(VirtualAddress(base), segment.end).is_none());

        // A circular chain ends, and other sizes are refused with the numbers.
        put(&mut image, 3200, base + 3000);
        assert!(Areas::read(&memory, &layout, &segment).is_ok());
        put(&mut image, 64 + 808, 80);
        let reason = Areas::read(&memory, &layout, &segment).expect_err("another size");
        assert!(reason.contains("entries of 80 bytes instead of 48 and 72"), "{reason}");
    }
}
