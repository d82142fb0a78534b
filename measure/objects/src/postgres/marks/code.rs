//! Functions of a program without their names: the beginning of each, and the functions that it calls.

use crate::bytes::array_at;
use crate::program::{Image, SymbolClass};
use std::ops::Range;

/// All functions, in the order of their addresses.
pub(super) struct Functions {
    base: u64,
    code: Vec<u8>,
    starts: Vec<u64>,
}

impl Functions {
    /// From an image: functions in its unwinding table, and functions with names.
    pub fn of(image: &Image) -> Functions {
        let named = image.symbols().iter().filter(|symbol| symbol.class == SymbolClass::Function);
        let mut starts: Vec<u64> =
            named.map(|symbol| symbol.address).chain(image.function_starts.iter().copied()).collect();
        starts.retain(|start| image.text.contains(start));
        Functions::new(image.text.start, image.code.clone(), starts)
    }

    /// From code that begins at `base`.
    pub fn new(base: u64, code: Vec<u8>, mut starts: Vec<u64>) -> Functions {
        starts.sort_unstable();
        starts.dedup();
        Functions { base, code, starts }
    }

    /// The number of functions.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// The function that begins at an address.
    pub fn index(&self, start: u64) -> Option<usize> {
        self.starts.binary_search(&start).ok()
    }

    /// A function's code, including the gap before the next.
    pub fn range(&self, index: usize) -> Range<u64> {
        let end = self.base + self.code.len() as u64;
        self.starts[index]..self.starts.get(index + 1).copied().unwrap_or(end)
    }

    /// The functions that a function calls, jumps to, or takes the address of. Bytes are examined without
    /// decoding instructions; it is very unlikely that other bytes form the exact distance to a function's
    /// start.
    pub fn called_by(&self, index: usize) -> Vec<usize> {
        let range = self.range(index);
        let at = |address: u64| (address - self.base) as usize;
        let Some(code) = self.code.get(at(range.start)..at(range.end)) else { return Vec::new() };
        let mut called = Vec::new();
        for offset in 0..code.len() {
            let distance_at = match code[offset..] {
                // call, jmp
                [0xe8 | 0xe9, ..] => offset + 1,
                // lea register, [rip + distance]
                [0x48 | 0x4c, 0x8d, operand, ..] if operand & 0xc7 == 0x05 => offset + 3,
                _ => continue,
            };
            let Some(distance) = array_at(code, distance_at).map(i32::from_le_bytes) else { continue };
            let after = range.start + distance_at as u64 + 4;
            called.extend(self.index(after.wrapping_add_signed(i64::from(distance))));
        }
        called.sort_unstable();
        called.dedup();
        called
    }
}
