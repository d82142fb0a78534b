//! Names of relations and their columns, without a query to the server: its catalogs are ordinary tables,
//! whose pages are read in place.
//!
//! ```text
//!   pg_filenode.map ──> files of pg_class, pg_attribute ──> rows ──> (database, file) is "public.pgbench_accounts"
//! ```
//!
//! Visibility is approximated: of several versions of a row, the newest that was not rolled back counts. A
//! name may therefore belong to a table whose creation is not committed yet. Unknown files cause the catalog
//! to be read again, with a minimum interval.

pub(crate) mod files;
pub(crate) mod rows;

use super::attach::Server;
use super::layout::Missing;
use super::page::{Attribute, Shape};
use super::shared::buffers::Tag;
use files::{oid, Files};
use rows::{ClassRow, Columns, Newest};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A relation, with the data that its pages need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    /// With its schema: "public.pgbench_accounts"; with its database if there are several.
    pub name: String,
    /// Its class: "table", "index" ...
    pub class: &'static str,
    /// The kind of its pages: "table", "btree index" ...
    pub pages: &'static str,
    /// The format of its main fork.
    pub shape: Shape,
    /// Its columns.
    pub attributes: Vec<Attribute>,
    /// True if the catalog has it; otherwise only the number of its file is known.
    pub known: bool,
}

/// The catalog of one database.
struct Database {
    relations: HashMap<u32, Arc<Relation>>,
    read: Instant,
    /// The duration of reading it, which limits how often it is read.
    cost: Duration,
}

/// The catalogs of all databases.
pub(crate) struct Catalog {
    columns: Columns,
    names: HashMap<u32, String>,
    /// True if names need their database.
    qualified: bool,
    databases: HashMap<u32, Database>,
}

/// A catalog is read at most at this interval, and takes at most a fiftieth of the time.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_PER_COST: u32 = 50;

impl Catalog {
    /// Reads the names of a server's databases.
    pub fn new(server: &Server, files: &Files) -> Result<Catalog, Missing> {
        let columns = Columns::of(&server.layout)?;
        let mut catalog =
            Catalog { columns, names: HashMap::new(), qualified: false, databases: HashMap::new() };
        catalog.names = catalog.database_names(files);
        let own = |name: &String| !name.starts_with("template");
        catalog.qualified = catalog.names.values().filter(|name| own(name)).count() > 1;
        Ok(catalog)
    }

    /// The name of a database, if it existed when the names were last read.
    pub fn database(&self, number: u32) -> Option<&str> {
        self.names.get(&number).map(String::as_str)
    }

    fn database_names(&self, files: &Files) -> HashMap<u32, String> {
        let file = files.relation_map(None).ok().and_then(|map| map.get(&oid::PG_DATABASE).copied());
        let mut names = Newest::new();
        files.each_block(oid::GLOBAL_SPACE, 0, file.unwrap_or(oid::PG_DATABASE), |page| {
            names.add(page, |row| self.columns.named(row));
        });
        names.into_values().collect()
    }

    /// True if a relation is unknown and its catalog may be read again.
    pub fn wants(&self, tag: &Tag) -> bool {
        match self.databases.get(&tag.database) {
            None => true,
            Some(database) => {
                let pause = PAUSE.max(database.cost * PAUSE_PER_COST);
                !database.relations.contains_key(&tag.file) && database.read.elapsed() >= pause
            }
        }
    }

    /// The relation of a block.
    pub fn relation(&self, tag: &Tag) -> Arc<Relation> {
        let known = self.databases.get(&tag.database).and_then(|database| database.relations.get(&tag.file));
        known.cloned().unwrap_or_else(|| {
            Arc::new(Relation {
                name: format!("file {}/{}", tag.database, tag.file),
                class: "relation",
                pages: "relation",
                shape: Shape::Other,
                attributes: Vec::new(),
                known: false,
            })
        })
    }

    /// Reads the catalog of a block's database.
    pub fn read(&mut self, tag: &Tag, files: &Files) {
        let begun = Instant::now();
        if !self.names.contains_key(&tag.database) {
            self.names = self.database_names(files);
        }
        // Shared catalogs are described in each database.
        let home = match tag.database {
            0 => self.names.keys().copied().min().unwrap_or(1),
            database => database,
        };
        let relations = self.relations(home, tag.database == 0, files);
        let read = Instant::now();
        self.databases.insert(tag.database, Database { relations, read, cost: read - begun });
    }

