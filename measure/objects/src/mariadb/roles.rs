//! What the threads of a server are for, by the functions that they began with.
//!
//! ```text
//!   control block:  ... | function | argument ──┐ ...   function: the C++ library's, which calls the one of std::thread
//!   argument:  | table ──> name of its class, which has the function's class and type | function, objects ... |
//!
//!   keys of threads:  | key | name ──> "page_cleaner_thread" | flags | key | name ...      a thread's function registers
//!                                                                                        with its key
//! ```
//!
//! A thread for clients has frames of the function that serves them at the beginning of its stack, which ends below the
//! control block, also while it waits for its next client. Other threads may have sessions, too.
//!
//! Invariants:
//! 1. A thread whose beginning is not recognised is a "server thread": there are no guesses.
//! 2. A role that was recognised stays while the thread lives. A number that is used again for another role has none
//!    that holds for the whole recording: it is a "server thread".

use super::attach::Server;
use crate::bytes::u64_at;
use crate::process_memory::Mappings;
use crate::program::Image;
use hardmeter_samples::model::{Tid, VirtualAddress};
use std::collections::{HashMap, HashSet};

/// Bytes of a control block that are read, and from where on: what comes before is the same for all threads.
const BLOCK: usize = 0x900;
const FIRST: usize = 0x2d8;
/// Bytes of the argument of std::thread that are searched for its function.
const ARGUMENT: usize = 0x48;
/// Roles that are remembered.
const MOST: usize = 100_000;
/// Bytes before a control block, in which a stack begins.
const STACK: usize = 16 << 10;
/// The functions in which a thread serves one client after the other.
const OF_CLIENTS: [&str; 2] = ["handle_one_connection", "_Z24do_handle_one_connectionP7CONNECTb"];
/// Bytes of a function that are searched.
const LONGEST: usize = 16 << 10;
/// Sections up to this are searched: a server's have some megabytes, and the file says how large they are.
const LARGEST: u64 = 256 << 20;

/// The role of a thread that serves a client.
const CLIENT: &str = "client connection";
const UNKNOWN: &str = "server thread";

/// Parts of a class's name, and the role of a thread that begins with its function.
const OF_CLASSES: [(&str, &str); 4] = [
    ("5tpool19thread_pool_generic", "InnoDB thread pool"),
    ("9aio_uring", "asynchronous I/O"),
    ("9aio_linux", "asynchronous I/O"),
    ("5tpool", "InnoDB timer"),
];

/// The roles of threads, those that have ended included.
#[derive(Debug, Default)]
pub(super) struct Roles {
    known: HashMap<Tid, &'static str>,
    /// Those of them that have ended.
    ended: HashSet<Tid>,
    /// The page cleaner's key, in the image's own numbering, once it was looked for.
    page_cleaner: Option<Option<u64>>,
}

impl Roles {
    /// Notes which threads have ended.
    pub fn end_all_but(&mut self, lives: impl Fn(Tid) -> bool) {
        self.ended.extend(self.known.keys().copied().filter(|tid| !lives(*tid)));
    }

    /// Learns the role of a thread, by its control block.
    pub fn learn(&mut self, server: &Server, mappings: &Mappings, tid: Tid, pointer: u64) {
        let known = self.known.get(&tid).copied();
        let another = self.ended.remove(&tid);
        let settled = known.is_some_and(|role| role != UNKNOWN) && !another;
        if settled || (known.is_none() && self.known.len() >= MOST) {
            return;
        }
        let role = match self.by_beginning(server, mappings, pointer) {
            Some(role) => role,
            None if serves_clients(server, pointer) => CLIENT,
            None if tid.0 == server.memory.pid().0 => "main thread",
            None => UNKNOWN,
        };
        let changed = another && known.is_some_and(|known| known != role);
        self.known.insert(tid, if changed { UNKNOWN } else { role });
    }

    /// All known roles, in a fixed order.
    pub fn all(&self) -> Vec<(Tid, &'static str)> {
        let mut all: Vec<_> = self.known.iter().map(|(tid, role)| (*tid, *role)).collect();
        all.sort_unstable();
        all
    }

