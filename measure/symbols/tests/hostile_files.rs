//! Malformed files: bytes of a small program are changed pseudo-randomly, and every query is made. Answers may
//! be incomplete; a panic or an endless loop fails the test.

mod common;

use common::{compile, options, text, tool, PID};
use hardmeter_samples::model::{CpuMode, FileOffset, Mmap, Tid, VirtualAddress};
use hardmeter_symbols::{DataPlace, ImageAddress, Symbolizer, Syntax};
use std::path::Path;

const PROGRAM: &str = r#"
#include <stdio.h>
int variable = 3;
static inline int twice(int n) { return n * 2 + variable; }
__attribute__((noinline)) static int inner(int n) { return twice(n) + twice(n + 1); }
int main(int argc, char **argv) { return printf("%d\n", inner(argc)); }
"#;

/// xorshift64: the same sequence on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Asks every question about a file that is mapped completely.
fn ask_everything(path: &Path, length: u64, debug_directory: &Path) {
    let mut symbolizer = Symbolizer::new(options(&[debug_directory]));
    let mmap = Mmap::code(PID, VirtualAddress(common::BIAS), length, text(path));
    symbolizer.spaces_mut().mmap(&mmap);
    for offset in (0..length).step_by(61).take(400) {
        let address = VirtualAddress(common::BIAS + offset);
        let resolved = symbolizer.lookup(PID, address, CpuMode::User);
        assert!(!symbolizer.routine(resolved.routine).name.is_empty());
        symbolizer.lookup_data(PID, address);
        let image = resolved.image.expect("the address is mapped");
        if offset % 5 == 0 {
            symbolizer.lines(image, resolved.address);
        }
        let end = ImageAddress(resolved.address.0.saturating_add(64));
        let _ = symbolizer.disassemble(image, resolved.address..end, Syntax::Att);
    }
    symbolizer.lookup_data(PID, VirtualAddress(common::BIAS + length + 100));
}

#[test]
fn changed_bytes_do_no_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", PROGRAM, &["-O1", "-g", "-rdynamic", "-Wl,-z,lazy"]);
    let sound = std::fs::read(&path).expect("read");
    let headers = section_headers(&path, sound.len());
    let changed = directory.path().join("changed");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..600 {
        let mut bytes = sound.clone();
        for _ in 0..1 + random.below(12) {
            // Half of the changes hit the file header, program headers or section headers.
            let position = match random.below(4) {
                0 => random.below(0x400),
                1 => headers + random.below(sound.len() - headers),
                _ => random.below(sound.len()),
            };
            let value = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8];
            bytes[position] = value[random.below(value.len())];
        }
        if round % 7 == 0 {
            bytes.truncate(random.below(sound.len()));
        }
        std::fs::write(&changed, &bytes).expect("written");
        ask_everything(&changed, sound.len() as u64, directory.path());
    }
}

fn section_headers(path: &Path, length: usize) -> usize {
    let header = tool("readelf", &["-hW", text(path)]);
    let line = header.lines().find(|line| line.contains("Start of section headers")).expect("the line");
    let start = line.split_whitespace().find_map(|word| word.parse().ok()).expect("a number");
    assert!(start < length);
    start
}

#[test]
fn files_that_are_no_files_do_no_harm() {
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty");
    std::fs::write(&empty, b"").expect("written");
    let header_only = directory.path().join("header");
    std::fs::write(&header_only, b"\x7fELF\x02\x01\x01").expect("written");
    for path in [empty.as_path(), header_only.as_path(), directory.path(), Path::new("/dev/null")] {
        ask_everything(path, 0x2000, directory.path());
    }
}

/// A locale's table or a database file mapped as data is not a problem; code cannot run in it.
#[test]
fn a_file_of_data_is_a_problem_only_where_code_is_said_to_run_in_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("LC_TIME");
    std::fs::write(&path, vec![0x20u8; 8192]).expect("written");
    let mut symbolizer = Symbolizer::new(options(&[]));
    symbolizer.spaces_mut().mmap(&Mmap {
        pid: PID,
        tid: Tid(PID.0),
        mode: CpuMode::User,
        start: VirtualAddress(common::BIAS),
        length: 8192,
        offset: FileOffset(0),
        executable: false,
        protection: None,
        flags: None,
        build_id: None,
        path: text(&path).to_owned(),
        time: None,
    });
    let found = symbolizer.lookup_data(PID, VirtualAddress(common::BIAS + 100));
    assert_eq!(found.place, DataPlace::Area);
    assert_eq!(symbolizer.problems().iter().count(), 0, "{:?}", symbolizer.problems());
    symbolizer.lookup(PID, VirtualAddress(common::BIAS + 100), CpuMode::User);
    let told: Vec<String> = symbolizer.problems().iter().map(|problem| problem.to_string()).collect();
    assert!(told.len() == 1 && told[0].contains("is not an ELF file"), "{told:?}");
}
