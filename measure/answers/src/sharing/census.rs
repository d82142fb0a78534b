//! Counts of every contended line, for the table of lines.

use super::line::LineId;
use super::role::{Role, Roles};
use crate::code::Place;
use hardmeter_samples::model::{DataSource, MemoryOperation, Sample, SharingVerdict, Snoop};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Counts of a line, or of all lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// Accesses that waited because another core had written the line.
    pub misses: u64,
    /// Those that were loads served by another core of this node, which had the line modified: perf's local HITM.
    /// (Only the first reader after a write is counted; a second one finds the line in the shared level.)
    pub local_hitm: u64,
    /// Those that were such loads served from another node: perf's remote HITM.
    pub remote_hitm: u64,
    /// Stores that invalidated the line in other cores.
    pub invalidations: u64,
    /// Misses on bytes that another core had written (simulated captures).
    pub true_sharing: u64,
    /// Misses on bytes that no other core had written (simulated captures).
    pub false_sharing: u64,
    /// Misses with a latency.
    pub latency_samples: u64,
    /// The sum of their latencies, in cycles.
    pub latency_sum: u64,
}

impl LineCounts {
    /// The mean latency of a miss, in cycles.
    pub fn mean_latency(&self) -> Option<f64> {
        (self.latency_samples > 0).then(|| self.latency_sum as f64 / self.latency_samples as f64)
    }

    /// Adds a sample with its role.
    pub(super) fn see(&mut self, sample: &Sample<'_>, role: Role, verdict: Option<SharingVerdict>) {
        match role {
            Role::Miss { remote } => {
                self.misses += 1;
                let modified = sample.data_source.is_some_and(is_hitm_load);
                self.local_hitm += u64::from(modified && !remote);
                self.remote_hitm += u64::from(modified && remote);
                match verdict {
                    Some(SharingVerdict::True) => self.true_sharing += 1,
                    Some(SharingVerdict::False) => self.false_sharing += 1,
                    None => {}
                }
                if let Some(weight) = sample.weight {
                    self.latency_samples += 1;
                    self.latency_sum = self.latency_sum.saturating_add(weight.latency.0);
                }
            }
            Role::Invalidation => self.invalidations += 1,
            Role::Access => {}
        }
    }
}

/// Whether another core that had the line modified served the load. (Arm's cores report "peer".)
pub(super) fn is_hitm_load(source: DataSource) -> bool {
    source.operation() == MemoryOperation::Load && matches!(source.snoop(), Snoop::HitModified | Snoop::Peer)
}

/// Counts by line: the first walk.
pub struct LineCensus {
    roles: Roles,
    line_size: u32,
    lines: FxHashMap<LineId, LineCounts>,
    total: LineCounts,
    samples: u64,
    with_address: u64,
    with_source: u64,
    stores: u64,
}

impl LineCensus {
    /// An empty census of lines of `line_size` bytes.
    pub fn new(roles: Roles, line_size: u32) -> LineCensus {
        LineCensus {
            roles,
            line_size,
            lines: FxHashMap::default(),
            total: LineCounts::default(),
            samples: 0,
            with_address: 0,
            with_source: 0,
            stores: 0,
        }
    }

    /// Adds a sample. `shared` returns the place of its data address in a shared mapping; called only if needed.
    pub fn add(&mut self, sample: &Sample<'_>, shared: impl FnOnce() -> Option<Place>) {
        self.samples += 1;
        self.with_address += u64::from(sample.address.is_some());
        self.with_source += u64::from(sample.data_source.is_some());
        let store = |source: DataSource| source.operation() == MemoryOperation::Store;
        self.stores += u64::from(sample.data_source.is_some_and(store));
        let detail = sample.simulated();
        let role = self.roles.of(sample, detail.as_ref());
        if role == Role::Access {
            return;
        }
        let place = if sample.physical_address.is_none() { shared() } else { None };
        let Some(line) = LineId::of(sample, self.line_size, place) else { return };
        let verdict = detail.and_then(|detail| detail.sharing).and_then(|sharing| sharing.verdict);
        self.total.see(sample, role, verdict);
        self.lines.entry(line).or_default().see(sample, role, verdict);
    }

    /// The lines, those with most misses first; ties by invalidations, then by address.
    pub fn ranking(&self) -> Vec<(LineId, LineCounts)> {
        let mut ranking: Vec<_> = self.lines.iter().map(|(line, counts)| (*line, *counts)).collect();
        ranking.sort_by_key(|(line, counts)| {
            (std::cmp::Reverse(counts.misses), std::cmp::Reverse(counts.invalidations), *line)
        });
        ranking
    }

    /// The sum over all lines.
    pub fn total(&self) -> LineCounts {
        self.total
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Samples with a data address.
    pub fn with_address(&self) -> u64 {
        self.with_address
    }

    /// Samples with a data source.
    pub fn with_source(&self) -> u64 {
        self.with_source
    }

    /// Whether any store was sampled.
    pub fn stores_seen(&self) -> bool {
        self.stores > 0
    }

    /// The roles.
    pub fn roles(&self) -> &Roles {
        &self.roles
    }
}
