//! The private memory of a backend, of any bytes, for the fuzz target `walk_contexts`.

use super::chunks::chunks;
use super::contexts::{ContextLayout, Names, Readable, Tree};
use super::{CacheIndex, CacheLayout, NodeTypes};
use crate::postgres::layout::{Layout, MAJORS};
use hardmeter_samples::model::VirtualAddress;
use std::hint::black_box;
use std::sync::OnceLock;

/// Where the bytes lie.
const START: u64 = 0x10_0000;

struct Memory<'b>(&'b [u8]);

impl Readable for Memory<'_> {
    fn fill(&self, at: VirtualAddress, into: &mut [u8]) -> usize {
        let rest = at.0.checked_sub(START).and_then(|from| self.0.get(usize::try_from(from).ok()?..));
        let rest = rest.unwrap_or_default();
        let got = into.len().min(rest.len());
        into[..got].copy_from_slice(&rest[..got]);
        got
    }
}

/// Where the structures of a version lie.
struct Version {
    contexts: ContextLayout,
    caches: CacheLayout,
    nodes: NodeTypes,
}

impl Version {
    fn of(major: u32) -> Version {
        let layout = Layout::of(major).expect("compiled in");
        Version {
            contexts: ContextLayout::of(&layout).expect("whole"),
            caches: CacheLayout::of(&layout).expect("whole"),
            nodes: NodeTypes::of(&layout).expect("whole"),
        }
    }
}

/// Walks contexts, blocks and chunks, recognises nodes and reads caches, as in a server of each major version; the first
/// byte chooses which.
pub(crate) fn walk_contexts(bytes: &[u8]) {
    static VERSIONS: OnceLock<Vec<Version>> = OnceLock::new();
    let versions = VERSIONS.get_or_init(|| MAJORS.map(Version::of).into());
    let Some((first, rest)) = bytes.split_first() else { return };
    let Version { contexts, caches, nodes } = &versions[usize::from(*first) % versions.len()];
    let memory = Memory(rest);
    let tree = Tree::walk(&memory, contexts, VirtualAddress(START), &mut Names::new());
    let mut all = Vec::new();
    for block in &tree.blocks {
        let context = &tree.contexts[block.context];
        all.extend(chunks(&memory, contexts, context.kind, context.address, block));
    }
    for chunk in &all {
        let mut prefix = vec![0; nodes.prefix()];
        let got = memory.fill(chunk.data, &mut prefix);
        black_box(nodes.recognise(&memory, &prefix[..got], chunk.size()));
    }
    black_box(CacheIndex::read(&memory, caches, &all));
}
