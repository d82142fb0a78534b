//! The tree of memory contexts of a process, with the blocks of each.
//!
//! ```text
//!   TopMemoryContext (exported)                         a block of an AllocSet
//!    ├ CacheMemoryContext                               +---------------------+ start: malloc's
//!    │  ├ index info "pg_class_oid_index"               | context, once: the  |
//!    │  └ ...                                           | first block only    |
//!    ├ MessageContext                                   | block header        |
//!    └ PortalContext                                    | chunk | chunk | ... | up to `free`
//!       └ ExecutorState                                 | free space          | up to `end`
//!                                                       +---------------------+
//! ```
//!
//! The process continues while it is read. Each context must be of a known kind and point back to its parent,
//! each block to its context; others are skipped with everything below them.

use super::super::layout::{Layout, Missing};
use crate::bytes::{u32_at, u64_at};
use crate::process_memory::{text_of, ProcessMemory};
use hardmeter_samples::model::VirtualAddress;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Limits of contexts and blocks of a process: a list that is read while it changes may form a circle.
const CONTEXTS_AT_MOST: usize = 1 << 16;
const BLOCKS_AT_MOST: usize = 1 << 18;
/// Limit of nesting: a deeper path is not readable.
const DEPTH_AT_MOST: usize = 64;
/// Bytes of a name that are read.
const NAME: usize = 64;
/// Bytes of a description that are read: it may be the text of a statement.
const IDENT: usize = 96;

/// Readable memory: of a process, or synthetic in tests.
pub(super) trait Readable {
    /// Reads as many bytes as possible; returns their number.
    fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize;

    /// All of these bytes, or none.
    fn whole(&self, at: VirtualAddress, size: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        (self.fill(at, &mut bytes) == size).then_some(bytes)
    }

    /// A text that ends with a zero byte, cut if it is too long.
    fn text(&self, at: VirtualAddress, most: usize) -> String {
        let mut bytes = vec![0; most];
        let got = if at.0 == 0 { 0 } else { self.fill(at, &mut bytes) };
        bytes.truncate(got);
        text_of(&bytes)
    }
}

impl Readable for ProcessMemory {
    fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
        self.read_part(at, into)
    }
}

/// Copies of blocks, so that thousands of small reads become a few large ones; other memory is read directly.
pub(super) struct Snapshot<'m> {
    memory: &'m dyn Readable,
    /// By first address.
    pieces: BTreeMap<VirtualAddress, Vec<u8>>,
}

impl<'m> Snapshot<'m> {
    /// Reads the used part of blocks, up to the largest valid size.
    pub(super) fn of(memory: &'m dyn Readable, blocks: &[Block]) -> Snapshot<'m> {
        const LARGEST: u64 = 8 << 20;
        let mut pieces = BTreeMap::new();
        for block in blocks {
            let mut bytes = vec![0; (block.free.0 - block.data.0).min(LARGEST) as usize];
            let got = memory.fill(block.data, &mut bytes);
            bytes.truncate(got);
            pieces.insert(block.data, bytes);
        }
        Snapshot { memory, pieces }
    }
}

impl Readable for Snapshot<'_> {
    fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
        let piece = self.pieces.range(..=at).next_back();
        let inside = piece.and_then(|(start, bytes)| {
            let from = usize::try_from(at.0 - start.0).ok()?;
            bytes.get(from..from.checked_add(into.len())?)
        });
        match inside {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                into.len()
            }
            None => self.memory.fill(at, into),
        }
    }
}

/// The allocator of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Chunks of powers of two, with lists of free ones.
    AllocSet,
    /// Chunks that are freed in the order of their allocation.
    Generation,
    /// Chunks of one size. Its blocks are not walked: only logical decoding has any.
    Slab,
    /// Chunks without headers, since PostgreSQL 17.
    Bump,
}

/// A memory context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Context {
    pub(super) address: VirtualAddress,
    pub(super) kind: Kind,
    pub(super) name: Arc<str>,
    /// Its specific purpose: an index, a statement.
    pub(super) ident: Arc<str>,
    /// Names from the top: "TopMemoryContext/CacheMemoryContext/index info".
    pub(super) path: Arc<str>,
    /// Its own count of bytes from malloc.
    pub(super) allocated: u64,
}

/// A block of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: VirtualAddress,
    /// First byte of chunks.
    pub(super) data: VirtualAddress,
    /// First byte that is not allocated yet.
    pub(super) free: VirtualAddress,
    pub(super) end: VirtualAddress,
    /// Index of its context.
    pub(super) context: usize,
}

/// All contexts of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) contexts: Vec<Context>,
    /// Sorted by address.
    pub(super) blocks: Vec<Block>,
    /// The contexts themselves, sorted: first address and index. They precede their first blocks.
    heads: Vec<(VirtualAddress, usize)>,
    /// True if some part was skipped, because it changed or was inconsistent.
    pub(super) is_partial: bool,
}

