//! Small programs with known symbols, lines and stubs. Oracles: nm, addr2line, objdump.

mod common;

use common::{address_of, compile, lookup, name_at, nm, options, text, tool, NmSymbol};
use hardmeter_samples::model::VirtualAddress;
use hardmeter_symbols::{BuildId, DataPlace, ImageAddress, ProblemKind, RoutineKind, Symbolizer};
use std::path::{Path, PathBuf};

/// Exported and static functions that are not inlined; variables in each kind of section.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int initialised = 7;
int in_bss[1000];
static int static_in_bss[1000];
const char constant[] = "constant";
__attribute__((noinline)) static int hidden_one(int n) { return n * 3 + in_bss[n & 7]; }
__attribute__((noinline)) int exported(int n) { return hidden_one(n) + initialised; }
__attribute__((noinline)) static int hidden_two(int n) { return n * 5 + static_in_bss[n & 7]++; }
int main(int argc, char **argv) {
    void *memory = malloc(exported(argc));
    printf("%p %s %d\n", memory, constant, hidden_two(argc));
    return 0;
}
"#;

fn program(directory: &Path, name: &str, extra: &[&str]) -> PathBuf {
    let mut all = vec!["-O1", "-g", "-rdynamic", "-Wl,--build-id"];
    all.extend(extra);
    compile(directory, name, PROGRAM, &all)
}

fn build_id(path: &Path) -> BuildId {
    let notes = tool("readelf", &["-n", text(path)]);
    let hex = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).expect("a build id");
    let byte = |index: usize| u8::from_str_radix(&hex[index..index + 2], 16).expect("hexadecimal");
    BuildId::new(&(0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>()).expect("not zero")
}

fn kinds(symbolizer: &Symbolizer) -> Vec<ProblemKind> {
    symbolizer.problems().iter().map(|problem| problem.kind).collect()
}

#[test]
fn every_function_of_an_unstripped_program_is_named_as_by_nm() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let functions: Vec<_> = nm(&path, &[]).into_iter().filter(|symbol| "Tt".contains(symbol.kind)).collect();
    assert!(functions.iter().any(|function| function.name == "hidden_one"));
    for function in functions {
        let last = function.size - 1;
        assert_eq!(name_at(&mut symbolizer, function.address + last), format!("{}+{last:#x}", function.name));
    }
    assert!(symbolizer.problems().is_empty());
}

#[test]
fn a_stripped_static_function_has_no_name_but_a_range() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let [one, two, exported, main] =
        ["hidden_one", "hidden_two", "exported", "main"].map(|name| address_of(&path, name));
    tool("strip", &[text(&path)]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    // The compiler decides on the order; `main` is exported, too.
    let place = |hidden: &NmSymbol| {
        let behind = [&exported, &main].into_iter().filter(|next| next.address > hidden.address);
        let next = behind.min_by_key(|next| next.address).expect("an exported function behind it");
        let until = hidden.address..next.address;
        let number = [&one, &two].into_iter().filter(|other| until.contains(&other.address)).count();
        format!("{number} before {}", next.name)
    };
    for hidden in [&one, &two] {
        let (routine, resolved) = lookup(&mut symbolizer, hidden.address + 1);
        assert_eq!(routine.kind, RoutineKind::StaticFunction);
        assert_eq!(routine.name, format!("static function {}", place(hidden)));
        assert_eq!((routine.start, routine.size), (ImageAddress(hidden.address), hidden.size));
        assert_eq!(resolved.offset, 1);
    }
    assert_eq!(name_at(&mut symbolizer, main.address + 3), "main+0x3");
    assert_eq!(kinds(&symbolizer), [ProblemKind::NoStaticNames]);
}

