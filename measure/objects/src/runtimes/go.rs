//! Go: heap spans by the size of their objects, and stacks of goroutines by the function that each began with.
//!
//! ```text
//!   runtime.mheap_.arenas ──> [64 MB each] ──> heapArena.spans[page] ──> mspan: start, pages, state, size of an object
//!   runtime.allgs[i] ──> g: stack.lo, stack.hi, startpc        runtime.allm ──> m: g0, alllink
//! ```
//! Both lie side by side in the same arenas, a heap span at once above a stack: only the runtime's own tables tell them
//! apart. Offsets are of the program's debug information, which Go's linker writes unless asked not to (`-ldflags=-w`).
//!
//! Invariants:
//! 1. A stack is what lies between `lo` and `hi` of a goroutine or of a thread's g0, nothing else. Pages that the runtime
//!    allocates for itself (`mSpanManual`) also hold buffers of the garbage collector.
//! 2. Where the tables cannot be read, an arena is "heap or goroutine stack".

use super::runtime::Runtime;
use super::struct_layout::StructLayout;
use crate::bytes::{u64_at, u8_at};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::{read_file, Program, SymbolClass};
use hardmeter_samples::model::VirtualAddress;
use std::collections::BTreeMap;

/// A page of the runtime.
const PAGE: u64 = 8192;
/// Bytes of an arena (linux/amd64), and what its numbers begin at.
const ARENA_SHIFT: u32 = 26;
const ARENA_BASE: u64 = 0xffff_8000_0000_0000;
/// Where the runtime asks for its arenas first. No other allocator places memory there.
const HINT: std::ops::Range<u64> = 0xc0_0000_0000..0xe0_0000_0000;
/// Goroutines and threads that are read, at most.
const MOST_GOROUTINES: u64 = 200_000;
const MOST_THREADS: usize = 10_000;
/// Bytes of a span or goroutine that hold all the fields that are read.
const RECORD_LIMIT: u64 = 4096;
/// Maximum size of a program file.
const FILE_LIMIT: u64 = 2 << 30;
/// States of a span.
const IN_USE: u8 = 1;
const MANUAL: u8 = 2;

/// Offsets in the runtime's structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    arenas: u64,
    spans: u64,
    heap_arena: u64,
    span: [u64; 5],
    span_size: u64,
    goroutine: [u64; 2],
    goroutine_size: u64,
    thread: [u64; 2],
}

impl Layout {
    fn of(known: &StructLayout) -> Option<Layout> {
        let span = |field| known.offset("runtime.mspan", field);
        let limited = |name| known.size(name).filter(|size| *size <= RECORD_LIMIT);
        Some(Layout {
            arenas: known.offset("runtime.mheap", "arenas")?,
            spans: known.offset("runtime.heapArena", "spans")?,
            heap_arena: known.size("runtime.heapArena")?,
            span: [
                span("startAddr")?,
                span("npages")?,
                span("state")?,
                span("spanclass")?,
                span("elemsize")?,
            ],
            span_size: limited("runtime.mspan")?,
            goroutine: [known.offset("runtime.g", "stack")?, known.offset("runtime.g", "startpc")?],
            goroutine_size: limited("runtime.g")?,
            thread: [known.offset("runtime.m", "g0")?, known.offset("runtime.m", "alllink")?],
        })
    }
}

/// A span, as the runtime has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    length: u64,
    state: u8,
    class: u8,
    object: u64,
}

impl Span {
    /// Reads a span; `None` for what cannot be one.
    fn parse(bytes: &[u8], at: &[u64; 5]) -> Option<Span> {
        let word = |index: usize| u64_at(bytes, at[index] as usize);
        let byte = |index: usize| u8_at(bytes, at[index] as usize);
        let span = Span {
            start: word(0)?,
            length: word(1)?.checked_mul(PAGE)?,
            state: byte(2)?,
            class: byte(3)?,
            object: word(4)?,
        };
        let end = span.start.checked_add(span.length)?;
        (span.start != 0 && span.start.is_multiple_of(PAGE) && end > span.start && span.state <= MANUAL)
            .then_some(span)
    }