/// Names of contexts by their address: they are constants of the program, the same in all processes of a
/// server.
pub(super) type Names = HashMap<VirtualAddress, Arc<str>>;

/// Offsets in contexts and blocks, by major version. Structures that are in no header (aset.c, generation.c,
/// bump.c) are constants here; the live test compares the sum of the blocks with each context's own count.
#[derive(Clone, Debug)]
pub(super) struct ContextLayout {
    pub(super) major: u32,
    node_tag: [(u32, Kind); 4],
    mem_allocated: usize,
    parent: usize,
    first_child: usize,
    next_child: usize,
    name: usize,
    ident: usize,
    /// Size of the part common to all kinds.
    pub(super) header: usize,
}

/// Block header of an AllocSet: context, previous, next, first free byte, end. The same in all versions.
const ALLOC_BLOCK: usize = 40;

impl ContextLayout {
    pub(super) fn of(layout: &Layout) -> Result<ContextLayout, Missing> {
        let offset = |field: &str| layout.offset("MemoryContextData", field).map(|offset| offset as usize);
        let tag = |name: &str| {
            let found = layout.node_tags.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, number)| *number)
        };
        Ok(ContextLayout {
            major: layout.major,
            node_tag: [
                (tag("AllocSetContext"), Kind::AllocSet),
                (tag("GenerationContext"), Kind::Generation),
                (tag("SlabContext"), Kind::Slab),
                (tag("BumpContext"), Kind::Bump),
            ],
            mem_allocated: offset("mem_allocated")?,
            parent: offset("parent")?,
            first_child: offset("firstchild")?,
            next_child: offset("nextchild")?,
            name: offset("name")?,
            ident: offset("ident")?,
            header: layout.structure("MemoryContextData")?.size as usize,
        })
    }

    fn kind(&self, tag: u32) -> Option<Kind> {
        self.node_tag.iter().find(|(known, _)| *known == tag && tag != 0).map(|(_, kind)| *kind)
    }

    /// Bytes of a context of a kind: its first block follows directly.
    pub(super) fn size(&self, kind: Kind) -> usize {
        let own = match (kind, self.major) {
            // Blocks, 11 lists of free chunks, four sizes, the first block, a number. Since 17 the sizes have 4 bytes,
            // and the first block is computed.
            (Kind::AllocSet, ..=16) => 8 + 88 + 32 + 8 + 8,
            (Kind::AllocSet, _) => 8 + 88 + 16 + 8,
            (Kind::Generation, ..=16) => 32 + 8 + 8 + 8 + 16,
            (Kind::Generation, _) => 16 + 8 + 8 + 16,
            (Kind::Bump, _) => 16 + 16,
            (Kind::Slab, _) => 0,
        };
        self.header + own
    }

    /// Offset of the head of a kind's list of blocks in the context.
    fn blocks(&self, kind: Kind) -> usize {
        match kind {
            Kind::AllocSet => self.header,
            // The list is the last field of these.
            _ => self.size(kind) - 16,
        }
    }

    /// Size of a block's header, and the offset of its first unallocated byte; the end follows.
    fn block(&self, kind: Kind) -> (usize, usize) {
        match (kind, self.major) {
            (Kind::AllocSet, _) => (ALLOC_BLOCK, 24),
            // Links, size, two counts. Since 16, the context after the links.
            (Kind::Generation, ..=15) => (48, 32),
            (Kind::Generation, _) => (56, 40),
            (Kind::Bump | Kind::Slab, _) => (32, 16),
        }
    }
}

