//! A PostgreSQL server while it is recorded: the implementation of this crate's interface for PostgreSQL.

use super::attach::{Server, ServerState};
use super::blocks::{Blocks, BufferPart};
use super::catalog::files::Files;
use super::catalog::Catalog;
use super::libraries::Libraries;
use super::marks::{self, Mark};
use super::private::PrivateMemory;
use super::processes::ServerProcesses;
use super::shared::buffers::Tag;
use super::shared::places::{Place, Places};
use super::shared::processes::Roles;
use super::statistics::counting::Counting;
use super::{BLOCK_STATE, DESCRIPTOR_STATE};
use crate::error::AttachError;
use crate::facts::{FactId, Facts};
use crate::found::{Found, PrivateObjects};
use crate::process_memory::Mapping;
use crate::regions::Region;
use crate::server::{clock, Access, Counted, ServerObjects};
use hardmeter_samples::model::{
    ByteCount, LastStatement, Pid, StateId, StateRule, Timestamp, VirtualAddress,
};
use hardmeter_samples::object_notes::{CodeMark, ObjectNotes, PageKind, ProcessRole};
use std::collections::HashMap;
use std::path::Path;

/// A server that is being read.
pub(crate) struct Postgres {
    server: Server,
    places: Places,
    roles: Roles,
    catalog: Catalog,
    blocks: Blocks,
    facts: Facts,
    processes: ServerProcesses,
    private: PrivateMemory,
    counting: Counting,
    libraries: Libraries,
    attached: Timestamp,
    /// Facts that hold as long as the server runs.
    fixed: Vec<FactId>,
    /// Facts of shared memory that may belong to another process later, and the address of each.
    passing: Vec<(FactId, VirtualAddress)>,
    /// Facts of one process, and the address of each; whether they depend on the contents of its memory.
    own: Vec<(FactId, Pid, VirtualAddress, bool)>,
    /// Private addresses that a later check may identify better, with the answer if none does.
    unsettled: HashMap<(Pid, VirtualAddress), (Found, Timestamp)>,
    unmapped: u64,
    /// The state of the server, once it is no longer the one that was attached to.
    ended: Option<ServerState>,
}

/// Limit of facts: about a hundred megabytes of side file.
const MOST_FACTS: usize = 500_000;
/// Limit of addresses that wait for a later check.
const MOST_UNSETTLED: usize = 20_000;
/// Limit of facts of private memory that one check confirms.
const MOST_PRIVATE: usize = 20_000;

impl Postgres {
    /// The place of the text that `pg_stat_activity` shows for an idle backend.
    fn last_statement(&self) -> Option<LastStatement> {
        let base = self.server.program.address("MyBEEntry")?;
        let offset = self.server.layout.offset("PgBackendStatus", "st_activity_raw").ok()?;
        Some(LastStatement { base, offset: ByteCount(offset) })
    }

    /// The place of a backend's query id, if `compute_query_id` enables it.
    fn query_id(&self) -> Option<StateRule> {
        self.status_word(StateId::SERVERS_STATEMENT, "st_query_id")
    }

    /// Eight bytes of a backend's entry in the table of their states.
    fn status_word(&self, id: StateId, field: &str) -> Option<StateRule> {
        let base = self.server.program.address("MyBEEntry")?;
        let offset = Some(ByteCount(self.server.layout.offset("PgBackendStatus", field).ok()?));
        Some(StateRule::Word { id, base, offset, length: 8 })
    }

    /// Attaches to the server to which a process belongs.
    pub fn attach(pid: Pid) -> Result<Postgres, AttachError> {
        let server = Server::attach(pid)?;
        let attached = clock();
        let fault = |missing: super::layout::Missing| AttachError::SelfTest {
            major: server.layout.major,
            reason: missing.to_string(),
        };
        let blocks = Blocks::new(&server, attached);
        let catalog = Catalog::new(&server, &Files::new(&server, blocks.tags())).map_err(fault)?;
        let private = PrivateMemory::new(&server.layout, &server.program).map_err(fault)?;
        let mut roles = Roles::default();
        roles.look(&server);
        Ok(Postgres {
            counting: Counting::begin(&server, &roles),
            places: Places::read(&server),
            libraries: Libraries::of(&server),
            facts: Facts::new(MOST_FACTS),
            processes: ServerProcesses::default(),
            fixed: Vec::new(),
            passing: Vec::new(),
            own: Vec::new(),
            unsettled: HashMap::new(),
            unmapped: 0,
            ended: None,
            server,
            roles,
            catalog,
            blocks,
            private,
            attached,
        })
    }

