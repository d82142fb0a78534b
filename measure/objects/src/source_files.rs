//! The source file of each range of a program's code, from its debug information.

use gimli::{DwarfSections, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::ops::Range;

/// A compressed section may claim any size; this is more than one library's debug information has.
const SECTION_LIMIT: u64 = 1 << 30;
/// The limit of source files that are read of a program.
const MOST_UNITS: usize = 20_000;
/// The limit of their pieces.
const MOST_PIECES: usize = 200_000;

/// Code in the file's own numbering, and the path of its source as given to the compiler. Empty if a file has
/// no debug information, or none that can be read.
pub(crate) fn source_files(bytes: &[u8]) -> Vec<(Range<u64>, String)> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, object::Error> {
        let Some(section) = file.section_by_name(id.name()) else { return Ok(Cow::Borrowed(&[])) };
        let packed = section.compressed_data()?;
        if packed.uncompressed_size > SECTION_LIMIT {
            return Ok(Cow::Borrowed(&[]));
        }
        packed.decompress()
    };
    let Ok(sections) = DwarfSections::load(load) else { return Vec::new() };
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut found = Vec::new();
    let mut units = dwarf.units();
    for _ in 0..MOST_UNITS {
        let Ok(Some(header)) = units.next() else { break };
        let Ok(unit) = dwarf.unit(header) else { continue };
        let Some(name) = unit.name.map(|name| name.to_string_lossy().into_owned()) else { continue };
        let Ok(mut pieces) = dwarf.unit_ranges(&unit) else { continue };
        while let Ok(Some(piece)) = pieces.next() {
            if piece.begin < piece.end && found.len() < MOST_PIECES {
                found.push((piece.begin..piece.end, name.clone()));
            }
        }
    }
    found
}
