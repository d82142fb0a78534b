//! Facts of the side file, found by address, state and time; and the fallback without a fact.

use super::data_map::{DataArea, DataMap, OperandField};
use super::processes::ServerProcesses;
use super::range_tree::{Range, RangeTree};
use super::texts::Texts;
use super::{Object, ObjectSource};
use hardmeter_samples::model::{
    Architecture, CpuMode, MemoryOperation, Pid, Record, Sample, SimulatedDetail, StateId, Tid, Timestamp,
    VirtualAddress,
};
use hardmeter_samples::object_notes::{ObjectNotes, ObjectPath, TextId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A fact of the side file, its texts renumbered.
#[derive(Clone, Debug)]
struct Fact {
    length: u64,
    seen: (Timestamp, Timestamp),
    state: Option<(StateId, Box<[u8]>)>,
    path: ObjectPath,
    origin: VirtualAddress,
}

impl Fact {
    fn object(&self, stable: bool) -> Object {
        Object { path: self.path, origin: self.origin, source: ObjectSource::Notes, stable }
    }
}

/// The evidence that a fact was true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToldBy {
    /// The server's state, read with the sample.
    State,
    /// The observations before and after.
    Time,
}

/// How a fact relates to the time of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The server's state, read with the sample, contradicts it.
    Refuted,
    /// It held at that time.
    Holds(ToldBy),
    /// It was observed this many nanoseconds before or after.
    Apart(u64),
}

/// Capacity of the cache of answers, which is cleared when full: more than the hot addresses of a capture.
const REMEMBERED: usize = 1 << 18;

/// Leaf functions use this much below the stack pointer (System V ABI, AMD64: the red zone).
const RED_ZONE: u64 = 128;
/// A stack is not larger than this, the usual `ulimit -s`.
const STACK_AT_MOST: u64 = 8 << 20;

/// Go places its arenas here, and no other allocator does: heap and goroutine stacks, side by side. The stack
/// pointer does not distinguish them.
const GO_ARENAS: std::ops::Range<u64> = 0xc0_0000_0000..0xe0_0000_0000;

/// Maximum size of a variable whose offsets are taken for fields if there is no debug information; in larger
/// ones they are taken for array elements.
const STRUCT_AT_MOST: u64 = 1024;

/// Classes that describe only how memory was mapped. A name in them ("heap", "outside memory contexts") is a
/// place, not an object.
pub(super) const UNSPECIFIC: [&str; 6] =
    ["shared memory", "heap", "anonymous memory", "private memory", "memory", "unknown"];

/// Names the objects of a capture. Call [`ObjectIndex::observe`] with all records in order, and query between
/// them.
#[derive(Clone, Debug)]
pub struct ObjectIndex {
    texts: Texts,
    facts: Vec<Fact>,
    shared: RangeTree,
    private: FxHashMap<Pid, RangeTree>,
    processes: ServerProcesses,
    /// Facts by process and address, shortest first.
    remembered: FxHashMap<(Pid, u64), Box<[u32]>>,
    has_notes: bool,
    /// The numbers of [`UNSPECIFIC`].
    unspecific: [TextId; UNSPECIFIC.len()],
    /// The number of "stack".
    stack: TextId,
    /// The stack pointer's number among the registers of the recorded machine.
    stack_pointer: Option<u32>,
}

impl ObjectIndex {
    /// An index over a side file on objects. Without one, symbols and mappings answer.
    pub fn new(notes: Option<&ObjectNotes>) -> Self {
        let mut texts = Texts::new();
        let mut index = ObjectIndex {
            unspecific: UNSPECIFIC.map(|class| texts.number(class)),
            stack: texts.number("stack"),
            stack_pointer: Some(Architecture::X86_64.stack_pointer()),
            texts,
            facts: Vec::new(),
            shared: RangeTree::default(),
            private: FxHashMap::default(),
            processes: ServerProcesses::default(),
            remembered: FxHashMap::default(),
            has_notes: notes.is_some(),
        };
        if let Some(notes) = notes {
            index.take(notes);
        }
        index
    }

    /// For samples of another machine than an x86-64 one: the architecture in the capture's header.
    pub fn of_machine(mut self, architecture: Option<&str>) -> Self {
        if let Some(name) = architecture {
            self.stack_pointer = Architecture::of_header(name).map(Architecture::stack_pointer);
        }
        self
    }

