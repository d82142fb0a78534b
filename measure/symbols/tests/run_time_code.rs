//! Code without a file: compiled at run time, mapped by the kernel, and the kernel itself.

mod common;

use common::{options, text, tool, PID};
use hardmeter_samples::model::{CpuMode, Mmap, Pid, VirtualAddress};
use hardmeter_symbols::{ImageKind, ProblemKind, RoutineKind, Symbolizer, SymbolizerOptions};
use std::io::{Read, Seek, SeekFrom};

fn mmap(pid: Pid, mode: CpuMode, start: u64, length: u64, path: &str) -> Mmap {
    Mmap { mode, ..Mmap::code(pid, VirtualAddress(start), length, path) }
}

#[test]
fn compiled_code_is_named_by_its_map_file() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("perf-100.map"), "7f0000001000 40 evalexpr_0_1\n").expect("written");
    let in_directory = SymbolizerOptions { jit_map_directory: directory.path().to_owned(), ..options(&[]) };
    let mut symbolizer = Symbolizer::new(in_directory);
    symbolizer.spaces_mut().mmap(&mmap(PID, CpuMode::User, 0x7f00_0000_0000, 0x10000, "//anon"));
    let mut at = |pid, address| {
        let resolved = symbolizer.lookup(pid, VirtualAddress(address), CpuMode::User);
        let routine = symbolizer.routine(resolved.routine);
        (routine.kind, routine.name.clone(), resolved.offset)
    };
    assert_eq!(at(PID, 0x7f00_0000_1010), (RoutineKind::Function, "evalexpr_0_1".to_owned(), 0x10));
    let beside = (RoutineKind::UnknownInImage, "unknown in //anon".to_owned(), 0x7f00_0000_1040);
    assert_eq!(at(PID, 0x7f00_0000_1040), beside);
    // Another process has its own map file, here none.
    assert_eq!(at(Pid(101), 0x7f00_0000_1010).0, RoutineKind::UnknownAddress);
    assert!(symbolizer.problems().is_empty());
}

/// Our own vdso, judged by nm over a copy of its bytes.
#[test]
fn the_vdso_has_names() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("our mappings");
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        println!("skipped: this kernel maps no vdso");
        return;
    };
    let range = line.split(' ').next().expect("a range").split_once('-').expect("two ends");
    let number = |word: &str| u64::from_str_radix(word, 16).expect("hexadecimal");
    let (start, end) = (number(range.0), number(range.1));
    let mut memory = std::fs::File::open("/proc/self/mem").expect("our memory");
    memory.seek(SeekFrom::Start(start)).expect("the vdso");
    let mut bytes = vec![0; (end - start) as usize];
    memory.read_exact(&mut bytes).expect("the vdso");
    let directory = tempfile::tempdir().expect("a directory");
    let copy = directory.path().join("vdso.so");
    std::fs::write(&copy, bytes).expect("written");
    tool("readelf", &["-hW", text(&copy)]);

    let mut symbolizer = Symbolizer::new(options(&[]));
    symbolizer.spaces_mut().mmap(&mmap(PID, CpuMode::User, 0x7ffd_0000_0000, end - start, "[vdso]"));
    let functions = common::nm(&copy, &["-D"]);
    let mut seen = 0;
    for function in functions.iter().filter(|function| "TW".contains(function.kind) && function.size > 0) {
        let address = VirtualAddress(0x7ffd_0000_0000 + function.address);
        let resolved = symbolizer.lookup(PID, address, CpuMode::User);
        let name = &symbolizer.routine(resolved.routine).name;
        let aliases = functions.iter().filter(|other| other.address == function.address);
        assert!(aliases.clone().any(|alias| alias.name == *name), "{name} is not {function:?}");
        seen += 1;
    }
    assert!(seen > 0, "{functions:?}");
}

/// The running kernel, compared with its own table.
#[test]
fn the_kernel_is_named_or_hidden() {
    let table = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let symbols: Vec<(u64, &str, &str)> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split([' ', '\t']);
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.next()?, words.next()?))
        })
        .collect();
    if symbols.is_empty() {
        println!("skipped: this kernel has no /proc/kallsyms");
        return;
    }
    let mut symbolizer = Symbolizer::new(options(&[]));
    let text_start = symbols.iter().map(|(address, ..)| *address).find(|address| *address >= 1 << 63);
    let Some(text_start) = text_start else {
        println!("addresses are hidden here: only the problem is checked");
        let address = VirtualAddress(0xffff_ffff_8100_0000);
        let resolved = symbolizer.lookup(PID, address, CpuMode::Kernel);
        assert_eq!(symbolizer.routine(resolved.routine).name, "unknown in [kernel]");
        let problem = symbolizer.problems().iter().next().expect("one");
        assert_eq!(problem.kind, ProblemKind::KernelNames);
        assert!(problem.remedy.contains("kptr_restrict") || problem.remedy.contains("readable"), "{problem}");
        return;
    };
    let kernel = mmap(Pid(-1), CpuMode::Kernel, text_start & !0xfff, 0x4000_0000, "[kernel.kallsyms]_text");
    symbolizer.spaces_mut().mmap(&kernel);
    let functions: Vec<_> =
        symbols.iter().filter(|symbol| "tT".contains(symbol.1) && symbol.0 >= text_start).collect();
    for (address, _, name) in functions.iter().step_by(97) {
        let resolved = symbolizer.lookup(PID, VirtualAddress(*address), CpuMode::Kernel);
        let routine = symbolizer.routine(resolved.routine);
        let linkage_name = routine.linkage_name.as_deref().unwrap_or_default();
        let aliases: Vec<&str> =
            functions.iter().filter(|other| other.0 == *address).map(|other| other.2).collect();
        assert!(aliases.contains(&linkage_name), "{name} at {address:#x} is {routine:?}");
        assert_eq!(resolved.offset, 0);
        let image = symbolizer.image(resolved.image.expect("an image"));
        assert_eq!(image.kind, ImageKind::Kernel);
    }
}
