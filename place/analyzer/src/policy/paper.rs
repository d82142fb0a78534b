//! The paper's own policy (Ohno et al. 2010, sections 2.4.1 to 2.4.3), as exactly as its text says.
//!
//! 2.4.1  kinds with more misses than a threshold are dirty, the others clean; so are cores: dirty kinds
//! never run on clean cores.
//! 2.4.2  how many cores are dirty: by the ratio of the cycles of dirty and clean kinds. Dirty kinds: the
//! scheduler chooses among dirty
//!        cores. Clean kinds: one core each; an application's cores by the ratio of its cycles, related applications near.
//! 2.4.3  clean kinds, those with most cycles first: (1) the average is the cycles of all kinds by the number
//! of cores; (2) of the
//!        application's cores the one with fewest cycles, (3) if with the kind it has no more than the average; (4) else the core of a
//!        related kind, likewise; (5) else the core with fewest cycles of all.
//!
//! Choices where the text is open: step 5's "all cores" are all *clean* cores, since section 2.4.2 assigns
//! clean kinds to those only. Without a PMU, displacement replaces misses, except for kinds that are slower
//! after polluters: they find their data again where no polluter runs ("a kind of which cache efficiency can
//! be hoped for"), and would have few misses there. Cores are assigned as whole physical cores while there
//! are enough of them (section 4.5: both logical processors of a core run the same application).

use super::cores;
use super::way::{anywhere, cannot_place, nowhere, Policy};
use crate::model::{
    Actuation, AppId, Class, CpuId, CpuSet, KindProfile, KindRef, Machine, Placement, Plan, Workload,
};
use std::collections::BTreeMap;

/// Sections 2.4.1 to 2.4.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    /// A kind is dirty if it has more L2 misses a section than the lines of this share of L2, or displaces
    /// more if none are counted. The paper gives no number.
    pub threshold: f64,
}

impl Default for Paper {
    fn default() -> Paper {
        Paper { threshold: 0.4 }
    }
}

/// The cycles already assigned to a core.
struct Core {
    cpu: CpuId,
    cycles: f64,
}

impl Paper {
    fn dirty(&self, machine: &Machine, kind: &KindProfile) -> bool {
        if let Some(misses) = kind.misses {
            misses.mean > self.threshold * machine.l2_bytes as f64 / 64.0
        } else if let Some(displaced) = kind.displaced {
            let hopeful =
                kind.class == Class::Sensitive || kind.slowdown.is_some_and(|slower| slower.low > 0.1);
            displaced.mean > self.threshold && !(hopeful && displaced.mean < 0.95)
        } else {
            kind.class == Class::Polluter
        }
    }
}

impl Policy for Paper {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn decide(&self, machine: &Machine, workload: &Workload, _before: &Plan) -> Plan {
        if machine.cpus.len() < 2 {
            return nowhere(self.name(), workload, cannot_place(machine));
        }
        let mut plan = Plan { policy: self.name().into(), ..Plan::default() };
        let cycles = |kind: &KindProfile| kind.cycles.map_or(0.0, |cycles| cycles.mean * kind.count as f64);
        let mut clean = Vec::new();
        let mut dirty = Vec::new();
        for kind in &workload.kinds {
            if cycles(kind) <= 0.0 {
                plan.placements.push(anywhere(kind, "its cycles are not known".into()));
            } else if self.dirty(machine, kind) {
                dirty.push(kind);
            } else {
                clean.push(kind);
            }
        }
        let sum = |kinds: &[&KindProfile]| kinds.iter().map(|kind| cycles(kind)).sum::<f64>();
        let units = unit_size(machine, 2);
        let shares = cores::apportion(&[sum(&clean), sum(&dirty)], units.len());
        let (clean_units, dirty_units) = units.split_at(shares[0]);
        let dirty_cpus = CpuSet(dirty_units.iter().flatten().copied().collect());
        for kind in &dirty {
            plan.placements.push(Placement {
                kind: kind.kind,
                class: kind.class,
                cpus: dirty_cpus.clone(),
                actuation: Actuation::Paper,
                queue: 1,
                slice_us: 0,
                background: false,
                admit: false,
                reason: format!("dirty: any of the {} dirty cores", dirty_cpus.0.len()),
            });
        }
        let average = (sum(&clean) + sum(&dirty)) / machine.cpus.len() as f64;
        let areas = areas(workload, &clean, &cycles, clean_units);
        plan.placements.extend(assign(&clean, &cycles, average, &areas, clean_units));
        plan.placements.sort_by_key(|placement| placement.kind);
        plan
    }
}

