//! Detects other work in the caches of the processors. The cores and caches of a virtual machine may be mapped
//! differently by the host each second: two of its processors on one core, another guest beside them. Then two
//! queues share one L2, and nothing that placement keeps apart stays apart. So pairs of processors that should have
//! separate L2 caches are measured periodically: one waits and counts evicted lines, first while the thread on the
//! other rests, then while it streams.

use crate::machine;
use crate::model::{CpuSet, Machine, Moments};
use crate::state::Neighbours;
use std::collections::VecDeque;

/// The number of measurements of each kind; at 0.3 ms each they take about 10 ms of two processors.
const LOOKS: u32 = 16;
const LOOKS_MAX: usize = 32;
/// If context switches, or streams that did not run, leave fewer measurements, there is no result.
const FEWEST: u32 = 6;
/// Results cover this number of latest checks.
const KEPT: usize = 60;
/// The share of evicted lines, of those left while the other processor rests, above which two processors share a
/// cache. A stream through 4 MB replaced 55 to 95 % of it in 200 us where they did, on an EPYC, and nothing where
/// they did not.
const SHARED: f64 = 0.3;

/// The layout of libsplit/src/probe_discover.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    resting: u32,
    streaming: u32,
    while_resting: [f32; LOOKS_MAX],
    while_streaming: [f32; LOOKS_MAX],
}

#[repr(C)]
pub(super) struct Opened {
    _private: [u8; 0],
}

extern "C" {
    fn split_discover_look(
        probe: *const Opened,
        cpu: u32,
        others: *const u32,
        count: u32,
        looks: u32,
        found: *mut Looks,
    ) -> bool;
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Together,
    Apart,
    Unclear,
}

/// The latest checks.
#[derive(Debug)]
pub(super) struct Watch {
    machine: Machine,
    /// The number of the pair; it counts up, so that each processor is measured in turn, with another partner in
    /// each round.
    turn: usize,
    latest: VecDeque<(Verdict, f64)>,
}

impl Watch {
    pub fn new(machine: Machine) -> Watch {
        Watch { machine, turn: 0, latest: VecDeque::new() }
    }

