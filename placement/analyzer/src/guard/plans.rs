//! What plans do, whatever they say of it. Pure.

use crate::model::{Actuation, CpuSet, Plan};

/// Whether anything would be placed.
pub(super) fn has_effect(plan: &Plan) -> bool {
    plan.placements
        .iter()
        .any(|placement| placement.actuation != Actuation::None && !placement.cpus.0.is_empty())
}

/// Whether two plans do the same: the same kinds share processors, and as many; which processors those are makes no difference, but a
/// change of them moves threads.
pub(super) fn same(a: &Plan, b: &Plan) -> bool {
    let shape = |plan: &Plan| -> Vec<_> {
        let mut sets: Vec<CpuSet> = Vec::new();
        let placed = plan.placements.iter().filter(|placement| !placement.cpus.0.is_empty());
        placed
            .map(|placement| {
                let set = sets.iter().position(|set| *set == placement.cpus).unwrap_or_else(|| {
                    sets.push(placement.cpus.clone());
                    sets.len() - 1
                });
                (placement.kind, set, placement.cpus.0.len(), placement.actuation as u8, placement.queue)
            })
            .collect()
    };
    shape(a) == shape(b)
}
