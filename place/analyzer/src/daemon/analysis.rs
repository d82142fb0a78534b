//! One round of the daemon: reads all applications, decides, and writes the decisions.

use super::deciding::{unnamed, Deciding};
use super::journal::Journal;
use super::tracing::{self, Rings, Tracing};
use super::{probing, waits, Options};
use crate::guard::{Counts, Guard};
use crate::machine;
use crate::model::{AppId, Class, CodeId, KindRef, Machine, Plan, Snapshot, Workload};
use crate::policy::{Policy, NAMES};
use crate::scores::{self, Scores};
use crate::segment::{Change, Folder};
use crate::state::{self, State};
use crate::trace::Section;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The daemon's state.
pub(super) struct Analysis {
    folder: Folder,
    machine: Machine,
    policy: Box<dyn Policy>,
    scores: Scores,
    workload: Workload,
    /// The plan of the policy; the guard decides which plan is in force.
    wanted: Plan,
    guard: Guard,
    deciding: Deciding,
    classes: BTreeMap<KindRef, Class>,
    /// The policy's warnings of the last round, without their digits.
    remarks: BTreeSet<String>,
    rings: Rings,
    tracing: Option<Tracing>,
    probe: state::Probe,
    journal: Journal,
    applications: Vec<state::Application>,
    interval: Option<Duration>,
    /// The time since which each application has allowed placement.
    willing: BTreeMap<AppId, u64>,
    /// The value in the segments, and the number of its changes.
    placement_on: bool,
    epoch: u64,
}

impl Analysis {
    pub fn new(
        options: &Options,
        policy: Box<dyn Policy>,
        machine: Machine,
        folder: Folder,
        tracing: Option<Tracing>,
        journal: Journal,
    ) -> Analysis {
        let scores =
            Scores::new(scores::Options { l2_bytes: l2_bytes(&machine), ..scores::Options::default() });
        let kind = if options.probe { "searching" } else { "off" };
        Analysis {
            folder,
            machine,
            policy,
            scores,
            workload: Workload::default(),
            wanted: Plan::default(),
            guard: Guard::new(options.seed, options.guard),
            deciding: Deciding::default(),
            classes: BTreeMap::new(),
            remarks: BTreeSet::new(),
            rings: Rings::default(),
            tracing,
            probe: state::Probe { kind: kind.into(), ..state::Probe::default() },
            journal,
            applications: Vec::new(),
            interval: options.interval,
            willing: BTreeMap::new(),
            placement_on: false,
            epoch: 0,
        }
    }

    /// Writes the heartbeat.
    pub fn beat(&mut self, now_ns: u64) {
        for application in self.folder.applications() {
            application.beat(now_ns);
        }
        self.ask_who_is_willing(now_ns);
    }

    fn ask_who_is_willing(&mut self, now_ns: u64) {
        let mut willing = BTreeMap::new();
        for application in
            self.folder.applications().filter(|application| application.lets_itself_be_placed())
        {
            let app = application.app();
            willing.insert(app, self.willing.get(&app).copied().unwrap_or(now_ns));
        }
        self.willing = willing;
    }

    /// The shortest interval requested by an application.
    pub fn wished_interval(&mut self) -> Option<Duration> {
        let wishes = self.folder.applications().map(|application| application.interval_ms());
        wishes.filter(|&wish| wish != 0).min().map(|wish| Duration::from_millis(wish.into()))
    }

    /// The time at which the guard must run next.
    pub fn guard_due(&self) -> u64 {
        self.guard.due_ns()
    }

    /// Runs the guard.
    pub fn guard(&mut self, now_ns: u64) {
        self.ask_who_is_willing(now_ns);
        let snapshots = self.snapshots(now_ns);
        let before = self.guard.plan().clone();
        let counts = Counts::of(&snapshots, &self.willing, now_ns).with_waits(waits::read(&mut self.folder));
        self.guard.step(now_ns, &counts);
        // Switching a rule starts a new epoch at once, not at the next round.
        if *self.guard.plan() != before {
            self.write_decisions(&snapshots);
        }
        self.obey_guard();
    }

    /// Takes a result of the probe's thread.
    pub fn probe_news(&mut self, news: probing::News) {
        for line in news.lines {
            self.journal.say(line);
        }
        if news.probe.generation != self.probe.generation {
            for application in self.folder.applications() {
                application.publish_probe(news.probe.generation);
            }
        }
        self.probe = news.probe;
        self.scores.options_mut().background_per_cycle = self.probe.background_per_cycle;
        let points = self.probe.points.iter();
        self.scores.options_mut().points = points
            .map(|point| scores::Point {
                kilobytes: f64::from(point.kilobytes),
                displaced: f64::from(point.median),
            })
            .collect();
    }

