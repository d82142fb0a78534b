//! Places kinds that slow each other down on different cores, by affinity, if the gain exceeds the cost. A
//! thread is moved when it begins a section whose kind belongs elsewhere, and stays there;
//! docs/design/place.md, section 1: a move costs 6.5 us, so no section below 150 us is moved.
//!
//! Affinity is strict: a group with more work than cores waits while other cores are idle. The whole server
//! is as slow as its busiest group (section 6c, E: -18 % to -27 %), and that is subtracted from the gain.

use super::grouping::{Problem, Solution};
use super::way::{anywhere, cannot_place, nowhere, Policy};
use crate::model::{Actuation, Class, KindProfile, KindRef, Machine, Placement, Plan, Workload};

/// Moves if the expected gain is more than the expected cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lazy {
    /// The cost of a move. Default: 6.5 us.
    pub migration_seconds: f64,
    /// Shorter sections are never moved.
    pub short_seconds: f64,
    /// To begin, the gain must be this multiple of the cost; to continue, it must equal the cost.
    pub margin: f64,
    /// The gain must also be this share of the time that the kinds take.
    pub worth: f64,
}

impl Default for Lazy {
    fn default() -> Lazy {
        Lazy { migration_seconds: 6.5e-6, short_seconds: 150e-6, margin: 1.5, worth: 0.02 }
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
        let in_force = if before.policy == self.name() { before.clone() } else { Plan::default() };
        let placed =
            |kind: KindRef| in_force.placements.iter().any(|one| one.kind == kind && !one.cpus.0.is_empty());
        let movable = |kind: &KindProfile| {
            // Placement made these sections shorter, which is no reason to stop.
            let (least, class) = if placed(kind.kind) {
                (0.5, kind.class != Class::Unknown)
            } else {
                (1.0, matches!(kind.class, Class::Polluter | Class::Sensitive))
            };
            class && kind.cycles.is_some_and(|cycles| cycles.mean >= least * self.short_seconds * hertz)
        };
        let problem = Problem::new(machine, workload, &in_force, movable);
        if problem.candidates.len() < 2 {
            let remark = "no two kinds of 150 us or more where one makes the other slower";
            return nowhere(self.name(), workload, Some(remark));
        }
        let previous = problem.again(&in_force);
        let goes_on = previous.is_some();
        let mut solution = problem.solve();
        if let Some(previous) = previous {
            if previous.cost <= solution.cost * 1.1 + 0.001 * problem.busy() {
                solution = previous;
            }
        }
        let gain = problem.mixed() - solution.cost;
        let moves = self.moves(&problem, &solution) * self.migration_seconds * hertz;
        // Counted only to the extent that cores are busy.
        let capacity = hertz * machine.cpus.len() as f64;
        let all: f64 =
            workload.kinds.iter().map(|kind| kind.cycles.map_or(0.0, |one| one.mean * kind.rate)).sum();
        let used = (all / capacity).min(1.0);
        let waits = ((1.0 + solution.bottleneck) * used - 1.0).max(0.0) * problem.busy();
        let margin = if goes_on { 1.0 } else { self.margin };
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
                slice_us: 0,
                background: false,
                admit: false,
                reason: kind.reason.clone(),
            });
        }
        plan.remarks.push(format!("pays: {sums}"));
        plan
    }
}

impl Lazy {
    /// The number of times a second that a thread begins a section of another group than its last one, if
    /// threads take requests in order.
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

    /// The gain is that of soft's test, 19.5 % of the time; moves: 4000 sections a second, half of which
    /// change sides, 6.5 us each: 13 of 1988 ms.
    #[test]
    fn balanced_and_long_pays() {
        let plan = decide(&[(1, 2, Class::Sensitive, 594.0, 2000.0), (1, 3, Class::Polluter, 400.0, 2000.0)]);
        assert_eq!((placed(&plan, 2), placed(&plan, 3)), (vec![0], vec![1]));
        assert_eq!(plan.placements[0].actuation, Actuation::Lazy);
        assert!(plan.remarks[0].contains("gain 19.5 %, moves 0.7 %, imbalance 0.0 %"), "{:?}", plan.remarks);
    }

    /// 80 % of the work is sensitive: its core has 60 % more work than the mean, and the machine is full: all
    /// requests take 60 % longer.
    #[test]
    fn imbalance_does_not_pay() {
        let plan = decide(&[(1, 2, Class::Sensitive, 477.6, 4000.0), (1, 3, Class::Polluter, 400.0, 1000.0)]);
        assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()));
        let said = &plan.remarks[0];
        assert!(said.starts_with("does not pay") && said.contains("imbalance 60.0 %"), "{said}");
    }

    /// On a machine that is half idle, the same imbalance makes no request wait.
    #[test]
    fn imbalance_is_no_loss_where_cores_are_idle() {
        let plan = decide(&[(1, 2, Class::Sensitive, 477.6, 1500.0), (1, 3, Class::Polluter, 400.0, 375.0)]);
        assert_eq!((placed(&plan, 2), placed(&plan, 3)), (vec![0], vec![1]));
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

    /// To begin, the gain must be one and a half times the cost, to continue, equal to it: a placement that
    /// is just too unbalanced to begin continues if it is in force. Its sections then take 400 us.
    #[test]
    fn what_is_placed_goes_on_with_less_than_it_began_with() {
        let mixed = |rate: f64| {
            let after = 400.0 * (1.0 + 0.97 * (4000.0 - rate) / 4000.0);
            workload(&[(1, 2, Class::Sensitive, after, rate), (1, 3, Class::Polluter, 400.0, 4000.0 - rate)])
        };
        let apart = |rate: f64| {
            workload(&[(1, 2, Class::Sensitive, 400.0, rate), (1, 3, Class::Polluter, 400.0, 4000.0 - rate)])
        };
        let (lazy, machine) = (Lazy::default(), machine(2, 1));
        let begun = lazy.decide(&machine, &mixed(2000.0), &Plan::default());
        assert!(!begun.placements[0].cpus.0.is_empty());
        let rates = (2000..4000).step_by(20).map(f64::from);
        let too_bad = rates.clone().find(|&rate| {
            lazy.decide(&machine, &mixed(rate), &Plan::default()).placements[0].cpus.0.is_empty()
        });
        let kept = lazy.decide(&machine, &apart(too_bad.unwrap()), &begun);
        assert!(!kept.placements[0].cpus.0.is_empty(), "{:?} at {too_bad:?}", kept.remarks);
        let ends = rates
            .clone()
            .find(|&rate| lazy.decide(&machine, &apart(rate), &begun).placements[0].cpus.0.is_empty());
        assert!(ends > too_bad, "{ends:?}");
    }
}