    fn take(&mut self, notes: &ObjectNotes) {
        let numbers: Vec<TextId> = notes.texts.iter().map(|text| self.texts.number(text)).collect();
        // The file is untrusted: a number beyond the texts is the empty text.
        let number = |id: TextId| numbers.get(id.0 as usize).copied().unwrap_or(TextId(0));
        let mut shared = Vec::new();
        let mut private: FxHashMap<Pid, Vec<Range>> = FxHashMap::default();
        for fact in &notes.facts {
            let end = fact.start.0.saturating_add(fact.length.0);
            if end == fact.start.0 {
                continue;
            }
            let range = (fact.start.0, end, self.facts.len() as u32);
            match fact.pid {
                Some(pid) => private.entry(pid).or_default().push(range),
                None => shared.push(range),
            }
            self.facts.push(Fact {
                length: fact.length.0,
                seen: fact.seen,
                state: fact.state.as_ref().map(|state| (state.id, state.bytes.clone().into())),
                path: ObjectPath {
                    class: number(fact.path.class),
                    name: number(fact.path.name),
                    instance: number(fact.path.instance),
                    part: number(fact.path.part),
                },
                origin: fact.origin,
            });
        }
        self.shared = RangeTree::new(shared);
        private.keys().for_each(|pid| self.processes.name(*pid, None));
        self.private = private.into_iter().map(|(pid, ranges)| (pid, RangeTree::new(ranges))).collect();
        for role in &notes.roles {
            self.processes.name(role.pid, Some(number(role.role)));
        }
        for role in &notes.thread_roles {
            self.processes.name_thread(role.pid, role.tid, number(role.role));
        }
    }

    /// True if a server's memory was observed during the recording.
    pub fn has_notes(&self) -> bool {
        self.has_notes
    }

    /// Processes a record: tracks which processes belong to the server.
    pub fn observe(&mut self, record: &Record<'_>) {
        self.processes.observe(record);
    }

    /// A text by its number.
    pub fn text(&self, id: TextId) -> &Arc<str> {
        self.texts.text(id)
    }

    /// The role of a process in the server: "client backend", "checkpointer".
    pub fn role(&self, pid: Pid) -> Option<&Arc<str>> {
        self.processes.role(pid).map(|id| self.texts.text(id))
    }

    /// The role of a thread, or of its process.
    pub fn role_of_thread(&self, pid: Pid, tid: Tid) -> Option<&Arc<str>> {
        self.processes.role_of_thread(pid, tid).map(|id| self.texts.text(id))
    }

    /// The number of the text of the role of a sample's thread or process in the server.
    pub fn role_of(&self, sample: &Sample<'_>) -> Option<TextId> {
        let pid = sample.pid?;
        self.processes.role_of_thread(pid, sample.tid.unwrap_or(Tid(pid.0)))
    }

    /// The number of a text; a new text gets a new number.
    pub(crate) fn number(&mut self, text: &str) -> TextId {
        self.texts.number(text)
    }

    /// The text of an object: class, name, instance, part.
    pub fn describe(&self, path: ObjectPath) -> String {
        let levels = [path.class, path.name, path.instance, path.part];
        let texts = levels.iter().map(|id| &**self.text(*id)).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join(" ")
    }

    /// True if an object's name is more than a kind of memory such as "shared memory" or "heap".
    pub fn is_specific(&self, path: ObjectPath) -> bool {
        !self.unspecific.contains(&path.class)
    }

    /// True if an address lies near the stack pointer of the sample's thread.
    fn near_stack(&self, sample: &Sample<'_>, address: VirtualAddress) -> bool {
        let registers = sample.registers.as_ref().or(sample.user_registers.as_ref());
        let pointer = registers.and_then(|registers| registers.get_index(self.stack_pointer?));
        pointer.filter(|pointer| !GO_ARENAS.contains(pointer)).is_some_and(|pointer| {
            address.0 >= pointer.saturating_sub(RED_ZONE)
                && address.0 - pointer.min(address.0) < STACK_AT_MOST
        })
    }

