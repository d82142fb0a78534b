//! Synthetic memory, as servers of several versions would have it, and invalid bytes.

use super::chunks::{chunks, Chunk};
use super::contexts::{ContextLayout, Kind, Names, Readable, Tree};
use super::*;
use crate::postgres::layout::MAJORS;
use std::collections::BTreeMap;

/// Pieces of memory by address.
#[derive(Default)]
struct Memory(BTreeMap<u64, Vec<u8>>);

impl Memory {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let (start, piece) = self.0.range_mut(..=at).next_back().expect("a piece");
        let from = (at - start) as usize;
        piece[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }
}

impl Readable for Memory {
    fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
        let Some((start, piece)) = self.0.range(..=at.0).next_back() else { return 0 };
        let from = ((at.0 - start) as usize).min(piece.len());
        let got = into.len().min(piece.len() - from);
        into[..got].copy_from_slice(&piece[from..from + got]);
        got
    }
}

/// `MemoryContextData`: type 0, mem_allocated 8, parent 24, first child 32, next child 48, name 56, ident 64; 80 bytes.
struct Link {
    at: u64,
    tag: u32,
    parent: u64,
    child: u64,
    next: u64,
    name: u64,
    ident: u64,
}

impl Memory {
    fn context(&mut self, link: &Link) {
        self.put(link.at, &link.tag.to_le_bytes());
        self.word(link.at + 8, 8192);
        let fields =
            [(24, link.parent), (32, link.child), (48, link.next), (56, link.name), (64, link.ident)];
        fields.into_iter().for_each(|(offset, value)| self.word(link.at + offset, value));
    }
}

fn tag(layout: &Layout, name: &str) -> u32 {
    layout.node_tags.iter().find(|(known, _)| known == name).expect("in the table").1
}

const TOP: u64 = 0x10_0000;
const CHILD: u64 = 0x20_0000;
const NAMES: u64 = 0x30_0000;

/// A top context of one block with two chunks, of 64 and 128 bytes, and a Generation context below it with one block
/// of one chunk of 200 bytes.
fn image(layout: &Layout) -> Memory {
    let mut memory = Memory::default();
    for piece in [TOP, CHILD, NAMES] {
        memory.0.insert(piece, vec![0; 8192]);
    }
    memory.put(NAMES, b"TopMemoryContext\0");
    memory.put(NAMES + 64, b"Caller tuples\0");
    memory.put(NAMES + 128, b"select 1,\n  2\0");
    let old = layout.major <= 16;
    // Sizes of the contexts: see ContextLayout::size.
    let (set_size, generation_size) = if old { (224, 152) } else { (200, 128) };
    let (chunk, generation_chunk, generation_block) = match layout.major {
        15 => (16, 24, 48),
        _ => (8, 8, 56),
    };
    memory.context(&Link {
        at: TOP,
        tag: tag(layout, "AllocSetContext"),
        parent: 0,
        child: CHILD,
        next: 0,
        name: NAMES,
        ident: 0,
    });
    let block = TOP + set_size;
    let free = block + 40 + 2 * chunk + 64 + 128;
    memory.word(TOP + 80, block);
    for (offset, value) in [(0, TOP), (24, free), (32, TOP + 8192)] {
        memory.word(block + offset, value);
    }
    let bits = if layout.major == 16 { 3 } else { 4 };
    for (at, size, power) in [(block + 40, 64, 3), (block + 40 + chunk + 64, 128, 4)] {
        if layout.major == 15 {
            memory.word(at, size);
            memory.word(at + 8, if power == 4 { 0 } else { TOP });
        } else {
            memory.word(at, 3 | power << (bits + 1));
        }
    }
    memory.context(&Link {
        at: CHILD,
        tag: tag(layout, "GenerationContext"),
        parent: TOP,
        child: 0,
        next: 0,
        name: NAMES + 64,
        ident: NAMES + 128,
    });
    let (block, head) = (CHILD + generation_size, CHILD + generation_size - 16);
    for at in [head, head + 8] {
        memory.word(at, block);
    }
    for at in [block, block + 8] {
        memory.word(at, head);
    }
    let free_at = if layout.major == 15 { 32 } else { 40 };
    if layout.major > 15 {
        memory.word(block + 16, CHILD);
    }
    let data = block + generation_block;
    memory.word(block + free_at, data + generation_chunk + 200);
    memory.word(block + free_at + 8, CHILD + 8192);
    if layout.major == 15 {
        memory.word(data, 200);
        memory.word(data + 16, CHILD);
    } else {
        memory.word(data, 4 | 200 << (bits + 1));
    }
    memory
}

fn walk(memory: &Memory, layout: &Layout) -> (ContextLayout, Tree) {
    let contexts = ContextLayout::of(layout).expect("whole");
    let tree = Tree::walk(memory, &contexts, VirtualAddress(TOP), &mut Names::new());
    (contexts, tree)
}

