//! Rows of the system catalogs, read from heap pages: their leading columns have fixed length, so a row
//! begins with the structure in the headers.

use crate::bytes::{u16_at, u32_at};
use crate::postgres::layout::{Layout, Missing};
use crate::postgres::page::heap::{tuples, Standing};
use crate::postgres::page::{Attribute, Page};
use crate::process_memory::text_of;
use std::collections::HashMap;

/// A row of `pg_class`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassRow {
    pub oid: u32,
    pub name: String,
    pub namespace: u32,
    /// 0: it is in the relation map.
    pub file: u32,
    pub toast: u32,
    pub access_method: u32,
    pub kind: u8,
}

/// Offsets of the catalogs' columns.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    class: [usize; 7],
    attribute: [usize; 6],
    /// `pg_namespace` and `pg_database` begin with the same columns: number, name.
    name: usize,
    name_length: usize,
}

impl Columns {
    /// For a version.
    pub fn of(layout: &Layout) -> Result<Columns, Missing> {
        let class = |name| layout.offset("FormData_pg_class", name).map(|at| at as usize);
        let attribute = |name| layout.offset("FormData_pg_attribute", name).map(|at| at as usize);
        Ok(Columns {
            class: [
                class("oid")?,
                class("relname")?,
                class("relnamespace")?,
                class("relfilenode")?,
                class("reltoastrelid")?,
                class("relam")?,
                class("relkind")?,
            ],
            attribute: [
                attribute("attrelid")?,
                attribute("attname")?,
                attribute("attnum")?,
                attribute("attlen")?,
                attribute("attalign")?,
                attribute("attisdropped")?,
            ],
            name: layout.offset("FormData_pg_namespace", "nspname")? as usize,
            name_length: layout.name_length as usize,
        })
    }

    fn name_at(&self, row: &[u8], at: usize) -> Option<String> {
        row.get(at..at + self.name_length).map(text_of).filter(|name| !name.is_empty())
    }

    /// A row of `pg_class`.
    pub fn class(&self, row: &[u8]) -> Option<ClassRow> {
        let [oid, name, namespace, file, toast, access_method, kind] = self.class;
        Some(ClassRow {
            oid: u32_at(row, oid)?,
            name: self.name_at(row, name)?,
            namespace: u32_at(row, namespace)?,
            file: u32_at(row, file)?,
            toast: u32_at(row, toast)?,
            access_method: u32_at(row, access_method)?,
            kind: *row.get(kind)?,
        })
    }

    /// A row of `pg_attribute`: relation, number, column. System columns have numbers below 1.
    pub fn attribute(&self, row: &[u8]) -> Option<((u32, i16), Attribute)> {
        let [relation, name, number, length, align, dropped] = self.attribute;
        let half = |at| u16_at(row, at).map(|word| word as i16);
        let attribute = Attribute {
            name: self.name_at(row, name)?,
            length: half(length)?,
            align: *row.get(align)?,
            dropped: *row.get(dropped)? != 0,
        };
        Some(((u32_at(row, relation)?, half(number)?), attribute)).filter(|((_, number), _)| *number > 0)
    }

    /// A row of `pg_namespace` or `pg_database`.
    pub fn named(&self, row: &[u8]) -> Option<(u32, String)> {
        Some((u32_at(row, 0)?, self.name_at(row, self.name)?))
    }
}

/// Of several versions of a row, the one that is most likely valid.
#[derive(Clone, Debug)]
pub(crate) struct Newest<K, V>(HashMap<K, (Standing, u32, V)>);

impl<K: std::hash::Hash + Eq, V> Newest<K, V> {
    /// No rows.
    pub fn new() -> Newest<K, V> {
        Newest(HashMap::new())
    }

    /// Adds the rows of a page.
    pub fn add(&mut self, page: &[u8], parse: impl Fn(&[u8]) -> Option<(K, V)>) {
        let Some(page) = Page::new(page) else { return };
        for tuple in tuples(&page) {
            let Some((key, value)) = parse(tuple.data) else { continue };
            let better = |known: &(Standing, u32, V)| {
                // Numbers of transactions wrap around; later means less than half the range ahead.
                let later = (tuple.xmin.wrapping_sub(known.1) as i32) > 0;
                tuple.standing > known.0 || tuple.standing == known.0 && later
            };
            if self.0.get(&key).is_none_or(better) {
                self.0.insert(key, (tuple.standing, tuple.xmin, value));
            }
        }
    }

    /// All keys and values.
    pub fn into_values(self) -> impl Iterator<Item = (K, V)> {
        self.0.into_iter().map(|(key, (_, _, value))| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::page::tests::page;

    /// A row of pg_class with a header of 24 bytes; `flags` are those of t_infomask.
    fn class_tuple(xmin: u32, xmax: u32, flags: u16, oid: u32, name: &str, file: u32) -> Vec<u8> {
        let mut tuple = vec![0; 24 + 144];
        tuple[0..4].copy_from_slice(&xmin.to_le_bytes());
        tuple[4..8].copy_from_slice(&xmax.to_le_bytes());
        tuple[20..22].copy_from_slice(&flags.to_le_bytes());
        tuple[22] = 24;
        let row = &mut tuple[24..];
        row[0..4].copy_from_slice(&oid.to_le_bytes());
        row[4..4 + name.len()].copy_from_slice(name.as_bytes());
        row[68..72].copy_from_slice(&2200u32.to_le_bytes());
        row[88..92].copy_from_slice(&file.to_le_bytes());
        row[115] = b'r';
        tuple
    }

    #[test]
    fn the_newest_row_of_pg_class_counts() {
        let columns = Columns::of(&Layout::of(15).expect("known")).expect("whole");
        let old = class_tuple(700, 710, 0x0100 | 0x0400, 16384, "t", 16384);
        let new = class_tuple(710, 0, 0x0800, 16384, "t", 16399);
        let lost = class_tuple(720, 0, 0x0200 | 0x0800, 16384, "never", 1);
        let bytes = page(&[(7000, 1, &new), (7200, 1, &old), (7400, 1, &lost)], &[]);
        let mut rows = Newest::new();
        rows.add(&bytes, |row| columns.class(row).map(|row| (row.oid, row)));
        let rows: Vec<_> = rows.into_values().collect();
        assert_eq!(rows.len(), 1);
        let row = &rows[0].1;
        assert_eq!((row.name.as_str(), row.namespace, row.file, row.kind), ("t", 2200, 16399, b'r'));
        assert_eq!(columns.class(&[0; 20]), None);
    }
}
