//! The cost of one kind's section for the next one, in cycles: measured, or estimated from their properties.

use super::grouping::Candidate;
use crate::model::{Class, Estimate, KindProfile, KindRef, Machine, Plan};
use std::collections::BTreeMap;

/// The queue of a kind in a plan, if it has one.
fn queue(plan: &Plan, kind: KindRef) -> Option<u32> {
    let placed = plan.placements.iter().find(|one| one.kind == kind && !one.cpus.0.is_empty());
    placed.map(|placed| placed.queue)
}

/// The cycles of `j` after its own kind, to which its slowdown refers. Its mean also includes sections after
/// polluters, as often as these run on the same cores under the present plan.
pub fn base(machine: &Machine, candidates: &[Candidate], j: &Candidate, before: &Plan) -> f64 {
    let home = queue(before, j.profile.kind);
    let meets = |i: &&Candidate| match (home, queue(before, i.profile.kind)) {
        (Some(mine), Some(theirs)) => mine == theirs,
        _ => true,
    };
    let all: f64 = candidates.iter().filter(meets).map(|i| i.profile.rate).sum();
    let harmed: f64 = candidates
        .iter()
        .filter(meets)
        .filter(|i| i.profile.kind != j.profile.kind)
        .map(|i| i.profile.rate / all * harm(machine, i.profile, j.profile))
        .sum();
    let slowdown = j.profile.slowdown.map_or(0.0, |slowdown| slowdown.mean.max(0.0));
    j.cycles / (1.0 + slowdown * harmed)
}

/// The factor of a polluter's damage that `a` does to `b`: it displaces less, or both fit into the cache together.
fn harm(machine: &Machine, a: &KindProfile, b: &KindProfile) -> f64 {
    let displaces = match (a.displaced, a.class) {
        (Some(share), _) => share.mean.clamp(0.0, 1.0),
        (None, Class::Polluter) => 1.0,
        (None, _) => 0.0,
    };
    let fits = match (a.footprint_kb, b.footprint_kb) {
        (Some(a), Some(b)) => (a.mean + b.mean) * 1024.0 <= machine.l2_bytes as f64,
        _ => displaces < 0.25,
    };
    if fits {
        0.0
    } else {
        displaces
    }
}

/// The cycles that `j` takes longer after `i`: measured for the pair, or estimated from their properties.
pub fn damage(
    machine: &Machine,
    i: &Candidate,
    j: &Candidate,
    base: f64,
    before: &Plan,
    measured: &BTreeMap<(KindRef, KindRef), Estimate>,
) -> f64 {
    let (a, b) = (i.profile, j.profile);
    if a.kind == b.kind {
        return 0.0;
    }
    // A damage that does not differ significantly from zero counts as zero, otherwise noise would shape groups.
    // Kinds that are separated now rarely follow each other, so little is known: for them the mean is used,
    // otherwise each plan would remove its own reason.
    let apart =
        matches!((queue(before, a.kind), queue(before, b.kind)), (Some(one), Some(other)) if one != other);
    if let Some(extra) = measured.get(&(a.kind, b.kind)) {
        return if extra.low > 0.0 || apart { extra.mean.max(0.0) } else { 0.0 };
    }
    if let Some(slowdown) = b.slowdown {
        let known = slowdown.low > 0.0 || apart;
        return if known { slowdown.mean.max(0.0) * base * harm(machine, a, b) } else { 0.0 };
    }
    // There are no measurements of j after other kinds: two kinds that do not fit together are separated by
    // default, at half the cost of a load from L3 instead of L2 (docs/design/place.md, section 4, A: 281 us for 1
    // MB, at 2.7 GHz).
    match (a.footprint_kb, b.footprint_kb, b.displaced) {
        (Some(first), Some(second), Some(own)) if own.mean < 0.95 => {
            let over = (first.mean + second.mean) - machine.l2_bytes as f64 / 1024.0;
            over.clamp(0.0, second.mean) * 0.5 * 740.0
        }
        _ => 0.0,
    }
}
