//! The parts of an engine: work, threads, processors, events.

use crate::model::Actuation;
use std::collections::VecDeque;

/// A set of processors as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask([u64; 8]);

impl Mask {
    pub const ALL: Mask = Mask([u64::MAX; 8]);

    pub fn of(cpus: impl IntoIterator<Item = usize>) -> Mask {
        let mut mask = Mask([0; 8]);
        for cpu in cpus {
            mask.0[cpu / 64] |= 1 << (cpu % 64);
        }
        mask
    }

    pub fn has(&self, cpu: usize) -> bool {
        self.0[cpu / 64] & (1 << (cpu % 64)) != 0
    }
}

/// A section that waits or runs.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) request: usize,
    pub(super) kind: usize,
    pub(super) put_ns: f64,
    /// The remaining time at full speed; before the section begins, the cost of moving it.
    pub(super) left_ns: f64,
    /// Its whole time, set when it began.
    pub(super) whole_ns: f64,
    pub(super) own_ns: f64,
    /// Its thread has the affinity that was decided for its kind.
    pub(super) bound: bool,
    pub(super) begun: bool,
    pub(super) preempted: bool,
    pub(super) migrated: bool,
    pub(super) placed: bool,
    pub(super) previous: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    /// Waits for a request.
    Idle,
    /// Waits for a processor.
    Ready,
    Running,
    /// Waits for the other tier.
    Blocked,
}

pub(super) struct Thread {
    pub(super) app: usize,
    /// The processor on which it ran last.
    pub(super) cpu: usize,
    pub(super) allowed: Mask,
    pub(super) status: Status,
    pub(super) work: Option<Work>,
    /// For soft placement: its class queue, and the processors to which it is bound.
    pub(super) home: Option<(usize, Mask)>,
}

pub(super) struct Processor {
    pub(super) l2: usize,
    pub(super) l3: usize,
    /// The other processors of its core, and of its L2 cache.
    pub(super) siblings: Vec<usize>,
    pub(super) neighbours: Vec<usize>,
    pub(super) running: Option<usize>,
    pub(super) waiting: VecDeque<usize>,
    pub(super) since_ns: f64,
    pub(super) speed: f64,
    pub(super) slice_end_ns: f64,
    pub(super) version: u32,
    pub(super) last: Option<usize>,
}

pub(super) struct Asked {
    pub(super) request: usize,
    pub(super) step: usize,
    pub(super) put_ns: f64,
    /// The thread of the first tier that waits for the others.
    pub(super) caller: Option<usize>,
}

/// The decision for a kind.
#[derive(Clone, Copy)]
pub(super) struct Placed {
    pub(super) actuation: Actuation,
    pub(super) mask: Mask,
}

#[derive(PartialEq)]
pub(super) struct Event {
    pub(super) at_ns: f64,
    pub(super) cpu: usize,
    pub(super) version: u32,
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        other.at_ns.total_cmp(&self.at_ns).then(other.cpu.cmp(&self.cpu))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The kernel's time slice: how long a thread runs while another waits.
pub(super) const SLICE_NS: f64 = 3e6;
