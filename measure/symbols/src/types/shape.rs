//! The structure of types: read from their entries once, kept as plain data.

use super::index::Index;
use super::sections::Slice;
use super::units::{EntryRef, OpenUnit, Opener};
use gimli::{AttributeValue, DebuggingInformationEntry};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An entry being read.
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// Bound of the members of a struct and the dimensions of an array.
const MEMBERS_AT_MOST: usize = 1 << 16;
/// Maximum length of a chain of typedefs; also of pointers to pointers in a name.
const CHAIN_AT_MOST: usize = 48;
/// Size of a pointer: only x86-64 is followed.
const POINTER_SIZE: u64 = 8;

/// A member of a struct or union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// `None`: an anonymous struct or union, or a base class, whose members count as members of the outer type.
    pub(super) name: Option<Arc<str>>,
    pub(super) type_of: Option<EntryRef>,
    /// First byte.
    pub(super) offset: u64,
    /// For a bit field: first bit, counted from the struct's first byte, and number of bits.
    pub(super) bits: Option<(u64, u64)>,
}

/// The structure of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Numbers, enumerations.
    Scalar,
    /// Pointers and references; `None`: `void *`.
    Pointer(Option<EntryRef>),
    /// Another name (typedef), or a qualifier.
    Alias(Option<EntryRef>),
    /// A struct, class or union.
    Aggregate { is_union: bool, members: Vec<Member> },
    /// Elements, and their number in each dimension; `None`: open.
    Array { element: Option<EntryRef>, counts: Vec<Option<u64>> },
    /// Functions, and what is not understood.
    Other,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) name: Option<Arc<str>>,
    /// "struct ", "const " and so on, before the name.
    prefix: &'static str,
    pub(super) size: Option<u64>,
    pub(super) shape: Shape,
}

#[cfg(test)]
impl Type {
    pub(super) fn new(name: Option<Arc<str>>, prefix: &'static str, size: Option<u64>, shape: Shape) -> Type {
        Type { name, prefix, size, shape }
    }
}

/// Types read so far. A `None` reference is `void`.
#[derive(Default)]
pub(super) struct Shapes {
    known: FxHashMap<EntryRef, Arc<Type>>,
    names: FxHashMap<EntryRef, Arc<str>>,
}

/// Reads types: units for one question, and the cache of earlier ones.
pub(super) struct TypeReader<'s, 'a> {
    pub(super) opener: &'s Opener<'a>,
    pub(super) index: &'s Index,
    pub(super) shapes: &'s mut Shapes,
}

/// The type information needed to follow paths: real debug information, or a table in a test.
pub(super) trait Types {
    /// A type.
    fn get(&mut self, reference: EntryRef) -> Option<Arc<Type>>;

    /// The type behind typedefs and qualifiers, and the reference of that.
    fn peel(&mut self, reference: Option<EntryRef>) -> Option<(EntryRef, Arc<Type>)> {
        let mut reference = reference?;
        for _ in 0..CHAIN_AT_MOST {
            let found = self.get(reference)?;
            match found.shape {
                Shape::Alias(target) => reference = target?,
                _ => return Some((reference, found)),
            }
        }
        None
    }

    /// Size of a type in bytes; `None` if open or unknown.
    fn size(&mut self, reference: Option<EntryRef>) -> Option<u64> {
        let mut factor = 1u64;
        let mut reference = reference;
        for _ in 0..CHAIN_AT_MOST {
            let (_, found) = self.peel(reference)?;
            if let Some(size) = found.size {
                return factor.checked_mul(size);
            }
            let Shape::Array { element, counts } = &found.shape else { return None };
            for count in counts {
                factor = factor.checked_mul((*count)?)?;
            }
            reference = *element;
        }
        None
    }

    /// The pointee of a pointer type.
    fn pointee(&mut self, reference: Option<EntryRef>) -> Option<EntryRef> {
        match self.peel(reference)?.1.shape {
            Shape::Pointer(target) => target,
            _ => None,
        }
    }

