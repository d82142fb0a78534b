//! Determines the pointers in registers, from the locations of variables and by following the instructions.
//!
//! ```text
//!   mov  -0x18(%rbp),%rax      loads variable `p` of the frame: rax = struct node *
//!   mov  0x8(%rax),%rcx        loads p->next:                   rcx = struct node *
//!   lea  0x10(%rcx),%rdi       rdi = struct node * + 16
//!   mov  (%rdi),%eax           struct node, byte 16
//! ```
//!
//! If several paths lead to an instruction, only facts known on all of them are kept: the analysis is repeated
//! until nothing changes. A call clears the registers that it may overwrite. In a function with a jump table the
//! paths are unknown; there each jump target clears all.

use super::frame::FrameRow;
use super::location::{Local, Place};
use super::path::{self, Strides, Wanted};
use super::shape::{Shape, TypeReader, Types};
use super::state::State;
use super::units::EntryRef;
use super::values::{dwarf_number, Pointer, Value};
use super::{DataField, FieldEvidence, FieldOwner, NoField};
use hardmeter_samples::model::ByteCount;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic};
use iced_x86::{OpKind, Register};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The type and offset that an operand refers to.
pub(super) struct Target {
    pub(super) owner: Owner,
    pub(super) type_of: Option<EntryRef>,
    pub(super) offset: i64,
    pub(super) strides: Strides,
    pub(super) evidence: FieldEvidence,
}

#[derive(Clone)]
pub(super) enum Owner {
    Pointee,
    Local(Arc<str>),
    Global(EntryRef),
}

/// The inputs of following a function.
pub(super) struct Function<'f> {
    pub(super) code: &'f [u8],
    pub(super) start: u64,
    pub(super) locals: &'f [Local],
    pub(super) frame: &'f [FrameRow],
    /// Targets of jumps from other parts of the function: nothing is known there.
    pub(super) outside: &'f FxHashSet<u64>,
}

/// Answers by instruction address.
pub(super) type Answers = FxHashMap<u64, Result<Arc<DataField>, NoField>>;

/// Answers for all instructions of a function.
pub(super) fn follow(function: &Function<'_>, reader: &mut TypeReader<'_, '_>) -> Answers {
    let decoder = Decoder::with_ip(64, function.code, function.start, DecoderOptions::NONE);
    let mut instructions: Vec<Instruction> = decoder.into_iter().collect();
    let entered = jump_targets(&instructions);
    let mut follower = Follower {
        function,
        reader,
        state: State::default(),
        unknowns: 0,
        information: InstructionInfoFactory::new(),
        by_register: by_register(function.locals),
    };
    instructions.retain(|instruction| !instruction.is_invalid());
    let has_table = instructions.iter().any(|one| one.flow_control() == FlowControl::IndirectBranch);
    let ways = if has_table { None } else { follower.ways(&instructions, &entered) };
    let mut answers = Answers::default();
    for instruction in &instructions {
        if entered.contains(&instruction.ip()) {
            let known = ways.as_ref().and_then(|ways| ways.get(&instruction.ip()));
            follower.state = known.cloned().unwrap_or_default();
        }
        if function.outside.contains(&instruction.ip()) {
            follower.state = State::default();
        }
        follower.unknowns = instruction.ip() << 4;
        let target = follower.target(instruction);
        let answer = target.and_then(|target| follower.field(instruction, &target));
        answers.insert(instruction.ip(), answer.map(Arc::new));
        follower.step(instruction);
    }
    answers
}

/// The known values at each jump target.
type Ways = FxHashMap<u64, State>;

impl Follower<'_, '_, '_, '_> {
    /// Follows the function until nothing changes; `None` if that takes too long.
    fn ways(&mut self, instructions: &[Instruction], entered: &FxHashSet<u64>) -> Option<Ways> {
        const ROUNDS: usize = 12;
        let mut ways = Ways::default();
        for _ in 0..ROUNDS {
            let mut changed = false;
            let mut arrive = |ways: &mut Ways, at: u64, state: &State| match ways.get_mut(&at) {
                Some(known) => changed |= known.meet(state),
                None => {
                    ways.insert(at, state.clone());
                    changed = true;
                }
            };
            // Whether the instruction can be reached by what is known so far.
            let (mut reached, mut after_jump) = (true, false);
            self.state = State::default();
            for instruction in instructions {
                let ip = instruction.ip();
                if entered.contains(&ip) {
                    if reached {
                        arrive(&mut ways, ip, &self.state);
                    }
                    reached = ways.contains_key(&ip);
                    self.state = ways.get(&ip).cloned().unwrap_or_default();
                }
                if after_jump && !entered.contains(&ip) {
                    // Entered by an unknown path: an exception.
                    reached = true;
                    self.state = State::default();
                }
                if self.function.outside.contains(&ip) {
                    reached = true;
                    self.state = State::default();
                }
                let flow = instruction.flow_control();
                after_jump = matches!(flow, FlowControl::UnconditionalBranch | FlowControl::Return);
                if !reached {
                    continue;
                }
                if matches!(flow, FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch) {
                    arrive(&mut ways, instruction.near_branch_target(), &self.state);
                }
                self.unknowns = ip << 4;
                self.step(instruction);
                reached = !after_jump;
            }
            if !changed {
                return Some(ways);
            }
        }
        None
    }
}

