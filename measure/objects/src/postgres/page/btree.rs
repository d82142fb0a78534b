//! Pages of B-tree indexes.
//!
//! ```text
//!   item     | t_tid 6 B | t_info 2 B | nulls | keys ...                | tids of a posting list
//!   leaf     | heap TID               |       | key                     |
//!   internal | downlink               |       | least key of that child |
//!   item 1 of a page that has a right sibling is its *high key*
//! ```

use super::layout::{Item, Page, Part};
use super::values::{value_at, Attribute};
use crate::bytes::{u16_at, u32_at};

const LEAF: u16 = 1;
const ROOT: u16 = 2;
const DELETED: u16 = 4;
const META: u16 = 8;
const HALF_DEAD: u16 = 16;

const SIZE_MASK: u16 = 0x1fff;
const ALTERNATIVE_TID: u16 = 0x2000;
const HAS_NULLS: u16 = 0x8000;
const POSTING: u16 = 0x2000;
const TIEBREAKER: u16 = 0x1000;
const COUNT_MASK: u16 = 0x0fff;
/// Size of an index tuple's header, and with a bitmap of nulls.
const TUPLE_HEADER: usize = 8;
const TUPLE_HEADER_WITH_NULLS: usize = 16;
/// Bytes of the identifier of a tuple of the table.
const TID: usize = 6;

/// The special space of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    rightmost: bool,
    flags: u16,
}

fn place(page: &Page) -> Option<Place> {
    let special = page.special();
    Some(Place { rightmost: u32_at(special, 4)? == 0, flags: u16_at(special, 12)? })
}

/// The position of a page in the tree: "root", "internal", "leaf", "meta" or "deleted".
pub(crate) fn level(bytes: &[u8]) -> Option<&'static str> {
    let flags = place(&Page::new(bytes)?)?.flags;
    Some(match () {
        () if flags & META != 0 => "meta",
        () if flags & (DELETED | HALF_DEAD) != 0 => "deleted",
        () if flags & ROOT != 0 => "root",
        () if flags & LEAF != 0 => "leaf",
        () => "internal",
    })
}

/// The part of a B-tree page that contains an offset.
pub(super) fn part_at(page: &Page, attributes: &[Attribute], offset: usize) -> Part {
    let place = place(page);
    if let Some(part) = page.common(offset) {
        let meta = place.is_some_and(|place| place.flags & META != 0);
        // The meta page's contents are where other pages have line pointers.
        return if meta && part.name == "line pointers" {
            Part { name: "meta data".into(), ..part }
        } else {
            part
        };
    }
    let Some(item) = page.item_at(offset) else { return page.gap(offset) };
    let whole = Part::new(item.range.clone(), "index tuple");
    let Some(place) = place else { return whole };
    if item.number == 1 && !place.rightmost {
        return Part::new(item.range, "high key");
    }
    tuple_part(page, &item, place.flags & LEAF != 0, attributes, offset).unwrap_or(whole)
}

fn tuple_part(page: &Page, item: &Item, leaf: bool, attributes: &[Attribute], offset: usize) -> Option<Part> {
    let start = item.range.start;
    let info = u16_at(page.bytes, start + 6)?;
    let position = u16_at(page.bytes, start + 4)?;
    let size = usize::from(info & SIZE_MASK);
    if size < TUPLE_HEADER || size > item.range.len() {
        return None;
    }
    let header = if info & HAS_NULLS == 0 { TUPLE_HEADER } else { TUPLE_HEADER_WITH_NULLS };
    if offset < start + TID {
        return Some(Part::new(start..start + TID, if leaf { "heap TID" } else { "downlink" }));
    }
    if offset < start + header {
        return Some(Part::new(start + TID..start + header, "index tuple header"));
    }
    let mut end = item.range.end;
    let mut keys = attributes.len();
    if info & ALTERNATIVE_TID != 0 {
        if position & POSTING != 0 {
            // The block number of its TID is the offset of the list of TIDs.
            let block =
                u32::from(u16_at(page.bytes, start)?) << 16 | u32::from(u16_at(page.bytes, start + 2)?);
            let list = start.checked_add(block as usize).filter(|list| *list <= end)?;
            let after = list + usize::from(position & COUNT_MASK) * TID;
            if offset >= list {
                let range = if offset < after.min(end) { list..after.min(end) } else { after..end };
                return Some(Part::new(range, if offset < after { "heap TID list" } else { "padding" }));
            }
            end = list;
        } else {
            // A pivot: keys that are not needed to separate children were removed; a TID may follow them.
            keys = keys.min(usize::from(position & COUNT_MASK));
            if position & TIEBREAKER != 0 {
                let tid = end.checked_sub(8).filter(|tid| *tid >= start + header)?;
                if offset >= tid {
                    return Some(Part::new(tid..end, "heap TID"));
                }
                end = tid;
            }
        }
    }
    let nulls = (info & HAS_NULLS != 0).then_some(start + TUPLE_HEADER);
    // In an index tuple a set bit is a value, too; see index_form_tuple.
    value_at(page.bytes, attributes, keys, nulls, start + header..end, "key", offset)
}

