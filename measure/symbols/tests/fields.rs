//! Fields of variables and of pointers' targets. Offsets are computed by hand; each source line has one access, to
//! be checked with gdb.

mod common;

use common::{address_of, compile, text, tool, BIAS, PID};
use hardmeter_samples::model::{AccessSize, CpuMode, VirtualAddress};
use hardmeter_symbols::{
    DataField, FieldEvidence, FieldOwner, FieldTally, ImageAddress, ImageId, NoField, Symbolizer, Syntax,
};
use std::path::{Path, PathBuf};

/// counter: hits 0, misses 8 (16 bytes). stats: total 0, counters 8..72, flags in byte 72, u 80, tail 88 (96 bytes).
const GLOBALS: &str = r#"
struct counter { long hits; int misses; };
typedef struct {
    int total;
    struct counter counters[4];
    unsigned ready : 3, mode : 5;
    union { long whole; int half; };
    struct counter *tail;
} stats_t;
stats_t stats;
static short table[3][5];
struct opaque *hidden;
int plain = 7;
int main(int argc, char **argv) {
    static stats_t inner[2];
    stats.total += argc;
    inner[1].total = argc;
    table[2][3] = argc;
    return stats.total + inner[argc].total + table[argc][2] + (hidden != 0) + plain;
}
"#;

fn loaded(path: &Path) -> Symbolizer {
    let mut symbolizer = Symbolizer::new(common::options(&[]));
    common::load(&mut symbolizer, path);
    symbolizer
}

fn at(symbolizer: &mut Symbolizer, address: u64, size: u8) -> Result<DataField, NoField> {
    symbolizer.variable_field(PID, VirtualAddress(BIAS + address), AccessSize(size))
}

/// `name.path: type, start, size`
fn described(field: &DataField) -> String {
    format!("{field}: {}, {}+{}", field.type_name, field.start.0, field.size.0)
}

fn check_globals(path: &Path, names_of: &Path) {
    let mut symbolizer = loaded(path);
    let stats = address_of(names_of, "stats").address;
    let table = address_of(names_of, "table").address;
    let inner = common::nm(names_of, &[]).into_iter().find(|symbol| symbol.name.starts_with("inner."));
    let inner = inner.expect("the static variable of main").address;
    let cases = [
        (stats, 4, "stats.total: int, 0+4"),
        (stats + 8 + 3 * 16, 8, "stats.counters[3].hits: long int, 56+8"),
        (stats + 8 + 2 * 16 + 10, 1, "stats.counters[2].misses: int, 48+4"),
        (stats + 6, 1, "stats.(padding): , 4+4"),
        (stats + 72, 1, "stats.ready|mode: unsigned int, 72+1"),
        (stats + 80, 8, "stats.whole: long int, 80+8"),
        (stats + 80, 4, "stats.half: int, 80+4"),
        (stats + 88, 8, "stats.tail: struct counter *, 88+8"),
        (table + 2 * 10 + 3 * 2, 2, "table[2][3]: short int, 26+2"),
        (inner + 96 + 8, 8, "inner[1].counters[0].hits: long int, 104+8"),
        (address_of(names_of, "hidden").address, 8, "hidden: struct opaque *, 0+8"),
        (address_of(names_of, "plain").address, 4, "plain: int, 0+4"),
    ];
    for (address, size, expected) in cases {
        let field =
            at(&mut symbolizer, address, size).unwrap_or_else(|reason| panic!("{expected}: {reason}"));
        assert_eq!(described(&field), expected);
        assert_eq!(field.evidence, FieldEvidence::Address);
    }
    let field = at(&mut symbolizer, stats, 4).expect("found");
    let owner = FieldOwner::Variable { name: "stats".into(), type_name: "stats_t".into() };
    assert_eq!((field.owner, field.owner_size.0), (owner, 96));
    assert!(symbolizer.problems().is_empty());
}

#[test]
fn fields_of_variables_in_every_kind_of_debug_information() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path();
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-gdwarf-4", "-O1"],
        &["-gdwarf-2", "-gstrict-dwarf", "-O1"],
        &["-g", "-gz=zlib"],
        &["-g", "-fdebug-types-section"],
        &["-g", "-no-pie"],
    ] {
        let path = compile(directory, "program", GLOBALS, options);
        if options.contains(&"-no-pie") {
            continue; // loaded at its own address, which the helper does not support
        }
        check_globals(&path, &path);
    }
}

#[test]
fn separate_and_split_debug_files_are_read() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "program", GLOBALS, &["-g"]);
    let whole = folder.path().join("whole");
    std::fs::copy(&path, &whole).expect("copied");
    let debug = folder.path().join("program.debug");
    tool("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    tool("strip", &[text(&path)]);
    tool("objcopy", &[&format!("--add-gnu-debuglink={}", text(&debug)), text(&path)]);
    check_globals(&path, &whole);

    // The units in program-program.dwo, beside the program.
    let split = folder.path().join("split");
    std::fs::create_dir(&split).expect("made");
    let path = compile(&split, "program", GLOBALS, &["-g", "-gsplit-dwarf"]);
    let has_split_file = std::fs::read_dir(&split)
        .expect("listed")
        .any(|entry| entry.expect("an entry").path().extension().is_some_and(|extension| extension == "dwo"));
    assert!(has_split_file, "gcc -gsplit-dwarf writes a .dwo file");
    check_globals(&path, &path);
}