/// The targets of the jumps in a piece of code.
pub(super) fn targets_of(code: &[u8], start: u64) -> FxHashSet<u64> {
    let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    jump_targets(&decoder.into_iter().collect::<Vec<_>>())
}

fn jump_targets(instructions: &[Instruction]) -> FxHashSet<u64> {
    let jumps = instructions.iter().filter(|instruction| {
        matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        )
    });
    jumps.map(Instruction::near_branch_target).collect()
}

/// Index of a location's register; those in the frame come last.
const IN_FRAME: usize = 16;

/// The locals by register, so that each operand checks only a few.
fn by_register(locals: &[Local]) -> Vec<Vec<&Local>> {
    let mut buckets = vec![Vec::new(); IN_FRAME + 1];
    for local in locals {
        let bucket = match local.place {
            Place::Register(register) | Place::RegisterPlus(register, _) | Place::Memory(register, _) => {
                usize::from(register)
            }
            Place::Frame(_) => IN_FRAME,
        };
        buckets[bucket].push(local);
    }
    buckets
}

pub(super) struct Follower<'f, 'r, 's, 'a> {
    pub(super) function: &'f Function<'f>,
    pub(super) reader: &'r mut TypeReader<'s, 'a>,
    pub(super) state: State,
    /// The next id of an unknown number: the same each time an instruction is followed.
    pub(super) unknowns: u64,
    pub(super) information: InstructionInfoFactory,
    pub(super) by_register: Vec<Vec<&'f Local>>,
}

