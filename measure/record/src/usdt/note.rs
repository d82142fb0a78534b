//! The probes that an executable describes in its section `.note.stapsdt`.
//!
//! ```text
//! note   name size | description size | type 3 | "stapsdt\0" | description, padded to four
//!        description: location | base | semaphore | provider\0 | name\0 | arguments\0
//! ```
//!
//! Locations were linked against `.stapsdt.base`; in an executable that was relocated afterwards (prelink) that
//! section and the probes have moved by the same distance. The kernel needs file offsets.

use super::argument::Argument;
use hardmeter_samples::model::FileOffset;
use object::{Object, ObjectSection, ObjectSegment};
use std::fs::File;
use std::path::Path;

/// One occurrence of a probe in an executable. A probe that the compiler duplicated has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Its provider: `postgresql`.
    pub provider: String,
    /// Its name: `query__start`.
    pub name: String,
    /// File offset of its instruction.
    pub location: FileOffset,
    /// File offset of the counter that enables it, if it has one.
    pub semaphore: Option<FileOffset>,
    /// Its arguments; `None` for one that the kernel cannot fetch.
    pub arguments: Vec<Option<Argument>>,
}

/// The type of a probe's note.
const NOTE_TYPE: u32 = 3;

/// The probes of an executable. Empty if it has none, or is not a 64-bit ELF file of this byte order.
///
/// # Errors
///
/// The system's error if the file cannot be opened.
pub fn probes_of(executable: &Path) -> std::io::Result<Vec<Probe>> {
    let cache = object::ReadCache::new(File::open(executable)?);
    // The section names are read, not the ten megabytes between them.
    let Ok(file) = object::File::parse(&cache) else { return Ok(Vec::new()) };
    if !file.is_64() || !file.is_little_endian() || file.architecture() != object::Architecture::X86_64 {
        return Ok(Vec::new());
    }
    let Some(notes) = file.section_by_name(".note.stapsdt").and_then(|section| section.data().ok()) else {
        return Ok(Vec::new());
    };
    let base = file.section_by_name(".stapsdt.base").map(|section| section.address());
    let segments: Vec<(u64, u64, u64)> = file
        .segments()
        .map(|segment| (segment.address(), segment.file_range().0, segment.file_range().1))
        .collect();
    Ok(parse(notes, base, &segments))
}

/// Parses notes. `base` is the present address of `.stapsdt.base`; `segments` are (address, offset, size in the
/// file).
fn parse(notes: &[u8], base: Option<u64>, segments: &[(u64, u64, u64)]) -> Vec<Probe> {
    let in_file = |address: u64| {
        segments.iter().find_map(|(start, offset, size)| {
            let within = address.checked_sub(*start).filter(|within| within < size)?;
            Some(FileOffset(offset.checked_add(within)?))
        })
    };
    let mut probes = Vec::new();
    let mut rest = notes;
    while let Some((note, next)) = split_note(rest) {
        rest = next;
        let Some(description) = note else { continue };
        probes.extend(probe(description, base, in_file));
    }
    probes
}

/// The description of the first note, if it is one of a probe, and what follows it.
fn split_note(notes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let name_end = 12usize.checked_add(name)?;
    let start = name_end.checked_next_multiple_of(4)?;
    let end = start.checked_add(description)?;
    let is_probe = kind == NOTE_TYPE && notes.get(12..name_end)? == b"stapsdt\0";
    let body = notes.get(start..end)?;
    let next = notes.get(end.checked_next_multiple_of(4)?..).unwrap_or_default();
    Some((is_probe.then_some(body), next))
}

