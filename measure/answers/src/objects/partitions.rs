//! Partitions of objects: their instances by number, in ranges of equal length.
//!
//! ```text
//!   instance             partition                 what it is
//!   "main block 700"     "main block 640-703"      a sixteenth of a table or index, at most
//!   "main block 3, root" "main block 0-63"
//!   "17"                 "17"                      a partition of locks, as the server numbers it
//!   "slot 4"             "slot 4"
//!   "after crc_table"    ""                        no number: not divided
//! ```
//!
//! Blocks and pages are grouped, up to the highest that has a sample: a range has a power of two of them, so that ranges
//! of two captures of one table agree as long as it does not double.

use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of ranges of an object.
const RANGES: u64 = 16;

/// The class, name and instance of an object.
pub(super) type Instance = (TextId, TextId, TextId);

/// The class and name of an object, the kind of its partition, and the first number in it.
type Place<'t> = (TextId, TextId, &'t str, Option<u64>);

/// The partitions of the objects that have samples, numbered in the order in which those of an object follow each other.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    numbers: FxHashMap<Instance, u64>,
    texts: Vec<Arc<str>>,
}

impl Partitions {
    /// Of these instances; `text` reads a name.
    pub(super) fn of<'t>(
        instances: impl Iterator<Item = Instance>,
        text: impl Fn(TextId) -> &'t Arc<str>,
    ) -> Partitions {
        let instances: BTreeSet<Instance> = instances.collect();
        let mut highest: FxHashMap<(TextId, TextId, &str), u64> = FxHashMap::default();
        for (class, name, instance) in &instances {
            if let Some((kind, number)) = split(text(*instance)) {
                let most = highest.entry((*class, *name, kind)).or_default();
                *most = number.max(*most);
            }
        }
        let mut found: Vec<(Place, Arc<str>, Instance)> = Vec::new();
        for instance in instances {
            let (class, name, whole) = instance;
            let whole = text(whole);
            found.push(match split(whole) {
                Some((kind, number)) => {
                    let length = length(kind, highest[&(class, name, kind)]);
                    let first = number / length * length;
                    let shown = match length {
                        1 => format!("{kind}{number}"),
                        _ => format!("{kind}{first}-{}", first + (length - 1)),
                    };
                    ((class, name, kind, Some(first)), shown.into(), instance)
                }
                // An instance without a number belongs to the whole object.
                None => ((class, name, "", None), Arc::from(""), instance),
            });
        }
        found.sort_by_key(|(place, ..)| *place);
        let mut partitions = Partitions::default();
        let mut last = None;
        for (key, shown, instance) in found {
            if last != Some(key) {
                partitions.texts.push(shown);
                last = Some(key);
            }
            partitions.numbers.insert(instance, partitions.texts.len() as u64 - 1);
        }
        partitions
    }

    /// The number of the partition of an instance.
    pub(super) fn number(&self, instance: Instance) -> u64 {
        self.numbers.get(&instance).copied().unwrap_or(0)
    }

    /// The name of a partition.
    pub(super) fn text(&self, number: u64) -> Option<&Arc<str>> {
        self.texts.get(usize::try_from(number).ok()?)
    }
}

/// The kind and the number of an instance: "main block " and 7; of "1024 bytes" or "thread 17" none.
fn split(instance: &str) -> Option<(&str, u64)> {
    let at = instance.find(|one: char| one.is_ascii_digit())?;
    let (kind, rest) = instance.split_at(at);
    let end = rest.find(|one: char| !one.is_ascii_digit()).unwrap_or(rest.len());
    let of_server = ["block ", "page ", "slot "].iter().any(|one| kind.ends_with(one));
    let whole = kind.is_empty() && end == rest.len();
    rest[..end].parse().ok().filter(|_| of_server || whole).map(|number| (kind, number))
}

/// The length of a range.
fn length(kind: &str, highest: u64) -> u64 {
    match kind.ends_with("block ") || kind.ends_with("page ") {
        true => (highest / RANGES + 1).checked_next_power_of_two().unwrap_or(1 << 63),
        false => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_grouped_and_locks_are_not() {
        let texts: Vec<Arc<str>> = [
            "",
            "table",
            "t",
            "main block 0",
            "main block 63, leaf",
            "main block 64",
            "main block 1000",
            "17",
        ]
        .map(Arc::from)
        .to_vec();
        let of = |instance| (TextId(1), TextId(2), TextId(instance));
        let partitions = Partitions::of((0..8).map(of), |id| &texts[id.0 as usize]);
        let shown = |instance| &**partitions.text(partitions.number(of(instance))).unwrap();
        // 1000 / 16 + 1 = 63, so 64 blocks a range.
        assert_eq!(
            (3..8).map(shown).collect::<Vec<_>>(),
            ["main block 0-63", "main block 0-63", "main block 64-127", "main block 960-1023", "17"]
        );
        assert_eq!(partitions.number(of(3)), partitions.number(of(4)));
        assert_eq!((shown(0), partitions.number(of(1))), ("", partitions.number(of(2))));
        assert!(partitions.number(of(5)) < partitions.number(of(6)), "in the order of blocks");
    }

    #[test]
    fn small_objects_have_a_partition_for_each_block() {
        assert_eq!((length("main block ", 15), length("main block ", 16)), (1, 2));
        assert_eq!((length("page ", u64::MAX), length("", 127), length("slot ", 99)), (1 << 60, 1, 1));
        assert_eq!((split("catalog pg_proc"), split(""), split("64 bytes")), (None, None, None));
        assert_eq!((split("main block 3, root"), split("17")), (Some(("main block ", 3)), Some(("", 17))));
        assert_eq!(split("18446744073709551616"), None, "more than a number holds");
    }
}
