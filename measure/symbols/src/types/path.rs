//! From a type and an offset to a field.
//!
//! ```text
//!   struct stats { int total; struct counter { long hits, misses; } counters[4]; }      offset 56
//!     56 - 8 (counters) = 48;  48 / 16 = element 3, byte 0;  byte 0 of counter: hits
//!     ──> counters[3].hits, begins at 56, 8 bytes of type long
//! ```

use super::shape::{Member, Shape, Type, Types};
use super::units::EntryRef;
use super::NoField;
use std::sync::Arc;

/// Limit for the nesting of structs and arrays.
const DEPTH_AT_MOST: usize = 64;
/// Bit fields that are named together.
const BIT_FIELDS_AT_MOST: usize = 4;

/// The field to find.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Byte of the owner.
    pub(super) offset: i64,
    /// Access size in bytes; 0: unknown. It selects among the members of a union and the number of bit fields.
    pub(super) size: u64,
    /// Unknown multiples that the instruction adds: the elements that they select are then `[*]`.
    pub(super) strides: Strides,
    /// Whether the owner may be one of several adjacent ones: after a pointer.
    pub(super) repeats: bool,
}

/// Sizes in bytes of which unknown multiples are added to an offset: `p[i].y[j]` of 48-byte structs with an array
/// of `int` has the strides 48 and 4. 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strides([u64; 2]);

impl Strides {
    /// With one more; `None` if there are too many.
    pub(super) fn and(self, stride: u64) -> Option<Strides> {
        let mut more = self;
        *more.0.iter_mut().find(|place| **place == 0)? = stride;
        Some(more)
    }

    /// All of them.
    pub(super) fn iter(self) -> impl Iterator<Item = u64> {
        self.0.into_iter().filter(|stride| *stride != 0)
    }

    /// Both.
    pub(super) fn join(self, other: Strides) -> Option<Strides> {
        other.0.into_iter().filter(|stride| *stride != 0).try_fold(self, Strides::and)
    }

    /// Without those that are steps of whole elements; also whether there were any.
    fn without_steps_of(self, size: u64) -> (Strides, bool) {
        let mut rest = self;
        for stride in &mut rest.0 {
            if *stride % size == 0 {
                *stride = 0;
            }
        }
        (rest, rest != self)
    }

    fn is_empty(self) -> bool {
        self == Strides::default()
    }
}

/// The field found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) path: String,
    /// `None`: padding.
    pub(super) type_of: Option<EntryRef>,
    pub(super) start: u64,
    pub(super) size: u64,
    /// Whether it is a bit field, which has no address of its own.
    pub(super) is_bits: bool,
}

/// Finds the field of a type at an offset.
pub(super) fn find(
    types: &mut dyn TypesObject,
    owner: Option<EntryRef>,
    wanted: Wanted,
) -> Result<Leaf, NoField> {
    let (_, top) = types.peel_object(owner).ok_or(NoField::NoType)?;
    if matches!(top.shape, Shape::Other) {
        return Err(NoField::NoType);
    }
    let mut wanted = wanted;
    if let Some(size) = types.size_object(owner).filter(|size| *size > 0 && wanted.repeats) {
        let (strides, is_one_of_many) = wanted.strides.without_steps_of(size);
        wanted.strides = strides;
        if let (true, Ok(size)) = (is_one_of_many, i64::try_from(size)) {
            wanted.offset = wanted.offset.rem_euclid(size);
        }
    }
    let offset = u64::try_from(wanted.offset).map_err(|_| NoField::BadOffset)?;
    let limit = extent(types, owner);
    if limit.is_some_and(|limit| offset >= limit) {
        return Err(NoField::BadOffset);
    }
    if limit.is_none() && matches!(&top.shape, Shape::Aggregate { members, .. } if members.is_empty()) {
        return Err(NoField::NoType);
    }
    let start = Leaf { path: String::new(), type_of: owner, start: 0, size: 0, is_bits: false };
    let (leaf, strides) = descend(types, start, offset, wanted, 0);
    // An index without a matching array: the accessed field is unknown.
    if strides.is_empty() {
        Ok(leaf)
    } else {
        Err(NoField::BadOffset)
    }
}

/// An object-safe `Types`, so that the recursion is instantiated once.
pub(super) trait TypesObject {
    fn peel_object(&mut self, reference: Option<EntryRef>) -> Option<(EntryRef, Arc<Type>)>;
    fn size_object(&mut self, reference: Option<EntryRef>) -> Option<u64>;
}

impl<T: Types> TypesObject for T {
    fn peel_object(&mut self, reference: Option<EntryRef>) -> Option<(EntryRef, Arc<Type>)> {
        self.peel(reference)
    }

