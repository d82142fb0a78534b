//! The content of the shared buffers over time: the block of each buffer since when, and the parts found in
//! it.
//!
//! ```text
//!   check           1            2            3            4
//!   buffer 7     t block 5    t block 5    t block 9    t block 9
//!   facts        [-- seen --------]        [--- seen -------]
//! ```
//!
//! A block stayed in its buffer between two checks that both saw it. Whether its content is unchanged follows
//! from the page's position in the write-ahead log (its last change): a position that the log had passed
//! before a check belongs to a change before it.

use super::attach::Server;
use super::catalog::files::Files;
use super::catalog::{Catalog, Relation};
use super::page::{self, Shape};
use super::shared::buffers::Tag;
use crate::facts::{FactId, Facts};
use crate::found::Found;
use hardmeter_samples::model::{ByteCount, Timestamp, VirtualAddress};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The part of a buffer that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferPart {
    /// Its block.
    Block,
    /// Its descriptor.
    Descriptor,
    /// Its condition variable.
    Waiting(VirtualAddress, ByteCount),
}

/// A buffer from which samples came.
#[derive(Debug)]
struct Held {
    tag: Tag,
    /// The last change of the page when its parts were found.
    change: Option<u64>,
    /// Facts, with the address for which each was found.
    facts: Vec<(FactId, BufferPart, VirtualAddress)>,
}

/// The buffers over time.
pub(crate) struct Blocks {
    tags: Vec<Option<Tag>>,
    since: Vec<Timestamp>,
    read: Instant,
    cost: Duration,
    /// Positions that the log had passed at a time.
    passed: Vec<(Timestamp, u64)>,
    newest_change: u64,
    held: HashMap<u32, Held>,
    /// Facts about buffers without a block.
    empty: Vec<(FactId, u32)>,
    /// Relations whose pages were seen, with their class.
    pub relations: BTreeMap<String, &'static str>,
}

/// All descriptors are read again only after a hundred times the duration of reading.
const PAUSE_PER_COST: u32 = 100;
/// Limit of changed pages that one check reads again.
const MOST_REREAD: usize = 2048;
/// Limit of remembered times at which the log had passed a position: an hour of seconds.
const MOST_PASSED: usize = 4096;

/// The object at an address of a buffer with a block. `page`: its bytes, for the name of the part.
pub(crate) fn found_in(
    server: &Server,
    relation: &Relation,
    tag: &Tag,
    buffer: u32,
    part: BufferPart,
    page: Option<&[u8]>,
    address: VirtualAddress,
) -> Found {
    let size = server.buffers.block_size;
    let name = relation.name.clone();
    match part {
        BufferPart::Descriptor => {
            let start = server.buffers.descriptor(buffer);
            let whole = Found::new("buffer descriptor", start, server.buffers.stride);
            let whole = whole.named(name).instance(tag.place());
            super::shared::field_part(server, whole, "BufferDesc", address, Some("content_lock"))
        }
        BufferPart::Waiting(start, length) => {
            let whole = Found::new("buffer condition variable", start, length.0);
            whole.named(name).instance(tag.place())
        }
        BufferPart::Block => {
            let start = server.buffers.block(buffer);
            let shape = match tag.fork {
                1 => Shape::FreeSpaceMap,
                2 => Shape::VisibilityMap,
                _ => relation.shape,
            };
            let level = page.filter(|_| shape == Shape::Btree).and_then(page::btree::level);
            let instance = level.map_or_else(|| tag.place(), |level| format!("{}, {level}", tag.place()));
            let whole = Found::new(relation.class, start, size).named(name).instance(instance);
            let offset = (address.0 - start.0) as usize;
            match page.and_then(|page| page::part_at(page, shape, &relation.attributes, offset)) {
                Some(part) => {
                    let (at, length) = (start.0 + part.range.start as u64, part.range.len() as u64);
                    whole.part(part.name, VirtualAddress(at), length)
                }
                None => whole,
            }
        }
    }
}

/// The object at an address of a buffer without a block.
fn empty(server: &Server, buffer: u32, part: BufferPart, address: VirtualAddress) -> Found {
    let buffers = &server.buffers;
    match part {
        BufferPart::Block => Found::new("buffer", buffers.block(buffer), buffers.block_size).named("empty"),
        BufferPart::Waiting(start, length) => {
            Found::new("buffer condition variable", start, length.0).named("empty")
        }
        BufferPart::Descriptor => {
            let whole =
                Found::new("buffer descriptor", buffers.descriptor(buffer), buffers.stride).named("empty");
            super::shared::field_part(server, whole, "BufferDesc", address, Some("content_lock"))
        }
    }
}

