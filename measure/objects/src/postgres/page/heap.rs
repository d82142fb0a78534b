//! Pages of tables: tuples with a header of 23 bytes, a bitmap of nulls, and the columns.

use super::layout::{Item, Page, Part};
use super::values::{columns_in, value_at, Attribute};
use crate::bytes::{u16_at, u32_at};

/// The fixed part of a tuple's header.
pub(crate) const TUPLE_HEADER: usize = 23;

const HAS_NULLS: u16 = 0x0001;
const XMIN_COMMITTED: u16 = 0x0100;
const XMIN_INVALID: u16 = 0x0200;
const XMAX_COMMITTED: u16 = 0x0400;
const XMAX_INVALID: u16 = 0x0800;
const XMAX_IS_LOCK: u16 = 0x0080;

/// The part of a table's page that contains an offset.
pub(super) fn part_at(page: &Page, attributes: &[Attribute], offset: usize) -> Part {
    if let Some(part) = page.common(offset) {
        return part;
    }
    let Some(item) = page.item_at(offset) else { return page.gap(offset) };
    if !item.normal {
        return Part::new(item.range, "dead tuple");
    }
    let start = item.range.start;
    let data = start + usize::from(page.bytes.get(start + 22).copied().unwrap_or(0));
    if !(start + TUPLE_HEADER..=item.range.end).contains(&data) {
        return Part::new(item.range, "tuple");
    }
    if offset < data {
        return Part::new(start..data, "tuple header");
    }
    let flags = u16_at(page.bytes, start + 20).unwrap_or(0);
    let nulls = (flags & HAS_NULLS != 0).then_some(start + TUPLE_HEADER);
    let columns = columns_in(page.bytes, start + 18, 0x07ff);
    let values = data..item.range.end;
    value_at(page.bytes, attributes, columns, nulls, values.clone(), "column", offset)
        .unwrap_or_else(|| Part::new(values, "tuple data"))
}

/// How likely a tuple is to be the valid version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Deleted or replaced.
    Old,
    /// Being deleted or replaced, or recently so.
    Parting,
    /// Valid, or recently added.
    Current,
}

/// A tuple on a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuple<'a> {
    /// Its columns.
    pub data: &'a [u8],
    /// The transaction that inserted it.
    pub xmin: u32,
    /// How likely it is valid.
    pub standing: Standing,
}

