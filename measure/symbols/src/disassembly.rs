//! Machine code as text, with the memory accesses of each instruction. x86-64; other architectures are refused.

use crate::image::ImageAddress;
use hardmeter_samples::model::{AccessSize, Register};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, InstructionInfoFactory};
use iced_x86::{InstructionInfoOptions, IntelFormatter, OpAccess, OpKind, UsedMemory, UsedRegister};
use std::ops::Range;

/// The assembler syntax.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// `mov 0x8(%rdi),%rax`, as `objdump` prints it.
    #[default]
    Att,
    /// `mov rax,[rdi+8]`.
    Intel,
}

/// The control flow of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Execution continues with the next instruction.
    Next,
    /// Calls a subroutine, which returns. `None`: through a register or memory.
    Call(Option<ImageAddress>),
    /// Elsewhere, always.
    Jump(Option<ImageAddress>),
    /// Jumps, or continues with the next instruction.
    ConditionalJump(ImageAddress),
    /// Back to the caller.
    Return,
    /// A call of the kernel, a trap, or a transaction.
    Other,
}

/// The access of an instruction to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it.
    ReadWrite,
}

/// A memory operand of an instruction: `displacement(base,index,scale)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// Position of the operand in [`Instruction::text`]; `None` for implicit ones (the stack of `push`).
    pub text: Option<Range<usize>>,
    /// The base register; [`Register::Rip`] for addresses relative to the next instruction.
    pub base: Option<Register>,
    /// The index register.
    pub index: Option<Register>,
    /// The factor of the index: 1, 2, 4 or 8.
    pub scale: u8,
    /// The constant part.
    pub displacement: i64,
    /// The access.
    pub access: Access,
    /// Size in bytes; 0 if it depends on more than the instruction (`xsave`, `rep movs`).
    pub size: AccessSize,
    /// The base or index register that the instruction itself overwrites: the address cannot be computed from
    /// registers recorded after it (PEBS).
    pub register_overwritten: Option<Register>,
    /// The change of the stack pointer, if that is the base: `push` -8, `pop` 8.
    pub stack_adjustment: i64,
    /// Whether the address is cut to 32 bits (`addr32`).
    pub short_address: bool,
    /// Whether an `%fs` or `%gs` base is added, which samples do not carry.
    pub segment_base: bool,
    /// Whether the index is a vector: a gather or scatter, with several addresses.
    pub vector_index: bool,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its address in the image.
    pub address: ImageAddress,
    /// Its length in bytes.
    pub length: u8,
    /// Mnemonic and operands.
    pub text: String,
    /// The places in memory it uses, those in the text first.
    pub memory: Vec<MemoryOperand>,
    /// Its control flow.
    pub flow: Flow,
    /// The target of a jump, call or rip-relative operand, for example `<LWLockRelease+0x40>`.
    pub comment: Option<String>,
}

impl Instruction {
    /// The address of the following instruction.
    pub fn next(&self) -> ImageAddress {
        ImageAddress(self.address.0.wrapping_add(u64::from(self.length)))
    }

    /// The image address that a rip-relative operand names.
    pub fn rip_relative_target(&self) -> Option<ImageAddress> {
        let operand = self.memory.iter().find(|operand| operand.base == Some(Register::Rip))?;
        Some(ImageAddress(self.next().0.wrapping_add(operand.displacement as u64)))
    }
}

/// The reason why code cannot be disassembled.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DisassemblyError {
    /// Another processor's code.
    #[error("{image} holds {architecture} code, only x86-64 code is disassembled here: use that machine's objdump")]
    Architecture {
        /// The image.
        image: String,
        /// Its architecture.
        architecture: String,
    },
    /// The image's code is not available.
    #[error("the code of {image} is not available: {cause}")]
    NoCode {
        /// The image.
        image: String,
        /// The cause and the remedy.
        cause: String,
    },
}