impl Blocks {
    /// Reads the present content of the buffers.
    pub fn new(server: &Server, now: Timestamp) -> Blocks {
        let count = server.buffers.count as usize;
        let mut blocks = Blocks {
            tags: vec![None; count],
            since: vec![now; count],
            read: Instant::now(),
            cost: Duration::ZERO,
            passed: Vec::new(),
            newest_change: 0,
            held: HashMap::new(),
            empty: Vec::new(),
            relations: BTreeMap::new(),
        };
        blocks.read_all(server, now);
        blocks
    }

    /// The content of the buffers at the last complete reading.
    pub fn tags(&self) -> &[Option<Tag>] {
        &self.tags
    }

    /// Reads all descriptors, and records changes.
    fn read_all(&mut self, server: &Server, now: Timestamp) {
        let begun = Instant::now();
        let Some(tags) = server.buffers.all_tags(&server.memory) else { return };
        for (buffer, tag) in tags.iter().enumerate() {
            if self.tags[buffer] != *tag {
                self.since[buffer] = now;
            }
        }
        self.tags = tags;
        self.read = Instant::now();
        self.cost = self.read - begun;
    }

    /// The earliest known time since which a buffer has a block.
    fn since(&self, buffer: u32, tag: &Tag, now: Timestamp) -> Timestamp {
        let index = buffer as usize;
        if self.tags.get(index) == Some(&Some(*tag)) {
            self.since[index]
        } else {
            now
        }
    }

    /// The time since which a page is unchanged if its last change is `change`.
    fn unchanged_since(&self, change: Option<u64>, now: Timestamp) -> Timestamp {
        // Pages that are not logged have no position.
        let Some(change) = change.filter(|change| *change != 0) else { return now };
        let first = self.passed.partition_point(|(_, passed)| *passed < change);
        self.passed.get(first).map_or(now, |(time, _)| *time)
    }

    /// Reads the page of a buffer, if it has the block before and after.
    fn page_of(&self, server: &Server, buffer: u32, tag: &Tag) -> Option<Vec<u8>> {
        let mut bytes = vec![0; server.buffers.block_size as usize];
        server.memory.read(server.buffers.block(buffer), &mut bytes).ok()?;
        let after = server.buffers.tags_of(&server.memory, &[buffer]);
        (after.first() == Some(&Some(*tag))).then_some(bytes)
    }

    /// Identifies addresses of buffers. `wanted`: address, part, time of the sample, and the tag that the
    /// sample carries.
    pub fn see(
        &mut self,
        server: &Server,
        catalog: &mut Catalog,
        facts: &mut Facts,
        wanted: &[(u32, BufferPart, VirtualAddress, Timestamp, Option<Tag>)],
        now: Timestamp,
    ) {
        let mut buffers: Vec<u32> = wanted.iter().map(|(buffer, ..)| *buffer).collect();
        buffers.sort_unstable();
        buffers.dedup();
        let tags = server.buffers.tags_of(&server.memory, &buffers);
        let held: HashMap<u32, Tag> =
            buffers.iter().zip(&tags).filter_map(|(buffer, tag)| Some((*buffer, (*tag)?))).collect();
        let mut pages: HashMap<u32, Option<Vec<u8>>> = HashMap::new();
        for (buffer, part, address, time, carried) in wanted {
            let (buffer, part, address) = (*buffer, *part, *address);
            let current = held.get(&buffer);
            if let Some(past) = carried.filter(|carried| carried.is_plausible() && Some(carried) != current) {
                let relation = self.relation(server, catalog, &past);
                let found = found_in(server, &relation, &past, buffer, part, None, address);
                facts.note_past(None, &found, super::state_key(part, &past), *time);
                continue;
            }
            let Some(tag) = current else {
                let id = facts.begin(None, &empty(server, buffer, part, address), None, (now, now));
                self.empty.extend(id.map(|id| (id, buffer)));
                continue;
            };
            let relation = self.relation(server, catalog, tag);
            let page = match part {
                BufferPart::Block => {
                    pages.entry(buffer).or_insert_with(|| self.page_of(server, buffer, tag)).as_deref()
                }
                _ => None,
            };
            let change = page.and_then(page::change_of);
            self.newest_change = self.newest_change.max(change.unwrap_or(0));
            let found = found_in(server, &relation, tag, buffer, part, page, address);
            let mut begin = self.since(buffer, tag, now);
            if part == BufferPart::Block && found.length.0 < server.buffers.block_size {
                begin = begin.max(self.unchanged_since(change, now));
            }
            let state =
                Some(super::state_key(part, tag)).filter(|_| !matches!(part, BufferPart::Waiting(..)));
            let Some(id) = facts.begin(None, &found, state, (begin, now)) else { continue };
            let held =
                self.held.entry(buffer).or_insert_with(|| Held { tag: *tag, change, facts: Vec::new() });
            if held.tag != *tag {
                // The fact that has just begun replaced one of them.
                held.facts.drain(..).filter(|(old, ..)| *old != id).for_each(|(old, ..)| facts.end(old));
                (held.tag, held.change) = (*tag, change);
            }
            if held.change.is_none() {
                held.change = change;
            }
            if !held.facts.iter().any(|(known, ..)| *known == id) {
                held.facts.push((id, part, address));
            }
        }
    }