    /// The type as C writes it.
    fn name(&mut self, reference: Option<EntryRef>) -> String {
        // From the outside inwards: stars and brackets are appended, qualifiers prepended.
        let (mut before, mut behind) = (String::new(), String::new());
        let mut reference = reference;
        for _ in 0..CHAIN_AT_MOST {
            let Some(inner) = reference else { return format!("{before}void{behind}") };
            let Some(found) = self.get(inner) else { return format!("{before}?{behind}") };
            match (&found.name, &found.shape) {
                (Some(name), _) => return format!("{before}{}{name}{behind}", found.prefix),
                (None, Shape::Pointer(target)) => {
                    behind.insert_str(0, if behind.starts_with('*') { "*" } else { " *" });
                    if behind.starts_with("* *") {
                        behind.replace_range(0..3, "**");
                    }
                    reference = *target;
                }
                (None, Shape::Alias(target)) => {
                    // `const char *`: a qualifier of the pointee is written in front.
                    before.push_str(found.prefix);
                    reference = *target;
                }
                (None, Shape::Array { element, counts }) => {
                    let brackets = counts.iter().map(|count| match count {
                        Some(count) => format!("[{count}]"),
                        None => "[]".to_owned(),
                    });
                    behind.push_str(&brackets.collect::<String>());
                    reference = *element;
                }
                (None, Shape::Aggregate { .. }) => return format!("{before}{}{{...}}{behind}", found.prefix),
                (None, Shape::Scalar) => return format!("{before}{}{behind}", found.prefix.trim_end()),
                (None, Shape::Other) => return format!("{before}function{behind}"),
            }
        }
        format!("{before}?{behind}")
    }

    /// The name of a pointer's target or a variable's type: typedefs of a named struct are resolved, so that one
    /// struct has one name; an unnamed struct has the name of the nearest typedef.
    fn owner_name(&mut self, reference: Option<EntryRef>) -> String {
        let mut typedef = None;
        let mut current = reference;
        for _ in 0..CHAIN_AT_MOST {
            let Some(found) = current.and_then(|current| self.get(current)) else { break };
            match (&found.shape, &found.name) {
                (Shape::Alias(target), name) => {
                    if name.is_some() {
                        typedef = Some(current);
                    }
                    current = *target;
                }
                (Shape::Aggregate { .. }, Some(_)) => return self.name(current),
                _ => return self.name(typedef.unwrap_or(current)),
            }
        }
        self.name(reference)
    }
}

