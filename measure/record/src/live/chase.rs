//! The self-test's loop: one load that waits, at a known address, and work that does not wait.

use std::ptr::NonNull;

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
    memory: NonNull<u8>,
    length: usize,
    at: *const u8,
}

impl Chase {
    /// A ring of this many bytes; `None` if there is no memory.
    pub(super) fn new(bytes: usize) -> Option<Chase> {
        let nodes = (bytes / NODE).max(1);
        let length = nodes * NODE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let memory = NonNull::new(memory).filter(|memory| memory.as_ptr() != libc::MAP_FAILED)?.cast::<u8>();
        // A single cycle through all nodes (Sattolo), so that no part of them is skipped.
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        let mut state = 88_172_645_463_325_252u64;
        for last in (1..nodes).rev() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            order.swap(last, (state % last as u64) as usize);
        }
        let node = |number: u32| memory.as_ptr().wrapping_add(number as usize * NODE);
        for (number, next) in order.iter().enumerate() {
            // SAFETY: the second word of a node inside the mapping, aligned to eight bytes.
            unsafe { node(number as u32).add(8).cast::<*mut u8>().write(node(*next)) };
        }
        Some(Chase { memory, length, at: memory.as_ptr() })
    }

    /// Follows this many pointers.
    pub(super) fn run(&mut self, loads: u64) {
        // SAFETY: nodes point to nodes; the loop reads only their second words, and at least one.
        self.at = unsafe { hardmeter_live_chase(self.at, loads.max(1)) };
    }
}

impl Drop for Chase {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}