    /// Reads all applications, decides, and writes the decisions.
    pub fn look(&mut self, now_ns: u64) {
        self.look_at_machine();
        for change in self.folder.scan(now_ns) {
            self.tell(change, now_ns);
        }
        let sections = self.read_rings(now_ns);
        let snapshots = self.snapshots(now_ns);
        if let Some(hertz) = snapshots.iter().map(|snapshot| snapshot.cycles_per_second).max() {
            let options = self.scores.options_mut();
            if options.cycles_per_second != hertz {
                *options = scores::Options {
                    points: std::mem::take(&mut options.points),
                    background_per_cycle: options.background_per_cycle,
                    ..scores::Options::of_machine(l2_bytes(&self.machine), hertz)
                };
            }
        }
        self.scores.sections(&sections);
        self.workload = self.scores.observe(&snapshots);
        self.decide(now_ns);
        self.write_decisions(&snapshots);
        self.trace(&sections);
        self.applications = snapshots.iter().map(|snapshot| self.describe(snapshot)).collect();
        if let Err(error) = self.state(now_ns).write(self.folder.path()) {
            self.journal.trouble(now_ns, format!("{} cannot be written: {error}", state::FILE));
        }
    }

    /// Releases all applications and returns the last state.
    pub fn finish(mut self) -> State {
        self.placement_on = false;
        for application in self.folder.applications() {
            application.let_go();
        }
        if let Some(Err(error)) = self.tracing.take().map(Tracing::finish) {
            self.journal.say(format!("the trace is not complete: {error}"));
        }
        self.journal.say("analyzer ends: placement is off, and applications continue without it");
        // An old time stamp, so that readers see at once that the state is no longer updated.
        let _ = self.state(0).write(self.folder.path());
        self.state(crate::segment::monotonic_ns())
    }

    fn look_at_machine(&mut self) {
        let allowed = machine::allowed();
        if allowed.0.iter().eq(self.machine.cpus.iter().map(|cpu| &cpu.id)) {
            return;
        }
        match machine::read() {
            Ok(machine) => {
                self.journal.say(format!("processors changed: {}", machine::describe(&machine)));
                self.machine = machine;
                self.guard.start_over("the processors changed");
            }
            Err(error) => self.journal.say(format!("processors changed, but {error}")),
        }
    }

    fn tell(&mut self, change: Change, now_ns: u64) {
        match change {
            Change::Came(app, title) => {
                let policy = NAMES.iter().position(|name| *name == self.policy.name()).unwrap_or(0);
                let trace_every = if self.tracing.is_some() { tracing::ALL } else { tracing::SOME };
                let Some(application) = self.folder.application(app) else { return };
                application.take_over(policy as u32, trace_every);
                application.publish_probe(self.probe.generation);
                application.place(self.placement_on, self.epoch);
                application.beat(now_ns);
                let facts = application.facts();
                let without = state::without_in_words(&facts.without);
                self.journal.say(format!("{title} found: measures by {}{without}", facts.backend));
            }
            Change::Died(app, title) => {
                self.rings.forget(app);
                self.journal.say(format!("{title} ended: its segment stays a while"));
            }
            Change::Left(app, title) => {
                self.rings.forget(app);
                self.classes.retain(|kind, _| kind.app != app);
                self.journal.say(format!("{title} has ended, and its segment was removed"));
            }
            Change::Refused(path, refusal) => {
                self.journal.say(format!("{} is not used: {refusal}", path.display()));
            }
        }
    }

    fn read_rings(&mut self, now_ns: u64) -> Vec<Section> {
        let rings = &mut self.rings;
        self.folder.applications().flat_map(|application| rings.read(application, now_ns)).collect()
    }

    fn snapshots(&mut self, now_ns: u64) -> Vec<Snapshot> {
        let mut snapshots = Vec::new();
        let mut lost: Vec<AppId> = Vec::new();
        for application in self.folder.applications() {
            let title = application.title();
            match application.snapshot() {
                Ok(reading) => {
                    let told = [
                        (reading.healed, "records repaired: their writer died"),
                        (reading.spoilt, "records skipped: they have invalid numbers"),
                        (reading.left_out, "records left out: there are too many"),
                    ];
                    for (count, what) in told {
                        if count > 0 {
                            self.journal.trouble(now_ns, format!("{title}: {count} {what}"));
                        }
                    }
                    snapshots.push(reading.snapshot);
                }
                Err(refusal) => {
                    self.journal.trouble(now_ns, format!("{title} is not used any more: {refusal}"));
                    lost.push(application.app());
                }
            }
        }
        for app in lost {
            self.folder.forget(app);
        }
        snapshots
    }

