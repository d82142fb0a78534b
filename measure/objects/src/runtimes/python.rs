//! CPython: small objects by their type, in the pools of its allocator; frames of the interpreter.
//!
//! ```text
//!   pool (16 KB, aligned; 4 KB before 3.10):
//!     | blocks in use | free block | next pool | previous | arena | size class | next offset | last offset | block ...
//!   block:  [ 16 bytes of the garbage collector ] | reference count | type ──> | ... | name |
//! ```
//! A pool is known by its header: the last offset is the size of the pool less one block of its class. A type is
//! known by being an object of class `type`, which the interpreter exports. What fits neither is not named.

use super::runtime::Runtime;
use crate::bytes::{u32_at, u64_at};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use crate::program::{files_of, Program};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;

/// Sizes of pools: since 3.10, and before.
const POOLS: [u64; 2] = [16 << 10, 4 << 10];
/// Bytes of a pool's header, and the step of size classes.
const HEADER: usize = 48;
const STEP: u64 = 16;
/// Largest block of a pool.
const LARGEST_CLASS: u64 = 512 / STEP;
/// Arenas, at most.
const MOST_ARENAS: u32 = 1 << 24;
/// Bytes before an object that the garbage collector tracks.
const COLLECTOR: u64 = 16;
/// Where a type holds its name (`tp_name`), since 2.5 and in all of 3.
const NAME_AT: u64 = 24;
/// Types that are remembered.
const MOST_TYPES: usize = 100_000;

/// The facts about an interpreter that the address of an object is resolved by.
pub(super) struct Python {
    version: String,
    /// The address of `PyType_Type`.
    root: u64,
    /// Names of types by their address; `None`: it is not a type.
    types: HashMap<u64, Option<String>>,
}

/// The block of a pool that an address lies in.
fn block_of(header: &[u8], pool: u64, size: u64, address: u64) -> Option<(u64, u64)> {
    let (used, free) = (u32_at(header, 0)?, u64_at(header, 8)?);
    let (arena, class) = (u32_at(header, 32)?, u64::from(u32_at(header, 36)?));
    let (next, last) = (u64::from(u32_at(header, 40)?), u64::from(u32_at(header, 44)?));
    let block = (class + 1) * STEP;
    let is_pool = class < LARGEST_CLASS
        && last == size - block
        && arena < MOST_ARENAS
        && u64::from(used) <= size / block
        && next <= size
        && (free == 0 || (pool..pool + size).contains(&free));
    let within = (address - pool).checked_sub(HEADER as u64)?;
    let start = pool + HEADER as u64 + within / block * block;
    (is_pool && start + block <= pool + size).then_some((start, block))
}

impl Python {
    /// Looks for an interpreter among the executables and libraries of a process.
    pub fn recognise(memory: &ProcessMemory, mappings: &Mappings) -> Option<Python> {
        let named = |name: &str| name.starts_with("libpython") || name.starts_with("python");
        let files =
            files_of(mappings, |path| path.file_name().is_some_and(|name| named(&name.to_string_lossy())));
        let (program, root) = files.into_iter().find_map(|path| {
            let program = Program::loaded_from(memory, mappings, path)?;
            let root = program.address("PyType_Type")?;
            Some((program, root))
        })?;
        // `type` is an object of its own class, once the interpreter has begun.
        if memory.u64(VirtualAddress(root.0 + 8)).ok()? != root.0 {
            return None;
        }
        let file = program.path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let digits = file.trim_start_matches(|c: char| !c.is_ascii_digit());
        let version =
            digits.trim_end_matches(|c: char| !c.is_ascii_digit()).split(".so").next().unwrap_or("");
        Some(Python { version: format!("Python {version}"), root: root.0, types: HashMap::new() })
    }

    fn pool(memory: &ProcessMemory, address: u64) -> Option<(u64, u64)> {
        POOLS.iter().find_map(|size| {
            let pool = address / size * size;
            let header = memory.bytes::<HEADER>(VirtualAddress(pool)).ok()?;
            block_of(&header, pool, *size, address)
        })
    }

    /// The name of a type at an address; `None` if there is none.
    fn type_name(&mut self, memory: &ProcessMemory, at: u64) -> Option<String> {
        if at < 4096 || !at.is_multiple_of(8) {
            return None;
        }
        if let Some(known) = self.types.get(&at) {
            return known.clone();
        }
        let word = |at: u64| memory.u64(VirtualAddress(at)).ok();
        let read = || {
            let class = word(at + 8)?;
            // A class of classes (`ABCMeta`, `EnumType`) is an object of `type`, too.
            let is_type = class == self.root || word(class.checked_add(8)?)? == self.root;
            let name = memory.text(VirtualAddress(word(at + NAME_AT)?), 100).ok()?;
            let plain = name.bytes().all(|byte| byte == b'_' || byte == b'.' || byte.is_ascii_alphanumeric());
            (is_type && plain && !name.is_empty()).then_some(name)
        };
        let name = read();
        if self.types.len() >= MOST_TYPES {
            self.types.clear();
        }
        self.types.insert(at, name.clone());
        name
    }