/// Whole physical cores if there are at least `groups` of them, otherwise logical processors.
fn unit_size(machine: &Machine, groups: usize) -> Vec<Vec<CpuId>> {
    let physical = cores::physical(machine);
    if physical.len() >= groups {
        physical
    } else {
        physical.into_iter().flatten().map(|cpu| vec![cpu]).collect()
    }
}

/// The clean cores of each application: by the ratio of its clean kinds' cycles, with related applications
/// next to each other. With fewer units than applications, several share one.
fn areas(
    workload: &Workload,
    clean: &[&KindProfile],
    cycles: &dyn Fn(&KindProfile) -> f64,
    units: &[Vec<CpuId>],
) -> BTreeMap<AppId, Vec<CpuId>> {
    let mut weights: BTreeMap<AppId, f64> = BTreeMap::new();
    for kind in clean {
        *weights.entry(kind.kind.app).or_default() += cycles(kind);
    }
    let apps = chain(workload, weights.keys().copied().collect());
    let weight: Vec<f64> = apps.iter().map(|app| weights[app]).collect();
    let mut areas = BTreeMap::new();
    if units.is_empty() {
        return areas;
    }
    if apps.len() <= units.len() {
        let mut rest = units;
        for (app, share) in apps.iter().zip(cores::apportion(&weight, units.len())) {
            let (mine, others) = rest.split_at(share.min(rest.len()));
            areas.insert(*app, mine.iter().flatten().copied().collect());
            rest = others;
        }
    } else {
        let total: f64 = weight.iter().sum();
        let mut before = 0.0;
        for (app, weight) in apps.iter().zip(&weight) {
            let middle = (before + weight / 2.0) / total * units.len() as f64;
            areas.insert(*app, units[(middle as usize).min(units.len() - 1)].clone());
            before += weight;
        }
    }
    areas
}

/// Applications ordered so that each follows the one whose requests cause its requests.
fn chain(workload: &Workload, apps: Vec<AppId>) -> Vec<AppId> {
    let cause = |app: AppId| {
        let related = workload.apps.iter().find(|(id, _, _)| *id == app).and_then(|(_, _, related)| *related);
        related.filter(|related| apps.contains(related) && *related != app)
    };
    let mut order: Vec<AppId> = Vec::new();
    for &app in &apps {
        let at = match cause(app) {
            Some(cause) => order.iter().position(|one| *one == cause).map_or(order.len(), |at| at + 1),
            // The application that it causes may be in the list already.
            None => order.iter().position(|one| cause(*one) == Some(app)).unwrap_or(order.len()),
        };
        order.insert(at, app);
    }
    order
}

/// The five steps.
fn assign(
    clean: &[&KindProfile],
    cycles: &dyn Fn(&KindProfile) -> f64,
    average: f64,
    areas: &BTreeMap<AppId, Vec<CpuId>>,
    units: &[Vec<CpuId>],
) -> Vec<Placement> {
    let mut cores: Vec<Core> = units.iter().flatten().map(|&cpu| Core { cpu, cycles: 0.0 }).collect();
    let mut order: Vec<&KindProfile> = clean.to_vec();
    order.sort_by(|a, b| cycles(b).total_cmp(&cycles(a)).then(a.kind.cmp(&b.kind)));
    let mut homes: BTreeMap<KindRef, CpuId> = BTreeMap::new();
    let mut placements = Vec::new();
    for kind in order {
        let more = cycles(kind);
        let area = areas.get(&kind.kind.app).map_or(&[][..], Vec::as_slice);
        let fits = |core: &&Core| core.cycles + more <= average * (1.0 + 1e-9);
        let of_application = emptiest(cores.iter().filter(|core| area.contains(&core.cpu))).filter(fits);
        let related = || {
            let homes = &homes;
            let caused =
                clean.iter().filter(|other| other.related == Some(kind.kind)).map(|other| other.kind);
            let home = kind.related.into_iter().chain(caused).find_map(|other| homes.get(&other))?;
            cores.iter().find(|core| core.cpu == *home).filter(fits)
        };
        let (chosen, reason) = match of_application {
            Some(core) => (Some(core.cpu), "clean: the emptiest core of its application (step 3)"),
            None => match related() {
                Some(core) => (Some(core.cpu), "clean: the core of a related kind (step 4)"),
                None => {
                    (emptiest(cores.iter()).map(|core| core.cpu), "clean: the emptiest clean core (step 5)")
                }
            },
        };
        // There are no clean cores only if there are no clean kinds.
        let Some(cpu) = chosen else { continue };
        if let Some(core) = cores.iter_mut().find(|core| core.cpu == cpu) {
            core.cycles += more;
        }
        homes.insert(kind.kind, cpu);
        placements.push(Placement {
            kind: kind.kind,
            class: kind.class,
            cpus: CpuSet([cpu].into()),
            actuation: Actuation::Paper,
            queue: 0,
            slice_us: 0,
            background: false,
            admit: false,
            reason: reason.into(),
        });
    }
    placements
}

