//! Offsets of fields by DWARF: where a program carries debug information, no table of versions is needed.

use gimli::{AttributeValue, Dwarf, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};
use std::borrow::Cow;
use std::collections::HashMap;

/// Offsets and sizes of the requested structures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StructLayout {
    offsets: HashMap<(String, String), u64>,
    sizes: HashMap<String, u64>,
}

/// A decompressed section of debug information is not larger: a compressed one may claim any size.
const SECTION_LIMIT: u64 = 2 << 30;

impl StructLayout {
    /// Reads the offsets of all fields of these structures from the debug information of an ELF file. Missing
    /// and unreadable fields are left out.
    pub fn read(file: &[u8], structs: &[&str]) -> StructLayout {
        let mut layout = StructLayout::default();
        if let Ok(file) = object::File::parse(file) {
            // An error ends the search; the fields found before it are valid.
            let _ = layout.search(&file, structs);
        }
        layout
    }

    fn search(&mut self, file: &object::File<'_>, structs: &[&str]) -> Result<(), gimli::Error> {
        let section = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
            let Some(section) = file.section_by_name(id.name()) else { return Ok(Cow::Borrowed(&[])) };
            let fits =
                section.compressed_file_range().is_ok_and(|range| range.uncompressed_size <= SECTION_LIMIT);
            Ok(if fits { section.uncompressed_data().unwrap_or_default() } else { Cow::Borrowed(&[]) })
        };
        let sections = gimli::DwarfSections::load(section)?;
        let dwarf: Dwarf<EndianSlice<'_, LittleEndian>> =
            sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let mut entries = unit.entries();
            let mut within: Option<(String, isize)> = None;
            while let Some(entry) = entries.next_dfs()? {
                let depth = entry.depth();
                let name = |entry: &gimli::DebuggingInformationEntry<_>| -> Option<String> {
                    let value = entry.attr_value(gimli::DW_AT_name)?;
                    let text = dwarf.attr_string(&unit, value).ok()?;
                    Some(text.to_string_lossy().into_owned())
                };
                if within.as_ref().is_some_and(|(_, at)| depth <= *at) {
                    within = None;
                    if structs.iter().all(|name| self.sizes.contains_key(*name)) {
                        return Ok(());
                    }
                }
                if entry.tag() == gimli::DW_TAG_structure_type {
                    let size = entry.attr_value(gimli::DW_AT_byte_size).and_then(|size| size.udata_value());
                    if let (Some(size), Some(name)) = (size, name(entry)) {
                        if structs.contains(&name.as_str()) && !self.sizes.contains_key(&name) {
                            self.sizes.insert(name.clone(), size);
                            within = Some((name, depth));
                        }
                    }
                } else if entry.tag() == gimli::DW_TAG_member {
                    if let Some((owner, _)) = within.as_ref().filter(|(_, at)| depth == at + 1) {
                        let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
                            Some(AttributeValue::Exprloc(_)) => None,
                            Some(value) => value.udata_value(),
                            None => Some(0),
                        };
                        if let (Some(offset), Some(name)) = (offset, name(entry)) {
                            self.offsets.insert((owner.clone(), name), offset);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Where a field begins in its structure.
    pub fn offset(&self, owner: &str, field: &str) -> Option<u64> {
        self.offsets.get(&(owner.to_string(), field.to_string())).copied()
    }

    /// Bytes of a structure.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }
}
