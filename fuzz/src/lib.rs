//! Shared by the targets.

use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

/// A folder in memory for the files of a target, the same in every run of this process.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir_in("/dev/shm").expect("/dev/shm can be written")).path()
}
