//! The control flow of one function: the possible predecessors of an instruction.
//!
//! Invariants:
//! 1. `code` is sorted by address and was decoded linearly from the function's first byte.
//! 2. Every direct jump inside the function, and every jump table that was recognized, has its targets in `leaders`.
//! 3. A block never crosses a leader, a call, a return or a jump that is taken.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Maximum length of a decoded function; compilers generate none that is longer.
const LONGEST: usize = 1 << 20;
/// Entries read of one jump table.
const TABLE_LIMIT: u64 = 1024;
/// The number of instructions before an indirect jump that are searched for the address of its table.
const TABLE_DISTANCE: usize = 10;

/// The ways to reach a jump target.
#[derive(Debug, Default)]
struct Arrivals {
    /// Positions of the direct jumps to it.
    jumps: Vec<usize>,
    /// Whether it is in a jump table whose jump may not be the only one.
    table: bool,
}

/// The instructions of a function.
#[derive(Debug)]
pub(super) struct Function {
    code: Vec<Instruction>,
    leaders: FxHashMap<u64, Arrivals>,
}

impl Function {
    /// Decodes a function that starts at an address of its image. `word` reads a 32-bit word of the image.
    pub(super) fn decode(bytes: &[u8], start: u64, word: &dyn Fn(u64) -> Option<i32>) -> Function {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        let end = start.saturating_add(bytes.len() as u64);
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut code = Vec::with_capacity(bytes.len() / 4);
        while decoder.can_decode() {
            code.push(decoder.decode());
        }
        let mut leaders: FxHashMap<u64, Arrivals> = FxHashMap::default();
        for (position, instruction) in code.iter().enumerate() {
            match instruction.flow_control() {
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                    let target = instruction.near_branch_target();
                    leaders.entry(target).or_default().jumps.push(position);
                }
                FlowControl::IndirectBranch => {
                    for target in table_targets(&code[..=position], start..end, word) {
                        leaders.entry(target).or_default().table = true;
                    }
                }
                _ => {}
            }
        }
        Function { code, leaders }
    }

    /// The instruction at a position.
    pub(super) fn at(&self, position: usize) -> &Instruction {
        &self.code[position]
    }

    /// The position of the instruction that begins at an address.
    pub(super) fn position(&self, address: u64) -> Option<usize> {
        self.code.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Whether control may arrive at a position from elsewhere than the instruction before it.
    fn is_leader(&self, position: usize) -> bool {
        self.leaders.contains_key(&self.code[position].ip())
    }

    /// Whether control passes from a position to the next one without leaving the function.
    fn falls_through(&self, position: usize) -> bool {
        matches!(self.code[position].flow_control(), FlowControl::Next | FlowControl::ConditionalBranch)
    }

    /// The possible predecessors of a position, including the instruction itself: `None` if unknown (entry of the
    /// function, or target of a jump table).
    pub(super) fn predecessors(&self, position: usize) -> Option<Vec<usize>> {
        let mut before: Vec<usize> = Vec::new();
        if position > 0 && self.falls_through(position - 1) {
            before.push(position - 1);
        }
        if let Some(arrivals) = self.leaders.get(&self.code[position].ip()) {
            if arrivals.table {
                return None;
            }
            before.extend(&arrivals.jumps);
        }
        // After a call the predecessor is the callee's last instruction.
        (!before.is_empty()).then_some(before)
    }

    /// The position before a conditional jump whose instruction is fused with it: the two retire as one.
    pub(super) fn fused_with(&self, jump: usize) -> Option<usize> {
        use Mnemonic::{Add, And, Cmp, Dec, Inc, Sub, Test};
        let fusible = |position: usize| {
            matches!(self.code[position].mnemonic(), Cmp | Test | Add | Sub | And | Inc | Dec)
        };
        let is_conditional = self.code[jump].flow_control() == FlowControl::ConditionalBranch;
        let before = jump.checked_sub(1).filter(|before| is_conditional && fusible(*before))?;
        (!self.is_leader(jump)).then_some(before)
    }

    /// The first position from which control reaches another one by a single path: past jumps that were not taken.
    pub(super) fn block_start(&self, position: usize) -> usize {
        let mut first = position;
        while first > 0
            && !self.is_leader(first)
            && self.falls_through(first - 1)
            && !self.code[first - 1].is_invalid()
        {
            first -= 1;
        }
        first
    }
}

