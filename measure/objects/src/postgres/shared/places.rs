//! Identifies addresses in the main segment of shared memory.
//!
//! In this order: blocks and descriptors of buffers, locks of the main array, slots of processes, known
//! objects inside a named area, the named area, and "shared memory".

use super::index::{element_stride, Area};
use super::locks::{field_part, Locks};
use super::processes::{Roles, Slots};
use crate::found::Found;
use crate::postgres::attach::Server;
use hardmeter_samples::model::{ByteCount, VirtualAddress};
use std::ops::Range;

/// The meaning of an address in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the block of this buffer.
    Block(u32),
    /// In the descriptor of this buffer.
    Descriptor(u32),
    /// In the condition variable of this buffer, with its address and size.
    Waiting(u32, VirtualAddress, ByteCount),
    /// An object that never changes.
    Fixed(Found),
    /// An object that may belong to another process later.
    Passing(Found),
}

/// Pages in an area: those of the write-ahead log, or of a cache of small pages (SLRU).
#[derive(Clone, Debug)]
struct Pages {
    class: &'static str,
    name: String,
    range: Range<VirtualAddress>,
    size: u64,
    /// The place of each page's number, and its size in bytes.
    numbers: Option<(VirtualAddress, u64)>,
}

/// Places in the segment, found once.
#[derive(Debug)]
pub(crate) struct Places {
    locks: Locks,
    slots: Option<Slots>,
    pages: Vec<Pages>,
    insert_locks: Option<(VirtualAddress, u64)>,
    /// All places that are known more exactly than their area. Sorted.
    exact: Vec<Range<VirtualAddress>>,
}

/// Areas of caches of small pages; the names changed with PG17.
const SMALL_PAGES: [&str; 14] = [
    "Xact",
    "CommitTs",
    "Subtrans",
    "MultiXactOffset",
    "MultiXactMember",
    "Notify",
    "Serial",
    "transaction",
    "commit_timestamp",
    "subtransaction",
    "multixact_offset",
    "multixact_member",
    "notify",
    "serializable",
];

impl Places {
    /// Reads them from a server.
    pub fn read(server: &Server) -> Places {
        let mut pages: Vec<Pages> =
            SMALL_PAGES.iter().filter_map(|name| small_pages(server, server.areas.named(&[name])?)).collect();
        let log = server.areas.named(&["XLOG Ctl"]);
        let log_pages = log.and_then(|area| log_pages(server, area));
        // Unused memory must not be read: reading allocates it.
        let control = log_pages.as_ref().zip(log).map(|(pages, area)| area.start..pages.range.start);
        pages.extend(log_pages);
        let mut places = Places {
            locks: Locks::read(server),
            slots: Slots::read(server),
            insert_locks: control.and_then(|control| insert_locks(server, control)),
            pages,
            exact: Vec::new(),
        };
        places.exact = places.exact_ranges(server);
        places
    }

    fn exact_ranges(&self, server: &Server) -> Vec<Range<VirtualAddress>> {
        let (buffers, layout) = (&server.buffers, &server.layout);
        let range = |start: VirtualAddress, length: u64| start..VirtualAddress(start.0 + length);
        let count = u64::from(buffers.count);
        let mut exact = vec![
            range(buffers.blocks, count * buffers.block_size),
            range(buffers.descriptors, count * buffers.stride),
            self.locks.range(server),
        ];
        exact.extend(self.slots.iter().flat_map(|slots| slots.ranges(server)));
        exact.extend(self.pages.iter().map(|pages| pages.range.clone()));
        exact.extend(self.insert_locks.map(|(base, count)| range(base, count * layout.lock_stride)));
        let counters = transactions(server).zip(layout.structure("TransamVariables").ok());
        exact.extend(counters.map(|(start, shape)| range(start, shape.size)));
        let header = layout.structure("PGShmemHeader").map_or(0, |shape| shape.size);
        exact.push(range(server.segment.start, header));
        exact.sort_by_key(|range| range.start);
        exact
    }

