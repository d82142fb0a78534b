//! One command at a time on one server folder.

use crate::error::{io_error, ServerError};
use crate::folders::ServerFolder;
use std::fs::File;
use std::os::fd::AsRawFd;

/// A lock held while a command changes a server; the kernel releases it when the process ends.
#[derive(Debug)]
pub(crate) struct FolderLock {
    folder: File,
}

impl FolderLock {
    /// Takes the lock of an existing folder, or reports that another process has it.
    pub fn take(folder: &ServerFolder) -> Result<FolderLock, ServerError> {
        let path = folder.path();
        let file = File::open(path).map_err(io_error("open", path))?;
        // SAFETY: the descriptor is open for as long as `file` lives.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(FolderLock { folder: file });
        }
        let error = std::io::Error::last_os_error();
        if error.kind() == std::io::ErrorKind::WouldBlock {
            return Err(ServerError::Busy { folder: path.to_owned() });
        }
        Err(ServerError::Io { action: "lock", path: path.to_owned(), source: error })
    }
}

/// Unlocked explicitly, not by closing: a child that another thread has just forked shares the open file until its
/// `exec`, and would keep the lock.
impl Drop for FolderLock {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open for as long as `self` lives.
        unsafe { libc::flock(self.folder.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_that_the_first_is_at_work() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = ServerFolder::new(temporary.path());
        let first = FolderLock::take(&folder).unwrap();
        assert!(matches!(FolderLock::take(&folder), Err(ServerError::Busy { .. })));
        let forked = first.folder.try_clone().unwrap();
        drop(first);
        FolderLock::take(&folder).unwrap();
        drop(forked);
    }
}
