//! Little programs, independent tools, and an image mapped as the kernel would.
#![allow(dead_code)] // each test file uses its part

use hardmeter_samples::model::{CpuMode, FileOffset, Mmap, Pid, Tid, VirtualAddress};
use hardmeter_symbols::{Resolved, Routine, Symbolizer, SymbolizerOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The process of all tests.
pub const PID: Pid = Pid(100);
/// Load address of position-independent images in the tests: address in the process = address in the file + this.
pub const BIAS: u64 = 0x5555_0000_0000;

/// Runs a tool and returns its output; panics with its error if it fails.
pub fn tool(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().unwrap_or_else(|error| {
        panic!("{program} is needed by this test (apt install binutils gcc): {error}")
    });
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Compiles a C (or, by its ending, C++) source text into `directory/name`.
pub fn compile(directory: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let is_cpp = source.contains("namespace");
    let source_path = directory.join(format!("{name}.{}", if is_cpp { "cc" } else { "c" }));
    std::fs::write(&source_path, source).expect("source written");
    let program = directory.join(name);
    let mut arguments = vec!["-o", text(&program), text(&source_path)];
    arguments.extend(options);
    tool(if is_cpp { "g++" } else { "gcc" }, &arguments);
    program
}

/// Options that look nowhere but in the directories given.
pub fn options(debug_directories: &[&Path]) -> SymbolizerOptions {
    SymbolizerOptions {
        debug_directories: debug_directories.iter().map(|path| path.to_path_buf()).collect(),
        ..SymbolizerOptions::default()
    }
}

/// A loadable segment from readelf's output.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub executable: bool,
    pub writable: bool,
}

/// The loadable segments of a file, by readelf.
pub fn segments(path: &Path) -> Vec<Segment> {
    let listing = tool("readelf", &["-lW", text(path)]);
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).expect("a number");
    listing
        .lines()
        .filter_map(|line| line.trim().strip_prefix("LOAD"))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // offset, address, physical address, file size, memory size, flags ("R E"), alignment
            let flags = words[5..words.len() - 1].concat();
            Segment {
                offset: number(words[0]),
                address: number(words[1]),
                file_size: number(words[3]),
                memory_size: number(words[4]),
                executable: flags.contains('E'),
                writable: flags.contains('W'),
            }
        })
        .collect()
}

fn mapping(path: &str, start: u64, length: u64, offset: u64, executable: bool) -> Mmap {
    Mmap {
        pid: PID,
        tid: Tid(PID.0),
        mode: CpuMode::User,
        start: VirtualAddress(start),
        length,
        offset: FileOffset(offset),
        executable,
        protection: None,
        flags: None,
        build_id: None,
        path: path.to_owned(),
        time: None,
    }
}

/// Maps all segments of a file at `BIAS`, page by page as the kernel does, and its .bss as anonymous memory.
pub fn load(symbolizer: &mut Symbolizer, path: &Path) {
    load_as(symbolizer, path, text(path), None);
}

/// The same under another path and with a build id.
pub fn load_as(symbolizer: &mut Symbolizer, path: &Path, shown: &str, build_id: Option<&[u8]>) {
    const PAGE: u64 = 4096;
    for segment in segments(path) {
        let slack = segment.offset % PAGE;
        let start = BIAS + segment.address - slack;
        let length = (segment.file_size + slack).next_multiple_of(PAGE);
        let mut mmap = mapping(shown, start, length, segment.offset - slack, segment.executable);
        mmap.build_id = build_id.map(<[u8]>::to_vec);
        symbolizer.spaces_mut().mmap(&mmap);
        let in_memory = (segment.memory_size + slack).next_multiple_of(PAGE);
        if in_memory > length {
            let bss = mapping("//anon", start + length, in_memory - length, 0, false);
            symbolizer.spaces_mut().mmap(&bss);
        }
    }
}

/// The routine at an address of the loaded file.
pub fn lookup(symbolizer: &mut Symbolizer, address: u64) -> (Routine, Resolved) {
    let resolved = symbolizer.lookup(PID, VirtualAddress(BIAS + address), CpuMode::User);
    (symbolizer.routine(resolved.routine).clone(), resolved)
}

/// `name+0x12` at an address of the loaded file.
pub fn name_at(symbolizer: &mut Symbolizer, address: u64) -> String {
    let (routine, resolved) = lookup(symbolizer, address);
    format!("{}+{:#x}", routine.name, resolved.offset)
}

/// One symbol of nm.
#[derive(Clone, Debug)]
pub struct NmSymbol {
    pub address: u64,
    pub size: u64,
    pub kind: char,
    pub name: String,
}

/// Defined symbols with a size, by nm.
pub fn nm(path: &Path, options: &[&str]) -> Vec<NmSymbol> {
    let mut arguments = vec!["-S", "--defined-only"];
    arguments.extend(options);
    arguments.push(text(path));
    let listing = tool("nm", &arguments);
    let symbol = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [address, size, kind, name] = words[..] else { return None };
        Some(NmSymbol {
            address: u64::from_str_radix(address, 16).ok()?,
            size: u64::from_str_radix(size, 16).ok()?,
            kind: kind.chars().next()?,
            name: name.split('@').next()?.to_owned(),
        })
    };
    listing.lines().filter_map(symbol).collect()
}

/// The address of a symbol, by nm.
pub fn address_of(path: &Path, name: &str) -> NmSymbol {
    let found = nm(path, &[]).into_iter().find(|symbol| symbol.name == name);
    found.unwrap_or_else(|| panic!("{name} is not in {}", path.display()))
}

/// The code ranges of all frame description entries, by readelf.
pub fn unwind_ranges(path: &Path) -> Vec<(u64, u64)> {
    // N: do not follow links to debug files, whose .eh_frame is empty.
    let listing = tool("readelf", &["-wN", "--debug-dump=frames", text(path)]);
    let range = |line: &str| {
        let (start, end) = line.split_once(" pc=")?.1.split_once("..")?;
        let number = |word: &str| u64::from_str_radix(word.trim(), 16).ok();
        Some((number(start)?, number(end)?))
    };
    listing.lines().filter(|line| line.contains(" FDE ")).filter_map(range).collect()
}
