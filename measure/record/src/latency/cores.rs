//! Measures how long a line takes from one core to another: two threads, each on its own processor, write a
//! number alternately.

use super::median;
use hardmeter_samples::machine_latency::CorePair;
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Barrier;
use std::time::Instant;

/// Maximum number of pairs measured: sixteen processors would have 120.
const PAIRS: usize = 32;
/// Rounds of one measurement.
const ROUNDS: u64 = 5_000;

/// A number on its own line, and the adjacent line, which the processor fetches with it.
#[repr(align(128))]
struct Line(AtomicU64);

/// Pairs of the processors on which this process may run. If there are many, they are chosen evenly.
pub(super) fn pairs(repeats: usize) -> Vec<CorePair> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let all: Vec<(usize, usize)> = (0..cpus.len())
        .flat_map(|first| (first + 1..cpus.len()).map(move |second| (first, second)))
        .map(|(first, second)| (cpus[first], cpus[second]))
        .collect();
    let step = all.len().div_ceil(PAIRS).max(1);
    all.iter().step_by(step).filter_map(|(first, second)| pair(*first, *second, repeats)).collect()
}

/// Half of a round between two processors; `None` if a thread could not be placed.
fn pair(first: usize, second: usize, repeats: usize) -> Option<CorePair> {
    let line = Line(AtomicU64::new(0));
    let ready = Barrier::new(2);
    let rounds = ROUNDS * (repeats as u64 + 1);
    let placed = |cpu: usize| {
        let mut set = CpuSet::new();
        set.set(cpu);
        sched_setaffinity(None, &set).is_ok()
    };
    // The numbers rise by one: the first thread raises even ones, the second thread odd ones.
    let (ours, theirs) = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let fine = placed(second);
            ready.wait();
            for round in 0..rounds {
                wait_for(&line, 2 * round + 1);
                line.0.store(2 * round + 2, Ordering::Release);
            }
            fine
        });
        let one = scope.spawn(|| {
            let fine = placed(first);
            ready.wait();
            let mut times = Vec::with_capacity(repeats);
            for repeat in 0..=repeats as u64 {
                let begin = Instant::now();
                for round in repeat * ROUNDS..(repeat + 1) * ROUNDS {
                    wait_for(&line, 2 * round);
                    line.0.store(2 * round + 1, Ordering::Release);
                }
                // The first rounds synchronise the threads.
                if repeat > 0 {
                    times.push(begin.elapsed().as_nanos() as f64 / ROUNDS as f64 / 2.0);
                }
            }
            fine.then_some(times)
        });
        (one.join().ok().flatten(), other.join().unwrap_or(false))
    });
    let (ns, low_ns, high_ns) = median(&ours.filter(|_| theirs)?);
    Some(CorePair { first, second, ns, low_ns, high_ns })
}

/// Spins, and yields if the other thread does not answer for long, because it may not have a processor.
fn wait_for(line: &Line, number: u64) {
    let mut spins = 0u32;
    while line.0.load(Ordering::Acquire) != number {
        spins += 1;
        if spins.is_multiple_of(1 << 16) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_of_two_processors_and_take_some_time() {
        for pair in pairs(6) {
            assert!(pair.first < pair.second, "{pair:?}");
            assert!(pair.low_ns <= pair.ns && pair.ns <= pair.high_ns && pair.ns > 0.0, "{pair:?}");
        }
    }
}
