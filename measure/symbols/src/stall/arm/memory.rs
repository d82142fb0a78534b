//! The memory operand of an A64 instruction, from its encoding.
//!
//! ```text
//!   31 30 29 28 27 26 25 24 ...                    the group "loads and stores" has bit 27 set and bit 25 clear
//!    size  0  0  1  V  0  .   exclusive, ordered, compare and swap (V = 0); vector structures (V = 1)
//!    opc   0  1  1  V  0  0   literal
//!    size  0  1  1  V  0  1   unscaled ordered, tags, memory copy
//!    opc   1  0  1  V  ....   pair
//!    size  1  1  1  V  0  .   one register: immediate, register offset, atomic
//! ```
//!
//! Armv8.0 to 8.7 with LSE, RCPC, MTE, MOPS and LS64, and SVE in outline. What is not known here is no load: those
//! encodings are unallocated, or of later extensions.

/// A general register: 0 to 30 are x0 to x30, 31 is the stack pointer. The numbers are those of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) struct Register(pub(super) u8);

/// The access of an instruction to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) enum Access {
    /// Loads, whether or not it also stores.
    Load,
    /// Only stores.
    Store,
    /// Asks for a line and does not wait for it.
    Prefetch,
}

/// The extension of an index register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) enum Extend {
    /// The low half, zero-extended (`uxtw`).
    Unsigned,
    /// The low half, sign-extended (`sxtw`).
    Signed,
    /// The whole register.
    Whole,
}

impl Extend {
    /// The extended value.
    pub(super) fn of(self, value: u64) -> u64 {
        match self {
            Extend::Unsigned => u64::from(value as u32),
            Extend::Signed => i64::from(value as i32) as u64,
            Extend::Whole => value,
        }
    }
}

/// The place that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) enum Place {
    /// Relative to the instruction's own address.
    Literal(i64),
    /// Base and constant.
    Offset(Register, i64),
    /// Base and index, extended and shifted; `None` is the zero register.
    Index(Register, Option<Register>, Extend, u8),
    /// Vectors of addresses, a range whose length is in registers, or a signed pointer.
    Several,
}

/// The change of the base register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) enum Update {
    /// By a constant.
    By(i64),
    /// By the value of a register.
    ByRegister(Register),
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stall) struct Memory {
    pub(super) access: Access,
    pub(super) place: Place,
    /// The change of the base register after the access.
    pub(super) update: Option<Update>,
}

/// Bits `low` and up of a word.
pub(super) fn bits(word: u32, low: u32, count: u32) -> u32 {
    word >> low & ((1 << count) - 1)
}

/// A signed field.
pub(super) fn signed(word: u32, low: u32, count: u32) -> i64 {
    i64::from((word << (32 - low - count)) as i32 >> (32 - count))
}

/// The register in a field, where 31 is the zero register.
pub(super) fn general(word: u32, low: u32) -> Option<Register> {
    let number = bits(word, low, 5) as u8;
    (number != 31).then_some(Register(number))
}

/// The register in a field, where 31 is the stack pointer.
pub(super) fn or_stack(word: u32, low: u32) -> Register {
    Register(bits(word, low, 5) as u8)
}

fn base(word: u32) -> Register {
    or_stack(word, 5)
}

fn access(loads: bool) -> Access {
    if loads {
        Access::Load
    } else {
        Access::Store
    }
}

fn at_base(word: u32, loads: bool) -> Memory {
    Memory { access: access(loads), place: Place::Offset(base(word), 0), update: None }
}

fn several(loads: bool) -> Memory {
    Memory { access: access(loads), place: Place::Several, update: None }
}

/// The memory operand of an instruction; `None` if it has none.
pub(super) fn memory(word: u32) -> Option<Memory> {
    if bits(word, 25, 4) == 0b0010 {
        return scalable(word);
    }
    if bits(word, 27, 1) != 1 || bits(word, 25, 1) != 0 {
        return None;
    }
    let vector = bits(word, 26, 1) == 1;
    match (bits(word, 28, 2), bits(word, 24, 1)) {
        (0b00, _) if vector => structures(word),
        (0b00, 0) => exclusive(word),
        (0b01, 0) => literal(word),
        (0b01, _) => unscaled_or_tag(word),
        (0b10, _) => pair(word),
        (0b11, 0) if bits(word, 21, 1) == 0 => immediate(word),
        (0b11, 0) => match bits(word, 10, 2) {
            0b00 => atomic(word),
            0b10 => register_offset(word),
            _ => authenticated(word),
        },
        (0b11, _) => {
            let (access, scale) = single(word)?;
            let offset = i64::from(bits(word, 10, 12)) << scale;
            Some(Memory { access, place: Place::Offset(base(word), offset), update: None })
        }
        _ => None,
    }
}

/// Exclusive and ordered accesses, and compare and swap.
fn exclusive(word: u32) -> Option<Memory> {
    let (pair, second) = (bits(word, 21, 1) == 1, bits(word, 10, 5));
    let loads = match (bits(word, 23, 1), pair) {
        (0, true) if bits(word, 31, 1) == 0 => (second == 31).then_some(true)?, // CASP
        (1, true) => (second == 31).then_some(true)?,                           // CAS
        _ => bits(word, 22, 1) == 1,
    };
    Some(at_base(word, loads))
}