    fn size_object(&mut self, reference: Option<EntryRef>) -> Option<u64> {
        self.size(reference)
    }
}

/// First offset outside of a type; `None`: open. A struct whose last member is an array of open length, of length
/// 0, or of length 1 (the convention before C99) extends beyond its size.
fn extent(types: &mut dyn TypesObject, reference: Option<EntryRef>) -> Option<u64> {
    let (_, found) = types.peel_object(reference)?;
    if let Shape::Aggregate { is_union: false, members } = &found.shape {
        let last = members.last().and_then(|member| types.peel_object(member.type_of));
        if let Some((_, last)) = last {
            if matches!(&last.shape, Shape::Array { counts, .. } if counts.first().is_some_and(is_open)) {
                return None;
            }
        }
    }
    types.size_object(reference)
}

fn is_open(count: &Option<u64>) -> bool {
    count.is_none_or(|count| count <= 1)
}

/// Descends from `leaf`, which contains the byte at `rest`, to the innermost field. Also returns the strides
/// without a matching array.
fn descend(
    types: &mut dyn TypesObject,
    mut leaf: Leaf,
    mut rest: u64,
    mut wanted: Wanted,
    depth: usize,
) -> (Leaf, Strides) {
    for _ in depth..DEPTH_AT_MOST {
        leaf.size = types.size_object(leaf.type_of).unwrap_or(0);
        let Some((_, found)) = types.peel_object(leaf.type_of) else { break };
        match &found.shape {
            Shape::Array { element, counts } => {
                let Some(size) = types.size_object(*element).filter(|size| *size > 0) else { break };
                let number = rest / size;
                let (strides, is_indexed) = wanted.strides.without_steps_of(size);
                wanted.strides = strides;
                if is_indexed {
                    leaf.path.push_str(&"[*]".repeat(counts.len().max(1)));
                } else {
                    leaf.path.push_str(&indices(number, counts));
                }
                leaf.start += number * size;
                leaf.type_of = *element;
                rest -= number * size;
            }
            Shape::Aggregate { is_union: true, members } if !members.is_empty() => {
                return in_union(types, &leaf, members, rest, wanted, depth);
            }
            Shape::Aggregate { members, .. } if !members.is_empty() => {
                let Some(member) = member_at(types, members, rest) else {
                    return (padding(leaf, members, types, rest), wanted.strides);
                };
                if member.bits.is_some() {
                    return (bit_fields(leaf, members, rest, wanted.size), wanted.strides);
                }
                rest -= member.offset;
                enter(&mut leaf, member);
            }
            _ => break,
        }
    }
    (leaf, wanted.strides)
}

fn enter(leaf: &mut Leaf, member: &Member) {
    if let Some(name) = &member.name {
        append(&mut leaf.path, name);
    }
    leaf.start += member.offset;
    leaf.type_of = member.type_of;
}

fn append(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// `[3]`, or of several dimensions `[1][2]`.
fn indices(number: u64, counts: &[Option<u64>]) -> String {
    let mut number = number;
    let mut reversed = Vec::new();
    for count in counts.iter().skip(1).rev() {
        let count = count.unwrap_or(1).max(1);
        reversed.push(number % count);
        number /= count;
    }
    reversed.push(number);
    reversed.iter().rev().map(|index| format!("[{index}]")).collect()
}

fn member_at<'m>(types: &mut dyn TypesObject, members: &'m [Member], rest: u64) -> Option<&'m Member> {
    let last = members.len() - 1;
    members.iter().enumerate().find_map(|(number, member)| {
        let holds = match member.bits {
            Some((first, count)) => (first / 8..first.saturating_add(count).div_ceil(8)).contains(&rest),
            None => {
                let size = if number == last {
                    extent(types, member.type_of)
                } else {
                    types.size_object(member.type_of)
                };
                let is_open_array = number == last && is_array(types, member);
                rest >= member.offset
                    && (is_open_array || size.is_some_and(|size| rest - member.offset < size))
            }
        };
        holds.then_some(member)
    })
}

fn is_array(types: &mut dyn TypesObject, member: &Member) -> bool {
    types.peel_object(member.type_of).is_some_and(
        |(_, found)| matches!(&found.shape, Shape::Array { counts, .. } if counts.first().is_some_and(is_open)),
    )
}

