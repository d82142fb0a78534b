//! The build id of a file: the note that links a binary to its symbols.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `NT_GNU_BUILD_ID`.
const NOTE_BUILD_ID: u32 = 3;
/// `PT_NOTE`.
const SEGMENT_NOTE: u32 = 4;
/// Maximum length of a note segment; real ones have a few hundred bytes.
const NOTES_LIMIT: u64 = 64 << 10;

/// The build id of a 64- or 32-bit ELF file of this byte order; `None` if the file is another kind or has none.
pub fn of_file(path: &Path) -> Option<Vec<u8>> {
    // A device or a pipe may be mapped; opening it could block or have side effects.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let mut header = [0u8; 64];
    file.read_at(&mut header, 0).ok().filter(|length| *length >= 52)?;
    let native = if cfg!(target_endian = "little") { 1 } else { 2 };
    if header[..4] != *b"\x7fELF" || header[5] != native {
        return None;
    }
    let wide = header[4] == 2;
    let (table, entry, count) = if wide {
        (word(&header, 32)?, half(&header, 54)?, half(&header, 56)?)
    } else {
        (u64::from(quarter(&header, 28)?), half(&header, 42)?, half(&header, 44)?)
    };
    for index in 0..u64::from(count) {
        let mut segment = [0u8; 56];
        let length = usize::from(entry).min(segment.len());
        let at = table.checked_add(index * u64::from(entry))?;
        file.read_exact_at(&mut segment[..length], at).ok()?;
        if quarter(&segment, 0)? != SEGMENT_NOTE {
            continue;
        }
        let (offset, size) = if wide {
            (word(&segment, 8)?, word(&segment, 32)?)
        } else {
            (u64::from(quarter(&segment, 4)?), u64::from(quarter(&segment, 16)?))
        };
        let mut notes = vec![0u8; size.min(NOTES_LIMIT) as usize];
        let read = file.read_at(&mut notes, offset).ok()?;
        if let Some(id) = in_notes(&notes[..read]) {
            return Some(id);
        }
    }
    None
}

/// The build id of the running kernel.
pub fn of_kernel() -> Option<Vec<u8>> {
    let mut notes = Vec::new();
    File::open("/sys/kernel/notes").ok()?.take(NOTES_LIMIT).read_to_end(&mut notes).ok()?;
    in_notes(&notes)
}

/// The build id among ELF notes: `{name size, description size, type} name description`, each padded to four.
fn in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    while notes.len() >= 12 {
        let (name, description) = (quarter(notes, 0)? as usize, quarter(notes, 4)? as usize);
        let kind = quarter(notes, 8)?;
        let name_end = 12usize.checked_add(name)?;
        let start = name_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(description)?;
        if kind == NOTE_BUILD_ID && notes.get(12..name_end)? == b"GNU\0" {
            // The kernel's records hold 20 bytes.
            return notes.get(start..end).filter(|id| !id.is_empty() && id.len() <= 20).map(<[u8]>::to_vec);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
    None
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn quarter(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = (name.len() as u32).to_ne_bytes().to_vec();
        bytes.extend((description.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        for part in [name, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let notes =
            [note(b"GNU\0", 1, &[0; 16]), note(b"Go\0", 3, &[9; 5]), note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(in_notes(&notes), Some(vec![7; 20]));
        assert_eq!(in_notes(&notes[..notes.len() - 1]), None);
        assert_eq!(in_notes(&note(b"GNU\0", 3, &[7; 21])), None);
        assert_eq!(in_notes(&[0xff; 40]), None);
    }

    /// `file` prints the build id of a binary: an independent reader.
    #[test]
    fn this_test_has_the_build_id_that_readelf_sees() {
        let own = std::env::current_exe().expect("a path");
        let Ok(output) = std::process::Command::new("readelf").arg("-n").arg(&own).output() else {
            println!("skipped: no readelf");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let seen = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
        let ours = of_file(&own).map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(ours.as_deref(), seen);
    }
}
