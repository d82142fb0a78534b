//! Operators of extensions: code of a library that was compiled from certain source files.
//!
//! Debug information has the source file of all code (PGXS compiles with it). A library without it has the
//! file of each static function in its symbol table. Its other functions are not marked, so they belong to
//! their callers: mostly static functions of the same operator. Assigning them as in the server's own program
//! would be wrong for one in five: files without static functions are between those that have some.
//!
//! Planning code is not marked, as in the server: an operator works when it is executed.

use super::code::Functions;
use super::{operator_marks, Mark};
use crate::program::{read_file, Image, ProgramError, ProgramSymbol, SymbolClass};
use crate::source_files::source_files;
use std::path::Path;

/// Source files by name: a star stands for any text. The first match determines the operator.
type Files = &'static [(&'static str, Option<&'static str>)];

/// Libraries by the name of their file, without its ending. Others are attributed to their callers.
const LIBRARIES: [(&str, Files); 1] = [(
    "ccopt",
    &[
        // Planning.
        ("*_plan.c", None),
        ("*_path.c", None),
        ("batch_join_query.c", None),
        ("buffer_legal.c", None),
        ("buffer_paper.c", None),
        ("qual_parse.c", None),
        ("batch_scan_*.c", Some("BatchScan")),
        ("page_reader*.c", Some("BatchScan")),
        ("walk*.c", Some("BatchScan")),
        ("qual*.c", Some("BatchScan")),
        ("batch_agg_*.c", Some("BatchAgg")),
        ("group_table*.c", Some("BatchAgg")),
        ("transitions*.c", Some("BatchAgg")),
        ("vector_expression*.c", Some("BatchAgg")),
        ("batch_join_*.c", Some("BatchHashJoin")),
        ("join_table*.c", Some("BatchHashJoin")),
        ("buffer_*.c", Some("Buffer")),
        ("key_sort*.c", Some("Buffer")),
        ("hash_prefetch*.c", Some("Buffer")),
        // Without attach.c: the start of every plan runs inside it.
    ],
)];

/// Larger libraries are not read.
const SIZE_LIMIT: u64 = 256 << 20;

/// The source files of a library that has operators.
fn files_of(library: &Path) -> Option<Files> {
    let name = library.file_name()?.to_str()?.strip_suffix(".so")?;
    LIBRARIES.iter().find(|(known, _)| *known == name).map(|(_, files)| *files)
}

/// True if a library has operators, by its name.
pub(crate) fn is_known(library: &Path) -> bool {
    files_of(library).is_some()
}

/// The names of such libraries' files.
pub(crate) fn known() -> impl Iterator<Item = String> {
    LIBRARIES.iter().map(|(name, _)| format!("{name}.so"))
}

/// The operator of a source file, by its path.
fn owner_of(files: Files, source: &str) -> Option<&'static str> {
    let name = source.rsplit('/').next().unwrap_or(source);
    let fits = |pattern: &str| match pattern.split_once('*') {
        Some((head, tail)) => {
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        }
        None => name == pattern,
    };
    files.iter().find(|(pattern, _)| fits(pattern)).and_then(|(_, operator)| *operator)
}

/// The marks of a library; `file` is the path at which it can be read.
pub(crate) fn marks_of(library: &Path, file: &Path) -> Result<Vec<Mark>, ProgramError> {
    let Some(files) = files_of(library) else { return Ok(Vec::new()) };
    let bytes = read_file(file, SIZE_LIMIT)?;
    let mut marks = by_debug_information(files, &bytes);
    if marks.is_empty() {
        marks = by_symbols(files, &Image::parse_file(file, &bytes)?);
    }
    Ok(marks)
}

fn by_debug_information(files: Files, bytes: &[u8]) -> Vec<Mark> {
    let mut code = source_files(bytes);
    code.sort_by_key(|(range, _)| (range.start, range.end));
    operator_marks(code.into_iter().filter_map(|(range, source)| Some((range, owner_of(files, &source)?))))
}