#[test]
fn separate_debug_files_are_found_by_build_id_and_by_link() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let hidden = address_of(&path, "hidden_one");
    let debug = directory.path().join("program.debug");
    tool("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    tool("strip", &[text(&path)]);

    // 1. DIR/.build-id/ab/cdef.debug
    let id = build_id(&path).to_string();
    let store = directory.path().join("debug");
    let by_id = store.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    std::fs::create_dir_all(by_id.parent().expect("a parent")).expect("made");
    std::fs::copy(&debug, &by_id).expect("copied");
    let mut symbolizer = Symbolizer::new(options(&[&store]));
    common::load(&mut symbolizer, &path);
    assert_eq!(name_at(&mut symbolizer, hidden.address), "hidden_one+0x0");
    let image = lookup(&mut symbolizer, hidden.address).1.image.expect("an image");
    let frames = symbolizer.lines(image, ImageAddress(hidden.address));
    assert_eq!(frames[0].function.as_deref(), Some("hidden_one"));

    // 2. .gnu_debuglink, beside the program
    tool("objcopy", &[&format!("--add-gnu-debuglink={}", text(&debug)), text(&path)]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    assert_eq!(name_at(&mut symbolizer, hidden.address), "hidden_one+0x0");
}

#[test]
fn a_debug_link_without_build_id_is_proven_by_its_checksum() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &["-Wl,--build-id=none"]);
    let hidden = address_of(&path, "hidden_one");
    let debug = directory.path().join("program.debug");
    tool("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    tool("strip", &[text(&path)]);
    tool("objcopy", &[&format!("--add-gnu-debuglink={}", text(&debug)), text(&path)]);
    let name = |path: &Path| {
        let mut symbolizer = Symbolizer::new(options(&[]));
        common::load(&mut symbolizer, path);
        lookup(&mut symbolizer, hidden.address).0
    };
    assert_eq!(name(&path).name, "hidden_one");
    // One byte more, and it is another file.
    let mut bytes = std::fs::read(&debug).expect("read");
    bytes.push(0);
    std::fs::write(&debug, bytes).expect("written");
    assert_eq!(name(&path).kind, RoutineKind::StaticFunction);
}

#[test]
fn mini_debug_info_names_static_functions() {
    if std::process::Command::new("xz").arg("--version").output().is_err() {
        println!("skipped: xz is not installed (apt install xz-utils)");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let hidden = address_of(&path, "hidden_two");
    // As in Fedora: debug symbols without DWARF, compressed by xz, as a section of the stripped program.
    let mini = directory.path().join("mini");
    tool("objcopy", &["--only-keep-debug", text(&path), text(&mini)]);
    tool("strip", &["-g", text(&mini)]);
    tool("xz", &[text(&mini)]);
    tool("strip", &[text(&path)]);
    let section = format!(".gnu_debugdata={}.xz", text(&mini));
    tool("objcopy", &["--add-section", &section, text(&path)]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    assert_eq!(name_at(&mut symbolizer, hidden.address + 2), "hidden_two+0x2");
}

#[test]
fn a_file_of_another_build_gives_no_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let ran = program(directory.path(), "ran", &[]);
    let now = program(directory.path(), "now", &["-DOTHER", "-O0"]);
    let main = address_of(&now, "main");
    let expected = build_id(&ran);
    assert_ne!(expected, build_id(&now));

    // The build id comes from the mapping (MMAP2) or the capture's header.
    let mut by_mapping = Symbolizer::new(options(&[]));
    common::load_as(&mut by_mapping, &now, text(&now), Some(expected.as_bytes()));
    let mut by_header = Symbolizer::new(options(&[]));
    by_header.expect_builds([(text(&now).to_owned(), expected.clone())]);
    common::load(&mut by_header, &now);
    for symbolizer in [&mut by_mapping, &mut by_header] {
        let (routine, _) = lookup(symbolizer, main.address);
        assert_eq!(routine.kind, RoutineKind::UnknownInImage);
        assert_eq!(routine.name, "unknown in now");
        assert_eq!(kinds(symbolizer), [ProblemKind::OtherBuild]);
        let said = symbolizer.problems().iter().next().expect("one").to_string();
        assert!(said.contains(&expected.to_string()) && said.contains("--sysroot"), "{said}");
    }

    // With the right id, names are found again; older perf versions pad the id with zeros.
    let mut padded = build_id(&now).as_bytes().to_vec();
    padded.resize(24, 0);
    let mut right = Symbolizer::new(options(&[]));
    common::load_as(&mut right, &now, text(&now), Some(&padded));
    assert_eq!(name_at(&mut right, main.address), "main+0x0");
}

#[test]
fn missing_deleted_and_foreign_files_are_stated() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let main = address_of(&path, "main");
    let cases = [
        (directory.path().join("nowhere"), "", ProblemKind::ImageUnreadable),
        // The path may now have the successor: without a build id it is not used.
        (path.clone(), " (deleted)", ProblemKind::ImageDeleted),
        (directory.path().join("program.c"), "", ProblemKind::ImageMalformed),
    ];
    for (shown, suffix, kind) in cases {
        let mut symbolizer = Symbolizer::new(options(&[]));
        common::load_as(&mut symbolizer, &path, &format!("{}{suffix}", text(&shown)), None);
        for offset in 0..3 {
            let (routine, _) = lookup(&mut symbolizer, main.address + offset);
            assert_eq!(routine.kind, RoutineKind::UnknownInImage);
        }
        assert_eq!(kinds(&symbolizer), [kind]);
    }
    // With a build id the successor is proven to be the same file after all.
    let mut symbolizer = Symbolizer::new(options(&[]));
    let id = build_id(&path);
    common::load_as(&mut symbolizer, &path, &format!("{} (deleted)", text(&path)), Some(id.as_bytes()));
    assert_eq!(name_at(&mut symbolizer, main.address), "main+0x0");
}