    /// Classes and a plan, and what changed of them.
    fn decide(&mut self, now_ns: u64) {
        for profile in &self.workload.kinds {
            let before = self.classes.insert(profile.kind, profile.class).unwrap_or_default();
            if before != profile.class {
                let class = profile.class.name();
                let because =
                    if profile.reason.is_empty() { String::new() } else { format!(": {}", profile.reason) };
                self.journal.say(format!("{} \"{}\" is {class}{because}", profile.kind, profile.label));
            }
        }
        self.wanted = self.policy.decide(&self.machine, &self.workload, &self.wanted);
        self.tell_remarks();
        self.guard.offer(now_ns, &self.wanted);
        self.obey_guard();
    }

    /// Reports new warnings; a warning whose numbers alone changed is not new.
    fn tell_remarks(&mut self) {
        let words = |remark: &str| remark.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        for remark in &self.wanted.remarks {
            if !self.remarks.contains(&words(remark)) {
                self.journal.say(format!("{}: {remark}", self.policy.name()));
            }
        }
        self.remarks = self.wanted.remarks.iter().map(|remark| words(remark)).collect();
    }

    fn obey_guard(&mut self) {
        for line in self.guard.news() {
            self.journal.say(format!("guard: {line}"));
        }
        let on = self.guard.placement_on();
        if on != self.placement_on {
            self.placement_on = on;
            self.epoch += 1;
            for application in self.folder.applications() {
                application.place(on, self.epoch);
            }
        }
    }

    fn write_decisions(&mut self, snapshots: &[Snapshot]) {
        let plan = self.guard.plan();
        let placements: BTreeMap<KindRef, usize> =
            plan.placements.iter().enumerate().map(|(index, placement)| (placement.kind, index)).collect();
        for snapshot in snapshots {
            let Some(application) = self.folder.application(snapshot.app) else { continue };
            application.decide(CodeId(0), &unnamed());
            for seen in &snapshot.kinds {
                let kind = KindRef { app: snapshot.app, code: seen.code };
                let profile = self.workload.kinds.binary_search_by_key(&kind, |profile| profile.kind);
                let profile = profile.ok().map(|index| &self.workload.kinds[index]);
                let hertz = snapshot.cycles_per_second;
                let decision = self.deciding.decision(kind, seen, profile, &placements, plan, hertz);
                application.decide(seen.code, &decision);
            }
            // Last: until then, kinds may have what an analyzer that died decided.
            application.admit(plan.places);
        }
    }

    fn trace(&mut self, sections: &[Section]) {
        let Some(tracing) = &mut self.tracing else { return };
        if let Err(error) = tracing.write(&self.workload, sections) {
            self.journal.say(format!("the trace ends here, after {} sections: {error}", tracing.sections));
            self.tracing = None;
        }
    }

    fn describe(&mut self, snapshot: &Snapshot) -> state::Application {
        let application = self.folder.application(snapshot.app);
        let narrowed = application.as_ref().map_or(0, |application| application.narrowed());
        let sliced = application.as_ref().map_or(0, |application| {
            application.threads().iter().filter(|thread| thread.sliced).count() as u32
        });
        let slices = application.as_ref().map_or(0, |application| application.slices());
        let admission =
            application.as_ref().map_or_else(Default::default, |application| application.admission());
        let facts = application.as_ref().map(|application| application.facts());
        let sections = application.map_or(0, |application| application.sections());
        state::Application {
            app: snapshot.app,
            name: snapshot.name.clone(),
            related: snapshot.related,
            collecting: snapshot.collecting,
            placing: facts.as_ref().is_some_and(|facts| facts.placing),
            backend: snapshot.backend.clone(),
            without: snapshot.without.clone(),
            kinds: snapshot.kinds.iter().filter(|kind| !kind.records.is_empty()).count() as u32,
            kinds_max: facts.as_ref().map_or(0, |facts| facts.kinds),
            sections,
            without_room: snapshot.without_room,
            contended: snapshot.contended,
            dropped: snapshot.dropped,
            moves: snapshot.moves,
            narrowed,
            slices,
            sliced,
            admission,
            probes: snapshot.probes,
            probe_cycles: snapshot.probe_cycles.0,
            cycles_per_second: snapshot.cycles_per_second,
        }
    }

    fn state(&self, now_ns: u64) -> State {
        let interval = self.interval.unwrap_or(super::INTERVAL);
        State {
            version: state::VERSION,
            written_ns: now_ns,
            pid: std::process::id(),
            policy: self.policy.name().into(),
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            machine: self.machine.clone(),
            applications: self.applications.clone(),
            workload: self.workload.clone(),
            plan: if self.guard.is_at_work() { self.guard.plan().clone() } else { self.wanted.clone() },
            guard: self.guard.report(now_ns),
            epoch: self.epoch,
            placement_on: self.placement_on,
            probe: self.probe.clone(),
            events: self.journal.latest(),
        }
    }
}

/// The size of one L2 cache; if a virtual machine does not report it, the size in most servers of today.
fn l2_bytes(machine: &Machine) -> u64 {
    if machine.l2_bytes == 0 {
        2 << 20
    } else {
        machine.l2_bytes
    }
}
