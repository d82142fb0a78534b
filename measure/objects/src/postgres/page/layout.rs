//! The parts of all pages: a header, line pointers, items, a special space.

use crate::bytes::{u16_at, u32_at};
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of the header.
pub(crate) const HEADER: usize = 24;

/// Bytes of a line pointer.
const LINE_POINTER: usize = 4;

/// A range of a page and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its position in the page.
    pub range: Range<usize>,
    /// Its name.
    pub name: Cow<'static, str>,
}

impl Part {
    pub(super) fn new(range: Range<usize>, name: impl Into<Cow<'static, str>>) -> Part {
        Part { range, name: name.into() }
    }
}

/// A page with a valid header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) lower: usize,
    pub(super) upper: usize,
    pub(super) special: usize,
}

/// The target of a line pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its bytes in the page.
    pub range: Range<usize>,
    /// True if it is in use (`LP_NORMAL`), otherwise dead.
    pub normal: bool,
}

/// The position in the write-ahead log of a page's last change.
pub(crate) fn change_of(page: &[u8]) -> Option<u64> {
    // Two words, the high one first.
    Some(u64::from(u32_at(page, 0)?) << 32 | u64::from(u32_at(page, 4)?))
}

impl<'a> Page<'a> {
    /// A page with a valid header; a page that was never written has none.
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

    /// All items within the space of tuples.
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

    /// The parts that all pages have; `None` inside the space of tuples.
    pub(super) fn common(&self, offset: usize) -> Option<Part> {
        match offset {
            _ if offset < HEADER => Some(Part::new(0..HEADER, "page header")),
            _ if offset < self.lower => Some(Part::new(HEADER..self.lower, "line pointers")),
            _ if offset < self.upper => Some(Part::new(self.lower..self.upper, "free space")),
            _ if offset >= self.special => Some(Part::new(self.special..self.bytes.len(), "special space")),
            _ => None,
        }
    }

    /// The bytes between items: storage of removed tuples, or the gap that aligns the next.
    pub(super) fn gap(&self, offset: usize) -> Part {
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

    pub(super) fn item_at(&self, offset: usize) -> Option<Item> {
        self.items().find(|item| item.range.contains(&offset))
    }
}