    /// The tag that a sample carries.
    fn carried(access: &Access) -> Option<Tag> {
        let ours = access.states.iter().find(|(id, _)| *id == BLOCK_STATE || *id == DESCRIPTOR_STATE);
        ours.and_then(|(_, bytes)| Tag::parse(bytes))
    }

    /// True if a known fact of an address also applies to a sample.
    fn is_known(&mut self, pid: Option<Pid>, access: &Access, carried: Option<&Tag>) -> bool {
        let Some((id, fact)) = self.facts.at(pid, access.address) else { return false };
        let known = match (carried, &fact.state) {
            (Some(tag), Some(state)) => state.bytes == tag.bytes(),
            (Some(_), None) => false,
            (None, _) => true,
        };
        if known {
            self.facts.touch(id, access.time);
        }
        known
    }

    fn see_shared(
        &mut self,
        access: &Access,
        now: Timestamp,
        buffers: &mut Vec<(u32, BufferPart, VirtualAddress, Timestamp, Option<Tag>)>,
    ) {
        let carried = Self::carried(access);
        if self.is_known(None, access, carried.as_ref()) {
            return;
        }
        let (address, time) = (access.address, access.time);
        match self.places.find(&self.server, &self.roles, address) {
            Place::Block(buffer) => buffers.push((buffer, BufferPart::Block, address, time, carried)),
            Place::Descriptor(buffer) => {
                buffers.push((buffer, BufferPart::Descriptor, address, time, carried))
            }
            Place::Waiting(buffer, start, length) => {
                buffers.push((buffer, BufferPart::Waiting(start, length), address, time, None));
            }
            Place::Fixed(found) => {
                let id = self.facts.begin(None, &found, None, (self.attached, now));
                id.iter().for_each(|id| self.facts.make_lasting(*id));
                self.fixed.extend(id);
            }
            Place::Passing(found) => {
                let id = self.facts.begin(None, &found, None, (now, now));
                self.passing.extend(id.map(|id| (id, address)));
            }
        }
    }

    fn see_own(&mut self, access: &Access, now: Timestamp) {
        let (pid, address) = (access.pid, access.address);
        if self.is_known(Some(pid), access, None) {
            return;
        }
        let was_ours = self.roles.of(pid).is_some();
        let region = self.processes.region(&self.server, pid, was_ours, access.stack_pointer, address);
        let Some(region) = region else {
            // It has ended; the earlier positions of its contexts are known.
            if let Some(found) = self.private.remembered(pid, address) {
                self.facts.begin(Some(pid), &found, None, (access.time.min(now), now));
            }
            return;
        };
        let lasting = region.is_lasting();
        let (found, by_contents) = match region {
            Region::Known(found) => (found, false),
            Region::Nothing => {
                self.unmapped += 1;
                return;
            }
            Region::Private(mapping) => {
                let Some(process) = self.processes.get(&self.server, pid) else { return };
                match self.private.find(&process.memory, &mapping, address) {
                    Some(found) if self.private.is_provisional(&found) => {
                        if self.unsettled.len() < MOST_UNSETTLED {
                            self.unsettled.entry((pid, address)).or_insert((found, now));
                        }
                        return;
                    }
                    Some(found) => (found, true),
                    None => (unknown_private(&mapping, address), false),
                }
            }
        };
        self.roles.learn(&self.server, pid);
        self.counting.saw(&self.server, &self.roles, pid);
        let begin = match () {
            () if lasting => self.attached,
            () if by_contents => now,
            // A mapping does not change while it exists; it existed at the sample.
            () => access.time.min(now),
        };
        let Some(id) = self.facts.begin(Some(pid), &found, None, (begin, now)) else { return };
        if lasting {
            self.facts.make_lasting(id);
        }
        self.own.push((id, pid, address, by_contents));
    }

