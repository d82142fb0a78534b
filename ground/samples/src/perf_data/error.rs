//! Errors of capture files, each with its cause and its remedy.

use crate::model::ByteCount;
use std::path::PathBuf;

/// Why a capture could not be read. A truncated file is not an error: see [`ReadSummary`](super::ReadSummary).
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be opened or read.
    #[error("cannot read {path}: {source}\n  remedy: check the name and your rights to the file")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// `perf record --threads` writes a directory.
    #[error(
        "{path} is a directory\n  remedy: record without `perf record --threads`, which writes one file per thread"
    )]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file has no bytes.
    #[error("{path} is empty: nothing was recorded, or the recorder had no space\n  remedy: record again")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first bytes are not perf's.
    #[error(
        "{path} is not a perf.data file (it does not begin with PERFILE2)\n  remedy: \
         give the file that `hardmeter record` or `perf record` wrote"
    )]
    NotACapture {
        /// The file.
        path: PathBuf,
    },
    /// Perf's format before Linux 2.6.34.
    #[error(
        "{path} has perf.data version 1, which perf stopped writing in 2010\n  remedy: record again with a newer perf"
    )]
    Version1 {
        /// The file.
        path: PathBuf,
    },
    /// The file comes from a big-endian machine.
    #[error(
        "{path} was recorded on a big-endian machine, whose byte order hardmeter does not read\n  remedy: \
         look at it on that machine, or convert it there with `perf script`"
    )]
    ForeignByteOrder {
        /// The file.
        path: PathBuf,
    },
    /// The header contradicts itself or the file.
    #[error(
        "{path} has a damaged header: {what}\n  remedy: copy the file again from where it was recorded, or \
         record again"
    )]
    DamagedHeader {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: String,
    },
}

/// The reason why a capture could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system is full, or the user's quota, or the process's file size limit is reached.
    #[error(
        "no room to write {path}: {source}\n  remedy: free some space, give another place with -o, \
         or record less (a longer period, a shorter run)"
    )]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder or file cannot be written.
    #[error(
        "cannot write {path}: {source}\n  remedy: check that the folder exists and that you may write there"
    )]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The capture was finished without its last records.
    #[error(
        "{path} is readable but truncated: {discarded} bytes of records did not fit on the disk\n  remedy: \
         free some space and record again if the end matters"
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// Size of the missing records.
        discarded: ByteCount,
    },
    /// A record given to the writer is not one.
    #[error("record of {length} bytes refused: {what}")]
    BadRecord {
        /// Its length.
        length: usize,
        /// The problem.
        what: &'static str,
    },
}

impl WriteError {
    /// Classifies an I/O error: a full disk has another remedy than missing permission.
    pub(crate) fn from_io(path: &std::path::Path, source: std::io::Error) -> WriteError {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let path = path.to_path_buf();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => WriteError::DiskFull { path, source },
            _ => WriteError::Io { path, source },
        }
    }
}
