//! Properties of plans, independent of their texts; and plans without some of their kinds. Pure.

use crate::model::{Actuation, CpuSet, KindRef, Placement, Plan};
use std::collections::{BTreeMap, BTreeSet};

/// True if a kind is placed at all.
fn is_placed(placement: &Placement) -> bool {
    placement.actuation != Actuation::None
        && (!placement.cpus.0.is_empty() || placement.slice_us != 0 || placement.admit)
}

/// True if the plan decides when requests run: it changes time slices, or limits how many run at once.
pub(super) fn orders_time(plan: &Plan) -> bool {
    let orders = |placement: &Placement| placement.slice_us != 0 || placement.admit;
    plan.placements.iter().any(|placement| is_placed(placement) && orders(placement))
}

/// True if the plan places anything.
pub(super) fn has_effect(plan: &Plan) -> bool {
    plan.placements.iter().any(is_placed)
}

/// The kinds that are placed.
pub(super) fn placed(plan: &Plan) -> impl Iterator<Item = KindRef> + '_ {
    plan.placements.iter().filter(|placement| is_placed(placement)).map(|placement| placement.kind)
}

/// True if the plan keeps any kinds apart: class queues of which one has lost all its kinds separate nothing.
/// A kind of which a limited number runs at once is apart from itself.
fn separates(plan: &Plan) -> bool {
    let placed = || plan.placements.iter().filter(|placement| is_placed(placement));
    let mut sets = placed().map(|one| (&one.cpus, one.slice_us, one.background));
    let first = sets.next();
    placed().any(|one| one.admit) || sets.any(|set| Some(set) != first)
}

/// The plan without these kinds, which then run anywhere, with the reason. If nothing would be kept apart
/// then, the kinds only make sense together: no kind is removed.
pub(super) fn without(plan: &Plan, off: &BTreeMap<KindRef, String>) -> Plan {
    if off.is_empty() {
        return plan.clone();
    }
    let mut rest = plan.clone();
    for placement in rest.placements.iter_mut().filter(|placement| is_placed(placement)) {
        if let Some(why) = off.get(&placement.kind) {
            placement.cpus = CpuSet::default();
            placement.actuation = Actuation::None;
            placement.queue = 0;
            placement.slice_us = 0;
            placement.background = false;
            placement.admit = false;
            placement.reason = format!("anywhere, by the guard: {why}");
        }
    }
    if separates(&rest) {
        rest
    } else {
        plan.clone()
    }
}

/// True if the plan without these kinds still places something; otherwise they are a rule only together with
/// the others.
pub(super) fn stands_without(plan: &Plan, kinds: &BTreeSet<KindRef>) -> bool {
    let off = kinds.iter().map(|kind| (*kind, String::new())).collect();
    !kinds.is_empty() && placed(&without(plan, &off)).all(|kind| !kinds.contains(&kind))
}

/// True if two plans have the same effect: the same kinds share processors, and the same number of them;
/// which processors these are makes no difference, but changing them moves threads.
pub(super) fn same(a: &Plan, b: &Plan) -> bool {
    let shape = |plan: &Plan| -> Vec<_> {
        let mut sets: Vec<CpuSet> = Vec::new();
        let placed = plan.placements.iter().filter(|placement| is_placed(placement));
        placed
            .map(|placement| {
                let set = sets.iter().position(|set| *set == placement.cpus).unwrap_or_else(|| {
                    sets.push(placement.cpus.clone());
                    sets.len() - 1
                });
                let time = (placement.slice_us, placement.background, placement.admit);
                let way = (placement.actuation as u8, placement.queue, time);
                (placement.kind, set, placement.cpus.0.len(), way)
            })
            .collect()
    };
    shape(a) == shape(b) && a.places == b.places
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{kind, placed as plan};
    use super::*;

    fn left(plan: &Plan, off: &[u32]) -> Vec<u32> {
        let off = off.iter().map(|&code| (kind(code), "worse".to_string())).collect();
        placed(&without(plan, &off)).map(|kind| kind.code.0).collect()
    }

    /// Kinds 1 and 2 on processor 0, kind 3 on 1: without 3 no kinds are kept apart, so 3 is not a rule of
    /// its own.
    #[test]
    fn what_is_left_has_to_keep_kinds_apart() {
        let three = plan(&[0, 0, 1]);
        assert_eq!(left(&three, &[1]), [2, 3]);
        assert_eq!(left(&three, &[1, 2]), [1, 2, 3]);
        assert_eq!(left(&three, &[3]), [1, 2, 3]);
        assert!(stands_without(&three, &[kind(2)].into()) && !stands_without(&three, &[kind(3)].into()));
        assert!(!stands_without(&three, &BTreeSet::new()));
        let off = without(&three, &[(kind(2), "worse".to_string())].into());
        assert_eq!(off.placements[1].reason, "anywhere, by the guard: worse");
        assert!(has_effect(&off) && off.placements[1].actuation == Actuation::None);
    }

    /// Requests of kinds 1 and 2 wait for places: each kind is a rule, but not the last one.
    #[test]
    fn a_kind_that_waits_for_places_is_a_rule_of_its_own() {
        let mut two = plan(&[0, 0]);
        for placement in &mut two.placements {
            placement.cpus = CpuSet::default();
            placement.actuation = Actuation::Time;
            placement.admit = true;
        }
        two.places = 1;
        assert!(has_effect(&two) && orders_time(&two));
        assert_eq!((left(&two, &[1]), left(&two, &[1, 2])), (vec![2], vec![1, 2]));
        assert!(stands_without(&two, &[kind(1)].into()));
        let more = Plan { places: 2, ..two.clone() };
        assert!(same(&two, &two) && !same(&two, &more));
    }

    #[test]
    fn two_queues_of_a_kind_each_are_one_rule() {
        let two = plan(&[0, 1]);
        assert!(!stands_without(&two, &[kind(1)].into()) && !stands_without(&two, &[kind(2)].into()));
        assert_eq!(left(&two, &[1]), [1, 2]);
    }
}
