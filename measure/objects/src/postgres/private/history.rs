//! What the memory of a process was at earlier walks: contexts of a query are gone when the query is done, and a sample
//! of it may be looked at only then.

use super::contexts::{Context, Tree};
use hardmeter_samples::model::VirtualAddress;
use std::collections::BTreeMap;

/// Blocks that are remembered of one process.
const MOST: usize = 1 << 14;
/// Bytes of a context itself, at most.
const LARGEST_CONTEXT: u64 = 256;

/// Blocks of contexts, whether they are still there or not: the last owner of each stretch.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// By first address: first address behind, and the context.
    stretches: BTreeMap<VirtualAddress, (VirtualAddress, Context)>,
}

impl History {
    /// Remembers the blocks of a walk. Blocks of the context's own piece of memory begin with the context.
    pub(super) fn note(&mut self, tree: &Tree) {
        if self.stretches.len() > MOST {
            self.stretches.clear();
        }
        for block in &tree.blocks {
            let Some(context) = tree.contexts.get(block.context) else { continue };
            // The first block follows the context itself.
            let is_first =
                block.start > context.address && block.start.0 - context.address.0 < LARGEST_CONTEXT;
            let start = if is_first { context.address } else { block.start };
            // The same as at the last walk: most are.
            let known = self.stretches.get(&start);
            if known.is_some_and(|(end, known)| *end == block.end && known.path == context.path) {
                continue;
            }
            self.forget(start, block.end);
            self.stretches.insert(start, (block.end, context.clone()));
        }
    }

    /// Removes what overlaps a stretch: it has another owner now.
    fn forget(&mut self, start: VirtualAddress, end: VirtualAddress) {
        let before = self.stretches.range(..end).rev();
        let overlapping: Vec<VirtualAddress> =
            before.take_while(|(_, (other, _))| *other > start).map(|(start, _)| *start).collect();
        for start in overlapping {
            self.stretches.remove(&start);
        }
    }

    /// The last context that had an address, and the stretch.
    pub(super) fn at(&self, address: VirtualAddress) -> Option<(VirtualAddress, VirtualAddress, &Context)> {
        let (start, (end, context)) = self.stretches.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end, context))
    }
}