    /// The object at a sample's data address; `None` if it has no address.
    ///
    /// `map` answers where the side file has no fact.
    pub fn of_sample<M: DataMap>(&mut self, sample: &Sample<'_>, map: &mut M) -> Option<Object> {
        let address = sample.address?;
        let raw = sample.raw.unwrap_or_default();
        let detail = SimulatedDetail::decode(raw);
        // A simulated sample's own time is simulated, but facts use the wall clock.
        let time = detail.map(|detail| detail.wall_time).or(sample.time);
        let fact = sample.pid.and_then(|pid| {
            let state = |wanted| SimulatedDetail::states(raw).find(|(id, _)| *id == wanted).map(|(_, b)| b);
            self.find(pid, address, time, state)
        });
        if fact.is_some_and(|fact| self.is_specific(fact.path)) {
            return fact;
        }
        if let Some(block) = detail.and_then(|detail| detail.heap_block) {
            let site = map.allocation_site(sample.pid, block.site);
            let field = operand(sample, map).map(|operand| operand.to_string());
            let part = field.unwrap_or_else(|| plus(address.0.wrapping_sub(block.start.0)));
            let path = self.path("heap block", &site, &format!("{} bytes", block.size), &part);
            return Some(Object {
                path,
                origin: block.start,
                source: ObjectSource::Allocation,
                stable: true,
            });
        }
        if sample.data_source.is_some_and(|source| source.operation() == MemoryOperation::Execute) {
            let routine = map.code(sample.pid, address);
            let path = self.path("code", &routine, "", "");
            return Some(Object { path, origin: address, source: ObjectSource::Symbols, stable: true });
        }
        let area = match map.data(sample.pid, address) {
            // The software PMU records mappings of files and of shared memory: all other memory is private.
            DataArea::Unknown if detail.is_some() => DataArea::Anonymous,
            area => area,
        };
        let nameless = matches!(area, DataArea::Anonymous | DataArea::Unknown);
        // The side file contains the stacks: an address with another name is not on a stack.
        let on_stack = nameless && fact.is_none() && self.near_stack(sample, address);
        let area = if on_stack { DataArea::Stack } else { area };
        let by_mapping = match area {
            // The side file had the same information, at the right time.
            DataArea::Anonymous | DataArea::Unknown | DataArea::Heap | DataArea::SharedMemory { .. }
                if fact.is_some() =>
            {
                return fact
            }
            area => self.of_area(address, area),
        };
        if self.is_specific(by_mapping.path) && by_mapping.path.class != self.stack {
            return Some(by_mapping);
        }
        // Only the kind of memory is known; the instruction may give the type.
        Some(match operand(sample, map) {
            Some(OperandField { owner, field }) => {
                let mapped = by_mapping.path;
                let class = match self.is_specific(mapped) {
                    true => mapped.class,
                    false => {
                        let class = format!("object in {}", self.text(mapped.class));
                        self.number(&class)
                    }
                };
                let (name, part) = (self.number(&owner), self.number(&field));
                let path = ObjectPath { class, name, part, ..mapped };
                Object { path, source: ObjectSource::Symbols, ..by_mapping }
            }
            None => by_mapping,
        })
    }

    /// The object at an address by the side file alone: `state` returns the bytes that a state rule read at
    /// the sample.
    pub fn lookup(
        &mut self,
        pid: Pid,
        address: VirtualAddress,
        time: Option<Timestamp>,
        states: &[(StateId, &[u8])],
    ) -> Option<Object> {
        let state = |wanted| states.iter().find(|(id, _)| *id == wanted).map(|(_, bytes)| *bytes);
        self.find(pid, address, time, state)
    }

