//! Kinds that hurt each other on different cores, by affinity: only where that pays for itself. Threads are moved when a section
//! begins whose kind belongs elsewhere, and stay there; place.md, section 6a: a move costs 6.5 us, so nothing below 150 us is moved.
//!
//! Affinity is hard: a group with more work than cores waits while other cores idle. What does not fit is therefore a loss, in full
//! (section 6c, E: -18 % to -27 %), and counts against the gain.

use super::grouping::{Problem, Solution};
use super::{anywhere, cannot_place, nowhere, Policy};
use crate::model::{Actuation, Class, KindProfile, Machine, Placement, Plan, Workload};

/// Moves if the expected gain is more than the expected cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lazy {
    /// Of a move. Default: 6.5 us.
    pub migration_seconds: f64,
    /// Shorter sections are never moved.
    pub short_seconds: f64,
    /// To begin, the gain must be so many times the cost; to go on, as much.
    pub margin: f64,
    /// And be this share of the time that the kinds take.
    pub worth: f64,
}

impl Default for Lazy {
    fn default() -> Lazy {
        Lazy { migration_seconds: 6.5e-6, short_seconds: 150e-6, margin: 1.5, worth: 0.01 }
    }
}

impl Policy for Lazy {
    fn name(&self) -> &'static str {
        "lazy"
    }

    fn decide(&self, machine: &Machine, workload: &Workload, before: &Plan) -> Plan {
        if let Some(remark) = cannot_place(machine) {
            return nowhere(self.name(), workload, Some(remark));
        }
        let hertz = workload.cycles_per_second.max(1) as f64;
        let movable = |kind: &KindProfile| {
            let long = kind.cycles.is_some_and(|cycles| cycles.mean >= self.short_seconds * hertz);
            long && matches!(kind.class, Class::Polluter | Class::Sensitive)
        };
        let problem = Problem::new(machine, workload, movable);
        if problem.candidates.len() < 2 {
            let remark = "no two kinds of 150 us or more of which one makes the other slower";
            return nowhere(self.name(), workload, Some(remark));
        }
        let previous = if before.policy == self.name() { problem.again(before) } else { None };
        let in_force = previous.is_some();
        let mut solution = problem.solve();
        if let Some(previous) = previous {
            if previous.cost <= solution.cost * 1.1 + 0.001 * problem.busy() {
                solution = previous;
            }
        }
        let gain = problem.mixed() - solution.cost;
        let moves = self.moves(&problem, &solution) * self.migration_seconds * hertz;
        // Work for which a group has no core waits. It is lost only as far as cores are busy at all.
        let capacity = hertz * machine.cpus.len() as f64;
        let all: f64 =
            workload.kinds.iter().map(|kind| kind.cycles.map_or(0.0, |one| one.mean * kind.rate)).sum();
        let waits = solution.overflow * problem.busy() * (all / capacity).min(1.0);
        let margin = if in_force { 1.0 } else { self.margin };
        let percent = |cycles: f64| cycles / problem.busy().max(1.0) * 100.0;
        let sums = format!(
            "gain {:.1} %, moves {:.1} %, imbalance {:.1} % of their time",
            percent(gain),
            percent(moves),
            percent(waits)
        );
        if solution.groups.len() < 2 || gain < margin * (moves + waits) || gain < self.worth * problem.busy()
        {
            return nowhere(self.name(), workload, Some(&format!("does not pay: {sums}")));
        }
        let mut plan = Plan { policy: self.name().into(), ..Plan::default() };
        for kind in &workload.kinds {
            let index = problem.candidates.iter().position(|one| one.profile.kind == kind.kind);
            let group = index.and_then(|i| solution.groups.iter().position(|group| group.kinds.contains(&i)));
            let Some(q) = group else {
                plan.placements.push(anywhere(kind, kind.reason.clone()));
                continue;
            };
            plan.placements.push(Placement {
                kind: kind.kind,
                class: kind.class,
                cpus: problem.cpus(&solution.groups[q]),
                actuation: Actuation::Lazy,
                queue: q as u32,
                reason: kind.reason.clone(),
            });
        }
        plan.remarks.push(format!("pays: {sums}"));
        plan
    }
}

impl Lazy {
    /// How often a second a thread begins a section of another group than its last one, if threads take whatever comes.
    fn moves(&self, problem: &Problem, solution: &Solution) -> f64 {
        let rate = |i: &usize| problem.candidates[*i].profile.rate;
        let rates: Vec<f64> =
            solution.groups.iter().map(|group| group.kinds.iter().map(rate).sum()).collect();
        let all: f64 = rates.iter().sum();
        rates.iter().map(|rate| rate * (1.0 - rate / all.max(1e-9))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, machine, workload};
    use super::*;

    fn decide(kinds: &[(u32, u32, Class, f64, f64)]) -> Plan {
        Lazy::default().decide(&machine(2, 1), &workload(kinds), &Plan::default())
    }

    fn placed(plan: &Plan, code: u32) -> Vec<u32> {
        let one = plan.placements.iter().find(|one| one.kind == kind(1, code)).unwrap();
        one.cpus.0.iter().map(|cpu| cpu.0).collect()
    }

    /// Gain as in soft's test 24.2 % of their time; moves: 4000 sections a second, half of which change sides, 6.5 us each: 13 of 1600 ms.
    #[test]
    fn balanced_and_long_pays() {
        let plan = decide(&[(1, 2, Class::Sensitive, 400.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        assert_eq!((placed(&plan, 2), placed(&plan, 3)), (vec![0], vec![1]));
        assert_eq!(plan.placements[0].actuation, Actuation::Lazy);
        assert!(plan.remarks[0].contains("gain 24.2 %, moves 0.8 %, imbalance 0.0 %"), "{:?}", plan.remarks);
    }

    /// 80 % sensitive: 30 % of the work does not fit on its core. The machine is full (2000 ms a second), so all of that is lost.
    #[test]
    fn imbalance_does_not_pay() {
        let plan = decide(&[(1, 2, Class::Sensitive, 400.0, 4000.0), (1, 3, Class::Polluter, 400.0, 1000.0)]);
        assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()));
        assert!(plan.remarks[0].starts_with("does not pay") && plan.remarks[0].contains("imbalance 30.0 %"));
    }

    #[test]
    fn nothing_short_is_ever_moved() {
        let plan = decide(&[
            (1, 2, Class::Sensitive, 140.0, 6000.0),
            (1, 3, Class::Polluter, 400.0, 2000.0),
            (1, 4, Class::Short, 20.0, 2000.0),
        ]);
        assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()));
    }

    #[test]
    fn what_is_placed_goes_on_with_less_than_it_began_with() {
        // Beginning needs half as much again as it costs; going on needs as much.
        let at = |rate: f64| {
            workload(&[(1, 2, Class::Sensitive, 400.0, rate), (1, 3, Class::Polluter, 400.0, 5000.0 - rate)])
        };
        let lazy = Lazy::default();
        let machine = machine(2, 1);
        let begun = lazy.decide(&machine, &at(2500.0), &Plan::default());
        assert!(!begun.placements[0].cpus.0.is_empty());
        let lean = (2500..4000).step_by(25).map(f64::from).find(|&rate| {
            let fresh = lazy.decide(&machine, &at(rate), &Plan::default());
            fresh.placements[0].cpus.0.is_empty()
        });
        let kept = lazy.decide(&machine, &at(lean.unwrap()), &begun);
        assert!(!kept.placements[0].cpus.0.is_empty(), "{:?} at {lean:?}", kept.remarks);
    }
}
