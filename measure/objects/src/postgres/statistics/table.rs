//! Reads all entries of a hash table in a dynamic shared area while the server uses it.
//!
//! ```text
//!   control   {own pointer, magic, 128 partitions {lock, count}, kind of lock, log2 of the buckets, buckets}
//!   buckets   [pointer][pointer] ...
//!   item      {next, hash} entry
//! ```
//!
//! No lock is taken, so the table may change meanwhile: then it is walked again. The control structure
//! (`dshash_table_control` of dshash.c) and the head of an item are in no header file; they are the same in
//! 15 to 18, and are tested by the table's own pointer, the kind of each lock and the counts of its
//! partitions.

use super::dynamic::{DynamicArea, Pointer};
use crate::bytes::{u16_at, u32_at, u64_at};
use std::time::Duration;

const MAGIC: u32 = 0x75ff_6a20;
const PARTITIONS: usize = 128;
const MAGIC_AT: usize = 8;
const PARTITIONS_AT: usize = 16;
/// Link, hash, and an equal number of unused bytes.
const ITEM_HEAD: usize = 16;
/// 2^24 buckets hold three quarters of that many entries: servers have less than a million tables.
const MOST_LOG2: u64 = 24;
/// Limit of walks of a table that changes.
const WALKS: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);

/// The expected properties of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of an entry, without the head of its item.
    pub entry: usize,
    /// Bytes of a lock.
    pub lock: usize,
    /// The kind of its locks.
    pub kind: u32,
}

#[derive(Debug, PartialEq, Eq)]
struct Control {
    log2: u64,
    buckets: Pointer,
    entries: u64,
}

fn read_control(area: &mut DynamicArea, at: Pointer, shape: Shape) -> Result<Control, String> {
    let partition = shape.lock + 8;
    let kind_at = PARTITIONS_AT + PARTITIONS * partition;
    let (log2_at, buckets_at) = (kind_at + 8, kind_at + 16);
    let mut bytes = vec![0; buckets_at + 8];
    area.read(at, &mut bytes)?;
    let word = |offset| u64_at(&bytes, offset).unwrap_or(0);
    if u32_at(&bytes, MAGIC_AT) != Some(MAGIC) || word(0) != at.0 {
        return Err("their table has an unexpected header".into());
    }
    let lock = |number: usize| PARTITIONS_AT + number * partition;
    let of_kind = |number| u16_at(&bytes, lock(number)).map(u32::from) == Some(shape.kind);
    if u32_at(&bytes, kind_at) != Some(shape.kind) || !(0..PARTITIONS).all(of_kind) {
        return Err(format!("the locks of their table are not of kind {}", shape.kind));
    }
    let log2 = word(log2_at);
    if !(7..=MOST_LOG2).contains(&log2) {
        return Err(format!("their table says that it has 2^{log2} buckets"));
    }
    let entries =
        (0..PARTITIONS).fold(0u64, |sum, number| sum.saturating_add(word(lock(number) + shape.lock)));
    Ok(Control { log2, buckets: Pointer(word(buckets_at)), entries })
}

/// The entries that `keep` accepts, concatenated.
pub(crate) fn entries(
    area: &mut DynamicArea,
    at: Pointer,
    shape: Shape,
    keep: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, String> {
    let mut reason = String::new();
    for attempt in 0..WALKS {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        match walk(area, at, shape, keep) {
            Ok(kept) => return Ok(kept),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

fn walk(
    area: &mut DynamicArea,
    at: Pointer,
    shape: Shape,
    keep: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<u8>, String> {
    let before = read_control(area, at, shape)?;
    // Entries change during the walk; with a wrong layout the numbers are completely different.
    let tolerance = 8 + before.entries / 8;
    let mut heads = vec![0; 8 << before.log2];
    area.read(before.buckets, &mut heads)?;
    let links = |bytes: &[u8], stride: usize| -> Vec<Pointer> {
        let link = |piece: &[u8]| u64_at(piece, 0).filter(|link| *link != 0).map(Pointer);
        bytes.chunks_exact(stride).filter_map(link).collect()
    };
    let mut frontier = links(&heads, 8);
    let (mut kept, mut seen) = (Vec::new(), 0);
    let stride = ITEM_HEAD + shape.entry;
    while !frontier.is_empty() {
        seen += frontier.len() as u64;
        if seen > before.entries.saturating_add(tolerance) {
            return Err(format!("their table of {} entries has more than it says", before.entries));
        }
        let items = area.read_pieces(&frontier, stride)?;
        let found = items.chunks_exact(stride).map(|item| &item[ITEM_HEAD..]);
        found.filter(|entry| keep(entry)).for_each(|entry| kept.extend_from_slice(entry));
        frontier = links(&items, stride);
    }
    let after = read_control(area, at, shape)?;
    if (after.log2, after.buckets) != (before.log2, before.buckets) {
        return Err("their table grows repeatedly".into());
    }
    if seen + tolerance < after.entries {
        return Err(format!("their table says {} entries and has {seen}", after.entries));
    }
    Ok(kept)
}