/// Disassembles x86-64 code that starts at an address of its image. Bytes that are not an instruction are listed
/// one by one as `(bad)`, as in `objdump`.
pub fn disassemble(code: &[u8], start: ImageAddress, syntax: Syntax) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, code, start.0, DecoderOptions::NONE);
    let mut formatter: Box<dyn Formatter> = match syntax {
        Syntax::Att => Box::new(GasFormatter::new()),
        Syntax::Intel => Box::new(IntelFormatter::new()),
    };
    let options = formatter.options_mut();
    options.set_first_operand_char_index(7);
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_rip_relative_addresses(true);
    options.set_space_after_operand_separator(false);
    options.set_show_branch_size(false);
    options.set_show_zero_displacements(syntax == Syntax::Att);
    options.set_show_useless_prefixes(true);
    let mut information = InstructionInfoFactory::new();
    let mut instructions = Vec::new();
    while decoder.can_decode() {
        let position = decoder.position();
        let decoded = decoder.decode();
        let address = ImageAddress(start.0.wrapping_add(position as u64));
        if decoded.is_invalid() {
            // Within the code: at least one byte was there to decode.
            decoder.set_position(position + 1).expect("within the code");
            decoder.set_ip(address.0.wrapping_add(1));
            instructions.push(Instruction {
                address,
                length: 1,
                text: "(bad)".to_owned(),
                memory: Vec::new(),
                flow: Flow::Other,
                comment: None,
            });
            continue;
        }
        // objdump shows a scale of 1, but only with an index: without one iced prints `(%rdi,)`.
        let has_index = decoded.memory_index() != iced_x86::Register::None;
        formatter.options_mut().set_always_show_scale(syntax == Syntax::Att && has_index);
        let mut text = String::new();
        formatter.format(&decoded, &mut text);
        let memory = memory_operands(&decoded, &text, formatter.as_mut(), &mut information);
        let length = decoded.len() as u8;
        instructions.push(Instruction { address, length, text, memory, flow: flow(&decoded), comment: None });
    }
    instructions
}

fn flow(decoded: &iced_x86::Instruction) -> Flow {
    let target = || ImageAddress(decoded.near_branch_target());
    match decoded.flow_control() {
        FlowControl::Next => Flow::Next,
        FlowControl::Call => Flow::Call(Some(target())),
        FlowControl::IndirectCall => Flow::Call(None),
        FlowControl::UnconditionalBranch => Flow::Jump(Some(target())),
        FlowControl::IndirectBranch => Flow::Jump(None),
        FlowControl::ConditionalBranch => Flow::ConditionalJump(target()),
        FlowControl::Return => Flow::Return,
        _ => Flow::Other,
    }
}

/// The operands of the text first, then the implicit ones.
fn memory_operands(
    decoded: &iced_x86::Instruction,
    text: &str,
    formatter: &mut dyn Formatter,
    information: &mut InstructionInfoFactory,
) -> Vec<MemoryOperand> {
    let spans = operand_spans(decoded, text, formatter);
    let information = information.info_options(decoded, InstructionInfoOptions::NONE);
    let registers = information.used_registers();
    let mut operands: Vec<MemoryOperand> = information
        .used_memory()
        .iter()
        .filter_map(|used| {
            let text = spans.iter().find(|(base, index, _)| *base == used.base() && *index == used.index());
            memory_operand(decoded, used, registers, text.map(|(_, _, span)| span.clone()))
        })
        .collect();
    operands.sort_by_key(|operand| operand.text.is_none());
    operands
}

type Span = (iced_x86::Register, iced_x86::Register, Range<usize>);

/// Base, index and text position of each explicit memory operand.
fn operand_spans(decoded: &iced_x86::Instruction, text: &str, formatter: &mut dyn Formatter) -> Vec<Span> {
    use iced_x86::Register as Name;
    let mut spans = Vec::new();
    for number in 0..formatter.operand_count(decoded) {
        let Ok(Some(operand)) = formatter.get_instruction_operand(decoded, number) else { continue };
        let (base, index) = match decoded.op_kind(operand) {
            // `used_memory` has rip-relative operands as absolute displacements.
            OpKind::Memory if decoded.is_ip_rel_memory_operand() => (Name::None, Name::None),
            OpKind::Memory => (decoded.memory_base(), decoded.memory_index()),
            OpKind::MemorySegRSI => (Name::RSI, Name::None),
            OpKind::MemoryESRDI | OpKind::MemorySegRDI => (Name::RDI, Name::None),
            OpKind::MemorySegESI => (Name::ESI, Name::None),
            OpKind::MemoryESEDI | OpKind::MemorySegEDI => (Name::EDI, Name::None),
            _ => continue,
        };
        let mut operand = String::new();
        if formatter.format_operand(decoded, &mut operand, number).is_err() || operand.is_empty() {
            continue;
        }
        // Skip the mnemonic: operands follow the first blank.
        let from = text.find(' ').unwrap_or(0);
        if let Some(position) = text[from..].find(&operand) {
            spans.push((base, index, from + position..from + position + operand.len()));
        }
    }
    spans
}

