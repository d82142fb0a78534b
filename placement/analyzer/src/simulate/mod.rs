//! The simulator: a machine of any size under a workload, once for each policy. How decisions scale is answered here, since machines at
//! hand have few cores; that they help is proved elsewhere, by measuring.
//!
//! What is simulated: threads, run queues and a scheduler that prefers idle cores near by; caches, as sets of data that displace each
//! other by a measured table; siblings that share a core; what libsplit would measure of it, from which the analyzer's own scores and
//! policies decide. What is not: the cost of writing data that another core has (place.md, section 6a), frequencies, bandwidth of memory,
//! and waiting for anything but processors and threads.

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

use crate::model::{Class, Machine, Plan};
use crate::policy::Policy;
use engine::{Engine, Judge};

/// How long, and how often the analyzer looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    /// Before anything is placed: caches get warm, kinds get known.
    pub learn_seconds: f64,
    /// What is reported.
    pub seconds: f64,
    /// Between two looks of the analyzer.
    pub interval_seconds: f64,
    /// Of all chance.
    pub seed: u64,
}

impl Default for Length {
    fn default() -> Length {
        Length { learn_seconds: 0.5, seconds: 2.0, interval_seconds: 0.25, seed: 1 }
    }
}

/// A machine under a workload: with a policy, or with the kernel's scheduler alone.
pub fn simulate(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    policy: Option<&dyn Policy>,
    length: &Length,
) -> Outcome {
    run(scenario, machine, damage, policy, None, length)
}

/// The same with a plan that somebody else made, and that is never changed.
pub fn simulate_plan(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    plan: &Plan,
    length: &Length,
) -> Outcome {
    run(scenario, machine, damage, None, Some(plan), length)
}

fn run(
    scenario: &Scenario,
    machine: &Machine,
    damage: &Damage,
    policy: Option<&dyn Policy>,
    fixed: Option<&Plan>,
    length: &Length,
) -> Outcome {
    let mut engine = Engine::new(scenario, machine, damage, length.seed);
    let mut judge = Judge::new(machine, policy);
    let interval = length.interval_seconds.max(1e-3);
    let mut looks = 0.0;
    // The plan has an interval to settle before anything counts.
    let begin = length.learn_seconds + interval;
    let end = begin + length.seconds;
    let mut measuring = false;
    if let Some(plan) = fixed {
        engine.apply(plan);
        judge.plan = plan.clone();
    }
    loop {
        let next = (looks + 1.0) * interval;
        let until = if measuring { next.min(end) } else { next.min(begin) };
        engine.run_until(until);
        if !measuring && until >= begin {
            measuring = true;
            engine.tally.clear();
            judge.changes = 0;
        }
        if until >= end {
            break;
        }
        if until >= next {
            looks += 1.0;
            judge.look(&mut engine, until >= length.learn_seconds);
        }
    }
    let class = |kind| {
        judge.workload.kinds.iter().find(|one| one.kind == kind).map_or(Class::Unknown, |one| one.class)
    };
    let kinds = scenario.kinds.iter().map(|kind| (kind.label.clone(), kind.kind, class(kind.kind))).collect();
    let requests = scenario.requests.iter().map(|request| request.name.clone()).collect();
    let name = fixed.map_or(policy.map_or("default", |policy| policy.name()), |plan| plan.policy.as_str());
    let mut outcome =
        outcome::outcome(name, &mut engine.tally, length.seconds, machine.cpus.len(), kinds, requests);
    outcome.changes = judge.changes;
    outcome.remarks.clone_from(&judge.plan.remarks);
    for placement in judge.plan.placements.iter().filter(|one| !one.cpus.0.is_empty()) {
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
