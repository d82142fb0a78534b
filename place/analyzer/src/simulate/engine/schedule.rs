//! The relevant behaviour of the kernel's scheduler: a thread that wakes up goes to its last processor if
//! that core is idle, or to an idle core nearby, or to an idle sibling; otherwise it waits where it ran last;
//! a processor without work fetches waiting threads. Also the speed of a section, from the data that its
//! processor's caches have lost and the share of the core that siblings use.

use super::parts::{Event, Processor, Status, SLICE_NS};
use super::Engine;
use crate::model::Machine;
use std::collections::VecDeque;

/// Processors with dense numbers for their caches.
pub fn processors(machine: &Machine) -> Vec<Processor> {
    let dense = |key: fn(&crate::model::Cpu) -> (u32, u32, u32)| -> Vec<usize> {
        let mut keys: Vec<_> = machine.cpus.iter().map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        machine.cpus.iter().map(|cpu| keys.binary_search(&key(cpu)).unwrap_or(0)).collect()
    };
    let l2 = dense(|cpu| (cpu.node, cpu.l3, cpu.l2));
    let l3 = dense(|cpu| (cpu.node, cpu.l3, 0));
    let others = |of: &dyn Fn(usize) -> bool| (0..machine.cpus.len()).filter(|&i| of(i)).collect::<Vec<_>>();
    machine
        .cpus
        .iter()
        .enumerate()
        .map(|(i, cpu)| Processor {
            l2: l2[i],
            l3: l3[i],
            siblings: others(&|j| j != i && l2[j] == l2[i] && machine.cpus[j].core == cpu.core),
            neighbours: others(&|j| j != i && l2[j] == l2[i]),
            running: None,
            waiting: VecDeque::new(),
            since_ns: 0.0,
            speed: 1.0,
            slice_end_ns: 0.0,
            version: 0,
            last: None,
        })
        .collect()
}