#[cfg(test)]
mod tests {
    use super::super::tests::page;
    use super::super::{part_at, Shape};
    use super::*;

    fn special(next: u32, flags: u16) -> Vec<u8> {
        let mut special = vec![0; 16];
        special[4..8].copy_from_slice(&next.to_le_bytes());
        special[12..14].copy_from_slice(&flags.to_le_bytes());
        special
    }

    fn index_tuple(block: u32, position: u16, flags: u16, rest: &[u8]) -> Vec<u8> {
        let mut tuple = Vec::new();
        tuple.extend(((block >> 16) as u16).to_le_bytes());
        tuple.extend((block as u16).to_le_bytes());
        tuple.extend(position.to_le_bytes());
        tuple.extend((flags | (8 + rest.len()) as u16).to_le_bytes());
        tuple.extend(rest);
        tuple
    }

    fn key() -> Vec<Attribute> {
        vec![Attribute { name: "aid".into(), length: 4, align: b'i', dropped: false }]
    }

    #[test]
    fn a_leaf_made_by_hand() {
        let value = [5, 0, 0, 0, 0, 0, 0, 0];
        let mut posting = value.to_vec();
        posting.extend([1; 12]);
        posting.extend([0; 4]);
        let items = [
            (8160, 1, &index_tuple(0, 1, ALTERNATIVE_TID, &value)[..]),
            (8144, 1, &index_tuple(3, 7, 0, &value)),
            (8112, 1, &index_tuple(16, POSTING | 2, ALTERNATIVE_TID, &posting)),
        ];
        let leaf = page(&items, &special(9, LEAF));
        let keys = key();
        let part = |offset| part_at(&leaf, Shape::Btree, &keys, offset).expect("a part");
        assert_eq!(level(&leaf), Some("leaf"));
        assert_eq!(part(8168), Part::new(8160..8176, "high key"));
        assert_eq!(part(8149), Part::new(8144..8150, "heap TID"));
        assert_eq!(part(8151), Part::new(8150..8152, "index tuple header"));
        assert_eq!(part(8152), Part::new(8152..8156, "key aid"));
        assert_eq!(part(8157), Part::new(8156..8160, "padding"));
        assert_eq!(part(8120), Part::new(8120..8124, "key aid"));
        assert_eq!(part(8139), Part::new(8128..8140, "heap TID list"));
        assert_eq!(part(8143), Part::new(8140..8144, "padding"));
        assert_eq!(part(8180), Part::new(8176..8192, "special space"));
        assert_eq!(part(30), Part::new(24..36, "line pointers"));
    }

    #[test]
    fn inner_pages_have_downlinks_and_the_first_has_no_key() {
        let value = [5, 0, 0, 0, 0, 0, 0, 0];
        let items = [
            (8160, 1, &index_tuple(2, ALTERNATIVE_TID & COUNT_MASK, ALTERNATIVE_TID, &[])[..]),
            (8144, 1, &index_tuple(3, 1, ALTERNATIVE_TID, &value)),
        ];
        let root = page(&items, &special(0, ROOT));
        let part = |offset| part_at(&root, Shape::Btree, &key(), offset).expect("a part");
        assert_eq!(level(&root), Some("root"));
        assert_eq!(part(8162), Part::new(8160..8166, "downlink"));
        assert_eq!(part(8144), Part::new(8144..8150, "downlink"));
        assert_eq!(part(8154), Part::new(8152..8156, "key aid"));
        let inner = page(&items, &special(0, 0));
        assert_eq!(level(&inner), Some("internal"));
    }

    #[test]
    fn the_meta_page() {
        let mut meta = page(&[], &special(0, META));
        meta[12..14].copy_from_slice(&72u16.to_le_bytes());
        assert_eq!(level(&meta), Some("meta"));
        assert_eq!(part_at(&meta, Shape::Btree, &key(), 40), Some(Part::new(24..72, "meta data")));
    }
}
