//! Stripped distribution binaries: every exported function has its name, and unnamed code never gets another
//! function's. Oracles: `nm -D` and `readelf --debug-dump=frames`.

mod common;

use common::{lookup, nm, options, unwind_ranges, NmSymbol};
use hardmeter_samples::model::VirtualAddress;
use hardmeter_symbols::{DataPlace, ProblemKind, RoutineKind, Symbolizer};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The newest installed PostgreSQL server.
fn postgres() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin/postgres"))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    if found.is_empty() {
        println!("skipped: no PostgreSQL server is installed (apt install postgresql)");
    }
    found.pop()
}

fn libc() -> Option<PathBuf> {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !path.exists() {
        println!("skipped: {} is not there", path.display());
    }
    path.exists().then(|| path.to_owned())
}

fn exported_functions(path: &Path) -> Vec<NmSymbol> {
    let functions = nm(path, &["-D"]);
    functions.into_iter().filter(|symbol| "TtWwi".contains(symbol.kind)).collect()
}

/// Every exported function: its first, middle and last byte have its name (or an alias's) and offset.
fn exported_functions_have_their_names(path: &Path) -> usize {
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, path);
    let functions = exported_functions(path);
    let mut names: HashMap<u64, Vec<&str>> = HashMap::new();
    for function in &functions {
        names.entry(function.address).or_default().push(&function.name);
    }
    for function in &functions {
        for offset in [0, function.size / 2, function.size - 1] {
            let (routine, resolved) = lookup(&mut symbolizer, function.address + offset);
            assert_eq!(routine.kind, RoutineKind::Function, "{function:?} +{offset:#x}: {routine:?}");
            let linkage_name = routine.linkage_name.as_deref().expect("a function has a symbol");
            let linkage_name = linkage_name.split('@').next().expect("at least one part");
            // If an exported symbol lies inside another, the start decides.
            assert!(
                names[&routine.start.0].contains(&linkage_name),
                "{function:?} +{offset:#x}: {routine:?}"
            );
            assert_eq!(routine.start.0 + resolved.offset, function.address + offset);
            if offset == 0 {
                assert_eq!(routine.start.0, function.address, "{function:?}: {routine:?}");
            }
        }
    }
    functions.len()
}

/// Every unwind range without an exported function is a static function of its own, at both ends. No two have one
/// description, but in libc, which has several versions of a name.
fn static_functions_keep_to_themselves(path: &Path) -> usize {
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, path);
    let exported: BTreeMap<u64, u64> = exported_functions(path)
        .iter()
        .map(|function| (function.address, function.address + function.size))
        .collect();
    let mut count = 0;
    let mut descriptions = HashSet::new();
    for (start, end) in unwind_ranges(path) {
        // Exported functions that begin before the end of the range; checking the last few suffices.
        let touched = exported.range(..end).rev().take(16).any(|(_, function_end)| *function_end > start);
        // Exported names without a size (assembler) may cover a range, too; nm -S lists only sized ones.
        if touched || start == 0 {
            continue;
        }
        let (routine, _) = lookup(&mut symbolizer, start);
        if routine.kind == RoutineKind::StaticFunction {
            let of_libc = path.ends_with("libc.so.6");
            assert!(routine.name.starts_with("static function "), "{routine:?}");
            assert_eq!(routine.name.ends_with(" in libc.so.6"), of_libc, "{routine:?}");
            assert!(descriptions.insert(routine.name.clone()) || of_libc, "twice: {routine:?}");
        }
        for address in [start, start + (end - start) / 2, end - 1] {
            let (routine, resolved) = lookup(&mut symbolizer, address);
            match routine.kind {
                RoutineKind::StaticFunction => {
                    assert_eq!((resolved.offset, routine.size), (address - start, end - start));
                }
                // The range over .plt holds many stubs.
                RoutineKind::PltStub => {}
                RoutineKind::Function => {
                    assert_eq!(routine.start.0, start, "{address:#x} has a neighbour's name: {routine:?}");
                }
                _ => panic!("{address:#x} has an unwind range, but is {routine:?}"),
            }
        }
        count += 1;
    }
    assert!(symbolizer.problems().iter().any(|problem| problem.kind == ProblemKind::NoStaticNames));
    count
}