/// One access to memory behind a pointer on each marked line; the offsets: node next 0, key 8, value 16, more 24
/// (inner: x 24, y[4] 28..44), 48 bytes.
const POINTERS: &str = r#"
#include <stdlib.h>
#include <string.h>
struct inner { int x; int y[4]; };
typedef struct node { struct node *next; long key; double value; struct inner more; } node;
struct list { node *head; long length; };
node *global_node;
struct list lists[3];
__attribute__((noinline)) long sum(struct list *list) {
    long total = 0;
    for (node *cursor = list->head; cursor; cursor = cursor->next)    /* L1 */
        total += cursor->key;                                         /* L2 */
    return total;
}
__attribute__((noinline)) node *find(struct list *list, long key) {
    node *cursor = list->head;                                        /* L3 */
    while (cursor && cursor->key != key) cursor = cursor->next;       /* L4 */
    return cursor;
}
__attribute__((noinline)) int deep(struct list *list, int i) {
    return list->head->next->next->more.y[2]                          /* L5 */
        + list->head->more.y[i];                                      /* L6 */
}
__attribute__((noinline)) void set(struct list *list, double v) {
    find(list, 3)->value = v;                                         /* L7 */
}
__attribute__((noinline)) void set_global(int i) {
    lists[i].length = 5;                                              /* L8 */
    global_node->more.x = 1;                                          /* L9 */
}
__attribute__((noinline)) long unknown(void *memory) {
    return *(long *)memory;                                           /* L10 */
}
/* The pointer results from one of two paths; no variable holds it. */
__attribute__((noinline)) long longest(struct list *list, node *other, int i) {
    long most = (i ? list->head : other)->key;                        /* L14 */
    do {
        if (global_node->next->key > most) most = other->key;         /* L15 */
    } while (--i > 0);
    return most;
}
int main(int argc, char **argv) {
    node *nodes = calloc(4, sizeof(node));
    for (int i = 0; i < 3; i++) nodes[i].next = &nodes[i + 1];        /* L11 */
    lists[0].head = nodes;                                            /* L12 */
    global_node = nodes;
    nodes[3].key = 3;                                                 /* L13: 152 bytes behind a pointer to 48 */
    set(&lists[0], 2.5);
    set_global(argc);
    return sum(&lists[0]) + deep(&lists[0], argc) + unknown(nodes)
        + longest(&lists[0], nodes, argc);
}
"#;

struct Program {
    symbolizer: Symbolizer,
    image: ImageId,
    path: PathBuf,
}

impl Program {
    fn new(directory: &Path, options: &[&str]) -> Program {
        let path = compile(directory, "program", POINTERS, options);
        let mut symbolizer = loaded(&path);
        let main = address_of(&path, "main");
        let address = VirtualAddress(BIAS + main.address);
        let image = symbolizer.lookup(PID, address, CpuMode::User).image.expect("an image");
        Program { symbolizer, image, path }
    }

    /// The fields of a function's instructions of a source line, `text` being the mark of the line.
    fn fields(&mut self, function: &str, mark: &str) -> Vec<String> {
        let line = 1 + POINTERS.lines().position(|line| line.contains(mark)).expect("the mark") as u32;
        let mut found = Vec::new();
        for (address, answer) in self.answers(function) {
            let frames = self.symbolizer.lines(self.image, address);
            if frames.first().and_then(|frame| frame.line) == Some(line) {
                found.extend(answer.ok().map(|field| field.to_string()));
            }
        }
        found
    }

    /// All instructions that use memory.
    fn answers(&mut self, function: &str) -> Vec<(ImageAddress, Result<DataField, NoField>)> {
        let symbol = address_of(&self.path, function);
        let range = ImageAddress(symbol.address)..ImageAddress(symbol.address + symbol.size);
        let instructions = self.symbolizer.disassemble(self.image, range, Syntax::Att).expect("disassembled");
        let mut answers = Vec::new();
        for instruction in instructions.iter().filter(|instruction| !instruction.memory.is_empty()) {
            let answer = self.symbolizer.operand_field(self.image, instruction.address);
            answers.push((instruction.address, answer.map(|field| (*field).clone())));
        }
        answers
    }
}

