//! A MariaDB server while it is recorded: the implementation of this crate's interface for MariaDB.

use super::attach::Server;
use super::dictionary::Dictionary;
use super::heap::Heaps;
use super::names::ClassNames;
use super::page::{part_of_index, Identity, Kind, PageId, HEAD};
use super::pool::Slot;
use super::redo::log_buffers;
use super::threads::Threads;
use super::PAGE_STATE;
use crate::error::AttachError;
use crate::facts::{FactId, Facts};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings};
use crate::program::loaded_size;
use crate::regions::{region_of, Region};
use crate::server::{clock, Access, ServerObjects};
use hardmeter_samples::model::{ByteCount, Pid, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::{ObjectNotes, PageKind, StateKey, ThreadRole};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit of facts, the same as for PostgreSQL.
const MOST_FACTS: usize = 500_000;
/// Limit of facts that one check confirms.
const MOST_AGAIN: usize = 20_000;
/// Minimum time between two readings of threads and mappings; it is also at least ten times the duration of a
/// reading.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_PER_COST: u32 = 10;
/// Minimum time between two readings of the mappings alone.
const MAPPINGS_PAUSE: Duration = Duration::from_millis(2);

/// A server that is being read.
pub(crate) struct MariaDb {
    server: Server,
    dictionary: Dictionary,
    threads: Threads,
    heaps: Heaps,
    classes: ClassNames,
    /// InnoDB's redo log buffers.
    redo: Option<Range<u64>>,
    mappings: Mappings,
    read: Instant,
    /// The time to wait after it.
    pause: Duration,
    /// When the mappings alone were read.
    mapped: Instant,
    /// Cache lines without a known object at the last reading.
    unknown: HashSet<VirtualAddress>,
    facts: Facts,
    attached: Timestamp,
    /// Facts that may end, with the address for which each was found.
    watched: Vec<(FactId, VirtualAddress)>,
    /// Sizes of images of libraries.
    sizes: HashMap<PathBuf, Option<u64>>,
    /// Relations whose pages were seen, with their class.
    relations: BTreeMap<String, &'static str>,
    unmapped: u64,
}

impl MariaDb {
    /// Attaches to the server that a process is.
    pub fn attach(pid: Pid) -> Result<MariaDb, AttachError> {
        let server = Server::attach(pid)?;
        let dictionary = Dictionary::read(&server);
        let mappings = server.mappings();
        let mut threads = Threads::default();
        threads.look(&server, &mappings);
        Ok(MariaDb {
            dictionary,
            threads,
            heaps: Heaps::default(),
            classes: ClassNames::default(),
            redo: log_buffers(&server, &mappings),
            server,
            mappings,
            read: Instant::now(),
            pause: PAUSE,
            mapped: Instant::now(),
            unknown: HashSet::new(),
            facts: Facts::new(MOST_FACTS),
            attached: clock(),
            watched: Vec::new(),
            sizes: HashMap::new(),
            relations: BTreeMap::new(),
            unmapped: 0,
        })
    }

    fn pid(&self) -> Pid {
        self.server.memory.pid()
    }

    /// The object of a page with this identity; `None` if the server has no such page. Reads the dictionary
    /// again if that may help.
    fn page(&mut self, identity: &Identity, frame: VirtualAddress) -> Option<Found> {
        let (id, kind) = identity.page()?;
        let known = |dictionary: &Dictionary| match kind {
            Kind::Index { index, .. } => {
                dictionary.index(index, id.space).is_some() || dictionary.is_temporary(id.space)
            }
            _ => dictionary.space(id.space).is_some(),
        };
        if !known(&self.dictionary) {
            self.dictionary.refresh(&self.server);
        }
        let found = found_page(&self.dictionary, id, kind, frame, self.server.pool.page)?;
        if let "table" | "index" = found.class.as_ref() {
            if !self.relations.contains_key(found.name.as_ref()) {
                let kind = if found.class == "table" { "InnoDB table" } else { "InnoDB index" };
                self.relations.insert(found.name.to_string(), kind);
            }
        }
        Some(found)
    }

    /// The present content of a frame, and the identity of its page.
    fn in_frame(
        &mut self,
        frame: VirtualAddress,
        descriptor: VirtualAddress,
        address: VirtualAddress,
    ) -> Option<(Found, Identity)> {
        let mut page = vec![0; self.server.pool.page as usize];
        self.server.memory.read(frame, &mut page).ok()?;
        let identity = Identity::of(&page)?;
        let id = PageId::of(&page)?;
        let whole = match self.server.pool.id_in(&self.server.memory, descriptor) {
            Some(said) if said == id => self.page(&identity, frame),
            _ => None,
        };
        let Some(whole) = whole else {
            return Some((no_page(frame, self.server.pool.page), identity));
        };
        let offset = (address.0 - frame.0) as usize;
        let found = match identity.page()?.1 {
            Kind::Index { level, .. } => match part_of_index(&page, page.len(), offset) {
                Some((part, range)) => {
                    let (at, length) = (VirtualAddress(frame.0 + range.start as u64), range.len() as u64);
                    whole.part(format!("{} {part}", place_in_tree(level)), at, length)
                }
                None => whole,
            },
            _ => whole,
        };
        Some((found, identity))
    }

    fn see_frame(
        &mut self,
        frame: VirtualAddress,
        descriptor: VirtualAddress,
        access: &Access,
        carried: Option<Identity>,
        now: Timestamp,
    ) {
        let (pid, address, time) = (Some(self.pid()), access.address, access.time.min(now));
        let key = |identity: &Identity| StateKey { id: PAGE_STATE, bytes: identity.bytes().to_vec() };
        let current = self.in_frame(frame, descriptor, address);
        match (current, carried) {
            (Some((found, identity)), Some(carried)) if identity == carried => {
                self.facts.begin(pid, &found, Some(key(&carried)), (time, now));
            }
            // The page has been replaced since; the sample carries the former one.
            (_, Some(carried)) => {
                let found = self.page(&carried, frame);
                let found = found.unwrap_or_else(|| no_page(frame, self.server.pool.page));
                self.facts.note_past(pid, &found, key(&carried), access.time);
            }
            (Some((found, _)), None) => {
                let id = self.facts.begin(pid, &found, None, (now, now));
                self.watched.extend(id.map(|id| (id, address)));
            }
            (None, None) => {}
        }
    }

    /// The object at an address outside the frames, and how long that is valid.
    fn elsewhere(&mut self, address: VirtualAddress) -> Option<(Found, Holds)> {
        if let Some(Slot::Descriptor(_, descriptor)) = self.server.pool.slot(address) {
            let size = self.server.pool.descriptor_size();
            let found = Found::new("buffer descriptor", descriptor, size);
            let id = self.server.pool.id_in(&self.server.memory, descriptor);
            let name = id.and_then(|id| Some((id, self.dictionary.space(id.space)?.to_string())));
            return Some(match name {
                Some((id, name)) => {
                    (found.named(name).instance(format!("page {}", id.number)), Holds::WithContents)
                }
                None => (found.named("empty"), Holds::WithContents),
            });
        }
        if let Some((found, is_stack)) = self.threads.at(address) {
            return Some((found, if is_stack { Holds::WhileMapped } else { Holds::WithContents }));
        }
        if let Some(redo) = self.redo.as_ref().filter(|redo| redo.contains(&address.0)) {
            let found = Found::new("redo log", VirtualAddress(redo.start), redo.end - redo.start);
            return Some((found.named("buffer"), Holds::WhileMapped));
        }
        let MariaDb { server, mappings, sizes, heaps, classes, threads, unknown: unknown_lines, .. } = self;
        let mut size = |path: &Path| {
            let known = sizes.entry(path.to_owned());
            *known.or_insert_with(|| loaded_size(&server.memory.file(path)))
        };
        let region = region_of(&server.program, mappings, None, address, &mut size);
        let holds = if region.is_lasting() { Holds::Always } else { Holds::WhileMapped };
        match region {
            Region::Known(found) => Some((found, holds)),
            Region::Private(mapping) => {
                Some(match heaps.at(server, classes, threads.sessions(), &mapping, address) {
                    Some(found) => (found, Holds::WithContents),
                    None => {
                        let found = unknown(&mapping, address);
                        unknown_lines.insert(found.start);
                        (found, holds)
                    }
                })
            }
            Region::Nothing => None,
        }
    }

    fn see_elsewhere(&mut self, access: &Access, now: Timestamp) {
        let (pid, address) = (Some(self.pid()), access.address);
        // The accessed memory can be read, so a heap has grown since the mappings were read.
        let stale = self.mappings.at(address).is_none_or(|mapping| !mapping.readable);
        if stale && self.mapped.elapsed() >= MAPPINGS_PAUSE {
            self.mappings = self.server.mappings();
            self.mapped = Instant::now();
        }
        let Some((found, holds)) = self.elsewhere(address) else {
            self.unmapped += 1;
            return;
        };
        let begin = match holds {
            Holds::Always => self.attached,
            Holds::WhileMapped => access.time.min(now),
            Holds::WithContents => now,
        };
        let Some(id) = self.facts.begin(pid, &found, None, (begin, now)) else { return };
        match holds {
            Holds::Always => self.facts.make_lasting(id),
            _ => self.watched.push((id, address)),
        }
    }

    /// Reads mappings and threads again, unless they were read just before.
    fn refresh(&mut self) {
        if self.read.elapsed() >= self.pause {
            self.look();
        }
    }

    fn look(&mut self) {
        let begun = Instant::now();
        self.mappings = self.server.mappings();
        self.mapped = begun;
        self.unknown.clear();
        self.threads.look(&self.server, &self.mappings);
        self.heaps.begin_look();
        self.read = Instant::now();
        self.pause = PAUSE.max(begun.elapsed() * PAUSE_PER_COST);
    }

    /// Whether the known object of an address applies to a sample; such a sample confirms lasting objects.
    fn is_known(&mut self, access: &Access, carried: Option<&Identity>) -> bool {
        let pid = Some(self.pid());
        let known = self.facts.at(pid, access.address).and_then(|(id, fact)| {
            let same = match (&fact.state, carried) {
                (Some(state), Some(carried)) => state.bytes == carried.bytes(),
                (None, None) => true,
                _ => false,
            };
            // A later reading may identify memory that was unknown before.
            let looked_at = !self.facts.is_of(id, NOTHING_KNOWN) || self.unknown.contains(&fact.start);
            (same && looked_at).then_some(id)
        });
        known.inspect(|id| self.facts.touch(*id, access.time)).is_some()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let mut count = |number: u64, what: &str| {
            if number > 0 {
                remarks.push(format!("{number} {what}"));
            }
        };
        count(self.facts.left_out, "memory ranges were not recorded: their limit was reached");
        count(self.unmapped, "addresses were no longer mapped when they were resolved");
        if self.dictionary.is_empty() {
            remarks.push(
                "InnoDB's dictionary could not be read: pages have the names of tablespaces only; run as root or as \
                 the server's account"
                    .into(),
            );
        }
        if self.server.sessions.is_none() {
            remarks.push(
                "the location of statements in this server's threads is unknown: samples have none".into(),
            );
        }
        if !self.server.memory.is_alive() {
            remarks.push(
                "the server ended while it was recorded; the capture has what was found until then".into(),
            );
        }
        remarks
    }
}

/// How long a finding is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    /// As long as the server runs.
    Always,
    /// As long as the memory is mapped, as it was at the sample.
    WhileMapped,
    /// As long as the contents are unchanged: they may have changed since the sample.
    WithContents,
}