/// `LD1` to `LD4`, `ST1` to `ST4` and the loads that replicate.
fn structures(word: u32) -> Option<Memory> {
    if bits(word, 31, 1) == 1 {
        return None;
    }
    let (single, post) = (bits(word, 24, 1) == 1, bits(word, 23, 1) == 1);
    let bytes = if single { single_structure(word)? } else { multiple_structures(word)? };
    let index = bits(word, 16, 5);
    let ordered = single && index == 1 && bits(word, 10, 6) == 0b100001 && bits(word, 21, 1) == 0;
    let update = match (post, index) {
        (false, 0) => None,
        (false, _) if ordered => None, // LDAP1, STL1
        (false, _) => return None,
        (true, 31) => Some(Update::By(bytes)),
        (true, index) => Some(Update::ByRegister(Register(index as u8))),
    };
    Some(Memory { update, ..at_base(word, bits(word, 22, 1) == 1) })
}

/// The size of a transfer of whole vectors.
fn multiple_structures(word: u32) -> Option<i64> {
    let (opcode, size, whole) = (bits(word, 12, 4), bits(word, 10, 2), bits(word, 30, 1) == 1);
    let registers = match opcode {
        0b0000 | 0b0010 => 4,
        0b0100 | 0b0110 => 3,
        0b1000 | 0b1010 => 2,
        0b0111 => 1,
        _ => return None,
    };
    // One 64-bit element of several structures is not interleaved: unallocated.
    let interleaves = matches!(opcode, 0b0000 | 0b0100 | 0b1000);
    let allocated = bits(word, 21, 1) == 0 && !(interleaves && size == 3 && !whole);
    allocated.then_some(registers * if whole { 16 } else { 8 })
}

/// The size of a transfer of one element, or of one that is replicated.
fn single_structure(word: u32) -> Option<i64> {
    let (opcode, size, partial) = (bits(word, 13, 3), bits(word, 10, 2), bits(word, 12, 1));
    let elements = i64::from((opcode & 1) << 1 | bits(word, 21, 1)) + 1;
    let bytes = match opcode >> 1 {
        0 => 1,
        1 if size & 1 == 0 => 2,
        2 if size == 0 => 4,
        2 if size == 1 && partial == 0 => 8,
        3 if partial == 0 && bits(word, 22, 1) == 1 => 1 << size,
        _ => return None,
    };
    Some(elements * bytes)
}

fn literal(word: u32) -> Option<Memory> {
    let access = match (bits(word, 26, 1), bits(word, 30, 2)) {
        (1, 3) => return None,
        (0, 3) => Access::Prefetch,
        _ => Access::Load,
    };
    Some(Memory { access, place: Place::Literal(signed(word, 5, 19) * 4), update: None })
}

/// `LDAPUR` and `STLUR`, accesses to tags, and memory copies.
fn unscaled_or_tag(word: u32) -> Option<Memory> {
    let (size, opcode, kind) = (bits(word, 30, 2), bits(word, 22, 2), bits(word, 10, 2));
    let (vector, offset) = (bits(word, 26, 1) == 1, signed(word, 12, 9));
    let at = |access| Memory { access, place: Place::Offset(base(word), offset), update: None };
    if bits(word, 21, 1) == 1 {
        return (size == 3 && !vector).then(|| tag(word)).flatten();
    }
    match (vector, kind) {
        (false, 0b00) if size == 3 && opcode > 1 || size == 2 && opcode == 3 => None,
        (false, 0b00) => Some(at(access(opcode != 0))),
        // CPYP, CPYM, CPYE read; SETP, SETM, SETE do not.
        (_, 0b01) if size == 0 || opcode == 3 => (size == 0).then(|| several(opcode != 3)),
        _ => None,
    }
}

/// Accesses to memory tags: `LDG` and `LDGM` load.
fn tag(word: u32) -> Option<Memory> {
    let (opcode, kind, offset) = (bits(word, 22, 2), bits(word, 10, 2), signed(word, 12, 9) * 16);
    let memory = |access, offset, update| Memory { access, place: Place::Offset(base(word), offset), update };
    if kind == 0 {
        let loads = opcode == 1 || opcode == 3;
        // The bulk forms have no offset.
        let offset = if opcode == 1 { offset } else { 0 };
        return (opcode == 1 || bits(word, 12, 9) == 0).then(|| memory(access(loads), offset, None));
    }
    Some(match kind {
        0b01 => memory(Access::Store, 0, Some(Update::By(offset))),
        0b10 => memory(Access::Store, offset, None),
        _ => memory(Access::Store, offset, Some(Update::By(offset))),
    })
}

