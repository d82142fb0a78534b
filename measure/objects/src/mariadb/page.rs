//! A page of InnoDB: its identity, and the part that contains an offset.
//!
//! ```text
//!   0          38              94                                   size - 8 - 2 * slots   size - 8
//!   | header   | index header  | records, and room for more ...      | directory            | trailer |
//! ```
//! Numbers are big-endian. Pages that are not an index's have a header and contents.

use hardmeter_samples::model::StateRule;
use std::ops::Range;

/// Bytes of the header of every page.
pub(super) const HEADER: usize = 38;
/// Offsets of the page's number in its tablespace, of the tablespace's number, and of the page's type.
const NUMBER_AT: usize = 4;
const SPACE_AT: usize = 34;
const TYPE_AT: usize = 24;
/// Offsets in an index page of the level, and of the index's number.
const LEVEL_AT: usize = HEADER + 26;
const INDEX_AT: usize = HEADER + 28;
/// Bytes from the beginning that contain everything except the parts.
pub(super) const HEAD: usize = 94;

/// A page number that no page has: the end of a list.
pub(super) const NO_PAGE: u32 = u32::MAX;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    crate::bytes::array_at(bytes, at).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    crate::bytes::array_at(bytes, at).map(u32::from_be_bytes)
}

/// A page's number and its tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PageId {
    /// The tablespace.
    pub space: u32,
    /// The page in it.
    pub number: u32,
}

impl PageId {
    /// From a page.
    pub fn of(page: &[u8]) -> Option<PageId> {
        Some(PageId { space: u32_at(page, SPACE_AT)?, number: u32_at(page, NUMBER_AT)? })
    }

    /// In the form of the frame's descriptor.
    pub fn descriptor(&self) -> u64 {
        u64::from(self.space) << 32 | u64::from(self.number)
    }
}

