//! One pass over all debug information: variables by address, functions by address, structs by name.
//!
//! Entries of no interest are skipped by their abbreviation, so that the pass costs about a second for 300 MB.

use super::units::{DebugFiles, EntryRef, OpenUnit, Opener};
use gimli::{AttributeValue, DwTag, Operation};
use rustc_hash::FxHashMap;

/// Maximum length of each list: a file with more is not read to its end.
const ENTRIES_AT_MOST: usize = 1 << 22;

/// A code range of a function; a function that the compiler split has several.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) entry: EntryRef,
}

/// The index.
#[derive(Default)]
pub(super) struct Index {
    /// Sorted by address; of several entries of one address, the first.
    variables: Vec<(u64, EntryRef)>,
    /// Sorted by start.
    functions: Vec<FunctionRange>,
    /// Definitions of named structs, unions and classes, for declarations in other units.
    definitions: FxHashMap<Box<str>, EntryRef>,
}

impl Index {
    pub(super) fn read(files: &DebugFiles) -> Index {
        let mut index = Index::default();
        for number in (0..files.unit_count()).filter(|number| files.is_whole(*number)) {
            // Units are dropped one by one: a large program has many.
            let opener = Opener::new(files);
            if let Some(unit) = opener.unit(number) {
                // For a damaged unit, keep the entries before the fault.
                let _ = index.read_unit(&unit);
            }
        }
        index.variables.sort_by_key(|(address, entry)| (*address, *entry));
        index.variables.dedup_by_key(|(address, _)| *address);
        index.functions.sort_by_key(|function| (function.start, std::cmp::Reverse(function.end)));
        index
    }

    fn read_unit(&mut self, unit: &OpenUnit<'_>) -> gimli::Result<()> {
        let mut entries = unit.unit.entries_raw(None)?;
        let mut attributes = Vec::new();
        while !entries.is_empty() {
            let offset = entries.next_offset().0;
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if !is_of_interest(abbreviation.tag()) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            entries.read_attributes(abbreviation.attributes(), &mut attributes)?;
            let reference = EntryRef { unit: unit.number, offset };
            let value = |name| {
                attributes.iter().find(|attribute| attribute.name() == name).map(|found| found.value())
            };
            match abbreviation.tag() {
                gimli::DW_TAG_variable => {
                    if let Some(AttributeValue::Exprloc(expression)) = value(gimli::DW_AT_location) {
                        let address = fixed_address(unit, expression);
                        if let Some(address) = address.filter(|_| self.variables.len() < ENTRIES_AT_MOST) {
                            self.variables.push((address, reference));
                        }
                    }
                }
                gimli::DW_TAG_subprogram => self.add_function(unit, reference, &value),
                _ => {
                    let is_declaration = value(gimli::DW_AT_declaration).is_some();
                    let name = value(gimli::DW_AT_name).filter(|_| !is_declaration);
                    if let Some(name) = name.and_then(|name| unit.text(name)) {
                        if self.definitions.len() < ENTRIES_AT_MOST {
                            self.definitions.entry(name.into()).or_insert(reference);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn add_function<'a>(
        &mut self,
        unit: &OpenUnit<'a>,
        entry: EntryRef,
        value: &dyn Fn(gimli::DwAt) -> Option<AttributeValue<super::sections::Slice<'a>>>,
    ) {
        for (start, end) in code_ranges(unit, value) {
            if self.functions.len() < ENTRIES_AT_MOST {
                self.functions.push(FunctionRange { start, end, entry });
            }
        }
    }

    /// The variable that begins nearest below an address; its type determines whether it extends that far.
    pub(super) fn variable_at_or_below(&self, address: u64) -> Option<(u64, EntryRef)> {
        let position = self.variables.partition_point(|(start, _)| *start <= address).checked_sub(1)?;
        Some(self.variables[position])
    }

    /// The function that holds an instruction.
    pub(super) fn function_at(&self, address: u64) -> Option<FunctionRange> {
        let position = self.functions.partition_point(|function| function.start <= address).checked_sub(1)?;
        Some(self.functions[position]).filter(|function| address < function.end)
    }

    /// All code ranges of a function: the compiler may have moved out cold parts.
    pub(super) fn ranges_of(&self, entry: EntryRef) -> impl Iterator<Item = FunctionRange> + '_ {
        self.functions.iter().filter(move |function| function.entry == entry).copied()
    }

    /// The struct of this name, from a unit that defines it.
    pub(super) fn definition(&self, name: &str) -> Option<EntryRef> {
        self.definitions.get(name).copied()
    }
}

fn is_of_interest(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_variable
            | gimli::DW_TAG_subprogram
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_class_type
    )
}

/// The address of a variable that has one for the whole run.
fn fixed_address(
    unit: &OpenUnit<'_>,
    expression: gimli::Expression<super::sections::Slice<'_>>,
) -> Option<u64> {
    let mut operations = expression.operations(unit.unit.encoding());
    let address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => unit.dwarf.address(&unit.unit, index).ok()?,
        _ => return None,
    };
    // More operations mean a thread-local variable, or a part of one.
    (address != 0 && matches!(operations.next(), Ok(None))).then_some(address)
}

/// The code ranges of an entry: a function, a block, an inlined call.
pub(super) fn code_ranges<'a>(
    unit: &OpenUnit<'a>,
    value: &dyn Fn(gimli::DwAt) -> Option<AttributeValue<super::sections::Slice<'a>>>,
) -> Vec<(u64, u64)> {
    const RANGES_AT_MOST: usize = 1024;
    let mut found = Vec::new();
    if let Some(ranges) = value(gimli::DW_AT_ranges) {
        let Ok(Some(mut ranges)) = unit.dwarf.attr_ranges(&unit.unit, ranges) else { return found };
        while let (Ok(Some(range)), true) = (ranges.next(), found.len() < RANGES_AT_MOST) {
            found.push((range.begin, range.end));
        }
    } else if let Some(low) = value(gimli::DW_AT_low_pc) {
        let Ok(Some(low)) = unit.dwarf.attr_address(&unit.unit, low) else { return found };
        let high = match value(gimli::DW_AT_high_pc) {
            Some(AttributeValue::Udata(length)) => low.checked_add(length),
            Some(high) => unit.dwarf.attr_address(&unit.unit, high).ok().flatten(),
            None => None,
        };
        found.extend(high.map(|high| (low, high)));
    }
    // The linker zeroes what it dropped.
    found.retain(|(start, end)| *start > 0 && start < end);
    found
}
