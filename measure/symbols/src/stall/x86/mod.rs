//! x86-64, decoded by iced-x86.

use super::machine::{Flow, Machine, NoAddress, State, Word};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register as Name, UsedMemory,
};
use std::ops::Range;

/// Entries read of one jump table.
const TABLE_LIMIT: u64 = 1024;
/// The number of instructions before an indirect jump that are searched for the address of its table.
const TABLE_DISTANCE: usize = 10;

/// Which registers and memory an instruction uses is computed into reused space.
pub(super) struct X86(InstructionInfoFactory);

impl Default for X86 {
    fn default() -> X86 {
        X86(InstructionInfoFactory::new())
    }
}

impl Machine for X86 {
    type Instruction = Instruction;
    type Name = Name;
    type Operand = UsedMemory;

    fn decode(bytes: &[u8], start: u64) -> Vec<Instruction> {
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut code = Vec::with_capacity(bytes.len() / 4);
        while decoder.can_decode() {
            code.push(decoder.decode());
        }
        code
    }

    fn address(instruction: &Instruction) -> u64 {
        instruction.ip()
    }

    fn flow(instruction: &Instruction) -> Flow {
        match instruction.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::ConditionalBranch => Flow::Conditional(instruction.near_branch_target()),
            FlowControl::UnconditionalBranch => Flow::Jump(instruction.near_branch_target()),
            FlowControl::IndirectBranch => Flow::Indirect,
            _ => Flow::Away,
        }
    }

    fn is_invalid(instruction: &Instruction) -> bool {
        instruction.is_invalid()
    }

    fn is_fusible(instruction: &Instruction) -> bool {
        use Mnemonic::{Add, And, Cmp, Dec, Inc, Sub, Test};
        matches!(instruction.mnemonic(), Cmp | Test | Add | Sub | And | Inc | Dec)
    }

    /// A repeated string instruction: the registers are those of the interrupted iteration.
    fn is_restarted(instruction: &Instruction) -> bool {
        instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    }

    fn table_targets(until: &[Instruction], function: Range<u64>, word: Word<'_>) -> Vec<u64> {
        table_targets(until, function, word)
    }

    /// If there are two, the explicit one rather than the stack.
    fn load(&mut self, instruction: &Instruction) -> Option<UsedMemory> {
        let information = self.0.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
        let reads = |used: &&UsedMemory| {
            matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        };
        let of_stack = |used: &&UsedMemory| instruction.is_stack_instruction() && used.base() == Name::RSP;
        let loads = information.used_memory().iter().filter(reads);
        loads.min_by_key(of_stack).copied()
    }

    fn data_address(
        values: &mut impl State<X86>,
        position: usize,
        operand: UsedMemory,
    ) -> Result<u64, NoAddress> {
        let instruction = values.at(position);
        let (base, index) = (operand.base(), operand.index());
        let relative = instruction.is_ip_rel_memory_operand()
            && base == Name::None
            && operand.displacement() == instruction.ip_rel_memory_address();
        if matches!(operand.segment(), Name::FS | Name::GS) {
            Err(NoAddress::Segment)
        } else if index.is_vector_register() {
            Err(NoAddress::Several)
        } else if relative {
            Ok(operand.displacement().wrapping_add(values.bias()))
        } else {
            let scale = u64::from(operand.scale());
            sum(values, position, base, index, scale, operand.displacement()).ok_or(NoAddress::Overwritten)
        }
    }

    fn number(register: Name) -> Option<u32> {
        crate::disassembly::general_register(register).map(|register| register as u32)
    }

    fn writes(&mut self, instruction: &Instruction, register: Name) -> bool {
        let information = self.0.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        information.used_registers().iter().any(|used| {
            let writes = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            writes && used.register().full_register() == register
        })
    }

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

    fn copy_of(instruction: &Instruction) -> Option<(Name, Name)> {
        let is_copy = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op_kind(0) == OpKind::Register
            && instruction.op_kind(1) == OpKind::Register;
        let (target, source) = (instruction.op0_register(), instruction.op1_register());
        (is_copy && target.is_gpr64() && source.is_gpr64()).then_some((target, source))
    }

    fn redo(values: &mut impl State<Self>, position: usize, register: Name) -> Option<u64> {
        let instruction = values.at(position);
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
        let constant = |operand| immediate(&instruction, operand);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov if is_register(1) => part(values, position, instruction.op_register(1))?,
            Mnemonic::Mov => constant(1)?,
            Mnemonic::Xor | Mnemonic::Sub if is_register(1) && instruction.op_register(1) == target => 0,
            Mnemonic::Movzx if is_register(1) => part(values, position, instruction.op_register(1))?,
            Mnemonic::Movsxd if is_register(1) => {
                i64::from(part(values, position, instruction.op_register(1))? as i32) as u64
            }
            Mnemonic::Lea => address(values, position, &instruction)?,
            Mnemonic::Add if is_register(1) => {
                let other = part(values, position, instruction.op_register(1))?;
                values.before(position, register)?.wrapping_add(other)
            }
            Mnemonic::Add => values.before(position, register)?.wrapping_add(constant(1)?),
            Mnemonic::Sub => values.before(position, register)?.wrapping_sub(constant(1)?),
            Mnemonic::And => values.before(position, register)? & constant(1)?,
            Mnemonic::Shl => {
                let bits = u32::try_from(constant(1)? & 63).ok()?;
                values.before(position, register)?.checked_shl(bits)?
            }
            Mnemonic::Inc => values.before(position, register)?.wrapping_add(1),
            Mnemonic::Dec => values.before(position, register)?.wrapping_sub(1),
            _ => return None,
        };
        Some(value & width)
    }
}