/// The targets of a jump table in position-independent code:
///
/// ```text
///   lea    table(%rip),%base
///   movslq (%base,%index,4),%target
///   add    %base,%target
///   jmp    *%target
/// ```
fn table_targets(until: &[Instruction], function: Range<u64>, word: &dyn Fn(u64) -> Option<i32>) -> Vec<u64> {
    let Some((jump, before)) = until.split_last() else { return Vec::new() };
    if jump.op_kind(0) != OpKind::Register {
        return Vec::new();
    }
    let near = &before[before.len().saturating_sub(TABLE_DISTANCE)..];
    let load = near.iter().rev().find(|instruction| {
        instruction.mnemonic() == Mnemonic::Movsxd
            && instruction.op_kind(1) == OpKind::Memory
            && instruction.memory_index_scale() == 4
            && instruction.memory_index() != Register::None
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

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// 1000  48 83 f8 03            cmp    $0x3,%rax
    /// 1004  77 13                  ja     1019
    /// 1006  48 8d 15 f3 0f 00 00   lea    0xff3(%rip),%rdx      # 2000
    /// 100d  48 63 04 82            movslq (%rdx,%rax,4),%rax
    /// 1011  48 01 d0               add    %rdx,%rax
    /// 1014  ff e0                  jmp    *%rax
    /// 1016  8b 07                  mov    (%rdi),%eax           first case
    /// 1018  c3                     ret
    /// 1019  31 c0                  xor    %eax,%eax             last case, and default
    /// 101b  c3                     ret
    /// ```
    const SWITCH: [u8; 28] = [
        0x48, 0x83, 0xf8, 0x03, 0x77, 0x13, 0x48, 0x8d, 0x15, 0xf3, 0x0f, 0, 0, 0x48, 0x63, 0x04, 0x82, 0x48,
        0x01, 0xd0, 0xff, 0xe0, 0x8b, 0x07, 0xc3, 0x31, 0xc0, 0xc3,
    ];

    fn switch() -> Function {
        let word = |address: u64| match address {
            0x2000 => Some(0x1016 - 0x2000),
            0x2004 => Some(0x1019 - 0x2000),
            _ => Some(0), // the next table: not in this function
        };
        Function::decode(&SWITCH, 0x1000, &word)
    }

    #[test]
    fn control_arrives_by_jumps_tables_and_from_above() {
        let function = switch();
        let before = |address| {
            let position = function.position(address).expect("an instruction");
            let positions = function.predecessors(position)?;
            Some(positions.into_iter().map(|position| function.at(position).ip()).collect::<Vec<_>>())
        };
        assert_eq!(before(0x1000), None, "the function is entered here");
        assert_eq!(before(0x1006), Some(vec![0x1004]));
        assert_eq!(before(0x1016), None, "a case of the switch");
        assert_eq!(before(0x1018), Some(vec![0x1016]));
        assert_eq!(before(0x1019), None, "the default, and a case");
        assert_eq!(function.position(0x1007), None, "inside an instruction");
    }

    #[test]
    fn a_comparison_is_fused_with_its_jump() {
        let function = switch();
        let jump = function.position(0x1004).expect("ja");
        assert_eq!(function.fused_with(jump), Some(0));
        assert_eq!(function.fused_with(0), None, "no jump");
        let add = function.position(0x1011).expect("add");
        assert_eq!(function.block_start(add), 0, "the jump at 1004 was not taken");
        let case = function.position(0x1018).expect("ret");
        assert_eq!(function.block_start(case), function.position(0x1016).expect("mov"));
    }
}
