//! Records of InnoDB's internal tables, which have the original format in all versions.
//!
//! ```text
//!   end of field n-1 ... end of field 0 | 6 bytes: deleted, number of fields, next | field 0 | field 1 | ...
//!                                                                                   ^ a record's address
//! ```

use crate::bytes::array_at;

/// Offsets of the first record of a page, which is empty, and of the last.
const INFIMUM: usize = 101;
const SUPREMUM: usize = 116;
/// Limit of records of a page.
const MOST: usize = 8192;

fn u16_at(page: &[u8], at: usize) -> Option<u16> {
    array_at(page, at).map(u16::from_be_bytes)
}

/// A number of up to eight bytes; `None` if the field has another size.
pub(super) fn number<const N: usize>(field: Option<&[u8]>) -> Option<u64> {
    let field = field.filter(|field| field.len() == N && N <= 8)?;
    Some(field.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// One record.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    page: &'a [u8],
    at: usize,
    fields: usize,
    short: bool,
}

impl<'a> Record<'a> {
    fn at(page: &'a [u8], at: usize) -> Option<Record<'a>> {
        let fields = usize::from(u16_at(page, at.checked_sub(4)?)? & 0x7fe) >> 1;
        let short = page.get(at.checked_sub(3)?)? & 1 != 0;
        Some(Record { page, at, fields, short })
    }

    fn is_deleted(&self) -> bool {
        self.at.checked_sub(6).and_then(|at| self.page.get(at)).is_none_or(|flags| flags & 0x20 != 0)
    }

    /// The end of a field, and whether it is null.
    fn end(&self, index: usize) -> Option<(usize, bool)> {
        if self.short {
            let byte = *self.page.get(self.at.checked_sub(7 + index)?)?;
            return Some((usize::from(byte & 0x7f), byte & 0x80 != 0));
        }
        let word = u16_at(self.page, self.at.checked_sub(8 + 2 * index)?)?;
        Some((usize::from(word & 0x3fff), word & 0x8000 != 0))
    }

    /// A field; `None` if there is none, or it is null.
    pub fn field(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.fields {
            return None;
        }
        let start = match index.checked_sub(1) {
            Some(before) => self.end(before)?.0,
            None => 0,
        };
        let (end, null) = self.end(index)?;
        self.page.get(self.at + start..self.at + end).filter(|_| !null)
    }

    /// The last field: in an inner page, the number of the page below.
    pub fn last(&self) -> Option<&'a [u8]> {
        self.field(self.fields.checked_sub(1)?)
    }
}

/// The records of a page that are not deleted, in order.
pub(super) fn records(page: &[u8]) -> Vec<Record<'_>> {
    let next = |at: usize| u16_at(page, at.checked_sub(2)?).map(usize::from);
    let mut found = Vec::new();
    let mut at = next(INFIMUM);
    for _ in 0..MOST {
        let Some(place) = at.filter(|place| *place > SUPREMUM) else { break };
        let Some(record) = Record::at(page, place) else { break };
        if !record.is_deleted() {
            found.push(record);
        }
        at = next(place);
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A page with these records, linked in this order.
    pub fn page_of(rows: &[&[&[u8]]]) -> Vec<u8> {
        let mut page = vec![0; 16384];
        let mut before = INFIMUM;
        let mut free = 125;
        for row in rows {
            let at = free + row.len() + 6;
            let mut end = 0;
            for (index, field) in row.iter().enumerate() {
                page[at + end..at + end + field.len()].copy_from_slice(field);
                end += field.len();
                page[at - 7 - index] = end as u8;
            }
            let head = ((row.len() as u16) << 1 | 1).to_be_bytes();
            page[at - 4..at - 2].copy_from_slice(&head);
            page[before - 2..before].copy_from_slice(&(at as u16).to_be_bytes());
            before = at;
            free = at + end;
        }
        page[before - 2..before].copy_from_slice(&(SUPREMUM as u16).to_be_bytes());
        page
    }

    #[test]
    fn fields_of_records_are_read_in_the_order_of_the_list() {
        let mut page = page_of(&[&[b"ab", b"", b"cde"], &[b"x", &[0, 0, 1, 2]]]);
        let found = records(&page);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].field(0), found[0].field(1), found[0].last()),
            (Some(&b"ab"[..]), Some(&b""[..]), Some(&b"cde"[..]))
        );
        assert_eq!(number::<4>(found[1].field(1)), Some(258));
        assert_eq!((number::<8>(found[1].field(1)), found[1].field(2).map(<[u8]>::len)), (None, None));
        let second = found[1].at;
        page[second - 6] = 0x20;
        assert_eq!(records(&page).len(), 1, "the other was deleted");
        page[second - 2..second].copy_from_slice(&(second as u16).to_be_bytes());
        assert!(records(&page).len() <= MOST, "a list that leads back to itself ends");
        assert!(records(&page[..50]).is_empty());
    }
}