impl Tree {
    /// Walks the tree from the top context.
    pub(super) fn walk(
        memory: &dyn Readable,
        layout: &ContextLayout,
        top: VirtualAddress,
        names: &mut Names,
    ) -> Tree {
        let mut tree = Tree::default();
        // Context, its parent, the parent's path, depth.
        let mut open: Vec<(VirtualAddress, VirtualAddress, Option<Arc<str>>, usize)> =
            vec![(top, VirtualAddress(0), None, 0)];
        let mut seen = HashSet::new();
        while let Some((address, parent, above, depth)) = open.pop() {
            if !seen.insert(address) {
                tree.is_partial = true;
                continue;
            }
            if tree.contexts.len() >= CONTEXTS_AT_MOST || depth > DEPTH_AT_MOST {
                tree.is_partial = true;
                break;
            }
            let most = layout.size(Kind::AllocSet).max(layout.size(Kind::Generation));
            let Some(bytes) = memory.whole(address, most) else {
                tree.is_partial = true;
                continue;
            };
            let pointer = |at: usize| VirtualAddress(u64_at(&bytes, at).unwrap_or(0));
            let kind = layout.kind(u32_at(&bytes, 0).unwrap_or(0));
            let Some(kind) = kind.filter(|_| pointer(layout.parent) == parent) else {
                tree.is_partial = true;
                continue;
            };
            let name =
                names.entry(pointer(layout.name)).or_insert_with_key(|at| memory.text(*at, NAME).into());
            let mut name = Arc::clone(name);
            let mut ident: Arc<str> = one_line(&memory.text(pointer(layout.ident), IDENT)).into();
            // All hash tables have one name; the server itself shows their purpose instead.
            if &*name == "dynahash" && !ident.is_empty() {
                name = std::mem::replace(&mut ident, "".into());
            }
            let path: Arc<str> = match &above {
                Some(above) => format!("{above}/{name}").into(),
                None => Arc::clone(&name),
            };
            // Siblings before children: otherwise a long list of them would make the stack deep.
            let (child, next) = (pointer(layout.first_child), pointer(layout.next_child));
            if next.0 != 0 && depth > 0 {
                open.push((next, parent, above, depth));
            }
            if child.0 != 0 {
                open.push((child, address, Some(Arc::clone(&path)), depth + 1));
            }
            let allocated = u64_at(&bytes, layout.mem_allocated).unwrap_or(0);
            tree.heads.push((address, tree.contexts.len()));
            tree.contexts.push(Context { address, kind, name, ident, path, allocated });
            let first = pointer(layout.blocks(kind) + if kind == Kind::AllocSet { 0 } else { 8 });
            tree.add_blocks(memory, layout, first);
        }
        tree.blocks.sort_unstable_by_key(|block| block.start);
        tree.heads.sort_unstable();
        tree
    }

    /// Adds the blocks of the last context.
    fn add_blocks(&mut self, memory: &dyn Readable, layout: &ContextLayout, first: VirtualAddress) {
        let Some(number) = self.contexts.len().checked_sub(1) else { return };
        let (address, kind) = (self.contexts[number].address, self.contexts[number].kind);
        if kind == Kind::Slab {
            return;
        }
        let (header, free_at) = layout.block(kind);
        // A ring of links returns to its head in the context.
        let head = VirtualAddress(address.0.wrapping_add(layout.blocks(kind) as u64));
        // In a ring the first one's predecessor is the head, in a chain it is null.
        let mut before = if kind == Kind::AllocSet { VirtualAddress(0) } else { head };
        let mut next = first;
        while next.0 != 0 && next != head {
            let Some(bytes) = memory.whole(next, header).filter(|_| self.blocks.len() < BLOCKS_AT_MOST)
            else {
                self.is_partial = true;
                return;
            };
            let pointer = |at: usize| VirtualAddress(u64_at(&bytes, at).unwrap_or(0));
            let (free, end) = (pointer(free_at), pointer(free_at + 8));
            let data = VirtualAddress(next.0.wrapping_add(header as u64));
            let is_own = match (kind, layout.major) {
                (Kind::AllocSet, _) => pointer(0) == address,
                (Kind::Generation, 16..) => pointer(16) == address,
                _ => true,
            };
            // Links that agree in both directions cannot form a circle.
            let is_own = is_own && pointer(if kind == Kind::AllocSet { 8 } else { 0 }) == before;
            if !is_own || data > free || free > end {
                self.is_partial = true;
                return;
            }
            self.blocks.push(Block { start: next, data, free, end, context: number });
            before = next;
            next = match kind {
                Kind::AllocSet => pointer(16),
                _ => pointer(8),
            };
        }
    }

    /// The block that contains an address.
    pub(super) fn block_at(&self, address: VirtualAddress) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.start <= address);
        self.blocks[..after].last().filter(|block| address < block.end)
    }

    /// The context whose own structure contains an address.
    pub(super) fn head_at(&self, layout: &ContextLayout, address: VirtualAddress) -> Option<&Context> {
        let after = self.heads.partition_point(|(start, _)| *start <= address);
        let (start, number) = self.heads[..after].last()?;
        let context = &self.contexts[*number];
        (address.0 - start.0 < layout.size(context.kind).max(layout.header) as u64).then_some(context)
    }

    /// The range around an address that belongs to no context.
    pub(super) fn gap_at(&self, address: VirtualAddress) -> (VirtualAddress, VirtualAddress) {
        let after = self.blocks.partition_point(|block| block.start <= address);
        let start = self.blocks[..after].last().map_or(VirtualAddress(0), |block| block.end);
        let end = self.blocks.get(after).map_or(VirtualAddress(u64::MAX), |block| block.start);
        let heads = self.heads.partition_point(|(start, _)| *start <= address);
        let next_head = self.heads.get(heads).map_or(end, |(start, _)| *start);
        (start, end.min(next_head))
    }
}

/// Statements have line breaks, which names must not have.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
