//! Entries of the catalog cache and the relation cache, which are all in `CacheMemoryContext`.
//!
//! ```text
//!   chunk  57261502 ...  my_cache ──> CatCache: cc_relname ──> "pg_proc"       catalog cache: pg_proc
//!   chunk  ... rd_id = 1259 ... rd_rel ──> chunk: 1259 "pg_class"             relation cache: pg_class
//!                               rd_att ──> chunk                              relation cache: pg_class, rd_att
//! ```
//!
//! An entry of the catalog cache has a magic number; one of the relation cache is recognised by its object
//! number, which is in the entry and in its copy of the row of pg_class.

use super::super::layout::{Field, Layout, Missing};
use super::chunks::{self, Chunk};
use super::contexts::Readable;
use crate::bytes::{u32_at, u64_at};
use crate::process_memory::text_of;
use hardmeter_samples::model::VirtualAddress;
use std::collections::HashMap;
use std::sync::Arc;

const CATALOG_ENTRY: u32 = 0x5726_1502;
const CATALOG_LIST: u32 = 0x5276_5103;

/// Offsets in the structures of the caches.
#[derive(Clone, Debug)]
pub(super) struct CacheLayout {
    entry_size: u64,
    entry_cache: usize,
    entry_negative: usize,
    list_size: u64,
    list_cache: usize,
    cache_name: u64,
    cache_catalog: u64,
    cache_buckets: u64,
    cache_next: u64,
    relation_size: usize,
    relation_id: usize,
    relation_row: usize,
    /// Fields that may point to chunks.
    relation_pointers: Vec<Field>,
    row_name: u64,
    name_length: u64,
}

impl CacheLayout {
    pub(super) fn of(layout: &Layout) -> Result<CacheLayout, Missing> {
        let offset = |structure: &str, field: &str| layout.offset(structure, field);
        let relation = layout.structure("RelationData")?;
        Ok(CacheLayout {
            entry_size: layout.structure("CatCTup")?.size,
            entry_cache: offset("CatCTup", "my_cache")? as usize,
            entry_negative: offset("CatCTup", "negative")? as usize,
            list_size: layout.structure("CatCList")?.size,
            list_cache: offset("CatCList", "my_cache")? as usize,
            cache_name: offset("CatCache", "cc_relname")?,
            cache_catalog: offset("CatCache", "cc_reloid")?,
            cache_buckets: offset("CatCache", "cc_bucket")?,
            cache_next: offset("CatCache", "cc_next")?,
            relation_size: relation.size as usize,
            relation_id: offset("RelationData", "rd_id")? as usize,
            relation_row: offset("RelationData", "rd_rel")? as usize,
            relation_pointers: relation.fields.iter().filter(|field| field.size == 8).cloned().collect(),
            row_name: offset("FormData_pg_class", "relname")?,
            name_length: layout.name_length,
        })
    }
}

/// The cache entry in a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheEntry {
    pub(super) class: &'static str,
    /// A catalog or relation.
    pub(super) name: Arc<str>,
    /// "entry", "list", "negative entry" ...
    pub(super) instance: Arc<str>,
    /// Bytes of the entry itself, before its data (a row).
    pub(super) header: u64,
}

/// The chunks of a `CacheMemoryContext`, by the first byte of their data.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheIndex {
    entries: HashMap<VirtualAddress, CacheEntry>,
}

impl CacheIndex {
    /// The cache entry in a chunk.
    pub(super) fn get(&self, chunk: &Chunk) -> Option<&CacheEntry> {
        self.entries.get(&chunk.data)
    }

    /// Examines all chunks of the context.
    pub(super) fn read(memory: &dyn Readable, layout: &CacheLayout, all: &[Chunk]) -> CacheIndex {
        let mut index = CacheIndex::default();
        let mut catalogs = Catalogs::default();
        let used = || all.iter().filter(|chunk| !chunk.is_free);
        for chunk in used() {
            let mut bytes = vec![0; layout.relation_size.min(chunk.size() as usize)];
            let got = memory.fill(chunk.data, &mut bytes);
            bytes.truncate(got);
            if let Some(entry) = index.catalog_entry(memory, layout, &bytes, &mut catalogs) {
                index.entries.insert(chunk.data, entry);
            } else if let Some(name) = relation(memory, layout, &bytes) {
                index.add_relation(layout, &bytes, chunk, all, &name);
            }
        }
        for (cache, name) in catalogs.all(memory, layout) {
            index.add_cache(memory, layout, cache, &name, all);
        }
        index
    }

    fn catalog_entry(
        &self,
        memory: &dyn Readable,
        layout: &CacheLayout,
        bytes: &[u8],
        catalogs: &mut Catalogs,
    ) -> Option<CacheEntry> {
        let (cache, instance, header) = match u32_at(bytes, 0)? {
            CATALOG_ENTRY => {
                let is_negative = bytes.get(layout.entry_negative) == Some(&1);
                let instance = if is_negative { "negative entry" } else { "entry" };
                (u64_at(bytes, layout.entry_cache)?, instance, layout.entry_size)
            }
            CATALOG_LIST => (u64_at(bytes, layout.list_cache)?, "list", layout.list_size),
            _ => return None,
        };
        let name = catalogs.name(memory, layout, VirtualAddress(cache))?;
        Some(CacheEntry { class: "catalog cache", name, instance: instance.into(), header })
    }