#[test]
fn a_sysroot_goes_before_the_machine_itself() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let root = directory.path().join("root");
    std::fs::create_dir_all(root.join("opt/server")).expect("made");
    std::fs::copy(&path, root.join("opt/server/program")).expect("copied");
    let mut symbolizer =
        Symbolizer::new(hardmeter_symbols::SymbolizerOptions { sysroot: Some(root.clone()), ..options(&[]) });
    common::load_as(&mut symbolizer, &path, "/opt/server/program", None);
    let main = address_of(&path, "main");
    assert_eq!(name_at(&mut symbolizer, main.address), "main+0x0");
    let image = lookup(&mut symbolizer, main.address).1.image.expect("an image");
    assert_eq!(symbolizer.image_file(image), Some(root.join("opt/server/program").as_path()));
    assert_eq!(symbolizer.build_id(image), Some(build_id(&path)));
}

#[test]
fn variables_are_named_in_every_section() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let symbols = ["initialised", "in_bss", "static_in_bss", "constant"].map(|name| address_of(&path, name));
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    for symbol in &symbols {
        let address = VirtualAddress(common::BIAS + symbol.address + 3);
        let found = symbolizer.lookup_data(common::PID, address);
        let expected =
            DataPlace::Variable { name: symbol.name.as_str().into(), offset: 3, size: symbol.size };
        assert_eq!((found.place, found.address), (expected, Some(ImageAddress(symbol.address + 3))));
    }
    // Stripped, the static array is an unnamed part of .bss.
    tool("strip", &[text(&path)]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let hidden = VirtualAddress(common::BIAS + symbols[2].address);
    let found = symbolizer.lookup_data(common::PID, hidden);
    assert_eq!(found.place, DataPlace::Section { name: ".bss".into() });
    // An address below all mappings has no name, and neither has one far beyond the end of the program's
    // .bss.
    for nowhere in [0x1000, common::BIAS + 0x1000_0000] {
        assert_eq!(symbolizer.lookup_data(common::PID, VirtualAddress(nowhere)).place, DataPlace::Unknown);
    }
}