fn memory_operand(
    decoded: &iced_x86::Instruction,
    used: &UsedMemory,
    registers: &[UsedRegister],
    text: Option<Range<usize>>,
) -> Option<MemoryOperand> {
    use iced_x86::Register as Name;
    let access = match used.access() {
        OpAccess::Read | OpAccess::CondRead => Access::Read,
        OpAccess::Write | OpAccess::CondWrite => Access::Write,
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Access::ReadWrite,
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let rip_relative = text.is_some() && decoded.is_ip_rel_memory_operand();
    let (base, displacement) = if rip_relative {
        (Some(Register::Rip), decoded.ip_rel_memory_address().wrapping_sub(decoded.next_ip()) as i64)
    } else {
        (general_register(used.base()), used.displacement() as i64)
    };
    let index = general_register(used.index());
    let moves_stack = decoded.is_stack_instruction() && !sets_stack_pointer(decoded);
    let on_stack = moves_stack && base == Some(Register::Rsp);
    let is_overwritten = |register: Register| {
        registers.iter().any(|used| {
            let written = matches!(
                used.access(),
                OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            written && general_register(used.register()) == Some(register)
        })
    };
    let register_overwritten = [base, index].into_iter().flatten().find(|register| {
        *register != Register::Rip && !(on_stack && *register == Register::Rsp) && is_overwritten(*register)
    });
    let short = |name: Name| name.is_gpr32();
    Some(MemoryOperand {
        text,
        base,
        index,
        scale: used.scale().min(8) as u8,
        displacement,
        access,
        size: AccessSize(u8::try_from(used.memory_size().size()).unwrap_or(0)),
        register_overwritten,
        stack_adjustment: if on_stack { i64::from(decoded.stack_pointer_increment()) } else { 0 },
        short_address: short(used.base()) || short(used.index()),
        segment_base: matches!(used.segment(), Name::FS | Name::GS),
        vector_index: used.index().is_vector_register(),
    })
}

/// Instructions that load the stack pointer rather than move it.
fn sets_stack_pointer(decoded: &iced_x86::Instruction) -> bool {
    let pops_it = decoded.op_count() == 1
        && decoded.op_kind(0) == OpKind::Register
        && decoded.op_register(0) == iced_x86::Register::RSP
        && decoded.stack_pointer_increment() > 0;
    pops_it || matches!(decoded.code(), Code::Leaveq | Code::Enterq_imm16_imm8 | Code::Iretq)
}

/// The full register that contains a register: `%al`, `%eax` and `%rax` are `Rax`.
pub(crate) fn general_register(name: iced_x86::Register) -> Option<Register> {
    use iced_x86::Register as Name;
    Some(match name.full_register() {
        Name::RAX => Register::Rax,
        Name::RBX => Register::Rbx,
        Name::RCX => Register::Rcx,
        Name::RDX => Register::Rdx,
        Name::RSI => Register::Rsi,
        Name::RDI => Register::Rdi,
        Name::RBP => Register::Rbp,
        Name::RSP => Register::Rsp,
        Name::R8 => Register::R8,
        Name::R9 => Register::R9,
        Name::R10 => Register::R10,
        Name::R11 => Register::R11,
        Name::R12 => Register::R12,
        Name::R13 => Register::R13,
        Name::R14 => Register::R14,
        Name::R15 => Register::R15,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(code: &[u8], syntax: Syntax) -> Instruction {
        let all = disassemble(code, ImageAddress(0x1000), syntax);
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().expect("one")
    }

    /// Encodings and texts as GNU objdump prints them.
    #[test]
    fn texts_are_those_of_objdump() {
        let cases: [(&[u8], &str, Option<&str>); 9] = [
            (&[0x48, 0x8b, 0x47, 0x08], "mov    0x8(%rdi),%rax", Some("0x8(%rdi)")),
            (&[0x48, 0x89, 0x04, 0xcb], "mov    %rax,(%rbx,%rcx,8)", Some("(%rbx,%rcx,8)")),
            (&[0x8b, 0x45, 0xf8], "mov    -0x8(%rbp),%eax", Some("-0x8(%rbp)")),
            (&[0x48, 0x8d, 0x44, 0x24, 0x10], "lea    0x10(%rsp),%rax", None),
            (&[0xf0, 0x0f, 0xb1, 0x17], "lock cmpxchg %edx,(%rdi)", Some("(%rdi)")),
            (&[0x55], "push   %rbp", None),
            (&[0xc3], "ret", None),
            (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], "mov    %fs:0x28,%rax", Some("%fs:0x28")),
            (&[0x48, 0x83, 0xc4, 0x08], "add    $0x8,%rsp", None),
        ];
        for (code, text, operand) in cases {
            let instruction = one(code, Syntax::Att);
            assert_eq!(instruction.text, text);
            assert_eq!(usize::from(instruction.length), code.len());
            let span = instruction.memory.first().and_then(|memory| memory.text.clone());
            assert_eq!(span.map(|span| &instruction.text[span]), operand, "{text}");
        }
        assert_eq!(one(&[0x48, 0x8b, 0x47, 0x08], Syntax::Intel).text, "mov    rax,[rdi+0x8]");
    }

    #[test]
    fn operands_tell_access_size_and_registers() {
        let load = one(&[0x48, 0x89, 0x04, 0xcb], Syntax::Att); // mov %rax,(%rbx,%rcx,8)
        let memory = &load.memory[0];
        assert_eq!((memory.base, memory.index, memory.scale), (Some(Register::Rbx), Some(Register::Rcx), 8));
        assert_eq!((memory.access, memory.size), (Access::Write, AccessSize(8)));
        let locked = one(&[0xf0, 0x0f, 0xb1, 0x17], Syntax::Att); // lock cmpxchg %edx,(%rdi)
        assert_eq!((locked.memory[0].access, locked.memory[0].size), (Access::ReadWrite, AccessSize(4)));
        // movsq: reads (%rsi), writes %es:(%rdi), and advances both registers.
        let string = one(&[0x48, 0xa5], Syntax::Att);
        assert_eq!(string.memory.len(), 2);
        assert!(string.memory.iter().all(|memory| memory.text.is_some()), "{string:?}");
        assert!(string.memory.iter().all(|memory| memory.register_overwritten == memory.base));
    }

    #[test]
    fn flows_and_targets() {
        // call +0x10: the next instruction is at 0x1005.
        assert_eq!(one(&[0xe8, 0x10, 0, 0, 0], Syntax::Att).flow, Flow::Call(Some(ImageAddress(0x1015))));
        assert_eq!(one(&[0xff, 0xd0], Syntax::Att).flow, Flow::Call(None));
        assert_eq!(one(&[0xeb, 0xfe], Syntax::Att).flow, Flow::Jump(Some(ImageAddress(0x1000))));
        assert_eq!(one(&[0x74, 0x02], Syntax::Att).flow, Flow::ConditionalJump(ImageAddress(0x1004)));
        assert_eq!(one(&[0xc3], Syntax::Att).flow, Flow::Return);
        // mov 0x20(%rip),%eax: 6 bytes.
        let relative = one(&[0x8b, 0x05, 0x20, 0, 0, 0], Syntax::Att);
        assert_eq!(relative.text, "mov    0x20(%rip),%eax");
        assert_eq!(relative.rip_relative_target(), Some(ImageAddress(0x1026)));
    }

    #[test]
    fn bytes_that_are_no_code_are_listed_one_by_one() {
        // 0x06 (push %es) does not exist in 64-bit mode; an incomplete instruction ends the code.
        let listed = disassemble(&[0x06, 0xc3, 0x48], ImageAddress(0), Syntax::Att);
        let texts: Vec<&str> = listed.iter().map(|instruction| instruction.text.as_str()).collect();
        assert_eq!(texts, ["(bad)", "ret", "(bad)"]);
        let addresses: Vec<u64> = listed.iter().map(|instruction| instruction.address.0).collect();
        assert_eq!(addresses, [0, 1, 2]);
    }
}