#[test]
fn postgres_functions() {
    let Some(path) = postgres() else { return };
    let exported = exported_functions_have_their_names(&path);
    let nameless = static_functions_keep_to_themselves(&path);
    println!("{}: {exported} exported functions, {nameless} static functions", path.display());
    assert!(exported > 1_000 && nameless > 1_000);
}

#[test]
fn libc_functions() {
    let Some(path) = libc() else { return };
    let exported = exported_functions_have_their_names(&path);
    let nameless = static_functions_keep_to_themselves(&path);
    println!("{}: {exported} exported functions, {nameless} static functions", path.display());
    assert!(exported > 1_000 && nameless > 100);
}

/// The globals that a server's extensions use have their names, in .data, .rodata and .bss.
#[test]
fn postgres_variables() {
    let Some(path) = postgres() else { return };
    let mut symbolizer = Symbolizer::new(options(&[]));
    common::load(&mut symbolizer, &path);
    let variables: Vec<NmSymbol> =
        nm(&path, &["-D"]).into_iter().filter(|symbol| "BbDdRrVGS".contains(symbol.kind)).collect();
    let mut in_bss = 0;
    for variable in &variables {
        let address = VirtualAddress(common::BIAS + variable.address + variable.size - 1);
        let found = symbolizer.lookup_data(common::PID, address);
        let DataPlace::Variable { name, offset, .. } = &found.place else {
            panic!("{variable:?}: {found:?}")
        };
        let aliases = variables.iter().filter(|other| other.address == variable.address);
        assert!(aliases.clone().any(|alias| alias.name == **name), "{variable:?}: {found:?}");
        assert_eq!(*offset, variable.size - 1);
        in_bss += usize::from("Bb".contains(variable.kind));
    }
    println!("{} variables, {in_bss} of them in .bss", variables.len());
    assert!(in_bss > 100);
}

/// Lines of libc, where its debug symbols are installed (libc6-dbg), by addr2line and by us.
#[test]
fn libc_lines() {
    let Some(path) = libc() else { return };
    let mut symbolizer = Symbolizer::new(Default::default());
    common::load(&mut symbolizer, &path);
    let addresses: Vec<u64> =
        exported_functions(&path).iter().step_by(23).map(|function| function.address + 4).collect();
    let (_, resolved) = lookup(&mut symbolizer, addresses[0]);
    let image = resolved.image.expect("an image");
    if symbolizer.lines(image, resolved.address).is_empty() {
        println!("skipped: libc has no line information here (apt install libc6-dbg)");
        return;
    }
    let hexadecimal: Vec<String> = addresses.iter().map(|address| format!("{address:#x}")).collect();
    let mut arguments = vec!["-e", common::text(&path)];
    arguments.extend(hexadecimal.iter().map(String::as_str));
    let listing = common::tool("addr2line", &arguments);
    let mut different = 0;
    for (address, expected) in addresses.iter().zip(listing.lines()) {
        let frames = symbolizer.lines(image, hardmeter_symbols::ImageAddress(*address));
        let found =
            frames.first().and_then(|frame| frame.line).map_or("?".to_owned(), |line| line.to_string());
        // Line numbers only: for DWARF 5, addr2line 2.40 prints the wrong file (getpwent_r.c:123, where `objdump
        // --dwarf=decodedline` prints getXXent_r.c:123, as Hardmeter does). Line 0 means no line.
        let line = expected.split(" (").next().and_then(|place| place.rsplit(':').next());
        let expected = line.filter(|line| *line != "0").unwrap_or("?");
        if found != expected {
            println!("{address:#x}: {frames:?} | {expected}");
            different += 1;
        }
    }
    println!("{} addresses, {different} differ", addresses.len());
    assert!(addresses.len() > 100 && different * 50 < addresses.len());
}