    fn relations(&self, home: u32, shared: bool, files: &Files) -> HashMap<u32, Arc<Relation>> {
        let own_map = files.relation_map(Some(home)).unwrap_or_default();
        let map = if shared { files.relation_map(None).unwrap_or_default() } else { own_map.clone() };
        let file_of = |number: u32| own_map.get(&number).copied().unwrap_or(number);
        let space = oid::DEFAULT_SPACE;

        // All versions of each row, by file: an old file may still be in the buffers.
        let mut by_file: Newest<u32, ClassRow> = Newest::new();
        let mut by_number: Newest<u32, ClassRow> = Newest::new();
        files.each_block(space, home, file_of(oid::PG_CLASS), |page| {
            let parse = |row: &[u8]| self.columns.class(row);
            by_number.add(page, |row| parse(row).map(|row| (row.oid, row)));
            by_file.add(page, |row| {
                let row = parse(row)?;
                let file = if row.file == 0 { *map.get(&row.oid)? } else { row.file };
                Some((file, row)).filter(|(_, row)| !shared || row.file == 0)
            });
        });
        let classes: HashMap<u32, ClassRow> = by_number.into_values().collect();
        let catalog_file = |number: u32| {
            classes.get(&number).map(|row| row.file).filter(|file| *file != 0).unwrap_or(file_of(number))
        };
        let mut schemas = Newest::new();
        files.each_block(space, home, catalog_file(oid::PG_NAMESPACE), |page| {
            schemas.add(page, |row| self.columns.named(row));
        });
        let schemas: HashMap<u32, String> = schemas.into_values().collect();
        let mut columns = Newest::new();
        files.each_block(space, home, file_of(oid::PG_ATTRIBUTE), |page| {
            columns.add(page, |row| self.columns.attribute(row));
        });
        let mut attributes: HashMap<u32, Vec<(i16, Attribute)>> = HashMap::new();
        for ((relation, number), attribute) in columns.into_values() {
            attributes.entry(relation).or_default().push((number, attribute));
        }
        let owners: HashMap<u32, &ClassRow> =
            classes.values().filter(|row| row.toast != 0).map(|row| (row.toast, row)).collect();

        let database = (self.qualified && !shared).then(|| self.names.get(&home)).flatten();
        let prefix = database.map(|name| format!("{name}.")).unwrap_or_default();
        let full = |row: &ClassRow| {
            let schema = schemas.get(&row.namespace).map_or("?", String::as_str);
            format!("{prefix}{schema}.{}", row.name)
        };
        let relation = |row: &ClassRow| {
            let mut own = attributes.get(&row.oid).cloned().unwrap_or_default();
            own.sort_by_key(|(number, _)| *number);
            let (class, pages, shape) = kind_of(row);
            let name = match owners.get(&row.oid) {
                Some(owner) => format!("{} (of {})", full(row), full(owner)),
                None => full(row),
            };
            let attributes = own.into_iter().map(|(_, attribute)| attribute).collect();
            Arc::new(Relation { name, class, pages, shape, attributes, known: true })
        };
        by_file.into_values().map(|(file, row)| (file, relation(&row))).collect()
    }
}

/// Class, kind of pages, and format of a relation.
fn kind_of(row: &ClassRow) -> (&'static str, &'static str, Shape) {
    match (row.kind, row.access_method) {
        (b'i' | b'I', 403) => ("index", "btree index", Shape::Btree),
        (b'i' | b'I', 405) => ("index", "hash index", Shape::Other),
        (b'i' | b'I', 783) => ("index", "gist index", Shape::Other),
        (b'i' | b'I', 2742) => ("index", "gin index", Shape::Other),
        (b'i' | b'I', 3580) => ("index", "brin index", Shape::Other),
        (b'i' | b'I', 4000) => ("index", "spgist index", Shape::Other),
        (b'i' | b'I', _) => ("index", "index", Shape::Other),
        (b't', _) => ("toast table", "toast table", Shape::Heap),
        (b'S', _) => ("sequence", "sequence", Shape::Heap),
        (b'm', 2) => ("materialized view", "materialized view", Shape::Heap),
        // 2 is the heap; tables of other access methods have other pages.
        (_, 2 | 0) => ("table", "table", Shape::Heap),
        _ => ("table", "table of another access method", Shape::Other),
    }
}
