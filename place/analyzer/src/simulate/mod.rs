//! The simulator: a machine of any size under a workload, once for each policy. It shows how decisions scale,
//! since available machines have few cores; that they help is proved by measurement instead.
//!
//! What is simulated: threads, run queues and a scheduler that prefers idle cores near by; caches, as sets of
//! data that displace each other by a measured table; siblings that share a core; libsplit's measurements, on
//! which the analyzer's own scores and policies decide. Not simulated: the cost of writing data that another
//! core has (docs/design/place.md, section 1), frequencies, memory bandwidth, and waits for anything except
//! processors and threads.

mod cache;
pub mod damage;
mod engine;
pub mod machine;
pub mod mixes;
pub mod outcome;
mod random;
pub mod replay;
pub mod report;
pub mod scenario;
mod tiers;
pub mod validate;

pub use damage::Damage;
pub use outcome::Outcome;
pub use scenario::Scenario;

use crate::guard::Guard;
use crate::model::{Class, Machine, Plan};
use crate::policy::Policy;
use engine::{Engine, Judge, HURRY};

/// The duration of a simulation, and the interval of the analyzer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// The time before anything is placed: fills the caches and measures the kinds.
    pub learn_seconds: f64,
    /// The reported time.
    pub seconds: f64,
    /// The time between two rounds of the analyzer.
    pub interval_seconds: f64,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Length {
    fn default() -> Length {
        Length { learn_seconds: 0.5, seconds: 2.0, interval_seconds: 0.25, seed: 1 }
    }
}

/// A machine under a workload, with a policy, or with the kernel's scheduler alone.
pub fn simulate(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    policy: Option<&dyn Policy>,
    length: &Length,
) -> Outcome {
    run(scenario, machine, damage, Judge::new(machine, policy, None), None, length)
}

/// The same with a policy under the guard, with shorter times. Its first trial ends before the counted time
/// begins, as in the bench: the result shows the effect of its decision and of later trials.
pub fn simulate_guarded(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    policy: &dyn Policy,
    length: &Length,
) -> Outcome {
    let guard = Guard::hurried(length.seed, true, HURRY);
    run(scenario, machine, damage, Judge::new(machine, Some(policy), Some(guard)), None, length)
}

/// The longest trial of the guard in simulated seconds: 20 pairs of two epochs of 110 ms, and as many that
/// could not be compared.
const TRIAL_SECONDS: f64 = 10.0;

/// The same as `simulate`, with a given plan that is never changed.
pub fn simulate_plan(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    plan: &Plan,
    length: &Length,
) -> Outcome {
    run(scenario, machine, damage, Judge::new(machine, None, None), Some(plan), length)
}

fn run(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    mut judge: Judge,
    fixed: Option<&Plan>,
    length: &Length,
) -> Outcome {
    let mut engine = Engine::new(scenario, machine, damage, length.seed);
    let interval = length.interval_seconds.max(1e-3);
    let mut looks = 0.0;
    // The plan has an interval to settle before the counted time; a guard has two rounds to see that the plan
    // stays the same, and its trial.
    let guarded = judge.is_guarded();
    let mut begin = length.learn_seconds + if guarded { 3.0 * interval } else { interval };
    let patience = begin + TRIAL_SECONDS;
    let mut end = begin + length.seconds;
    let mut measuring = false;
    if let Some(plan) = fixed {
        judge.fix(&mut engine, plan);
    }
    loop {
        let look = (looks + 1.0) * interval;
        let next = look.min(judge.guard_due());
        let until = if measuring { next.min(end) } else { next.min(begin) };
        engine.run_until(until);
        if !measuring && until >= begin {
            if judge.is_undecided() && begin < patience {
                begin += interval;
            } else {
                measuring = true;
                end = begin + length.seconds;
                engine.tally.clear();
                judge.changes = 0;
            }
        }
        if measuring && until >= end {
            break;
        }
        if until >= look {
            looks += 1.0;
            judge.look(&mut engine, until >= length.learn_seconds);
        }
        if until >= judge.guard_due() {
            judge.guard(&mut engine);
        }
    }
    let class = |kind| {
        judge.workload.kinds.iter().find(|one| one.kind == kind).map_or(Class::Unknown, |one| one.class)
    };
    let kinds = scenario.kinds.iter().map(|kind| (kind.label.clone(), kind.kind, class(kind.kind))).collect();
    let requests = scenario.requests.iter().map(|request| request.name.clone()).collect();
    let name = fixed.map_or(judge.policy_name(), |plan| plan.policy.as_str());
    let mut outcome =
        outcome::outcome(name, &mut engine.tally, length.seconds, machine.cpus.len(), kinds, requests);
    outcome.changes = judge.changes;
    outcome.remarks.clone_from(&judge.plan.remarks);
    outcome.guard = judge.found(&engine);
    for placement in judge.in_force().placements.iter().filter(|one| !one.cpus.0.is_empty()) {
        let label =
            scenario.kinds.iter().find(|kind| kind.kind == placement.kind).map(|kind| kind.label.as_str());
        let cpus: Vec<String> = placement.cpus.0.iter().map(ToString::to_string).collect();
        let label = label.unwrap_or_default();
        outcome.places.push(format!("{label}: queue {}, processors {}", placement.queue, cpus.join(" ")));
    }
    outcome
}

#[cfg(test)]
mod tests;
