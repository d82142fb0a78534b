//! Synthesizes records that the kernel does not report: names and mappings of processes from before the recording,
//! and the kernel's own mapping.

use super::build_id;
use hardmeter_samples::model::{Comm, CpuMode, FileOffset, Mmap, Pid, Tid, VirtualAddress};
use hardmeter_samples::perf_data::RecordEncoder;
use std::collections::HashMap;
use std::path::PathBuf;

/// Synthesized records, and the processes that could not be read.
#[derive(Debug, Default)]
pub struct Synthesized {
    /// The records, one after the other.
    pub records: Vec<u8>,
    /// Number of processes whose mappings are not readable.
    pub unreadable: u32,
    /// Whether the kernel hides its addresses (kptr_restrict).
    pub kernel_hidden: bool,
}

/// Synthesizes records for a capture; build ids are read once per file.
pub struct Synthesizer {
    encoder: RecordEncoder,
    /// Non-executable mappings too, for captures with data addresses.
    data_mappings: bool,
    build_ids: HashMap<(String, u64), Option<Vec<u8>>>,
    made: Synthesized,
}

impl Synthesizer {
    /// Begins with nothing.
    pub fn new(encoder: RecordEncoder, data_mappings: bool) -> Synthesizer {
        Synthesizer { encoder, data_mappings, build_ids: HashMap::new(), made: Synthesized::default() }
    }

    /// The records made so far.
    pub fn finish(self) -> Synthesized {
        self.made
    }

    /// The kernel and its modules.
    pub fn kernel(&mut self) {
        let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        match kernel_text(&symbols) {
            Some((start, end)) => {
                // perf compares `offset`, the address of _text at the recording, with its address at the report.
                let text = kernel_mapping(
                    "[kernel.kallsyms]_text",
                    start,
                    end - start,
                    start,
                    build_id::of_kernel(),
                );
                self.made.records.extend(self.encoder.mmap(&text));
            }
            None => self.made.kernel_hidden = true,
        }
        let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
        for (name, start, length) in modules.lines().filter_map(module) {
            let notes =
                std::fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id")).unwrap_or_default();
            // 12 bytes of sizes and type, "GNU\0", then the id.
            let id = notes.get(16..36).map(<[u8]>::to_vec);
            let mapping = kernel_mapping(&format!("[{name}]"), start, length, 0, id);
            self.made.records.extend(self.encoder.mmap(&mapping));
        }
    }

    /// The name of a process of one thread, before the kernel reports it.
    pub fn name(&mut self, pid: Pid, name: &str) {
        let comm = Comm { pid, tid: Tid(pid.0), name: name.to_string(), exec: false, time: None };
        self.made.records.extend(self.encoder.comm(&comm));
    }

    /// A process with its threads.
    pub fn process(&mut self, pid: Pid) {
        let Ok(threads) = crate::target::threads(pid) else { return }; // has ended
        for tid in threads {
            if let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")) {
                let comm = Comm { pid, tid, name: name.trim_end().to_string(), exec: false, time: None };
                self.made.records.extend(self.encoder.comm(&comm));
            }
        }
        match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            Ok(maps) => self.mappings(pid, &maps),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => self.made.unreadable += 1,
            Err(_) => {}
        }
    }

    fn mappings(&mut self, pid: Pid, maps: &str) {
        for line in maps.lines() {
            let Some((mut mmap, inode)) = mapping(pid, line) else { continue };
            if !mmap.executable && !self.data_mappings {
                continue;
            }
            if mmap.executable && mmap.path.starts_with('/') {
                let known = self.build_ids.entry((mmap.path.clone(), inode));
                // Through the process's own root directory, in case it runs in a container.
                let file = PathBuf::from(format!("/proc/{pid}/root{}", mmap.path));
                mmap.build_id = known.or_insert_with(|| build_id::of_file(&file)).clone();
            }
            self.made.records.extend(self.encoder.mmap(&mmap));
        }
    }
}

fn kernel_mapping(path: &str, start: u64, length: u64, offset: u64, build_id: Option<Vec<u8>>) -> Mmap {
    Mmap {
        tid: Tid(0),
        mode: CpuMode::Kernel,
        offset: FileOffset(offset),
        build_id,
        ..Mmap::code(Pid(-1), VirtualAddress(start), length, path)
    }
}

