//! Groups of kinds as class queues: requests are routed to cores, no thread moves, and no core is idle while
//! there is work. The default for servers that support routing.

use super::grouping::{Problem, Solution};
use super::way::{anywhere, cannot_place, nowhere, Policy};
use crate::model::{Actuation, Class, Machine, Placement, Plan, Workload};

/// Minimises the cost of kinds to each other; cores with idle time take work of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Soft {
    /// Groups are made if they save this share of the time that all kinds take: binding workers has a cost,
    /// and estimates are inexact ...
    pub worth: f64,
    /// ... and changed if the new ones cost this much less than the old ones would now.
    pub hysteresis: f64,
}

impl Default for Soft {
    fn default() -> Soft {
        Soft { worth: 0.02, hysteresis: 0.10 }
    }
}

impl Policy for Soft {
    fn name(&self) -> &'static str {
        "soft"
    }

    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan {
        if let Some(remark) = cannot_place(machine) {
            return nowhere(self.name(), workload, Some(remark));
        }
        // Includes short kinds: routing a request costs no migration, and a short one loses the same share of
        // its time.
        let in_force = if before.policy == self.name() { before.clone() } else { Plan::default() };
        let problem = Problem::new(machine, workload, &in_force, |_| true);
        let mixed = problem.mixed();
        let mut solution = problem.solve();
        let previous = problem.again(&in_force);
        let placed_before = previous.is_some();
        if let Some(previous) = previous {
            if previous.cost <= solution.cost * (1.0 + self.hysteresis) + 0.001 * problem.busy() {
                solution = previous;
            }
        }
        let saved = mixed - solution.cost;
        // Groups in force may save a little less than new ones must.
        let worth = if placed_before { 0.5 * self.worth } else { self.worth };
        if solution.groups.len() < 2 || saved < worth * problem.busy() {
            let remark = "no two kinds slow each other down enough for separate queues";
            return nowhere(self.name(), workload, Some(remark));
        }
        self.plan(workload, &problem, &solution, saved)
    }
}

