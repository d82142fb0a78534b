//! Parts of an 8 KB page: which header, tuple and column an offset belongs to.
//!
//! ```text
//!   0            24           pd_lower        pd_upper                     pd_special      8192
//!   | page header | line pointers | free space | tuples, from the end down | special space |
//! ```
//!
//! A page is read while others may change it, so that what lies in it may be half old and half new: every offset is
//! checked, and what makes no sense is named no further than it does.

pub(crate) mod btree;
pub(crate) mod heap;
mod values;

pub(crate) use values::Attribute;

use crate::bytes::{u16_at, u32_at, u64_at};
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of the header.
pub(crate) const HEADER: usize = 24;

/// Bytes of a line pointer.
const LINE_POINTER: usize = 4;

/// A stretch of a page and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where in the page.
    pub range: Range<usize>,
    /// What it is.
    pub name: Cow<'static, str>,
}

impl Part {
    fn new(range: Range<usize>, name: impl Into<Cow<'static, str>>) -> Part {
        Part { range, name: name.into() }
    }
}

/// How a relation uses its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Tuples of a table; of a sequence or a TOAST table too.
    Heap,
    /// A B-tree index.
    Btree,
    /// A page with a standard header, of unknown type.
    Other,
    /// Free space map.
    FreeSpaceMap,
    /// Visibility map.
    VisibilityMap,
}

/// A page with a sound header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    bytes: &'a [u8],
    lower: usize,
    upper: usize,
    special: usize,
}

/// Where a line pointer points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its bytes in the page.
    pub range: Range<usize>,
    /// Whether it is in use (`LP_NORMAL`), else dead.
    pub normal: bool,
}

/// The position in the write-ahead log of a page's last change.
pub(crate) fn change_of(page: &[u8]) -> Option<u64> {
    // Two words, the high one first.
    Some(u64::from(u32_at(page, 0)?) << 32 | u64::from(u32_at(page, 4)?))
}

impl<'a> Page<'a> {
    /// A page whose header makes sense; one that was never written does not.
    pub fn new(bytes: &'a [u8]) -> Option<Page<'a>> {
        let field = |at| u16_at(bytes, at).map(usize::from);
        let (lower, upper, special) = (field(12)?, field(14)?, field(16)?);
        let sound = HEADER <= lower && lower <= upper && upper <= special && special <= bytes.len();
        sound.then_some(Page { bytes, lower, upper, special })
    }

    /// The special space.
    pub fn special(&self) -> &'a [u8] {
        &self.bytes[self.special..]
    }

    /// All items that lie where tuples lie.
    pub fn items(&self) -> impl Iterator<Item = Item> + use<'_, 'a> {
        (0..(self.lower - HEADER) / LINE_POINTER).filter_map(|index| {
            let word = u32_at(self.bytes, HEADER + index * LINE_POINTER)?;
            let (offset, flags, length) = ((word & 0x7fff) as usize, word >> 15 & 3, (word >> 17) as usize);
            let range = offset..offset + length;
            // 1 is LP_NORMAL, 3 LP_DEAD that may keep its bytes; 0 and 2 (a redirection) have none.
            let stored = matches!(flags, 1 | 3) && length > 0;
            let inside = self.upper <= range.start && range.end <= self.special;
            (stored && inside).then_some(Item { number: index + 1, range, normal: flags == 1 })
        })
    }

    /// The parts that all pages have; `None` inside the region of tuples.
    fn common(&self, offset: usize) -> Option<Part> {
        match offset {
            _ if offset < HEADER => Some(Part::new(0..HEADER, "page header")),
            _ if offset < self.lower => Some(Part::new(HEADER..self.lower, "line pointers")),
            _ if offset < self.upper => Some(Part::new(self.lower..self.upper, "free space")),
            _ if offset >= self.special => Some(Part::new(self.special..self.bytes.len(), "special space")),
            _ => None,
        }
    }

    /// What lies between items: storage of tuples that were removed, or the gap that aligns the next.
    fn gap(&self, offset: usize) -> Part {
        let (mut start, mut end) = (self.upper, self.special);
        for item in self.items() {
            if item.range.end <= offset {
                start = start.max(item.range.end);
            } else if item.range.start > offset {
                end = end.min(item.range.start);
            }
        }
        Part::new(start..end, "unused space")
    }

    fn item_at(&self, offset: usize) -> Option<Item> {
        self.items().find(|item| item.range.contains(&offset))
    }
}