/// The position of a page in the tree of an index.
fn place_in_tree(level: u16) -> &'static str {
    if level == 0 {
        "leaf"
    } else {
        "inner"
    }
}

/// A page with its names in the dictionary; `None` if the dictionary has no such page.
fn found_page(
    dictionary: &Dictionary,
    id: PageId,
    kind: Kind,
    frame: VirtualAddress,
    size: u64,
) -> Option<Found> {
    let space = dictionary.space(id.space).map(str::to_string);
    let page = |class: &'static str| Found::new(class, frame, size).instance(format!("page {}", id.number));
    let part = |found: Found, part: &'static str| Found { part: part.into(), ..found };
    Some(match kind {
        Kind::Index { index, level } => match dictionary.index(index, id.space) {
            Some(index) => {
                let found = match index.clustered {
                    true => page("table").named(index.table.clone()),
                    false => page("index").named(format!("{}.{}", index.table, index.name)),
                };
                part(found, place_in_tree(level))
            }
            None if dictionary.is_temporary(id.space) => {
                part(page("table").named("temporary tables"), place_in_tree(level))
            }
            // A known tablespace, without the dictionary.
            None if dictionary.is_empty() => part(page("table").named(space?), place_in_tree(level)),
            None => return None,
        },
        Kind::Blob => part(page("table").named(space?), "blob page"),
        Kind::Undo => page("undo log").named(space?),
        Kind::Space(what) => part(page("tablespace").named(space?), what),
        Kind::System(what) => {
            space?;
            page("system page").named(what)
        }
        Kind::Other => part(page("tablespace").named(space?), "other page"),
    })
}