#[test]
fn contexts_blocks_and_chunks_of_each_version() {
    for major in MAJORS {
        let layout = Layout::of(major).expect("known");
        let memory = image(&layout);
        let (contexts, tree) = walk(&memory, &layout);
        let paths: Vec<(&str, &str)> =
            tree.contexts.iter().map(|context| (&*context.path, &*context.ident)).collect();
        let expected = [("TopMemoryContext", ""), ("TopMemoryContext/Caller tuples", "select 1, 2")];
        assert_eq!((paths.as_slice(), tree.is_partial), (&expected[..], false), "{major}");
        assert_eq!(tree.blocks.len(), 2);
        let sizes = |number: usize, kind| -> Vec<(u64, bool)> {
            let context = tree.contexts[number].address;
            let found = chunks(&memory, &contexts, kind, context, &tree.blocks[number]);
            found.iter().map(|chunk: &Chunk| (chunk.size(), chunk.is_free)).collect()
        };
        // Only 15 shows that the second chunk is free.
        assert_eq!(sizes(0, Kind::AllocSet), [(64, false), (128, major == 15)]);
        assert_eq!(sizes(1, Kind::Generation), [(200, false)]);
        assert!(tree.head_at(&contexts, VirtualAddress(TOP + 8)).is_some());
        assert!(tree.block_at(VirtualAddress(TOP + 8)).is_none());
        assert!(tree.block_at(VirtualAddress(TOP + 8191)).is_some());
        assert!(tree.block_at(VirtualAddress(TOP + 8192)).is_none());
    }
}

#[test]
fn names_of_addresses_and_of_what_was_given_back() {
    let layout = Layout::of(17).expect("known");
    let mut memory = image(&layout);
    let layouts = Layouts {
        contexts: ContextLayout::of(&layout).expect("whole"),
        caches: CacheLayout::of(&layout).expect("whole"),
        nodes: NodeTypes::of(&layout).expect("whole"),
    };
    memory.0.insert(0x1000, TOP.to_le_bytes().to_vec());
    let top = VirtualAddress(0x1000);
    let (names, processes) = (Names::new(), HashMap::new());
    let mut private = PrivateMemory { top, layouts, names, processes, look: 0 };
    let pid = Pid(1);
    let whole = (VirtualAddress(0), VirtualAddress(u64::MAX));
    let told = |private: &mut PrivateMemory, memory: &Memory, at: u64| {
        let found = private.find_in(pid, memory, whole, VirtualAddress(at)).expect("found");
        assert!((found.start.0..found.start.0 + found.length.0).contains(&at), "{found:?} at {at:x}");
        [&*found.class, &*found.name, &*found.instance, &*found.part].join(" | ")
    };
    assert_eq!(told(&mut private, &memory, TOP + 8), "memory context | TopMemoryContext |  | context header");
    assert_eq!(told(&mut private, &memory, TOP + 200), "memory context | TopMemoryContext |  | block header");
    assert_eq!(told(&mut private, &memory, TOP + 260), "memory context | TopMemoryContext |  | ");
    assert_eq!(told(&mut private, &memory, TOP + 8000), "memory context | TopMemoryContext |  | ");
    let tuples = "sort memory | TopMemoryContext/Caller tuples | select 1, 2 | ";
    let in_block = CHILD + 128 + 56 + 8;
    assert_eq!(told(&mut private, &memory, in_block), tuples);
    assert_eq!(told(&mut private, &memory, 0x50_0000), "heap | outside memory contexts |  | ");

    // The context ends; its memory keeps its name, marked as former.
    memory.word(TOP + 32, 0);
    private.begin_look();
    assert_eq!(told(&mut private, &memory, in_block), tuples, "not walked again so soon");
    private.processes.get_mut(&pid).expect("walked").walked -= Duration::from_secs(1);
    assert_eq!(told(&mut private, &memory, in_block), format!("{tuples}given back since"));
}

#[test]
fn what_makes_no_sense_is_left_out() {
    let layout = Layout::of(15).expect("known");
    let mut memory = image(&layout);
    // A child that points to another context.
    memory.word(CHILD + 24, NAMES);
    assert_eq!(walk(&memory, &layout).1.contexts.len(), 1);
    // A sibling whose next sibling is itself.
    let mut memory = image(&layout);
    memory.word(CHILD + 48, CHILD);
    let (_, tree) = walk(&memory, &layout);
    assert_eq!((tree.contexts.len(), tree.is_partial), (2, true));
    // A block whose next block is itself.
    let mut memory = image(&layout);
    memory.word(TOP + 224 + 16, TOP + 224);
    let (_, tree) = walk(&memory, &layout);
    assert_eq!((tree.blocks.len(), tree.is_partial), (2, true));
    // Free space after the end, chunks longer than their block.
    let mut memory = image(&layout);
    memory.word(TOP + 224 + 24, u64::MAX);
    memory.word(CHILD + 152 + 48, 0x7fff_ffff_ffff_fff8);
    let (contexts, tree) = walk(&memory, &layout);
    assert_eq!(tree.blocks.len(), 1);
    let context = VirtualAddress(CHILD);
    assert!(chunks(&memory, &contexts, Kind::Generation, context, &tree.blocks[0]).is_empty());
}

#[test]
fn random_changes_never_panic() {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        // A linear congruential generator: the same in every run.
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    for round in 0..2000 {
        let layout = Layout::of(MAJORS[round % 4]).expect("known");
        let mut memory = image(&layout);
        for _ in 0..1 + round % 8 {
            let piece = [TOP, CHILD][random(2) as usize];
            let value = [random(u64::from(u32::MAX)), TOP + random(8192), CHILD + random(8192), u64::MAX];
            memory.word(piece + random(60) * 8, value[random(4) as usize]);
        }
        let (contexts, tree) = walk(&memory, &layout);
        let mut all = Vec::new();
        for block in &tree.blocks {
            let context = &tree.contexts[block.context];
            all.extend(chunks(&memory, &contexts, context.kind, context.address, block));
        }
        let caches = CacheLayout::of(&layout).expect("whole");
        CacheIndex::read(&memory, &caches, &all);
    }
}
