//! Memory for a ring of pointers in random order, and that order: for loops in which each load waits for the last one.

use std::ptr::NonNull;

/// Fresh anonymous memory, unmapped when dropped.
pub(crate) struct Mapping {
    memory: NonNull<u8>,
    length: usize,
}

impl Mapping {
    /// Memory of this many bytes; `None` if there is none.
    pub(crate) fn new(length: usize) -> Option<Mapping> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
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
        Some(Mapping { memory, length })
    }

    /// Its first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// The successor of each of `count` nodes: one cycle through all of them (Sattolo), so that no node is left out.
pub(crate) fn one_cycle(count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut state = 88_172_645_463_325_252u64;
    for last in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % last as u64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_each_node_once() {
        for count in [1, 2, 3, 1000] {
            let next = one_cycle(count);
            let (mut at, mut steps) = (0, 0);
            loop {
                at = next[at] as usize;
                steps += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(steps, count);
        }
    }
}
