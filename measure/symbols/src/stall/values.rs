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
use hardmeter_samples::model::{Register, Registers};
use iced_x86::{
    Code, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register as Name,
};

/// Maximum number of registers evaluated for one value.
const STEPS: u32 = 48;

/// Straight-line code that ran, up to the recorded registers.
pub(super) struct Values<'a> {
    function: &'a Function,
    /// The first position of the block.
    first: usize,
    /// One past the last position that ran.
    end: usize,
    registers: &'a Registers<'a>,
    /// The process's address minus the image's address.
    bias: u64,
    information: InstructionInfoFactory,
    steps: u32,
}

impl<'a> Values<'a> {
    /// The block of `load`, which ran up to `end`, exclusively.
    pub(super) fn new(
        function: &'a Function,
        load: usize,
        end: usize,
        registers: &'a Registers<'a>,
        bias: u64,
    ) -> Values<'a> {
        let first = function.block_start(load);
        Values {
            function,
            first,
            end,
            registers,
            bias,
            information: InstructionInfoFactory::new(),
            steps: STEPS,
        }
    }

    /// The value of a register right before the instruction at a position.
    pub(super) fn before(&mut self, at: usize, register: Name) -> Option<u64> {
        self.steps = self.steps.checked_sub(1)?;
        let full = register.full_register();
        self.undone(at, full).or_else(|| self.copied(at, full)).or_else(|| self.redone(at, full))
    }

    /// Computes the value from the register itself, by undoing later changes.
    fn undone(&mut self, at: usize, register: Name) -> Option<u64> {
        let mut value = self.registers.get(model_register(register)?)?;
        for position in (at..self.end).rev() {
            if self.writes(position, register) {
                value = undo(self.function.at(position), register, value)?;
            }
        }
        Some(value)
    }

    /// Takes the value from a copy made later, while the register still held it.
    fn copied(&mut self, at: usize, register: Name) -> Option<u64> {
        for position in at..self.end {
            if let Some((copy, source)) = copy_of(self.function.at(position)) {
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
    fn redone(&mut self, at: usize, register: Name) -> Option<u64> {
        for position in (self.first..at).rev() {
            if let Some((copy, source)) = copy_of(self.function.at(position)) {
                if source == register && copy != register {
                    if let Some(value) = self.before(position + 1, copy) {
                        return Some(value);
                    }
                }
            }
            if self.writes(position, register) {
                return self.redo(position, register);
            }
        }
        None
    }

    /// Recomputes the value that an instruction wrote into a register.
    fn redo(&mut self, position: usize, register: Name) -> Option<u64> {
        let function = self.function;
        let instruction = function.at(position);
        if instruction.op_count() == 0 || instruction.op_kind(0) != OpKind::Register {
            return None;
        }
        let target = instruction.op_register(0);
        // Writing the lower half clears the upper one; smaller parts keep the rest.
        let width = match target {
            _ if target.full_register() != register => return None,
            _ if target.is_gpr64() => u64::MAX,
            _ if target.is_gpr32() => u64::from(u32::MAX),
            _ => return None,
        };
        let is_register = |operand| instruction.op_kind(operand) == OpKind::Register;
        let constant = |operand| immediate(instruction, operand);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov if is_register(1) => self.part(position, instruction.op_register(1))?,
            Mnemonic::Mov => constant(1)?,
            Mnemonic::Xor | Mnemonic::Sub if is_register(1) && instruction.op_register(1) == target => 0,
            Mnemonic::Movzx if is_register(1) => self.part(position, instruction.op_register(1))?,
            Mnemonic::Movsxd if is_register(1) => {
                i64::from(self.part(position, instruction.op_register(1))? as i32) as u64
            }
            Mnemonic::Lea => self.address(position, instruction)?,
            Mnemonic::Add if is_register(1) => {
                let other = self.part(position, instruction.op_register(1))?;
                self.before(position, register)?.wrapping_add(other)
            }
            Mnemonic::Add => self.before(position, register)?.wrapping_add(constant(1)?),
            Mnemonic::Sub => self.before(position, register)?.wrapping_sub(constant(1)?),
            Mnemonic::And => self.before(position, register)? & constant(1)?,
            Mnemonic::Shl => {
                let bits = u32::try_from(constant(1)? & 63).ok()?;
                self.before(position, register)?.checked_shl(bits)?
            }
            Mnemonic::Inc => self.before(position, register)?.wrapping_add(1),
            Mnemonic::Dec => self.before(position, register)?.wrapping_sub(1),
            _ => return None,
        };
        Some(value & width)
    }

    /// The value of a register or of its low part; `None` for `%ah` etc.
    fn part(&mut self, at: usize, register: Name) -> Option<u64> {
        let mask = match register {
            Name::AH | Name::BH | Name::CH | Name::DH => return None,
            _ if register.is_gpr64() => u64::MAX,
            _ if register.is_gpr32() => u64::from(u32::MAX),
            _ if register.is_gpr16() => u64::from(u16::MAX),
            _ if register.is_gpr8() => u64::from(u8::MAX),
            _ => return None,
        };
        Some(self.before(at, register)? & mask)
    }

    /// The address that the memory operand of an instruction names, before it ran.
    fn address(&mut self, position: usize, instruction: &Instruction) -> Option<u64> {
        if instruction.is_ip_rel_memory_operand() {
            return Some(instruction.ip_rel_memory_address().wrapping_add(self.bias));
        }
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let scale = u64::from(instruction.memory_index_scale());
        self.sum(position, base, index, scale, instruction.memory_displacement64())
    }

    /// base + index * scale + displacement, before the instruction at a position.
    pub(super) fn sum(
        &mut self,
        position: usize,
        base: Name,
        index: Name,
        scale: u64,
        displacement: u64,
    ) -> Option<u64> {
        let mut value = |register: Name| match register {
            Name::None => Some(0),
            _ => self.before(position, register),
        };
        let index_value = value(index)?.wrapping_mul(scale);
        let address = value(base)?.wrapping_add(index_value).wrapping_add(displacement);
        let short = base.is_gpr32() || index.is_gpr32();
        Some(if short { address & u64::from(u32::MAX) } else { address })
    }

    fn writes(&mut self, position: usize, register: Name) -> bool {
        let instruction = self.function.at(position);
        let information = self.information.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        information.used_registers().iter().any(|used| {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            writes && used.register().full_register() == register
        })
    }
}

/// The value that a register had before an instruction changed it.
fn undo(instruction: &Instruction, register: Name, after: u64) -> Option<u64> {
    if register == Name::RSP && instruction.is_stack_instruction() {
        let loads_it = instruction.op_count() == 1
            && instruction.op_kind(0) == OpKind::Register
            && instruction.op_register(0) == Name::RSP;
        let replaces = matches!(instruction.code(), Code::Leaveq | Code::Enterq_imm16_imm8);
        let moved = i64::from(instruction.stack_pointer_increment());
        return (!(replaces || loads_it && moved > 0)).then(|| after.wrapping_sub(moved as u64));
    }
    if instruction.op_count() == 0
        || instruction.op_kind(0) != OpKind::Register
        || instruction.op_register(0) != register
    {
        return None;
    }
    match instruction.mnemonic() {
        Mnemonic::Add => immediate(instruction, 1).map(|constant| after.wrapping_sub(constant)),
        Mnemonic::Sub => immediate(instruction, 1).map(|constant| after.wrapping_add(constant)),
        Mnemonic::Inc => Some(after.wrapping_sub(1)),
        Mnemonic::Dec => Some(after.wrapping_add(1)),
        Mnemonic::Lea => {
            let moves = instruction.memory_base() == register && instruction.memory_index() == Name::None;
            moves.then(|| after.wrapping_sub(instruction.memory_displacement64()))
        }
        _ => None,
    }
}

/// Target and source of a copy between whole registers.
fn copy_of(instruction: &Instruction) -> Option<(Name, Name)> {
    let is_copy = instruction.mnemonic() == Mnemonic::Mov
        && instruction.op_kind(0) == OpKind::Register
        && instruction.op_kind(1) == OpKind::Register;
    let (target, source) = (instruction.op0_register(), instruction.op1_register());
    (is_copy && target.is_gpr64() && source.is_gpr64()).then_some((target, source))
}

/// An immediate operand, sign-extended as the instruction does.
fn immediate(instruction: &Instruction, operand: u32) -> Option<u64> {
    if operand >= instruction.op_count() {
        return None;
    }
    instruction.try_immediate(operand).ok()
}

/// The register by its number in samples.
fn model_register(register: Name) -> Option<Register> {
    crate::disassembly::general_register(register)
}
