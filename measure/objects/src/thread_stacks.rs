//! The threads of a process that uses the C library: where the stack of each lies.
//!
//! ```text
//!   stack of a thread:  | guard |  ... <── stack pointer | variables of the thread | control block |
//!                                                                                  ^ thread pointer
//! ```
//! A control block begins with its own address and has it again 16 bytes on (System V ABI); where it holds the number
//! of its thread is where glibc has had it since 2.10.

use crate::bytes::{u32_at, u64_at};
use crate::found::Found;
use crate::process_memory::{Mapping, Mappings, ProcessMemory};
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::ops::Range;

/// Bytes of a control block that are read.
const BLOCK: usize = 0x900;
/// Where a control block holds the number of its thread.
const TID_AT: usize = 0x2d0;
/// Control blocks begin at multiples of this.
const ALIGNMENT: usize = 64;
/// Bytes at the end of a mapping where a control block is looked for first: glibc puts it there.
const AT_THE_END: u64 = 16 << 10;
/// Mappings up to this are searched whole for the threads that are still missing.
const SEARCHED: u64 = 16 << 20;
/// Threads of a server, at most.
const MOST: usize = 100_000;
/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thread {
    /// Its control block.
    pub pointer: u64,
    /// Its stack, control block included.
    pub stack: Range<u64>,
}

/// The threads of a process that were found, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ThreadStacks {
    /// By their numbers.
    pub known: HashMap<i32, Thread>,
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

/// The stack that a control block says it has: address and size, one after the other, around itself.
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

impl ThreadStacks {
    /// Looks for threads that are not known, and forgets those that ended.
    pub fn look(&mut self, memory: &ProcessMemory, mappings: &Mappings) {
        let running = threads_of(memory);
        self.known.retain(|tid, thread| {
            let own = memory.u64(VirtualAddress(thread.pointer)).ok() == Some(thread.pointer);
            own && running.contains(tid)
        });
        let missing: Vec<i32> = running.into_iter().filter(|tid| !self.known.contains_key(tid)).collect();
        if !missing.is_empty() {
            self.find(memory, mappings, &missing);
        }
    }

    /// The stack that an address lies in.
    pub fn at(&self, address: VirtualAddress) -> Option<Found> {
        let (tid, thread) = self.known.iter().find(|(_, thread)| thread.stack.contains(&address.0))?;
        let (start, length) = (thread.stack.start, thread.stack.end - thread.stack.start);
        Some(
            Found::new("stack", VirtualAddress(start), length)
                .named("thread")
                .instance(format!("thread {tid}")),
        )
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
                    // The first thread's stack is the kernel's, its control block lies elsewhere.
                    let stack = match stack_in(block, pointer) {
                        Some(stack) => stack,
                        None if tid == memory.pid().0 => pointer..pointer,
                        None => mapping.start.0..mapping.end.0,
                    };
                    self.known.insert(tid, Thread { pointer, stack });
                }
            }
        }
    }
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
        put(1024, start + 1024); // not a second time
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
        let mut threads = ThreadStacks::default();
        threads.find(&memory, &memory.mappings().expect("maps"), &[tid]);
        let found = threads.known.get(&tid).expect("found");
        assert!(found.stack.contains(&address), "{found:?} {address:x}");
        assert!(found.stack.contains(&found.pointer));
        drop(let_go);
        thread.join().expect("it ends");
    }
}
