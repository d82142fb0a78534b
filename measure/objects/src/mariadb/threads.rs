//! The threads of a server: their stacks, the session that each serves, and the session's allocations for its
//! statement.
//!
//! ```text
//!   stack of a thread:  | guard |  ... <── stack pointer | variables of the thread | control block |
//!                                                          session ──┐               ^ thread pointer
//!   session:  | memory root ──> free, used ... | number | <──────────┘
//!                                  └──> block ──> block ──> 0
//! ```
//! A control block begins with its own address and has it again at offset 16 (System V ABI); the offset of
//! the thread's number is that of glibc since 2.10.

use super::attach::{Server, Sessions};
use crate::bytes::{u32_at, u64_at};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use hardmeter_samples::model::VirtualAddress;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bytes of a control block that are read.
const BLOCK: usize = 0x900;
/// Offset of the thread's number in a control block.
const TID_AT: usize = 0x2d0;
/// Control blocks begin at multiples of this.
const ALIGNMENT: usize = 64;
/// Bytes at the end of a mapping where a control block is searched first: glibc puts it there.
const AT_THE_END: u64 = 16 << 10;
/// Mappings up to this size are searched completely for threads that are still missing.
const SEARCHED: u64 = 16 << 20;
/// Limit of threads of a server.
const MOST: usize = 100_000;
/// Limit of blocks of one memory root.
const MOST_BLOCKS: usize = 10_000;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    tid: i32,
    /// Its control block.
    pointer: u64,
    stack: Range<u64>,
    /// The session that it serves, and the number of its connection.
    session: Option<(u64, u64)>,
}

/// The findings about all threads.
#[derive(Debug, Default)]
pub(super) struct Threads {
    known: HashMap<i32, Thread>,
    /// By the first address of their stacks.
    stacks: BTreeMap<u64, i32>,
    /// Blocks of memory roots by their first address: the end, and the connection.
    blocks: BTreeMap<u64, (u64, u64)>,
    sessions: Vec<(u64, u64)>,
}

/// The numbers of the threads of a process.
fn threads_of(memory: &ProcessMemory) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", memory.pid())).into_iter().flatten().flatten();
    tasks.take(MOST).filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The control blocks in bytes that begin at an address: address, and number of the thread.
fn control_blocks(bytes: &[u8], start: u64) -> Vec<(u64, i32)> {
    let first = (start.next_multiple_of(ALIGNMENT as u64) - start) as usize;
    let places = (first..bytes.len().saturating_sub(TID_AT + 4)).step_by(ALIGNMENT);
    let block = |at: usize| {
        let own = start + at as u64;
        let is_it = u64_at(bytes, at) == Some(own) && u64_at(bytes, at + 16) == Some(own);
        is_it.then(|| Some((own, u32_at(bytes, at + TID_AT)? as i32)))?
    };
    places.filter_map(block).collect()
}

/// The stack in a control block: address and size, one after the other, around the block itself.
fn stack_in(block: &[u8], pointer: u64) -> Option<Range<u64>> {
    /// A stack has whole pages, and the control block is near its end.
    const PAGE: u64 = 4096;
    const NEAR: u64 = 64 << 10;
    let words: Vec<u64> = block.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.windows(2).find_map(|pair| {
        let (start, size) = (pair[0], pair[1]);
        let end = start.checked_add(size)?;
        let whole = start != 0 && start.is_multiple_of(PAGE) && size.is_multiple_of(PAGE);
        (whole && (start..end).contains(&pointer) && end - pointer < NEAR).then_some(start..end)
    })
}

