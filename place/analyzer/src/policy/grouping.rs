//! Decides which kinds share cores: minimises, over the cores, the sum over pairs of kinds of how often one
//! follows the other times the cost of that.
//!
//! On a core whose sections are drawn from kinds with rates r, a section of kind j follows one of kind i r_j
//! x r_i / sum(r) times a second; each time it takes d(i,j) cycles longer. Kinds on different cores never
//! follow each other, but cores are whole units: if a group has more work than cores, other cores do the rest
//! (soft stealing), where it mixes with their kinds. So imbalance is allowed and included in the cost.

use super::cores;
use super::harm::{base, damage};
use crate::model::{CpuId, CpuSet, Estimate, KindProfile, KindRef, Machine, Plan, Workload};
use std::collections::BTreeMap;

/// The number of kinds considered, those with the most time: the rest has too little effect.
const CANDIDATES: usize = 48;
/// The maximum number of queues: more are impractical to operate.
const GROUPS: usize = 16;
/// The share of time that two applications on one core with two threads lose to each other. Small against the
/// paper's loss (+60 %, table 9), large enough to keep siblings within one application if nothing else matters.
const SIBLINGS: f64 = 0.15;
/// The cost of work done by another group's cores, as a share of its time: code is fetched again, if nothing else.
const STOLEN: f64 = 0.02;

/// Kinds that cost each other less than this share of all time are not placed.
const ROAMING: f64 = 0.003;

/// A kind, with the data that the objective needs.
pub struct Candidate<'a> {
    pub profile: &'a KindProfile,
    /// Cycles of a section that finds its data in the cache.
    pub cycles: f64,
}

/// Kinds of one group, and the units of the machine assigned to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Indices into the candidates, ascending.
    pub kinds: Vec<usize>,
    pub units: Vec<usize>,
}

/// The data about the candidates on this machine.
pub struct Problem<'a> {
    pub candidates: Vec<Candidate<'a>>,
    /// `damage[i][j]`: the cycles that j takes longer after i.
    damage: Vec<Vec<f64>>,
    units: Vec<Vec<CpuId>>,
    siblings: bool,
    /// Cycles a second of all candidates.
    busy: f64,
}

/// Groups, and their cost.
#[derive(Clone, Debug)]
pub struct Solution {
    pub groups: Vec<Group>,
    /// Cycles per second that sections take longer, including the cost of imbalance.
    pub cost: f64,
    /// The share of the time that does not fit on the group's own cores.
    pub overflow: f64,
    /// The excess load of the busiest group's cores if no other core takes it over: 0.3 is 30 % more than its
    /// share.
    pub bottleneck: f64,
}

