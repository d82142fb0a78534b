//! Private memory of server processes: the memory context of an address, and the object there.
//!
//! ```text
//!   address ──> block of a context? ──> context: "TopMemoryContext/PortalContext/ExecutorState"
//!                    │ no                  │ CacheMemoryContext: which cache entry     (caches.rs)
//!                    v                     │ executor and plans: which node            (nodes.rs)
//!                  heap                    └ else: the block as a whole
//! ```
//!
//! Reading costs the server only processor time, but a walk takes about a millisecond: a process is walked if
//! an address is not in the last walk, or if the last walk is old, and at most once in 200 ms.

mod caches;
mod chunks;
mod contexts;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod history;
mod nodes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_live;

use super::layout::{Layout, Missing};
use crate::found::{Found, PrivateObjects};
use crate::process_memory::{Mapping, ProcessMemory};
use crate::program::Program;
use caches::{CacheIndex, CacheLayout};
use chunks::Chunk;
use contexts::{Block, Context, ContextLayout, Names, Readable, Snapshot, Tree};
use hardmeter_samples::model::{Pid, VirtualAddress};
use hardmeter_samples::object_notes::NOT_IN_TIME;
use history::History;
use nodes::NodeTypes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Minimum time between two walks of a process.
const BETWEEN_WALKS: Duration = Duration::from_millis(200);
/// Slow walks are made rarely: their share of a processor stays below 1 / this.
const SHARE: u32 = 200;
/// ... but an answer must not be older than this.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Largest range that is named outside contexts: memory around it may soon belong to another.
const PAGE: u64 = 4096;
/// The same for free space in a block.
const PIECE: u64 = 256;

/// The private memory of all processes of one server.
pub(crate) struct PrivateMemory {
    /// The place of the pointer to the top context.
    top: VirtualAddress,
    layouts: Layouts,
    names: Names,
    processes: HashMap<Pid, Process>,
    look: u64,
}

struct Layouts {
    contexts: ContextLayout,
    caches: CacheLayout,
    nodes: NodeTypes,
}

/// A process at its last walk.
struct Process {
    walked: Instant,
    /// The duration of the walk.
    took: Duration,
    look: u64,
    tree: Tree,
    history: History,
    chunks: HashMap<VirtualAddress, Arc<Vec<Chunk>>>,
    caches: Option<CacheIndex>,
}

impl PrivateMemory {
    /// For a server of this layout that runs this program.
    pub fn new(layout: &Layout, program: &Program) -> Result<PrivateMemory, Missing> {
        let missing =
            || Missing { major: layout.major, what: "symbol TopMemoryContext in the program".into() };
        Ok(PrivateMemory {
            top: program.address("TopMemoryContext").ok_or_else(missing)?,
            layouts: Layouts {
                contexts: ContextLayout::of(layout)?,
                caches: CacheLayout::of(layout)?,
                nodes: NodeTypes::of(layout)?,
            },
            names: Names::new(),
            processes: HashMap::new(),
            look: 0,
        })
    }

    /// Walks a process, unless it was walked a moment ago.
    fn walk(&mut self, pid: Pid, memory: &dyn Readable) {
        let begin = Instant::now();
        let wait = |process: &Process| BETWEEN_WALKS.max(process.took * SHARE).min(LONGEST_WAIT);
        if self.processes.get(&pid).is_some_and(|process| begin - process.walked < wait(process)) {
            return;
        }
        let top = memory.whole(self.top, 8).and_then(|bytes| crate::bytes::u64_at(&bytes, 0));
        if top.is_none() && self.processes.contains_key(&pid) {
            return; // it has ended: the last walk is final
        }
        let top = top.unwrap_or(0);
        let tree = match top {
            // A process that is starting.
            0 => Tree::default(),
            top => Tree::walk(memory, &self.layouts.contexts, VirtualAddress(top), &mut self.names),
        };
        let mut history = self.processes.remove(&pid).map(|process| process.history).unwrap_or_default();
        history.note(&tree);
        let (walked, look) = (Instant::now(), self.look);
        let (chunks, caches) = (HashMap::new(), None);
        let process = Process { walked, took: walked - begin, look, tree, history, chunks, caches };
        self.processes.insert(pid, process);
    }

