//! The code around sampled instructions: the preceding instruction, and the straight-line block.
//!
//! ```text
//!   block   mov (%rdi),%rax      begins at a routine's start, at a jump's target, behind a jump or call
//!           add 0x8(%rdi),%rax
//!           jne ...              ends with the first instruction that may go elsewhere
//! ```
//!
//! Routines with indirect jumps have block entries that cannot be determined: their blocks are left out.

use crate::annotate::PlaceCounts;
use crate::code::{CodeMap, ImageAddress, Place};
use crate::quality::BlockCounts;
use crate::symbols::SymbolNames;
use hardmeter_samples::model::EventIndex;
use hardmeter_symbols::{Access, Flow, ImageId, Instruction, RoutineId, Syntax};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The kind of event that each execution of an instruction counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Executed {
    /// Its loads.
    Loads,
    /// Its stores.
    Stores,
    /// The instruction.
    Instructions,
}

/// Larger routines are not decoded as a whole.
const LARGEST_ROUTINE: u64 = 1 << 20;

/// Decoded routines.
#[derive(Default)]
pub(crate) struct RoutineCode {
    routines: FxHashMap<(ImageId, RoutineId), Option<Rc<Vec<Instruction>>>>,
}

impl RoutineCode {
    /// Analyses the samples of a place, if its code is available.
    pub(crate) fn examined(&mut self, names: &mut SymbolNames, place: Place, samples: u64) -> u64 {
        self.find(names, place).map_or(0, |_| samples)
    }

    /// Whether the instruction at a place uses no memory; if so, whether the preceding one does.
    pub(crate) fn suspect(&mut self, names: &mut SymbolNames, place: Place) -> Option<bool> {
        let (code, at) = self.find(names, place)?;
        if !code[at].memory.is_empty() {
            return None;
        }
        Some(at > 0 && !code[at - 1].memory.is_empty())
    }

    /// The routine around a place, and the position of the instruction in it.
    fn find(&mut self, names: &mut SymbolNames, place: Place) -> Option<(Rc<Vec<Instruction>>, usize)> {
        let resolved = names.resolved(place)?;
        let image = resolved.image?;
        let code = self.routines.entry((image, resolved.routine)).or_insert_with(|| {
            let routine = names.symbolizer().routine(resolved.routine);
            let (start, size) = (routine.start, routine.size);
            if size == 0 || size > LARGEST_ROUTINE {
                return None;
            }
            let mut end = start;
            end.0 += size;
            names.symbolizer().disassemble(image, start..end, Syntax::Att).ok().map(Rc::new)
        });
        let code = code.clone()?;
        let at = code.binary_search_by_key(&resolved.address, |instruction| instruction.address).ok()?;
        Some((code, at))
    }

    /// The blocks with samples of an event, each with the instructions that the event counts.
    pub(crate) fn blocks(
        &mut self,
        names: &mut SymbolNames,
        kind: Executed,
        event: EventIndex,
        counts: &PlaceCounts,
    ) -> Vec<BlockCounts> {
        type Sampled = (Place, BTreeMap<usize, u64>);
        let mut sampled: BTreeMap<(u32, u64), Sampled> = BTreeMap::new();
        for count in counts.iter().filter(|count| count.event == event) {
            let Some((code, at)) = self.find(names, count.place) else { continue };
            let key = (count.place.image.0, code[0].address.0);
            let entry = sampled.entry(key).or_insert_with(|| (count.place, BTreeMap::new()));
            *entry.1.entry(at).or_default() += count.samples;
        }
        let mut blocks = Vec::new();
        for (place, samples) in sampled.into_values() {
            let Some((code, _)) = self.find(names, place) else { continue };
            let routine = names.routine(place).to_string();
            let counted = |range: std::ops::Range<usize>| {
                let weighed = range.map(|at| (at, weight(&code[at], kind)));
                let weighed = weighed.filter_map(|(at, weight)| Some((at, weight?)));
                weighed
                    .filter(|(_, weight)| *weight > 0)
                    .map(|(at, weight)| {
                        let samples = samples.get(&at).copied().unwrap_or(0);
                        (ImageAddress(code[at].address.0), weight, samples)
                    })
                    .collect()
            };
            for range in straight_lines(&code) {
                if samples.range(range.clone()).next().is_some() {
                    blocks.push(BlockCounts { routine: routine.clone(), instructions: counted(range) });
                }
            }
        }
        blocks
    }
}

/// Number of events per execution; `None` if that depends on more than the instruction.
fn weight(instruction: &Instruction, kind: Executed) -> Option<u64> {
    let wanted = |access: Access| match kind {
        Executed::Loads => access != Access::Write,
        Executed::Stores => access != Access::Read,
        Executed::Instructions => false,
    };
    if kind == Executed::Instructions {
        return Some(1);
    }
    if instruction.text.starts_with("rep") || instruction.memory.iter().any(|operand| operand.vector_index) {
        return None;
    }
    Some(instruction.memory.iter().filter(|operand| wanted(operand.access)).count() as u64)
}

/// Runs of instructions that are entered at the first and left after the last only.
fn straight_lines(code: &[Instruction]) -> Vec<std::ops::Range<usize>> {
    if code.iter().any(|instruction| instruction.flow == Flow::Jump(None)) {
        return Vec::new();
    }
    let mut entrances = BTreeSet::from([0, code.len()]);
    for (at, instruction) in code.iter().enumerate() {
        if instruction.flow != Flow::Next {
            entrances.insert(at + 1);
        }
        if let Flow::Jump(Some(target)) | Flow::ConditionalJump(target) = instruction.flow {
            if let Ok(target) = code.binary_search_by_key(&target, |instruction| instruction.address) {
                entrances.insert(target);
            }
        }
    }
    let entrances: Vec<usize> = entrances.into_iter().collect();
    entrances.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_symbols::{disassemble, ImageAddress};

    /// ```text
    ///   0: mov (%rdi),%rax      <- start
    ///   3: add 0x8(%rdi),%rax   <- jne's target
    ///   7: mov %rax,(%rsi)
    ///   a: jne 3
    ///   c: ret
    /// ```
    const LOOP: [u8; 13] = [0x48, 0x8b, 0x07, 0x48, 0x03, 0x47, 0x08, 0x48, 0x89, 0x06, 0x75, 0xf7, 0xc3];

    #[test]
    fn blocks_begin_at_targets_and_end_at_jumps() {
        let code = disassemble(&LOOP, ImageAddress(0), Syntax::Att);
        assert_eq!(code.len(), 5);
        assert_eq!(straight_lines(&code), [0..1, 1..4, 4..5]);
        let weights = |kind| code.iter().map(|one| weight(one, kind).expect("known")).collect::<Vec<_>>();
        assert_eq!(weights(Executed::Loads), [1, 1, 0, 0, 1], "ret loads its address");
        assert_eq!(weights(Executed::Stores), [0, 0, 1, 0, 0]);
        assert_eq!(weights(Executed::Instructions), [1; 5]);
    }

    #[test]
    fn hidden_entrances_leave_no_block() {
        // jmp *%rax
        let code = disassemble(&[0x48, 0x8b, 0x07, 0xff, 0xe0], ImageAddress(0), Syntax::Att);
        assert_eq!(straight_lines(&code), []);
    }
}
