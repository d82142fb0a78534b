//! The decoder compared with binutils, which disassembles the same words: memory operands and written registers.
//!
//! `words.txt` holds words drawn at random within the classes of the architecture, with the text that
//! `aarch64-linux-gnu-objdump` 2.40 of Debian 12 gives them. Where that program is installed, more are compared:
//!
//! ```text
//!   HARDMETER_ARM64_WORDS=4000000      the number of random words (200,000)
//!   HARDMETER_ARM64_PROGRAMS=a:b:c     all code of these programs
//!   HARDMETER_WRITE_ARM64_WORDS=path   writes such a file
//! ```

use super::memory::{memory, Access, Extend, Memory, Place, Register, Update};
use super::registers::writes;
use std::io::Write;
use std::process::Command;

const OBJDUMP: &str = "aarch64-linux-gnu-objdump";
const RECORDED: &str = include_str!("words.txt");

/// The instruction set classes to draw from: fixed bits, and a mask of them.
const CLASSES: [(u32, u32); 17] = [
    (0x0800_0000, 0x3f00_0000), // exclusive, ordered, compare and swap
    (0x0c00_0000, 0xbf20_0000), // vector structures
    (0x0d00_0000, 0xbf00_0000), // one element of vectors
    (0x1800_0000, 0x3b00_0000), // literal
    (0x1900_0000, 0x3b00_0000), // unscaled ordered, tags, copies
    (0x2800_0000, 0x3a00_0000), // pair
    (0x3800_0000, 0x3b20_0000), // one register, constant
    (0x3820_0000, 0x3b20_0c00), // atomic
    (0x3820_0800, 0x3b20_0c00), // one register, index
    (0x3820_0400, 0x3b20_0400), // authenticated
    (0x3900_0000, 0x3b00_0000), // one register, unsigned constant
    (0x1000_0000, 0x1c00_0000), // arithmetic with constants
    (0x0a00_0000, 0x0e00_0000), // arithmetic between registers
    (0xd500_0000, 0xffc0_0000), // system
    (0xd503_201f, 0xffff_f01f), // hints
    (0x1400_0000, 0x1c00_0000), // branches
    (0x0000_0000, 0x0000_0000), // everything
];

/// What a text says about an instruction.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    memory: Option<Memory>,
    writes: u32,
}

fn register(name: &str) -> Option<Register> {
    match name {
        "sp" | "wsp" => Some(Register(31)),
        _ => {
            let number: u8 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
            (number < 31).then_some(Register(number))
        }
    }
}

fn set(name: &str) -> u32 {
    register(name).map_or(0, |register| 1 << register.0)
}

fn number(text: &str) -> Option<i64> {
    let text = text.strip_prefix('#').unwrap_or(text);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|number| number as i64),
        None => text.parse().ok(),
    }
}

