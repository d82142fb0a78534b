//! A segment that a hostile application writes into, for the fuzz target `read_segment`.

use super::made::{Made, BOOT};
use super::{Application, TraceCursor};
use crate::model::AppId;
use std::hint::black_box;
use std::path::Path;

/// Makes a sound segment in an empty folder, writes words of `bytes` (an offset of 4 bytes and 8 bytes each) into it, cuts or
/// lengthens it if the first byte says so, and reads all that the analyzer reads.
pub fn read_patched(folder: &Path, bytes: &[u8]) {
    let Some((first, patches)) = bytes.split_first() else { return };
    let made = Made::new(folder, 7);
    made.record(1, 2, 10, 500);
    for patch in patches.as_chunks::<12>().0 {
        let offset = u32::from_le_bytes([patch[0], patch[1], patch[2], patch[3]]);
        made.put(u64::from(offset) % made.layout.size, &patch[4..]);
    }
    match first % 8 {
        1 => _ = made.file.set_len(made.layout.size / 2),
        2 => _ = made.file.set_len(1 << 40),
        _ => {}
    }
    if let Ok(mut application) = Application::open_on(&made.path, AppId(7), BOOT) {
        if first % 8 == 3 {
            _ = made.file.set_len(u64::from(*first) * 64);
        }
        for _ in 0..2 {
            black_box(application.snapshot().is_ok());
        }
        black_box((application.title(), application.facts(), application.threads(), application.sections()));
        black_box(application.traces(&mut TraceCursor::default()));
    }
    std::fs::remove_file(&made.path).expect("removed");
}