    /// Checks addresses again that were sampled before their memory had been read; those still unknown keep
    /// their first answer.
    fn settle(&mut self, now: Timestamp) {
        for ((pid, address), (provisional, seen)) in std::mem::take(&mut self.unsettled) {
            let process = self.processes.get(&self.server, pid);
            let found = match process.and_then(|process| Some((process, process.mappings.at(address)?))) {
                Some((process, mapping)) => self.private.find(&process.memory, mapping, address),
                None => self.private.remembered(pid, address),
            };
            let found = found.unwrap_or(provisional);
            if let Some(id) = self.facts.begin(Some(pid), &found, None, (seen, now)) {
                self.own.push((id, pid, address, true));
            }
        }
    }

    fn look_at_private(&mut self, now: Timestamp) {
        self.private.begin_look();
        self.settle(now);
        for memory in self.processes.remove_ended() {
            self.private.forget(&memory);
        }
        let mut room = MOST_PRIVATE;
        let Postgres { own, processes, private, facts, server, .. } = self;
        own.retain(|(id, pid, address, by_contents)| {
            let Some(process) = processes.get(server, *pid) else {
                // Its facts stay recorded; its number may be reused.
                facts.end(*id);
                return false;
            };
            if !by_contents {
                facts.confirm(*id, now);
                return true;
            }
            if room == 0 {
                return true;
            }
            room -= 1;
            let mapping = process.mappings.at(*address);
            let found = mapping.and_then(|mapping| private.find(&process.memory, mapping, *address));
            let holds = found.is_some_and(|found| facts.says(*id, &found));
            if holds {
                facts.confirm(*id, now);
            } else {
                facts.end(*id);
            }
            holds
        });
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.server.remarks.clone();
        remarks.extend(self.libraries.remarks.iter().cloned());
        let mut count = |number: u64, what: &str| {
            if number > 0 {
                remarks.push(format!("{number} {what}"));
            }
        };
        count(self.facts.left_out, "memory ranges were not recorded: their limit was reached");
        count(
            self.processes.ended,
            "addresses were of processes that had ended before they could be resolved",
        );
        count(self.unmapped, "addresses were no longer mapped when they were resolved");
        match self.ended {
            Some(ServerState::Restarted) => remarks.push(
                "the server restarted while it was recorded, as after the crash of a backend, and made new shared \
                 memory: objects are known only for the time before, transactions and rows were not counted; \
                 see the server's log, then record again"
                    .into(),
            ),
            Some(_) => remarks
                .push("the server ended while it was recorded; the capture has what was found until then".into()),
            None => {}
        }
        remarks
    }

    /// True if the server is the one that was attached to, with the same shared memory: otherwise earlier
    /// facts are invalid.
    fn is_same(&mut self) -> bool {
        if self.ended.is_none() {
            match self.server.state() {
                ServerState::Same => return true,
                ServerState::Unclear => {}
                ended => self.ended = Some(ended),
            }
        }
        false
    }
}

/// Private memory without a known object. Covers this line only: its neighbours may be identified
/// better.
fn unknown_private(mapping: &Mapping, address: VirtualAddress) -> Found {
    const LINE: u64 = 64;
    let name = if mapping.name == "[heap]" { "heap" } else { "anonymous" };
    Found::new("private memory", VirtualAddress(address.0 / LINE * LINE), LINE).named(name)
}

impl ServerObjects for Postgres {
    fn describe(&self) -> String {
        format!("PostgreSQL {} (process {})", self.server.version, self.server.memory.pid())
    }