impl<'f> Follower<'f, '_, '_, '_> {
    /// The variables that a bucket holds at an instruction, the innermost first.
    fn locals_at(&self, bucket: usize, ip: u64) -> Vec<&'f Local> {
        let here = self.by_register[bucket].iter().filter(|local| (local.start..local.end).contains(&ip));
        here.copied().collect()
    }

    /// The pointers that a register may hold at an instruction: from locations, then from data flow.
    pub(super) fn pointers(&mut self, register: usize, ip: u64) -> (Vec<Pointer>, bool) {
        let mut pointers = Vec::new();
        let mut is_untyped = false;
        for local in self.locals_at(register, ip) {
            let offset = match local.place {
                Place::Register(_) => 0,
                Place::RegisterPlus(_, plus) => plus.wrapping_neg(),
                _ => continue,
            };
            match self.reader.pointee(local.type_of) {
                Some(pointee) => pointers.push(Pointer {
                    type_of: Some(pointee),
                    offset,
                    strides: Strides::default(),
                    variable: None,
                    evidence: FieldEvidence::Location,
                }),
                None => is_untyped = true,
            }
        }
        if let Some(Value::Pointer(pointer)) = self.state.registers[register] {
            pointers.push(pointer);
        }
        (pointers, is_untyped)
    }

    /// The type and offset that an instruction's memory operand refers to.
    pub(super) fn target(&mut self, instruction: &Instruction) -> Result<Target, NoField> {
        let is_explicit =
            (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        if !is_explicit {
            return self.implicit_target(instruction);
        }
        if matches!(instruction.segment_prefix(), Register::FS | Register::GS) {
            return Err(NoField::ThreadLocal);
        }
        if instruction.is_ip_rel_memory_operand() {
            return self.global(instruction.ip_rel_memory_address(), Strides::default());
        }
        if instruction.memory_index().is_vector_register() {
            return Err(NoField::NoRegister);
        }
        let displacement = instruction.memory_displacement64() as i64;
        let (base, index) =
            (dwarf_number(instruction.memory_base()), dwarf_number(instruction.memory_index()));
        let ip = instruction.ip();
        let scale = instruction.memory_index_scale().into();
        let none = Strides::default();
        match (base, index) {
            (None, None) if instruction.memory_base() != Register::None => Err(NoField::NoRegister),
            // An absolute address.
            (None, None) => self.global(displacement as u64, none),
            (None, Some(index)) => {
                let by_index = self.by_base(ip, index, displacement, none);
                match by_index {
                    Ok(target) if scale == 1 => Ok(target),
                    _ => {
                        let (plus, strides) = self.index(index, scale, none).ok_or(NoField::BadOffset)?;
                        self.global(displacement.wrapping_add(plus) as u64, strides)
                    }
                }
            }
            (Some(base), None) => self.by_base(ip, base, displacement, none).map_err(|reason| {
                let in_frame = reason == NoField::NoVariable && self.frame_place(instruction).is_some();
                if in_frame {
                    NoField::NamelessFrame
                } else {
                    reason
                }
            }),
            (Some(base), Some(index)) => {
                let by_base = self.by_base_and_index(ip, base, displacement, (index, scale));
                // `(%rcx,%rax,1)`: either may be the pointer.
                match by_base {
                    Err(reason) if scale == 1 => {
                        let swapped = self.by_base_and_index(ip, index, displacement, (base, 1));
                        swapped.map_err(|_| reason)
                    }
                    by_base => by_base,
                }
            }
        }
    }

    fn by_base_and_index(
        &mut self,
        ip: u64,
        base: usize,
        displacement: i64,
        (index, scale): (usize, i64),
    ) -> Result<Target, NoField> {
        let (plus, strides) = self.index(index, scale, Strides::default()).ok_or(NoField::BadOffset)?;
        self.by_base(ip, base, displacement.wrapping_add(plus), strides)
    }

    /// The contribution of an index register: a constant, and an unknown multiple.
    fn index(&self, register: usize, scale: i64, strides: Strides) -> Option<(i64, Strides)> {
        match self.state.registers[register] {
            Some(Value::Pointer(_)) => None,
            Some(Value::Number(number)) => {
                let strides = strides.and(number.factor.wrapping_mul(scale).unsigned_abs())?;
                Some((number.plus.wrapping_mul(scale), strides))
            }
            None => Some((0, strides.and(scale.unsigned_abs())?)),
        }
    }

    /// String instructions have implied registers; other implicit memory operands are on the stack.
    fn implicit_target(&mut self, instruction: &Instruction) -> Result<Target, NoField> {
        for operand in 0..instruction.op_count() {
            let register = match instruction.op_kind(operand) {
                OpKind::MemorySegRSI => Register::RSI,
                OpKind::MemoryESRDI | OpKind::MemorySegRDI => Register::RDI,
                _ => continue,
            };
            let register = dwarf_number(register).ok_or(NoField::NoRegister)?;
            return self.by_base(instruction.ip(), register, 0, Strides::default());
        }
        let uses_stack = instruction.is_stack_instruction();
        Err(if uses_stack { NoField::StackOperation } else { NoField::NoMemoryOperand })
    }

    fn global(&mut self, address: u64, strides: Strides) -> Result<Target, NoField> {
        let (start, entry) = self.reader.index.variable_at_or_below(address).ok_or(NoField::NoVariable)?;
        let type_of = self.variable_type(entry);
        let offset = (address - start) as i64;
        // Far behind the variable is another one, unknown.
        match self.reader.size(type_of) {
            Some(size) if offset as u64 >= size => Err(NoField::NoVariable),
            None if offset > 0 => Err(NoField::NoVariable),
            _ => Ok(Target {
                owner: Owner::Global(entry),
                type_of,
                offset,
                strides,
                evidence: FieldEvidence::Address,
            }),
        }
    }

    pub(super) fn variable_type(&self, entry: EntryRef) -> Option<EntryRef> {
        let unit = self.reader.opener.unit(entry.unit)?;
        self.reader.type_of(&unit, &unit.entry(entry.offset)?)
    }

    fn by_base(
        &mut self,
        ip: u64,
        base: usize,
        displacement: i64,
        strides: Strides,
    ) -> Result<Target, NoField> {
        if let Some(target) = self.in_memory(base, ip, displacement, strides) {
            return Ok(target);
        }
        let (pointers, is_untyped) = self.pointers(base, ip);
        let mut reason = if is_untyped { NoField::NoType } else { NoField::NoVariable };
        for pointer in pointers {
            let offset = pointer.offset.wrapping_add(displacement);
            let Some(strides) = strides.join(pointer.strides) else { continue };
            let wanted = Wanted { offset, size: 0, strides, repeats: pointer.variable.is_none() };
            // The innermost variable may be a `void *` of an inlined function, and the next one more specific.
            match path::find(self.reader, pointer.type_of, wanted) {
                Ok(_) => {
                    let owner = pointer.variable.map_or(Owner::Pointee, Owner::Global);
                    let (type_of, evidence) = (pointer.type_of, pointer.evidence);
                    return Ok(Target { owner, type_of, offset, strides, evidence });
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    /// The frame place of an operand, as distance from the canonical frame address.
    pub(super) fn frame_place(&self, instruction: &Instruction) -> Option<i64> {
        let base = dwarf_number(instruction.memory_base())?;
        if instruction.memory_index() != Register::None || instruction.segment_prefix() != Register::None {
            return None;
        }
        let ip = instruction.ip();
        let row = self.function.frame.iter().find(|row| (row.start..row.end).contains(&ip))?;
        let is_frame = usize::from(row.register) == base;
        is_frame.then(|| (instruction.memory_displacement64() as i64).wrapping_sub(row.offset))
    }

    /// A variable of the frame.
    fn in_memory(&mut self, base: usize, ip: u64, displacement: i64, strides: Strides) -> Option<Target> {
        let frame = self.function.frame.iter().find(|row| (row.start..row.end).contains(&ip));
        let frame = frame.filter(|row| usize::from(row.register) == base);
        let mut candidates = self.locals_at(base, ip);
        candidates.extend(self.locals_at(IN_FRAME, ip));
        for local in candidates {
            let start = match (local.place, frame) {
                (Place::Memory(_, offset), _) => offset,
                (Place::Frame(offset), Some(row)) => row.offset.wrapping_add(offset),
                _ => continue,
            };
            let offset = displacement.wrapping_sub(start);
            let size = self.reader.size(local.type_of).unwrap_or(0);
            if u64::try_from(offset).is_ok_and(|offset| offset < size) {
                return Some(Target {
                    owner: Owner::Local(Arc::clone(&local.name)),
                    type_of: local.type_of,
                    offset,
                    strides,
                    evidence: FieldEvidence::Location,
                });
            }
        }
        None
    }

    fn field(&mut self, instruction: &Instruction, target: &Target) -> Result<DataField, NoField> {
        if instruction.mnemonic() == Mnemonic::Lea || instruction.mnemonic() == Mnemonic::Nop {
            return Err(NoField::NoMemoryOperand);
        }
        let size = instruction.memory_size().size() as u64;
        let wanted = target.wanted(size);
        let owner = match &target.owner {
            Owner::Pointee => {
                FieldOwner::Pointee { type_name: self.reader.cached_owner_name(target.type_of) }
            }
            Owner::Local(name) => FieldOwner::Variable {
                name: Arc::clone(name),
                type_name: self.reader.cached_owner_name(target.type_of),
            },
            Owner::Global(entry) => {
                let unit = self.reader.opener.unit(entry.unit).ok_or(NoField::NoVariable)?;
                let found = unit.entry(entry.offset).ok_or(NoField::NoVariable)?;
                let name = self.reader.name_of(&unit, &found).ok_or(NoField::NoVariable)?;
                FieldOwner::Variable {
                    name: name.into(),
                    type_name: self.reader.cached_owner_name(target.type_of),
                }
            }
        };
        field_of(self.reader, owner, target.type_of, wanted, target.evidence)
    }
}

impl Target {
    pub(super) fn wanted(&self, size: u64) -> Wanted {
        let repeats = matches!(self.owner, Owner::Pointee);
        Wanted { offset: self.offset, size, strides: self.strides, repeats }
    }
}

/// The answer as text.
pub(super) fn field_of(
    reader: &mut TypeReader<'_, '_>,
    owner: FieldOwner,
    type_of: Option<EntryRef>,
    wanted: Wanted,
    evidence: FieldEvidence,
) -> Result<DataField, NoField> {
    let leaf = path::find(reader, type_of, wanted)?;
    if let Some((_, found)) = reader.peel(type_of) {
        if matches!(found.shape, Shape::Other) {
            return Err(NoField::NoType);
        }
    }
    let type_name: Arc<str> = match leaf.type_of {
        Some(_) => reader.name(leaf.type_of).into(),
        None => "".into(),
    };
    Ok(DataField {
        owner,
        owner_size: ByteCount(reader.size(type_of).unwrap_or(0)),
        path: leaf.path.into(),
        type_name,
        start: ByteCount(leaf.start),
        size: ByteCount(leaf.size),
        offset: ByteCount(u64::try_from(wanted.offset).map_err(|_| NoField::BadOffset)?),
        evidence,
    })
}