#[test]
fn pointers_lead_to_fields_whatever_the_optimisation() {
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut program = Program::new(directory.path(), &["-g", level]);
        let cases = [
            ("sum", "L1", "struct list: head"),
            ("sum", "L1", "struct node: next"),
            ("sum", "L2", "struct node: key"),
            ("find", "L3", "struct list: head"),
            ("find", "L4", "struct node: key"),
            ("find", "L4", "struct node: next"),
            ("deep", "L5", "struct list: head"),
            ("deep", "L5", "struct node: next"),
            ("deep", "L5", "struct node: more.y[2]"),
            ("deep", "L6", "struct node: more.y[*]"),
            ("set", "L7", "struct node: value"),
            ("set_global", "L9", "global_node"),
            ("set_global", "L9", "struct node: more.x"),
            ("main", "L12", "lists[0].head"),
            ("longest", "L14", "struct node: key"),
            ("longest", "L15", "struct node: next"),
        ];
        for (function, mark, expected) in cases {
            // find's loads are L3 or L4, depending on the optimiser.
            let mut found = program.fields(function, mark);
            if function == "find" || function == "deep" {
                let marks: &[&str] = if function == "find" { &["L3", "L4"] } else { &["L5", "L6"] };
                found = marks.iter().flat_map(|mark| program.fields(function, mark)).collect();
            }
            let is_found = found.iter().any(|field| field == expected);
            assert!(is_found, "{level} {function} {mark}: {expected} is not among {found:?}");
        }
    }
}

#[test]
fn nothing_is_named_wrongly_and_failures_have_reasons() {
    for level in ["-O0", "-O2"] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut program = Program::new(directory.path(), &["-g", level]);
        // The target of a `void *` has no type, unless the optimiser kept it as a pointer to long.
        let unknown = program.answers("unknown");
        let reasons: Vec<_> =
            unknown.iter().filter_map(|(_, answer)| answer.as_ref().err().copied()).collect();
        assert!(reasons.contains(&NoField::NoType), "{level}: {unknown:?}");
        assert!(reasons.contains(&NoField::StackOperation), "{level}: {unknown:?}");
        // Every reported path of a node exists in the type.
        let known = ["next", "key", "value", "more.x", "more.y[2]", "more.y[*]", "more.y[0]", "more"];
        let mut tally = FieldTally::default();
        for function in ["sum", "find", "deep", "set", "set_global", "longest", "main"] {
            for (address, answer) in program.answers(function) {
                tally.add(&answer, 1);
                let Ok(field) = answer else { continue };
                if field.owner == (FieldOwner::Pointee { type_name: "struct node".into() }) {
                    assert!(known.contains(&&*field.path), "{level} {function} {address}: {field}");
                    assert_eq!(field.owner_size.0, 48);
                }
            }
        }
        // The rest is the stack, elements of an array accessed at a constant offset (the pointer's type does not
        // show an array), and the constant 2.5, which is not a variable.
        println!("{level}: {} of {} named, others: {:?}", tally.found(), tally.total(), tally.missing());
        for (reason, count) in tally.missing() {
            let limit = match reason {
                NoField::StackOperation => u64::MAX,
                NoField::NamelessFrame => 3,
                NoField::BadOffset => 3,
                NoField::NoVariable => 2,
                _ => 0,
            };
            assert!(count <= limit, "{level}: {count} times {reason:?}");
        }
    }
}

#[test]
fn without_debug_information_the_reason_is_said_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut program = Program::new(directory.path(), &["-O1"]);
    let main = address_of(&program.path, "main").address;
    for offset in 0..3 {
        let answer = program.symbolizer.operand_field(program.image, ImageAddress(main + offset));
        assert_eq!(answer, Err(NoField::NoDebugInformation));
    }
    let global = address_of(&program.path, "lists").address;
    assert_eq!(at(&mut program.symbolizer, global, 8), Err(NoField::NoDebugInformation));
    assert_eq!(program.symbolizer.problems().len(), 1);
    assert_eq!(at(&mut program.symbolizer, 0xffff_0000, 8), Err(NoField::NoImage));
}

#[test]
fn damaged_debug_information_makes_poor_answers_but_no_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = compile(directory.path(), "program", POINTERS, &["-g", "-O2"]);
    let listing = tool("readelf", &["-SW", text(&path)]);
    let section = |name: &str| {
        let line = listing.lines().find(|line| line.contains(&format!(" {name} "))).expect("the section");
        let words: Vec<&str> = line.split(']').nth(1).expect("columns").split_whitespace().collect();
        let number = |word: &str| usize::from_str_radix(word, 16).expect("a number");
        (number(words[3]), number(words[4]))
    };
    let sections = [".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_rnglists"].map(section);
    let intact = std::fs::read(&path).expect("read");
    let functions = ["sum", "deep", "main"].map(|name| address_of(&path, name));
    let mut seed = 1u64;
    let mut random = |below: usize| {
        // A linear congruential generator: the same bytes are changed in every run.
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for round in 0..150 {
        let mut bytes = intact.clone();
        for _ in 0..1 + round % 20 {
            let (start, size) = sections[random(sections.len())];
            bytes[start + random(size)] = random(256) as u8;
        }
        let damaged = directory.path().join("damaged");
        std::fs::write(&damaged, &bytes).expect("written");
        let mut symbolizer = loaded(&damaged);
        for function in &functions {
            let address = VirtualAddress(BIAS + function.address);
            let image = symbolizer.lookup(PID, address, CpuMode::User).image.expect("an image");
            for offset in 0..function.size {
                let _ = symbolizer.operand_field(image, ImageAddress(function.address + offset));
            }
        }
        for address in (0x4000..0x4100).step_by(8) {
            let _ = at(&mut symbolizer, address, 8);
        }
    }
}