    fn state_rules(&self) -> Vec<StateRule> {
        let buffers = &self.server.buffers;
        let tag = |id, region, stride| StateRule::Entry {
            id,
            region,
            size: ByteCount(u64::from(buffers.count) * stride),
            stride: ByteCount(stride),
            table: buffers.descriptors,
            table_stride: ByteCount(buffers.stride),
            length: super::shared::buffers::TAG_LENGTH as u32,
        };
        let statement = self.server.program.address("debug_query_string");
        let last = self.last_statement();
        let mut rules: Vec<StateRule> =
            statement.into_iter().map(|pointer| StateRule::Statement { pointer, last }).collect();
        rules.extend(self.query_id());
        rules.push(tag(BLOCK_STATE, buffers.blocks, buffers.block_size));
        rules.push(tag(DESCRIPTOR_STATE, buffers.descriptors, buffers.stride));
        rules.extend(self.status_word(StateId::STATEMENT_START, "st_activity_start_timestamp"));
        rules
    }

    fn see(&mut self, accesses: &[Access]) {
        if !self.is_same() {
            return;
        }
        let now = clock();
        let mut buffers = Vec::new();
        for access in accesses {
            self.libraries.look_at(&self.server, access.pid);
            if self.server.segment.contains(&access.address) {
                self.see_shared(access, now, &mut buffers);
            } else {
                self.see_own(access, now);
            }
        }
        if !buffers.is_empty() {
            self.blocks.see(&self.server, &mut self.catalog, &mut self.facts, &buffers, now);
        }
    }

    fn look_again(&mut self, now: Timestamp) {
        if !self.is_same() {
            return;
        }
        self.roles.look(&self.server);
        self.counting.look(&self.server, &self.roles);
        self.libraries.look_around(&self.server);
        for id in &self.fixed {
            self.facts.confirm(*id, now);
        }
        let Postgres { passing, places, facts, server, roles, .. } = self;
        passing.retain(|(id, address)| {
            let holds = match places.find(server, roles, *address) {
                Place::Passing(found) | Place::Fixed(found) => facts.says(*id, &found),
                _ => false,
            };
            if holds {
                facts.confirm(*id, now);
            } else {
                facts.end(*id);
            }
            holds
        });
        self.blocks.look_again(&self.server, &mut self.catalog, &mut self.facts, now);
        self.look_at_private(now);
    }

    fn counted(&mut self) -> Counted {
        if !self.is_same() {
            return Counted::default();
        }
        let counted = self.counting.end(&self.server, &mut self.roles, &self.catalog);
        // Data that was read while it ended or restarted is discarded.
        if self.is_same() {
            counted
        } else {
            Counted::default()
        }
    }

    fn finish(mut self: Box<Self>, now: Timestamp) -> ObjectNotes {
        self.look_again(now);
        if self.ended.is_none() && self.server.state() == ServerState::Unclear {
            self.ended = Some(ServerState::Ended);
        }
        let mut notes = ObjectNotes::new(self.describe());
        notes.remarks = self.remarks();
        let block_size = self.server.buffers.block_size as u32;
        let Postgres { facts, roles, blocks, server, libraries, .. } = *self;
        let (mut texts, all) = facts.into_inner();
        notes.facts = all;
        let mut known: Vec<_> = roles.all().collect();
        known.sort_unstable();
        notes.roles =
            known.into_iter().map(|(pid, role)| ProcessRole { pid, role: texts.number(role) }).collect();
        let mut mark = |image: &Path, marks: Vec<Mark>| {
            let image = texts.number(&image.to_string_lossy());
            notes.marks.extend(marks.into_iter().map(|mark| CodeMark {
                image,
                start: mark.range.start,
                end: mark.range.end,
                kind: mark.kind,
                name: texts.number(mark.name),
            }));
        };
        mark(&server.program.path, marks::of(&server.program));
        libraries.all().for_each(|(library, marks)| mark(&library, marks));
        notes.pages = blocks
            .relations
            .iter()
            .map(|(relation, kind)| PageKind {
                relation: texts.number(relation),
                page_size: block_size,
                kind: texts.number(kind),
            })
            .collect();
        notes.texts = texts.into_inner();
        notes
    }
}
