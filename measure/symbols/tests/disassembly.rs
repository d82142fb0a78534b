//! Disassembly compared with `objdump -d`, over a real server's code.

mod common;

use common::{compile, lookup, options, text, tool};
use hardmeter_symbols::{DisassemblyError, Flow, ImageAddress, Symbolizer, Syntax};
use std::path::{Path, PathBuf};

/// Address, bytes and text of each instruction, by objdump.
fn objdump(path: &Path, start: u64, end: u64) -> Vec<(u64, usize, String)> {
    let start = format!("--start-address={start:#x}");
    let end = format!("--stop-address={end:#x}");
    let listing =
        tool("objdump", &["-d", "--insn-width=16", "--no-addresses", "-w", &start, &end, text(path)]);
    let _ = listing;
    let listing = tool("objdump", &["-d", "-w", &start, &end, text(path)]);
    let instruction = |line: &str| {
        let mut columns = line.split('\t');
        let address = columns.next()?.trim().strip_suffix(':')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let length = columns.next()?.split_whitespace().count();
        Some((address, length, columns.next().unwrap_or("").trim().to_owned()))
    };
    listing.lines().filter_map(instruction).collect()
}

/// Texts are compared without stylistic differences of the two tools: blanks, comments, targets.
fn normalised(text: &str) -> String {
    let text = text.split(['#', '<']).next().unwrap_or("");
    // objdump prints padding prefixes one by one: `data16 cs nopw 0x0(...)` is `nopw %cs:0x0(...)`.
    if text.contains("nopw ") {
        return "nopw".to_owned();
    }
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let is_branch = words.first().is_some_and(|word| word.starts_with('j') || *word == "call");
    if let (true, Some(last)) = (is_branch, words.last_mut()) {
        *last = last.trim_start_matches("0x");
    }
    words.join(" ")
}

fn postgres() -> Option<PathBuf> {
    let path = PathBuf::from("/usr/lib/postgresql/15/bin/postgres");
    if !path.exists() || !cfg!(target_arch = "x86_64") {
        println!("skipped: {} (x86-64) is not there", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn a_servers_code_reads_as_by_objdump() {
    let Some(path) = postgres() else { return };
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let segment = common::segments(&path).into_iter().find(|segment| segment.executable).expect("code");
    // A quarter of a mebibyte from the middle of the text.
    let start = common::nm(&path, &["-D"])
        .into_iter()
        .filter(|symbol| symbol.kind == 'T' && symbol.address > segment.address + segment.file_size / 2)
        .map(|symbol| symbol.address)
        .min()
        .expect("an exported function");
    let end = start + (256 << 10);
    let image = lookup(&mut symbolizer, start).1.image.expect("an image");
    let ours = symbolizer
        .disassemble(image, ImageAddress(start)..ImageAddress(end), Syntax::Att)
        .expect("x86-64 code");
    let theirs = objdump(&path, start, end);
    assert!(theirs.len() > 10_000);
    let mut different = 0;
    // The last instruction may be cut by the end of the range.
    for (our, their) in ours.iter().zip(&theirs[..theirs.len() - 1]) {
        assert_eq!((our.address.0, usize::from(our.length)), (their.0, their.1), "{our:?} {their:?}");
        if normalised(&our.text) != normalised(&their.2) {
            different += 1;
            if different < 40 {
                println!("{:#x}: {} | {}", our.address.0, our.text, their.2);
            }
        }
    }
    println!("{} instructions, {different} texts differ", theirs.len());
    // The remaining differences are stylistic, too: `shr $0x1,%rdx` is `shr %rdx`, `imul $3,%eax` is `imul
    // $3,%eax,%eax`.
    assert!(different * 200 < theirs.len(), "{different} of {}", theirs.len());
}

#[test]
fn calls_and_variables_are_named() {
    const SOURCE: &str = r#"
    #include <stdlib.h>
    int counter;
    __attribute__((noinline)) int callee(int n) { return counter += n; }
    int main(int argc, char **argv) { free(argv); return callee(argc) + 1; }
    "#;
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", SOURCE, &["-O1"]);
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let mut comments = |name: &str, syntax| {
        let function = common::address_of(&path, name);
        let image = lookup(&mut symbolizer, function.address).1.image.expect("an image");
        let range = ImageAddress(function.address)..ImageAddress(function.address + function.size);
        let listed = symbolizer.disassemble(image, range, syntax).expect("x86-64 code");
        assert_eq!(listed.last().expect("at least one").flow, Flow::Return);
        listed.into_iter().filter_map(|instruction| instruction.comment).collect::<Vec<_>>()
    };
    assert_eq!(comments("main", Syntax::Att), ["<free@plt>", "<callee>"]);
    let counter = common::address_of(&path, "counter").address;
    let named = format!("# {counter:#x} <counter>");
    assert!(comments("callee", Syntax::Intel).iter().all(|comment| *comment == named));
}

#[test]
fn code_of_another_architecture_is_refused() {
    const SOURCE: &str = "int main(void) { return 0; }";
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", SOURCE, &[]);
    let main = common::address_of(&path, "main");
    // e_machine, at byte 18 of the header, becomes EM_AARCH64 (183).
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    std::fs::write(&path, bytes).expect("written");
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let image = lookup(&mut symbolizer, main.address).1.image.expect("an image");
    let range = ImageAddress(main.address)..ImageAddress(main.address + main.size);
    let refused = symbolizer.disassemble(image, range, Syntax::Att).expect_err("not x86-64");
    assert!(matches!(refused, DisassemblyError::Architecture { .. }));
    assert!(refused.to_string().contains("Aarch64"), "{refused}");
}
