//! The measurements that libsplit would have made, and the analyzer that reads them: the same scores and policies
//! as on a real machine, on counters filled by a simulated server.

use super::parts::Work;
use super::Engine;
use crate::guard::{Counts, Guard};
use crate::model::{
    Class, CpuId, KindRef, KindSnapshot, Machine, Plan, Record, Snapshot, Workload, AFTER_SAME,
};
use crate::policy::Policy;
use crate::scores::{Options, Scores};
use crate::simulate::scenario::Scenario;
use crate::state;
use crate::trace::Section;
use hardmeter_samples::model::Cycles;

/// Simulated time stamp counters run at 2.7 GHz.
pub const HERTZ: u64 = 2_700_000_000;
const CYCLES_PER_NS: f64 = HERTZ as f64 / 1e9;
/// One section in this many is probed and written to the ring.
const PROBED: f64 = 1.0 / 8.0;
/// Spread of one probe of 64 lines (docs/design/place.md, section 3).
const PROBE_SPREAD: f64 = 0.03;

/// Counters of all kinds.
pub struct Measured {
    records: Vec<Record>,
    classes: Vec<Class>,
    related: Vec<Option<KindRef>>,
    ring: Vec<Section>,
}

impl Measured {
    pub fn new(scenario: &Scenario) -> Measured {
        let mut related = vec![None; scenario.kinds.len()];
        for request in &scenario.requests {
            let mut cause = request.steps.first().copied();
            for &step in &request.steps {
                match cause {
                    Some(before) if scenario.kinds[before].app != scenario.kinds[step].app => {
                        related[step] = Some(scenario.kinds[before].kind);
                    }
                    _ => cause = Some(step),
                }
            }
        }
        Measured {
            records: vec![Record::default(); scenario.kinds.len()],
            classes: vec![Class::Unknown; scenario.kinds.len()],
            related,
            ring: Vec::new(),
        }
    }
}

impl Engine<'_> {
    /// Counts a section that ended.
    pub(super) fn end_measure(&mut self, cpu: usize, work: &Work) {
        let own = work.own_ns * CYCLES_PER_NS;
        let elapsed = (self.now_ns - work.put_ns) * CYCLES_PER_NS;
        self.tally.section(work.kind, self.now_ns - work.put_ns, work.own_ns);
        let exact = !work.preempted && !work.migrated;
        let probed = exact && self.random.uniform() < PROBED;
        let displaced = probed.then(|| {
            let kind = &self.scenario.kinds[work.kind];
            let kb = kind.resident_kb + kind.stream_kb + self.scenario.apps[kind.app].code_kb;
            let share = self.damage.lost(1.0, kb * 1024.0 / self.machine.l2_bytes as f64);
            (share + PROBE_SPREAD * self.random.normal()).clamp(0.0, 1.0)
        });
        let after = match work.previous {
            Some(previous) if previous == work.kind => Some(AFTER_SAME),
            Some(previous) => Some(self.measured.classes[previous] as usize),
            None => None,
        };
        let record = &mut self.measured.records[work.kind];
        record.count += 1;
        record.preempted += u64::from(work.preempted);
        record.migrated += u64::from(work.migrated);
        record.elapsed.0 += elapsed as u64;
        if exact {
            record.exact += 1;
            record.cycles.0 += own as u64;
            record.own.push(own);
            record.adaptive = record.own.mean;
            if let Some(after) = after {
                record.after[after].push(own);
            }
        }
        if let Some(share) = displaced {
            record.displaced.push(share);
        }
        if probed {
            let kind = |index: usize| self.scenario.kinds[index].kind;
            self.measured.ring.push(Section {
                ended_ns: self.now_ns as u64,
                cpu: CpuId(cpu as u32),
                kind: kind(work.kind),
                previous: work.previous.map(kind),
                elapsed: Cycles(elapsed as u64),
                own: Some(Cycles(own as u64)),
                displaced,
                preempted: false,
                migrated: false,
                placed: work.placed,
                nested: false,
            });
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let kinds_of = |app: usize| {
            (0..self.scenario.kinds.len())
                .filter(|&i| self.scenario.kinds[i].app == app)
                .map(|i| KindSnapshot {
                    code: self.scenario.kinds[i].kind.code,
                    label: self.scenario.kinds[i].label.clone(),
                    note: String::new(),
                    statement: None,
                    related: self.measured.related[i],
                    class: self.measured.classes[i],
                    records: vec![(CpuId(0), self.measured.records[i].clone())],
                })
                .collect()
        };
        let snapshot = |(i, app): (usize, &crate::simulate::scenario::App)| Snapshot {
            app: app.id,
            name: app.name.clone(),
            related: app.related,
            taken_ns: self.now_ns as u64,
            cycles_per_second: HERTZ,
            collecting: true,
            backend: "probe".into(),
            without: Vec::new(),
            kinds: kinds_of(i),
            without_room: 0,
            contended: 0,
            dropped: 0,
            moves: self.tally.moves,
            probes: 0,
            probe_cycles: Cycles(0),
        };
        self.scenario.apps.iter().enumerate().map(snapshot).collect()
    }
}

