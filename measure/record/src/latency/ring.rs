//! A ring of lines in random order, each with the address of the next, and the loop that follows it.

use crate::cycle::{one_cycle, Mapping};

/// The kind of pages on which a ring lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Pages of 2 MiB, if the kernel gives them.
    Huge,
    /// Pages of 4 KiB.
    Small,
}

const LINE: usize = 64;
const PAGE: usize = 4096;
/// Mappings begin at a multiple of this, so that all their memory can lie on huge pages.
const HUGE: usize = 2 << 20;

/// A ring with its own memory.
///
/// Invariant: every node is inside the mapping, aligned to a line, and holds the address of another node;
/// following them from any node visits all.
pub(super) struct Ring {
    _mapping: Mapping,
    begin: *mut u8,
    bytes: usize,
    nodes: u64,
    at: *const u8,
}

impl Ring {
    /// A ring of adjacent lines; `None` without memory.
    pub(super) fn side_by_side(nodes: u64, layout: Layout) -> Option<Ring> {
        Ring::new(nodes, layout, |number| number * LINE, nodes as usize * LINE)
    }

    /// A ring with one line on each page of 4 KiB. The line's place in the page varies, because equal places
    /// would share few cache sets.
    pub(super) fn spread(pages: u64) -> Option<Ring> {
        let place = |number: usize| number * PAGE + number % (PAGE / LINE) * LINE;
        Ring::new(pages, Layout::Small, place, pages as usize * PAGE)
    }

    fn new(nodes: u64, layout: Layout, place: impl Fn(usize) -> usize, bytes: usize) -> Option<Ring> {
        let count = u32::try_from(nodes).ok().filter(|count| *count > 0)? as usize;
        let mapping = Mapping::new(bytes.checked_add(HUGE)?)?;
        let begin = mapping.start().wrapping_add(mapping.start().align_offset(HUGE));
        let advice = if layout == Layout::Huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: advice on memory inside the mapping. A kernel without huge pages refuses it, which does no
        // harm.
        unsafe { libc::madvise(begin.cast(), bytes, advice) };
        let order = one_cycle(count);
        let node = |number: usize| begin.wrapping_add(place(number));
        for (number, next) in order.iter().enumerate() {
            // SAFETY: the first word of a line inside the mapping: `place` gives multiples of a line below `bytes`.
            unsafe { node(number).cast::<*mut u8>().write(node(*next as usize)) };
        }
        Some(Ring { _mapping: mapping, begin, bytes, nodes, at: begin })
    }

    /// The number of nodes.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Follows this many pointers, a multiple of eight.
    pub(super) fn run(&mut self, loads: u64) {
        // SAFETY: by the type's invariant every node is the address of a node.
        self.at = unsafe { follow(self.at, loads / 8) };
    }

    /// Flushes all of its lines from all caches; returns `false` if that is impossible.
    pub(super) fn flush(&mut self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            for offset in (0..self.bytes).step_by(LINE) {
                // SAFETY: lines inside the mapping; every x86-64 processor has clflush.
                unsafe { std::arch::x86_64::_mm_clflush(self.begin.wrapping_add(offset)) };
            }
            // SAFETY: no preconditions.
            unsafe { std::arch::x86_64::_mm_mfence() };
            true
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (self.begin, self.bytes);
            false
        }
    }

    /// True if most of it lies on huge pages, as the kernel reports.
    pub(super) fn on_huge_pages(&self) -> bool {
        let Ok(maps) = std::fs::read_to_string("/proc/self/smaps") else { return false };
        let (first, last) = (self.begin as usize, self.begin as usize + self.bytes);
        let mut inside = false;
        let mut huge = 0;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let hex = |text: &str| usize::from_str_radix(text, 16).ok();
            if let Some((Some(begin), Some(end))) = range.map(|(begin, end)| (hex(begin), hex(end))) {
                inside = begin < last && first < end;
            } else if let Some(size) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
                let kilobytes = size.trim().trim_end_matches(" kB").parse::<usize>().unwrap_or(0);
                huge += kilobytes << 10;
            }
        }
        2 * huge >= self.bytes
    }
}

/// Follows eight pointers `rounds` times. Written in assembly, so that exactly eight loads are measured,
/// whatever the compiler's options are.
///
/// # Safety
/// From `at` on, each word read must be an address from which a word can be read.
#[cfg(target_arch = "x86_64")]
unsafe fn follow(mut at: *const u8, rounds: u64) -> *const u8 {
    if rounds > 0 {
        // SAFETY: reads only, from addresses that the caller guarantees.
        unsafe {
            std::arch::asm!(
                "2:",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "mov {at}, [{at}]",
                "dec {rounds}",
                "jnz 2b",
                at = inout(reg) at,
                rounds = inout(reg) rounds => _,
                options(nostack, readonly),
            );
        }
    }
    at
}

/// The same, compiled from Rust.
///
/// # Safety
/// From `at` on, each word read must be an address from which a word can be read.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn follow(mut at: *const u8, rounds: u64) -> *const u8 {
    for _ in 0..rounds * 8 {
        // SAFETY: guaranteed by the caller.
        at = unsafe { at.cast::<*const u8>().read_volatile() };
    }
    at
}

/// Cycles per nanosecond at the core's current clock, measured by multiplications that depend on each other.
/// Each takes three cycles on every x86-64 processor since 2008.
#[cfg(target_arch = "x86_64")]
pub(super) fn cycles_per_ns() -> Option<f64> {
    use std::time::{Duration, Instant};
    const ROUNDS: u64 = 20_000;
    const CYCLES: u64 = 8 * 3;
    let run = || {
        // SAFETY: uses only its own registers.
        unsafe {
            std::arch::asm!(
                "2:",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "imul {value}, {value}",
                "dec {rounds}",
                "jnz 2b",
                value = inout(reg) 3u64 => _,
                rounds = inout(reg) ROUNDS => _,
                options(nostack, nomem),
            );
        }
    };
    // The core takes some milliseconds to reach its clock. Interruptions make a round slower, never faster.
    let warm = Instant::now();
    while warm.elapsed() < Duration::from_millis(50) {
        run();
    }
    let shortest = (0..100)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed()
        })
        .min()?;
    Some((ROUNDS * CYCLES) as f64 / shortest.as_nanos().max(1) as f64)
}

/// Not known for other processors.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn cycles_per_ns() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits every node once, then the first one again.
    #[test]
    fn a_ring_visits_all_of_its_lines() {
        for mut ring in [Ring::side_by_side(64, Layout::Small).unwrap(), Ring::spread(64).unwrap()] {
            let first = ring.at;
            let mut seen = std::collections::HashSet::new();
            for _ in 0..8 {
                // Eight pointers at a time: visits every eighth node of 64.
                seen.insert(ring.at as usize);
                ring.run(8);
            }
            assert_eq!(seen.len(), 8);
            assert_eq!(ring.at, first);
            assert!(seen.iter().all(|node| node % LINE == 0));
        }
        assert!(Ring::side_by_side(0, Layout::Small).is_none());
    }

    #[test]
    fn a_flushed_ring_is_the_same_ring() {
        let mut ring = Ring::side_by_side(1024, Layout::Huge).unwrap();
        ring.flush();
        let first = ring.at;
        ring.run(1024);
        assert_eq!(ring.at, first);
    }
}
