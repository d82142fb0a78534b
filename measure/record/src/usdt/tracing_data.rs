//! The layouts of Hardmeter's tracepoints in perf.data (`HEADER_TRACING_DATA`): without them perf refuses a file
//! with tracepoints; with them `perf script` prints the statements.
//!
//! ```text
//! "\x17\x08\x44tracing" "0.6\0"  byte order  bytes of a long  page size
//! "header_page\0" size text   "header_event\0" size text
//! ftrace's own events: none
//! systems: 1    "hardmeter_4711\0"  events: n   (size text) ...
//! kernel symbols: none   printk formats: none   saved command names: none
//! ```
//! (tools/perf/util/trace-event-info.c. Sizes are words of eight bytes, counts of four.)

use super::tracefs::Tracefs;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The layouts of the events of a group.
///
/// # Errors
///
/// The system's error if a description cannot be read.
pub fn of_group(tracefs: &Tracefs, group: &str, events: &[String]) -> io::Result<Vec<u8>> {
    let read = |name: &str| read_whole(&tracefs.path(name));
    let formats: io::Result<Vec<Vec<u8>>> =
        events.iter().map(|event| read(&format!("events/{group}/{event}/format"))).collect();
    // SAFETY: no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(encode(page as u32, &read("events/header_page")?, &read("events/header_event")?, group, &formats?))
}

/// Reads a file of tracefs: the kernel returns the descriptions of the ring in one read, however short, and nothing
/// after it.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 1 << 16];
    let mut length = 0;
    loop {
        match file.read(&mut bytes[length..])? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn encode(page: u32, header_page: &[u8], header_event: &[u8], group: &str, formats: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing0.6\0".to_vec();
    bytes.extend([0, size_of::<libc::c_long>() as u8]); // little-endian
    bytes.extend(page.to_le_bytes());
    for (name, text) in [(&b"header_page\0"[..], header_page), (b"header_event\0", header_event)] {
        bytes.extend(name);
        push(&mut bytes, text);
    }
    bytes.extend(0u32.to_le_bytes()); // ftrace's own events
    bytes.extend(1u32.to_le_bytes()); // systems
    bytes.extend(group.as_bytes());
    bytes.push(0);
    bytes.extend((formats.len() as u32).to_le_bytes());
    formats.iter().for_each(|format| push(&mut bytes, format));
    bytes.extend(0u32.to_le_bytes()); // kernel symbols
    bytes.extend(0u32.to_le_bytes()); // printk formats
    bytes.extend(0u64.to_le_bytes()); // saved command names
    bytes
}

fn push(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_stands_where_perf_looks_for_it() {
        let bytes = encode(4096, b"PP", b"E", "g", &[b"F1".to_vec(), b"F".to_vec()]);
        let mut expected = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
        expected.extend(b"header_page\0\x02\0\0\0\0\0\0\0PP");
        expected.extend(b"header_event\0\x01\0\0\0\0\0\0\0E");
        expected.extend(b"\0\0\0\0\x01\0\0\0g\0\x02\0\0\0\x02\0\0\0\0\0\0\0F1\x01\0\0\0\0\0\0\0F");
        expected.extend([0; 16]);
        assert_eq!(bytes, expected);
    }
}