/// The analyzer of a simulated machine.
pub struct Judge<'p> {
    scores: Scores,
    policy: Option<&'p dyn Policy>,
    guard: Option<Guard>,
    /// The workload of the last round.
    pub workload: Workload,
    /// The policy's plan of the last round.
    pub plan: Plan,
    /// The plan that the engine applies.
    in_force: Plan,
    /// The number of times that the plan changed the place of a kind.
    pub changes: u64,
}

/// A simulated machine has no other load: a trial takes a tenth of the time it takes on a real machine.
pub const HURRY: u64 = 10;

impl<'p> Judge<'p> {
    /// Without a policy it only measures.
    pub fn new(machine: &Machine, policy: Option<&'p dyn Policy>, guard: Option<Guard>) -> Judge<'p> {
        let options = Options { window_seconds: 1.0, ..Options::of_machine(machine.l2_bytes, HERTZ) };
        Judge {
            scores: Scores::new(options),
            policy,
            guard,
            workload: Workload::default(),
            plan: Plan::default(),
            in_force: Plan::default(),
            changes: 0,
        }
    }

    /// Called once per interval: reads the counters, decides, applies the plan.
    pub fn look(&mut self, engine: &mut Engine, place: bool) {
        self.scores.sections(&std::mem::take(&mut engine.measured.ring));
        self.workload = self.scores.observe(&engine.snapshots());
        for profile in &self.workload.kinds {
            if let Some(i) = engine.scenario.kinds.iter().position(|kind| kind.kind == profile.kind) {
                engine.measured.classes[i] = profile.class;
            }
        }
        let Some(policy) = self.policy.filter(|_| place) else { return };
        self.plan = policy.decide(engine.machine, &self.workload, &self.plan);
        if let Some(guard) = &mut self.guard {
            guard.offer(engine.now(), &self.plan);
        }
        self.carry_out(engine);
    }

    /// True if there is a guard.
    pub fn is_guarded(&self) -> bool {
        self.guard.is_some()
    }

    /// "default": the kernel's scheduler alone.
    pub fn policy_name(&self) -> &'static str {
        self.policy.map_or("default", |policy| policy.name())
    }

    /// The time at which the guard must run next, in simulated seconds.
    pub fn guard_due(&self) -> f64 {
        match self.guard.as_ref().map(Guard::due_ns) {
            None | Some(u64::MAX) => f64::INFINITY,
            // A nanosecond later, because seconds are rounded and the guard does nothing before its time.
            Some(due) => (due as f64 + 1.0) / 1e9,
        }
    }

    /// Runs the guard.
    pub fn guard(&mut self, engine: &mut Engine) {
        let Some(guard) = &mut self.guard else { return };
        let snapshots = engine.snapshots();
        let willing = snapshots.iter().map(|snapshot| (snapshot.app, 0)).collect();
        guard.step(engine.now(), &Counts::of(&snapshots, &willing, engine.now()));
        self.carry_out(engine);
    }

    /// True if the guard has no decision yet.
    pub fn is_undecided(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_undecided)
    }

    /// The guard's result, if there is a guard.
    pub fn found(&self, engine: &Engine) -> Option<state::Guard> {
        self.guard.as_ref().map(|guard| guard.report(engine.now()))
    }

    /// The plan that is in force now.
    pub fn in_force(&self) -> &Plan {
        &self.in_force
    }

    /// Applies a plan that was made elsewhere.
    pub fn fix(&mut self, engine: &mut Engine, plan: &Plan) {
        self.plan = plan.clone();
        self.carry_out(engine);
    }

    fn carry_out(&mut self, engine: &mut Engine) {
        let plan = match &self.guard {
            Some(guard) if guard.placement_on() => guard.plan().clone(),
            Some(_) => Plan::default(),
            None => self.plan.clone(),
        };
        let places = |plan: &Plan| -> Vec<_> {
            plan.placements
                .iter()
                .filter(|one| !one.cpus.0.is_empty())
                .map(|one| (one.kind, one.cpus.clone(), one.queue))
                .collect()
        };
        if places(&plan) != places(&self.in_force) {
            self.changes += 1;
            engine.apply(&plan);
        }
        self.in_force = plan;
    }
}
