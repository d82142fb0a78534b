//! Groups the bytes of a line by the threads that use them: a layout without false sharing.
//!
//! ```text
//!   bytes   0..8    8..16     16..24     24..32
//!   used by A only  B only    A reads,   read by all,
//!                             B writes   never written
//!   lines   [A's]   [B's]     [its own]  [with all else that is only read]
//! ```
//!
//! Fields that several threads write get a line each: samples do not show which of them belong together.

use hardmeter_samples::model::Tid;
use rustc_hash::FxHashSet;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes of a line, the last one excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRange {
    /// The first.
    pub start: u16,
    /// One past the last.
    pub end: u16,
}

impl ByteRange {
    /// Whether the two have a byte in common.
    pub fn overlaps(self, other: ByteRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl Serialize for ByteRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The threads that use the bytes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupKind {
    /// No write was sampled.
    ReadOnly,
    /// Only one thread.
    OneThread,
    /// One thread writes, others read.
    OneWriter,
    /// Several threads write.
    SeveralWriters,
}

impl GroupKind {
    /// The kind as text.
    pub fn describe(self) -> &'static str {
        match self {
            GroupKind::ReadOnly => "only read",
            GroupKind::OneThread => "used by one thread",
            GroupKind::OneWriter => "written by one thread, read by others",
            GroupKind::SeveralWriters => "written by several threads",
        }
    }
}

/// Bytes that may stay on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayoutGroup {
    /// The threads that use them.
    pub kind: GroupKind,
    /// The bytes.
    pub ranges: Vec<ByteRange>,
}

/// A use of some bytes by a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub range: ByteRange,
    pub thread: Tid,
    pub writes: bool,
}

/// The groups, in the order of their first byte.
pub(super) fn groups(uses: &[Use]) -> Vec<LayoutGroup> {
    let mut by_owner: BTreeMap<(GroupKind, Option<Tid>, u16), LayoutGroup> = BTreeMap::new();
    for field in fields(uses) {
        let here: Vec<&Use> = uses.iter().filter(|used| used.range.overlaps(field)).collect();
        let writers: FxHashSet<Tid> =
            here.iter().filter(|used| used.writes).map(|used| used.thread).collect();
        let one = writers.iter().next().copied().filter(|_| writers.len() == 1);
        let (kind, own_line) = match one {
            None if writers.is_empty() => (GroupKind::ReadOnly, 0),
            None => (GroupKind::SeveralWriters, field.start),
            Some(writer) if here.iter().all(|used| used.thread == writer) => (GroupKind::OneThread, 0),
            Some(_) => (GroupKind::OneWriter, 0),
        };
        let group = by_owner.entry((kind, one, own_line));
        group.or_insert_with(|| LayoutGroup { kind, ranges: Vec::new() }).ranges.push(field);
    }
    let mut groups: Vec<LayoutGroup> = by_owner.into_values().collect();
    groups.sort_by_key(|group| group.ranges[0]);
    groups
}

/// Ranges that overlap are one field.
fn fields(uses: &[Use]) -> Vec<ByteRange> {
    let mut ranges: Vec<ByteRange> = uses.iter().map(|used| used.range).collect();
    ranges.sort();
    let mut fields: Vec<ByteRange> = Vec::new();
    for range in ranges {
        match fields.last_mut().filter(|last| last.overlaps(range)) {
            Some(last) => last.end = last.end.max(range.end),
            None => fields.push(range),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(start: u16, end: u16, thread: i32, how: &str) -> Use {
        let range = ByteRange { start, end };
        Use { range, thread: Tid(thread), writes: how.contains('w') }
    }

    fn shown(uses: &[Use]) -> Vec<(GroupKind, String)> {
        let text =
            |group: &LayoutGroup| group.ranges.iter().map(ByteRange::to_string).collect::<Vec<_>>().join(" ");
        groups(uses).iter().map(|group| (group.kind, text(group))).collect()
    }

    /// The picture above, with a second field of A's and a second one that is only read.
    #[test]
    fn bytes_of_one_owner_stay_together() {
        let uses = [
            used(0, 8, 1, "rw"),
            used(8, 16, 2, "w"),
            used(16, 24, 1, "r"),
            used(16, 24, 2, "w"),
            used(24, 32, 1, "r"),
            used(24, 28, 2, "r"),
            used(32, 40, 1, "w"),
            used(40, 44, 2, "r"),
        ];
        assert_eq!(
            shown(&uses),
            [
                (GroupKind::OneThread, "0..8 32..40".to_string()),
                (GroupKind::OneThread, "8..16".to_string()),
                (GroupKind::OneWriter, "16..24".to_string()),
                (GroupKind::ReadOnly, "24..32 40..44".to_string()),
            ]
        );
    }

    #[test]
    fn fields_that_several_write_are_parted_and_overlapping_accesses_are_one_field() {
        let uses = [used(0, 4, 1, "w"), used(0, 8, 2, "w"), used(8, 16, 1, "w"), used(8, 16, 2, "w")];
        assert_eq!(
            shown(&uses),
            [
                (GroupKind::SeveralWriters, "0..8".to_string()),
                (GroupKind::SeveralWriters, "8..16".to_string()),
            ]
        );
    }
}