    /// The shortest range with a fact that held. A fact observed at another time still names the address,
    /// unless a longer range held at the time and the two were never observed together:
    ///
    /// ```text
    ///   time      5 ... 9            100 .. 150 .. 200
    ///   [chunk A ........]
    ///   [              chunk B        ................]
    ///   [..............  buffer pool  ................]
    /// ```
    ///
    /// A sample at 150 is named B: A's block was freed, and another chunk has its memory. The buffer pool
    /// alone would not refute A, because it held A's memory then and still does.
    fn find<'s>(
        &mut self,
        pid: Pid,
        address: VirtualAddress,
        time: Option<Timestamp>,
        state: impl Fn(StateId) -> Option<&'s [u8]>,
    ) -> Option<Object> {
        if self.facts.is_empty() {
            return None;
        }
        self.remember(pid, address);
        let candidates = &self.remembered[&(pid, address.0)];
        let mut facts = candidates.iter().map(|number| &self.facts[*number as usize]);
        let mut nearest: Option<(&Fact, u64)> = None;
        while let Some(fact) = facts.next() {
            match standing(fact, time, &state) {
                Standing::Refuted => {}
                Standing::Holds(_) if nearest.is_some_and(|(near, _)| names_better(near, fact)) => break,
                Standing::Holds(told_by) => {
                    // Two names for one range at one time, and no state to choose between them.
                    let mut rivals = facts.by_ref().take_while(|rival| rival.length == fact.length);
                    let disputed = told_by == ToldBy::Time
                        && rivals.any(|rival| {
                            rival.path != fact.path
                                && matches!(standing(rival, time, &state), Standing::Holds(_))
                        });
                    return Some(fact.object(!disputed));
                }
                Standing::Apart(distance) => {
                    let nearer = |(best, least): (&Fact, u64)| fact.length == best.length && distance < least;
                    if nearest.is_none_or(nearer) {
                        nearest = Some((fact, distance));
                    }
                }
            }
        }
        nearest.map(|(fact, _)| fact.object(false))
    }

    /// Loads the facts about an address into the cache, shortest first.
    fn remember(&mut self, pid: Pid, address: VirtualAddress) {
        if self.remembered.contains_key(&(pid, address.0)) {
            return;
        }
        let mut found = Vec::new();
        if let Some(private) = self.private.get(&pid) {
            private.containing(address.0, &mut found);
        }
        if self.processes.contains(pid) {
            self.shared.containing(address.0, &mut found);
        }
        found.sort_unstable_by_key(|number| (self.facts[*number as usize].length, *number));
        if self.remembered.len() >= REMEMBERED {
            self.remembered.clear();
        }
        self.remembered.insert((pid, address.0), found.into());
    }

    fn of_area(&mut self, address: VirtualAddress, area: DataArea) -> Object {
        let mut origin = address;
        let mut source = ObjectSource::Mapping;
        let mut stable = true;
        let path = match area {
            DataArea::Variable { name, image, offset, size, field } => {
                origin = VirtualAddress(address.0.wrapping_sub(offset));
                source = ObjectSource::Symbols;
                let (element, part) = match field {
                    Some(field) => {
                        let (way, elements) = without_indices(&field);
                        (elements, format!("field {way}"))
                    }
                    None if size > STRUCT_AT_MOST => (plus(offset), String::new()),
                    None => (String::new(), plus(offset)),
                };
                let instance = format!("{} {element}", file_name(&image));
                self.path("global variable", &name, instance.trim_end(), &part)
            }
            DataArea::Section { name, image } => {
                source = ObjectSource::Symbols;
                self.path("static data", &format!("{} {name}", file_name(&image)), "", "")
            }
            DataArea::Stack => self.path("stack", "", "", ""),
            DataArea::Heap => self.path("heap", "", "", ""),
            DataArea::SharedMemory { name } => self.path("shared memory", "", &name, ""),
            DataArea::File { path } => self.path("file", &path, "", ""),
            DataArea::Anonymous => self.path("anonymous memory", "", "", ""),
            DataArea::Kernel { name } => self.path("kernel", name.as_deref().unwrap_or_default(), "", ""),
            DataArea::Unknown => {
                stable = false;
                self.path("unknown", "", "", "")
            }
        };
        Object { path, origin, source, stable }
    }

    fn path(&mut self, class: &str, name: &str, instance: &str, part: &str) -> ObjectPath {
        let mut number = |text| self.texts.number(text);
        ObjectPath {
            class: number(class),
            name: number(name),
            instance: number(instance),
            part: number(part),
        }
    }
}

fn standing<'s>(
    fact: &Fact,
    time: Option<Timestamp>,
    state: &impl Fn(StateId) -> Option<&'s [u8]>,
) -> Standing {
    if let Some((id, bytes)) = &fact.state {
        match state(*id) {
            Some(read) if *read == **bytes => return Standing::Holds(ToldBy::State),
            Some(_) => return Standing::Refuted,
            None => {}
        }
    }
    let (first, last) = fact.seen;
    match time {
        Some(time) if time < first => Standing::Apart(first.0 - time.0),
        Some(time) if time > last => Standing::Apart(time.0 - last.0),
        Some(_) => Standing::Holds(ToldBy::Time),
        None => Standing::Apart(0),
    }
}

/// True if a fact observed at another time names an address better than a longer range that held. This is so
/// if the two were once observed together, because then the longer one is only less exact.
fn names_better(near: &Fact, holding: &Fact) -> bool {
    let together = near.seen.0 <= holding.seen.1 && holding.seen.0 <= near.seen.1;
    near.length < holding.length && together
}

/// The type and field of the sampled instruction's memory operand, if the sample is precise enough.
fn operand<M: DataMap>(sample: &Sample<'_>, map: &mut M) -> Option<OperandField> {
    let user = matches!(sample.mode, CpuMode::User | CpuMode::GuestUser);
    map.operand(sample.pid, sample.ip.filter(|_| user && sample.exact_ip)?)
}

fn plus(offset: u64) -> String {
    if offset == 0 {
        String::new()
    } else {
        format!("+{offset:#x}")
    }
}

/// Splits a field path into the path without array indices and the indices: `counters[3].hits` gives
/// `counters[].hits` and `[3]`.
fn without_indices(way: &str) -> (String, String) {
    let (mut folded, mut indices, mut inside) = (String::new(), String::new(), false);
    for c in way.chars() {
        inside = (inside || c == '[') && c != ']';
        if c == '[' || c == ']' || !inside {
            folded.push(c);
        }
        if inside || c == ']' {
            indices.push(c);
        }
    }
    (folded, indices)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
