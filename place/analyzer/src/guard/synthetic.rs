//! Synthetic servers for tests: epochs with chosen statistics, and a simulated server on which placement has
//! a chosen effect.

use super::measure::Epoch;
use super::{Counts, Guard};
use crate::model::{
    Actuation, AppId, Class, CodeId, CpuId, CpuSet, KindRef, KindSnapshot, Moments, Placement,
};
use crate::model::{Plan, Record, Snapshot, BUCKETS};
use hardmeter_samples::model::Cycles;
use std::collections::BTreeMap;

pub(super) fn kind(code: u32) -> KindRef {
    KindRef { app: AppId(7), code: CodeId(code) }
}

/// A number of sections with this mean of cycles, spread by a third of it.
pub(super) fn record(count: u64, mean: f64) -> Record {
    let mut histogram = vec![0; BUCKETS];
    let bucket = ((mean / 1024.0).log2() * 4.0 + 1.0).clamp(0.0, 95.0);
    histogram[bucket as usize] = count;
    Record {
        count,
        exact: count,
        elapsed: Cycles((mean * count as f64) as u64),
        cycles: Cycles((mean * count as f64) as u64),
        own: Moments { count, mean, m2: count as f64 * (mean / 3.0).powi(2) },
        adaptive: mean,
        histogram,
        ..Record::default()
    }
}

pub(super) fn epoch(seconds: f64, kinds: &[(u32, u64, f64)]) -> Epoch {
    Epoch {
        seconds,
        kinds: kinds.iter().map(|&(code, count, mean)| (kind(code), record(count, mean))).collect(),
        waits: BTreeMap::new(),
    }
}

/// Kind 1 on processor 0, and kind 2 on the same or another one.
pub(super) fn plan(apart: bool) -> Plan {
    placed(&[0, u32::from(apart)])
}

/// Kinds 1, 2 ... on these processors.
pub(super) fn placed(cpus: &[u32]) -> Plan {
    let placement = |code: u32, cpu: u32| Placement {
        kind: kind(code),
        class: Class::Polluter,
        cpus: CpuSet([CpuId(cpu)].into()),
        actuation: Actuation::Lazy,
        queue: 0,
        slice_us: 0,
        background: false,
        admit: false,
        reason: String::new(),
    };
    let placements = (1..).zip(cpus).map(|(code, &cpu)| placement(code, cpu)).collect();
    Plan { policy: "lazy".into(), placements, places: 0, remarks: Vec::new() }
}

/// The effect of placement at a time: work done per second and CPU time per request, as factors.
pub(super) type Effect = fn(seconds: f64) -> (f64, f64);

/// A server under a closed load, and the guard that watches it.
pub(super) struct World {
    pub guard: Guard,
    pub news: Vec<(f64, String)>,
    effect: Effect,
    /// Requests a second without placement, and the random variation of an epoch's throughput and cost (one
    /// standard deviation).
    rate: f64,
    noise: f64,
    random: u64,
    now: u64,
    total: Record,
    /// The work done, and the work that would have been done without placement.
    pub done: f64,
    pub possible: f64,
    pub seconds_on: f64,
}

const SECOND: f64 = 1e9;
const STEP: u64 = 10_000_000;

impl World {
    pub fn new(rate: f64, noise: f64, seed: u64, effect: Effect) -> World {
        World {
            guard: Guard::new(seed, true),
            news: Vec::new(),
            effect,
            rate,
            noise,
            random: seed ^ 0x5555,
            now: 0,
            total: Record { histogram: vec![0; BUCKETS], ..Record::default() },
            done: 0.0,
            possible: 0.0,
            seconds_on: 0.0,
        }
    }

    pub fn seconds(&self) -> f64 {
        self.now as f64 / SECOND
    }

    /// Runs until that time; the policy wants this plan each second.
    pub fn run_until(&mut self, seconds: f64, plan: &Plan) {
        while self.seconds() < seconds {
            if self.now.is_multiple_of(1_000_000_000) {
                self.guard.offer(self.now, plan);
            }
            if self.now >= self.guard.due_ns() {
                self.guard.step(self.now, &self.counts());
            }
            let at = self.seconds();
            self.news.extend(self.guard.news().into_iter().map(|line| (at, line)));
            self.serve();
            self.now += STEP;
        }
    }

