//! The general registers that an A64 instruction may change.
//!
//! Invariant: a register that an instruction changes is never missing. Where an encoding is not known, all are named.

use super::memory::{bits, general, memory, or_stack, Access, Memory, Place, Register};

/// A set of registers: bit 31 is the stack pointer.
pub(super) type Set = u32;

/// Every register.
const ALL: Set = u32::MAX;

/// The link register, which calls write.
const LINK: Set = 1 << 30;

fn set(register: Register) -> Set {
    1 << register.0
}

/// The register in a field; nothing for the zero register.
fn of(word: u32, low: u32) -> Set {
    general(word, low).map_or(0, set)
}

/// The registers that an instruction may change.
pub(super) fn writes(word: u32) -> Set {
    match bits(word, 25, 4) {
        0b1000 | 0b1001 => data_immediate(word),
        0b1010 | 0b1011 => system(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => transfer(word),
        0b0101 | 0b1101 => data_registers(word),
        0b0111 | 0b1111 => vector(word),
        // SVE: loads and stores change no general register; counting and comparing may.
        0b0010 if bits(word, 31, 1) == 1 => 0,
        _ => ALL,
    }
}

/// Arithmetic with constants.
fn data_immediate(word: u32) -> Set {
    let sets_flags = bits(word, 29, 1) == 1;
    match bits(word, 23, 3) {
        0b010 if !sets_flags => set(or_stack(word, 0)),
        0b011 if bits(word, 22, 1) == 0 => set(or_stack(word, 0)), // ADDG and SUBG
        0b100 if bits(word, 29, 2) != 0b11 => set(or_stack(word, 0)),
        0b111 if bits(word, 29, 2) == 0b11 => ALL, // authentication relative to the program counter
        _ => of(word, 0),
    }
}

/// Branches and system instructions.
fn system(word: u32) -> Set {
    let calls = bits(word, 26, 6) == 0b100101;
    let calls_register = bits(word, 25, 7) == 0b1101011 && matches!(bits(word, 21, 4), 0b0001 | 0b1001);
    if calls || calls_register {
        return LINK;
    }
    if bits(word, 24, 8) == 0b1101_0100 {
        return ALL; // the kernel's, or a debugger's
    }
    if bits(word, 22, 10) == 0b11_0101_0100 {
        return if bits(word, 21, 1) == 1 { of(word, 0) } else { hint(word) };
    }
    if bits(word, 22, 10) == 0b11_0101_0101 {
        // MRRS and SYSP move pairs.
        return if bits(word, 21, 1) == 1 { of(word, 0) | of(word & !1 | 1, 0) } else { 0 };
    }
    0
}

/// Hints that sign or check a return address change it.
fn hint(word: u32) -> Set {
    if bits(word, 12, 10) != 0b00_0011_0010 || bits(word, 0, 5) != 31 {
        return 0;
    }
    match bits(word, 5, 7) {
        7 | 24..=31 => LINK,
        8 | 10 | 12 | 14 => 1 << 17,
        40 => 1 << 16,
        _ => 0,
    }
}

/// Loads, stores and atomic operations.
fn transfer(word: u32) -> Set {
    let Some(Memory { access, place, update }) = memory(word) else { return ALL };
    let base = if update.is_some() { set(or_stack(word, 5)) } else { 0 };
    let (group, vector) = (bits(word, 28, 2), bits(word, 26, 1) == 1);
    let target = match group {
        // The status of an exclusive store; the expected values of a compare and swap.
        0b00 if !vector => match (bits(word, 23, 1), bits(word, 21, 1), bits(word, 22, 1)) {
            (0, 1, _) if bits(word, 31, 1) == 0 => of(word, 16) | of(word | 1 << 16, 16),
            (1, 1, _) => of(word, 16),
            (0, _, 0) => of(word, 16),
            (0, 1, 1) => of(word, 0) | of(word, 10),
            (_, _, loads) => of(word, 0) * loads,
        },
        // Copies and sets count their range down; the value of a set stays.
        0b01 if place == Place::Several && access == Access::Store => of(word, 0) | of(word, 5),
        0b01 if place == Place::Several => of(word, 0) | of(word, 5) | of(word, 16),
        _ if vector || access == Access::Prefetch => 0,
        0b10 if access == Access::Load => of(word, 0) | of(word, 10),
        0b11 if is_atomic(word) => match bits(word, 12, 4) {
            0b1101 => (0..8).map(|next| of(word.wrapping_add(next), 0)).fold(0, |all, one| all | one),
            0b1010 | 0b1011 => of(word, 16),
            0b1001 => 0,
            _ => of(word, 0),
        },
        _ if access == Access::Load => of(word, 0),
        _ => 0,
    };
    base | target
}

fn is_atomic(word: u32) -> bool {
    bits(word, 24, 1) == 0 && bits(word, 21, 1) == 1 && bits(word, 10, 2) == 0
}

/// Arithmetic between registers.
fn data_registers(word: u32) -> Set {
    match (bits(word, 24, 5), bits(word, 21, 3)) {
        (0b01011, kind) if kind & 1 == 1 && bits(word, 29, 1) == 0 => set(or_stack(word, 0)),
        (0b11010, 0b010) => 0, // conditional comparison
        // RMIF, SETF8 and SETF16 change flags only.
        (0b11010, 0b000) if word & 0xffe0_7c10 == 0xba00_0400 || word & 0xffff_bc1f == 0x3a00_080d => 0,
        (0b11010, 0b000) if bits(word, 10, 6) != 0 => set(or_stack(word, 0)),
        // IRG
        (0b11010, 0b110) if bits(word, 29, 3) == 0b100 && bits(word, 10, 6) == 0b000100 => {
            set(or_stack(word, 0))
        }
        _ => of(word, 0),
    }
}

/// Vectors and floating point: moves and conversions to general registers.
fn vector(word: u32) -> Set {
    let moves_element = matches!(word & 0xbfe0_fc00, 0x0e00_2c00 | 0x0e00_3c00);
    let converts = word & 0x5f20_fc00 == 0x1e20_0000 && !matches!(bits(word, 16, 3), 2 | 3 | 7);
    let converts_fixed = word & 0x5f20_0000 == 0x1e00_0000 && bits(word, 16, 3) < 2;
    if moves_element || converts || converts_fixed {
        of(word, 0)
    } else {
        0
    }
}
