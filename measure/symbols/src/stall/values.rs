//! The value of a register before an instruction, from the registers a few instructions later.
//!
//! Three methods, tried in this order; each gives an exact value or none:
//!
//! ```text
//!   at:   mov (%rbx),%rax        1. undo:    rbx = rbx_now - 8
//!         add $8,%rbx            2. copies:  `mov %rbx,%rcx` behind or before `at`, %rcx still there
//!   end:  <registers known>      3. redo:    `lea 16(%r12),%rbx` before `at`, %r12 known
//! ```

use super::function::Function;
use super::machine::{Machine, State};
use hardmeter_samples::model::Registers;

/// Maximum number of registers evaluated for one value.
const STEPS: u32 = 48;

/// Straight-line code that ran, up to the recorded registers.
pub(super) struct Values<'a, M: Machine> {
    function: &'a Function<M>,
    /// The first position of the block.
    first: usize,
    /// One past the last position that ran.
    end: usize,
    registers: &'a Registers<'a>,
    /// The process's address minus the image's address.
    bias: u64,
    machine: M,
    steps: u32,
}

impl<'a, M: Machine> Values<'a, M> {
    /// The block of `load`, which ran up to `end`, exclusively.
    pub(super) fn new(
        function: &'a Function<M>,
        load: usize,
        end: usize,
        registers: &'a Registers<'a>,
        bias: u64,
    ) -> Values<'a, M> {
        let first = function.block_start(load);
        Values { function, first, end, registers, bias, machine: M::default(), steps: STEPS }
    }

    /// Computes the value from the register itself, by undoing later changes.
    fn undone(&mut self, at: usize, register: M::Name) -> Option<u64> {
        let mut value = self.registers.get_index(M::number(register)?)?;
        for position in (at..self.end).rev() {
            if self.writes(position, register) {
                value = M::undo(self.function.at(position), register, value)?;
            }
        }
        Some(value)
    }

    /// Takes the value from a copy made later, while the register still held it.
    fn copied(&mut self, at: usize, register: M::Name) -> Option<u64> {
        for position in at..self.end {
            if let Some((copy, source)) = M::copy_of(self.function.at(position)) {
                if source == register && copy != register {
                    if let Some(value) = self.before(position + 1, copy) {
                        return Some(value);
                    }
                }
            }
            if self.writes(position, register) {
                return None;
            }
        }
        None
    }

    /// Takes the value from a copy made earlier, or repeats the instruction that set the register.
    fn redone(&mut self, at: usize, register: M::Name) -> Option<u64> {
        for position in (self.first..at).rev() {
            if let Some((copy, source)) = M::copy_of(self.function.at(position)) {
                if source == register && copy != register {
                    if let Some(value) = self.before(position + 1, copy) {
                        return Some(value);
                    }
                }
            }
            if self.writes(position, register) {
                return M::redo(self, position, register);
            }
        }
        None
    }

    fn writes(&mut self, position: usize, register: M::Name) -> bool {
        self.machine.writes(self.function.at(position), register)
    }
}

impl<M: Machine> State<M> for Values<'_, M> {
    fn at(&self, position: usize) -> M::Instruction {
        *self.function.at(position)
    }

    fn before(&mut self, at: usize, register: M::Name) -> Option<u64> {
        self.steps = self.steps.checked_sub(1)?;
        self.undone(at, register).or_else(|| self.copied(at, register)).or_else(|| self.redone(at, register))
    }

    fn bias(&self) -> u64 {
        self.bias
    }
}