    /// Simulates a hundredth of a second of requests. The noise has a memory of a fifth of a second, like
    /// that of real machines.
    fn serve(&mut self) {
        let on = self.guard.placement_on();
        let (work, cost) = if on { (self.effect)(self.seconds()) } else { (1.0, 1.0) };
        let share = STEP as f64 / SECOND;
        let wander = 1.0 + self.noise * self.wandering();
        let requests = self.rate * share * work * wander;
        self.possible += self.rate * share * wander;
        self.done += requests;
        self.seconds_on += if on { share } else { 0.0 };
        let whole = requests.floor() as u64 + u64::from(self.uniform() < requests.fract());
        if whole > 0 {
            let mean = 100_000.0 * cost * (1.0 + self.noise * (self.uniform() - 0.5));
            self.total.add(&record(whole, mean));
        }
    }

    fn wandering(&self) -> f64 {
        wandering(self.now, self.random)
    }

    fn uniform(&mut self) -> f64 {
        uniform(&mut self.random)
    }

    fn counts(&self) -> Counts {
        counts(self.now, [(1, &self.total)])
    }
}

/// Noise of a fifth of a second, with the standard deviation 1.
fn wandering(now: u64, random: u64) -> f64 {
    let block = now / 200_000_000;
    let mut mixed = (block ^ random.rotate_left(7)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 12_f64.sqrt()
}

fn uniform(random: &mut u64) -> f64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 11) as f64 / (1_u64 << 53) as f64
}

/// An application with these kinds, in the form that its segment has now.
pub(super) fn counts<'a>(now: u64, kinds: impl IntoIterator<Item = (u32, &'a Record)>) -> Counts {
    let kinds = kinds.into_iter().map(|(code, record)| KindSnapshot {
        code: CodeId(code),
        label: String::new(),
        note: String::new(),
        statement: None,
        related: None,
        class: Class::Unknown,
        records: vec![(CpuId(0), record.clone())],
    });
    let snapshot = Snapshot {
        app: AppId(7),
        name: "test".into(),
        related: None,
        taken_ns: now,
        cycles_per_second: 1_000_000_000,
        collecting: true,
        backend: "none".into(),
        without: Vec::new(),
        kinds: kinds.collect(),
        without_room: 0,
        contended: 0,
        dropped: 0,
        moves: 0,
        probes: 0,
        probe_cycles: Cycles(0),
    };
    Counts::of(&[snapshot], &[(AppId(7), 0)].into(), now)
}

/// The costs of three kinds, as factors, depending on which of them are placed.
pub(super) type Costs = fn(placed: [bool; 3]) -> [f64; 3];

/// A server of three kinds under a closed load, a third of the requests each, and the guard that watches it.
pub(super) struct Three {
    pub guard: Guard,
    pub news: Vec<String>,
    costs: Costs,
    noise: f64,
    random: u64,
    now: u64,
    totals: [Record; 3],
}

impl Three {
    pub fn new(noise: f64, seed: u64, costs: Costs) -> Three {
        let nothing = || Record { histogram: vec![0; BUCKETS], ..Record::default() };
        Three {
            guard: Guard::new(seed, true),
            news: Vec::new(),
            costs,
            noise,
            random: seed ^ 0x5555,
            now: 0,
            totals: [nothing(), nothing(), nothing()],
        }
    }

    /// Changes the costs from now on.
    pub fn costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// Which kinds are placed now.
    pub fn placed(&self) -> [bool; 3] {
        [1, 2, 3].map(|code| {
            let of = |placement: &&Placement| placement.kind == kind(code) && !placement.cpus.0.is_empty();
            self.guard.placement_on() && self.guard.plan().placements.iter().any(|one| of(&one))
        })
    }

    /// Runs until that time; the policy wants this plan each second.
    pub fn run_until(&mut self, seconds: f64, plan: &Plan) {
        while (self.now as f64) < seconds * SECOND {
            if self.now.is_multiple_of(1_000_000_000) {
                self.guard.offer(self.now, plan);
            }
            if self.now >= self.guard.due_ns() {
                let counts = counts(self.now, (1..).zip(&self.totals));
                self.guard.step(self.now, &counts);
            }
            self.news.extend(self.guard.news());
            self.serve();
            self.now += STEP;
        }
    }

    /// A hundredth of a second of 3000 requests a second, if each costs 100,000 cycles.
    fn serve(&mut self) {
        let costs = (self.costs)(self.placed());
        let mean = costs.iter().sum::<f64>() / 3.0;
        let wander = 1.0 + self.noise * wandering(self.now, self.random);
        for (total, cost) in self.totals.iter_mut().zip(costs) {
            let requests = 10.0 / mean * wander;
            let whole = requests.floor() as u64 + u64::from(uniform(&mut self.random) < requests.fract());
            let mean = 100_000.0 * cost * (1.0 + self.noise * (uniform(&mut self.random) - 0.5));
            if whole > 0 {
                total.add(&record(whole, mean));
            }
        }
    }
}