impl Engine<'_> {
    /// Advances a processor's section to the present time.
    pub(super) fn account(&mut self, cpu: usize) {
        let processor = &mut self.cpus[cpu];
        let elapsed = self.now_ns - processor.since_ns;
        processor.since_ns = self.now_ns;
        let Some(thread) = processor.running else { return };
        if let Some(work) = &mut self.threads[thread].work {
            work.left_ns -= elapsed * processor.speed;
            work.own_ns += elapsed;
        }
        self.tally.busy_ns += elapsed;
    }

    /// Plans the next event of a processor.
    pub(super) fn plan_event(&mut self, cpu: usize) {
        let speed = self.speed(cpu);
        let processor = &mut self.cpus[cpu];
        processor.version = processor.version.wrapping_add(1);
        let Some(thread) = processor.running else { return };
        processor.speed = speed;
        let left = self.threads[thread].work.as_ref().map_or(0.0, |work| work.left_ns.max(0.0));
        let at_ns = (self.now_ns + left / speed).min(processor.slice_end_ns.max(self.now_ns));
        self.events.push(Event { at_ns, cpu, version: processor.version });
    }

    /// Updates processors that share a cache with one that began or stopped: they get slower or faster.
    fn tell_neighbours(&mut self, cpu: usize) {
        for i in 0..self.cpus[cpu].neighbours.len() {
            let neighbour = self.cpus[cpu].neighbours[i];
            if self.cpus[neighbour].running.is_some() {
                self.account(neighbour);
                self.plan_event(neighbour);
            }
        }
    }

    /// 1: alone. Siblings share the core's units, and threads that share a cache evict data that is used more than
    /// once.
    fn speed(&self, cpu: usize) -> f64 {
        let processor = &self.cpus[cpu];
        if processor.neighbours.is_empty() {
            return 1.0;
        }
        let kind_on = |cpu: usize| {
            let thread = self.cpus[cpu].running?;
            self.threads[thread].work.as_ref().map(|work| work.kind)
        };
        let Some(mine) = kind_on(cpu) else { return 1.0 };
        let kind = &self.scenario.kinds[mine];
        let app = &self.scenario.apps[kind.app];
        let l2_kb = self.machine.l2_bytes as f64 / 1024.0;
        let pass_us = (kind.warm_us / kind.passes).max(0.1);
        let (mut set, mut code) = (0.0, 0.0);
        for &other in &processor.neighbours {
            let Some(theirs) = kind_on(other) else { continue };
            let other = &self.scenario.kinds[theirs];
            let beside = if theirs == mine { 0.0 } else { other.resident_kb };
            let code_beside = if other.app == kind.app { 0.0 } else { self.scenario.apps[other.app].code_kb };
            let streamed = |us: f64| other.stream_kb * (us / other.warm_us.max(0.1)).min(1.0);
            set += beside + code_beside + streamed(pass_us);
            code += beside + code_beside + streamed(app.code_pass_us);
        }
        let own_kb = kind.resident_kb + app.code_kb;
        let fetched = |inserted: f64, kb: f64| {
            self.damage.lost(own_kb.min(l2_kb) / l2_kb, inserted / l2_kb) * kb * self.damage.reload_us_per_kb
        };
        // `start` accounts for the first pass over a set.
        let again = (kind.passes - 1.0).max(0.0) / kind.passes;
        let mut longer = fetched(set, kind.resident_kb) * kind.reload / pass_us * again;
        if app.code_kb > 0.0 {
            longer += fetched(code, app.code_kb) * CODE_RELOAD / app.code_pass_us.max(1.0);
        }
        let siblings = processor.siblings.iter().any(|&other| self.cpus[other].running.is_some());
        let share = if siblings { self.damage.sibling_speed } else { 1.0 };
        share / (1.0 + longer)
    }

    /// Begins a thread's section on a processor, or continues it after the thread had lost its processor.
    pub(super) fn start(&mut self, cpu: usize, thread: usize) {
        let Some((kind, begun, share_left)) = self.threads[thread].work.as_ref().map(|work| {
            let share =
                if work.whole_ns > 0.0 { (work.left_ns / work.whole_ns).clamp(0.0, 1.0) } else { 1.0 };
            (work.kind, work.begun, share)
        }) else {
            return;
        };
        let reload_us = self.fetch(cpu, kind);
        let jitter = (1.0 + self.scenario.kinds[kind].spread * self.random.normal()).max(0.5);
        let warm_ns = self.scenario.kinds[kind].warm_us * 1e3 * jitter;
        let last = self.cpus[cpu].last;
        let now = self.now_ns;
        if let Some(work) = &mut self.threads[thread].work {
            if begun {
                work.left_ns += reload_us * 1e3 * share_left;
            } else {
                work.begun = true;
                work.previous = last;
                work.left_ns += warm_ns + reload_us * 1e3;
                work.whole_ns = work.left_ns;
            }
        }
        self.threads[thread].status = Status::Running;
        self.threads[thread].cpu = cpu;
        let processor = &mut self.cpus[cpu];
        let was_idle = processor.running.is_none();
        processor.running = Some(thread);
        processor.since_ns = now;
        if was_idle {
            self.idle -= 1;
            processor.slice_end_ns = now + SLICE_NS;
        }
        self.tell_neighbours(cpu);
        self.plan_event(cpu);
    }

    /// The time in microseconds to load a section's evicted data; afterwards the data is in the cache.
    fn fetch(&mut self, cpu: usize, kind: usize) -> f64 {
        let (l2, l3) = (self.cpus[cpu].l2, self.cpus[cpu].l3);
        let section = &self.scenario.kinds[kind];
        let app = &self.scenario.apps[section.app];
        let code = self.scenario.kinds.len() + section.app;
        let mut us = 0.0;
        for (owner, kb, reload) in
            [(kind, section.resident_kb, section.reload), (code, app.code_kb, CODE_RELOAD)]
        {
            if kb <= 0.0 {
                continue;
            }
            let lost = self.l2[l2].touch(self.damage, owner as u32, kb);
            let lost_l3 = self.l3[l3].touch(self.damage, owner as u32, kb);
            let from_memory = 1.0 + lost_l3 * (self.damage.memory_factor - 1.0);
            us += kb * lost * reload * self.damage.reload_us_per_kb * from_memory;
        }
        self.l2[l2].stream(section.stream_kb);
        self.l3[l3].stream(section.stream_kb);
        us
    }

    /// Clears a processor.
    pub(super) fn stop(&mut self, cpu: usize) {
        self.account(cpu);
        let processor = &mut self.cpus[cpu];
        if processor.running.take().is_some() {
            self.idle += 1;
        }
        processor.version = processor.version.wrapping_add(1);
        self.tell_neighbours(cpu);
    }

    /// A thread with work requests a processor.
    pub(super) fn wake(&mut self, thread: usize) {
        let cpu = self.choose(thread);
        if self.threads[thread].cpu != cpu {
            if let Some(work) = &mut self.threads[thread].work {
                work.migrated |= work.begun;
            }
        }
        self.threads[thread].status = Status::Ready;
        if self.cpus[cpu].running.is_none() {
            self.on(cpu, thread);
        } else {
            self.cpus[cpu].waiting.push_back(thread);
            self.waiting += 1;
        }
    }

    /// Puts a ready thread on an idle processor; a new section's affinity is that of its kind.
    fn on(&mut self, cpu: usize, thread: usize) {
        let fresh = self.threads[thread].work.as_ref().is_some_and(|work| !work.bound);
        if fresh {
            self.begin(cpu, thread);
        } else {
            self.start(cpu, thread);
        }
    }

    fn choose(&self, thread: usize) -> usize {
        let one = &self.threads[thread];
        let last = one.cpu;
        let core_idle = |cpu: usize| {
            let processor = &self.cpus[cpu];
            processor.running.is_none()
                && processor.siblings.iter().all(|&other| self.cpus[other].running.is_none())
        };
        let allowed = |cpu: &usize| one.allowed.has(*cpu);
        if allowed(&last) && (self.cpus.len() == 1 || core_idle(last)) {
            return last;
        }
        if self.idle > 0 {
            let near = |cpu: &usize| self.cpus[*cpu].l3 == self.cpus[last].l3;
            let all = || (0..self.cpus.len()).map(|i| (last + i) % self.cpus.len()).filter(allowed);
            let found = all()
                .find(|cpu| near(cpu) && core_idle(*cpu))
                .or_else(|| Some(last).filter(|cpu| allowed(cpu) && self.cpus[*cpu].running.is_none()))
                .or_else(|| all().find(|cpu| near(cpu) && self.cpus[*cpu].running.is_none()))
                .or_else(|| all().find(|cpu| self.cpus[*cpu].running.is_none()));
            if let Some(cpu) = found {
                return cpu;
            }
        }
        if allowed(&last) {
            return last;
        }
        let shortest = (0..self.cpus.len()).filter(allowed).min_by_key(|&cpu| self.cpus[cpu].waiting.len());
        shortest.unwrap_or(last)
    }

    /// A processor without work takes the next thread of its own queue, or one that waits on another
    /// processor.
    pub(super) fn dispatch(&mut self, cpu: usize) {
        if self.cpus[cpu].running.is_some() {
            return;
        }
        let next = match self.cpus[cpu].waiting.pop_front() {
            Some(thread) => {
                self.waiting -= 1;
                Some(thread)
            }
            None => self.fetch_thread(cpu),
        };
        if let Some(thread) = next {
            self.on(cpu, thread);
        }
    }

    /// Idle processors take threads that wait on others, as a kernel does at its ticks.
    pub(super) fn balance(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].running.is_none() {
                self.dispatch(cpu);
            }
        }
    }

    fn fetch_thread(&mut self, cpu: usize) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let may = |thread: &usize| self.threads[*thread].allowed.has(cpu);
        let near = |other: usize| self.cpus[other].l3 == self.cpus[cpu].l3;
        let from = (0..self.cpus.len())
            .filter(|&other| self.cpus[other].waiting.iter().any(&may))
            .max_by_key(|&other| (near(other), self.cpus[other].waiting.len()))?;
        let at = self.cpus[from].waiting.iter().position(may)?;
        let thread = self.cpus[from].waiting.remove(at)?;
        self.waiting -= 1;
        if let Some(work) = &mut self.threads[thread].work {
            work.migrated |= work.begun;
            work.left_ns += self.damage.migration_us * 1e3;
        }
        self.tally.moves += 1;
        Some(thread)
    }
}

/// The cost of reloading code relative to data: most of it is prefetched.
const CODE_RELOAD: f64 = 0.5;
