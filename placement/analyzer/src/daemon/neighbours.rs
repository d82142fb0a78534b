//! Who else works in the caches of our processors? A virtual machine's kernel is told of cores and caches that the host may put
//! together anew each second: two of its processors on one core, a stranger beside them. Then two queues share one L2, and nothing that
//! placement keeps apart stays apart. So two processors that should each have an L2 of their own are looked at, again and again: one
//! waits, and counts what is gone, while the other rests and while it streams.

use crate::model::Machine;
use crate::state::Neighbours;
use std::collections::VecDeque;

/// Looks of each kind; at 0.3 ms a piece, about 10 ms of two processors.
const LOOKS: u32 = 16;
const LOOKS_MAX: usize = 32;
/// Fewer were left by context switches: nothing is known.
const FEWEST: u32 = 6;
/// What is told is of so many latest looks.
const KEPT: usize = 60;
/// Of the lines that are left while the other rests, the share that goes while it streams: more, and they share a cache. A stream through
/// 4 MB replaced 55 to 95 % of it in 200 us where they did, on an EPYC, and nothing where they did not.
const SHARED: f64 = 0.3;

/// As in libsplit/src/probe_discover.h.
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

/// What a look told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    Together,
    Apart,
    Unclear,
}

/// The latest looks.
#[derive(Debug)]
pub(super) struct Watch {
    /// Processors that should not share an L2.
    pairs: Vec<(u32, u32)>,
    next: usize,
    latest: VecDeque<(Verdict, f64)>,
}

impl Watch {
    pub fn new(machine: &Machine) -> Watch {
        Watch { pairs: pairs(machine), next: 0, latest: VecDeque::new() }
    }

    /// Looks at the next pair. `None`: there is none, or nothing could be seen.
    pub fn look(&mut self, probe: *const Opened) -> Option<Neighbours> {
        let &(cpu, other) = self.pairs.get(self.next % self.pairs.len().max(1))?;
        self.next += 1;
        let mut looks = Looks::default();
        // SAFETY: the probe is open as long as the call lasts, and so are its arguments; LOOKS fit into the arrays.
        let seen = unsafe { split_discover_look(probe, cpu, &other, 1, LOOKS, &mut looks) };
        if !seen || looks.resting < FEWEST || looks.streaming < FEWEST {
            return None;
        }
        if self.latest.len() == KEPT {
            self.latest.pop_front();
        }
        self.latest.push_back((verdict(&looks), moments(&looks.while_resting, looks.resting).0));
        Some(self.told())
    }

    fn told(&self) -> Neighbours {
        let count =
            |wanted: Verdict| self.latest.iter().filter(|(verdict, _)| *verdict == wanted).count() as u32;
        let others = self.latest.iter().map(|(_, share)| share).sum::<f64>() / self.latest.len() as f64;
        Neighbours {
            looks: self.latest.len() as u32,
            together: count(Verdict::Together),
            unclear: count(Verdict::Unclear),
            by_others: others,
        }
    }
}

/// Each processor and the next one with another L2: all of them are looked at in turn, and on two processors each at the other.
fn pairs(machine: &Machine) -> Vec<(u32, u32)> {
    let cpus = &machine.cpus;
    let other = |index: usize| {
        let behind = cpus[index + 1..].iter().chain(&cpus[..index]);
        behind
            .into_iter()
            .find(|other| other.l2 != cpus[index].l2)
            .map(|other| (cpus[index].id.0, other.id.0))
    };
    (0..cpus.len()).filter_map(other).collect()
}

/// Of the first `count`: their mean, and its standard error.
fn moments(shares: &[f32], count: u32) -> (f64, f64) {
    let n = f64::from(count);
    let shares = shares.iter().take(count as usize).map(|&share| f64::from(share));
    let (sum, squares) =
        shares.fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    let mean = sum / n;
    (mean, ((squares / n - mean * mean).max(0.0) / n).sqrt())
}

/// Only what is sure by two standard errors on both sides. Where strangers leave nothing, nobody else's doing can be seen.
fn verdict(looks: &Looks) -> Verdict {
    let (resting, error) = moments(&looks.while_resting, looks.resting);
    let (streaming, other_error) = moments(&looks.while_streaming, looks.streaming);
    let (left, left_beside) = (1.0 - resting, 1.0 - streaming);
    let at_least = (left - 2.0 * error) * (1.0 - SHARED);
    let at_most = (left + 2.0 * error) * (1.0 - SHARED);
    if left_beside + 2.0 * other_error < at_least {
        Verdict::Together
    } else if left_beside - 2.0 * other_error > at_most {
        Verdict::Apart
    } else {
        Verdict::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cpu, CpuId};

    fn looks(resting: &[f32], streaming: &[f32]) -> Looks {
        let mut looks =
            Looks { resting: resting.len() as u32, streaming: streaming.len() as u32, ..Looks::default() };
        looks.while_resting[..resting.len()].copy_from_slice(resting);
        looks.while_streaming[..streaming.len()].copy_from_slice(streaming);
        looks
    }

    /// Nothing goes at rest, 80 % beside a stream: one cache. 10 % both times: two. All both times: nobody can tell.
    #[test]
    fn a_stream_next_door_is_seen_through_a_shared_cache_only() {
        assert_eq!(verdict(&looks(&[0.0; 16], &[0.8; 16])), Verdict::Together);
        assert_eq!(verdict(&looks(&[0.1; 16], &[0.1; 16])), Verdict::Apart);
        assert_eq!(verdict(&looks(&[1.0; 16], &[1.0; 16])), Verdict::Unclear);
        // Half of the looks all, half of them nothing, both times: 0.5 +- 0.25 is not told from 0.35.
        let noise: Vec<f32> = (0..16).map(|turn| (turn % 2) as f32).collect();
        assert_eq!(verdict(&looks(&noise, &noise)), Verdict::Unclear);
        // Strangers take half; of what they leave a stream takes 60 %.
        assert_eq!(verdict(&looks(&[0.5; 16], &[0.8; 16])), Verdict::Together);
        // And 20 %: less than any stream would.
        assert_eq!(verdict(&looks(&[0.5; 16], &[0.6; 16])), Verdict::Apart);
    }

    #[test]
    fn processors_are_paired_with_such_of_another_cache() {
        let cpu = |id, l2| Cpu { id: CpuId(id), core: l2, l2, l3: 0, node: 0 };
        let machine = |cpus| Machine { source: String::new(), cpus, l2_bytes: 0, l3_bytes: 0 };
        let four = machine(vec![cpu(0, 0), cpu(1, 0), cpu(4, 1), cpu(5, 1)]);
        assert_eq!(pairs(&four), [(0, 4), (1, 4), (4, 0), (5, 0)]);
        assert_eq!(pairs(&machine(vec![cpu(0, 0), cpu(1, 1)])), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&machine(vec![cpu(0, 0), cpu(1, 0)])), [], "one L2");
        assert_eq!(pairs(&machine(vec![cpu(3, 0)])), []);
    }

    #[test]
    fn the_latest_looks_are_told() {
        let mut watch = Watch { pairs: Vec::new(), next: 0, latest: VecDeque::new() };
        watch.latest.extend([(Verdict::Together, 0.0), (Verdict::Apart, 0.1), (Verdict::Unclear, 0.8)]);
        let told = watch.told();
        assert_eq!((told.looks, told.together, told.unclear), (3, 1, 1));
        assert!((told.by_others - 0.3).abs() < 1e-12);
    }
}
