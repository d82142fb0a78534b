//! The statement that a server process executes, read from its memory by the observer's rules.
//!
//! ```text
//!   debug_query_string ──> text of the running statement; null between two
//!   MyBEEntry ──> entry of the process ──> start of the statement, query id, text of the last one
//! ```
//! Three calls of `process_vm_readv` at most: the pointers, their targets, and the rest of a long text.

use hardmeter_samples::model::{Pid, StateId, StateRule, VirtualAddress};
use std::io;

/// Bytes of text read at first; most statements fit.
const FIRST: usize = 1 << 10;
/// Bytes of text read at most: later ones rarely distinguish statements.
const MOST: usize = 16 << 10;
/// A piece within one page is read completely or not at all. Larger pages are multiples of the smallest one.
const PAGE: u64 = 4096;

/// The memory that is read of each process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StatementRules {
    /// Address of the pointer to the running statement's text.
    text: VirtualAddress,
    /// Address of the pointer to the process's entry, and the offset of the text's address in it.
    last: Option<(VirtualAddress, u64)>,
    /// Words of that entry.
    words: Vec<(StateId, u64)>,
}

impl StatementRules {
    /// Selects the rules that a reader of statements needs; `None` if the server has no statement to read.
    pub(super) fn choose(rules: &[StateRule]) -> Option<StatementRules> {
        let mut chosen = rules.iter().find_map(|rule| match rule {
            StateRule::Statement { pointer, last } => Some(StatementRules {
                text: *pointer,
                last: last.map(|last| (last.base, last.offset.0)),
                words: Vec::new(),
            }),
            _ => None,
        })?;
        for rule in rules {
            if let StateRule::Word { id, base, offset: Some(offset), length: 8 } = rule {
                if chosen.last.is_some_and(|(entry, _)| entry == *base) {
                    chosen.words.push((*id, offset.0));
                }
            }
        }
        Some(chosen)
    }

    /// Reads a process.
    ///
    /// # Errors
    /// The system's error: the process has ended, or may not be read.
    pub(super) fn read(&self, pid: Pid) -> io::Result<Executed> {
        let mut pointers = [[0; 8]; 2];
        let entry_at = self.last.map_or(self.text, |(entry, _)| entry);
        let [running, entry] = &mut pointers;
        read_pieces(pid, &mut [(self.text.0, running), (entry_at.0, entry)])?;
        let [running, entry] = pointers.map(u64::from_le_bytes);
        let mut executed = Executed { over: running == 0, ..Executed::default() };
        let mut text_at = running;
        if let Some((_, offset)) = self.last.filter(|_| entry != 0) {
            let mut last = [0; 8];
            let mut words = vec![[0; 8]; self.words.len()];
            let mut pieces: Vec<(u64, &mut [u8])> = vec![(entry.wrapping_add(offset), &mut last)];
            for ((_, offset), word) in self.words.iter().zip(&mut words) {
                pieces.push((entry.wrapping_add(*offset), word));
            }
            read_pieces(pid, &mut pieces)?;
            let values = words.into_iter().map(u64::from_le_bytes);
            executed.words = self.words.iter().map(|(id, _)| *id).zip(values).collect();
            if executed.over {
                text_at = u64::from_le_bytes(last);
            }
        }
        if text_at != 0 {
            executed.text = text(pid, text_at)?;
        }
        Ok(executed)
    }
}

/// The statement that a process executes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Executed {
    /// The statement that the client sent; empty before the first one.
    pub(super) text: Vec<u8>,
    /// True if it has ended.
    pub(super) over: bool,
    /// Further words of the server's own state.
    pub(super) words: Vec<(StateId, u64)>,
}

/// A text up to its terminating zero.
fn text(pid: Pid, at: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut wanted = FIRST;
    while bytes.len() < MOST {
        let from = bytes.len();
        bytes.resize(from + wanted, 0);
        let got = read_run(pid, at.wrapping_add(from as u64), &mut bytes[from..])?;
        bytes.truncate(from + got);
        if let Some(end) = bytes[from..].iter().position(|byte| *byte == 0) {
            bytes.truncate(from + end);
            break;
        }
        if got < wanted {
            break; // the end of the mapped memory
        }
        wanted = 3 << 10;
    }
    Ok(bytes)
}

