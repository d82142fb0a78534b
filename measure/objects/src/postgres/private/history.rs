//! The memory of a process at earlier walks: contexts of a query are freed at its end, and its samples may be
//! examined only then.

use super::contexts::{Context, Tree};
use hardmeter_samples::model::VirtualAddress;
use std::collections::BTreeMap;

/// Limit of remembered blocks of one process.
const MOST: usize = 1 << 14;
/// Largest size of a context itself.
const LARGEST_CONTEXT: u64 = 256;

/// Present and former blocks of contexts: the last owner of each range.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// By first address: the end, and the context.
    stretches: BTreeMap<VirtualAddress, (VirtualAddress, Context)>,
}

impl History {
    /// Records the blocks of a walk. Blocks in the context's own allocation begin with the context.
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

    /// Removes what overlaps a range: it has another owner now.
    fn forget(&mut self, start: VirtualAddress, end: VirtualAddress) {
        let before = self.stretches.range(..end).rev();
        let overlapping: Vec<VirtualAddress> =
            before.take_while(|(_, (other, _))| *other > start).map(|(start, _)| *start).collect();
        for start in overlapping {
            self.stretches.remove(&start);
        }
    }

    /// The last context that had an address, and the range.
    pub(super) fn at(&self, address: VirtualAddress) -> Option<(VirtualAddress, VirtualAddress, &Context)> {
        let (start, (end, context)) = self.stretches.range(..=address).next_back()?;
        (address < *end).then_some((*start, *end, context))
    }
}