    /// A range without the places that are known more exactly, which a fact about the whole would hide.
    fn around(&self, found: Found, address: VirtualAddress) -> Found {
        let (mut start, mut end) = (found.start, VirtualAddress(found.start.0 + found.length.0));
        for exact in &self.exact {
            if exact.end <= address {
                start = start.max(exact.end);
            } else if exact.start > address {
                end = end.min(exact.start);
            }
        }
        Found { start, length: ByteCount(end.0 - start.0), ..found }
    }

    /// The object at an address of the segment.
    pub fn find(&self, server: &Server, roles: &Roles, address: VirtualAddress) -> Place {
        if let Some(buffer) = server.buffers.of_block(address) {
            return Place::Block(buffer);
        }
        if let Some(buffer) = server.buffers.of_descriptor(address) {
            return Place::Descriptor(buffer);
        }
        if let Some(found) = self.locks.find(server, address) {
            return Place::Fixed(found);
        }
        if let Some(found) = self.slots.as_ref().and_then(|slots| slots.find(server, roles, address)) {
            return Place::Passing(found);
        }
        if let Some(place) = self.in_area(server, address) {
            return place;
        }
        let segment = &server.segment;
        let start = segment.start;
        let header = server.layout.structure("PGShmemHeader").map_or(0, |shape| shape.size);
        if address.0 - start.0 < header {
            let whole = Found::new("shared memory area", start, header).named("segment header");
            return Place::Fixed(field_part(server, whole, "PGShmemHeader", address, None));
        }
        if let Some(found) = counters_of_transactions(server, address) {
            return Place::Fixed(found);
        }
        let Some((area, end)) = server.areas.at(address, segment.end) else {
            // Before the first named area: the index itself and objects created before it.
            let first = server.areas.iter().next().map_or(segment.end, |area| area.start);
            let found = Found::new("shared memory", start, first.0 - start.0).named("before the first area");
            return Place::Fixed(self.around(found, address));
        };
        let own = VirtualAddress(area.start.0 + area.size.0);
        let found = Found::new("shared memory area", area.start, area.size.0).named(area.name.clone());
        if address < own {
            return Place::Fixed(self.around(found, address));
        }
        let last = server.areas.iter().last() == Some(area);
        if last {
            // Tables that grew later took their elements from here; which table is unknown.
            let found = Found::new("shared memory", own, end.0 - own.0).named("after the last area");
            return Place::Fixed(self.around(found, address));
        }
        let part =
            if element_stride(&server.memory, area).is_some() { "elements" } else { "what belongs to it" };
        Place::Fixed(self.around(found.part(part, own, end.0 - own.0), address))
    }

    fn in_area(&self, server: &Server, address: VirtualAddress) -> Option<Place> {
        if let Some(pages) = self.pages.iter().find(|pages| pages.range.contains(&address)) {
            let index = (address.0 - pages.range.start.0) / pages.size;
            let start = VirtualAddress(pages.range.start.0 + index * pages.size);
            let whole = Found::new(pages.class, start, pages.size).named(pages.name.clone());
            let Some((numbers, width)) = pages.numbers else {
                return Some(Place::Fixed(whole.instance(format!("page {index}"))));
            };
            let at = VirtualAddress(numbers.0 + index * width);
            let number =
                if width == 8 { server.memory.u64(at) } else { server.memory.u32(at).map(u64::from) };
            let instance = number.map_or(String::new(), |number| format!("page {number}"));
            return Some(Place::Passing(whole.instance(instance)));
        }
        let stride = server.layout.lock_stride;
        if let Some((base, count)) = self.insert_locks {
            let index = address.0.wrapping_sub(base.0) / stride;
            if index < count {
                let start = VirtualAddress(base.0 + index * stride);
                let whole = Found::new("lightweight lock", start, stride).named("WALInsert");
                let found = field_part(server, whole.instance(index.to_string()), "LWLock", address, None);
                return Some(Place::Fixed(found));
            }
        }
        let (area, _) = server.areas.at(address, server.segment.end)?;
        let offset = address.0 - area.start.0;
        if offset >= area.size.0 {
            return None;
        }
        match area.name.as_str() {
            "Buffer IO Condition Variables" => {
                let size = area.size.0 / u64::from(server.buffers.count);
                let buffer = offset.checked_div(size)?;
                let start = VirtualAddress(area.start.0 + buffer * size);
                (buffer < u64::from(server.buffers.count)).then_some(Place::Waiting(
                    buffer as u32,
                    start,
                    ByteCount(size),
                ))
            }
            "Backend Status Array" => {
                let size = server.layout.structure("PgBackendStatus").ok()?.size;
                let slot = offset / size;
                let start = VirtualAddress(area.start.0 + slot * size);
                let whole = Found::new("backend status", start, size).named("Backend Status Array");
                let found = whole.instance(format!("slot {slot}"));
                Some(Place::Fixed(field_part(server, found, "PgBackendStatus", address, None)))
            }
            _ => None,
        }
    }
}

