//! Cores where a server routes requests, and time slices everywhere: soft's queues with time's slices.

use super::way::Policy;
use super::{Soft, Time};
use crate::model::{Actuation, Machine, Plan, Workload};

/// Soft and time together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Auto {
    /// For queues.
    pub soft: Soft,
    /// For slices.
    pub time: Time,
}

impl Policy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan {
        // Soft goes on with what it said itself only.
        let of_soft = Plan { policy: self.soft.name().into(), ..before.clone() };
        let mut plan = self.soft.decide(machine, workload, &of_soft);
        let slices = self.time.decide(machine, workload, before);
        for (placement, slice) in plan.placements.iter_mut().zip(slices.placements) {
            debug_assert_eq!(placement.kind, slice.kind);
            placement.slice_us = slice.slice_us;
            if placement.actuation == Actuation::None {
                (placement.actuation, placement.reason) = (slice.actuation, slice.reason);
            }
        }
        plan.policy = self.name().into();
        plan.remarks.extend(slices.remarks);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{exactly, machine, one_core, workload};
    use super::*;
    use crate::model::Class;

    /// Polluters of 900 us beside a short kind that takes two and a half times as long after them: queues and slices.
    #[test]
    fn a_kind_has_its_queue_and_its_slice() {
        let mut workload =
            workload(&[(1, 2, Class::Short, 88.0, 6000.0), (1, 3, Class::Polluter, 900.0, 1000.0)]);
        workload.kinds[0].slowdown = Some(exactly(1.5));
        let plan = Auto::default().decide(&machine(2, 1), &workload, &Plan::default());
        assert_eq!(plan.policy, "auto");
        let [first, second] = &plan.placements[..] else { panic!("{plan:?}") };
        assert_eq!((first.actuation, first.slice_us), (Actuation::Soft, 100));
        assert_eq!((second.actuation, second.slice_us), (Actuation::Soft, 1600));
        assert_ne!(first.cpus, second.cpus);
    }

    #[test]
    fn on_one_core_there_are_slices_alone() {
        let workload =
            workload(&[(1, 2, Class::Short, 60.0, 300.0), (1, 3, Class::Polluter, 80_000.0, 10.0)]);
        let plan = Auto::default().decide(&one_core(), &workload, &Plan::default());
        assert!(plan.placements.iter().all(|one| one.actuation == Actuation::Time && one.cpus.0.is_empty()));
    }
}
