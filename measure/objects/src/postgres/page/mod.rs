//! Parts of an 8 KB page: the header, tuple or column that contains an offset.
//!
//! ```text
//!   0            24           pd_lower        pd_upper                     pd_special      8192
//!   | page header | line pointers | free space | tuples, from the end down | special space |
//! ```
//!
//! Other processes may change a page while it is read, so its content may be half old and half new: every
//! offset is checked, and names end where the content is not consistent.

pub(crate) mod btree;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
pub(crate) mod heap;
mod layout;
mod values;

pub(crate) use layout::{change_of, Page, Part, HEADER};
pub(crate) use values::Attribute;

use crate::bytes::{u32_at, u64_at};

/// How a relation uses its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Tuples of a table, a sequence or a TOAST table.
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

/// The part of a page that contains an offset. `None`: the page is not consistent there.
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
            // Half of them with a valid header, so that deeper structures are reached.
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
