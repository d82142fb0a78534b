//! The decoded instruction at a sampled place, with its memory operands. Each is decoded once.

use crate::code::Place;
use crate::symbols::SymbolNames;
use hardmeter_symbols::{Access, Instruction, MemoryOperand, Syntax};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// No x86 instruction is longer.
const LONGEST: u64 = 15;

/// Decoded instructions by place.
#[derive(Default)]
pub struct Instructions {
    known: FxHashMap<Place, Option<Arc<Instruction>>>,
}

impl Instructions {
    /// The text of the instruction at a place, in AT&T's syntax; `None` if its code is missing.
    pub fn text(&mut self, names: &mut SymbolNames, place: Place) -> Option<String> {
        let instruction = self.at(names, place)?;
        Some(instruction.text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The instruction at a place; `None` if its code is missing. The reason is among the symbolizer's
    /// problems.
    pub(crate) fn at(&mut self, names: &mut SymbolNames, place: Place) -> Option<Arc<Instruction>> {
        self.known.entry(place).or_insert_with(|| decode(names, place)).clone()
    }
}

fn decode(names: &mut SymbolNames, place: Place) -> Option<Arc<Instruction>> {
    let resolved = names.resolved(place)?;
    let mut end = resolved.address;
    end.0 = end.0.checked_add(LONGEST)?;
    let code = names.symbolizer().disassemble(resolved.image?, resolved.address..end, Syntax::Att).ok()?;
    let first = code.into_iter().next()?;
    (first.text != "(bad)").then(|| Arc::new(first))
}

/// The operand of an access: if an instruction has several, the one that stores or loads as the access did.
pub(crate) fn operand_of(instruction: &Instruction, store: bool) -> Option<&MemoryOperand> {
    let fits = |operand: &&MemoryOperand| match operand.access {
        Access::ReadWrite => true,
        Access::Write => store,
        Access::Read => !store,
    };
    instruction.memory.iter().find(fits)
}
