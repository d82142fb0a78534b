//! The values of a tuple, with the beginning and end of each.
//!
//! A value has a fixed length, or has its length in its first byte or first word (a *varlena*), or ends with
//! a zero byte. Its type sets the alignment; only a varlena with the one-byte header needs none.

use super::layout::Part;
use crate::bytes::{u16_at, u32_at};

/// A column, as described by `pg_attribute`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    /// Its name.
    pub name: String,
    /// Its length in bytes; -1: contained in the value; -2: ends with a zero byte.
    pub length: i16,
    /// Alignment: `c`har, `s`hort, `i`nt, `d`ouble.
    pub align: u8,
    /// True if it was dropped; tuples still have it.
    pub dropped: bool,
}

impl Attribute {
    fn alignment(&self) -> usize {
        match self.align {
            b's' => 2,
            b'i' => 4,
            b'd' => 8,
            _ => 1,
        }
    }
}

/// Bytes of the varlena that begins at `at`.
fn varlena_length(page: &[u8], at: usize) -> Option<usize> {
    let first = *page.get(at)?;
    match first {
        // A pointer to a value elsewhere; 18 is the kind that is stored: 2 bytes and a pointer of 16.
        1 => Some(if page.get(at + 1) == Some(&18) { 18 } else { 10 }),
        _ if first & 1 == 1 => Some(usize::from(first >> 1)),
        _ => u32_at(page, at).map(|word| (word >> 2) as usize),
    }
}

/// The value that contains `offset` in a tuple whose first value may begin at `at` and whose last ends before
/// `end`. `nulls` is the position of the bitmap whose set bits are the columns that have a value.
pub(super) fn value_at(
    page: &[u8],
    attributes: &[Attribute],
    count: usize,
    nulls: Option<usize>,
    values: std::ops::Range<usize>,
    what: &str,
    offset: usize,
) -> Option<Part> {
    let mut at = values.start;
    for (index, attribute) in attributes.iter().take(count).enumerate() {
        if let Some(bitmap) = nulls {
            if page.get(bitmap + index / 8)? >> (index % 8) & 1 == 0 {
                continue;
            }
        }
        // The byte there decides: padding is zero, and a short header never is.
        let short = attribute.length == -1 && *page.get(at)? != 0;
        let start = if short { at } else { at.next_multiple_of(attribute.alignment()) };
        let length = match attribute.length {
            -1 => varlena_length(page, start)?,
            -2 => page.get(start..values.end.min(page.len()))?.iter().position(|byte| *byte == 0)? + 1,
            length => usize::try_from(length).ok()?,
        };
        let end = start.checked_add(length).filter(|end| *end <= values.end && length > 0)?;
        if offset < start {
            return Some(Part::new(at..start, "padding"));
        }
        if offset < end {
            let name = if attribute.dropped { "that was dropped" } else { attribute.name.as_str() };
            return Some(Part::new(start..end, format!("{what} {name}")));
        }
        at = end;
    }
    (at..values.end).contains(&offset).then(|| Part::new(at..values.end, "padding"))
}

/// The number of columns of a tuple, from the low bits of a half word.
pub(super) fn columns_in(page: &[u8], at: usize, mask: u16) -> usize {
    usize::from(u16_at(page, at).unwrap_or(0) & mask)
}
