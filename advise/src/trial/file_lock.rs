//! Locks between processes of this user: files beside the ledger, which the kernel frees when their holder dies.

use super::TryError;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Takes the lock of this file within `patience`; `None`: another process has it.
    pub(super) fn take(path: PathBuf, patience: Duration) -> Result<Option<FileLock>, TryError> {
        let failed = |error| TryError::Ledger { path: path.clone(), what: "locked", error };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        let end = Instant::now() + patience;
        loop {
            // SAFETY: flock of a descriptor that lives as long as the file.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(Some(FileLock(file)));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Unlocked explicitly, not by closing: a child that another thread has just forked shares the open file until its
/// `exec`, and would keep the lock.
impl Drop for FileLock {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open for as long as `self` lives.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_has_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let take = |name| FileLock::take(folder.path().join("state").join(name), Duration::ZERO).unwrap();
        let first = take("copy.lock");
        assert!(first.is_some() && take("copy.lock").is_none() && take("restart.lock").is_some());
        let forked = first.as_ref().map(|lock| lock.0.try_clone().unwrap());
        drop(first);
        assert!(take("copy.lock").is_some());
        drop(forked);
    }
}