impl Soft {
    fn plan(&self, workload: &Workload, problem: &Problem, solution: &Solution, saved: f64) -> Plan {
        let mut plan = Plan { policy: self.name().into(), ..Plan::default() };
        let micros = |cycles: f64| cycles / workload.cycles_per_second.max(1) as f64 * 1e6;
        for kind in &workload.kinds {
            let index = problem.candidates.iter().position(|one| one.profile.kind == kind.kind);
            let home = index.and_then(|i| {
                let q = solution.groups.iter().position(|group| group.kinds.contains(&i))?;
                Some((i, q))
            });
            let Some((i, q)) = home else {
                plan.placements.push(anywhere(
                    kind,
                    "neither slows others down nor is slowed down: runs anywhere".into(),
                ));
                continue;
            };
            let reason = match problem.worst_outside(&solution.groups, q, i) {
                Some((other, extra)) => {
                    let (from, more) = (&other.label, micros(extra));
                    format!("kept from {from} ({}): up to {more:.0} us each time they meet", other.kind)
                }
                None => "where it neither slows others down nor is slowed down".into(),
            };
            plan.placements.push(Placement {
                kind: kind.kind,
                class: kind.class,
                cpus: problem.cpus(&solution.groups[q]),
                actuation: Actuation::Soft,
                queue: q as u32,
                slice_us: 0,
                background: false,
                admit: false,
                reason,
            });
        }
        let percent = |share: f64| share * 100.0;
        plan.remarks.push(format!(
            "{} queues; expected to save {:.1} % of processor time",
            solution.groups.len(),
            percent(saved / problem.busy().max(1.0))
        ));
        if solution.overflow > 0.05 {
            let stolen = percent(solution.overflow);
            plan.remarks.push(format!(
                "{stolen:.0} % of the work does not fit on its own cores: others take it over"
            ));
        }
        let unknown = workload.kinds.iter().filter(|kind| kind.class == Class::Unknown).count();
        if unknown > 0 {
            plan.remarks.push(format!("{unknown} kinds are not measured well enough yet"));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{exactly, kind, machine, workload};
    use super::*;

    fn cpus(plan: &Plan, app: u32, code: u32) -> Vec<u32> {
        let placed = plan.placements.iter().find(|one| one.kind == kind(app, code)).unwrap();
        placed.cpus.0.iter().map(|cpu| cpu.0).collect()
    }

    /// Polluters of 400 us, half of all sections, and a kind that takes 400 us after itself and 788 after
    /// them, 594 on average: kept apart.
    #[test]
    fn polluters_are_kept_from_those_who_suffer() {
        let workload =
            workload(&[(1, 2, Class::Sensitive, 594.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        let plan = Soft::default().decide(&machine(2, 1), &workload, &Plan::default());
        assert_eq!((cpus(&plan, 1, 2), cpus(&plan, 1, 3)), (vec![0], vec![1]));
        assert_eq!(plan.placements[0].actuation, Actuation::Soft);
        assert!(plan.placements[0].reason.contains("388 us"), "{}", plan.placements[0].reason);
        // 2000 a second follow a polluter half of the time, and lose 400 us x 0.97: 388 of 1988 ms.
        assert!(plan.remarks[0].contains("19.5 %"), "{:?}", plan.remarks);
    }

    #[test]
    fn short_kinds_are_routed_too() {
        let workload =
            workload(&[(1, 2, Class::Short, 88.0, 6000.0), (1, 3, Class::Polluter, 260.0, 2000.0)]);
        let mut hurt = workload.clone();
        hurt.kinds[0].slowdown = Some(exactly(1.5));
        let plan = Soft::default().decide(&machine(2, 1), &hurt, &Plan::default());
        assert_eq!((cpus(&plan, 1, 2), cpus(&plan, 1, 3)), (vec![0], vec![1]));
        let unhurt = Soft::default().decide(&machine(2, 1), &workload, &Plan::default());
        assert!(unhurt.placements.iter().all(|one| one.cpus.0.is_empty()));
        assert!(unhurt.remarks[0].contains("no two kinds"));
    }

    /// Two clean kinds of 1.2 MB that do not fit into 2 MB together (mix K), two of 600 KB that do (mix N).
    #[test]
    fn clean_kinds_that_do_not_fit_together_go_apart() {
        let pair = |kilobytes: f64| {
            let mut workload =
                workload(&[(1, 2, Class::Sensitive, 430.0, 1000.0), (1, 3, Class::Sensitive, 430.0, 1000.0)]);
            for kind in &mut workload.kinds {
                kind.footprint_kb = Some(exactly(kilobytes));
            }
            Soft::default().decide(&machine(2, 1), &workload, &Plan::default())
        };
        let apart = pair(1200.0);
        assert_ne!(cpus(&apart, 1, 2), cpus(&apart, 1, 3));
        assert!(pair(600.0).placements.iter().all(|one| one.cpus.0.is_empty()));
    }

    #[test]
    fn measured_transitions_count_more_than_what_is_expected() {
        let mut workload =
            workload(&[(1, 2, Class::Sensitive, 594.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        let nothing = crate::model::Estimate { mean: 10.0, low: -50.0, high: 70.0, n: 500 };
        workload.transitions = vec![(kind(1, 3), kind(1, 2), nothing), (kind(1, 2), kind(1, 3), nothing)];
        let plan = Soft::default().decide(&machine(2, 1), &workload, &Plan::default());
        assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()), "{:?}", plan.remarks);
    }

    /// 80 % of the work is sensitive (400 us, and 388 more after one of five): on 2 cores 30 % of it is done
    /// on the polluters' core, and this is reported.
    #[test]
    fn imbalance_is_allowed_and_said() {
        let workload =
            workload(&[(1, 2, Class::Sensitive, 477.6, 4000.0), (1, 3, Class::Polluter, 400.0, 1000.0)]);
        let plan = Soft::default().decide(&machine(2, 1), &workload, &Plan::default());
        assert_eq!((cpus(&plan, 1, 2), cpus(&plan, 1, 3)), (vec![0], vec![1]));
        assert!(plan.remarks.iter().any(|remark| remark.starts_with("30 %")), "{:?}", plan.remarks);
    }

    #[test]
    fn what_is_in_force_stays_unless_much_is_won() {
        let make = |rate: f64| {
            workload(&[
                (1, 2, Class::Sensitive, 400.0, 2000.0),
                (1, 3, Class::Polluter, 400.0, 2000.0),
                (1, 4, Class::Sensitive, 300.0, rate),
                (1, 5, Class::Polluter, 300.0, rate),
            ])
        };
        let machine = machine(4, 1);
        let first = Soft::default().decide(&machine, &make(1000.0), &Plan::default());
        for rate in [900.0, 1100.0, 1200.0] {
            let next = Soft::default().decide(&machine, &make(rate), &first);
            for (a, b) in first.placements.iter().zip(&next.placements) {
                assert_eq!((&a.cpus, a.queue), (&b.cpus, b.queue), "{rate}");
            }
        }
        // A plan for another machine is not comparable.
        let other = Soft::default().decide(&super::super::testing::machine(8, 1), &make(1000.0), &first);
        let named: std::collections::BTreeSet<_> =
            other.placements.iter().flat_map(|one| one.cpus.0.iter()).collect();
        assert_eq!(named.len(), 8);
    }

    /// While separated, the two rarely follow each other: a few noisy values, which would not justify a
    /// start, do not end it.
    #[test]
    fn a_plan_does_not_take_away_its_own_reason() {
        let mixed =
            workload(&[(1, 2, Class::Sensitive, 594.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        let begun = Soft::default().decide(&machine(2, 1), &mixed, &Plan::default());
        let mut apart =
            workload(&[(1, 2, Class::Sensitive, 400.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        let doubtful = crate::model::Estimate { mean: 200_000.0, low: -100_000.0, high: 500_000.0, n: 9 };
        apart.transitions = vec![(kind(1, 3), kind(1, 2), doubtful)];
        let next = Soft::default().decide(&machine(2, 1), &apart, &begun);
        assert_eq!((cpus(&next, 1, 2), cpus(&next, 1, 3)), (vec![0], vec![1]), "{:?}", next.remarks);
        let fresh = Soft::default().decide(&machine(2, 1), &apart, &Plan::default());
        assert!(cpus(&fresh, 1, 2).is_empty());
        // When it is known that they have no effect on each other, it ends.
        let nothing = crate::model::Estimate { mean: 1_000.0, low: -2_000.0, high: 4_000.0, n: 900 };
        apart.transitions = vec![(kind(1, 3), kind(1, 2), nothing)];
        let last = Soft::default().decide(&machine(2, 1), &apart, &begun);
        assert!(cpus(&last, 1, 2).is_empty(), "{:?}", last.remarks);
    }

    /// No kind slows another down, but siblings of one core should run one application.
    #[test]
    fn siblings_run_the_same_application() {
        let workload =
            workload(&[(1, 2, Class::Neutral, 400.0, 2000.0), (2, 2, Class::Neutral, 400.0, 2000.0)]);
        let plan = Soft::default().decide(&machine(8, 2), &workload, &Plan::default());
        assert_eq!(cpus(&plan, 1, 2), [0, 1, 4, 5]);
        assert_eq!(cpus(&plan, 2, 2), [2, 3, 6, 7]);
        let alone = Soft::default().decide(&machine(4, 1), &workload, &Plan::default());
        assert!(alone.placements.iter().all(|one| one.cpus.0.is_empty()));
    }

    #[test]
    fn one_l2_for_all_is_said() {
        let mut machine = machine(4, 1);
        machine.cpus.iter_mut().for_each(|cpu| cpu.l2 = 0);
        let workload =
            workload(&[(1, 2, Class::Sensitive, 594.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        let plan = Soft::default().decide(&machine, &workload, &Plan::default());
        assert!(plan.remarks[0].contains("one L2"), "{:?}", plan.remarks);
    }
}
