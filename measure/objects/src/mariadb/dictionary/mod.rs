//! Names of tables and indexes, read from pages of InnoDB's tables SYS_TABLES and SYS_INDEXES. The buffer pool
//! has their present state; pages that are not in it are read from the system tablespace's file.
//!
//! ```text
//!   page 7 of tablespace 0 ──> roots ──> SYS_TABLES: id ──> name
//!                                   └──> SYS_INDEXES: id ──> table, name, type
//!   first pages of the .ibd files ──> number of a tablespace ──> name
//! ```

mod files;
mod records;

use super::attach::Server;
use super::page::{Kind, PageId, HEADER, NO_PAGE};
use crate::bytes::array_at;
use hardmeter_samples::model::VirtualAddress;
use records::{number, records, Record};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

pub(super) use files::readable;

/// The system tablespace, and the tablespace of temporary tables.
const SYSTEM: u32 = 0;
const TEMPORARY: u32 = 0xffff_fffe;
/// The page of the system tablespace with the roots, and their offsets.
const DICTIONARY: u32 = 7;
const ROOT_OF_TABLES: usize = HEADER + 32;
const ROOT_OF_INDEXES: usize = HEADER + 44;
/// Limit of pages that are read of one table.
const MOST_PAGES: usize = 100_000;
/// Limit of levels of a tree.
const MOST_LEVELS: usize = 16;
/// The dictionary is read again at the earliest after a hundred times the duration of reading, and after this
/// time.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_PER_COST: u32 = 100;

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// Its table, in SQL's form.
    pub table: String,
    /// Its own name.
    pub name: String,
    /// True if it contains the rows.
    pub clustered: bool,
    /// Its tablespace.
    pub space: u32,
}

/// All known names.
#[derive(Debug)]
pub(super) struct Dictionary {
    spaces: HashMap<u32, String>,
    indexes: HashMap<u64, Index>,
    read: Instant,
    cost: Duration,
}

/// Pages of the system tablespace.
struct Pages<'a> {
    server: &'a Server,
    frames: HashMap<u32, VirtualAddress>,
    file: Option<File>,
}

impl Pages<'_> {
    fn of(server: &Server) -> Pages<'_> {
        let mut frames = HashMap::new();
        let all: Vec<VirtualAddress> = server.pool.frames().collect();
        const AT_ONCE: usize = 65_536;
        for some in all.chunks(AT_ONCE) {
            let (heads, fine) = server.memory.read_pieces(some, HEADER);
            for ((frame, head), _) in
                some.iter().zip(heads.chunks_exact(HEADER)).zip(fine).filter(|(_, fine)| *fine)
            {
                match PageId::of(head) {
                    Some(PageId { space: SYSTEM, number }) if number != 0 => {
                        frames.insert(number, *frame);
                    }
                    _ => {}
                }
            }
        }
        Pages { server, frames, file: File::open(server.data.join("ibdata1")).ok() }
    }

    fn page(&self, number: u32) -> Option<Vec<u8>> {
        let size = self.server.pool.page;
        let id = PageId { space: SYSTEM, number };
        let mut bytes = vec![0; size as usize];
        let is_it = |bytes: &[u8]| PageId::of(bytes) == Some(id);
        if let Some(frame) = self.frames.get(&number) {
            if self.server.memory.read(*frame, &mut bytes).is_ok() && is_it(&bytes) {
                return Some(bytes);
            }
        }
        self.file.as_ref()?.read_exact_at(&mut bytes, u64::from(number) * size).ok()?;
        is_it(&bytes).then_some(bytes)
    }

    /// Visits all rows of a table, starting at its root.
    fn rows(&self, root: u32, each: &mut dyn FnMut(&Record<'_>)) {
        let mut at = root;
        for _ in 0..MOST_LEVELS {
            let Some(page) = self.page(at) else { return };
            match Kind::of(&page) {
                Some(Kind::Index { level: 0, .. }) => break,
                Some(Kind::Index { .. }) => {}
                _ => return,
            }
            let below = records(&page).first().and_then(|record| number::<4>(record.last()));
            let Some(below) = below else { return };
            at = below as u32;
        }
        for _ in 0..MOST_PAGES {
            let Some(page) = self.page(at) else { return };
            records(&page).iter().for_each(&mut *each);
            const NEXT_AT: usize = 12;
            match array_at(&page, NEXT_AT).map(u32::from_be_bytes) {
                Some(next) if next != NO_PAGE => at = next,
                _ => return,
            }
        }
    }
}