fn emptiest<'a>(cores: impl Iterator<Item = &'a Core>) -> Option<&'a Core> {
    cores.min_by(|a, b| a.cycles.total_cmp(&b.cycles))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{kind, machine, workload};
    use super::*;

    const CLEAN: Class = Class::Neutral;
    const DIRTY: Class = Class::Polluter;

    fn decided(machine: &Machine, workload: &Workload) -> BTreeMap<KindRef, (Vec<u32>, String)> {
        let plan = Paper::default().decide(machine, workload, &Plan::default());
        plan.placements
            .into_iter()
            .map(|one| (one.kind, (one.cpus.0.iter().map(|cpu| cpu.0).collect(), one.reason)))
            .collect()
    }

    fn cpus(decided: &BTreeMap<KindRef, (Vec<u32>, String)>, app: u32, code: u32) -> &[u32] {
        &decided[&kind(app, code)].0
    }

    /// 3 of 4 million cycles are dirty: 3 of 4 cores; both dirty kinds may use all of them and none of the clean one.
    #[test]
    fn dirty_and_clean_cores_by_the_ratio_of_cycles() {
        let workload = workload(&[
            (1, 2, CLEAN, 100.0, 10_000.0),
            (1, 3, DIRTY, 1000.0, 2_000.0),
            (1, 4, DIRTY, 500.0, 2_000.0),
        ]);
        let decided = decided(&machine(4, 1), &workload);
        assert_eq!(cpus(&decided, 1, 2), [0]);
        assert_eq!(cpus(&decided, 1, 3), [1, 2, 3]);
        assert_eq!(cpus(&decided, 1, 4), [1, 2, 3]);
    }

    /// Six clean kinds of one application, in ms: 90 60 50 40 30 30, together 300; three cores, average 100.
    /// 90 -> 0; 60 -> 1; 50 -> 2; 40 -> 2 (90); 30 -> 1 (90); 30: the emptiest (0, 90) would have 120 > 100, no related kind:
    /// step 5, the emptiest of all: 0.
    #[test]
    fn the_five_steps_by_hand() {
        let workload = workload(&[
            (1, 2, CLEAN, 90.0, 1000.0),
            (1, 3, CLEAN, 60.0, 1000.0),
            (1, 4, CLEAN, 50.0, 1000.0),
            (1, 5, CLEAN, 40.0, 1000.0),
            (1, 6, CLEAN, 30.0, 1000.0),
            (1, 7, CLEAN, 30.0, 1000.0),
        ]);
        let decided = decided(&machine(3, 1), &workload);
        let homes: Vec<u32> = (2..8).map(|code| cpus(&decided, 1, code)[0]).collect();
        assert_eq!(homes, [0, 1, 2, 2, 1, 0]);
        assert!(decided[&kind(1, 6)].1.contains("step 3"));
        assert!(decided[&kind(1, 7)].1.contains("step 5"));
    }

    /// Two applications of 80 and 70 ms on two cores: average 75, a core each. Web kinds in order: 60 -> core
    /// 0. DB: 40 -> core 1, then 30 -> core 1 (70). Web's 20: core 0 would have 80 > 75. It has no related
    /// kind: step 5 takes the emptiest, core 0 (60), even above the average. With a related kind on core 1
    /// (70), step 4 fails too (90 > 75).
    #[test]
    fn a_core_over_the_average_goes_by_step_5() {
        let mut workload = workload(&[
            (1, 2, CLEAN, 60.0, 1000.0),
            (1, 3, CLEAN, 20.0, 1000.0),
            (2, 2, CLEAN, 40.0, 1000.0),
            (2, 3, CLEAN, 30.0, 1000.0),
        ]);
        workload.kinds[1].related = Some(kind(2, 3));
        let decided = decided(&machine(2, 1), &workload);
        assert_eq!(cpus(&decided, 1, 2), [0]);
        assert_eq!(cpus(&decided, 2, 2), [1]);
        assert_eq!(cpus(&decided, 2, 3), [1]);
        assert_eq!(cpus(&decided, 1, 3), [0]);
        assert!(decided[&kind(1, 3)].1.contains("step 5"));
    }

    /// Web 120, DB 40; two cores, average 80; a core each. Web: 70 -> core 0; DB's 30 -> core 1; then web's 50: core 0 would have 120, its
    /// related kind's core 1 has 30 and would have 80: not above the average, step 4.
    #[test]
    fn a_related_kind_gives_shelter() {
        let mut workload = workload(&[
            (1, 2, CLEAN, 70.0, 1000.0),
            (1, 3, CLEAN, 50.0, 1000.0),
            (2, 2, CLEAN, 30.0, 1000.0),
            (2, 3, CLEAN, 10.0, 1000.0),
        ]);
        // In order of cycles 50 comes before 30: the related kind has to be there already, so it is made the heavier one.
        workload.kinds[2].count = 2000;
        workload.kinds[1].related = Some(kind(2, 2));
        // 70, 60 (2 x 30), 50, 10: 190, average 95. 70 -> 0; 60 -> 1; 50: 120 > 95 on 0, 110 > 95 on 1: step 5, core 1 has fewest.
        let first = decided(&machine(2, 1), &workload);
        assert_eq!((cpus(&first, 1, 3), first[&kind(1, 3)].1.contains("step 5")), (&[1][..], true));
        // 70, 60, 30 (its count less), 10: 170, average 85. 30 -> 0 would be 100; on 1 it would be 90 > 85. With 20: average 80, 90 on 0, 80 on 1.
        workload.kinds[1].count = 400;
        let second = decided(&machine(2, 1), &workload);
        assert_eq!(cpus(&second, 1, 3), [1]);
        assert!(second[&kind(1, 3)].1.contains("step 4"), "{}", second[&kind(1, 3)].1);
    }

    /// Three applications: the web (1) causes the requests of the database (3), no application those of the
    /// cache (2): web and database are neighbours.
    #[test]
    fn related_applications_are_near() {
        let mut workload = workload(&[
            (1, 2, CLEAN, 100.0, 1000.0),
            (2, 2, CLEAN, 100.0, 1000.0),
            (3, 2, CLEAN, 100.0, 1000.0),
        ]);
        workload.apps[2].2 = Some(AppId(1));
        let decided = decided(&machine(3, 1), &workload);
        assert_eq!([cpus(&decided, 1, 2), cpus(&decided, 3, 2), cpus(&decided, 2, 2)], [[0], [1], [2]]);
        let mut backwards = workload.clone();
        backwards.apps[2].2 = None;
        backwards.apps[0].2 = Some(AppId(3));
        assert_eq!(chain(&backwards, vec![AppId(1), AppId(2), AppId(3)]), [AppId(3), AppId(1), AppId(2)]);
    }

    /// The paper's machine: both logical processors of a core belong to the same application.
    #[test]
    fn siblings_run_the_same_application() {
        let workload = workload(&[
            (1, 2, CLEAN, 50.0, 1000.0),
            (1, 3, CLEAN, 50.0, 1000.0),
            (1, 4, CLEAN, 50.0, 1000.0),
            (1, 5, CLEAN, 50.0, 1000.0),
            (2, 2, CLEAN, 50.0, 1000.0),
            (2, 3, CLEAN, 50.0, 1000.0),
            (2, 4, CLEAN, 50.0, 1000.0),
            (2, 5, CLEAN, 50.0, 1000.0),
        ]);
        let decided = decided(&machine(8, 2), &workload);
        let of = |app: u32| {
            let mut cpus: Vec<u32> = (2..6).map(|code| cpus(&decided, app, code)[0]).collect();
            cpus.sort_unstable();
            cpus
        };
        assert_eq!(of(1), [0, 1, 4, 5]);
        assert_eq!(of(2), [2, 3, 6, 7]);
    }

    #[test]
    fn misses_decide_where_they_are_counted() {
        // 40 % of 2 MB are 13,107 lines.
        let mut workload = workload(&[(1, 2, CLEAN, 100.0, 1000.0), (1, 3, DIRTY, 100.0, 1000.0)]);
        workload.kinds[0].misses = Some(super::super::testing::exactly(14_000.0));
        workload.kinds[1].misses = Some(super::super::testing::exactly(13_000.0));
        let decided = decided(&machine(2, 1), &workload);
        assert!(decided[&kind(1, 2)].1.contains("dirty") && decided[&kind(1, 3)].1.contains("clean"));
    }
}