    /// The object of a block: its type, and where it begins.
    fn object(&mut self, memory: &ProcessMemory, block: u64, size: u64) -> Option<String> {
        let offsets = [0, COLLECTOR].into_iter().filter(|offset| offset + 16 <= size);
        offsets.into_iter().find_map(|offset| {
            let head = memory.bytes::<16>(VirtualAddress(block + offset)).ok()?;
            let count = u64_at(&head, 0)?;
            // A free block begins with the next one's address instead of a count.
            let counts = count > 0 && (count < 1 << 33 || count >> 62 != 0);
            self.type_name(memory, u64_at(&head, 8)?).filter(|_| counts)
        })
    }
}

impl Python {
    /// The chunk of the interpreter's own stack that an address lies in: the one before it, its size, how many words are
    /// used; the first frame begins with its function or its code.
    fn frames(&mut self, memory: &ProcessMemory, mapping: &Mapping, address: u64) -> Option<Found> {
        const PAGE: u64 = 4096;
        const CHUNK: u64 = 16 << 10;
        const LARGEST: u64 = 1 << 30;
        let page = address / PAGE * PAGE;
        for back in 0..CHUNK / PAGE {
            let at = page.saturating_sub(back * PAGE);
            if !mapping.contains(VirtualAddress(at)) {
                break;
            }
            let Ok(head) = memory.bytes::<72>(VirtualAddress(at)) else { break };
            let word = |index: usize| u64_at(&head, index * 8).unwrap_or(0);
            let (before, size, top) = (word(0), word(1), word(2));
            let is_chunk = before.is_multiple_of(PAGE)
                && (CHUNK..=LARGEST).contains(&size)
                && size.is_multiple_of(CHUNK)
                && top <= size / 8
                && address - at < size;
            if is_chunk && (3..9).any(|index| self.is_code(memory, word(index))) {
                return Some(
                    Found::new("Python frames", VirtualAddress(at), size).named("interpreter stack"),
                );
            }
        }
        None
    }

    /// Whether an address is of a function or of a code object.
    fn is_code(&mut self, memory: &ProcessMemory, object: u64) -> bool {
        if object < 4096 || !object.is_multiple_of(8) {
            return false;
        }
        let class = memory.u64(VirtualAddress(object.wrapping_add(8))).ok();
        let name = class.and_then(|class| self.type_name(memory, class));
        name.is_some_and(|name| name == "function" || name == "code")
    }
}

impl Runtime for Python {
    fn describe(&self) -> String {
        self.version.clone()
    }

    fn look(&mut self, _memory: &ProcessMemory, _mappings: &Mappings) {
        // A class of the program may be freed, and its memory reused.
        self.types.clear();
    }

    fn at(&mut self, memory: &ProcessMemory, mapping: &Mapping, address: VirtualAddress) -> Option<Found> {
        let Some((block, size)) = Python::pool(memory, address.0) else {
            return self.frames(memory, mapping, address.0);
        };
        let at = |class: &'static str| Found::new(class, VirtualAddress(block), size);
        Some(match self.object(memory, block, size) {
            Some(name) => at("Python object").named(name).instance(format!("{size} bytes")),
            None => at("Python heap").named(format!("block of {size} bytes")),
        })
    }

    fn remarks(&self, _memory: &ProcessMemory) -> Vec<String> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: u64 = 0x7f00_0000_4000;

    /// The header of a pool of 16 KB with blocks of a class.
    fn header(class: u32, last: u32) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0..4].copy_from_slice(&3u32.to_le_bytes());
        header[8..16].copy_from_slice(&(POOL + 96).to_le_bytes());
        header[36..40].copy_from_slice(&class.to_le_bytes());
        header[40..44].copy_from_slice(&144u32.to_le_bytes());
        header[44..48].copy_from_slice(&last.to_le_bytes());
        header
    }

    #[test]
    fn a_pool_is_known_by_its_last_offset() {
        // Class 1: blocks of 32 bytes; the last one of 16,384 bytes begins at 16,352.
        let block = |last, offset| block_of(&header(1, last), POOL, 16 << 10, POOL + offset);
        assert_eq!(block(16_352, 48), Some((POOL + 48, 32)));
        assert_eq!(block(16_352, 48 + 63), Some((POOL + 80, 32)));
        assert_eq!(block(16_352, 47), None, "the header is not a block");
        assert_eq!(block(16_368, 48), None, "of another class");
        assert_eq!(block(16_352, 16_383), None, "less than a block is left behind the last one");
        assert_eq!(block_of(&header(40, 16_384 - 656), POOL, 16 << 10, POOL + 48), None, "no such class");
    }
}
