//! Running processes: this one's mappings, and a program that was replaced while it runs.

mod common;

use common::{compile, options, text};
use hardmeter_samples::model::{CpuMode, FileOffset, Fork, Mmap, Pid, Tid, Timestamp, VirtualAddress};
use hardmeter_symbols::{DataPlace, ImageKind, ProblemKind, RoutineKind, Symbolizer};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

#[no_mangle]
extern "C" fn hardmeter_marker_function() -> u32 {
    std::hint::black_box(line!())
}

#[no_mangle]
static HARDMETER_MARKER_IN_BSS: [std::sync::atomic::AtomicU8; 64] =
    [const { std::sync::atomic::AtomicU8::new(0) }; 64];

/// The mappings of a process, as perf records them.
fn mappings(pid: u32) -> Vec<Mmap> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a living process");
    let number = |word: &str| u64::from_str_radix(word, 16).expect("hexadecimal");
    let mmap = |line: &str| {
        // start-end rights offset device inode    path
        let words: Vec<&str> = line.splitn(6, ' ').collect();
        let (start, end) = words[0].split_once('-').expect("two ends");
        Mmap {
            pid: Pid(pid as i32),
            tid: Tid(pid as i32),
            mode: CpuMode::User,
            start: VirtualAddress(number(start)),
            length: number(end) - number(start),
            offset: FileOffset(number(words[2])),
            executable: words[1].contains('x'),
            protection: None,
            flags: None,
            build_id: None,
            path: words.get(5).map_or("", |path| path.trim()).to_owned(),
            time: None,
        }
    };
    maps.lines().map(mmap).collect()
}

#[test]
fn our_own_addresses_have_names() {
    let pid = std::process::id();
    let on_heap = Box::new(1u8);
    let mut symbolizer = Symbolizer::new(options(&[]));
    mappings(pid).iter().for_each(|mmap| symbolizer.spaces_mut().mmap(mmap));
    // The child of a fork has the same addresses.
    let child = Pid(i32::MAX);
    let (parent_pid, parent_tid) = (Pid(pid as i32), Tid(pid as i32));
    let time = Some(Timestamp(1));
    symbolizer.spaces_mut().fork(&Fork { pid: child, parent_pid, tid: Tid(child.0), parent_tid, time });
    for pid in [parent_pid, child] {
        let function = VirtualAddress(hardmeter_marker_function as *const () as u64);
        let resolved = symbolizer.lookup(pid, function, CpuMode::User);
        assert_eq!(symbolizer.routine(resolved.routine).name, "hardmeter_marker_function");
        let frames = symbolizer.lines(resolved.image.expect("an image"), resolved.address);
        let innermost = frames.first().expect("tests are compiled with line information");
        assert!(innermost.file.as_deref().is_some_and(|file| file.ends_with("tests/living_process.rs")));
        // The function begins in the line before its body.
        assert_eq!(innermost.line, Some(hardmeter_marker_function() - 1));

        let variable = VirtualAddress(&HARDMETER_MARKER_IN_BSS[5] as *const _ as u64);
        let found = symbolizer.lookup_data(pid, variable);
        let expected = DataPlace::Variable { name: "HARDMETER_MARKER_IN_BSS".into(), offset: 5, size: 64 };
        assert_eq!(found.place, expected);

        let heap = symbolizer.lookup_data(pid, VirtualAddress(&*on_heap as *const u8 as u64));
        assert_eq!(heap.place, DataPlace::Area);
        let area = symbolizer.image(heap.image.expect("an area"));
        assert_eq!(area.kind, ImageKind::Anonymous, "{area:?}");
    }
}

/// Ends the process that a test started, also when the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_replaced_program_is_read_through_its_living_process() {
    const OLD: &str = "#include <unistd.h>\nint old_function(void) { return 1; }\n\
                       int main(void) { write(1, \"\\n\", 1); pause(); return old_function(); }";
    const NEW: &str = "int filler(int n) { return n * 3; }\nint new_function(void) { return 2; }\n\
                       int main(void) { return new_function(); }";
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "server", OLD, &["-O0"]);
    let old_function = common::address_of(&path, "old_function").address;
    let mut running = Running(Command::new(&path).stdout(Stdio::piped()).spawn().expect("started"));
    let pid = running.0.id();
    // Its first output shows that it runs its own code.
    let output = running.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut String::new()).expect("a line");
    std::fs::remove_file(&path).expect("removed");
    compile(directory.path(), "server", NEW, &["-O0"]);

    let maps = mappings(pid);
    let code = maps.iter().find(|mmap| mmap.executable && mmap.path.contains("server")).expect("its code");
    assert_eq!(code.path, format!("{} (deleted)", text(&path)));
    let address = VirtualAddress(code.start.0 - code.offset.0 + old_function);
    let end = code.start.0 + code.length;
    let link = format!("/proc/{pid}/map_files/{:x}-{end:x}", code.start.0);
    let name = |maps: &[Mmap]| {
        let mut symbolizer = Symbolizer::new(options(&[]));
        // perf records executable mappings only.
        maps.iter().filter(|mmap| mmap.executable).for_each(|mmap| symbolizer.spaces_mut().mmap(mmap));
        let resolved = symbolizer.lookup(Pid(pid as i32), address, CpuMode::User);
        let kinds: Vec<ProblemKind> = symbolizer.problems().iter().map(|problem| problem.kind).collect();
        (symbolizer.routine(resolved.routine).clone(), kinds)
    };
    if std::fs::File::open(&link).is_ok() {
        let (routine, problems) = name(&maps);
        assert_eq!((routine.name.as_str(), problems.as_slice()), ("old_function", &[][..]));
    } else {
        println!("no right to open {link}: only the refusal is checked");
    }
    // After it has ended, its successor's names must not be used.
    drop(running);
    let (routine, problems) = name(&maps);
    assert_eq!((routine.kind, problems), (RoutineKind::UnknownInImage, vec![ProblemKind::ImageDeleted]));
}
