//! The structures of each PostgreSQL major version: tables generated from the headers by
//! `scripts/postgres-layouts` and compiled into this program.
//!
//! Within a major version extensions are binary compatible, and therefore these structures, too: a table of
//! 15.20 is valid for every 15. Two builds may still differ by a compile option, so
//! [attaching](super::attach) tests the running server against the table.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The known major versions.
pub const MAJORS: [u32; 4] = [15, 16, 17, 18];

/// The layout of one major version.
#[derive(Clone, Debug, Deserialize)]
pub struct Layout {
    /// The headers from which it was generated.
    pub origin: String,
    /// The major version.
    pub major: u32,
    /// First word of the shared memory segment.
    pub shmem_magic: u32,
    /// Bytes of a page.
    pub block_size: u64,
    /// Bytes of a page of the write-ahead log.
    pub wal_block_size: u64,
    /// Bit of a buffer's state: its tag is valid.
    pub tag_valid_bit: u32,
    /// Bytes from one buffer descriptor to the next.
    pub buffer_stride: u64,
    /// Bytes from one lock of an array to the next.
    pub lock_stride: u64,
    /// Number of locks with individual names.
    pub individual_locks: u32,
    /// Partitions of the buffer mapping.
    pub buffer_partitions: u32,
    /// Partitions of the lock manager.
    pub lock_partitions: u32,
    /// Partitions of the predicate lock manager.
    pub predicate_partitions: u32,
    /// The number of all these locks.
    pub fixed_locks: u32,
    /// Bytes of a name in the index of shared memory.
    pub shmem_index_key: u64,
    /// Blocks per file of a relation.
    pub segment_blocks: u32,
    /// Bytes of an identifier.
    pub name_length: u64,
    /// The number of the kind of statistics for databases.
    pub statistics_kind_database: u32,
    /// Names of individual locks by their number; empty for an unused number.
    pub individual_lock_names: Vec<String>,
    /// Names of the kinds of locks, with their numbers; the empty name is the first number for extensions.
    pub tranches: Vec<(String, u32)>,
    /// Names of the kinds of processes (`B_...`), with their numbers.
    pub backend_types: Vec<(String, u32)>,
    /// Names of the kinds of nodes (`T_...`), with their numbers.
    pub node_tags: Vec<(String, u32)>,
    /// The structures by name.
    pub structures: BTreeMap<String, Structure>,
}

/// A structure of C.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Structure {
    /// Its size in bytes.
    pub size: u64,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// A field of a structure of C.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Bytes from the start of the structure.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Structure {
    /// A field by its name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field that contains an offset; `None` for padding.
    pub fn field_at(&self, offset: u64) -> Option<&Field> {
        self.fields.iter().find(|field| (field.offset..field.offset + field.size).contains(&offset))
    }
}

/// A part that is missing from the table: tables and code do not match.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the layout table of PostgreSQL {major} has no {what}; make it again with scripts/postgres-layouts")]
pub struct Missing {
    /// The major version.
    pub major: u32,
    /// The missing part.
    pub what: String,
}

impl Layout {
    /// The table of a major version.
    pub fn of(major: u32) -> Option<Layout> {
        let text = match major {
            15 => include_str!("layouts/15.toml"),
            16 => include_str!("layouts/16.toml"),
            17 => include_str!("layouts/17.toml"),
            18 => include_str!("layouts/18.toml"),
            _ => return None,
        };
        // A test reads all tables.
        Some(toml::from_str(text).expect("the tables that were compiled in are whole"))
    }

    /// A structure by its name.
    ///
    /// # Errors
    ///
    /// [`Missing`] if the layout has no such structure.
    pub fn structure(&self, name: &str) -> Result<&Structure, Missing> {
        self.structures
            .get(name)
            .ok_or_else(|| Missing { major: self.major, what: format!("structure {name}") })
    }

    /// The offset of a field.
    ///
    /// # Errors
    ///
    /// [`Missing`] if the layout has no such structure, or it has no such field.
    pub fn offset(&self, structure: &str, field: &str) -> Result<u64, Missing> {
        let found = self.structure(structure)?.field(field);
        let missing = || Missing { major: self.major, what: format!("field {structure}.{field}") };
        found.map(|field| field.offset).ok_or_else(missing)
    }

    /// The name of a kind of lock.
    pub fn tranche(&self, number: u32) -> Option<&str> {
        if let Some(name) = self.individual_lock_names.get(number as usize) {
            return Some(name).filter(|name| !name.is_empty()).map(String::as_str);
        }
        named(&self.tranches, number)
    }

    /// The first number that extensions use for their kinds of locks.
    pub fn first_user_tranche(&self) -> u32 {
        self.tranches.iter().find(|(name, _)| name.is_empty()).map_or(u32::MAX, |(_, number)| *number)
    }

    /// The name of a kind of process in the header: `CHECKPOINTER`.
    pub fn backend_type(&self, number: u32) -> Option<&str> {
        named(&self.backend_types, number)
    }

    /// The name of a kind of node in the header: `SeqScanState`.
    pub fn node_tag(&self, number: u32) -> Option<&str> {
        named(&self.node_tags, number)
    }
}

fn named(list: &[(String, u32)], number: u32) -> Option<&str> {
    list.iter().find(|(name, known)| *known == number && !name.is_empty()).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_are_whole_and_of_their_version() {
        for major in MAJORS {
            let layout = Layout::of(major).expect("known");
            assert_eq!((layout.major, layout.block_size, layout.shmem_magic), (major, 8192, 679_834_894));
            // A descriptor's tag: table space, database, file, fork, block. The same in all versions.
            assert_eq!(layout.offset("BufferDesc", "tag"), Ok(0));
            assert_eq!(layout.structure("BufferDesc").expect("known").field("tag").expect("known").size, 20);
            assert_eq!(layout.offset("BufferDesc", "state"), Ok(24));
            let locks = layout.individual_locks
                + layout.buffer_partitions
                + layout.lock_partitions
                + layout.predicate_partitions;
            assert_eq!(
                (locks, layout.individual_lock_names.len() as u32),
                (layout.fixed_locks, layout.individual_locks)
            );
            assert_eq!(layout.tranche(2), Some("OidGen"));
            assert_eq!(layout.offset("FormData_pg_class", "relname"), Ok(4));
            assert!(layout.first_user_tranche() < 100);
        }
        assert!(Layout::of(14).is_none());
    }

    #[test]
    fn names_of_locks_and_fields_by_version() {
        // src/backend/storage/lmgr of each version: WALInsert follows the buffers of the SLRUs.
        let (old, new) = (Layout::of(15).expect("known"), Layout::of(18).expect("known"));
        assert_eq!((old.tranche(55), new.tranche(61)), (Some("WALInsert"), Some("WALInsert")));
        assert_eq!((old.tranche(11), new.tranche(11)), (Some("XactSLRU"), None));
        // PG18 puts the reference to an asynchronous read before the lock.
        assert_eq!(
            (old.offset("BufferDesc", "content_lock"), new.offset("BufferDesc", "content_lock")),
            (Ok(36), Ok(48))
        );
        let page = old.structure("PageHeaderData").expect("known");
        assert_eq!(page.field_at(13).map(|field| field.name.as_str()), Some("pd_lower"));
        assert_eq!(old.backend_type(6), Some("CHECKPOINTER"));
        assert!(old.offset("PGPROC", "nothing").is_err());
    }
}