/// The gap between two members.
fn padding(mut leaf: Leaf, members: &[Member], types: &mut dyn TypesObject, rest: u64) -> Leaf {
    let end_of = |types: &mut dyn TypesObject, member: &Member| match member.bits {
        Some((first, count)) => first.saturating_add(count).div_ceil(8),
        None => member.offset.saturating_add(types.size_object(member.type_of).unwrap_or(0)),
    };
    let ends = members.iter().map(|member| end_of(types, member)).filter(|end| *end <= rest);
    let start = ends.max().unwrap_or(0);
    let starts = members.iter().map(|member| member.bits.map_or(member.offset, |(first, _)| first / 8));
    let end = starts.filter(|next| *next > rest).min().unwrap_or(leaf.size.max(rest + 1));
    append(&mut leaf.path, "(padding)");
    Leaf { start: leaf.start + start, size: end - start, type_of: None, ..leaf }
}

/// All bit fields that the access touches.
fn bit_fields(mut leaf: Leaf, members: &[Member], rest: u64, size: u64) -> Leaf {
    let touched = rest * 8..rest.saturating_add(size.max(1)).saturating_mul(8);
    let fields = members.iter().filter_map(|member| member.bits.map(|bits| (member, bits)));
    let fields: Vec<_> = fields
        .filter(|(_, (first, count))| *first < touched.end && first.saturating_add(*count) > touched.start)
        .take(BIT_FIELDS_AT_MOST)
        .collect();
    let names: Vec<&str> =
        fields.iter().map(|(member, _)| member.name.as_deref().unwrap_or("(padding)")).collect();
    append(&mut leaf.path, &names.join("|"));
    let first = fields.iter().map(|(_, (first, _))| first / 8).min().unwrap_or(rest);
    let end = fields.iter().map(|(_, (first, count))| first.saturating_add(*count).div_ceil(8)).max();
    let type_of = fields.first().and_then(|(member, _)| member.type_of);
    let size = end.unwrap_or(rest + 1).saturating_sub(first);
    Leaf { start: leaf.start + first, size, type_of, is_bits: true, ..leaf }
}