/// The tuples of a table's page that were not rolled back.
pub(crate) fn tuples<'a>(page: &Page<'a>) -> Vec<Tuple<'a>> {
    let read = |item: Item| {
        let bytes = page.bytes.get(item.range)?;
        let flags = u16_at(bytes, 20)?;
        let (xmin, xmax) = (u32_at(bytes, 0)?, u32_at(bytes, 4)?);
        let data = bytes.get(usize::from(*bytes.get(22)?).max(TUPLE_HEADER)..)?;
        // Both bits together mean frozen: older than all.
        if flags & (XMIN_COMMITTED | XMIN_INVALID) == XMIN_INVALID {
            return None;
        }
        let standing = match () {
            () if flags & (XMAX_INVALID | XMAX_IS_LOCK) != 0 || xmax == 0 => Standing::Current,
            () if flags & XMAX_COMMITTED != 0 => Standing::Old,
            () => Standing::Parting,
        };
        Some(Tuple { data, xmin, standing })
    };
    page.items().filter(|item| item.normal).filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::page;
    use super::super::{part_at, Shape};
    use super::*;

    fn attribute(name: &str, length: i16, align: u8) -> Attribute {
        Attribute { name: name.into(), length, align, dropped: false }
    }

    /// aid int4 = 1, bid int4 = 2, note text = "ab" (short header), null, abalance int4 = 3 after padding.
    fn tuple() -> Vec<u8> {
        let mut tuple = vec![0u8; 24];
        tuple[0..4].copy_from_slice(&700u32.to_le_bytes());
        tuple[18..20].copy_from_slice(&5u16.to_le_bytes());
        tuple[20..22].copy_from_slice(&(HAS_NULLS | XMIN_COMMITTED | XMAX_INVALID).to_le_bytes());
        tuple[22] = 24;
        tuple[23] = 0b1_0111;
        tuple.extend([1, 0, 0, 0, 2, 0, 0, 0]);
        tuple.extend([3 << 1 | 1, b'a', b'b']);
        tuple.extend([0, 3, 0, 0, 0]);
        tuple
    }

    #[test]
    fn columns_of_a_tuple_made_by_hand() {
        let columns = [
            attribute("aid", 4, b'i'),
            attribute("bid", 4, b'i'),
            attribute("note", -1, b'i'),
            attribute("gone", 8, b'd'),
            attribute("abalance", 4, b'i'),
        ];
        let bytes = page(&[(8152, 1, &tuple())], &[]);
        let part = |offset| part_at(&bytes, Shape::Heap, &columns, offset).expect("a part");
        assert_eq!(part(8152), Part::new(8152..8176, "tuple header"));
        assert_eq!(part(8175), Part::new(8152..8176, "tuple header"));
        assert_eq!(part(8176), Part::new(8176..8180, "column aid"));
        assert_eq!(part(8183), Part::new(8180..8184, "column bid"));
        assert_eq!(part(8186), Part::new(8184..8187, "column note"));
        assert_eq!(part(8187), Part::new(8187..8188, "padding"));
        assert_eq!(part(8188), Part::new(8188..8192, "column abalance"));
        assert_eq!(part(25), Part::new(24..28, "line pointers"));
        // Without the catalog, only the tuple is known.
        assert_eq!(part_at(&bytes, Shape::Heap, &[], 8176), Some(Part::new(8176..8192, "padding")));
    }

    #[test]
    fn values_of_all_lengths() {
        let mut tuple = tuple();
        tuple[18] = 4;
        tuple[23] = 0b1111;
        tuple.truncate(24);
        tuple.extend([7, 0, 0, 0]); // int4, then a long varlena of 4 + 2 bytes, a pointer to TOAST, a cstring
        tuple.extend((6u32 << 2).to_le_bytes());
        tuple.extend(*b"xy");
        tuple.extend([1, 18]);
        tuple.extend([9; 16]);
        tuple.extend(*b"end\0");
        let columns = [
            attribute("id", 4, b'i'),
            attribute("long", -1, b'i'),
            Attribute { dropped: true, ..attribute("........pg.dropped.3........", -1, b'i') },
            attribute("name", -2, b'c'),
        ];
        let at = 8192 - tuple.len();
        let bytes = page(&[(at, 1, &tuple)], &[]);
        let part = |offset| part_at(&bytes, Shape::Heap, &columns, at + 24 + offset).expect("a part");
        let expected = |range: std::ops::Range<usize>, name: &'static str| {
            Part::new(at + 24 + range.start..at + 24 + range.end, name)
        };
        assert_eq!(part(5), expected(4..10, "column long"));
        assert_eq!(part(27), expected(10..28, "column that was dropped"));
        assert_eq!(part(31), expected(28..32, "column name"));
    }

    #[test]
    fn which_tuples_count() {
        let mut replaced = tuple();
        replaced[4] = 9;
        replaced[20..22].copy_from_slice(&(XMIN_COMMITTED | XMAX_COMMITTED).to_le_bytes());
        let mut parting = replaced.clone();
        parting[20..22].copy_from_slice(&XMIN_COMMITTED.to_le_bytes());
        let mut aborted = tuple();
        aborted[20..22].copy_from_slice(&(XMIN_INVALID | XMAX_INVALID).to_le_bytes());
        let mut frozen = tuple();
        frozen[20..22].copy_from_slice(&(XMIN_COMMITTED | XMIN_INVALID | XMAX_INVALID).to_le_bytes());
        let items = [
            (8000, 1, &tuple()[..]),
            (7900, 1, &replaced),
            (7800, 1, &parting),
            (7700, 1, &aborted),
            (7600, 1, &frozen),
        ];
        let bytes = page(&items, &[]);
        let found: Vec<Standing> =
            tuples(&Page::new(&bytes).expect("sound")).iter().map(|tuple| tuple.standing).collect();
        assert_eq!(found, [Standing::Current, Standing::Old, Standing::Parting, Standing::Current]);
    }
}