    fn find_in(
        &mut self,
        pid: Pid,
        memory: &dyn Readable,
        mapping: (VirtualAddress, VirtualAddress),
        address: VirtualAddress,
    ) -> Option<Found> {
        let is_current = self.processes.get(&pid).is_some_and(|process| {
            let known = process.tree.block_at(address).is_some()
                || process.tree.head_at(&self.layouts.contexts, address).is_some();
            known && process.look == self.look
        });
        if !is_current {
            self.walk(pid, memory);
        }
        self.processes.get_mut(&pid)?.find(memory, &self.layouts, mapping, address)
    }
}

impl PrivateObjects for PrivateMemory {
    fn begin_look(&mut self) {
        self.look += 1;
    }

    fn find(&mut self, process: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found> {
        self.find_in(process.pid(), process, (mapping.start, mapping.end), address)
    }

    fn is_provisional(&self, found: &Found) -> bool {
        found.name == NOT_IN_TIME
    }

    fn remembered(&self, pid: Pid, address: VirtualAddress) -> Option<Found> {
        let tree = &self.processes.get(&pid)?.tree;
        let block = tree.block_at(address)?;
        let context = tree.contexts.get(block.context)?;
        let whole = of_context(context, block.start, stretch(block.start, block.end));
        Some(whole.part("", block.data, stretch(block.data, block.end)))
    }

    fn forget(&mut self, process: &ProcessMemory) {
        self.processes.remove(&process.pid());
    }
}

/// The number of bytes in the range.
fn stretch(start: VirtualAddress, end: VirtualAddress) -> u64 {
    end.0.saturating_sub(start.0)
}

impl Process {
    fn find(
        &mut self,
        memory: &dyn Readable,
        layouts: &Layouts,
        mapping: (VirtualAddress, VirtualAddress),
        address: VirtualAddress,
    ) -> Option<Found> {
        let block = self.tree.block_at(address).copied();
        // The head of a context precedes its first block, in the same allocation of malloc.
        let Some(block) = block else {
            if let Some(context) = self.tree.head_at(&layouts.contexts, address) {
                let size = layouts.contexts.size(context.kind) as u64;
                return Some(of_context(context, context.address, size).part(
                    "context header",
                    context.address,
                    size,
                ));
            }
            return self.outside(mapping, address);
        };
        let context = self.tree.contexts.get(block.context)?.clone();
        let whole = of_context(&context, block.start, stretch(block.start, block.end));
        if address < block.data {
            return Some(whole.part("block header", block.start, stretch(block.start, block.data)));
        }
        let holds = Holds::of(&context);
        if holds == Holds::Anything {
            // Chunks and free space change thousands of times; the block stays.
            return Some(whole.part("", block.data, stretch(block.data, block.end)));
        }
        if address >= block.free {
            // In pieces: otherwise each allocated chunk would change the range.
            let piece = VirtualAddress(address.0 - address.0 % PIECE);
            let (start, end) = (piece.max(block.free), VirtualAddress(piece.0 + PIECE).min(block.end));
            return Some(whole.part("free space", start, stretch(start, end)));
        }
        let chunks = self.chunks(memory, layouts, &context, &block);
        let Some(chunk) = chunks::at(&chunks, address).copied() else {
            return Some(whole.part("", block.data, stretch(block.data, block.end)));
        };
        let found = of_context(&context, chunk.data, chunk.size());
        if address < chunk.data {
            let start = chunk.header;
            return Some(Found { origin: start, ..found }.part(
                "chunk header",
                start,
                stretch(start, chunk.data),
            ));
        }
        if chunk.is_free {
            return Some(found.part("free chunk", chunk.data, chunk.size()));
        }
        let special = match holds {
            Holds::Caches => self.cache_entry(memory, layouts, block.context, &chunk, address),
            _ => node(memory, layouts, &chunk),
        };
        Some(special.unwrap_or(found))
    }