    /// The relation of a block; reads the catalog if that helps.
    fn relation(&mut self, server: &Server, catalog: &mut Catalog, tag: &Tag) -> Arc<Relation> {
        if catalog.wants(tag) {
            // Newer than the last check: the catalog's own pages may just have been read.
            if let Some(tags) = server.buffers.all_tags(&server.memory) {
                catalog.read(tag, &Files::new(server, &tags));
            }
        }
        let relation = catalog.relation(tag);
        if relation.known && !self.relations.contains_key(&relation.name) {
            self.relations.insert(relation.name.clone(), relation.pages);
        }
        relation
    }

    /// Confirms facts that are still valid, and ends the others.
    pub fn look_again(&mut self, server: &Server, catalog: &mut Catalog, facts: &mut Facts, now: Timestamp) {
        let whole = self.read.elapsed() >= self.cost * PAUSE_PER_COST;
        if whole {
            self.read_all(server, now);
        }
        let mut buffers: Vec<u32> = self.held.keys().copied().collect();
        buffers.sort_unstable();
        let tags = server.buffers.tags_of(&server.memory, &buffers);
        let starts: Vec<VirtualAddress> =
            buffers.iter().map(|buffer| server.buffers.block(*buffer)).collect();
        let (changes, _) = server.memory.read_pieces(&starts, 8);
        let buffers_empty: Vec<u32> = self.empty.iter().map(|(_, buffer)| *buffer).collect();
        let mut still = server.buffers.tags_of(&server.memory, &buffers_empty).into_iter();
        self.empty.retain(|(id, _)| {
            let holds = still.next().flatten().is_none();
            if holds {
                facts.confirm(*id, now);
            } else {
                facts.end(*id);
            }
            holds
        });
        let mut room = MOST_REREAD;
        for ((buffer, tag), change) in buffers.iter().zip(tags).zip(changes.chunks_exact(8)) {
            let Some(held) = self.held.get(buffer) else { continue };
            if tag != Some(held.tag) {
                if let Some(held) = self.held.remove(buffer) {
                    held.facts.into_iter().for_each(|(id, ..)| facts.end(id));
                }
                continue;
            }
            let change = page::change_of(change);
            self.newest_change = self.newest_change.max(change.unwrap_or(0));
            self.confirm(server, catalog, facts, *buffer, change, &mut room, now);
        }
        if self.passed.last().is_none_or(|(_, passed)| *passed < self.newest_change) {
            if self.passed.len() >= MOST_PASSED {
                // Keeps every second one: the exact time of older ones matters less.
                let mut index = 0;
                self.passed.retain(|_| {
                    index += 1;
                    index % 2 == 0
                });
            }
            self.passed.push((now, self.newest_change));
        }
    }

    /// A buffer still has its block: checks whether the parts are unchanged.
    #[allow(clippy::too_many_arguments)]
    fn confirm(
        &mut self,
        server: &Server,
        catalog: &mut Catalog,
        facts: &mut Facts,
        buffer: u32,
        change: Option<u64>,
        room: &mut usize,
        now: Timestamp,
    ) {
        let Some(mut held) = self.held.remove(&buffer) else { return };
        let relation = self.relation(server, catalog, &held.tag);
        for (id, ..) in &held.facts {
            if relation.known && facts.texts.text(facts.get(*id).path.name) != relation.name {
                let class = match facts.texts.text(facts.get(*id).path.class) {
                    "relation" => relation.class.to_string(),
                    class => class.to_string(),
                };
                facts.rename(*id, &class, &relation.name);
            }
        }
        let blocks = held.facts.iter().any(|(_, part, _)| *part == BufferPart::Block);
        let same = held.change == change && change != Some(0);
        let page = match blocks && !same && *room > 0 {
            true => {
                *room -= 1;
                self.page_of(server, buffer, &held.tag)
            }
            false => None,
        };
        held.facts.retain(|(id, part, address)| {
            let holds = match (part, &page) {
                (BufferPart::Block, Some(page)) => {
                    let found = found_in(server, &relation, &held.tag, buffer, *part, Some(page), *address);
                    facts.says(*id, &found)
                }
                // Not checked this time: neither confirmed nor ended.
                (BufferPart::Block, None) if !same => return true,
                _ => true,
            };
            if holds {
                facts.confirm(*id, now);
            } else {
                facts.end(*id);
            }
            holds
        });
        if page.is_some() {
            held.change = page.as_deref().and_then(page::change_of);
        }
        if !held.facts.is_empty() {
            self.held.insert(buffer, held);
        }
    }
}
