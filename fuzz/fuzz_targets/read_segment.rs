//! A segment of placement into which an application writes what it likes, and which it cuts while it is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use std::sync::OnceLock;
use tempfile::TempDir;

static FOLDER: OnceLock<TempDir> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let folder = FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        tempfile::tempdir_in(memory).expect("/dev/shm can be written")
    });
    hardmeter_split::segment::fuzz::read_patched(folder.path(), bytes);
});