fn by_symbols(files: Files, image: &Image) -> Vec<Mark> {
    let functions = Functions::of(image);
    let of_static = |symbol: &ProgramSymbol| {
        let index = functions.index(symbol.address)?;
        Some((functions.range(index), owner_of(files, symbol.file.as_deref()?)?))
    };
    let symbols = image.symbols().iter().filter(|symbol| symbol.class == SymbolClass::Function);
    operator_marks(symbols.filter_map(of_static))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::process::Command;

    #[test]
    fn files_by_name() {
        let files = files_of(Path::new("/usr/lib/postgresql/15/lib/ccopt.so")).expect("known");
        let of = |source| owner_of(files, source);
        assert_eq!(of("../../../planner/src/batch_scan_exec.c"), Some("BatchScan"));
        assert_eq!((of("walk.c"), of("qual_numbers.c")), (Some("BatchScan"), Some("BatchScan")));
        assert_eq!((of("group_table_find.c"), of("transitions.c")), (Some("BatchAgg"), Some("BatchAgg")));
        assert_eq!((of("join_table_row.c"), of("key_sort.c")), (Some("BatchHashJoin"), Some("Buffer")));
        assert_eq!((of("batch_scan_plan.c"), of("qual_parse.c")), (None, None), "they plan");
        assert_eq!((of("decode.c"), of("batch.c"), of("attach.c")), (None, None, None));
        assert!(!is_known(Path::new("/lib/libc.so.6")) && !is_known(Path::new("/bin/ccopt")));
    }

    /// Two operators that call a third file; with and without debug information.
    #[test]
    fn marks_of_a_library_by_its_sources() {
        let folder = tempfile::tempdir().expect("a folder");
        let sources = [
            ("batch_agg_exec.c", "extern int batch_decode(int); static __attribute__((noinline)) int absorb(int a) { return batch_decode(a) * 3; } int agg(int a) { return absorb(a) + 1; }"),
            ("decode.c", "int batch_decode(int a) { return a * 7; }"),
            ("walk.c", "extern int batch_decode(int); static __attribute__((noinline)) int step(int a) { return batch_decode(a) + 5; } int walk(int a) { return step(a) * 2; }"),
        ];
        for (name, text) in sources {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let library = folder.path().join("ccopt.so");
        for (option, exact) in [("-g", true), ("-g0", false)] {
            let mut compiler = Command::new("cc");
            compiler.current_dir(&folder).args(["-O1", option, "-fvisibility=hidden", "-shared", "-fPIC"]);
            compiler.args(["-o", "ccopt.so"]).args(sources.map(|(name, _)| name));
            match compiler.status() {
                Ok(status) => assert!(status.success()),
                Err(_) => return eprintln!("skipped: there is no C compiler"),
            }
            let marks = marks_of(&library, &library).expect("read");
            let image = Image::read(&library).expect("read");
            let at = |name: &str| {
                let address = image.symbol(name).expect("a function").address;
                marks.iter().find(|mark| mark.range.contains(&address)).map(|mark| mark.name)
            };
            assert_eq!((at("absorb"), at("step")), (Some("BatchAgg"), Some("BatchScan")), "{option}");
            if exact {
                assert_eq!((at("agg"), at("walk")), (Some("BatchAgg"), Some("BatchScan")));
                assert_eq!(at("batch_decode"), None, "it belongs to whoever calls it");
            }
        }
        std::fs::write(&library, b"\x7fELF\x02\x01\x01 and then nothing").expect("written");
        assert!(marks_of(&library, &library).is_err());
    }

    /// The extension as it was built, compared with the object files from which it was linked.
    #[test]
    fn marks_of_the_planner_are_those_of_its_object_files() {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/plan/15");
        let library = built.join("ccopt.so");
        if !library.exists() {
            return eprintln!("skipped: the extension is not built (make -C plan)");
        }
        let made = |path: &Path| path.metadata().and_then(|data| data.modified()).expect("a time");
        let files = files_of(&library).expect("known");
        // Names that occur in several files are not tested.
        let mut functions: BTreeMap<String, Vec<Option<&str>>> = BTreeMap::new();
        for object in std::fs::read_dir(&built).expect("readable").flatten().map(|entry| entry.path()) {
            if object.extension().is_none_or(|ending| ending != "o") || made(&object) > made(&library) {
                continue;
            }
            let bytes = std::fs::read(&object).expect("readable");
            let parsed = object::File::parse(&*bytes).expect("an object file");
            let source = object.with_extension("c");
            for symbol in object::Object::symbols(&parsed) {
                use object::ObjectSymbol;
                if symbol.kind() == object::SymbolKind::Text && symbol.is_definition() {
                    let owner = owner_of(files, &source.to_string_lossy());
                    functions.entry(symbol.name().expect("a name").into()).or_default().push(owner);
                }
            }
        }
        functions.retain(|_, owners| owners.len() == 1);
        let image = Image::read(&library).expect("read");
        let bytes = std::fs::read(&library).expect("readable");
        for (way, marks) in
            [("debug", by_debug_information(files, &bytes)), ("symbols", by_symbols(files, &image))]
        {
            if way == "debug" && marks.is_empty() {
                eprintln!("skipped: the extension has no debug information");
                continue;
            }
            let (mut right, mut untold, mut wrong) = (0, 0, Vec::new());
            for symbol in image.symbols().iter().filter(|symbol| symbol.class == SymbolClass::Function) {
                let Some(owner) = functions.get(&symbol.name).map(|owners| owners[0]) else { continue };
                let told = marks.iter().find(|mark| mark.range.contains(&symbol.address));
                match told.map(|mark| mark.name) {
                    told if told == owner => right += 1,
                    None => untold += 1,
                    told => wrong.push((&symbol.name, told, owner)),
                }
            }
            eprintln!("by {way}: {right} functions right, {untold} not told, wrong: {wrong:?}");
            assert!(right > 200 && wrong.is_empty());
            assert!(way != "debug" || untold == 0);
        }
    }
}