/// `_text` and `_etext` of `/proc/kallsyms`; `None` if the kernel hides them (zeros).
fn kernel_text(symbols: &str) -> Option<(u64, u64)> {
    let address = |wanted: &str| {
        symbols.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (address, _, name) = (fields.next()?, fields.next()?, fields.next()?);
            (name == wanted).then(|| u64::from_str_radix(address, 16).ok())?
        })
    };
    let (start, end) = (address("_text").or_else(|| address("_stext"))?, address("_etext")?);
    (start != 0 && end > start).then_some((start, end))
}

/// A line of `/proc/modules`: `ext4 1034240 1 - Live 0xffffffffc0a00000`.
fn module(line: &str) -> Option<(&str, u64, u64)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let length = fields.get(1)?.parse().ok()?;
    let start = u64::from_str_radix(fields.get(5)?.strip_prefix("0x")?, 16).ok()?;
    (start != 0).then_some((fields[0], start, length))
}

/// A line of `/proc/PID/maps`, and its inode.
fn mapping(pid: Pid, line: &str) -> Option<(Mmap, u64)> {
    // `start-end rwxp offset device inode      path`, the path possibly with blanks.
    let mut rest = line;
    let mut field = || -> Option<&str> {
        let trimmed = rest.trim_start_matches(' ');
        let end = trimmed.find(' ').unwrap_or(trimmed.len());
        let (field, tail) = trimmed.split_at(end);
        rest = tail;
        (!field.is_empty()).then_some(field)
    };
    let (range, rights, offset, _device, inode) = (field()?, field()?, field()?, field()?, field()?);
    let path = rest.trim_start_matches(' ');
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let right = |at: usize, letter: u8| rights.as_bytes().get(at) == Some(&letter);
    let protection =
        u32::from(right(0, b'r')) | u32::from(right(1, b'w')) << 1 | u32::from(right(2, b'x')) << 2;
    let mmap = Mmap {
        pid,
        tid: Tid(pid.0),
        mode: CpuMode::User,
        start: VirtualAddress(start),
        length: end.checked_sub(start)?,
        offset: FileOffset(u64::from_str_radix(offset, 16).ok()?),
        executable: right(2, b'x'),
        protection: Some(protection),
        flags: Some(if right(3, b's') { libc::MAP_SHARED as u32 } else { libc::MAP_PRIVATE as u32 }),
        build_id: None,
        // The kernel's name for memory without a file, as in its MMAP2 records.
        path: if path.is_empty() { "//anon".to_string() } else { path.to_string() },
        time: None,
    };
    Some((mmap, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read_whole() {
        let line = "7f1c2a400000-7f1c2a428000 r-xp 00028000 08:01 131075      /usr/lib/x86_64-linux-gnu/libc so.6 (deleted)";
        let (mmap, inode) = mapping(Pid(7), line).expect("a mapping");
        assert_eq!((mmap.start, mmap.length), (VirtualAddress(0x7f1c2a400000), 0x28000));
        assert_eq!((mmap.offset, inode), (FileOffset(0x28000), 131075));
        assert_eq!(mmap.path, "/usr/lib/x86_64-linux-gnu/libc so.6 (deleted)");
        assert!(mmap.executable && mmap.protection == Some(5));
        let (heap, _) = mapping(Pid(7), "55d0-55f0 rw-s 00000000 00:00 0 ").expect("a mapping");
        assert_eq!((heap.path.as_str(), heap.flags), ("//anon", Some(libc::MAP_SHARED as u32)));
        assert!(mapping(Pid(7), "rubbish").is_none());
    }

    #[test]
    fn hidden_kernel_addresses_are_no_addresses() {
        let shown = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff82000000 T _etext\n";
        assert_eq!(kernel_text(shown), Some((0xffffffff81000000, 0xffffffff82000000)));
        assert_eq!(kernel_text("0000000000000000 T _text\n0000000000000000 T _etext\n"), None);
        assert_eq!(
            module("ext4 1034240 1 - Live 0xffffffffc0a00000"),
            Some(("ext4", 0xffffffffc0a00000, 1034240))
        );
        assert_eq!(module("ext4 1034240 1 - Live 0x0000000000000000"), None);
    }
}
