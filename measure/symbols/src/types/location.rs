//! The locations of a function's variables, by instruction.

use super::index::code_ranges;
use super::sections::Slice;
use super::shape::TypeReader;
use super::units::{EntryRef, OpenUnit};
use gimli::{AttributeValue, DebuggingInformationEntry, Expression, Operation};
use std::sync::Arc;

/// Maximum number of a function's entries; a generated parser may have tens of thousands.
const ENTRIES_AT_MOST: usize = 1 << 17;
/// Maximum number of a function's locations.
const LOCATIONS_AT_MOST: usize = 1 << 15;

/// The location of a value. Registers have DWARF's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The register holds it.
    Register(u8),
    /// The value is the register plus a constant, not in memory.
    RegisterPlus(u8, i64),
    /// In memory, at the register plus a constant.
    Memory(u8, i64),
    /// In memory, at the CFA plus a constant.
    Frame(i64),
}

/// A variable's location in a code range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: Place,
    pub(super) name: Arc<str>,
    pub(super) type_of: Option<EntryRef>,
    /// Its nesting depth in blocks: of several variables the innermost is meant.
    pub(super) depth: u32,
}

/// The variables of a function, the innermost first.
pub(super) fn locals(reader: &TypeReader<'_, '_>, function: EntryRef, range: (u64, u64)) -> Vec<Local> {
    let mut found = Vec::new();
    let Some(unit) = reader.opener.unit(function.unit) else { return found };
    let Ok(mut entries) = unit.unit.entries_raw(Some(gimli::UnitOffset(function.offset))) else {
        return found;
    };
    let mut entry = DebuggingInformationEntry::null();
    let mut frame_base = FrameBase::Unknown;
    // Ranges of the blocks that hold the current entry, by depth.
    let mut blocks: Vec<(isize, Vec<(u64, u64)>)> = Vec::new();
    for number in 0..ENTRIES_AT_MOST {
        let Ok(is_entry) = entries.read_entry(&mut entry) else { break };
        if is_entry {
            let depth = entry.depth();
            blocks.retain(|(outer, _)| *outer < depth);
            if number == 0 {
                frame_base = FrameBase::of(&unit, &entry);
            }
            match entry.tag() {
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                    blocks.push((depth, code_ranges(&unit, &|name| entry.attr_value(name))));
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let block = blocks.last().map_or(&[][..], |(_, ranges)| ranges);
                    add(reader, &unit, &entry, frame_base, range, block, &mut found);
                }
                _ => {}
            }
        }
        if entries.is_empty() || entries.next_depth() <= 0 || found.len() >= LOCATIONS_AT_MOST {
            break;
        }
    }
    found.sort_by_key(|local| std::cmp::Reverse(local.depth));
    found
}

/// The base of `DW_OP_fbreg`.
#[derive(Clone, Copy, Debug)]
enum FrameBase {
    Unknown,
    /// GCC.
    Cfa,
    /// Clang, with a frame pointer.
    Register(u8),
}

impl FrameBase {
    fn of(unit: &OpenUnit<'_>, function: &DebuggingInformationEntry<Slice<'_>>) -> FrameBase {
        let Some(AttributeValue::Exprloc(expression)) = function.attr_value(gimli::DW_AT_frame_base) else {
            return FrameBase::Unknown;
        };
        match expression.operations(unit.unit.encoding()).next() {
            Ok(Some(Operation::CallFrameCFA)) => FrameBase::Cfa,
            Ok(Some(Operation::Register { register })) => {
                general(register).map_or(FrameBase::Unknown, FrameBase::Register)
            }
            _ => FrameBase::Unknown,
        }
    }
}

fn add<'a>(
    reader: &TypeReader<'_, 'a>,
    unit: &OpenUnit<'a>,
    entry: &DebuggingInformationEntry<Slice<'a>>,
    frame_base: FrameBase,
    function: (u64, u64),
    block: &[(u64, u64)],
    found: &mut Vec<Local>,
) {
    let Some(location) = entry.attr_value(gimli::DW_AT_location) else { return };
    let mut places: Vec<(u64, u64, Place)> = Vec::new();
    if let AttributeValue::Exprloc(expression) = location {
        let Some(place) = place(unit, expression, frame_base) else { return };
        let whole = [function];
        let ranges = if block.is_empty() { &whole[..] } else { block };
        places.extend(ranges.iter().map(|(start, end)| (*start, *end, place)));
    } else if let Ok(Some(mut list)) = unit.dwarf.attr_locations(&unit.unit, location) {
        while let (Ok(Some(item)), true) = (list.next(), places.len() < LOCATIONS_AT_MOST) {
            if let Some(place) = place(unit, item.data, frame_base) {
                places.push((item.range.begin, item.range.end, place));
            }
        }
    }
    places.retain(|(start, end, _)| *start < function.1 && *end > function.0);
    if places.is_empty() {
        return;
    }
    let name: Arc<str> = reader.name_of(unit, entry).unwrap_or_else(|| "(nameless)".to_owned()).into();
    let type_of = reader.type_of(unit, entry);
    let depth = u32::try_from(entry.depth()).unwrap_or(0);
    let local = |(start, end, place)| Local { start, end, place, name: Arc::clone(&name), type_of, depth };
    found.extend(places.into_iter().map(local));
}

/// The location of an expression; `None` if it needs more than one register.
fn place(unit: &OpenUnit<'_>, expression: Expression<Slice<'_>>, frame_base: FrameBase) -> Option<Place> {
    let mut operations = expression.operations(unit.unit.encoding());
    let first = operations.next().ok()??;
    let second = operations.next().ok()?;
    let third = operations.next().ok()?;
    match (first, second, third) {
        (Operation::Register { register }, None, None) => Some(Place::Register(general(register)?)),
        (Operation::RegisterOffset { register, offset, .. }, None, None) => {
            Some(Place::Memory(general(register)?, offset))
        }
        (Operation::RegisterOffset { register, offset, .. }, Some(Operation::StackValue), None) => {
            Some(Place::RegisterPlus(general(register)?, offset))
        }
        (Operation::FrameOffset { offset }, None, None) => match frame_base {
            FrameBase::Cfa => Some(Place::Frame(offset)),
            FrameBase::Register(register) => Some(Place::Memory(register, offset)),
            FrameBase::Unknown => None,
        },
        _ => None,
    }
}

/// The sixteen general registers are the first of DWARF's numbers.
fn general(register: gimli::Register) -> Option<u8> {
    u8::try_from(register.0).ok().filter(|number| *number < 16)
}
