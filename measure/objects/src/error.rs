//! Reasons why a server's objects cannot be identified.

use crate::process_memory::MemoryError;
use crate::program::ProgramError;
use hardmeter_samples::model::Pid;
use std::io;
use std::path::PathBuf;

/// The reason why a server's memory cannot be read. The rest of a profile does not depend on it.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process cannot be read.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The program is not a known server, or cannot be read.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The server has not created its shared memory yet.
    #[error("the server of process {pid} is still starting; attach again when it accepts connections")]
    NotReady {
        /// Its first process.
        pid: Pid,
    },
    /// The program's runtime has not made its heap yet.
    #[error("the runtime of process {pid} is still starting; attach again in a moment")]
    RuntimeNotReady {
        /// The process.
        pid: Pid,
    },
    /// The server's version is unknown.
    #[error("{} cannot be read ({source}), so that the version of the server is unknown; run as root or as the server's account", path.display())]
    Version {
        /// The file that contains it.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The version has no layout table.
    #[error("PostgreSQL {found} is not supported, only {known}; make a table from its headers with scripts/postgres-layouts, or record without objects")]
    UnknownMajor {
        /// The server's product and version.
        found: String,
        /// The major versions with tables.
        known: String,
    },
    /// The running server does not match the table of its version.
    #[error("the server's memory does not match PostgreSQL {major}: {reason}; was it built with other options? Make a table from its own headers with scripts/postgres-layouts, or record without objects")]
    SelfTest {
        /// The version that its data folder names.
        major: u32,
        /// The difference.
        reason: String,
    },
    /// An unsupported architecture, where the layouts differ.
    #[error("layouts are known for x86-64 only; record without objects")]
    Machine,
}
