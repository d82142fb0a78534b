//! The simulation itself: events in the order of time. An event belongs to a processor: its section or its
//! slice ends.
//!
//! ```text
//!  client ── put ──> queues of an application ── take ──> thread ── wake, migrate ──> run queue ──> processor
//!     ^                 (one, or one a class)                                                          │
//!     └───────────────────────────── last step done <── next step <── section ends <── speed: caches, siblings
//! ```

mod arrivals;
mod carry_out;
mod measure;
mod parts;
mod queues;
mod schedule;

use super::cache::Cache;
use super::damage::Damage;
use super::outcome::Tally;
use super::random::Random;
use super::scenario::{Load, Scenario};
use crate::model::{Actuation, Machine};
use measure::Measured;
use parts::{Asked, Event, Mask, Placed, Processor, Status, Thread, Work, SLICE_NS};
use queues::Queues;
use std::collections::BinaryHeap;

pub use measure::{Judge, HURRY};

/// A machine at work.
pub struct Engine<'a> {
    scenario: &'a Scenario,
    machine: &'a Machine,
    damage: &'a Damage,
    random: Random,
    now_ns: f64,
    events: BinaryHeap<Event>,
    cpus: Vec<Processor>,
    l2: Vec<Cache>,
    l3: Vec<Cache>,
    threads: Vec<Thread>,
    asked: Vec<Asked>,
    free: Vec<usize>,
    queues: Vec<Queues>,
    placed: Vec<Option<Placed>>,
    /// Ready threads of all run queues, and processors without work.
    waiting: usize,
    idle: usize,
    next_arrival: usize,
    laps: f64,
    measured: Measured,
    /// The reported sums.
    pub tally: Tally,
}