fn pair(word: u32) -> Option<Memory> {
    let (size, mode, loads) = (bits(word, 30, 2), bits(word, 23, 2), bits(word, 22, 1) == 1);
    let vector = bits(word, 26, 1) == 1;
    let scale = match (vector, size) {
        (_, 3) => return None,
        (true, _) => 2 + size,
        (false, 1) if mode == 0 => return None,
        (false, 1) if !loads => 4, // STGP
        (false, 2) => 3,
        (false, _) => 2,
    };
    let offset = signed(word, 15, 7) << scale;
    let (offset, update) = match mode {
        0b01 => (0, Some(Update::By(offset))),
        0b11 => (offset, Some(Update::By(offset))),
        _ => (offset, None),
    };
    Some(Memory { access: access(loads), place: Place::Offset(base(word), offset), update })
}

/// Access and scale of a transfer of one register.
fn single(word: u32) -> Option<(Access, u32)> {
    let (size, opcode) = (bits(word, 30, 2), bits(word, 22, 2));
    if bits(word, 26, 1) == 1 {
        return match (size, opcode) {
            (_, 0) => Some((Access::Store, size)),
            (_, 1) => Some((Access::Load, size)),
            (0, opcode) => Some((access(opcode == 3), 4)),
            _ => None,
        };
    }
    match (size, opcode) {
        (_, 0) => Some((Access::Store, size)),
        (_, 1) => Some((Access::Load, size)),
        (3, 2) => Some((Access::Prefetch, size)),
        (2 | 3, 3) => None,
        _ => Some((Access::Load, size)),
    }
}

/// Unscaled, post-indexed, unprivileged and pre-indexed constants.
fn immediate(word: u32) -> Option<Memory> {
    let (access, _) = single(word)?;
    let (mode, offset) = (bits(word, 10, 2), signed(word, 12, 9));
    let allocated = match mode {
        0b00 => true,
        0b10 => access != Access::Prefetch && bits(word, 26, 1) == 0,
        _ => access != Access::Prefetch,
    };
    let (offset, update) = match mode {
        0b01 => (0, Some(Update::By(offset))),
        0b11 => (offset, Some(Update::By(offset))),
        _ => (offset, None),
    };
    allocated.then_some(Memory { access, place: Place::Offset(base(word), offset), update })
}

fn register_offset(word: u32) -> Option<Memory> {
    let (access, scale) = single(word)?;
    let extend = match bits(word, 13, 3) {
        0b010 => Extend::Unsigned,
        0b110 => Extend::Signed,
        0b011 | 0b111 => Extend::Whole,
        _ => return None,
    };
    let shift = if bits(word, 12, 1) == 1 { scale as u8 } else { 0 };
    let place = Place::Index(base(word), general(word, 16), extend, shift);
    Some(Memory { access, place, update: None })
}

/// `LDADD`, `SWP` and the like, `LDAPR`, and accesses of 64 bytes.
fn atomic(word: u32) -> Option<Memory> {
    if bits(word, 26, 1) == 1 {
        return None;
    }
    let (size, order) = (bits(word, 30, 2), bits(word, 22, 2));
    let loads = match bits(word, 12, 4) {
        0b0000..=0b1000 => true,
        0b1100 if order == 0b10 => true, // LDAPR
        // LD64B fills eight registers from an even one on.
        0b1101 if size == 3 && order == 0 && word & 1 == 0 && bits(word, 0, 5) <= 22 => true,
        0b1001..=0b1011 if size == 3 && order == 0 => false, // ST64B
        _ => return None,
    };
    Some(at_base(word, loads))
}

/// `LDRAA` and `LDRAB`: the base is authenticated first, and its signature is not part of the address. Compilers for
/// Linux do not use them.
fn authenticated(word: u32) -> Option<Memory> {
    if bits(word, 26, 6) != 0b111110 {
        return None;
    }
    let high = i64::from(bits(word, 22, 1)) << 9;
    let offset = ((high | i64::from(bits(word, 12, 9))) << 54 >> 54) * 8;
    let update = (bits(word, 11, 1) == 1).then_some(Update::By(offset));
    Some(Memory { access: Access::Load, place: Place::Several, update })
}

/// The length of vectors is not in a sample, and lanes may be switched off: no address.
fn scalable(word: u32) -> Option<Memory> {
    let (group, op1, op2) = (bits(word, 29, 3), bits(word, 23, 2), bits(word, 21, 2));
    let (op3, zero) = (bits(word, 13, 3), bits(word, 4, 1) == 0);
    let prefetch = match group {
        0b100 => {
            zero && (op1 == 0b11 && op2 >= 0b10 && op3 < 0b100
                || op2 == 0 && op3 >= 0b110
                || op1 == 0 && op2 & 1 == 1 && op3 < 0b100)
        }
        0b110 => {
            zero && (op2 == 0 && op3 == 0b111
                || op1 == 0 && (op2 == 0b11 && op3 >= 0b100 || op2 & 1 == 1 && op3 < 0b100))
        }
        0b101 => false,
        0b111 => return Some(several(false)),
        _ => return None,
    };
    let access = if prefetch { Access::Prefetch } else { Access::Load };
    Some(Memory { access, ..several(true) })
}