impl Threads {
    /// Searches for unknown threads, and updates the known ones.
    pub fn look(&mut self, server: &Server, mappings: &Mappings) {
        let memory = &server.memory;
        let running = threads_of(memory);
        self.known.retain(|tid, thread| {
            let own = memory.u64(VirtualAddress(thread.pointer)).ok() == Some(thread.pointer);
            own && running.contains(tid)
        });
        let missing: Vec<i32> = running.into_iter().filter(|tid| !self.known.contains_key(tid)).collect();
        if !missing.is_empty() {
            self.find(memory, mappings, &missing);
        }
        self.stacks = self.known.values().map(|thread| (thread.stack.start, thread.tid)).collect();
        self.blocks.clear();
        self.sessions.clear();
        let Some(sessions) = server.sessions else { return };
        for thread in self.known.values_mut() {
            thread.session = session_of(memory, &sessions, thread.pointer);
            self.sessions.extend(thread.session);
            if let (Some((session, connection)), Some(root)) = (thread.session, sessions.memory_root) {
                for block in blocks_of(memory, session.wrapping_add(root)) {
                    self.blocks.insert(block.start, (block.end, connection));
                }
            }
        }
    }

    fn find(&mut self, memory: &ProcessMemory, mappings: &Mappings, missing: &[i32]) {
        let private = |mapping: &&Mapping| {
            !mapping.shared && mapping.readable && mapping.writable && mapping.file().is_none()
        };
        for whole in [false, true] {
            for mapping in mappings.iter().filter(private) {
                if missing.iter().all(|tid| self.known.contains_key(tid)) {
                    return;
                }
                let length = mapping.length().0;
                if whole && length > SEARCHED {
                    continue;
                }
                let wanted = if whole { length } else { length.min(AT_THE_END) };
                let start = mapping.end.0 - wanted;
                let mut bytes = vec![0; wanted as usize];
                let got = memory.read_part(VirtualAddress(start), &mut bytes);
                for (pointer, tid) in control_blocks(&bytes[..got], start) {
                    if !missing.contains(&tid) {
                        continue;
                    }
                    let at = (pointer - start) as usize;
                    let block = &bytes[at..got.min(at + BLOCK)];
                    // The kernel created the first thread's stack; its control block is elsewhere.
                    let stack = match stack_in(block, pointer) {
                        Some(stack) => stack,
                        None if tid == memory.pid().0 => pointer..pointer,
                        None => mapping.start.0..mapping.end.0,
                    };
                    self.known.insert(tid, Thread { tid, pointer, stack, session: None });
                }
            }
        }
    }

    /// What is at an address: a stack or memory of a session; true for a stack.
    pub fn at(&self, address: VirtualAddress) -> Option<(Found, bool)> {
        if let Some((start, (end, connection))) = self.blocks.range(..=address.0).next_back() {
            if address.0 < *end {
                let found = Found::new("statement memory", VirtualAddress(*start), end - start);
                return Some((found.named("mem_root").instance(format!("connection {connection}")), false));
            }
        }
        let (_, tid) = self.stacks.range(..=address.0).next_back()?;
        let thread = self.known.get(tid).filter(|thread| thread.stack.contains(&address.0))?;
        let whole =
            Found::new("stack", VirtualAddress(thread.stack.start), thread.stack.end - thread.stack.start);
        // A thread without a session now may have served one, and will serve the next.
        let name = if thread.session.is_some() { "client connection" } else { "thread" };
        Some((whole.named(name).instance(format!("thread {tid}")), true))
    }

    /// The sessions that threads serve: address, and number of the connection.
    pub fn sessions(&self) -> &[(u64, u64)] {
        &self.sessions
    }
}

/// The session of a thread.
fn session_of(memory: &ProcessMemory, sessions: &Sessions, pointer: u64) -> Option<(u64, u64)> {
    let at = VirtualAddress(pointer.wrapping_add_signed(sessions.session));
    let session = memory.u64(at).ok().filter(|session| *session != 0)?;
    let connection = memory.u64(VirtualAddress(session.wrapping_add(sessions.connection))).ok()?;
    (connection != 0).then_some((session, connection))
}

