//! One analyzer per folder: `analyzer.lock` is locked while it runs and contains its process id for users.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Its name.
pub(super) const FILE: &str = "analyzer.lock";

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum LockError {
    /// Another analyzer has it.
    Taken(Option<u32>),
    /// The file cannot be opened or locked.
    Io(std::io::Error),
}

/// Held until dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock, or returns the process that has it.
    pub fn take(folder: &Path) -> Result<Lock, LockError> {
        let mut file = open(&folder.join(FILE)).map_err(LockError::Io)?;
        // A hard link, or a pipe, that another account put there: it is about to be truncated and written.
        let found = file.metadata().map_err(LockError::Io)?;
        if !found.is_file() || found.nlink() != 1 {
            return Err(LockError::Io(std::io::Error::other("it is not a file of that one name")));
        }
        // SAFETY: our own descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let mut text = String::new();
            let _ = file.take(16).read_to_string(&mut text);
            return Err(LockError::Taken(text.trim().parse().ok()));
        }
        file.set_len(0).map_err(LockError::Io)?;
        writeln!(file, "{}", std::process::id()).map_err(LockError::Io)?;
        Ok(Lock { file })
    }
}

/// Unlocked explicitly, not by closing: a child that another thread has just forked shares the open file until its
/// `exec`, and would keep the lock.
impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open for as long as `self` lives.
        unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// The file is never removed, so that no process locks one without a name.
fn open(path: &Path) -> std::io::Result<File> {
    let options = |create| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(create)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path)
    };
    // First without O_CREAT: on another user's file in a folder like /tmp it is forbidden even to root
    // (protected_regular).
    match options(false) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => options(true).or_else(|error| {
            if error.kind() == std::io::ErrorKind::AlreadyExists {
                options(false)
            } else {
                Err(error)
            }
        }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_learns_who_the_first_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Lock::take(folder.path()).expect("free");
        match Lock::take(folder.path()) {
            Err(LockError::Taken(Some(pid))) => assert_eq!(pid, std::process::id()),
            other => panic!("{other:?}"),
        }
        let forked = first.file.try_clone().expect("a second descriptor");
        drop(first);
        Lock::take(folder.path()).expect("free again");
        drop(forked);
    }
}
