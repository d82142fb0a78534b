//! The interface of policies, and messages that several of them use.

use super::cores;
use crate::model::{Actuation, CpuSet, KindProfile, Machine, Placement, Plan, Workload};

/// A policy.
pub trait Policy: Send + Sync {
    /// Its name for `--policy`.
    fn name(&self) -> &'static str;

    /// Where each kind must run. `before`: the last plan, for policies that avoid moves.
    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan;
}

/// A kind that runs anywhere.
pub(super) fn anywhere(kind: &KindProfile, reason: String) -> Placement {
    Placement {
        kind: kind.kind,
        class: kind.class,
        cpus: CpuSet::default(),
        actuation: Actuation::None,
        queue: 0,
        slice_us: 0,
        background: false,
        admit: false,
        reason,
    }
}

/// All kinds anywhere, with the data of each.
pub(super) fn nowhere(policy: &str, workload: &Workload, remark: Option<&str>) -> Plan {
    Plan {
        policy: policy.into(),
        placements: workload.kinds.iter().map(|kind| anywhere(kind, kind.reason.clone())).collect(),
        places: 0,
        remarks: remark.iter().map(|remark| (*remark).to_string()).collect(),
    }
}

/// The reason why nothing can be placed on such a machine, if any.
pub(super) fn cannot_place(machine: &Machine) -> Option<&'static str> {
    match cores::units(machine).len() {
        0 => Some("no processors are known: nothing to place"),
        _ if machine.cpus.len() == 1 => Some("one core: nothing to place"),
        1 => Some(
            "one L2 cache for all cores: wherever a section runs, it meets the same cache; nothing to place",
        ),
        _ => None,
    }
}
