//! The effect of an instruction on the registers' known values.

use super::path::{self, Strides};
use super::registers::{Follower, Owner, Target};
use super::shape::{Shape, Types};
use super::state::State;
use super::units::EntryRef;
use super::values::{dwarf_number, Multiple, Pointer, Value};
use super::FieldEvidence;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpAccess, OpKind, Register};

impl Follower<'_, '_, '_, '_> {
    /// Updates the registers' values after an instruction.
    pub(super) fn step(&mut self, instruction: &Instruction) {
        let written = self.written(instruction);
        let result = match instruction.flow_control() {
            FlowControl::Next => self.result(instruction),
            FlowControl::Call | FlowControl::IndirectCall => {
                // rax, rdx, rcx, rsi, rdi, r8 to r11 are caller-saved.
                for register in [0, 1, 2, 4, 5, 8, 9, 10, 11] {
                    self.state.registers[register] = None;
                }
                let returned = self.returned(instruction);
                self.state.registers[0] = returned.map(Value::Pointer);
                return;
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => {
                self.state = State::default();
                return;
            }
            _ => None,
        };
        self.save(instruction);
        let result = result.filter(|(register, _)| written.contains(register));
        for register in written {
            self.state.registers[register] = None;
        }
        if let Some((register, value)) = result {
            self.state.registers[register] = value;
        }
    }

    /// Records a value that the instruction saves in the frame.
    fn save(&mut self, instruction: &Instruction) {
        let is_store = instruction.op_count() >= 1 && instruction.op_kind(0) == OpKind::Memory;
        let Some(place) = self.frame_place(instruction).filter(|_| is_store) else { return };
        let source = (instruction.mnemonic() == Mnemonic::Mov && instruction.op_kind(1) == OpKind::Register)
            .then(|| instruction.op_register(1))
            .filter(|register| register.is_gpr64())
            .and_then(dwarf_number);
        let value = source.and_then(|source| self.value(source, instruction.ip()));
        self.state.save(place, instruction.memory_size().size() as u64, value.map(Value::followed));
    }

    fn written(&mut self, instruction: &Instruction) -> Vec<usize> {
        let information = self.information.info(instruction);
        let is_write = |access| {
            matches!(
                access,
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            )
        };
        let written = information.used_registers().iter().filter(|used| is_write(used.access()));
        written.filter_map(|used| dwarf_number(used.register())).collect()
    }

    /// The register that an instruction writes, with its known value.
    fn result(&mut self, instruction: &Instruction) -> Option<(usize, Option<Value>)> {
        let ip = instruction.ip();
        let is_register = instruction.op_count() >= 1 && instruction.op_kind(0) == OpKind::Register;
        let destination = if is_register { dwarf_number(instruction.op_register(0))? } else { return None };
        if matches!(
            instruction.mnemonic(),
            Mnemonic::Movsxd | Mnemonic::Cdqe | Mnemonic::Movsx | Mnemonic::Movzx
        ) {
            return Some((destination, Some(self.unknown())));
        }
        if !instruction.op_register(0).is_gpr64() {
            // A 32-bit result is an index at best, and of an unknown kind.
            return Some((destination, Some(self.unknown())));
        }
        let from_memory = instruction.op_count() == 2 && instruction.op_kind(1) == OpKind::Memory;
        let source = (instruction.op_count() == 2 && instruction.op_kind(1) == OpKind::Register)
            .then(|| dwarf_number(instruction.op_register(1)))
            .flatten();
        let value = match (instruction.mnemonic(), immediate(instruction)) {
            (Mnemonic::Mov, _) if from_memory => {
                let saved = self.frame_place(instruction).and_then(|place| self.state.saved(place));
                self.loaded(instruction).map(Value::Pointer).or(saved)
            }
            (Mnemonic::Mov, _) => self.value(source?, ip),
            (Mnemonic::Lea, _) => self.address(instruction),
            (Mnemonic::Add, Some(constant)) => self.value(destination, ip)?.plus(constant),
            (Mnemonic::Sub, Some(constant)) => self.value(destination, ip)?.plus(constant.wrapping_neg()),
            (Mnemonic::Inc, _) => self.value(destination, ip)?.plus(1),
            (Mnemonic::Dec, _) => self.value(destination, ip)?.plus(-1),
            (Mnemonic::Add, None) => {
                let (one, other) = (self.value(destination, ip), self.value(source?, ip));
                // An unknown number is a multiple of itself.
                let (one, other) =
                    (one.unwrap_or_else(|| self.unknown()), other.unwrap_or_else(|| self.unknown()));
                one.add(other)
            }
            (Mnemonic::Shl | Mnemonic::Sal, _) if instruction.op_kind(1) == OpKind::Immediate8 => {
                let factor = 1i64.checked_shl(instruction.immediate8().into())?;
                self.value_or_unknown(destination, ip).times(factor)
            }
            (Mnemonic::Imul, _) if instruction.op_count() == 3 => {
                let factor = match instruction.op_kind(2) {
                    OpKind::Immediate8to64 => instruction.immediate8to64(),
                    OpKind::Immediate32to64 => instruction.immediate32to64(),
                    _ => return None,
                };
                let source = (instruction.op_kind(1) == OpKind::Register)
                    .then(|| dwarf_number(instruction.op_register(1)))
                    .flatten();
                let number = match source {
                    Some(source) => self.value_or_unknown(source, ip),
                    None => self.unknown(),
                };
                number.times(factor)
            }
            _ => return None,
        };
        Some((destination, value.map(Value::followed)))
    }

    /// The known value of a register, if any.
    fn value(&mut self, register: usize, ip: u64) -> Option<Value> {
        match self.best_pointer(register, ip) {
            Some(pointer) => Some(Value::Pointer(pointer)),
            None => self.state.registers[register],
        }
    }

    fn value_or_unknown(&mut self, register: usize, ip: u64) -> Value {
        self.value(register, ip).unwrap_or_else(|| self.unknown())
    }

    /// An unknown number.
    fn unknown(&mut self) -> Value {
        self.unknowns += 1;
        Value::Number(Multiple { of: self.unknowns, factor: 1, plus: 0 })
    }

    /// The most specific pointer in a register: not `void *`.
    fn best_pointer(&mut self, register: usize, ip: u64) -> Option<Pointer> {
        let (pointers, _) = self.pointers(register, ip);
        let typed = pointers.iter().find(|pointer| self.reader.size(pointer.type_of).is_some());
        typed.or(pointers.first()).copied()
    }

    /// The pointer that a load reads, if the loaded field is one.
    fn loaded(&mut self, instruction: &Instruction) -> Option<Pointer> {
        let target = self.target(instruction).ok()?;
        let wanted = target.wanted(8);
        let leaf = path::find(self.reader, target.type_of, wanted).ok()?;
        let is_whole = leaf.start == u64::try_from(target.offset).ok()? && leaf.size == 8 && !leaf.is_bits;
        let pointee = if is_whole { self.pointee(leaf.type_of)? } else { return None };
        Some(followed(pointee))
    }

    /// The type that a pointer type refers to: `Some(None)` for `void *`.
    fn pointee(&mut self, type_of: Option<EntryRef>) -> Option<Option<EntryRef>> {
        match self.reader.peel(type_of)?.1.shape {
            Shape::Pointer(target) => Some(target),
            _ => None,
        }
    }

    /// The pointer, or number, that `lea` makes.
    fn address(&mut self, instruction: &Instruction) -> Option<Value> {
        if let Ok(Target { owner, type_of, offset, strides, evidence }) = self.target(instruction) {
            let variable = match owner {
                Owner::Global(entry) => Some(entry),
                // The address of a variable in the frame: use its type.
                Owner::Pointee | Owner::Local(_) => None,
            };
            return Some(Value::Pointer(Pointer { type_of, offset, strides, variable, evidence }));
        }
        // One past the end is a pointer, too; and `(%rax,%rax,2)` is three times a number.
        let ip = instruction.ip();
        let displacement = instruction.memory_displacement64() as i64;
        let index = dwarf_number(instruction.memory_index());
        let index = index.map(|index| self.value_or_unknown(index, ip));
        let index = match index {
            Some(index) => Some(index.times(instruction.memory_index_scale().into())?),
            None => None,
        };
        let base = match instruction.memory_base() {
            Register::None => None,
            base => Some(self.value_or_unknown(dwarf_number(base)?, ip)),
        };
        let sum = match (base, index) {
            (Some(base), Some(index)) => base.add(index)?,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return None,
        };
        sum.plus(displacement)
    }

    /// The pointer that a call returns, by the type of the function called.
    fn returned(&mut self, instruction: &Instruction) -> Option<Pointer> {
        if instruction.flow_control() != FlowControl::Call {
            return None;
        }
        let function = self.reader.index.function_at(instruction.near_branch_target())?;
        if function.start != instruction.near_branch_target() {
            return None;
        }
        let returned = self.variable_type(function.entry);
        let pointee = self.pointee(returned)?;
        Some(followed(pointee))
    }
}

/// The pointer to the beginning of an object, read from memory or returned by a call.
fn followed(type_of: Option<EntryRef>) -> Pointer {
    Pointer {
        type_of,
        offset: 0,
        strides: Strides::default(),
        variable: None,
        evidence: FieldEvidence::Followed,
    }
}

fn immediate(instruction: &Instruction) -> Option<i64> {
    if instruction.op_count() != 2 {
        return None;
    }
    match instruction.op_kind(1) {
        OpKind::Immediate8to64 => Some(instruction.immediate8to64()),
        OpKind::Immediate32to64 => Some(instruction.immediate32to64()),
        _ => None,
    }
}