    /// Measures the next pair; without a pair or a result the state is unchanged.
    pub fn look(&mut self, probe: *const Opened) {
        self.follow(&machine::allowed());
        let Some((cpu, other)) = pair(&self.machine, self.turn) else { return };
        self.turn += 1;
        let mut looks = Looks::default();
        // SAFETY: the probe is open as long as the call lasts, and so are its arguments; LOOKS fit into the arrays.
        let seen = unsafe { split_discover_look(probe, cpu, &other, 1, LOOKS, &mut looks) };
        if !seen || looks.resting < FEWEST || looks.streaming < FEWEST {
            return;
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        let resting = moments(&looks.while_resting, looks.resting);
        let streaming = moments(&looks.while_streaming, looks.streaming);
        self.latest.push_back((verdict(&resting, &streaming), resting.mean));
    }

    /// Reads the processors again, because processors come and go and cpusets change.
    fn follow(&mut self, allowed: &CpuSet) {
        if allowed.0.iter().eq(self.machine.cpus.iter().map(|cpu| &cpu.id)) {
            return;
        }
        if let Ok(machine) = machine::read() {
            self.machine = machine;
        }
    }

    /// The result of the latest measurements.
    pub fn told(&self) -> Neighbours {
        let count =
            |wanted: Verdict| self.latest.iter().filter(|(verdict, _)| *verdict == wanted).count() as u32;
        let others = self.latest.iter().map(|(_, share)| share).sum::<f64>();
        Neighbours {
            looks: self.latest.len() as u32,
            together: count(Verdict::Together),
            unclear: count(Verdict::Unclear),
            by_others: others / self.latest.len().max(1) as f64,
        }
    }
}

/// Each processor in turn, with the next processor of another L2 in each round.
fn pair(machine: &Machine, turn: usize) -> Option<(u32, u32)> {
    let cpus = &machine.cpus;
    let looked_at = cpus.get(turn % cpus.len().max(1))?;
    let others: Vec<_> = cpus.iter().filter(|other| other.l2 != looked_at.l2).collect();
    let other = others.get(turn / cpus.len() % others.len().max(1))?;
    Some((looked_at.id.0, other.id.0))
}

fn moments(shares: &[f32], count: u32) -> Moments {
    let mut moments = Moments::default();
    shares.iter().take(count as usize).for_each(|&share| moments.push(f64::from(share)));
    moments
}

/// Returns a result only if both 95 % intervals agree. Where other guests evict all lines, nothing can be detected.
fn verdict(resting: &Moments, streaming: &Moments) -> Verdict {
    let (Some(resting), Some(streaming)) = (resting.estimate(), streaming.estimate()) else {
        return Verdict::Unclear;
    };
    let left_if_shared = 1.0 - SHARED;
    if 1.0 - streaming.low < (1.0 - resting.high) * left_if_shared {
        Verdict::Together
    } else if 1.0 - streaming.high > (1.0 - resting.low) * left_if_shared {
        Verdict::Apart
    } else {
        Verdict::Unclear
    }
}

const _: () = assert!(size_of::<Looks>() == 264 && LOOKS as usize <= LOOKS_MAX);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpu, CpuId};

    fn verdict_of(resting: &[f32], streaming: &[f32]) -> Verdict {
        verdict(&moments(resting, resting.len() as u32), &moments(streaming, streaming.len() as u32))
    }

    /// No evictions at rest, 80 % beside a stream: one cache. 10 % both times: two. All both times: undecided.
    #[test]
    fn a_stream_next_door_is_seen_through_a_shared_cache_only() {
        assert_eq!(verdict_of(&[0.0; 16], &[0.8; 16]), Verdict::Together);
        assert_eq!(verdict_of(&[0.1; 16], &[0.1; 16]), Verdict::Apart);
        assert_eq!(verdict_of(&[1.0; 16], &[1.0; 16]), Verdict::Unclear);
        // Half of the measurements all, half of them none, both times: 0.5 +- 0.25 does not differ from 0.35.
        let noise: Vec<f32> = (0..16).map(|turn| (turn % 2) as f32).collect();
        assert_eq!(verdict_of(&noise, &noise), Verdict::Unclear);
        // Other guests evict half; of the rest a stream evicts 60 %.
        assert_eq!(verdict_of(&[0.5; 16], &[0.8; 16]), Verdict::Together);
        // And 20 %: less than any stream would.
        assert_eq!(verdict_of(&[0.5; 16], &[0.6; 16]), Verdict::Apart);
    }

    fn machine(cpus: &[(u32, u32)]) -> Machine {
        let cpu = |&(id, l2): &(u32, u32)| Cpu { id: CpuId(id), core: l2, l2, l3: 0, node: 0 };
        let cpus = cpus.iter().map(cpu).collect();
        Machine { source: String::new(), cpus, l2_bytes: 0, l3_bytes: 0 }
    }

    /// Two threads of each of three cores: each processor is measured in turn with another partner in the next
    /// round, never its sibling.
    #[test]
    fn processors_are_paired_with_such_of_another_cache() {
        let six = machine(&[(0, 0), (1, 0), (2, 1), (3, 1), (8, 2), (9, 2)]);
        let pairs: Vec<_> = (0..12).filter_map(|turn| pair(&six, turn)).collect();
        assert_eq!(pairs[..6], [(0, 2), (1, 2), (2, 0), (3, 0), (8, 0), (9, 0)]);
        assert_eq!(pairs[6..], [(0, 3), (1, 3), (2, 1), (3, 1), (8, 1), (9, 1)]);
        let two = machine(&[(0, 0), (1, 1)]);
        assert_eq!((pair(&two, 0), pair(&two, 7)), (Some((0, 1)), Some((1, 0))));
        assert_eq!(pair(&machine(&[(0, 0), (1, 0)]), 5), None, "one L2");
        assert_eq!(pair(&machine(&[(3, 0)]), 1), None);
        assert_eq!(pair(&machine(&[]), 0), None);
    }

    #[test]
    fn the_latest_looks_are_told() {
        let mut watch = Watch::new(machine(&[]));
        assert_eq!(watch.told(), Neighbours::default());
        watch.latest.extend([(Verdict::Together, 0.0), (Verdict::Apart, 0.1), (Verdict::Unclear, 0.8)]);
        let told = watch.told();
        assert_eq!((told.looks, told.together, told.unclear), (3, 1, 1));
        assert!((told.by_others - 0.3).abs() < 1e-12);
    }
}