#[test]
fn linkage_stubs_are_named_as_by_objdump() {
    let directory = tempfile::tempdir().expect("a directory");
    let styles: [(&str, &[&str]); 3] = [
        ("lazy", &["-Wl,-z,lazy", "-fcf-protection=none"]),
        ("now", &["-Wl,-z,now", "-fcf-protection=none"]),
        ("protected", &["-Wl,-z,lazy", "-fcf-protection=full", "-Wl,-z,ibtplt"]),
    ];
    for (name, extra) in styles {
        let path = program(directory.path(), name, extra);
        let mut symbolizer = Symbolizer::new(options(&[]));
        common::load(&mut symbolizer, &path);
        let listing = tool("objdump", &["-d", "-j.plt", "-j.plt.got", "-j.plt.sec", text(&path)]);
        // 0000000000001030 <printf@plt>:
        let label = |line: &str| {
            let (address, rest) = line.split_once(" <")?;
            let stub = rest.strip_suffix("@plt>:")?;
            Some((u64::from_str_radix(address, 16).ok()?, stub.to_owned()))
        };
        let stubs: Vec<(u64, String)> = listing.lines().filter_map(label).collect();
        for wanted in ["printf", "malloc"] {
            assert!(stubs.iter().any(|(_, stub)| stub == wanted), "{name}: {stubs:?}");
        }
        for (address, stub) in stubs {
            // With control-flow protection objdump gives one name to .plt and .plt.sec stubs.
            let (routine, resolved) = lookup(&mut symbolizer, address + 4);
            assert_eq!((routine.kind, resolved.offset), (RoutineKind::PltStub, 4), "{name} {stub}");
            if routine.linkage_name.is_some() {
                assert_eq!(routine.name, format!("{stub}@plt"), "{name}");
            } else {
                assert_eq!((name, routine.name.as_str()), ("protected", "linkage stub in protected"));
            }
        }
    }
}

/// Inlining two deep, in C++, so that names need demangling.
const INLINES: &str = r#"
namespace store {
int table[4096];
__attribute__((always_inline)) inline int probe(int key) { return table[(key * 31) & 4095]; }
__attribute__((always_inline)) inline int find(int key) {
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += probe(key + i);
    return sum;
}
__attribute__((noinline)) int lookup(int key) { return find(key) + find(key * 7); }
}
int main(int argc, char **) { return store::lookup(argc); }
"#;

/// The frames of each instruction of `store::lookup`, by `addr2line -i -f -C` and by us.
#[test]
fn lines_and_inline_frames_are_those_of_addr2line() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, dwarf) in [("dwarf4", "-gdwarf-4"), ("dwarf5", "-gdwarf-5")] {
        let path = compile(directory.path(), name, INLINES, &["-O2", dwarf]);
        let function = address_of(&path, "_ZN5store6lookupEi");
        let mut symbolizer = Symbolizer::new(options(&[]));
        common::load(&mut symbolizer, &path);
        let (routine, resolved) = lookup(&mut symbolizer, function.address);
        assert_eq!(routine.name, "store::lookup(int)");
        let image = resolved.image.expect("an image");
        let mut deepest = 0;
        for address in function.address..function.address + function.size {
            let listing = tool("addr2line", &["-i", "-f", "-C", "-e", text(&path), &format!("{address:#x}")]);
            let expected: Vec<&str> = listing.lines().collect();
            let frames = symbolizer.lines(image, ImageAddress(address));
            // Two lines per frame: function, then file:line with an optional discriminator. addr2line prints the
            // names of inlined C++ functions from DWARF without parameters.
            assert_eq!(frames.len() * 2, expected.len(), "{address:#x}: {frames:?} {expected:?}");
            for (frame, pair) in frames.iter().zip(expected.chunks(2)) {
                let function = frame.function.as_deref().expect("a name");
                assert_eq!(function.split('(').next(), pair[0].split('(').next(), "{address:#x}");
                let place = pair[1].split(" (discriminator").next().expect("a part");
                let line = frame.line.map_or("?".to_owned(), |line| line.to_string());
                assert_eq!(
                    place,
                    format!("{}:{line}", frame.file.as_deref().unwrap_or("??")),
                    "{address:#x}"
                );
            }
            let inlined: Vec<bool> = frames.iter().map(|frame| frame.inlined).collect();
            assert!(inlined.iter().rev().skip(1).all(|inlined| *inlined) && !inlined[frames.len() - 1]);
            deepest = deepest.max(frames.len());
        }
        assert_eq!(deepest, 3, "probe in find in lookup");
    }
}

