//! A page of any bytes, for the fuzz target `name_page`.

use super::{btree, heap, part_at, Attribute, Page, Shape};
use std::hint::black_box;

/// Names the part of each offset, in every shape, with columns of every kind of length.
pub(crate) fn name_parts(bytes: &[u8]) {
    let column = |name: &str, length, align, dropped| Attribute { name: name.into(), length, align, dropped };
    let attributes = [
        column("a", 4, b'i', false),
        column("b", -1, b'i', false),
        column("c", -2, b'c', false),
        column("d", -1, b'd', true),
        column("e", 8, b'd', false),
        column("f", -9, b'?', false),
    ];
    let shapes = [Shape::Heap, Shape::Btree, Shape::Other, Shape::FreeSpaceMap, Shape::VisibilityMap];
    for shape in shapes {
        for offset in 0..bytes.len() {
            if let Some(part) = part_at(bytes, shape, &attributes, offset) {
                assert!(part.range.contains(&offset), "{part:?} of {offset}");
            }
        }
    }
    black_box(btree::level(bytes));
    if let Some(page) = Page::new(bytes) {
        black_box(heap::tuples(&page).len());
    }
}