/// A frame without a page of the dictionary: free, being read, or used by InnoDB's internal structures.
fn no_page(frame: VirtualAddress, size: u64) -> Found {
    Found::new("buffer", frame, size).named("no page")
}

/// Class and name of unknown memory.
const NOTHING_KNOWN: (&str, &str) = ("private memory", "of unknown kind");

/// Private memory with a known place only. Only this line: its neighbours may be known better.
fn unknown(mapping: &Mapping, address: VirtualAddress) -> Found {
    const LINE: u64 = 64;
    let name = if mapping.name == "[heap]" { "heap" } else { NOTHING_KNOWN.1 };
    Found::new(NOTHING_KNOWN.0, VirtualAddress(address.0 / LINE * LINE), LINE).named(name)
}

impl ServerObjects for MariaDb {
    fn describe(&self) -> String {
        format!("MariaDB {} (process {})", self.server.version.trim_end_matches("-MariaDB"), self.pid())
    }

    fn state_rules(&self) -> Vec<StateRule> {
        let mut rules: Vec<StateRule> = self.server.sessions.iter().map(|sessions| sessions.rule()).collect();
        rules.extend(self.server.pool.region().map(|(region, size)| StateRule::Page {
            id: PAGE_STATE,
            region,
            size,
            page: ByteCount(self.server.pool.page),
            words: Identity::WORDS,
        }));
        rules
    }

