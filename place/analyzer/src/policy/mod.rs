//! Policies: compute cores for kinds from the effects of the kinds. They are pure functions, so that the
//! simulator uses the same ones.
//!
//! | name | aim | how it is applied |
//! |---|---|---|
//! | observe | classes, and nothing else | not at all |
//! | paper | sections 2.4.1 to 2.4.3: dirty and clean cores, one core for each clean kind | affinity at each start, restored at each end |
//! | lazy | kinds that slow each other down on different cores, if that outweighs moves and imbalance | affinity when the thread is elsewhere |
//! | soft | kinds that slow each other down in different queues | servers that route requests; no thread moves, no core idles |
//! | time | short kinds before long ones on each core | time slices by predicted processor time; no thread moves |
//! | admit | a limited number of long requests at once | requests of long kinds wait for a place; time can do both |

mod apart;
mod cores;
mod grouping;
mod harm;
mod lazy;
mod observe;
mod paper;
mod soft;
#[cfg(test)]
mod testing;
mod time;
mod way;

pub use lazy::Lazy;
pub use observe::Observe;
pub use paper::Paper;
pub use soft::Soft;
pub use time::{Admission, Time, SLICE_MAX_US, SLICE_MIN_US};
pub use way::Policy;

/// All policies, in the order of the numbers in the segments' headers: new ones are appended.
pub const NAMES: [&str; 6] = ["observe", "paper", "lazy", "soft", "time", "admit"];
/// The policies that the simulator supports: it has processors and queues, but no time slices.
pub const SIMULATED: [&str; 4] = ["observe", "paper", "lazy", "soft"];

/// A policy by its name.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    match name {
        "observe" => Some(Box::new(Observe)),
        "paper" => Some(Box::new(Paper::default())),
        "lazy" => Some(Box::new(Lazy::default())),
        "soft" => Some(Box::new(Soft::default())),
        "time" => Some(Box::new(Time::default())),
        "admit" => Some(Box::new(Time::admit())),
        _ => None,
    }
}

/// A policy that limits how many long requests run at once; `None`: the policy of this name cannot.
pub fn with_admission(name: &str, admission: Admission) -> Option<Box<dyn Policy>> {
    match name {
        "time" => Some(Box::new(Time { admission, ..Time::default() })),
        "admit" => Some(Box::new(Time { admission, ..Time::admit() })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{machine, one_core, workload};
    use super::*;
    use crate::model::{Actuation, Class, Plan};

    #[test]
    fn every_name_is_a_policy_of_that_name() {
        for name in NAMES {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        assert!(by_name("fair").is_none());
        let with = |name| with_admission(name, Admission::Processors).map(|policy| policy.name());
        assert_eq!([with("time"), with("admit"), with("soft")], [Some("time"), Some("admit"), None]);
    }

    #[test]
    fn one_core_is_a_remark_and_no_placement() {
        let workload = workload(&[(1, 2, Class::Polluter, 500.0, 1000.0)]);
        for name in SIMULATED {
            let plan = by_name(name).unwrap().decide(&one_core(), &workload, &Plan::default());
            assert!(plan.placements.iter().all(|one| one.cpus.0.is_empty()), "{name}");
            assert_eq!(plan.placements[0].class, Class::Polluter);
            assert_eq!(plan.remarks, ["one core: nothing to place"], "{name}");
        }
    }

    #[test]
    fn observe_says_classes_and_places_nothing() {
        let workload =
            workload(&[(1, 2, Class::Polluter, 500.0, 1000.0), (1, 3, Class::Sensitive, 500.0, 1000.0)]);
        let plan = Observe.decide(&machine(4, 1), &workload, &Plan::default());
        assert_eq!(plan.placements.len(), 2);
        for placement in &plan.placements {
            assert_eq!((placement.actuation, placement.cpus.0.len()), (Actuation::None, 0));
        }
        assert_eq!(plan.placements[1].class, Class::Sensitive);
    }

    /// On any machine, policies name only its processors, and each kind once.
    #[test]
    fn plans_hold_on_machines_of_any_size() {
        let kinds: Vec<_> = (0..40_u32)
            .map(|i| {
                let class = [Class::Polluter, Class::Sensitive, Class::Neutral, Class::Short][i as usize % 4];
                (1 + i % 3, 2 + i, class, 100.0 + 50.0 * f64::from(i), 100.0)
            })
            .collect();
        let workload = workload(&kinds);
        for cpus in [2, 3, 4, 6, 8, 24, 128] {
            for smt in [1, 2] {
                if cpus % smt != 0 {
                    continue;
                }
                let machine = machine(cpus, smt);
                for name in NAMES {
                    let plan = by_name(name).unwrap().decide(&machine, &workload, &Plan::default());
                    let mut named: Vec<_> = plan.placements.iter().map(|one| one.kind).collect();
                    named.sort();
                    assert_eq!(named, workload.kinds.iter().map(|kind| kind.kind).collect::<Vec<_>>());
                    let known = |cpu: &crate::model::CpuId| machine.cpus.iter().any(|one| one.id == *cpu);
                    assert!(plan.placements.iter().all(|one| one.cpus.0.iter().all(known)), "{name} {cpus}");
                }
            }
        }
    }
}