/// The place of the counters of transactions; the variable was renamed in PG17.
pub(crate) fn transactions(server: &Server) -> Option<VirtualAddress> {
    let names = ["ShmemVariableCache", "TransamVariables"];
    let variable = names.iter().find_map(|name| server.program.address(name))?;
    server.memory.pointer(variable).ok().filter(|there| server.segment.contains(there))
}

fn counters_of_transactions(server: &Server, address: VirtualAddress) -> Option<Found> {
    let start = transactions(server)?;
    let size = server.layout.structure("TransamVariables").ok()?.size;
    (address.0.wrapping_sub(start.0) < size).then(|| {
        let whole = Found::new("shared memory area", start, size).named("TransamVariables");
        field_part(server, whole, "TransamVariables", address, None)
    })
}

fn small_pages(server: &Server, area: &Area) -> Option<Pages> {
    let (layout, memory) = (&server.layout, &server.memory);
    let field = |name: &str| Some(VirtualAddress(area.start.0 + layout.offset("SlruSharedData", name).ok()?));
    let count = u64::from(memory.u32(field("num_slots")?).ok()?);
    // An array of pointers, one for each page; the pages are contiguous.
    let first = memory.pointer(memory.pointer(field("page_buffer")?).ok()?).ok()?;
    let numbers = memory.pointer(field("page_number")?).ok()?;
    let size = layout.block_size;
    let end = VirtualAddress(area.start.0 + area.size.0);
    let inside = |at: VirtualAddress, length: u64| area.start <= at && at < end && length <= end.0 - at.0;
    let width = if layout.major >= 17 { 8 } else { 4 };
    let fits = count > 0 && inside(first, count.checked_mul(size)?) && inside(numbers, count * width);
    fits.then(|| Pages {
        class: "small page cache",
        name: area.name.clone(),
        range: first..VirtualAddress(first.0 + count * size),
        size,
        numbers: Some((numbers, width)),
    })
}

/// The pages of the write-ahead log are the last part of its area; before them, up to a page is lost to
/// alignment.
fn log_pages(server: &Server, area: &Area) -> Option<Pages> {
    let size = server.layout.wal_block_size;
    let count = u64::from(server.memory.u32(server.program.address("XLOGbuffers")?).ok()?);
    let length = count.checked_mul(size).filter(|length| (1..area.size.0).contains(length))?;
    let start = (area.start.0 + area.size.0 - length - 1) / size * size;
    Some(Pages {
        class: "WAL",
        name: "buffers".into(),
        range: VirtualAddress(start)..VirtualAddress(start + length),
        size,
        numbers: None,
    })
}

/// The locks for writing to the log: an aligned array of locks of one kind.
fn insert_locks(server: &Server, control: Range<VirtualAddress>) -> Option<(VirtualAddress, u64)> {
    /// `NUM_XLOGINSERT_LOCKS`.
    const COUNT: usize = 8;
    let layout = &server.layout;
    let stride = layout.lock_stride;
    let kind = layout.tranches.iter().find(|(name, _)| name == "WALInsert")?.1;
    // They are between the control structure and the pages; an entry per page precedes them.
    let first = control.start.0.next_multiple_of(stride);
    let places: Vec<VirtualAddress> =
        (first..control.end.0).step_by(stride as usize).take(65_536).map(VirtualAddress).collect();
    let (bytes, _) = server.memory.read_pieces(&places, 2);
    let kinds: Vec<u32> =
        bytes.chunks_exact(2).map(|two| u32::from(u16::from_le_bytes([two[0], two[1]]))).collect();
    let at = kinds.windows(COUNT).position(|window| window.iter().all(|found| *found == kind))?;
    Some((places[at], COUNT as u64))
}