fn probe(
    description: &[u8],
    base: Option<u64>,
    in_file: impl Fn(u64) -> Option<FileOffset>,
) -> Option<Probe> {
    let word = |at: usize| Some(u64::from_le_bytes(description.get(at..at + 8)?.try_into().ok()?));
    let (location, linked_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let moved = base.filter(|_| linked_base != 0).map_or(0, |base| base.wrapping_sub(linked_base));
    let mut texts =
        description.get(24..)?.split(|byte| *byte == 0).map(|text| std::str::from_utf8(text).ok());
    let (provider, name, arguments) = (texts.next()??, texts.next()??, texts.next()??);
    Some(Probe {
        provider: provider.to_string(),
        name: name.to_string(),
        location: in_file(location.wrapping_add(moved))?,
        // A semaphore outside of the file's segments would never be incremented: drop the probe rather than have
        // one that never fires.
        semaphore: match semaphore {
            0 => None,
            address => Some(in_file(address.wrapping_add(moved))?),
        },
        arguments: arguments.split_ascii_whitespace().map(Argument::parse).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(location: u64, base: u64, semaphore: u64, texts: &[u8]) -> Vec<u8> {
        let mut description: Vec<u8> =
            [location, base, semaphore].iter().flat_map(|word| word.to_le_bytes()).collect();
        description.extend(texts);
        raw_note(b"stapsdt\0", 3, &description)
    }

    fn raw_note(name: &[u8], kind: u32, description: &[u8]) -> Vec<u8> {
        let mut bytes = (name.len() as u32).to_le_bytes().to_vec();
        bytes.extend((description.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(name);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(description);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Text at 0x1000 of the file and at 0x401000 in memory; data at 0x3000 and 0x405000.
    const SEGMENTS: [(u64, u64, u64); 2] = [(0x401000, 0x1000, 0x2000), (0x405000, 0x3000, 0x100)];

    #[test]
    fn places_become_offsets_in_the_file() {
        let mut notes = raw_note(b"GNU\0", 3, b"build id, say");
        notes.extend(note(0x401234, 0x402000, 0x405010, b"postgresql\0query__start\08@%rdi\0"));
        notes.extend(note(0x401300, 0x402000, 0, b"postgresql\0query__done\0\0"));
        let probes = parse(&notes, Some(0x402000), &SEGMENTS);
        assert_eq!(probes.len(), 2);
        assert_eq!((probes[0].provider.as_str(), probes[0].name.as_str()), ("postgresql", "query__start"));
        assert_eq!((probes[0].location, probes[0].semaphore), (FileOffset(0x1234), Some(FileOffset(0x3010))));
        assert_eq!(probes[0].arguments, [Argument::parse("8@%rdi")]);
        assert_eq!((probes[1].location, probes[1].semaphore), (FileOffset(0x1300), None));
        assert!(probes[1].arguments.is_empty());
    }

    #[test]
    fn a_moved_executable_has_its_probes_moved() {
        let notes = note(0x401234, 0x402000, 0x405010, b"p\0n\0\0");
        // The base is 0x10 higher than at link time.
        let probes = parse(&notes, Some(0x402010), &SEGMENTS);
        assert_eq!((probes[0].location, probes[0].semaphore), (FileOffset(0x1244), Some(FileOffset(0x3020))));
        // Without the section no relocation is assumed.
        assert_eq!(parse(&notes, None, &SEGMENTS)[0].location, FileOffset(0x1234));
    }

    #[test]
    fn broken_notes_give_no_probes_and_no_panic() {
        let whole = note(0x401234, 0x402000, 0x405010, b"p\0n\08@%rdi\0");
        assert_eq!(parse(&whole, None, &SEGMENTS).len(), 1);
        (0..whole.len() - 1).for_each(|length| assert!(parse(&whole[..length], None, &SEGMENTS).len() <= 1));
        let mut lying = whole.clone();
        lying[4] = 0xff;
        lying[7] = 0xff;
        assert!(parse(&lying, None, &SEGMENTS).is_empty());
        // Places outside every segment.
        assert!(parse(&note(0x9, 0x402000, 0, b"p\0n\0\0"), None, &SEGMENTS).is_empty());
        assert!(parse(&note(0x401234, 0x402000, 0x9, b"p\0n\0\0"), None, &SEGMENTS).is_empty());
    }

    /// The output of `readelf -n` for Debian 12's server, 15.15 to 15.20: one probe per note, with its file offset.
    #[test]
    fn debians_postgres_tells_of_its_statements() {
        let program = Path::new("/usr/lib/postgresql/15/bin/postgres");
        let Ok(probes) = probes_of(program) else {
            println!("skipped: no {}", program.display());
            return;
        };
        if probes.is_empty() {
            println!("skipped: {} was built without probes", program.display());
            return;
        }
        let told = std::process::Command::new("readelf").args(["-n".as_ref(), program.as_os_str()]).output();
        let Ok(told) = told else {
            println!("skipped: no readelf");
            return;
        };
        let told = String::from_utf8_lossy(&told.stdout);
        let field = |line: &str, name: &str| {
            let (_, rest) = line.split_once(name)?;
            u64::from_str_radix(rest.trim_start().trim_start_matches("0x").split(',').next()?, 16).ok()
        };
        // In Debian's layout, file offsets of the text equal its addresses; those of the data do not, so only the
        // number of semaphores is compared.
        let locations: Vec<u64> = told.lines().filter_map(|line| field(line, "Location:")).collect();
        let found: Vec<u64> = probes.iter().map(|probe| probe.location.0).collect();
        assert_eq!(found, locations);
        let status = probes.iter().find(|probe| probe.name == "statement__status").expect("in every version");
        assert!(status.semaphore.is_some() && status.arguments[0].is_some());
    }
}