/// The blocks of a memory root: a list of blocks with free space, and one of full blocks. A block begins with
/// the next one's address, its free bytes, and its size.
fn blocks_of(memory: &ProcessMemory, pointer_to_root: u64) -> Vec<Range<u64>> {
    /// Limit of a single allocation of a statement.
    const LARGEST: u64 = 1 << 30;
    let mut blocks = Vec::new();
    let Ok(root) = memory.u64(VirtualAddress(pointer_to_root)) else { return blocks };
    let Ok(heads) = memory.bytes::<16>(VirtualAddress(root)) else { return blocks };
    for list in 0..2 {
        let mut next = u64_at(&heads, list * 8).unwrap_or(0);
        while next != 0 && blocks.len() < MOST_BLOCKS {
            let Ok(block) = memory.bytes::<24>(VirtualAddress(next)) else { break };
            let (after, left, size) = (u64_at(&block, 0), u64_at(&block, 8), u64_at(&block, 16));
            let (Some(after), Some(left), Some(size)) = (after, left, size) else { break };
            // Otherwise it is not such a list.
            if left > size || !(24..=LARGEST).contains(&size) || !next.is_multiple_of(8) {
                break;
            }
            blocks.push(next..next.saturating_add(size));
            next = after;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::Pid;

    #[test]
    fn a_control_block_is_known_by_its_own_address() {
        let start = 0x7f00_0000_0000u64;
        let mut bytes = vec![0; 8192];
        let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(4096, start + 4096);
        put(4096 + 16, start + 4096);
        put(4096 + TID_AT, 4711);
        put(1024, start + 1024); // not twice
        put(4096 + 0x690, start - (1 << 20));
        put(4096 + 0x698, (1 << 20) + 8192);
        assert_eq!(control_blocks(&bytes, start), [(start + 4096, 4711)]);
        assert_eq!(stack_in(&bytes[4096..4096 + BLOCK], start + 4096), Some(start - (1 << 20)..start + 8192));
        assert_eq!(stack_in(&bytes[..64], start), None);
        assert!(control_blocks(&bytes[..4096 + TID_AT], start).is_empty(), "cut");
    }

    #[test]
    fn threads_of_this_process_are_found_with_their_stacks() {
        let memory = ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run");
        let (says, hears) = std::sync::mpsc::channel();
        let (let_go, waits) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let on_stack = 5u8;
            // SAFETY: no preconditions.
            says.send((unsafe { libc::gettid() }, &raw const on_stack as u64)).expect("heard");
            let _ = waits.recv();
        });
        let (tid, address) = hears.recv().expect("said");
        let mut threads = Threads::default();
        threads.find(&memory, &memory.mappings().expect("maps"), &[tid]);
        let found = threads.known.get(&tid).expect("found");
        assert!(found.stack.contains(&address), "{found:?} {address:x}");
        assert!(found.stack.contains(&found.pointer));
        drop(let_go);
        thread.join().expect("it ends");
    }

    #[test]
    fn a_memory_root_is_two_lists_of_blocks() {
        let memory = ProcessMemory::open(Pid(std::process::id() as i32)).expect("we run");
        let (second, full, wrong) = ([0u64, 8, 64, 0, 0, 0, 0, 0], [0u64, 0, 32, 0], [0u64, 65, 64]);
        let at = |words: &[u64]| words.as_ptr() as u64;
        let first = [at(&second), 16, 64, 0, 0, 0, 0, 0];
        let root = [at(&first), at(&full)];
        let pointer = at(&root);
        let blocks = blocks_of(&memory, &raw const pointer as u64);
        let expected = [(at(&first), 64), (at(&second), 64), (at(&full), 32)];
        assert_eq!(blocks, expected.map(|(start, size)| start..start + size));
        let root = [at(&wrong), at(&full)]; // more free bytes in a block than its size: not such a list
        let pointer = at(&root);
        assert_eq!(blocks_of(&memory, &raw const pointer as u64), vec![at(&full)..at(&full) + 32; 1]);
        assert!(blocks_of(&memory, 8).is_empty());
    }
}