/// The operands, split at commas outside brackets and braces.
fn operands(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// The memory operand of a text. `at` is the instruction's address.
fn said_memory(mnemonic: &str, operands: &[&str], at: u64) -> Option<Memory> {
    let access = match mnemonic {
        _ if mnemonic.starts_with("prf") || mnemonic == "rprfm" => Access::Prefetch,
        _ if ["ld", "cas", "swp", "cpy"].iter().any(|start| mnemonic.starts_with(start)) => Access::Load,
        _ if mnemonic.starts_with("st") || mnemonic.starts_with("set") => Access::Store,
        _ => return None,
    };
    let is_memory = |text: &&&str| ["[x", "[sp", "[z"].iter().any(|start| text.starts_with(start));
    let Some(position) = operands.iter().position(|text| is_memory(&text)) else {
        let target = number(operands.last()?.split(' ').next()?)?;
        let literal = mnemonic == "ldr" || mnemonic == "ldrsw" || mnemonic == "prfm";
        let place = Place::Literal((target as u64).wrapping_sub(at) as i64);
        return literal.then_some(Memory { access, place, update: None });
    };
    let scalable = operands.iter().any(|operand| {
        let start = operand.trim_start_matches('{').trim();
        let mut characters = start.chars();
        matches!(characters.next(), Some('z' | 'p')) && characters.next().is_some_and(|c| c.is_ascii_digit())
    });
    let several = scalable
        || mnemonic.starts_with("cpy")
        || mnemonic.starts_with("set")
        || mnemonic.starts_with("ldraa")
        || mnemonic.starts_with("ldrab");
    let text = operands[position];
    let pre = text.ends_with('!');
    let inside: Vec<&str> = text.trim_matches(['[', ']', '!']).split(',').map(str::trim).collect();
    let (place, offset) = if several {
        let scale = inside.get(1).and_then(|text| number(text)).unwrap_or(0);
        (Place::Several, scale)
    } else {
        let base = register(inside[0])?;
        match inside.get(1) {
            None => (Place::Offset(base, 0), 0),
            Some(second) if second.starts_with('#') => {
                let offset = number(second)?;
                (Place::Offset(base, offset), offset)
            }
            Some(second) => {
                let mut how = inside.get(2).copied().unwrap_or("lsl").split(' ');
                let extend = match how.next()? {
                    "uxtw" => Extend::Unsigned,
                    "sxtw" => Extend::Signed,
                    _ => Extend::Whole,
                };
                let shift = how.next().and_then(number).unwrap_or(0) as u8;
                (Place::Index(base, register(second), extend, shift), 0)
            }
        }
    };
    let update = match operands.get(position + 1) {
        _ if several && !mnemonic.starts_with("ldra") => None,
        _ if pre => Some(Update::By(offset)),
        Some(step) if step.starts_with('#') => Some(Update::By(number(step)?)),
        Some(step) => register(step).map(Update::ByRegister),
        None => None,
    };
    Some(Memory { access, place, update })
}

/// The registers that a text says are written.
fn said_writes(mnemonic: &str, operands: &[&str], memory: Option<&Memory>) -> u32 {
    let first = operands.first().map_or(0, |name| set(name));
    let second = operands.get(1).map_or(0, |name| set(name));
    let named = |text: &str| {
        let inside = text.trim_matches(['[', ']', '!']).split(',').next().unwrap_or_default();
        set(inside)
    };
    if let Some(memory) = memory {
        if mnemonic.starts_with("cpy") || mnemonic.starts_with("set") {
            let ranges = operands.iter().take(3).filter(|text| text.ends_with('!'));
            return ranges.map(|text| named(text)).fold(0, |all, one| all | one);
        }
        let base = operands.iter().find(|text| text.starts_with('[')).map_or(0, |text| named(text));
        let base = if memory.update.is_some() { base } else { 0 };
        let exclusive_store = mnemonic.starts_with("stx") || mnemonic.starts_with("stlx");
        let status = exclusive_store || mnemonic.starts_with("st64bv");
        let atomic = ["ldadd", "ldclr", "ldeor", "ldset", "ldsm", "ldum", "swp"];
        let pair = ["ldp", "ldnp", "ldxp", "ldaxp", "casp"];
        let starts = |names: &[&str]| names.iter().any(|name| mnemonic.starts_with(name));
        return base
            | match memory.access {
                Access::Store if status => first,
                Access::Store | Access::Prefetch => 0,
                Access::Load if mnemonic == "ld64b" => {
                    (0..8).map(|next| first << next).sum::<u32>() & !(3 << 31)
                }
                Access::Load if starts(&atomic) => second,
                Access::Load if starts(&pair) => first | second,
                Access::Load => first,
            };
    }
    match mnemonic {
        "cbz" | "cbnz" | "tbz" | "tbnz" | "ccmp" | "ccmn" | "br" | "ret" | "msr" | "sys" | "rmif"
        | "setf8" | "setf16" | "braa" | "brab" | "braaz" | "brabz" | "wfet" | "wfit" | "ctermeq"
        | "ctermne" => 0,
        "bl" | "blr" | "blraa" | "blrab" | "blraaz" | "blrabz" => 1 << 30,
        "xpaclri" | "paciaz" | "pacibz" | "paciasp" | "pacibsp" | "autiaz" | "autibz" | "autiasp"
        | "autibsp" => 1 << 30,
        "pacia1716" | "pacib1716" | "autia1716" | "autib1716" => 1 << 17,
        "hint" => match operands.first().and_then(|text| number(text)) {
            Some(7 | 24..=31) => 1 << 30,
            Some(8 | 10 | 12 | 14) => 1 << 17,
            Some(40) => 1 << 16,
            _ => 0,
        },
        "svc" | "hvc" | "smc" | "brk" | "hlt" | "tcancel" | "dcps1" | "dcps2" | "dcps3" => u32::MAX,
        _ => first,
    }
}

/// What a line of objdump says; `None` for a word that it does not know.
fn said(text: &str, at: u64) -> Option<Said> {
    let text = text.split("//").next()?.trim();
    let (mnemonic, rest) = text.split_once(['\t', ' ']).unwrap_or((text, ""));
    if mnemonic.starts_with('.') || mnemonic == "udf" || text.contains("undefined") {
        return None;
    }
    let operands = operands(rest);
    let eight_fit = |number: u8| number.is_multiple_of(2) && number <= 22;
    if mnemonic == "ld64b" && !register(operands[0]).is_some_and(|first| eight_fit(first.0)) {
        return None; // unallocated
    }
    let memory = said_memory(mnemonic, &operands, at);
    let writes = said_writes(mnemonic, &operands, memory.as_ref());
    Some(Said { memory, writes })
}

/// Instruction sets of which the registers are named generously.
fn is_generous(word: u32) -> bool {
    matches!(word >> 25 & 0xf, 0b0000 | 0b0010) && word >> 31 == 0 || matches!(word >> 25 & 0xf, 0b0000)
}

/// The difference between decoder and text, if there is one.
fn difference(word: u32, text: &str, at: u64) -> Option<String> {
    let said = said(text, at)?;
    let (found, written) = (memory(word), writes(word));
    let sme = word >> 25 & 0xf == 0;
    let exact = is_generous(word) || written == said.writes;
    let same = (found == said.memory || sme) && written & said.writes == said.writes && exact;
    (!same).then(|| format!("{word:08x} {text}: decoded {found:?} {written:#x}, said {said:?}"))
}

/// Compares; returns the number of words, and of memory operands among them.
fn compare<'a>(lines: impl Iterator<Item = (u32, &'a str, u64)>) -> (u64, u64) {
    let (mut known, mut operands, mut wrong) = (0, 0, Vec::new());
    for (word, text, at) in lines {
        let Some(said) = said(text, at) else { continue };
        known += 1;
        operands += u64::from(said.memory.is_some());
        wrong.extend(difference(word, text, at));
    }
    let shown: Vec<&String> = wrong.iter().take(40).collect();
    assert!(wrong.is_empty(), "{} of {known} differ:\n{shown:#?}", wrong.len());
    (known, operands)
}

