//! The control flow of one function: the possible predecessors of an instruction.
//!
//! Invariants:
//! 1. `code` is sorted by address and was decoded linearly from the function's first byte.
//! 2. Every direct jump inside the function, and every jump table that was recognized, has its targets in `leaders`.
//! 3. A block never crosses a leader, a call, a return or a jump that is taken.

use super::machine::{Flow, Machine, Word};
use rustc_hash::FxHashMap;

/// Maximum length of a decoded function; compilers generate none that is longer.
const LONGEST: usize = 1 << 20;

/// The ways to reach a jump target.
#[derive(Debug, Default)]
struct Arrivals {
    /// Positions of the direct jumps to it.
    jumps: Vec<usize>,
    /// Whether it is in a jump table whose jump may not be the only one.
    table: bool,
}

/// The instructions of a function.
pub(super) struct Function<M: Machine> {
    code: Vec<M::Instruction>,
    leaders: FxHashMap<u64, Arrivals>,
}

impl<M: Machine> Function<M> {
    /// Decodes a function that starts at an address of its image. `word` reads a 32-bit word of the image.
    pub(super) fn decode(bytes: &[u8], start: u64, word: Word<'_>) -> Function<M> {
        let bytes = &bytes[..bytes.len().min(LONGEST)];
        let end = start.saturating_add(bytes.len() as u64);
        let code = M::decode(bytes, start);
        let mut leaders: FxHashMap<u64, Arrivals> = FxHashMap::default();
        for (position, instruction) in code.iter().enumerate() {
            match M::flow(instruction) {
                Flow::Conditional(target) | Flow::Jump(target) => {
                    leaders.entry(target).or_default().jumps.push(position);
                }
                Flow::Indirect => {
                    for target in M::table_targets(&code[..=position], start..end, word) {
                        leaders.entry(target).or_default().table = true;
                    }
                }
                Flow::Next | Flow::Away => {}
            }
        }
        Function { code, leaders }
    }

    /// The instruction at a position.
    pub(super) fn at(&self, position: usize) -> &M::Instruction {
        &self.code[position]
    }

    /// The position of the instruction that begins at an address.
    pub(super) fn position(&self, address: u64) -> Option<usize> {
        self.code.binary_search_by_key(&address, M::address).ok()
    }

    /// Whether control may arrive at a position from elsewhere than the instruction before it.
    fn is_leader(&self, position: usize) -> bool {
        self.leaders.contains_key(&M::address(&self.code[position]))
    }

    /// Whether control passes from a position to the next one without leaving the function.
    fn falls_through(&self, position: usize) -> bool {
        matches!(M::flow(&self.code[position]), Flow::Next | Flow::Conditional(_))
    }

    /// The possible predecessors of a position, including the instruction itself: `None` if unknown (entry of the
    /// function, or target of a jump table).
    pub(super) fn predecessors(&self, position: usize) -> Option<Vec<usize>> {
        let mut before: Vec<usize> = Vec::new();
        if position > 0 && self.falls_through(position - 1) {
            before.push(position - 1);
        }
        if let Some(arrivals) = self.leaders.get(&M::address(&self.code[position])) {
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
        let is_conditional = matches!(M::flow(&self.code[jump]), Flow::Conditional(_));
        let fusible = |position: &usize| is_conditional && M::is_fusible(&self.code[*position]);
        let before = jump.checked_sub(1).filter(fusible)?;
        (!self.is_leader(jump)).then_some(before)
    }

    /// The first position from which control reaches another one by a single path: past jumps that were not taken.
    pub(super) fn block_start(&self, position: usize) -> usize {
        let mut first = position;
        while first > 0
            && !self.is_leader(first)
            && self.falls_through(first - 1)
            && !M::is_invalid(&self.code[first - 1])
        {
            first -= 1;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stall::x86::X86;

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

    fn switch() -> Function<X86> {
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
