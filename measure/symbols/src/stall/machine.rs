//! What the search for a load needs to know about an instruction set.
//!
//! Control flow, the choice of the load and the order of the methods that find a register's value are the same for
//! all of them; they are generic code, compiled once for each.

use std::ops::Range;

/// Reads a little-endian 32-bit word of an image at an address.
pub(super) type Word<'a> = &'a dyn Fn(u64) -> Option<i32>;

/// The reason why the address of a load cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAddress {
    /// A register of its address was overwritten, and no copy of it is left.
    Overwritten,
    /// It is relative to `%fs` or `%gs`, whose base no sample carries.
    Segment,
    /// Its addresses are several: a gather.
    Several,
}

/// The effect of an instruction on control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// The next instruction follows.
    Next,
    /// A jump to this address that may not be taken.
    Conditional(u64),
    /// A jump to this address.
    Jump(u64),
    /// A jump to an address from a register or from memory.
    Indirect,
    /// A call, a return, a system call or a trap: another function's instruction runs next.
    Away,
}

/// Straight-line code, and what is known of its registers.
pub(super) trait State<M: Machine> {
    /// The instruction at a position.
    fn at(&self, position: usize) -> M::Instruction;
    /// The value of a register right before the instruction at a position.
    fn before(&mut self, at: usize, register: M::Name) -> Option<u64>;
    /// The process's address minus the image's address.
    fn bias(&self) -> u64;
}

/// An instruction set. A value of it holds what decoding needs as scratch space.
pub(super) trait Machine: Default {
    /// An instruction with its address.
    type Instruction: Copy;
    /// A whole general register.
    type Name: Copy + Eq;
    /// The place that an instruction loads from.
    type Operand: Copy;

    /// Decodes code linearly, in order of addresses.
    fn decode(bytes: &[u8], start: u64) -> Vec<Self::Instruction>;
    /// The instruction's address in its image.
    fn address(instruction: &Self::Instruction) -> u64;
    /// Its effect on control.
    fn flow(instruction: &Self::Instruction) -> Flow;
    /// Whether the bytes are not an instruction.
    fn is_invalid(instruction: &Self::Instruction) -> bool;
    /// Whether it retires together with a conditional jump behind it.
    fn is_fusible(instruction: &Self::Instruction) -> bool;
    /// Whether an interrupt leaves the instruction pointer at it although it waits for its own load.
    fn is_restarted(instruction: &Self::Instruction) -> bool;
    /// The targets of a jump table; `until` ends with the indirect jump.
    fn table_targets(until: &[Self::Instruction], function: Range<u64>, word: Word<'_>) -> Vec<u64>;

    /// The place that an instruction loads from; `None` if it is not a load.
    fn load(&mut self, instruction: &Self::Instruction) -> Option<Self::Operand>;
    /// The address of that place, from the registers before the instruction at a position.
    fn data_address(
        values: &mut impl State<Self>,
        position: usize,
        operand: Self::Operand,
    ) -> Result<u64, NoAddress>;

    /// A register's number in samples.
    fn number(register: Self::Name) -> Option<u32>;
    /// Whether an instruction may change a register. Never false for one that does.
    fn writes(&mut self, instruction: &Self::Instruction, register: Self::Name) -> bool;
    /// The value that a register had before an instruction changed it.
    fn undo(instruction: &Self::Instruction, register: Self::Name, after: u64) -> Option<u64>;
    /// Target and source of a copy between whole registers.
    fn copy_of(instruction: &Self::Instruction) -> Option<(Self::Name, Self::Name)>;
    /// Recomputes the value that the instruction at a position wrote into a register.
    fn redo(values: &mut impl State<Self>, position: usize, register: Self::Name) -> Option<u64>;
}