    /// Adds the entry, and the chunks that it points to.
    fn add_relation(
        &mut self,
        layout: &CacheLayout,
        bytes: &[u8],
        chunk: &Chunk,
        all: &[Chunk],
        name: &Arc<str>,
    ) {
        let entry = |instance: &str, header| CacheEntry {
            class: "relation cache",
            name: Arc::clone(name),
            instance: instance.into(),
            header,
        };
        for field in &layout.relation_pointers {
            let target = VirtualAddress(u64_at(bytes, field.offset as usize).unwrap_or(0));
            let points_there =
                chunks::at(all, target).is_some_and(|chunk| chunk.data == target && !chunk.is_free);
            if points_there {
                self.entries.entry(target).or_insert_with(|| entry(&field.name, 0));
            }
        }
        self.entries.insert(chunk.data, entry("entry", 0));
    }

    /// Adds the head of a catalog's cache, and its hash table.
    fn add_cache(
        &mut self,
        memory: &dyn Readable,
        layout: &CacheLayout,
        cache: VirtualAddress,
        name: &Arc<str>,
        all: &[Chunk],
    ) {
        let buckets = memory.whole(VirtualAddress(cache.0.wrapping_add(layout.cache_buckets)), 8);
        let buckets = buckets.and_then(|bytes| u64_at(&bytes, 0)).unwrap_or(0);
        for (address, instance) in [(cache, "head"), (VirtualAddress(buckets), "hash buckets")] {
            if let Some(chunk) = chunks::at(all, address).filter(|chunk| address >= chunk.data) {
                let instance = instance.into();
                let name = Arc::clone(name);
                self.entries
                    .insert(chunk.data, CacheEntry { class: "catalog cache", name, instance, header: 0 });
            }
        }
    }
}

/// Catalogs by the address of their cache.
#[derive(Default)]
struct Catalogs {
    names: HashMap<VirtualAddress, Option<Arc<str>>>,
}

impl Catalogs {
    fn name(
        &mut self,
        memory: &dyn Readable,
        layout: &CacheLayout,
        cache: VirtualAddress,
    ) -> Option<Arc<str>> {
        let known = self.names.entry(cache).or_insert_with(|| {
            let word = |offset: u64, size| memory.whole(VirtualAddress(cache.0.wrapping_add(offset)), size);
            let number = u32_at(&word(layout.cache_catalog, 4)?, 0)?;
            let name = VirtualAddress(u64_at(&word(layout.cache_name, 8)?, 0)?);
            let name = identifier(&memory.text(name, layout.name_length as usize));
            // Numbers of catalogs are below 16384. An unused cache has no name yet.
            (1..16384).contains(&number).then(|| name.unwrap_or_else(|| format!("catalog {number}")).into())
        });
        known.clone()
    }

    /// The caches found so far, and those that follow them in the list.
    fn all(mut self, memory: &dyn Readable, layout: &CacheLayout) -> Vec<(VirtualAddress, Arc<str>)> {
        /// There are about 80.
        const CACHES_AT_MOST: usize = 1024;
        let mut open: Vec<VirtualAddress> = self.names.keys().copied().collect();
        let mut seen = 0;
        while let Some(cache) = open.pop() {
            seen += 1;
            let next = memory.whole(VirtualAddress(cache.0.wrapping_add(layout.cache_next)), 8);
            // The link leads to the link of the next one.
            let next = next.and_then(|bytes| u64_at(&bytes, 0)).filter(|next| *next != 0);
            let next = next.map(|next| VirtualAddress(next.wrapping_sub(layout.cache_next)));
            let Some(next) = next.filter(|next| !self.names.contains_key(next) && seen < CACHES_AT_MOST)
            else {
                continue;
            };
            if self.name(memory, layout, next).is_some() {
                open.push(next);
            }
        }
        self.names.into_iter().filter_map(|(cache, name)| Some((cache, name?))).collect()
    }
}

/// The name of the relation whose entry these bytes are.
fn relation(memory: &dyn Readable, layout: &CacheLayout, bytes: &[u8]) -> Option<Arc<str>> {
    if bytes.len() < layout.relation_size {
        return None;
    }
    let number = u32_at(bytes, layout.relation_id).filter(|number| *number != 0)?;
    let row = VirtualAddress(u64_at(bytes, layout.relation_row).filter(|row| *row != 0)?);
    let row = memory.whole(row, (layout.row_name + layout.name_length) as usize)?;
    if u32_at(&row, 0) != Some(number) {
        return None;
    }
    identifier(&text_of(row.get(layout.row_name as usize..)?)).map(Into::into)
}

/// A name, unless it is empty or has invalid characters.
fn identifier(text: &str) -> Option<String> {
    let is_name =
        !text.is_empty() && !text.contains(|letter: char| letter.is_control() || letter == '\u{fffd}');
    is_name.then(|| text.to_owned())
}