#[test]
fn a_program_without_lines_says_so_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", PROGRAM, &["-O1"]);
    let main = address_of(&path, "main");
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let image = lookup(&mut symbolizer, main.address).1.image.expect("an image");
    for offset in 0..4 {
        assert!(symbolizer.lines(image, ImageAddress(main.address + offset)).is_empty());
    }
    assert_eq!(kinds(&symbolizer), [ProblemKind::NoLines]);
}

/// Hand-written assembler without sizes: the unwind range limits one symbol, the next symbol the other.
#[test]
fn symbols_without_a_size_are_bounded() {
    const SOURCE: &str = r#"
    asm(".text\n.globl sizeless\n.type sizeless,@function\nsizeless: .cfi_startproc\n nop\n nop\n ret\n .cfi_endproc\n"
        ".type after,@function\nafter: ret\n nop\n nop\n"
        ".globl last\n.type last,@function\nlast: ret\n");
    int main(void) { return 0; }
    "#;
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", SOURCE, &["-rdynamic"]);
    let symbols = tool("nm", &[text(&path)]);
    let line = symbols.lines().find(|line| line.ends_with(" T sizeless")).expect("the symbol");
    let start = u64::from_str_radix(&line[..16], 16).expect("an address");
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let names = |symbolizer: &mut Symbolizer| -> Vec<String> {
        (0..7).map(|offset| lookup(symbolizer, start + offset).0.name).collect()
    };
    let full = ["sizeless", "sizeless", "sizeless", "after", "after", "after", "last"];
    assert_eq!(names(&mut symbolizer), full);
    // Stripped, `after` is missing, and nothing limits the range: it must not become part of `sizeless`.
    tool("strip", &[text(&path)]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let unknown = "unknown in program";
    assert_eq!(
        names(&mut symbolizer),
        ["sizeless", "sizeless", "sizeless", unknown, unknown, unknown, "last"]
    );
}

/// A sysroot means that the capture is of another machine: a missing file must not be taken from this one.
#[test]
fn a_sysroot_without_the_file_gives_no_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = program(directory.path(), "program", &[]);
    let root = directory.path().join("root");
    std::fs::create_dir(&root).expect("made");
    let mut symbolizer =
        Symbolizer::new(hardmeter_symbols::SymbolizerOptions { sysroot: Some(root), ..options(&[]) });
    common::load(&mut symbolizer, &path);
    let main = address_of(&path, "main");
    assert_eq!(lookup(&mut symbolizer, main.address).0.name, "unknown in program");
    assert_eq!(kinds(&symbolizer), [ProblemKind::ImageUnreadable]);
}

/// A second entry point of another size at the same start: an address's owner is deterministic.
#[test]
fn aliases_of_different_sizes_keep_their_addresses() {
    const SOURCE: &str = r#"
    asm(".text\n.globl whole, half\n.type whole,@function\n.type half,@function\n"
        "whole: half: nop\n nop\n nop\n ret\n.size whole, 4\n.size half, 2\n");
    int main(void) { return 0; }
    "#;
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", SOURCE, &[]);
    let start = address_of(&path, "whole").address;
    let names = |order: [u64; 4]| {
        let mut symbolizer = Symbolizer::new(options(&[]));
        common::load(&mut symbolizer, &path);
        let mut named = order.map(|offset| (offset, name_at(&mut symbolizer, start + offset)));
        named.sort();
        named.map(|(_, name)| name)
    };
    let expected = ["half+0x0", "half+0x1", "whole+0x2", "whole+0x3"];
    assert_eq!(names([0, 1, 2, 3]), expected);
    assert_eq!(names([3, 2, 1, 0]), expected);
}