    fn see(&mut self, accesses: &[Access]) {
        let now = clock();
        self.refresh();
        let pid = self.pid();
        for access in accesses.iter().filter(|access| access.pid == pid) {
            let slot = self.server.pool.slot(access.address);
            let state = access.states.iter().find(|(id, _)| *id == PAGE_STATE);
            let carried = state.and_then(|(_, bytes)| Identity::carried(bytes));
            match slot {
                Some(Slot::Frame(frame, descriptor)) => {
                    if !self.is_known(access, carried.as_ref()) {
                        self.see_frame(frame, descriptor, access, carried, now);
                    }
                }
                _ => {
                    if !self.is_known(access, None) {
                        self.see_elsewhere(access, now);
                    }
                }
            }
        }
    }

    fn look_again(&mut self, now: Timestamp) {
        if !self.server.memory.is_alive() {
            return;
        }
        self.look();
        let watched = std::mem::take(&mut self.watched);
        let mut room = MOST_AGAIN;
        for (id, address) in watched {
            if room == 0 {
                // Not checked this time: neither confirmed nor ended.
                self.watched.push((id, address));
                continue;
            }
            room -= 1;
            let found = match self.server.pool.slot(address) {
                Some(Slot::Frame(frame, descriptor)) => {
                    self.in_frame(frame, descriptor, address).map(|(found, _)| found)
                }
                _ => self.elsewhere(address).map(|(found, _)| found),
            };
            if found.is_some_and(|found| self.facts.says(id, &found)) {
                self.facts.confirm(id, now);
                self.watched.push((id, address));
            } else {
                self.facts.end(id);
            }
        }
    }

    fn finish(mut self: Box<Self>, now: Timestamp) -> ObjectNotes {
        self.look_again(now);
        let mut notes = ObjectNotes::new(self.describe());
        notes.remarks = self.remarks();
        let page_size = self.server.pool.page as u32;
        let pid = self.pid();
        let MariaDb { facts, relations, threads, .. } = *self;
        let (mut texts, all) = facts.into_inner();
        notes.facts = all;
        notes.pages = relations
            .iter()
            .map(|(relation, kind)| PageKind {
                relation: texts.number(relation),
                page_size,
                kind: texts.number(kind),
            })
            .collect();
        let role = |(tid, role)| ThreadRole { pid, tid, role: texts.number(role) };
        notes.thread_roles = threads.roles().into_iter().map(role).collect();
        notes.texts = texts.into_inner();
        notes
    }
}

// The head contains all words of the identity.
const _: () = assert!(Identity::WORDS[5] as usize + 4 <= HEAD);
