//! Requests of an application that wait for a thread: one queue, or one for each class, with the soft
//! stealing of split_queue.h.

use super::parts::{Mask, Work};
use crate::model::Class;
use std::collections::VecDeque;
use std::ops::Range;

struct Group {
    /// Its number in the plan.
    number: u32,
    polluters: bool,
    waiting: VecDeque<(u64, Work)>,
    /// Threads that have their home here and nothing to do.
    idle: Vec<usize>,
}

/// The queues of one application. Group 0 is for kinds without a place: any thread takes them, in order of age.
pub struct Queues {
    /// Its threads.
    pub threads: Range<usize>,
    groups: Vec<Group>,
    /// The group of each kind; kinds that are missing are in group 0.
    of_kind: Vec<(usize, usize)>,
    put: u64,
}

impl Queues {
    /// One queue.
    pub fn new(threads: Range<usize>) -> Queues {
        let idle = threads.clone().rev().collect();
        let roaming = Group { number: 0, polluters: false, waiting: VecDeque::new(), idle };
        Queues { threads, groups: vec![roaming], of_kind: Vec::new(), put: 0 }
    }

    /// True if requests have class queues.
    pub fn routed(&self) -> bool {
        self.groups.len() > 1
    }

    /// Rebuilds the queues from decisions: (kind, queue, class, processors). All idle threads are forgotten: the
    /// caller must add them again. Returns homes for threads, in turn: a group, and its processors, once for each
    /// of them; none if nothing is routed.
    pub fn route(&mut self, kinds: &[(usize, u32, Class, Mask)], cpus: usize) -> Vec<(usize, Mask)> {
        let mut all: Vec<(u64, Work)> =
            self.groups.iter_mut().flat_map(|group| group.waiting.drain(..)).collect();
        all.sort_by_key(|(age, _)| *age);
        self.groups.truncate(1);
        self.groups[0].idle.clear();
        self.of_kind.clear();
        let mut homes: Vec<(usize, Mask)> = Vec::new();
        for &(kind, number, class, mask) in kinds {
            let group = match self.groups.iter().skip(1).position(|group| group.number == number) {
                Some(at) => at + 1,
                None => {
                    self.groups.push(Group {
                        number,
                        polluters: false,
                        waiting: VecDeque::new(),
                        idle: Vec::new(),
                    });
                    let group = self.groups.len() - 1;
                    homes.extend((0..cpus).filter(|&cpu| mask.has(cpu)).map(|_| (group, mask)));
                    group
                }
            };
            self.groups[group].polluters |= class == Class::Polluter;
            self.of_kind.push((kind, group));
        }
        for (age, work) in all {
            let group = self.group(work.kind);
            self.groups[group].waiting.push_back((age, work));
        }
        homes
    }

    fn group(&self, kind: usize) -> usize {
        self.of_kind.iter().find(|(one, _)| *one == kind).map_or(0, |(_, group)| *group)
    }

    /// Records an idle thread.
    pub fn idle(&mut self, thread: usize, home: Option<usize>) {
        let group = home.filter(|&home| home < self.groups.len()).unwrap_or(0);
        self.groups[group].idle.push(thread);
    }

    /// The thread got work in another way.
    pub fn not_idle(&mut self, thread: usize) {
        for group in &mut self.groups {
            group.idle.retain(|&one| one != thread);
        }
    }

    /// Adds a request, unless a thread takes it at once.
    pub fn put(&mut self, work: Work) -> Option<(usize, Work)> {
        let group = self.group(work.kind);
        self.put += 1;
        self.groups[group].waiting.push_back((self.put, work));
        self.pair(group)
    }

    /// Finds an idle thread for the oldest request of a group: one of its own, or one that may steal it.
    fn pair(&mut self, group: usize) -> Option<(usize, Work)> {
        let backlog = self.groups[group].waiting.len();
        if backlog == 0 {
            return None;
        }
        let thief = if !self.groups[group].idle.is_empty() {
            group
        } else {
            let allowed = |from: &usize| {
                !self.groups[*from].idle.is_empty() && (group == 0 || self.may_steal(*from, group, backlog))
            };
            (0..self.groups.len()).find(allowed)?
        };
        let thread = self.groups[thief].idle.pop()?;
        let (_, work) = self.groups[group].waiting.pop_front()?;
        Some((thread, work))
    }

    /// A polluter's worker takes any request; others steal only if more than one waits.
    fn may_steal(&self, home: usize, from: usize, backlog: usize) -> bool {
        home != from && (self.groups[home].polluters && !self.groups[from].polluters || backlog > 1)
    }

    /// The next request for a thread.
    pub fn take(&mut self, home: Option<usize>) -> Option<Work> {
        let oldest = |group: &Group| group.waiting.front().map(|(age, _)| *age);
        let Some(home) = home.filter(|&home| home > 0 && home < self.groups.len()) else {
            // Without a home: the oldest request.
            let group = (0..self.groups.len())
                .filter_map(|group| oldest(&self.groups[group]).map(|age| (age, group)))
                .min()?
                .1;
            return self.groups[group].waiting.pop_front().map(|(_, work)| work);
        };
        let first = [home, 0]
            .into_iter()
            .filter_map(|group| oldest(&self.groups[group]).map(|age| (age, group)))
            .min();
        if let Some((_, group)) = first {
            return self.groups[group].waiting.pop_front().map(|(_, work)| work);
        }
        let from = (1..self.groups.len())
            .filter(|&group| {
                let backlog = self.groups[group].waiting.len();
                backlog > 0 && self.may_steal(home, group, backlog)
            })
            .max_by_key(|&group| self.groups[group].waiting.len())?;
        self.groups[from].waiting.pop_front().map(|(_, work)| work)
    }

    /// Returns idle threads for requests that already wait.
    pub fn match_waiting(&mut self) -> Vec<(usize, Work)> {
        let mut matched = Vec::new();
        for group in 0..self.groups.len() {
            while let Some(pair) = self.pair(group) {
                matched.push(pair);
            }
        }
        matched
    }
}
