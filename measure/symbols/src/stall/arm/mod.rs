//! AArch64, decoded from the encodings of the architecture manual.
//!
//! Instructions have four bytes, and fields at fixed places: a load's operand ([`memory`]) and the registers that are
//! written ([`registers`]) are read from the word when they are needed. Both are compared with binutils on recorded
//! and on random words (`oracle.rs`).

mod memory;
#[cfg(test)]
mod oracle;
mod registers;
mod tables;
#[cfg(test)]
mod tests;

use super::machine::{Flow, Machine, NoAddress, State, Word};
use memory::{bits, general, memory, or_stack, signed, Access, Extend, Memory, Place, Register, Update};
use std::ops::Range;

/// The part of a pointer that is an address: the top byte may hold a tag (top byte ignore).
const ADDRESS: u64 = (1 << 56) - 1;

/// Decoding needs no scratch space.
#[derive(Default)]
pub(super) struct Arm;

/// An instruction and its address in the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    address: u64,
    word: u32,
}

impl Machine for Arm {
    type Instruction = Instruction;
    type Name = Register;
    type Operand = Memory;

    fn decode(bytes: &[u8], start: u64) -> Vec<Instruction> {
        let words = bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let addresses = (0u64..).map(|number| start.wrapping_add(4 * number));
        words.zip(addresses).map(|(word, address)| Instruction { address, word }).collect()
    }

    fn address(instruction: &Instruction) -> u64 {
        instruction.address
    }

    fn flow(instruction: &Instruction) -> Flow {
        let word = instruction.word;
        let target = |low, count| instruction.address.wrapping_add_signed(signed(word, low, count) * 4);
        match bits(word, 24, 8) {
            0b0001_0100..=0b0001_0111 => Flow::Jump(target(0, 26)),
            0b0101_0100 => Flow::Conditional(target(5, 19)),
            high if high & 0b0111_1110 == 0b0011_0100 => Flow::Conditional(target(5, 19)),
            high if high & 0b0111_1110 == 0b0011_0110 => Flow::Conditional(target(5, 14)),
            0b1101_0101 => Flow::Next,
            0b1101_0110 | 0b1101_0111 if bits(word, 21, 3) == 0 => Flow::Indirect,
            _ if bits(word, 26, 3) == 0b101 && bits(word, 28, 1) == 1 => Flow::Away,
            _ if Arm::is_invalid(instruction) => Flow::Away,
            high if high & 0b0111_1100 == 0b0001_0100 => Flow::Away, // BL
            _ => Flow::Next,
        }
    }

    fn is_invalid(instruction: &Instruction) -> bool {
        let word = instruction.word;
        match bits(word, 25, 4) {
            0b0000 => bits(word, 31, 1) == 0,
            0b0001 | 0b0011 => true,
            _ => false,
        }
    }

    /// A comparison has no memory operand here.
    fn is_fusible(_: &Instruction) -> bool {
        false
    }

    fn is_restarted(_: &Instruction) -> bool {
        false
    }

    fn table_targets(until: &[Instruction], function: Range<u64>, word: Word<'_>) -> Vec<u64> {
        tables::targets(until, function, word)
    }

    fn load(&mut self, instruction: &Instruction) -> Option<Memory> {
        memory(instruction.word).filter(|memory| memory.access == Access::Load)
    }

    fn data_address(
        values: &mut impl State<Arm>,
        position: usize,
        operand: Memory,
    ) -> Result<u64, NoAddress> {
        let address = match operand.place {
            Place::Several => return Err(NoAddress::Several),
            Place::Literal(offset) => {
                Some(values.at(position).address.wrapping_add_signed(offset).wrapping_add(values.bias()))
            }
            Place::Offset(base, offset) => {
                values.before(position, base).map(|base| base.wrapping_add_signed(offset))
            }
            Place::Index(base, index, extend, shift) => values.before(position, base).and_then(|base| {
                let index = or_zero(values, position, index)?;
                Some(base.wrapping_add(extend.of(index) << shift))
            }),
        };
        address.map(|address| address & ADDRESS).ok_or(NoAddress::Overwritten)
    }

    fn number(register: Register) -> Option<u32> {
        Some(u32::from(register.0))
    }

    fn writes(&mut self, instruction: &Instruction, register: Register) -> bool {
        registers::writes(instruction.word) >> register.0 & 1 == 1
    }

