//! Jump tables of AArch64 code, whose entries are distances from a label, in units of instructions:
//!
//! ```text
//!   cmp  w1, #7; b.hi default        the number of entries; or b.ls to what follows
//!   adrp x0, table; add x0, x0, ...
//!   ldrb w1, [x0, w1, uxtw]          GCC; LLVM indexes with x1, and may have ldrsw with lsl #2
//!   adr  x2, label
//!   add  x1, x2, w1, sxtb #2         LLVM: add x1, x2, x1, lsl #2
//!   br   x1
//! ```

use super::memory::{bits, general, memory, or_stack, Access, Memory, Place, Register};
use super::{add_constant, registers, relative, Arm, Instruction};
use crate::stall::machine::{Flow, Machine, Word};
use std::ops::Range;

/// Entries read of one table.
const LIMIT: u64 = 1024;
/// The number of instructions before the jump that are searched for the load of an entry, and for the comparison.
const DISTANCE: usize = 16;
/// The distance of a conditional jump from its comparison.
const COMPARED: usize = 4;
/// The conditions "higher" and "not higher" of a jump.
const HIGHER: u32 = 0b1000;
const NOT_HIGHER: u32 = 0b1001;
/// Copies and additions that are followed for an address.
const DEPTH: u32 = 8;

/// A value extended as an arithmetic instruction does (`option`).
pub(super) fn extend(value: u64, option: u32) -> u64 {
    match option {
        0b000 => u64::from(value as u8),
        0b001 => u64::from(value as u16),
        0b010 => u64::from(value as u32),
        0b100 => i64::from(value as i8) as u64,
        0b101 => i64::from(value as i16) as u64,
        0b110 => i64::from(value as i32) as u64,
        _ => value,
    }
}

/// The targets of the table that a jump, the last instruction, reads; none if it is no such jump.
pub(super) fn targets(until: &[Instruction], function: Range<u64>, word: Word<'_>) -> Vec<u64> {
    find(until, function, word).unwrap_or_default()
}

fn find(until: &[Instruction], function: Range<u64>, word: Word<'_>) -> Option<Vec<u64>> {
    let (jump, before) = until.split_last()?;
    let first = before.len().saturating_sub(DISTANCE);
    let add_at = (first..before.len()).rev().find(|at| writes(before[*at], or_stack(jump.word, 5)))?;
    let add = before[add_at].word;
    // ADD of 64-bit registers, shifted to the left or extended.
    if bits(add, 24, 8) != 0b1000_1011 || bits(add, 22, 2) != 0 {
        return None;
    }
    let (option, shift) = match bits(add, 21, 1) {
        1 => (bits(add, 13, 3), bits(add, 10, 3)),
        _ => (0b011, bits(add, 10, 6)),
    };
    let offset = general(add, 16)?;
    let load_at = (first..add_at).rev().find(|at| writes(before[*at], offset))?;
    let load = before[load_at].word;
    let Memory { access: Access::Load, place: Place::Index(table, Some(_), _, _), .. } = memory(load)? else {
        return None;
    };
    let label = address(&before[..add_at], general(add, 5)?, DEPTH)?;
    let table = address(&before[..load_at], table, DEPTH)?;
    let size = 1u64 << bits(load, 30, 2);
    let extend_entry = match (size, bits(load, 22, 2) >= 2) {
        (1, false) => 0b000,
        (1, true) => 0b100,
        (2, false) => 0b001,
        (2, true) => 0b101,
        (4, false) => 0b010,
        (4, true) => 0b110,
        _ => return None,
    };
    let entry = |number: u64| {
        let bytes = word(table.wrapping_add(size * number))?;
        let entry = extend(extend(i64::from(bytes) as u64, extend_entry), option);
        let target = label.wrapping_add(entry.checked_shl(shift)?);
        (function.contains(&target) && target.is_multiple_of(4)).then_some(target)
    };
    Some((0..entries(before, first)).map_while(entry).collect())
}

/// The number of entries: one more than the constant of the comparison before a jump for what is higher, or before one
/// to the code that reads the table, for what is not. Of several, the highest.
fn entries(before: &[Instruction], first: usize) -> u64 {
    let near = before[first].address..before[before.len() - 1].address.saturating_add(4);
    let decides = |at: usize| match Arm::flow(&before[at]) {
        Flow::Conditional(_) if before[at].word & 0xf == HIGHER => at >= first,
        Flow::Conditional(target) if before[at].word & 0xf == NOT_HIGHER => near.contains(&target),
        _ => false,
    };
    let is_flags = |at: usize| bits(before[at].word, 24, 8) == 0b0101_0100;
    let compared = |at: usize| {
        before[at.saturating_sub(COMPARED)..at].iter().rev().find_map(|instruction| {
            match add_constant(instruction.word)? {
                (None, _, constant) if constant <= 0 => Some(constant.unsigned_abs() + 1),
                _ => None,
            }
        })
    };
    let all = (0..before.len()).filter(|at| is_flags(*at) && decides(*at)).filter_map(compared);
    all.max().unwrap_or(LIMIT).min(LIMIT)
}

fn writes(instruction: Instruction, register: Register) -> bool {
    registers::writes(instruction.word) >> register.0 & 1 == 1
}

/// The address in a register behind some code, if that computes it from its own place. It may have been computed long
/// before, outside a loop.
fn address(code: &[Instruction], register: Register, depth: u32) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    let at = code.iter().rposition(|instruction| writes(*instruction, register))?;
    let Instruction { address: place, word } = code[at];
    if bits(word, 24, 5) == 0b10000 {
        return Some(relative(place, word, 0));
    }
    let (_, source, constant) = add_constant(word)?;
    Some(address(&code[..at], source, depth)?.wrapping_add_signed(constant))
}