impl<'a> TypeReader<'_, 'a> {
    /// The name of a type, cached.
    pub(super) fn cached_owner_name(&mut self, reference: Option<EntryRef>) -> Arc<str> {
        let Some(key) = reference else { return "void".into() };
        if let Some(name) = self.shapes.names.get(&key) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.owner_name(reference).into();
        self.shapes.names.insert(key, Arc::clone(&name));
        name
    }

    /// The target of an entry's `DW_AT_type`. A definition separate from its declaration, or an instance of an
    /// origin, has the type there.
    pub(super) fn type_of(&self, unit: &OpenUnit<'a>, entry: &Entry<'a>) -> Option<EntryRef> {
        self.inherited(unit, entry, |reader, unit, entry| {
            reader.reference(unit, entry.attr_value(gimli::DW_AT_type)?)
        })
    }

    /// The name of a variable or function, also from its declaration or origin.
    pub(super) fn name_of(&self, unit: &OpenUnit<'a>, entry: &Entry<'a>) -> Option<String> {
        self.inherited(unit, entry, |_, unit, entry| unit.name(entry))
    }

    fn reference(&self, unit: &OpenUnit<'a>, value: AttributeValue<Slice<'a>>) -> Option<EntryRef> {
        self.opener.reference_of(unit.number, value)
    }

    fn inherited<T>(
        &self,
        unit: &OpenUnit<'a>,
        entry: &Entry<'a>,
        read: impl Fn(&Self, &OpenUnit<'a>, &Entry<'a>) -> Option<T>,
    ) -> Option<T> {
        const STEPS: usize = 4;
        if let Some(found) = read(self, unit, entry) {
            return Some(found);
        }
        let mut origin = origin_of(self, unit, entry)?;
        for _ in 0..STEPS {
            let unit = self.opener.unit(origin.unit)?;
            let entry = unit.entry(origin.offset)?;
            if let Some(found) = read(self, &unit, &entry) {
                return Some(found);
            }
            origin = origin_of(self, &unit, &entry)?;
        }
        None
    }

    fn read(&self, reference: EntryRef) -> Option<Type> {
        let unit = self.opener.unit(reference.unit)?;
        let entry = unit.entry(reference.offset)?;
        if entry.attr(gimli::DW_AT_declaration).is_some() || entry.attr(gimli::DW_AT_signature).is_some() {
            if let Some(found) = self.elsewhere(&unit, &entry, reference) {
                return Some(found);
            }
        }
        let target = || self.reference(&unit, entry.attr_value(gimli::DW_AT_type)?);
        let size = unit.number(&entry, gimli::DW_AT_byte_size);
        let pointer_size = size.or(Some(POINTER_SIZE));
        let (prefix, size, shape) = match entry.tag() {
            gimli::DW_TAG_base_type | gimli::DW_TAG_unspecified_type => ("", size, Shape::Scalar),
            gimli::DW_TAG_enumeration_type => ("enum ", size, Shape::Scalar),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => ("", pointer_size, Shape::Pointer(target())),
            gimli::DW_TAG_typedef => ("", None, Shape::Alias(target())),
            gimli::DW_TAG_const_type => ("const ", None, Shape::Alias(target())),
            gimli::DW_TAG_volatile_type => ("volatile ", None, Shape::Alias(target())),
            gimli::DW_TAG_atomic_type => ("_Atomic ", None, Shape::Alias(target())),
            gimli::DW_TAG_restrict_type => ("", None, Shape::Alias(target())),
            gimli::DW_TAG_structure_type => ("struct ", size, self.aggregate(&unit, reference, false)),
            gimli::DW_TAG_class_type => ("", size, self.aggregate(&unit, reference, false)),
            gimli::DW_TAG_union_type => ("union ", size, self.aggregate(&unit, reference, true)),
            gimli::DW_TAG_array_type => {
                let counts = self.counts(&unit, reference);
                ("", size, Shape::Array { element: target(), counts })
            }
            _ => ("", size, Shape::Other),
        };
        let name = unit.name(&entry).map(Arc::from);
        Some(Type { name, prefix, size, shape })
    }

    /// The full type of a declaration: by signature, or the struct of that name in another unit.
    fn elsewhere(&self, unit: &OpenUnit<'a>, entry: &Entry<'a>, own: EntryRef) -> Option<Type> {
        let by_signature =
            entry.attr_value(gimli::DW_AT_signature).and_then(|signature| self.reference(unit, signature));
        let by_name = || self.index.definition(&unit.name(entry)?);
        let target = by_signature.or_else(by_name).filter(|target| *target != own)?;
        let is_declaration = |target: EntryRef| {
            let entry = self.opener.unit(target.unit)?.entry(target.offset)?;
            Some(
                entry.attr(gimli::DW_AT_declaration).is_some()
                    || entry.attr(gimli::DW_AT_signature).is_some(),
            )
        };
        // Only one step: a declaration that refers to another one is not resolved.
        (is_declaration(target) == Some(false)).then(|| self.read(target)).flatten()
    }

    fn aggregate(&self, unit: &OpenUnit<'a>, reference: EntryRef, is_union: bool) -> Shape {
        let mut members = Vec::new();
        for_children(unit, reference.offset, |entry| {
            let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
                None => Some(0),
                Some(AttributeValue::Exprloc(expression)) => constant_offset(unit, expression),
                Some(_) => unit.number(entry, gimli::DW_AT_data_member_location),
            };
            let member = match entry.tag() {
                gimli::DW_TAG_member if entry.attr(gimli::DW_AT_external).is_none() => offset,
                gimli::DW_TAG_inheritance => offset,
                _ => None,
            };
            let Some(offset) = member else { return members.len() < MEMBERS_AT_MOST };
            let type_of = entry.attr_value(gimli::DW_AT_type).and_then(|value| self.reference(unit, value));
            let name =
                if entry.tag() == gimli::DW_TAG_member { unit.name(entry).map(Arc::from) } else { None };
            members.push(Member { name, type_of, offset, bits: bits(unit, entry, offset) });
            members.len() < MEMBERS_AT_MOST
        });
        Shape::Aggregate { is_union, members }
    }

    fn counts(&self, unit: &OpenUnit<'a>, reference: EntryRef) -> Vec<Option<u64>> {
        const DIMENSIONS_AT_MOST: usize = 16;
        let mut counts = Vec::new();
        for_children(unit, reference.offset, |entry| {
            if entry.tag() == gimli::DW_TAG_subrange_type {
                let count = unit.number(entry, gimli::DW_AT_count);
                // An upper bound of -1 is GCC's way to write a length of 0.
                let upper = || match entry.attr(gimli::DW_AT_upper_bound)?.sdata_value() {
                    Some(-1) => Some(0),
                    _ => unit.number(entry, gimli::DW_AT_upper_bound)?.checked_add(1),
                };
                counts.push(count.or_else(upper));
            }
            counts.len() < DIMENSIONS_AT_MOST
        });
        counts
    }
}