impl<'a> Engine<'a> {
    /// All processors idle and all caches empty.
    pub fn new(scenario: &'a Scenario, machine: &'a Machine, damage: &'a Damage, seed: u64) -> Engine<'a> {
        let mut engine = Engine {
            scenario,
            machine,
            damage,
            random: Random::new(seed),
            now_ns: 0.0,
            events: BinaryHeap::new(),
            cpus: schedule::processors(machine),
            l2: Vec::new(),
            l3: Vec::new(),
            threads: Vec::new(),
            asked: Vec::new(),
            free: Vec::new(),
            queues: Vec::new(),
            placed: vec![None; scenario.kinds.len()],
            waiting: 0,
            idle: machine.cpus.len(),
            next_arrival: 0,
            laps: 0.0,
            measured: Measured::new(scenario),
            tally: Tally::new(scenario.kinds.len(), scenario.requests.len()),
        };
        let caches = |of: fn(&Processor) -> usize, bytes: u64, cpus: &[Processor]| -> Vec<Cache> {
            let count = cpus.iter().map(|cpu| of(cpu) + 1).max().unwrap_or(0);
            (0..count).map(|_| Cache::new(bytes as f64 / 1024.0)).collect()
        };
        engine.l2 = caches(|cpu| cpu.l2, machine.l2_bytes, &engine.cpus);
        engine.l3 = caches(|cpu| cpu.l3, machine.l3_bytes, &engine.cpus);
        for (app, server) in scenario.apps.iter().enumerate() {
            let first = engine.threads.len();
            for i in 0..server.threads {
                engine.threads.push(Thread {
                    app,
                    cpu: i % engine.cpus.len(),
                    allowed: Mask::ALL,
                    status: Status::Idle,
                    work: None,
                    home: None,
                });
            }
            engine.queues.push(Queues::new(first..first + server.threads));
        }
        if let Load::Closed(outstanding) = scenario.load {
            for _ in 0..outstanding {
                engine.ask_any();
            }
        }
        engine
    }

    /// Continues until that time.
    pub fn run_until(&mut self, seconds: f64) {
        let until = seconds * 1e9;
        loop {
            let arrival = self.arrival_ns();
            let event = self.events.peek().map_or(f64::INFINITY, |event| event.at_ns);
            let next = arrival.min(event);
            if next > until {
                break;
            }
            if arrival <= event {
                self.now_ns = arrival;
                self.arrive();
            } else if let Some(event) = self.events.pop() {
                self.now_ns = event.at_ns;
                if self.cpus[event.cpu].version == event.version {
                    self.step(event.cpu);
                }
            }
        }
        self.now_ns = until;
        for cpu in 0..self.cpus.len() {
            self.account(cpu);
        }
    }

    /// Nanoseconds since the beginning.
    fn now(&self) -> u64 {
        self.now_ns as u64
    }

    fn work(&self, slot: usize) -> Work {
        let asked = &self.asked[slot];
        Work {
            request: slot,
            kind: self.scenario.requests[asked.request].steps[asked.step],
            put_ns: self.now_ns,
            left_ns: 0.0,
            whole_ns: 0.0,
            own_ns: 0.0,
            bound: false,
            begun: false,
            preempted: false,
            migrated: false,
            placed: false,
            previous: None,
        }
    }

    /// Puts the current step of a request into its queue.
    fn put(&mut self, slot: usize) {
        let work = self.work(slot);
        let app = self.scenario.kinds[work.kind].app;
        // A connection has its thread in the other tier, unless requests are routed.
        let caller = self.asked[slot].caller.filter(|_| !self.queues[app].routed());
        let own = caller.map(|caller| {
            let (mine, theirs) = (&self.queues[self.threads[caller].app].threads, &self.queues[app].threads);
            theirs.start + (caller - mine.start) % theirs.len().max(1)
        });
        let free = own.filter(|&thread| self.threads[thread].status == Status::Idle);
        let thread = match free {
            Some(thread) => {
                self.queues[app].not_idle(thread);
                Some((thread, work))
            }
            None => self.queues[app].put(work),
        };
        if let Some((thread, work)) = thread {
            self.threads[thread].work = Some(work);
            self.wake(thread);
        }
    }

    /// Handles a processor's event: its section or its time slice ends.
    fn step(&mut self, cpu: usize) {
        self.account(cpu);
        if self.waiting > 0 && self.idle > 0 {
            self.balance();
        }
        let Some(thread) = self.cpus[cpu].running else { return };
        let left = self.threads[thread].work.as_ref().map_or(0.0, |work| work.left_ns);
        if left <= 0.5 {
            self.finish(cpu, thread);
        } else if self.now_ns >= self.cpus[cpu].slice_end_ns {
            if self.cpus[cpu].waiting.is_empty() {
                self.cpus[cpu].slice_end_ns = self.now_ns + SLICE_NS;
                self.plan_event(cpu);
            } else {
                if let Some(work) = &mut self.threads[thread].work {
                    work.preempted = true;
                }
                self.stop(cpu);
                self.threads[thread].status = Status::Ready;
                self.cpus[cpu].waiting.push_back(thread);
                self.waiting += 1;
                self.dispatch(cpu);
            }
        } else {
            self.plan_event(cpu);
        }
    }

    fn finish(&mut self, cpu: usize, thread: usize) {
        let Some(work) = self.threads[thread].work.take() else { return };
        self.end_measure(cpu, &work);
        self.cpus[cpu].last = Some(work.kind);
        let kind = work.kind;
        if matches!(self.placed[kind], Some(Placed { actuation: Actuation::Paper, .. })) {
            self.threads[thread].allowed = Mask::ALL;
        }
        let slot = work.request;
        self.asked[slot].step += 1;
        let asked = &self.asked[slot];
        let steps = &self.scenario.requests[asked.request].steps;
        let Some(&next) = steps.get(asked.step) else {
            self.tally.request(asked.request, self.now_ns - asked.put_ns);
            self.free.push(slot);
            if let Load::Closed(_) = self.scenario.load {
                self.ask_any();
            }
            self.take(cpu, thread);
            return;
        };
        if self.scenario.kinds[next].app == self.threads[thread].app {
            self.threads[thread].work = Some(self.work(slot));
            self.begin(cpu, thread);
            return;
        }
        match self.asked[slot].caller {
            // Continue in the waiting thread of the first tier.
            Some(caller) if self.threads[caller].app == self.scenario.kinds[next].app => {
                self.asked[slot].caller = None;
                self.threads[caller].work = Some(self.work(slot));
                self.wake(caller);
                self.take(cpu, thread);
            }
            _ => {
                self.asked[slot].caller = Some(thread);
                self.threads[thread].status = Status::Blocked;
                self.stop(cpu);
                self.put(slot);
                self.dispatch(cpu);
            }
        }
    }

    /// A thread that is on a processor takes its next request.
    fn take(&mut self, cpu: usize, thread: usize) {
        let (app, home) = (self.threads[thread].app, self.threads[thread].home);
        match self.queues[app].take(home.map(|(queue, _)| queue)) {
            Some(work) => {
                self.threads[thread].work = Some(work);
                self.begin(cpu, thread);
            }
            None => {
                self.threads[thread].status = Status::Idle;
                self.queues[app].idle(thread, home.map(|(queue, _)| queue));
                self.stop(cpu);
                self.dispatch(cpu);
            }
        }
    }

    /// Begins a section of a thread on a processor: sets the affinity decided for its kind; the thread then
    /// continues on this processor or another.
    fn begin(&mut self, cpu: usize, thread: usize) {
        let Some(kind) = self.threads[thread].work.as_ref().map(|work| work.kind) else { return };
        let mut cost_us = 0.0;
        let one = &mut self.threads[thread];
        let before = one.allowed;
        match self.placed[kind] {
            Some(Placed { actuation: Actuation::Paper, mask }) => {
                one.allowed = mask;
                cost_us += self.damage.affinity_us;
            }
            Some(Placed { actuation: Actuation::Lazy, mask }) => one.allowed = mask,
            _ => one.allowed = one.home.map_or(Mask::ALL, |(_, mask)| mask),
        }
        if one.allowed != before && cost_us == 0.0 {
            // One call instead of the paper's three.
            cost_us += self.damage.affinity_us / 4.0;
        }
        let allowed = one.allowed;
        if let Some(work) = &mut one.work {
            work.bound = true;
            work.placed =
                matches!(self.placed[kind], Some(Placed { actuation, .. }) if actuation != Actuation::None);
            work.left_ns += cost_us * 1e3;
        }
        if allowed.has(cpu) {
            self.start(cpu, thread);
        } else {
            self.stop(cpu);
            if let Some(work) = &mut self.threads[thread].work {
                work.left_ns += self.damage.migration_us * 1e3;
            }
            self.tally.moves += 1;
            self.wake(thread);
            self.dispatch(cpu);
        }
    }
}