/// The union member whose field has the access's size; else the first one that extends to the offset.
fn in_union(
    types: &mut dyn TypesObject,
    leaf: &Leaf,
    members: &[Member],
    rest: u64,
    wanted: Wanted,
    depth: usize,
) -> (Leaf, Strides) {
    /// Unions within unions would be tried in all combinations.
    const TRIED_AT_MOST: usize = 8;
    let mut first = None;
    for member in members.iter().take(TRIED_AT_MOST) {
        if rest < member.offset
            || types.size_object(member.type_of).is_some_and(|size| rest - member.offset >= size)
        {
            continue;
        }
        let mut inside = leaf.clone();
        enter(&mut inside, member);
        // Each level of unions costs depth, to bound the attempts.
        let found =
            descend(types, inside, rest - member.offset, wanted, depth.saturating_add(DEPTH_AT_MOST / 4));
        if found.0.size == wanted.size && found.0.type_of.is_some() && found.1.is_empty() {
            return found;
        }
        first.get_or_insert(found);
    }
    first.unwrap_or_else(|| (leaf.clone(), wanted.strides))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Table(HashMap<EntryRef, Arc<Type>>);

    impl Types for Table {
        fn get(&mut self, reference: EntryRef) -> Option<Arc<Type>> {
            self.0.get(&reference).cloned()
        }
    }

    fn at(offset: usize) -> EntryRef {
        EntryRef { unit: 0, offset }
    }

    fn member(name: &str, type_of: usize, offset: u64) -> Member {
        let name = (!name.is_empty()).then(|| name.into());
        Member { name, type_of: Some(at(type_of)), offset, bits: None }
    }

    fn bits(name: &str, first: u64, count: u64) -> Member {
        Member { bits: Some((first, count)), ..member(name, 1, 0) }
    }

    /// 1 int, 2 long, 3 struct counter, 4 its array [2][3], 5 the struct under test, 6 typedef of 5, 7 a union,
    /// 8 int[], 9 a struct ending in it, 10 int *, 11 a typedef of itself, 12 a struct of bit fields.
    fn table() -> Table {
        let aggregate = |is_union, members| Shape::Aggregate { is_union, members };
        let array = |element, counts| Shape::Array { element: Some(at(element)), counts };
        let types = [
            (1, Some("int"), "", Some(4), Shape::Scalar),
            (2, Some("long"), "", Some(8), Shape::Scalar),
            (
                3,
                Some("counter"),
                "struct ",
                Some(16),
                aggregate(false, vec![member("hits", 2, 0), member("misses", 1, 8)]),
            ),
            (4, None, "", None, array(3, vec![Some(2), Some(3)])),
            (
                5,
                None,
                "struct ",
                Some(120),
                aggregate(false, vec![member("total", 1, 0), member("counters", 4, 8), member("", 7, 104)]),
            ),
            (6, Some("stats"), "", None, Shape::Alias(Some(at(5)))),
            (7, None, "union ", Some(8), aggregate(true, vec![member("whole", 2, 0), member("half", 1, 0)])),
            (8, None, "", None, array(1, vec![None])),
            (
                9,
                Some("open"),
                "struct ",
                Some(4),
                aggregate(false, vec![member("n", 1, 0), member("tail", 8, 4)]),
            ),
            (10, None, "", Some(8), Shape::Pointer(Some(at(1)))),
            (11, None, "", None, Shape::Alias(Some(at(11)))),
            (12, Some("flags"), "struct ", Some(4), aggregate(false, vec![bits("a", 0, 3), bits("b", 3, 7)])),
        ];
        let known = types.map(|(number, name, prefix, size, shape)| {
            (at(number), Arc::new(Type::new(name.map(Into::into), prefix, size, shape)))
        });
        Table(known.into_iter().collect())
    }

    fn path(owner: usize, offset: i64, size: u64) -> Result<(String, u64, u64), NoField> {
        let wanted = Wanted { offset, size, strides: Strides::default(), repeats: true };
        find(&mut table(), Some(at(owner)), wanted).map(|leaf| (leaf.path, leaf.start, leaf.size))
    }

    fn is(path: &str, start: u64, size: u64) -> Result<(String, u64, u64), NoField> {
        Ok((path.to_owned(), start, size))
    }

    #[test]
    fn offsets_become_fields() {
        assert_eq!(path(6, 0, 4), is("total", 0, 4));
        assert_eq!(path(6, 3, 1), is("total", 0, 4));
        // 8 + (1*3 + 2)*16 + 8 = 96
        assert_eq!(path(6, 96, 4), is("counters[1][2].misses", 96, 4));
        assert_eq!(path(6, 8, 8), is("counters[0][0].hits", 8, 8));
        // Between the int at 0 and the array at 8, and behind the int at 96.
        assert_eq!(path(6, 5, 1), is("(padding)", 4, 4));
        assert_eq!(path(6, 101, 1), is("counters[1][2].(padding)", 100, 4));
        // The anonymous union: the member of the access's size.
        assert_eq!(path(6, 104, 8), is("whole", 104, 8));
        assert_eq!(path(6, 104, 4), is("half", 104, 4));
        assert_eq!(path(6, 108, 4), is("whole", 104, 8));
        assert_eq!(path(1, 2, 1), is("", 0, 4));
    }

    #[test]
    fn what_lies_outside_is_said() {
        assert_eq!(path(6, 120, 4), Err(NoField::BadOffset));
        assert_eq!(path(6, -8, 4), Err(NoField::BadOffset));
        assert_eq!(path(1, 4, 4), Err(NoField::BadOffset));
        assert_eq!(path(99, 0, 4), Err(NoField::NoType));
        assert_eq!(path(11, 0, 4), Err(NoField::NoType));
        // An open array at the end has no end.
        assert_eq!(path(9, 400, 4), is("tail[99]", 400, 4));
    }

    #[test]
    fn bit_fields_are_named_together_where_an_access_touches_both() {
        assert_eq!(path(12, 0, 1), is("a|b", 0, 2));
        assert_eq!(path(12, 1, 1), is("b", 0, 2));
        assert_eq!(path(12, 2, 1), is("(padding)", 2, 2));
    }

    #[test]
    fn an_index_that_only_the_run_knows_is_a_star() {
        let find = |offset, strides: &[u64]| {
            let strides =
                strides.iter().fold(Strides::default(), |all, one| all.and(*one).expect("two at most"));
            let wanted = Wanted { offset, size: 4, strides, repeats: true };
            find(&mut table(), Some(at(6)), wanted).map(|leaf| leaf.path)
        };
        assert_eq!(find(16, &[16]), Ok("counters[*][*].misses".into()));
        // p[i].total, and p[i].counters[j].misses, and p[i - 1].total.
        assert_eq!(find(0, &[120]), Ok("total".into()));
        assert_eq!(find(16, &[120, 16]), Ok("counters[*][*].misses".into()));
        assert_eq!(find(-120, &[240]), Ok("total".into()));
        // A step of 8 matches no array here, nor is there one at 0.
        assert_eq!(find(16, &[8]), Err(NoField::BadOffset));
        assert_eq!(find(0, &[16]), Err(NoField::BadOffset));
    }

    #[test]
    fn types_are_named_as_c_writes_them() {
        let mut table = table();
        let named =
            [(1, "int"), (3, "struct counter"), (4, "struct counter[2][3]"), (6, "stats"), (10, "int *")];
        for (number, name) in named {
            assert_eq!(table.name(Some(at(number))), name);
        }
        assert_eq!(table.name(None), "void");
        assert_eq!(table.owner_name(Some(at(5))), "struct {...}");
        assert_eq!(table.owner_name(Some(at(6))), "stats");
    }
}