impl Types for TypeReader<'_, '_> {
    fn get(&mut self, reference: EntryRef) -> Option<Arc<Type>> {
        if let Some(found) = self.shapes.known.get(&reference) {
            return Some(Arc::clone(found));
        }
        let found = Arc::new(self.read(reference)?);
        self.shapes.known.insert(reference, Arc::clone(&found));
        Some(found)
    }
}

fn origin_of<'u>(reader: &TypeReader<'_, 'u>, unit: &OpenUnit<'u>, entry: &Entry<'u>) -> Option<EntryRef> {
    let origin = entry.attr_value(gimli::DW_AT_abstract_origin);
    reader.reference(unit, origin.or_else(|| entry.attr_value(gimli::DW_AT_specification))?)
}

/// Calls `visit` for each child of an entry, until it returns false.
fn for_children<'a>(unit: &OpenUnit<'a>, offset: usize, mut each: impl FnMut(&Entry<'a>) -> bool) {
    let Ok(mut entries) = unit.unit.entries_raw(Some(gimli::UnitOffset(offset))) else { return };
    let mut entry = DebuggingInformationEntry::null();
    let mut is_first = true;
    while !entries.is_empty() {
        let Ok(is_entry) = entries.read_entry(&mut entry) else { return };
        if is_entry && !is_first && entry.depth() == 1 && !each(&entry) {
            return;
        }
        is_first = false;
        if entries.next_depth() <= 0 {
            return;
        }
    }
}

/// Before DWARF 3, offsets of members were expressions: `DW_OP_plus_uconst N`.
fn constant_offset(unit: &OpenUnit<'_>, expression: gimli::Expression<Slice<'_>>) -> Option<u64> {
    match expression.operations(unit.unit.encoding()).next().ok()?? {
        gimli::Operation::PlusConstant { value } => Some(value),
        _ => None,
    }
}

/// The position of a bit field. DWARF 4 counts from the struct's first byte; earlier versions from the highest bit
/// of the storage unit.
fn bits<'u>(unit: &OpenUnit<'u>, entry: &Entry<'u>, offset: u64) -> Option<(u64, u64)> {
    let size = unit.number(entry, gimli::DW_AT_bit_size)?;
    if let Some(first) = unit.number(entry, gimli::DW_AT_data_bit_offset) {
        return Some((first, size));
    }
    let from_top = unit.number(entry, gimli::DW_AT_bit_offset)?;
    let storage = unit.number(entry, gimli::DW_AT_byte_size)?.checked_mul(8)?;
    let first = offset.checked_mul(8)?.checked_add(storage)?.checked_sub(from_top.checked_add(size)?)?;
    Some((first, size))
}
