//! Finds a MariaDB server, its version, and the places where its threads store their sessions.

use super::code;
use super::pool::Pool;
use crate::error::AttachError;
use crate::process_memory::{Mappings, ProcessMemory};
use crate::program::Program;
use hardmeter_samples::model::{ByteCount, Pid, StateRule};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Symbols that a MariaDB server exports to its plugins in all versions.
const LANDMARKS: [&str; 4] = ["thd_query_string", "thd_get_thread_id", "_current_thd", "server_version"];
/// Largest number of bytes of an accessor's code.
const ACCESSOR: usize = 32;

/// Places of a session and its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sessions {
    /// Distance of the pointer to the session from the thread pointer.
    pub session: i64,
    /// Offset in a session of the address and length of the text of its statement.
    pub text: u64,
    /// Offset in a session of the number of its connection.
    pub connection: u64,
    /// Offset in a session of the pointer to its memory root, if known.
    pub memory_root: Option<u64>,
}

impl Sessions {
    /// Reads the places from the program's accessors.
    fn read(memory: &ProcessMemory, program: &Program) -> Option<Sessions> {
        let code_of = |name: &str| -> Option<[u8; ACCESSOR]> { memory.bytes(program.address(name)?).ok() };
        Some(Sessions {
            session: code::thread_variable(&code_of("_current_thd")?)?,
            text: code::field_of_argument(&code_of("thd_query_string")?)?,
            connection: code::field_of_argument(&code_of("thd_get_thread_id")?)?,
            memory_root: code_of("thd_alloc").and_then(|code| code::field_handed_on(&code)),
        })
    }

    /// The rule for the source of samples.
    pub fn rule(&self) -> StateRule {
        StateRule::ThreadStatement {
            session: self.session,
            text: ByteCount(self.text),
            connection: ByteCount(self.connection),
        }
    }
}

/// A server that was found.
#[derive(Debug)]
pub(super) struct Server {
    /// Its memory.
    pub memory: ProcessMemory,
    /// Its program.
    pub program: Program,
    /// The version in full: "10.11.19-MariaDB".
    pub version: String,
    /// Its data folder, as seen through `/proc`.
    pub data: PathBuf,
    /// Its buffer pool.
    pub pool: Pool,
    /// The places of its sessions; `None` if the accessors have an unknown form.
    pub sessions: Option<Sessions>,
}

/// Bytes of a page, from the flags in the first page of the system tablespace.
fn page_size(flags: u32) -> Option<u64> {
    /// The flag of tablespaces whose pages end with their checksum (since 10.4): the size is in other bits
    /// there.
    const FULL_CRC32: u32 = 1 << 4;
    let shift = match flags & FULL_CRC32 {
        0 => flags >> 6 & 0xf,
        _ => flags & 0xf,
    };
    match shift {
        0 => Some(16 << 10),
        3..=7 => Some(512 << shift),
        _ => None,
    }
}

impl Server {
    /// Finds the server of a process.
    pub fn attach(pid: Pid) -> Result<Server, AttachError> {
        if !cfg!(target_arch = "x86_64") {
            return Err(AttachError::Machine);
        }
        let memory = ProcessMemory::open(pid)?;
        let mappings = memory.mappings()?;
        let program = Program::find(&memory, &mappings, "MariaDB server", &LANDMARKS)?;
        let text = program.address("server_version").and_then(|at| memory.text(at, 100).ok());
        let text = text.unwrap_or_default();
        let end = text.match_indices('-').nth(1).map_or(text.len(), |(at, _)| at);
        let version = text[..end].to_string();
        if !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(AttachError::NotReady { pid });
        }
        let data = PathBuf::from(format!("/proc/{pid}/cwd"));
        let page = Server::page_size(&data)?;
        let pool = Pool::find(&memory, &mappings, page).ok_or(AttachError::NotReady { pid })?;
        let sessions = Sessions::read(&memory, &program);
        Ok(Server { memory, program, version, data, pool, sessions })
    }

    /// Bytes of a page: from the system tablespace, otherwise the default.
    fn page_size(data: &std::path::Path) -> Result<u64, AttachError> {
        /// Offset of the flags in the first page.
        const FLAGS: u64 = 54;
        const USUAL: u64 = 16 << 10;
        let path = data.join("ibdata1");
        let mut flags = [0; 4];
        match File::open(&path).and_then(|file| file.read_exact_at(&mut flags, FLAGS)) {
            Ok(()) => Ok(page_size(u32::from_be_bytes(flags)).unwrap_or(USUAL)),
            // It may be elsewhere (innodb_data_home_dir), or not exist yet.
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => Ok(USUAL),
            Err(source) => Err(AttachError::Version { path, source }),
        }
    }

    /// The present mappings.
    pub fn mappings(&self) -> Mappings {
        self.memory.mappings().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_pages_is_in_the_flags_of_the_tablespace() {
        assert_eq!(page_size(0x15), Some(16384), "full_crc32, as 10.5 and later make it");
        assert_eq!(page_size(0x13), Some(4096));
        assert_eq!(page_size(0x17), Some(65536));
        assert_eq!(page_size(0), Some(16384), "the original form");
        assert_eq!(page_size(3 << 6), Some(4096));
        assert_eq!(page_size(0x19), None);
    }
}