/// Random words of all classes, the same in each run.
fn random(count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    (0..count)
        .map(|number| CLASSES[number % CLASSES.len()])
        .map(|(bits, mask)| next() & !mask | bits)
        .collect()
}

/// Runs objdump; `None`, with the reason printed, where it is missing.
fn objdump(arguments: &[&str]) -> Option<String> {
    let output = match Command::new(OBJDUMP).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {OBJDUMP} (package binutils-aarch64-linux-gnu): {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{OBJDUMP}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("objdump writes UTF-8"))
}

/// Word, text and address of each line of a listing.
fn listing(text: &str) -> impl Iterator<Item = (u32, &str, u64)> {
    text.lines().filter_map(|line| {
        let (address, rest) = line.trim_start().split_once(":\t")?;
        let (word, text) = rest.split_once('\t')?;
        let word = u32::from_str_radix(word.trim(), 16).ok().filter(|_| word.trim().len() == 8)?;
        Some((word, text, u64::from_str_radix(address, 16).ok()?))
    })
}

fn listing_of(words: &[u32]) -> Option<String> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&bytes).expect("written");
    let path = file.path().to_str().expect("a plain path");
    objdump(&["-D", "-z", "-b", "binary", "-m", "aarch64", "-M", "no-aliases", path])
}

#[test]
fn recorded_words_are_decoded_as_binutils_does() {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (word, text) = line.split_once(' ').expect("word and text");
        (u32::from_str_radix(word, 16).expect("a word"), text, 0)
    });
    let (known, operands) = compare(lines);
    assert!(known > 2_000 && operands > 1_200, "{known} words, {operands} with an operand");
}

#[test]
fn random_words_are_decoded_as_binutils_does() {
    let count = std::env::var("HARDMETER_ARM64_WORDS").ok().and_then(|count| count.parse().ok());
    let words = random(count.unwrap_or(200_000));
    let (mut known, mut operands) = (0, 0);
    for piece in words.chunks(1 << 20) {
        let Some(text) = listing_of(piece) else { return };
        let (more, with_operand) = compare(listing(&text));
        (known, operands) = (known + more, operands + with_operand);
    }
    eprintln!(
        "{} random words: {known} known to objdump, {operands} with a memory operand: no difference",
        words.len()
    );
    assert!(known > words.len() as u64 / 3, "{known}");
}

#[test]
fn code_of_programs_is_decoded_as_binutils_does() {
    let Ok(programs) = std::env::var("HARDMETER_ARM64_PROGRAMS") else {
        println!("skipped: HARDMETER_ARM64_PROGRAMS names no program");
        return;
    };
    for program in programs.split(':') {
        let Some(text) = objdump(&["-d", "-z", "-M", "no-aliases", program]) else { return };
        let (known, operands) = compare(listing(&text));
        eprintln!("{program}: {known} instructions, {operands} with a memory operand: no difference");
        assert!(known > 1_000, "{known} instructions in {program}");
    }
}

#[test]
fn writes_the_recorded_words() {
    let Ok(path) = std::env::var("HARDMETER_WRITE_ARM64_WORDS") else { return };
    let words = random(5_000);
    let Some(text) = listing_of(&words) else { return };
    // Literals are relative to the address, which the file does not have: theirs are of address 0.
    let mut lines = String::from(
        "# Random words of the classes in oracle.rs that binutils 2.40 knows, and its text:\n\
         # aarch64-linux-gnu-objdump -D -z -b binary -m aarch64 -M no-aliases, each word at address 0.\n",
    );
    for (word, text, at) in listing(&text) {
        let known = said(text, at);
        let literal = known
            .as_ref()
            .and_then(|said| said.memory)
            .is_some_and(|memory| matches!(memory.place, Place::Literal(_)));
        if known.is_some() && !literal {
            lines.push_str(&format!(
                "{word:08x} {}\n",
                text.replace('\t', " ").split("//").next().unwrap_or_default().trim()
            ));
        }
    }
    std::fs::write(path, lines).expect("written");
}