    /// The role of a thread of std::thread.
    fn by_beginning(&mut self, server: &Server, mappings: &Mappings, pointer: u64) -> Option<&'static str> {
        let memory = &server.memory;
        let block = memory.bytes::<BLOCK>(VirtualAddress(pointer)).ok()?;
        let in_code = |at: usize| {
            let mapping = mappings.at(VirtualAddress(u64_at(&block, at)?))?;
            mapping.executable.then_some(mapping.file()?)
        };
        let (at, file) = (FIRST..BLOCK - 8).step_by(8).find_map(|at| Some((at, in_code(at)?)))?;
        if !file.to_string_lossy().contains("libstdc++") {
            return None;
        }
        let argument = u64_at(&block, at + 8)?;
        let words = memory.bytes::<ARGUMENT>(VirtualAddress(argument)).ok()?;
        let class = memory.pointer(VirtualAddress(u64_at(&words, 0)?.checked_sub(8)?)).ok()?;
        let name = memory.pointer(VirtualAddress(class.0.checked_add(8)?)).ok()?;
        let name = memory.text(name, 400).ok()?;
        if let Some(&(_, role)) = OF_CLASSES.iter().find(|(part, _)| name.contains(part)) {
            return Some(role);
        }
        let key = (*self.page_cleaner.get_or_insert_with(|| key_of(server, "page_cleaner_thread")))?;
        let image = &server.program.image;
        let functions = (1..ARGUMENT / 8).filter_map(|word| u64_at(&words, word * 8));
        let mut own = functions.map(|function| server.program.own(VirtualAddress(function)));
        own.any(|function| code_of(image, function).is_some_and(|code| refers_to(code, function, key)))
            .then_some("page cleaner")
    }
}

/// Whether the stack below a control block begins with frames of the functions that serve clients.
fn serves_clients(server: &Server, pointer: u64) -> bool {
    let mut bytes = [0; STACK];
    let start = VirtualAddress(pointer.saturating_sub(STACK as u64));
    if server.memory.read(start, &mut bytes).is_err() {
        return false;
    }
    let functions = OF_CLIENTS.iter().filter_map(|name| server.program.extent(name));
    let functions: Vec<_> = functions.map(|(from, length)| from.0..from.0.saturating_add(length.0)).collect();
    let mut words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.any(|word| functions.iter().any(|function| function.contains(&word)))
}

/// The code of a function, by its address in the image's own numbering.
fn code_of(image: &Image, function: u64) -> Option<&[u8]> {
    let code = image.code.get(function.checked_sub(image.text.start)? as usize..)?;
    let after = image.function_starts.partition_point(|start| *start <= function);
    let length = image.function_starts.get(after).map_or(u64::MAX, |next| next - function);
    Some(&code[..code.len().min(LONGEST).min(length as usize)])
}

/// Whether the code of the function at `function` refers to an address.
fn refers_to(code: &[u8], function: u64, address: u64) -> bool {
    // A distance of four bytes is from the end of the instruction, which mostly ends with it.
    code.windows(4).enumerate().any(|(at, distance)| {
        let distance = i32::from_le_bytes([distance[0], distance[1], distance[2], distance[3]]);
        let next = function + at as u64 + 4;
        next.wrapping_add_signed(i64::from(distance)) == address
    })
}

/// The key that threads of a name register with, in the image's own numbering: the word before the name's address, in the
/// server's tables of keys.
fn key_of(server: &Server, name: &str) -> Option<u64> {
    let program = &server.program;
    let read = |prefix: &'static str| {
        let sections = program.image.sections.iter().filter(move |section| section.name.starts_with(prefix));
        let sections = sections.map(|section| (section.start, section.end.saturating_sub(section.start)));
        sections.filter(|(_, size)| *size <= LARGEST).map(|(start, size)| {
            let start = program.loaded(start);
            let mut bytes = vec![0; size as usize];
            let got = server.memory.read_part(start, &mut bytes);
            bytes.truncate(got);
            (start.0, bytes)
        })
    };
    let quoted: Vec<u8> = [&b"\0"[..], name.as_bytes(), b"\0"].concat();
    let text = read(".rodata").find_map(|(start, bytes)| {
        let at = bytes.windows(quoted.len()).position(|window| window == quoted)?;
        Some(start + at as u64 + 1)
    })?;
    read(".data").find_map(|(_, bytes)| {
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let pair = words.windows(2).find(|pair| pair[1] == text)?;
        Some(program.own(VirtualAddress(pair[0])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_refers_to_a_variable_by_its_distance() {
        // nop; lea 0x10(%rip),%rdi, which ends at 0x1008; ret
        let code = [0x90, 0x48, 0x8d, 0x3d, 0x10, 0, 0, 0, 0xc3];
        assert!(refers_to(&code, 0x1000, 0x1018));
        assert!(!refers_to(&code, 0x1000, 0x1010) && !refers_to(&code, 0x1008, 0x1018));
        assert!(!refers_to(&code[..7], 0x1000, 0x1018), "cut");
        assert_eq!(code_of(&Image::default(), 0x1000), None);
    }
}