/// The value of a register or of its low part; `None` for `%ah` etc.
fn part(values: &mut impl State<X86>, at: usize, register: Name) -> Option<u64> {
    let mask = match register {
        Name::AH | Name::BH | Name::CH | Name::DH => return None,
        _ if register.is_gpr64() => u64::MAX,
        _ if register.is_gpr32() => u64::from(u32::MAX),
        _ if register.is_gpr16() => u64::from(u16::MAX),
        _ if register.is_gpr8() => u64::from(u8::MAX),
        _ => return None,
    };
    Some(values.before(at, register.full_register())? & mask)
}

/// The address that the memory operand of an instruction names, before it ran.
fn address(values: &mut impl State<X86>, position: usize, instruction: &Instruction) -> Option<u64> {
    if instruction.is_ip_rel_memory_operand() {
        return Some(instruction.ip_rel_memory_address().wrapping_add(values.bias()));
    }
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    let scale = u64::from(instruction.memory_index_scale());
    sum(values, position, base, index, scale, instruction.memory_displacement64())
}

/// base + index * scale + displacement, before the instruction at a position.
fn sum(
    values: &mut impl State<X86>,
    position: usize,
    base: Name,
    index: Name,
    scale: u64,
    displacement: u64,
) -> Option<u64> {
    let mut value = |register: Name| match register {
        Name::None => Some(0),
        _ => values.before(position, register.full_register()),
    };
    let index_value = value(index)?.wrapping_mul(scale);
    let address = value(base)?.wrapping_add(index_value).wrapping_add(displacement);
    let short = base.is_gpr32() || index.is_gpr32();
    Some(if short { address & u64::from(u32::MAX) } else { address })
}

/// An immediate operand, sign-extended as the instruction does.
fn immediate(instruction: &Instruction, operand: u32) -> Option<u64> {
    if operand >= instruction.op_count() {
        return None;
    }
    instruction.try_immediate(operand).ok()
}

/// The targets of a jump table in position-independent code:
///
/// ```text
///   lea    table(%rip),%base
///   movslq (%base,%index,4),%target
///   add    %base,%target
///   jmp    *%target
/// ```
fn table_targets(until: &[Instruction], function: Range<u64>, word: Word<'_>) -> Vec<u64> {
    let Some((jump, before)) = until.split_last() else { return Vec::new() };
    if jump.op_kind(0) != OpKind::Register {
        return Vec::new();
    }
    let near = &before[before.len().saturating_sub(TABLE_DISTANCE)..];
    let load = near.iter().rev().find(|instruction| {
        instruction.mnemonic() == Mnemonic::Movsxd
            && instruction.op_kind(1) == OpKind::Memory
            && instruction.memory_index_scale() == 4
            && instruction.memory_index() != Name::None
    });
    let Some(base) = load.map(Instruction::memory_base) else { return Vec::new() };
    // The address of the table may have been computed long before, outside a loop.
    let table = before.iter().rev().find(|instruction| {
        instruction.mnemonic() == Mnemonic::Lea
            && instruction.op_register(0) == base
            && instruction.is_ip_rel_memory_operand()
    });
    let Some(table) = table.map(Instruction::ip_rel_memory_address) else { return Vec::new() };
    let entry = |number: u64| {
        let offset = word(table.wrapping_add(4 * number))?;
        let target = table.wrapping_add(i64::from(offset) as u64);
        function.contains(&target).then_some(target)
    };
    (0..TABLE_LIMIT).map_while(entry).collect()
}