    fn undo(instruction: &Instruction, register: Register, after: u64) -> Option<u64> {
        let word = instruction.word;
        if let Some(step) = updated_base(word, register) {
            return Some(after.wrapping_sub(step as u64));
        }
        let (target, source, constant) = add_constant(word)?;
        let whole = bits(word, 31, 1) == 1;
        (whole && target == Some(register) && source == register).then(|| after.wrapping_sub(constant as u64))
    }

    fn copy_of(instruction: &Instruction) -> Option<(Register, Register)> {
        let word = instruction.word;
        if word & 0xffe0_ffe0 == 0xaa00_03e0 {
            return general(word, 0).zip(general(word, 16)); // mov
        }
        (word & 0xffff_fc00 == 0x9100_0000).then(|| (or_stack(word, 0), or_stack(word, 5)))
        // mov of sp
    }

    fn redo(values: &mut impl State<Arm>, position: usize, register: Register) -> Option<u64> {
        let Instruction { address, word } = values.at(position);
        if let Some(step) = updated_base(word, register) {
            return Some(values.before(position, register)?.wrapping_add_signed(step));
        }
        let whole = bits(word, 31, 1) == 1;
        let value = match bits(word, 24, 5) {
            0b10000 if target(word) == Some(register) => return Some(relative(address, word, values.bias())),
            0b10001 if bits(word, 23, 1) == 0 => {
                let (target, source, constant) = add_constant(word)?;
                (target == Some(register)).then_some(())?;
                values.before(position, source)?.wrapping_add_signed(constant)
            }
            0b10010 | 0b10011 | 0b01010 | 0b01011 | 0b11011 => {
                let stack = match bits(word, 24, 5) {
                    0b10010 => bits(word, 23, 1) == 0 && bits(word, 29, 2) != 3,
                    0b01011 => bits(word, 21, 1) == 1 && bits(word, 29, 1) == 0,
                    _ => false,
                };
                let target = if stack { Some(or_stack(word, 0)) } else { target(word) };
                (target == Some(register)).then_some(())?;
                match bits(word, 23, 6) {
                    0b100100 => logical_constant(values, position, word)?,
                    0b100101 => moved_constant(values, position, word)?,
                    0b100110 => bit_field(values, position, word)?,
                    0b010100 | 0b010101 => logical(values, position, word)?,
                    0b010110 | 0b010111 => sum(values, position, word)?,
                    0b110110 | 0b110111 => product(values, position, word)?,
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(narrow(value, whole))
    }
}

/// The change of a base register by the access that names it; `None` if the access loads it, too.
fn updated_base(word: u32, register: Register) -> Option<i64> {
    let Memory { place: Place::Offset(base, _), update: Some(Update::By(step)), .. } = memory(word)? else {
        return None;
    };
    let vector = bits(word, 26, 1) == 1;
    let pair = bits(word, 28, 2) == 0b10;
    let also_data = !vector && (general(word, 0) == Some(base) || pair && general(word, 10) == Some(base));
    (base == register && !also_data).then_some(step)
}

/// Target, source and constant of an addition or subtraction; the target is `None` for a comparison.
fn add_constant(word: u32) -> Option<(Option<Register>, Register, i64)> {
    if bits(word, 23, 6) != 0b100010 {
        return None;
    }
    let constant = i64::from(bits(word, 10, 12)) << (12 * bits(word, 22, 1));
    let target = if bits(word, 29, 1) == 1 { target(word) } else { Some(or_stack(word, 0)) };
    Some((target, or_stack(word, 5), if bits(word, 30, 1) == 1 { -constant } else { constant }))
}

/// The register that a data instruction writes.
fn target(word: u32) -> Option<Register> {
    general(word, 0)
}

/// The value of `ADR` and `ADRP`.
fn relative(address: u64, word: u32, bias: u64) -> u64 {
    let offset = signed(word, 5, 19) << 2 | i64::from(bits(word, 29, 2));
    match bits(word, 31, 1) {
        0 => address.wrapping_add(bias).wrapping_add_signed(offset),
        _ => (address.wrapping_add(bias) & !0xfff).wrapping_add_signed(offset << 12),
    }
}

/// The value of a register; zero for the zero register.
fn or_zero(values: &mut impl State<Arm>, position: usize, register: Option<Register>) -> Option<u64> {
    match register {
        Some(register) => values.before(position, register),
        None => Some(0),
    }
}

/// The low half, or the whole.
fn narrow(value: u64, whole: bool) -> u64 {
    if whole {
        value
    } else {
        u64::from(value as u32)
    }
}

/// The second operand of arithmetic: a shifted register.
fn shifted(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let whole = bits(word, 31, 1) == 1;
    let value = narrow(or_zero(values, position, general(word, 16))?, whole);
    let by = bits(word, 10, 6);
    match (bits(word, 22, 2), whole || by < 32) {
        (0b00, true) => Some(value << by),
        (0b01, true) => Some(value >> by),
        (0b10, true) if whole => Some((value as i64 >> by) as u64),
        (0b10, true) => Some(i64::from(value as i32 >> by) as u64),
        _ => None, // rotation
    }
}

/// Addition and subtraction of registers.
fn sum(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let extended = bits(word, 21, 1) == 1;
    let (first, second) = if extended {
        let value = or_zero(values, position, general(word, 16))?;
        let by = bits(word, 10, 3);
        let second = tables::extend(value, bits(word, 13, 3)) << by;
        (values.before(position, or_stack(word, 5))?, second)
    } else {
        (or_zero(values, position, general(word, 5))?, shifted(values, position, word)?)
    };
    Some(if bits(word, 30, 1) == 1 { first.wrapping_sub(second) } else { first.wrapping_add(second) })
}

/// `AND`, `ORR`, `EOR` and their negations, of registers.
fn logical(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let first = or_zero(values, position, general(word, 5))?;
    let second = shifted(values, position, word)?;
    let second = if bits(word, 21, 1) == 1 { !second } else { second };
    Some(operate(bits(word, 29, 2), first, second))
}

/// The same with a constant.
fn logical_constant(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let first = or_zero(values, position, general(word, 5))?;
    Some(operate(bits(word, 29, 2), first, mask(word)?))
}

fn operate(operation: u32, first: u64, second: u64) -> u64 {
    match operation {
        0b01 => first | second,
        0b10 => first ^ second,
        _ => first & second,
    }
}

/// The constant of a logical instruction: a run of ones, rotated within an element that is repeated.
fn mask(word: u32) -> Option<u64> {
    let (wide, rotation, length) = (bits(word, 22, 1), bits(word, 16, 6), bits(word, 10, 6));
    let size = 1u32 << (31 - (wide << 6 | !length & 0x3f).leading_zeros().min(31));
    let (ones, rotation) = ((length & (size - 1)) + 1, rotation & (size - 1));
    if size < 2 || ones >= size || wide == 1 && bits(word, 31, 1) == 0 {
        return None;
    }
    let element = (1u64 << ones) - 1;
    let whole = u64::MAX >> (64 - size);
    let turned = if rotation == 0 { element } else { element >> rotation | element << (size - rotation) };
    Some((0..64 / size).fold(0, |all, number| all | (turned & whole) << (number * size)))
}

/// `MOVZ`, `MOVN` and `MOVK`.
fn moved_constant(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let by = 16 * bits(word, 21, 2);
    let constant = u64::from(bits(word, 5, 16)) << by;
    match bits(word, 29, 2) {
        0b00 => Some(!constant),
        0b10 => Some(constant),
        0b11 => Some(values.before(position, target(word)?)? & !(0xffff << by) | constant),
        _ => None,
    }
}

/// Shifts by constants, and extensions (`UBFM`, `SBFM`).
fn bit_field(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let size = if bits(word, 31, 1) == 1 { 64 } else { 32 };
    let (first, last) = (bits(word, 16, 6), bits(word, 10, 6));
    let is_signed = match bits(word, 29, 2) {
        0b00 => true,
        0b10 => false,
        _ => return None,
    };
    if first >= size || last >= size {
        return None;
    }
    let value = or_zero(values, position, general(word, 5))?;
    // Bits `first` to `last` move to the bottom, or bits 0 to `last` move up.
    let (low, count, up) =
        if last >= first { (first, last - first + 1, 0) } else { (0, last + 1, size - first) };
    let top = value >> low << (64 - count);
    let field = if is_signed { (top as i64 >> (64 - count)) as u64 } else { top >> (64 - count) };
    Some(field << up)
}

/// `MADD` and `MSUB`, with whole registers or with extended halves.
fn product(values: &mut impl State<Arm>, position: usize, word: u32) -> Option<u64> {
    let (first, second) =
        (or_zero(values, position, general(word, 5))?, or_zero(values, position, general(word, 16))?);
    let extend = match bits(word, 21, 3) {
        0b000 => Extend::Whole,
        0b001 => Extend::Signed,
        0b101 => Extend::Unsigned,
        _ => return None,
    };
    let product = extend.of(first).wrapping_mul(extend.of(second));
    let start = or_zero(values, position, general(word, 10))?;
    Some(match bits(word, 15, 1) {
        0 => start.wrapping_add(product),
        _ => start.wrapping_sub(product),
    })
}