/// The kind of a page, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of an index; level 0 has its entries.
    Index { index: u64, level: u16 },
    /// Part of a column that is too long for its row.
    Blob,
    /// Undo data of changes, and old versions of rows.
    Undo,
    /// A page that manages the tablespace.
    Space(&'static str),
    /// A system page.
    System(&'static str),
    /// A page of unknown type.
    Other,
}

impl Kind {
    /// From the head of a page.
    pub fn of(page: &[u8]) -> Option<Kind> {
        Some(match u16_at(page, TYPE_AT)? {
            // Includes the root of a table that got columns instantly, and spatial indexes.
            17855 | 17854 | 18 => Kind::Index {
                index: crate::bytes::array_at(page, INDEX_AT).map(u64::from_be_bytes)?,
                level: u16_at(page, LEVEL_AT)?,
            },
            2 => Kind::Undo,
            3 => Kind::Space("segments"),
            4 => Kind::System("change buffer"),
            5 => Kind::Space("change buffer bitmap"),
            6 => Kind::System("system"),
            7 => Kind::System("transaction system"),
            8 | 9 => Kind::Space("extents"),
            10..=12 => Kind::Blob,
            _ => Kind::Other,
        })
    }
}

/// The identity of a page, in the form that a sample carries: words that do not change while the page is the
/// same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity(Vec<u8>);

impl Identity {
    /// The offsets of these words: number, tablespace, type, level, and the number of the index, whose last
    /// two words share two bytes.
    pub const WORDS: [u16; StateRule::PAGE_WORDS] = [
        NUMBER_AT as u16,
        SPACE_AT as u16,
        TYPE_AT as u16,
        LEVEL_AT as u16,
        LEVEL_AT as u16 + 4,
        INDEX_AT as u16 + 4,
    ];

    /// From a page, or its head.
    pub fn of(page: &[u8]) -> Option<Identity> {
        let words: Option<Vec<&[u8]>> =
            Self::WORDS.iter().map(|at| page.get(usize::from(*at)..usize::from(*at) + 4)).collect();
        Some(Identity(words?.concat()))
    }

    /// From the bytes that a sample carries.
    pub fn carried(bytes: &[u8]) -> Option<Identity> {
        (bytes.len() == 4 * Self::WORDS.len()).then(|| Identity(bytes.to_vec()))
    }

    /// The bytes that a sample carries.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The page and its kind.
    pub fn page(&self) -> Option<(PageId, Kind)> {
        let mut head = [0; HEAD];
        for (at, word) in Self::WORDS.iter().zip(self.0.as_chunks::<4>().0) {
            head[usize::from(*at)..usize::from(*at) + 4].copy_from_slice(word);
        }
        Some((PageId::of(&head)?, Kind::of(&head)?))
    }
}

/// The part of an index page of `size` bytes that contains an offset. The border between records and free
/// space changes with each insertion, so both are one part.
pub(super) fn part_of_index(page: &[u8], size: usize, offset: usize) -> Option<(&'static str, Range<usize>)> {
    let slots = usize::from(u16_at(page, HEADER)?);
    let directory = size.checked_sub(8 + 2 * slots).filter(|directory| slots >= 2 && *directory > HEAD)?;
    let parts = [
        ("page header", 0..HEADER),
        ("index header", HEADER..HEAD),
        ("records", HEAD..directory),
        ("directory", directory..size - 8),
        ("trailer", size - 8..size),
    ];
    parts.into_iter().find(|(_, range)| range.contains(&offset))
}

/// Reads a page's header, and names the part of each offset.
#[cfg(fuzzing)]
pub(crate) fn name_parts(bytes: &[u8]) {
    let said = (PageId::of(bytes), Kind::of(bytes), Identity::of(bytes).map(|identity| identity.page()));
    std::hint::black_box(said);
    for offset in 0..bytes.len() {
        if let Some((_, part)) = part_of_index(bytes, bytes.len(), offset) {
            assert!(part.contains(&offset) && part.end <= bytes.len(), "{part:?} of {offset}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An index page, compact, with 3 slots and records up to 500.
    pub fn index_page(size: usize, id: PageId, index: u64, level: u16) -> Vec<u8> {
        let mut page = vec![0; size];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(NUMBER_AT, &id.number.to_be_bytes());
        put(SPACE_AT, &id.space.to_be_bytes());
        put(24, &17855u16.to_be_bytes());
        put(38, &3u16.to_be_bytes());
        put(40, &500u16.to_be_bytes());
        put(42, &0x8007u16.to_be_bytes());
        put(64, &level.to_be_bytes());
        put(66, &index.to_be_bytes());
        page
    }

    #[test]
    fn a_page_says_what_it_is() {
        let id = PageId { space: 7, number: 4 };
        let page = index_page(16384, id, 0x1_0000_0017, 1);
        assert_eq!(PageId::of(&page), Some(id));
        assert_eq!(id.descriptor(), 0x7_0000_0004);
        let kind = Kind::Index { index: 0x1_0000_0017, level: 1 };
        assert_eq!(Kind::of(&page), Some(kind));
        assert_eq!(Kind::of(&page[..70]), None, "cut");
        let identity = Identity::of(&page).expect("whole");
        assert_eq!(identity.page(), Some((id, kind)));
        assert_eq!(Identity::carried(identity.bytes()), Some(identity));
        assert_eq!(Identity::carried(&[1, 2, 3]), None);
    }

    #[test]
    fn the_parts_of_an_index_page_follow_each_other_without_a_gap() {
        let page = index_page(16384, PageId { space: 7, number: 4 }, 23, 0);
        let name = |offset| part_of_index(&page, 16384, offset).expect("a part").0;
        assert_eq!((name(37), name(38), name(94)), ("page header", "index header", "records"));
        // Three slots of two bytes before the eight of the trailer.
        assert_eq!(
            (name(16369), name(16370), name(16375), name(16376)),
            ("records", "directory", "directory", "trailer")
        );
        let mut at = 0;
        while at < 16384 {
            let range = part_of_index(&page, 16384, at).expect("a part").1;
            assert_eq!(range.start, at);
            at = range.end;
        }
        assert_eq!(part_of_index(&page, 16384, 16384), None);
    }

    #[test]
    fn a_header_that_cannot_be_has_no_parts() {
        let mut page = index_page(16384, PageId { space: 7, number: 4 }, 23, 0);
        page[38..40].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(part_of_index(&page, 16384, 200), None, "a directory larger than the page");
        page[38..40].copy_from_slice(&0u16.to_be_bytes());
        assert_eq!(part_of_index(&page, 16384, 200), None, "none");
    }
}
