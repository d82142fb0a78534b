//! A program with a runtime while it is recorded.
//!
//! Unlike a server's buffers, these runtimes reuse memory within milliseconds: a page of Go's heap becomes a
//! stack, a block of Python's another object. So every sample is looked up, not each address once.

use super::runtime::Runtime;
use super::{is_command, recognise};
use crate::error::AttachError;
use crate::facts::Facts;
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::{files_of, Program};
use crate::server::{clock, Access, ServerObjects};
use crate::thread_stacks::ThreadStacks;
use hardmeter_samples::model::{Pid, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::ObjectNotes;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// Limit of facts, as PostgreSQL's.
const MOST_FACTS: usize = 500_000;
/// Least time between two reads of the runtime; it is also at least five times as long as the read took.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_PER_COST: u32 = 5;
/// Minimum time between two readings of the mappings alone.
const MAPPINGS_PAUSE: Duration = Duration::from_millis(2);
/// Minimum time between two searches for threads; it is also at least twenty times the duration of a search.
const THREADS_PAUSE: Duration = Duration::from_millis(200);
const THREADS_PAUSE_PER_COST: u32 = 20;
/// Space below the stack pointer that a function may use without moving it.
const RED_ZONE: u64 = 128;
/// A stack that the C library did not make is not larger than this, the usual `ulimit -s`.
const STACK_LIMIT: u64 = 8 << 20;

/// The time of the next reading.
#[derive(Debug)]
struct Pause {
    since: Instant,
    length: Duration,
}

impl Pause {
    fn is_over(&self) -> bool {
        self.since.elapsed() >= self.length
    }

    /// Waits from now on, after work that began at `begun`.
    fn begin(&mut self, begun: Instant, least: Duration, per_cost: u32) {
        self.since = Instant::now();
        self.length = least.max(begun.elapsed() * per_cost);
    }
}

/// A program whose runtime is observed.
pub(crate) struct RuntimeProgram {
    memory: ProcessMemory,
    runtime: Box<dyn Runtime>,
    mappings: Mappings,
    mapped: Instant,
    pause: Pause,
    /// `None` for a program without the C library.
    threads: Option<ThreadStacks>,
    /// The address at which the C library stores the end of the program's heap (`sbrk`).
    end_of_heap: Option<VirtualAddress>,
    threads_pause: Pause,
    facts: Facts,
    unmapped: u64,
}

impl RuntimeProgram {
    /// Attaches to a process that runs the command of a runtime; `None` for another one.
    ///
    /// # Errors
    ///
    /// [`AttachError::RuntimeNotReady`] if the runtime has no heap yet; [`AttachError::Memory`] as `attach`.
    pub fn attach_by_name(pid: Pid) -> Result<Option<RuntimeProgram>, AttachError> {
        let memory = ProcessMemory::open(pid)?;
        if !is_command(&memory.mappings()?) {
            return Ok(None);
        }
        RuntimeProgram::attach(pid)?.map(Some).ok_or(AttachError::RuntimeNotReady { pid })
    }

    /// Attaches to a process; `None` if it has no runtime that is known.
    ///
    /// # Errors
    ///
    /// [`AttachError::Memory`] if the process has ended or may not be read.
    pub fn attach(pid: Pid) -> Result<Option<RuntimeProgram>, AttachError> {
        let memory = ProcessMemory::open(pid)?;
        let mappings = memory.mappings()?;
        let Some(runtime) = recognise(&memory, &mappings) else { return Ok(None) };
        let is_libc = |path: &Path| path.file_name().is_some_and(|name| name == "libc.so.6");
        let libc = files_of(&mappings, is_libc).into_iter().next();
        let has_libc = libc.is_some();
        let end_of_heap =
            libc.and_then(|path| Program::loaded_from(&memory, &mappings, path)?.address("__curbrk"));
        let now = || Pause { since: Instant::now(), length: Duration::ZERO };
        let mut program = RuntimeProgram {
            threads: has_libc.then(ThreadStacks::default),
            end_of_heap,
            memory,
            runtime,
            mappings,
            mapped: Instant::now(),
            pause: now(),
            threads_pause: now(),
            facts: Facts::new(MOST_FACTS),
            unmapped: 0,
        };
        program.look();
        Ok(Some(program))
    }

    fn read_mappings(&mut self) {
        // A process that has ended has no mappings: the last known ones stay.
        let mappings = self.memory.mappings().ok().filter(|mappings| mappings.iter().next().is_some());
        if let Some(mappings) = mappings {
            self.mappings = mappings;
        }
        self.mapped = Instant::now();
    }

    fn look(&mut self) {
        let begun = Instant::now();
        self.read_mappings();
        self.runtime.look(&self.memory, &self.mappings);
        self.pause.begin(begun, PAUSE, PAUSE_PER_COST);
        if let Some(threads) = self.threads.as_mut().filter(|_| self.threads_pause.is_over()) {
            let begun = Instant::now();
            threads.look(&self.memory, &self.mappings);
            self.threads_pause.begin(begun, THREADS_PAUSE, THREADS_PAUSE_PER_COST);
        }
    }

    /// The object at the address of a sample. `None`: a file, which the symbol tables name, or nothing.
    fn lookup(&mut self, access: &Access) -> Option<Found> {
        let address = access.address;
        // The accessed memory can be read, so it was mapped after the mappings were read.
        let stale = self.mappings.at(address).is_none_or(|mapping| !mapping.readable);
        if stale && self.mapped.elapsed() >= MAPPINGS_PAUSE {
            self.read_mappings();
        }
        let Some(mapping) = self.mappings.at(address) else {
            self.unmapped += 1;
            return None;
        };
        if mapping.name == "[stack]" {
            let length = mapping.length().0;
            return Some(Found::new("stack", mapping.start, length).named("main thread"));
        }
        if let Some(found) = self.runtime.at(&self.memory, mapping, address) {
            return Some(found);
        }
        if mapping.shared || mapping.file().is_some() || mapping.name.starts_with("[v") {
            return None;
        }
        // Under the software PMU this heap may be executed and has no name.
        let end = self.end_of_heap.and_then(|at| self.memory.pointer(at).ok());
        if end.is_some_and(|end| address < end && mapping.contains(VirtualAddress(end.0 - 1))) {
            return Some(Found::new("heap", mapping.start, mapping.length().0).named("malloc"));
        }
        if let Some(stack) = self.threads.as_ref().and_then(|threads| threads.at(address)) {
            return Some(stack);
        }
        // For a program that has ended, the last known object is used.
        self.memory.u8(address).ok()?;
        Some(by_mapping(mapping, address, access.stack_pointer))
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.runtime.remarks(&self.memory);
        if self.facts.left_out > 0 {
            let count = self.facts.left_out;
            remarks.push(format!("{count} memory ranges were not recorded: their limit was reached"));
        }
        if self.unmapped > 0 {
            remarks
                .push(format!("{} addresses were no longer mapped when they were resolved", self.unmapped));
        }
        remarks
    }
}

/// The kind of anonymous memory that the runtime does not know.
fn by_mapping(mapping: &Mapping, address: VirtualAddress, stack_pointer: Option<VirtualAddress>) -> Found {
    const LINE: u64 = 64;
    let line = VirtualAddress(address.0 / LINE * LINE);
    let on_stack = |pointer: VirtualAddress| {
        let above = address.0.checked_sub(pointer.0.saturating_sub(RED_ZONE));
        mapping.contains(pointer) && above.is_some_and(|above| above < STACK_LIMIT)
    };
    if stack_pointer.is_some_and(on_stack) {
        Found::new("stack", line, LINE)
    } else if mapping.executable {
        Found::new("compiled code", mapping.start, mapping.length().0).named("made at run time")
    } else {
        Found::new("private memory", line, LINE).named("of unknown kind")
    }
}

impl ServerObjects for RuntimeProgram {
    fn describe(&self) -> String {
        format!("{} (process {})", self.runtime.describe(), self.memory.pid())
    }

    fn state_rules(&self) -> Vec<StateRule> {
        Vec::new()
    }

    fn see(&mut self, accesses: &[Access]) {
        let pid = self.memory.pid();
        if self.pause.is_over() && self.memory.is_alive() {
            self.look();
        }
        let mut seen: HashMap<VirtualAddress, Option<Found>> = HashMap::new();
        for access in accesses.iter().filter(|access| access.pid == pid) {
            let word = VirtualAddress(access.address.0 & !7);
            let found = match seen.get(&word) {
                Some(found) => found.clone(),
                None => {
                    let found = self.lookup(access);
                    seen.insert(word, found.clone());
                    found
                }
            };
            if let Some(found) = found {
                let now = clock();
                self.facts.begin(Some(pid), &found, None, (access.time.min(now), now));
            }
        }
    }

    fn look_again(&mut self, _now: Timestamp) {}

    fn finish(self: Box<Self>, _now: Timestamp) -> ObjectNotes {
        let mut notes = ObjectNotes::new(self.describe());
        notes.remarks = self.remarks();
        let (texts, facts) = self.facts.into_inner();
        notes.facts = facts;
        notes.texts = texts.into_inner();
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runtime_does_not_know_is_a_stack_only_above_a_pointer_into_the_same_mapping() {
        let maps = "10000-2000000 rw-p 00000000 00:00 0 \n2000000-3000000 r-xp 00000000 00:00 0 \n";
        let mappings = Mappings::parse(maps);
        let class = |address: u64, pointer: Option<u64>| {
            let address = VirtualAddress(address);
            let mapping = mappings.at(address).expect("mapped");
            by_mapping(mapping, address, pointer.map(VirtualAddress)).class.into_owned()
        };
        assert_eq!(class(0x20000, None), "private memory");
        assert_eq!(class(0x20000, Some(0x20080)), "stack", "the red zone");
        assert_eq!(class(0x20000, Some(0x20081)), "private memory");
        assert_eq!(class(0x20000 + (8 << 20), Some(0x20000)), "private memory", "no stack is as large");
        assert_eq!(class(0x20000, Some(0x2000100)), "private memory", "another mapping");
        assert_eq!(class(0x2000010, None), "compiled code");
    }
}