    fn found(&self, address: u64) -> Option<Found> {
        let whole = |class: &'static str| Found::new(class, VirtualAddress(self.start), self.length);
        match self.state {
            IN_USE if self.object > 0 && self.object <= self.length => {
                let found = whole("Go heap");
                // The lowest bit of a span class: objects without pointers.
                let pointers = if self.class & 1 == 1 { ", no pointers" } else { "" };
                Some(if self.class >> 1 == 0 {
                    found.named(format!("large object of {}{pointers}", size(self.object)))
                } else {
                    found.named(format!("objects of {}{pointers}", size(self.object)))
                })
            }
            MANUAL => Some(whole("Go runtime").named("stack or buffer of the runtime")),
            // A free span: it was freed since the sample, and its former use is unknown.
            _ => {
                let page = address / PAGE * PAGE;
                Some(Found::new("Go memory", VirtualAddress(page), PAGE).named("freed since"))
            }
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=99_999 => format!("{bytes} bytes"),
        100_000..=9_999_999 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// The facts about a Go program that the address of an object is resolved by.
pub(super) struct Go {
    program: Program,
    layout: Option<Layout>,
    version: String,
    /// Stacks by their first address: the end, and the function of a goroutine's; a thread's own has none.
    stacks: BTreeMap<u64, (u64, Option<String>)>,
}

impl Go {
    /// Looks for a Go program among the executables of a process.
    pub fn recognise(memory: &ProcessMemory, mappings: &Mappings) -> Option<Go> {
        let program = Program::main(memory, mappings, |image| {
            image.symbol("runtime.mheap_").is_some()
                || image.sections.iter().any(|section| section.name == ".gopclntab")
        })?;
        let known = read_file(&memory.file(&program.path), FILE_LIMIT).map_or_else(
            |_| StructLayout::default(),
            |bytes| {
                let structs =
                    ["runtime.mheap", "runtime.heapArena", "runtime.mspan", "runtime.g", "runtime.m"];
                StructLayout::read(&bytes, &structs)
            },
        );
        let version = program.address("runtime.buildVersion").and_then(|at| {
            let (text, length) = (memory.pointer(at).ok()?, memory.u64(VirtualAddress(at.0 + 8)).ok()?);
            memory.text(text, length.min(64) as usize).ok()
        });
        Some(Go {
            layout: Layout::of(&known).filter(|_| program.address("runtime.mheap_").is_some()),
            program,
            version: version.unwrap_or_else(|| "go of unknown version".into()),
            stacks: BTreeMap::new(),
        })
    }

    /// The record of an arena, by an address in it.
    fn arena(&self, memory: &ProcessMemory, layout: &Layout, address: u64) -> Option<u64> {
        let number = address.wrapping_sub(ARENA_BASE) >> ARENA_SHIFT;
        let heap = self.program.address("runtime.mheap_")?;
        let table = memory.u64(VirtualAddress(heap.0 + layout.arenas)).ok().filter(|table| *table != 0)?;
        let arena = memory.u64(VirtualAddress(table.checked_add(number * 8)?)).ok()?;
        (arena != 0).then_some(arena)
    }

    fn span(&self, memory: &ProcessMemory, layout: &Layout, address: u64) -> Option<Span> {
        let arena = self.arena(memory, layout, address)?;
        let page = (address & ((1 << ARENA_SHIFT) - 1)) / PAGE;
        let pointer = memory.u64(VirtualAddress(arena.checked_add(layout.spans + page * 8)?)).ok()?;
        let mut bytes = vec![0; layout.span_size as usize];
        memory.read(VirtualAddress(pointer), &mut bytes).ok()?;
        let span = Span::parse(&bytes, &layout.span)?;
        (span.start..span.start + span.length).contains(&address).then_some(span)
    }

    fn name_of(&self, pc: u64) -> String {
        let symbol = self.program.image.symbol_at(self.program.own(VirtualAddress(pc)));
        match symbol.filter(|symbol| symbol.class == SymbolClass::Function) {
            Some(symbol) => symbol.name.clone(),
            None => "unknown function".into(),
        }
    }

    fn add_stack(&mut self, record: &[u8], at: u64, name: Option<String>) {
        let (lo, hi) = (u64_at(record, at as usize), u64_at(record, at as usize + 8));
        if let (Some(lo), Some(hi)) = (lo, hi) {
            /// Go's own limit of a stack.
            const LARGEST: u64 = 1 << 30;
            if lo != 0 && lo < hi && hi - lo <= LARGEST {
                self.stacks.insert(lo, (hi, name));
            }
        }
    }

    fn read_stacks(&mut self, memory: &ProcessMemory, layout: &Layout) {
        self.stacks.clear();
        if let Some(all) = self.program.address("runtime.allgs") {
            let table = memory.u64(all).unwrap_or(0);
            let count = memory.u64(VirtualAddress(all.0 + 8)).unwrap_or(0).min(MOST_GOROUTINES);
            let mut pointers = vec![0; count as usize * 8];
            let got = memory.read_part(VirtualAddress(table), &mut pointers);
            let goroutines: Vec<VirtualAddress> =
                (0..got / 8).filter_map(|index| u64_at(&pointers, index * 8).map(VirtualAddress)).collect();
            let size = layout.goroutine_size as usize;
            let (records, fine) = memory.read_pieces(&goroutines, size);
            for (record, fine) in records.chunks_exact(size).zip(fine) {
                if fine {
                    let name = self.name_of(u64_at(record, layout.goroutine[1] as usize).unwrap_or(0));
                    self.add_stack(record, layout.goroutine[0], Some(name));
                }
            }
        }
        let first = self.program.address("runtime.allm").and_then(|at| memory.u64(at).ok());
        let mut thread = first.unwrap_or(0);
        for _ in 0..MOST_THREADS {
            let field =
                |index: usize| memory.u64(VirtualAddress(thread.wrapping_add(layout.thread[index]))).ok();
            let Some(g0) = field(0).filter(|_| thread != 0) else { break };
            if let Ok(record) = memory.bytes::<16>(VirtualAddress(g0.wrapping_add(layout.goroutine[0]))) {
                self.add_stack(&record, 0, None);
            }
            thread = field(1).unwrap_or(0);
        }
    }

    fn stack(&self, address: u64) -> Option<Found> {
        let (lo, (hi, name)) = self.stacks.range(..=address).next_back()?;
        let found = |class: &'static str| Found::new(class, VirtualAddress(*lo), hi - lo);
        (address < *hi).then(|| match name {
            Some(name) => found("goroutine stack").named(name.clone()),
            None => found("stack").named("thread of the scheduler (g0)"),
        })
    }
}

impl Runtime for Go {
    fn describe(&self) -> String {
        self.version.clone()
    }

    fn look(&mut self, memory: &ProcessMemory, _mappings: &Mappings) {
        if let Some(layout) = self.layout {
            self.read_stacks(memory, &layout);
        }
    }

    fn at(&mut self, memory: &ProcessMemory, _mapping: &Mapping, address: VirtualAddress) -> Option<Found> {
        let Some(layout) = self.layout else {
            let arena = address.0 >> ARENA_SHIFT << ARENA_SHIFT;
            let found = Found::new("Go memory", VirtualAddress(arena), 1 << ARENA_SHIFT);
            return HINT.contains(&address.0).then(|| found.named("heap or goroutine stack"));
        };
        match self.span(memory, &layout, address.0) {
            Some(span) if span.state == MANUAL => {
                if self.stack(address.0).is_none() {
                    self.read_stacks(memory, &layout);
                }
                self.stack(address.0).or_else(|| span.found(address.0))
            }
            Some(span) => span.found(address.0),
            // A thread that C code started has its g0 on a stack of the C library's.
            None => self.stack(address.0),
        }
    }

    fn remarks(&self, _memory: &ProcessMemory) -> Vec<String> {
        match self.layout {
            Some(_) => Vec::new(),
            None => vec![
                "this Go program has no debug information: heap and goroutine stacks look the same; build it \
                 without -ldflags=-s or -w"
                    .into(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: [u64; 5] = [24, 32, 40, 41, 48];

    fn span(start: u64, pages: u64, state: u8, class: u8, object: u64) -> Option<Span> {
        let mut bytes = [0; 56];
        bytes[24..32].copy_from_slice(&start.to_le_bytes());
        bytes[32..40].copy_from_slice(&pages.to_le_bytes());
        (bytes[40], bytes[41]) = (state, class);
        bytes[48..56].copy_from_slice(&object.to_le_bytes());
        Span::parse(&bytes, &AT)
    }

    #[test]
    fn a_span_says_what_its_pages_hold() {
        let told = |span: Option<Span>| {
            let found = span?.found(0xc0_0000_2010)?;
            Some((format!("{}: {}", found.class, found.name), found.start.0, found.length.0))
        };
        let small = span(0xc0_0000_2000, 1, IN_USE, 5 << 1, 48);
        assert_eq!(told(small), Some(("Go heap: objects of 48 bytes".into(), 0xc0_0000_2000, 8192)));
        let large = span(0xc0_0000_2000, 2, IN_USE, 1, 16384);
        let expected = "Go heap: large object of 16384 bytes, no pointers";
        assert_eq!(told(large), Some((expected.into(), 0xc0_0000_2000, 16384)));
        let own = told(span(0xc0_0000_2000, 4, MANUAL, 0, 0)).expect("a span");
        assert_eq!(own.0, "Go runtime: stack or buffer of the runtime", "not every such span is a stack");
        let freed = told(span(0xc0_0000_0000, 4, 0, 0, 0));
        assert_eq!(freed, Some(("Go memory: freed since".into(), 0xc0_0000_2000, 8192)));
    }

    #[test]
    fn other_bytes_are_no_span() {
        assert_eq!(span(0xc0_0000_2008, 1, IN_USE, 10, 48), None, "no page begins there");
        assert_eq!(span(0xc0_0000_2000, 0, IN_USE, 10, 48), None, "no pages");
        assert_eq!(span(0xc0_0000_2000, 1, 3, 10, 48), None, "no such state");
        assert_eq!(span(0xc0_0000_2000, u64::MAX, IN_USE, 10, 48), None, "beyond all memory");
        assert_eq!(Span::parse(&[0; 20], &AT), None, "cut");
    }
}
