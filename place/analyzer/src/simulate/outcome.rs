//! The results of a simulation.

use crate::model::{Class, KindRef};
use crate::state;
use serde::Serialize;

/// Sums while it runs.
#[derive(Debug)]
pub struct Tally {
    /// Processor time.
    pub busy_ns: f64,
    /// Threads that changed their processor.
    pub moves: u64,
    requests: Vec<Vec<f32>>,
    kinds: Vec<(Vec<f32>, f64)>,
}

impl Tally {
    /// All sums are zero.
    pub fn new(kinds: usize, requests: usize) -> Tally {
        Tally {
            busy_ns: 0.0,
            moves: 0,
            requests: vec![Vec::new(); requests],
            kinds: vec![(Vec::new(), 0.0); kinds],
        }
    }

    /// Starts counting again.
    pub fn clear(&mut self) {
        *self = Tally::new(self.kinds.len(), self.requests.len());
    }

    /// Adds an answered request.
    pub fn request(&mut self, request: usize, elapsed_ns: f64) {
        self.requests[request].push((elapsed_ns / 1e3) as f32);
    }

    /// Adds a section that ended.
    pub fn section(&mut self, kind: usize, elapsed_ns: f64, own_ns: f64) {
        self.kinds[kind].0.push((elapsed_ns / 1e3) as f32);
        self.kinds[kind].1 += own_ns / 1e3;
    }
}

/// Times of a kind, or of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Its display name.
    pub name: String,
    /// The kind, unless these are times of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindRef>,
    /// The class found by the analyzer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The number.
    pub count: u64,
    /// Mean processor time in microseconds; unknown for requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_us: Option<f64>,
    /// The median time from the request to its end, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The mean.
    pub mean_us: f64,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The policy's name; "default": the kernel's scheduler alone.
    pub policy: String,
    /// Requests a second.
    pub throughput: f64,
    /// Processor time of a request, in microseconds.
    pub cpu_us: f64,
    /// The utilisation of the processors, 0 to 1.
    pub busy: f64,
    /// Threads that changed their processor, a second.
    pub moves_per_second: f64,
    /// The number of changes of the plan during the measurement.
    pub changes: u64,
    /// Times of whole requests.
    pub requests: Vec<Times>,
    /// Times of each kind.
    pub kinds: Vec<Times>,
    /// The guard's result, if there was a guard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<state::Guard>,
    /// The policy's last warnings.
    pub remarks: Vec<String>,
    /// The last place of each kind; kinds without a place are left out.
    pub places: Vec<String>,
}

impl Outcome {
    /// Its processor time divided by another's, minus 1: -0.2 is 20 % less.
    pub fn cpu_against(&self, other: &Outcome) -> f64 {
        self.cpu_us / other.cpu_us - 1.0
    }

    /// The time of all the same requests relative to another's, minus 1: -0.2 is 20 % shorter.
    pub fn makespan_against(&self, other: &Outcome) -> f64 {
        other.throughput / self.throughput - 1.0
    }
}

/// Computes an outcome from sums.
pub fn outcome(
    policy: &str,
    tally: &mut Tally,
    seconds: f64,
    cpus: usize,
    kinds: Vec<(String, KindRef, Class)>,
    requests: Vec<String>,
) -> Outcome {
    let answered: usize = tally.requests.iter().map(Vec::len).sum();
    let requests = requests
        .into_iter()
        .zip(&mut tally.requests)
        .map(|(name, times)| times_of(name, None, times, None))
        .collect();
    let kinds = kinds
        .into_iter()
        .zip(&mut tally.kinds)
        .map(|((name, kind, class), (times, own))| times_of(name, Some((kind, class)), times, Some(*own)))
        .collect();
    Outcome {
        policy: policy.into(),
        throughput: answered as f64 / seconds,
        cpu_us: tally.busy_ns / 1e3 / (answered as f64).max(1.0),
        busy: tally.busy_ns / 1e9 / seconds / cpus as f64,
        moves_per_second: tally.moves as f64 / seconds,
        changes: 0,
        guard: None,
        requests,
        kinds,
        remarks: Vec::new(),
        places: Vec::new(),
    }
}

fn times_of(name: String, kind: Option<(KindRef, Class)>, times: &mut [f32], own: Option<f64>) -> Times {
    times.sort_unstable_by(f32::total_cmp);
    let count = times.len();
    let at = |share: f64| {
        let rank = (share * count as f64).ceil() as usize;
        times.get(rank.max(1) - 1).copied().map_or(0.0, f64::from)
    };
    let mean = times.iter().map(|&time| f64::from(time)).sum::<f64>() / (count as f64).max(1.0);
    Times {
        name,
        kind: kind.map(|(kind, _)| kind),
        class: kind.map(|(_, class)| class),
        count: count as u64,
        own_us: own.map(|own| own / (count as f64).max(1.0)),
        p50_us: at(0.50),
        p99_us: at(0.99),
        mean_us: mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_definition() {
        let mut times: Vec<f32> = (1_u8..=100).rev().map(f32::from).collect();
        let times = times_of("x".into(), None, &mut times, Some(500.0));
        assert_eq!((times.p50_us, times.p99_us, times.mean_us, times.own_us), (50.0, 99.0, 50.5, Some(5.0)));
        let none = times_of("x".into(), None, &mut [], None);
        assert_eq!((none.count, none.p50_us, none.mean_us), (0, 0.0, 0.0));
    }
}