    /// Memory outside of present contexts.
    fn outside(&self, mapping: (VirtualAddress, VirtualAddress), address: VirtualAddress) -> Option<Found> {
        if self.tree.contexts.is_empty() {
            return None;
        }
        let (start, end) = self.tree.gap_at(address);
        let (start, end) = (start.max(mapping.0), end.min(mapping.1));
        if let Some((first, last, context)) = self.history.at(address) {
            // A context that ended keeps its name until another one has its memory.
            let (start, end) = (start.max(first), end.min(last));
            return Some(of_context(context, first, 0).part("given back since", start, stretch(start, end)));
        }
        let page = VirtualAddress(address.0 - address.0 % PAGE);
        let (start, end) = (start.max(page), end.min(VirtualAddress(page.0 + PAGE)));
        // Shortly after the walk all contexts are known; later there may be new ones.
        const SOON: Duration = Duration::from_millis(20);
        let name = if self.walked.elapsed() < SOON { "outside memory contexts" } else { NOT_IN_TIME };
        Some(Found::new("heap", start, stretch(start, end)).named(name))
    }

    fn chunks(
        &mut self,
        memory: &dyn Readable,
        layouts: &Layouts,
        context: &Context,
        block: &Block,
    ) -> Arc<Vec<Chunk>> {
        let read =
            || Arc::new(chunks::chunks(memory, &layouts.contexts, context.kind, context.address, block));
        Arc::clone(self.chunks.entry(block.start).or_insert_with(read))
    }

    fn cache_entry(
        &mut self,
        memory: &dyn Readable,
        layouts: &Layouts,
        context: usize,
        chunk: &Chunk,
        address: VirtualAddress,
    ) -> Option<Found> {
        if self.caches.is_none() {
            let owner = self.tree.contexts.get(context)?.clone();
            let blocks: Vec<Block> =
                self.tree.blocks.iter().filter(|block| block.context == context).copied().collect();
            let mut all = Vec::new();
            for block in &blocks {
                all.extend_from_slice(&self.chunks(memory, layouts, &owner, block));
            }
            let snapshot = Snapshot::of(memory, &blocks);
            self.caches = Some(CacheIndex::read(&snapshot, &layouts.caches, &all));
        }
        let entry = self.caches.as_ref()?.get(chunk)?;
        let found = Found::new(entry.class, chunk.data, chunk.size())
            .named(entry.name.to_string())
            .instance(entry.instance.to_string());
        if entry.header == 0 || entry.header >= chunk.size() {
            return Some(found);
        }
        let content = VirtualAddress(chunk.data.0 + entry.header);
        Some(if address < content {
            found.part("header", chunk.data, entry.header)
        } else {
            found.part("content", content, stretch(content, chunk.end))
        })
    }
}

/// The recognisable kinds of chunks in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Caches,
    Nodes,
    Anything,
}

impl Holds {
    fn of(context: &Context) -> Holds {
        match &*context.name {
            "CacheMemoryContext" => Holds::Caches,
            "ExecutorState" | "CachedPlan" | "CachedPlanQuery" | "CachedPlanSource" | "SPI Plan" => {
                Holds::Nodes
            }
            _ => Holds::Anything,
        }
    }
}

/// The class and name that a context gives its memory.
fn of_context(context: &Context, start: VirtualAddress, size: u64) -> Found {
    // Additional data of the relation cache, in a separate context each.
    if matches!(&*context.name, "index info" | "relation rules" | "partition key" | "partition descriptor") {
        let found = Found::new("relation cache", start, size).named(context.ident.to_string());
        return found.instance(context.name.to_string());
    }
    let is_one_of = |names: &[&str]| names.iter().any(|name| context.path.contains(name));
    let class = if is_one_of(&["TupleSort", "Tuplesort", "Caller tuples"]) {
        "sort memory"
    } else if is_one_of(&[
        "HashTableContext",
        "HashBatchContext",
        "HashSpillContext",
        "HashSkewContext",
        "TupleHashTable",
    ]) {
        "hash memory"
    } else {
        "memory context"
    };
    Found::new(class, start, size).named(context.path.to_string()).instance(context.ident.to_string())
}

fn node(memory: &dyn Readable, layouts: &Layouts, chunk: &Chunk) -> Option<Found> {
    let mut bytes = vec![0; layouts.nodes.prefix().min(chunk.size() as usize)];
    let got = memory.fill(chunk.data, &mut bytes);
    bytes.truncate(got);
    let node = layouts.nodes.recognise(memory, &bytes, chunk.size())?;
    let found = Found::new(node.class, chunk.data, chunk.size()).named(node.name);
    Some(match node.number {
        Some(number) => found.instance(format!("node {number}")),
        None => found,
    })
}