impl<'a> Problem<'a> {
    /// The problem of the kinds that `wanted` accepts.
    pub fn new(
        machine: &Machine,
        workload: &'a Workload,
        before: &Plan,
        wanted: impl Fn(&KindProfile) -> bool,
    ) -> Problem<'a> {
        let mut candidates: Vec<Candidate> = workload
            .kinds
            .iter()
            .filter(|kind| kind.rate > 0.0 && wanted(kind))
            .filter_map(|profile| {
                let cycles = profile.cycles?.mean;
                (cycles > 0.0).then_some(Candidate { profile, cycles })
            })
            .collect();
        let time = |one: &Candidate| one.cycles * one.profile.rate;
        candidates.sort_by(|a, b| time(b).total_cmp(&time(a)).then(a.profile.kind.cmp(&b.profile.kind)));
        candidates.truncate(CANDIDATES);
        let measured: BTreeMap<(KindRef, KindRef), Estimate> =
            workload.transitions.iter().map(|(a, b, extra)| ((*a, *b), *extra)).collect();
        let bases: Vec<f64> = candidates.iter().map(|j| base(machine, &candidates, j, before)).collect();
        let damage = candidates
            .iter()
            .map(|i| {
                let each = candidates.iter().zip(&bases);
                each.map(|(j, &base)| damage(machine, i, j, base, before, &measured)).collect()
            })
            .collect();
        let units = cores::units(machine);
        let busy = candidates.iter().map(time).sum();
        let siblings = units.iter().any(|unit| unit.len() > 1);
        let mut problem = Problem { candidates, damage, units, siblings, busy };
        problem.let_roam();
        problem.less_what_is_lost_now(before);
        problem
    }

    /// The measured times include losses under the present placement; loads are computed without them.
    fn less_what_is_lost_now(&mut self, before: &Plan) {
        let all: Vec<usize> = (0..self.candidates.len()).collect();
        let now = match self.again(before) {
            Some(solution) => solution.groups.into_iter().map(|group| group.kinds).collect(),
            None => vec![all],
        };
        for kinds in now {
            let rates: Vec<f64> = kinds.iter().map(|&i| self.candidates[i].profile.rate).collect();
            let sum: f64 = rates.iter().sum();
            for &j in &kinds {
                let lost: f64 =
                    kinds.iter().zip(&rates).map(|(&i, rate)| rate / sum * self.damage[i][j]).sum();
                let cycles = self.candidates[j].cycles;
                // Estimates of damage may exceed the measured time.
                self.candidates[j].cycles = (cycles - lost).max(0.2 * cycles);
            }
        }
    }

    /// Excludes kinds without effect on each other: they may run on all cores, which is best for all. On
    /// cores with siblings every kind is placed, with those of its application.
    fn let_roam(&mut self) {
        if self.siblings {
            return;
        }
        let all: f64 = self.candidates.iter().map(|one| one.profile.rate).sum();
        let rate = |i: usize| self.candidates[i].profile.rate;
        let matters: Vec<bool> = (0..self.candidates.len())
            .map(|i| {
                let met = |j: usize| rate(i) * rate(j) / all * (self.damage[i][j] + self.damage[j][i]);
                (0..self.candidates.len()).map(met).sum::<f64>() > ROAMING * self.busy
            })
            .collect();
        let mut keep = matters.iter().copied();
        self.candidates.retain(|_| keep.next().unwrap_or(false));
        let of = |row: Vec<f64>| {
            row.into_iter().zip(&matters).filter(|(_, keep)| **keep).map(|(one, _)| one).collect()
        };
        let rows = std::mem::take(&mut self.damage);
        self.damage =
            rows.into_iter().zip(&matters).filter(|(_, keep)| **keep).map(|(row, _)| of(row)).collect();
    }

    /// Cycles a second of all candidates.
    pub fn busy(&self) -> f64 {
        self.busy
    }

    fn time(&self, i: usize) -> f64 {
        self.candidates[i].cycles * self.candidates[i].profile.rate
    }

    fn load(&self, kinds: &[usize]) -> f64 {
        kinds.iter().map(|&i| self.time(i)).sum()
    }

    /// The cost of kinds to each other on cores that run them at these rates.
    fn met(&self, rates: &[(usize, f64)]) -> f64 {
        let all: f64 = rates.iter().map(|(_, rate)| rate).sum();
        let time: f64 = rates.iter().map(|&(i, rate)| rate * self.candidates[i].cycles).sum();
        if all <= 0.0 {
            return 0.0;
        }
        let mut cost = 0.0;
        for &(j, rate) in rates {
            let app = self.candidates[j].profile.kind.app;
            for &(i, before) in rates {
                if i == j {
                    continue;
                }
                cost += rate * before / all * self.damage[i][j];
                if self.siblings && self.candidates[i].profile.kind.app != app {
                    let beside = before * self.candidates[i].cycles / time;
                    cost += rate * self.candidates[j].cycles * beside * SIBLINGS;
                }
            }
        }
        cost
    }

    /// All kinds on all cores: the result of a scheduler without this knowledge.
    pub fn mixed(&self) -> f64 {
        let rates: Vec<_> =
            (0..self.candidates.len()).map(|i| (i, self.candidates[i].profile.rate)).collect();
        self.met(&rates)
    }

    /// With soft stealing, the excess of one group is done by the cores of others in proportion to their idle time.
    fn evaluate(&self, groups: Vec<Group>) -> Solution {
        let units = self.units.len() as f64;
        let whole: f64 = groups.iter().map(|group| self.load(&group.kinds)).sum();
        let share = |group: &Group| self.load(&group.kinds) / whole.max(1.0);
        let bottleneck = groups
            .iter()
            .map(|group| share(group) * units / (group.units.len() as f64).max(1e-9) - 1.0)
            .fold(0.0, f64::max);
        let over: Vec<f64> =
            groups.iter().map(|group| (share(group) - group.units.len() as f64 / units).max(0.0)).collect();
        let idle: Vec<f64> =
            groups.iter().map(|group| (group.units.len() as f64 / units - share(group)).max(0.0)).collect();
        let (overflow, idleness): (f64, f64) = (over.iter().sum(), idle.iter().sum());
        let mut cost = overflow * self.busy * STOLEN;
        for (q, group) in groups.iter().enumerate() {
            let mut rates = Vec::new();
            let kept = if share(group) > 0.0 { 1.0 - over[q] / share(group) } else { 1.0 };
            for &i in &group.kinds {
                rates.push((i, self.candidates[i].profile.rate * kept));
            }
            if idle[q] > 0.0 && overflow > 0.0 {
                for (other, from) in groups.iter().enumerate().filter(|(other, _)| over[*other] > 0.0) {
                    let stolen = over[other] / share(from) * idle[q] / idleness;
                    for &i in &from.kinds {
                        rates.push((i, self.candidates[i].profile.rate * stolen));
                    }
                }
            }
            cost += self.met(&rates);
        }
        Solution { groups, cost, overflow, bottleneck }
    }

    /// Assigns units to groups by their load; groups of related applications are adjacent, those that replace most
    /// last.
    fn with_units(&self, mut clusters: Vec<Vec<usize>>) -> Solution {
        for cluster in &mut clusters {
            cluster.sort_unstable();
        }
        let displaced = |cluster: &Vec<usize>| {
            let weighted: f64 = cluster
                .iter()
                .map(|&i| self.time(i) * self.candidates[i].profile.displaced.map_or(0.0, |share| share.mean))
                .sum();
            weighted / self.load(cluster).max(1.0)
        };
        let app = |cluster: &Vec<usize>| {
            cluster
                .iter()
                .max_by(|&&a, &&b| self.time(a).total_cmp(&self.time(b)))
                .map(|&i| self.candidates[i].profile.kind.app)
        };
        clusters
            .sort_by(|a, b| displaced(a).total_cmp(&displaced(b)).then(app(a).cmp(&app(b))).then(a.cmp(b)));
        let loads: Vec<f64> = clusters.iter().map(|cluster| self.load(cluster)).collect();
        let mut next = 0;
        let groups: Vec<Group> = clusters
            .into_iter()
            .zip(cores::apportion(&loads, self.units.len()))
            .map(|(kinds, count)| {
                let units = (next..next + count).collect();
                next += count;
                Group { kinds, units }
            })
            .collect();
        self.evaluate(groups)
    }

    /// Merges from single kinds up, then moves kinds one by one; the number of groups is at most the number of
    /// units.
    pub fn solve(&self) -> Solution {
        let most = self.units.len().min(GROUPS);
        let mut clusters: Vec<Vec<usize>> = (0..self.candidates.len()).map(|i| vec![i]).collect();
        let mut best: Option<Solution> = None;
        loop {
            if clusters.len() <= most {
                let solution = self.with_units(clusters.clone());
                // Among equal costs fewer groups are preferred: `<` would keep more.
                if best.as_ref().is_none_or(|best| solution.cost <= best.cost * (1.0 + 1e-9)) {
                    best = Some(solution);
                }
            }
            let Some((a, b)) = self.cheapest_merge(&clusters) else { break };
            let merged = clusters.remove(b);
            clusters[a].extend(merged);
        }
        let mut best =
            best.unwrap_or(Solution { groups: Vec::new(), cost: 0.0, overflow: 0.0, bottleneck: 0.0 });
        for _ in 0..3 {
            if !self.improve(&mut best) {
                break;
            }
        }
        best
    }

    fn cheapest_merge(&self, clusters: &[Vec<usize>]) -> Option<(usize, usize)> {
        let rates = |kinds: &[usize]| -> Vec<(usize, f64)> {
            kinds.iter().map(|&i| (i, self.candidates[i].profile.rate)).collect()
        };
        let alone: Vec<f64> = clusters.iter().map(|kinds| self.met(&rates(kinds))).collect();
        let mut best: Option<((usize, usize), f64)> = None;
        for a in 0..clusters.len() {
            for b in a + 1..clusters.len() {
                let both: Vec<usize> = clusters[a].iter().chain(&clusters[b]).copied().collect();
                let more = self.met(&rates(&both)) - alone[a] - alone[b];
                // Among merges of equal cost, small ones first, so that groups stay similar in size.
                let key = more + 1e-12 * self.load(&both);
                if best.is_none_or(|(_, least)| key < least) {
                    best = Some(((a, b), key));
                }
            }
        }
        best.map(|(pair, _)| pair)
    }

    fn improve(&self, best: &mut Solution) -> bool {
        let mut improved = false;
        for i in 0..self.candidates.len() {
            for to in 0..best.groups.len() {
                let from = best.groups.iter().position(|group| group.kinds.contains(&i));
                let Some(from) = from.filter(|&from| from != to && best.groups[from].kinds.len() > 1) else {
                    continue;
                };
                let mut clusters: Vec<Vec<usize>> =
                    best.groups.iter().map(|group| group.kinds.clone()).collect();
                clusters[from].retain(|&kind| kind != i);
                clusters[to].push(i);
                let other = self.with_units(clusters);
                if other.cost < best.cost * (1.0 - 1e-6) {
                    *best = other;
                    improved = true;
                }
            }
        }
        improved
    }

    /// The present cost of an earlier plan's groups. New kinds join the group in which they cost least. `None` if
    /// its processors are not those of this machine.
    pub fn again(&self, before: &Plan) -> Option<Solution> {
        let mut groups: BTreeMap<u32, (CpuSet, Vec<usize>)> = BTreeMap::new();
        let mut strangers = Vec::new();
        for (i, candidate) in self.candidates.iter().enumerate() {
            let placed = before.placements.iter().find(|one| one.kind == candidate.profile.kind);
            match placed.filter(|one| !one.cpus.0.is_empty()) {
                Some(placed) => {
                    let group = groups.entry(placed.queue).or_insert((placed.cpus.clone(), Vec::new()));
                    group.1.push(i);
                }
                None => strangers.push(i),
            }
        }
        if groups.len() < 2 {
            return None;
        }
        let mut solution: Vec<Group> = Vec::new();
        for (cpus, kinds) in groups.into_values() {
            let has = |unit: &Vec<CpuId>| unit.iter().all(|cpu| cpus.0.contains(cpu));
            let units: Vec<usize> = (0..self.units.len()).filter(|&unit| has(&self.units[unit])).collect();
            solution.push(Group { kinds, units });
        }
        let whole: usize = solution.iter().map(|group| group.units.len()).sum();
        if whole != self.units.len() || solution.iter().any(|group| group.units.is_empty()) {
            return None;
        }
        for i in strangers {
            let cost = |to: usize| {
                let mut groups = solution.clone();
                groups[to].kinds.push(i);
                self.evaluate(groups).cost
            };
            let to = (0..solution.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
            solution[to].kinds.push(i);
        }
        Some(self.evaluate(solution))
    }

    /// The processors of a group.
    pub fn cpus(&self, group: &Group) -> CpuSet {
        CpuSet(group.units.iter().flat_map(|&unit| self.units[unit].iter().copied()).collect())
    }

    /// For a kind of a group: the kind of another group that would cost it most, and that cost each time.
    pub fn worst_outside(&self, groups: &[Group], of: usize, i: usize) -> Option<(&KindProfile, f64)> {
        groups
            .iter()
            .enumerate()
            .filter(|(q, _)| *q != of)
            .flat_map(|(_, group)| &group.kinds)
            .map(|&other| {
                let both = self.damage[i][other].max(self.damage[other][i]);
                (self.candidates[other].profile, both, both * self.candidates[other].profile.rate)
            })
            .filter(|(_, both, _)| *both > 0.0)
            .max_by(|a, b| a.2.total_cmp(&b.2))
            .map(|(profile, both, _)| (profile, both))
    }
}