/// The part of a page that an offset belongs to. `None`: the page makes no sense there.
pub(crate) fn part_at(bytes: &[u8], shape: Shape, attributes: &[Attribute], offset: usize) -> Option<Part> {
    if offset >= bytes.len() {
        return None;
    }
    let contents = |name: &'static str| match offset {
        _ if offset < HEADER => Part::new(0..HEADER, "page header"),
        _ => Part::new(HEADER..bytes.len(), name),
    };
    match shape {
        Shape::FreeSpaceMap => return Some(contents("tree of free space")),
        Shape::VisibilityMap => return Some(contents("visibility bits")),
        _ => {}
    }
    let Some(page) = Page::new(bytes) else {
        // A page that was just added to its file is all zeroes.
        let fresh = u64_at(bytes, 8) == Some(0) && u32_at(bytes, 16) == Some(0);
        return fresh.then(|| Part::new(0..bytes.len(), "new page"));
    };
    match shape {
        Shape::Heap => Some(heap::part_at(&page, attributes, offset)),
        Shape::Btree => Some(btree::part_at(&page, attributes, offset)),
        _ => page.common(offset).filter(|part| part.name != "line pointers").or_else(|| {
            let end = if offset < page.lower { HEADER..page.lower } else { page.upper..page.special };
            Some(Part::new(end, "contents"))
        }),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page with items at given offsets: (offset, flags, bytes).
    pub(crate) fn page(items: &[(usize, u32, &[u8])], special: &[u8]) -> Vec<u8> {
        let mut page = vec![0u8; 8192];
        let special_at = 8192 - special.len();
        page[special_at..].copy_from_slice(special);
        let upper = items.iter().map(|(offset, ..)| *offset).min().unwrap_or(special_at);
        let lower = HEADER + items.len() * 4;
        for (at, value) in [(12, lower), (14, upper), (16, special_at)] {
            page[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
        }
        for (index, (offset, flags, bytes)) in items.iter().enumerate() {
            let word = *offset as u32 | flags << 15 | (bytes.len() as u32) << 17;
            page[HEADER + index * 4..HEADER + index * 4 + 4].copy_from_slice(&word.to_le_bytes());
            page[*offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        page
    }

    #[test]
    fn parts_that_all_pages_have() {
        let bytes = page(&[(8152, 1, &[1; 30]), (8112, 3, &[2; 32])], &[]);
        let part = |offset| part_at(&bytes, Shape::Other, &[], offset).expect("a part");
        assert_eq!(part(23), Part::new(0..24, "page header"));
        assert_eq!(part(32), Part::new(32..8112, "free space"));
        assert_eq!(part(8191), Part::new(8112..8192, "contents"));
        assert_eq!(part_at(&bytes, Shape::Other, &[], 8192), None);
        let page = Page::new(&bytes).expect("sound");
        let items: Vec<_> = page.items().map(|item| (item.number, item.range, item.normal)).collect();
        assert_eq!(items, [(1, 8152..8182, true), (2, 8112..8144, false)]);
        assert_eq!(page.gap(8145), Part::new(8144..8152, "unused space"));
        assert_eq!(page.gap(8190), Part::new(8182..8192, "unused space"));
        assert_eq!(part_at(&[0; 8192], Shape::Heap, &[], 100), Some(Part::new(0..8192, "new page")));
        assert_eq!(part_at(&[0xff; 8192], Shape::Heap, &[], 100), None);
        assert_eq!(
            part_at(&[0; 8192], Shape::VisibilityMap, &[], 100),
            Some(Part::new(24..8192, "visibility bits"))
        );
    }

    #[test]
    fn random_bytes_are_named_without_a_panic_and_the_offset_is_in_the_part() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let attributes = [
            Attribute { name: "a".into(), length: 4, align: b'i', dropped: false },
            Attribute { name: "b".into(), length: -1, align: b'i', dropped: false },
            Attribute { name: "c".into(), length: -2, align: b'c', dropped: false },
            Attribute { name: "d".into(), length: -9, align: b'?', dropped: true },
        ];
        let mut named = 0;
        for round in 0..400 {
            let mut bytes: Vec<u8> = (0..1024).flat_map(|_| random().to_le_bytes()).collect();
            // Half of them with a sound header, so that what lies deeper is reached.
            if round % 2 == 0 {
                let mut ends = [random() % 400 + 24, random() % 4000 + 424, 8192 - random() % 64];
                ends.sort_unstable();
                for (at, end) in [12, 14, 16].into_iter().zip(ends) {
                    bytes[at..at + 2].copy_from_slice(&(end as u16).to_le_bytes());
                }
            }
            for shape in [Shape::Heap, Shape::Btree, Shape::Other, Shape::FreeSpaceMap] {
                for _ in 0..40 {
                    let offset = (random() % 8200) as usize;
                    if let Some(part) = part_at(&bytes, shape, &attributes, offset) {
                        assert!(part.range.contains(&offset), "{part:?} {offset}");
                        named += 1;
                    }
                }
            }
        }
        assert!(named > 10_000, "{named}");
    }
}
