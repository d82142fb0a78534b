//! All processors of a kind as one: the part of a snapshot that is kept until the window is over.

use crate::model::{KindRef, Record, Snapshot};
use std::collections::BTreeMap;

/// Counters of all kinds at a moment.
#[derive(Clone, Debug, Default)]
pub struct Condensed {
    /// The time; 0: before everything.
    pub taken_ns: u64,
    /// Sums over all processors.
    pub records: BTreeMap<KindRef, Record>,
}

impl Condensed {
    /// The seconds between two snapshots; 0 if unknown.
    pub fn seconds_since(&self, earlier: &Condensed) -> f64 {
        if earlier.taken_ns == 0 {
            0.0
        } else {
            self.taken_ns.saturating_sub(earlier.taken_ns) as f64 / 1e9
        }
    }
}

/// Adds the processors up.
pub fn condense(snapshots: &[Snapshot]) -> Condensed {
    let mut records: BTreeMap<KindRef, Record> = BTreeMap::new();
    for snapshot in snapshots {
        for kind in &snapshot.kinds {
            let sum = records.entry(KindRef { app: snapshot.app, code: kind.code }).or_default();
            for (_, record) in &kind.records {
                sum.add(record);
            }
        }
    }
    Condensed { taken_ns: snapshots.iter().map(|one| one.taken_ns).max().unwrap_or(0), records }
}
