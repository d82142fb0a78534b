//! The threads of a server: their stacks, the session that each serves, and the session's allocations for its
//! statement.
//!
//! ```text
//!   variables of a thread:  ... | session ──┐ | ...
//!   session:  | memory root ──> free, used ... | number | <──────────┘
//!                                  └──> block ──> block ──> 0
//! ```

use super::attach::{Server, Sessions};
use super::roles::Roles;
use crate::bytes::u64_at;
use crate::found::Found;
use crate::process_memory::{Mappings, ProcessMemory};
use crate::thread_stacks::ThreadStacks;
use hardmeter_samples::model::{Tid, VirtualAddress};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Blocks of one memory root, at most.
const MOST_BLOCKS: usize = 10_000;

/// The threads found so far, and their memory.
#[derive(Debug, Default)]
pub(super) struct Threads {
    threads: ThreadStacks,
    /// The session that a thread serves, and the number of its connection.
    serving: HashMap<i32, (u64, u64)>,
    /// By the first address of their stacks.
    stacks: BTreeMap<u64, i32>,
    /// Blocks of memory roots by their first address: the end, and the connection.
    blocks: BTreeMap<u64, (u64, u64)>,
    sessions: Vec<(u64, u64)>,
    roles: Roles,
}

impl Threads {
    /// Searches for unknown threads, and updates the known ones.
    pub fn look(&mut self, server: &Server, mappings: &Mappings) {
        let memory = &server.memory;
        self.threads.look(memory, mappings);
        let known = &self.threads.known;
        self.stacks = known.iter().map(|(tid, thread)| (thread.stack.start, *tid)).collect();
        self.blocks.clear();
        self.sessions.clear();
        self.serving.clear();
        self.roles.end_all_but(|tid| known.contains_key(&tid.0));
        for (tid, thread) in known {
            self.roles.learn(server, mappings, Tid(*tid), thread.pointer);
            let Some(sessions) = server.sessions else { continue };
            let Some((session, connection)) = session_of(memory, &sessions, thread.pointer) else { continue };
            self.serving.insert(*tid, (session, connection));
            self.sessions.push((session, connection));
            if let Some(root) = sessions.memory_root {
                for block in blocks_of(memory, session.wrapping_add(root)) {
                    self.blocks.insert(block.start, (block.end, connection));
                }
            }
        }
    }

    /// The object at an address, a stack or memory of a session; and whether it is a stack.
    pub fn at(&self, address: VirtualAddress) -> Option<(Found, bool)> {
        if let Some((start, (end, connection))) = self.blocks.range(..=address.0).next_back() {
            if address.0 < *end {
                let found = Found::new("statement memory", VirtualAddress(*start), end - start);
                return Some((found.named("mem_root").instance(format!("connection {connection}")), false));
            }
        }
        let (_, tid) = self.stacks.range(..=address.0).next_back()?;
        let thread = self.threads.known.get(tid).filter(|thread| thread.stack.contains(&address.0))?;
        let whole =
            Found::new("stack", VirtualAddress(thread.stack.start), thread.stack.end - thread.stack.start);
        // A thread that serves no session now may have served one, and will serve the next.
        let name = if self.serving.contains_key(tid) { "client connection" } else { "thread" };
        Some((whole.named(name).instance(format!("thread {tid}")), true))
    }

    /// What the threads are for, those that have ended included.
    pub fn roles(&self) -> Vec<(Tid, &'static str)> {
        self.roles.all()
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