/// Reads contiguous bytes, up to the first unmapped page.
fn read_run(pid: Pid, at: u64, mut into: &mut [u8]) -> io::Result<usize> {
    let mut pieces: Vec<(u64, &mut [u8])> = Vec::new();
    let mut next = at;
    while !into.is_empty() {
        let room = (PAGE - next % PAGE) as usize;
        let (piece, rest) = into.split_at_mut(room.min(into.len()));
        pieces.push((next, piece));
        next = next.wrapping_add(room as u64);
        into = rest;
    }
    read_vector(pid, &mut pieces)
}

/// Reads each piece completely.
fn read_pieces(pid: Pid, pieces: &mut [(u64, &mut [u8])]) -> io::Result<()> {
    let wanted: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
    match read_vector(pid, pieces)? {
        got if got == wanted => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
    }
}

fn read_vector(pid: Pid, pieces: &mut [(u64, &mut [u8])]) -> io::Result<usize> {
    let remote: Vec<libc::iovec> = pieces
        .iter()
        .map(|(at, piece)| libc::iovec { iov_base: *at as *mut libc::c_void, iov_len: piece.len() })
        .collect();
    let local: Vec<libc::iovec> = pieces
        .iter_mut()
        .map(|(_, piece)| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: piece.len() })
        .collect();
    let count = local.len() as libc::c_ulong;
    // SAFETY: the local vector has pieces borrowed for the call; the remote one has addresses of another
    // process.
    let got = unsafe { libc::process_vm_readv(pid.0, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_samples::model::{ByteCount, LastStatement};

    /// The process's own memory, laid out like a server's.
    struct Server {
        running: Box<u64>,
        entry: Box<u64>,
        state: Box<[u64; 4]>,
        text: Vec<u8>,
    }

    impl Server {
        fn new(text: &str) -> Server {
            let text: Vec<u8> = [text.as_bytes(), &[0]].concat();
            let state = Box::new([11, 22, 33, text.as_ptr() as u64]);
            Server { running: Box::new(0), entry: Box::new(state.as_ptr() as u64), state, text }
        }

        fn rules(&self) -> StatementRules {
            let at = |word: &u64| VirtualAddress(word as *const u64 as u64);
            let word = |id, offset| StateRule::Word {
                id: StateId(id),
                base: at(&self.entry),
                offset: Some(ByteCount(offset)),
                length: 8,
            };
            let last = Some(LastStatement { base: at(&self.entry), offset: ByteCount(24) });
            let statement = StateRule::Statement { pointer: at(&self.running), last };
            StatementRules::choose(&[word(1, 0), statement, word(2, 16)]).expect("a statement")
        }

        fn read(&self) -> Executed {
            self.rules().read(Pid(std::process::id() as i32)).expect("own memory")
        }
    }

    #[test]
    fn the_running_statement_is_read_else_the_last_one() {
        let mut server = Server::new("SELECT 1");
        let words = vec![(StateId(1), 11), (StateId(2), 33)];
        let idle = Executed { text: b"SELECT 1".to_vec(), over: true, words: words.clone() };
        assert_eq!(server.read(), idle);
        let other = b"UPDATE t\0rest";
        *server.running = other.as_ptr() as u64;
        assert_eq!(server.read(), Executed { text: b"UPDATE t".to_vec(), over: false, words });
    }

    #[test]
    fn long_texts_are_read_to_their_limit_across_pages() {
        for length in [0, 1, FIRST - 1, FIRST, 5_000, MOST, MOST + 1] {
            let server = Server::new(&"x".repeat(length));
            let read = server.read().text;
            assert!(
                read.len() == length || (length >= MOST && read.len() >= MOST),
                "{length}: {}",
                read.len()
            );
            assert!(server.text.starts_with(&read));
        }
    }

    #[test]
    fn without_an_entry_nothing_is_known_and_wild_pointers_are_errors() {
        let mut server = Server::new("SELECT 1");
        *server.entry = 0;
        assert_eq!(server.read(), Executed { over: true, ..Executed::default() });
        *server.entry = 16;
        let own = Pid(std::process::id() as i32);
        assert!(server.rules().read(own).is_err());
        assert!(server.rules().read(Pid(i32::MAX)).is_err());
        server.state[0] = 0;
        assert_eq!(StatementRules::choose(&[]), None);
    }
}