fn text(field: Option<&[u8]>) -> Option<String> {
    field.map(|field| String::from_utf8_lossy(field).into_owned())
}

impl Dictionary {
    /// Reads the server's present dictionary.
    pub fn read(server: &Server) -> Dictionary {
        let begun = Instant::now();
        let pages = Pages::of(server);
        let mut tables = HashMap::new();
        let mut indexes = HashMap::new();
        let root = |at| {
            let page = pages.page(DICTIONARY)?;
            array_at(&page, at).map(u32::from_be_bytes)
        };
        // NAME, DB_TRX_ID, DB_ROLL_PTR, ID ...
        if let Some(root) = root(ROOT_OF_TABLES) {
            pages.rows(root, &mut |row| {
                if let (Some(name), Some(id)) = (text(row.field(0)), number::<8>(row.field(3))) {
                    tables.insert(id, readable(&name));
                }
            });
        }
        // TABLE_ID, ID, DB_TRX_ID, DB_ROLL_PTR, NAME, N_FIELDS, TYPE, SPACE ...
        if let Some(root) = root(ROOT_OF_INDEXES) {
            pages.rows(root, &mut |row| {
                const CLUSTERED: u64 = 1;
                let (table, id) = (number::<8>(row.field(0)), number::<8>(row.field(1)));
                let (kind, space) = (number::<4>(row.field(6)), number::<4>(row.field(7)));
                let (Some(table), Some(id), Some(name), Some(kind), Some(space)) =
                    (table, id, text(row.field(4)), kind, space)
                else {
                    return;
                };
                // The dictionary's own tables are not listed in it.
                let Some(table) = tables.get(&table).cloned() else { return };
                let clustered = kind & CLUSTERED != 0;
                indexes.insert(id, Index { table, name, clustered, space: space as u32 });
            });
        }
        let spaces = files::spaces(&server.data);
        indexes.extend(own_indexes());
        Dictionary { spaces, indexes, read: Instant::now(), cost: begun.elapsed() }
    }

    /// Reads it again, unless it was read just before.
    pub fn refresh(&mut self, server: &Server) {
        if self.read.elapsed() >= PAUSE.max(self.cost * PAUSE_PER_COST) {
            *self = Dictionary::read(server);
        }
    }

    /// True if there are no names.
    pub fn is_empty(&self) -> bool {
        self.indexes.len() == own_indexes().len()
    }

    /// An index by its number.
    pub fn index(&self, id: u64, space: u32) -> Option<&Index> {
        self.indexes.get(&id).filter(|index| index.space == space)
    }

    /// The name of a tablespace.
    pub fn space(&self, space: u32) -> Option<&str> {
        match space {
            SYSTEM => Some("innodb_system"),
            TEMPORARY => Some("innodb_temporary"),
            _ => self.spaces.get(&space).map(String::as_str),
        }
    }

    /// True if a tablespace has temporary tables, which the dictionary does not list.
    pub fn is_temporary(&self, space: u32) -> bool {
        space == TEMPORARY
    }
}

/// The indexes of the dictionary itself, whose numbers are fixed.
fn own_indexes() -> HashMap<u64, Index> {
    let own = [
        (1, "SYS_TABLES", "CLUST_IND", true),
        (2, "SYS_COLUMNS", "CLUST_IND", true),
        (3, "SYS_INDEXES", "CLUST_IND", true),
        (4, "SYS_FIELDS", "CLUST_IND", true),
        (5, "SYS_TABLES", "ID_IND", false),
    ];
    let index = |(id, table, name, clustered): (u64, &str, &str, bool)| {
        (id, Index { table: table.into(), name: name.into(), clustered, space: SYSTEM })
    };
    own.map(index).into()
}
