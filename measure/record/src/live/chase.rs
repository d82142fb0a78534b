//! The self-test's loop: one load that waits, at a known address, and work that does not wait.

use crate::cycle::{one_cycle, Mapping};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl hardmeter_live_chase",
    ".type hardmeter_live_chase, @function",
    "hardmeter_live_chase:",
    ".cfi_startproc",
    "mov rax, rdi",
    ".globl hardmeter_live_chase_load",
    "hardmeter_live_chase_load:",
    "mov rdx, [rax + 8]",
    ".globl hardmeter_live_chase_behind",
    "hardmeter_live_chase_behind:",
    "add rcx, 1",
    "xor r8, rcx",
    "mov rax, rdx",
    "sub rsi, 1",
    "jnz hardmeter_live_chase_load",
    ".globl hardmeter_live_chase_end",
    "hardmeter_live_chase_end:",
    "ret",
    ".cfi_endproc",
    ".size hardmeter_live_chase, . - hardmeter_live_chase",
);

// The address register and the loaded one differ, as above: the load's address can be recomputed behind it.
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl hardmeter_live_chase",
    ".type hardmeter_live_chase, %function",
    ".p2align 2",
    "hardmeter_live_chase:",
    ".cfi_startproc",
    ".globl hardmeter_live_chase_load",
    "hardmeter_live_chase_load:",
    "ldr x2, [x0, #8]",
    ".globl hardmeter_live_chase_behind",
    "hardmeter_live_chase_behind:",
    "add x3, x3, #1",
    "eor x4, x4, x3",
    "mov x0, x2",
    "subs x1, x1, #1",
    "b.ne hardmeter_live_chase_load",
    ".globl hardmeter_live_chase_end",
    "hardmeter_live_chase_end:",
    "ret",
    ".cfi_endproc",
    ".size hardmeter_live_chase, . - hardmeter_live_chase",
);

extern "C" {
    fn hardmeter_live_chase(first: *const u8, loads: u64) -> *const u8;
    // Labels: only their addresses are used.
    static hardmeter_live_chase_load: u8;
    static hardmeter_live_chase_behind: u8;
    static hardmeter_live_chase_end: u8;
}

/// Bytes of a node: a cache line.
const NODE: usize = 64;

/// Addresses in the loop's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The load.
    pub(super) load: u64,
    /// The instruction after it.
    pub(super) behind: u64,
    /// The end of the loop.
    pub(super) end: u64,
}

/// The loop's code.
pub(super) fn places() -> Loop {
    Loop {
        load: &raw const hardmeter_live_chase_load as u64,
        behind: &raw const hardmeter_live_chase_behind as u64,
        end: &raw const hardmeter_live_chase_end as u64,
    }
}

/// A ring of nodes in random order, in its own memory.
pub(super) struct Chase {
    at: *const u8,
    /// Where the nodes are.
    _mapping: Mapping,
}

impl Chase {
    /// A ring of this many bytes; `None` if there is no memory.
    pub(super) fn new(bytes: usize) -> Option<Chase> {
        let nodes = (bytes / NODE).max(1);
        let mapping = Mapping::new(nodes * NODE)?;
        let order = one_cycle(nodes);
        let node = |number: u32| mapping.start().wrapping_add(number as usize * NODE);
        for (number, next) in order.iter().enumerate() {
            // SAFETY: the second word of a node inside the mapping, aligned to eight bytes.
            unsafe { node(number as u32).add(8).cast::<*mut u8>().write(node(*next)) };
        }
        Some(Chase { at: mapping.start(), _mapping: mapping })
    }

    /// Follows this many pointers.
    pub(super) fn run(&mut self, loads: u64) {
        // SAFETY: nodes point to nodes; the loop reads only their second words, and at least one.
        self.at = unsafe { hardmeter_live_chase(self.at, loads.max(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_follows_pointers_and_loads_at_its_label() {
        let mut chase = Chase::new(8 * NODE).expect("memory");
        let start = chase.at;
        let mut seen = std::collections::HashSet::new();
        for _ in 0..8 {
            chase.run(1);
            seen.insert(chase.at);
        }
        assert_eq!((chase.at, seen.len()), (start, 8), "one cycle of all nodes");
        chase.run(24);
        assert_eq!(chase.at, start, "three rounds");
        let Loop { load, behind, end } = places();
        // SAFETY: the loop's own code.
        let code = unsafe { std::slice::from_raw_parts(load as *const u8, (end - load) as usize) };
        // mov 8(%rax),%rdx; ldr x2, [x0, #8]
        let expected: &[u8] =
            if cfg!(target_arch = "x86_64") { &[0x48, 0x8b, 0x50, 0x08] } else { &[0x02, 0x04, 0x40, 0xf9] };
        assert_eq!(&code[..4], expected);
        assert_eq!(behind - load, 4);
    }
}
