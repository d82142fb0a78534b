//! How backends spend their time: shares of wall time that add up to all of it.
//!
//! 1. Time on a CPU and in the run queue is exact: the kernel counts it for each task (`schedstat`).
//! 2. For the rest of the wall time, the backend slept. That time is divided by the wait events of its
//!    samples.
//! 3. A backend's time is counted between the first and the last of its samples that have the kernel's
//!    counts.
//! 4. A backend that never worked during the look is left out, and counted.
//!
//! If the server's processes are not visible (another machine), all shares are by samples; the run queue is
//! then a part of running.

use super::activity::{ActivitySample, BackendSample};
use serde::Serialize;
use std::collections::BTreeMap;

/// The activity of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
    RunningUser,
    RunningKernel,
    /// User or kernel, possibly in the run queue: the server's processes are not visible.
    Running,
    RunQueue,
    Io,
    Lock,
    LwLock,
    /// It waits for its client.
    Client,
    /// Other waits (IPC, timeouts), and sleep that no sample saw.
    Other,
}

impl Kind {
    /// Its name in views.
    pub fn name(self) -> &'static str {
        match self {
            Kind::RunningUser => "running, user",
            Kind::RunningKernel => "running, kernel",
            Kind::Running => "running or in the run queue",
            Kind::RunQueue => "run queue",
            Kind::Io => "I/O",
            Kind::Lock => "lock",
            Kind::LwLock => "lightweight lock",
            Kind::Client => "client",
            Kind::Other => "other",
        }
    }
}

/// A share of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The activity.
    pub kind: Kind,
    /// The wait event; empty for time on a CPU or in the run queue.
    pub event: String,
    /// Seconds, summed over backends.
    pub seconds: f64,
    /// The number of samples; for time on a CPU and in the run queue, the number of backends that were read.
    pub n: u64,
}

/// How the backends spent their time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeShares {
    /// The wall time of all backends that worked, in seconds: the sum of all shares.
    pub total: f64,
    /// The shares, largest first.
    pub shares: Vec<Share>,
    /// Backends that worked.
    pub busy: u64,
    /// Connections that never worked during the look.
    pub idle: u64,
    /// Backends that were seen only once, whose time is unknown.
    pub seen_once: u64,
    /// Samples of the backends that worked.
    pub samples: u64,
    /// Turns on a CPU of the backends that worked; 0 if they are not counted.
    pub turns: u64,
    /// True if time on a CPU and in the run queue is from the kernel's counts.
    pub exact: bool,
}

impl TimeShares {
    /// Seconds of these activities.
    pub fn seconds(&self, kinds: &[Kind]) -> f64 {
        self.shares.iter().filter(|share| kinds.contains(&share.kind)).map(|share| share.seconds).sum()
    }

    /// Seconds that were not spent waiting for the client.
    pub fn active(&self) -> f64 {
        self.total - self.seconds(&[Kind::Client])
    }

    /// Milliseconds in the run queue for each turn on a CPU, such as after each sleep.
    pub fn turn_wait_ms(&self) -> f64 {
        ratio(self.seconds(&[Kind::RunQueue]) * 1e3, self.turns as f64)
    }

    /// The part of the active time spent in these activities, 0 to 1.
    pub fn of_active(&self, kinds: &[Kind]) -> f64 {
        ratio(self.seconds(kinds), self.active())
    }

    /// The part of the active time that is saved with these seconds of CPU: waits for a CPU decrease in
    /// proportion.
    pub fn with_cpu_seconds(&self, seconds: f64) -> f64 {
        let running = self.seconds(&[Kind::RunningUser, Kind::RunningKernel, Kind::Running]);
        let queue = self.seconds(&[Kind::RunQueue]);
        ratio(seconds, running).min(1.0) * ratio(running + queue, self.active())
    }

    /// The part of the active time spent in wait events with one of these prefixes, with the number of
    /// samples.
    pub fn waits(&self, prefixes: &[&str]) -> (f64, u64) {
        let waits =
            self.shares.iter().filter(|share| prefixes.iter().any(|begin| share.event.starts_with(begin)));
        let (seconds, n) = waits.fold((0.0, 0), |(seconds, n), share| (seconds + share.seconds, n + share.n));
        (ratio(seconds, self.active()), n)
    }

    /// The shares of these samples.
    pub fn of(samples: &[ActivitySample]) -> TimeShares {
        let mut backends: BTreeMap<i32, Vec<(f64, &BackendSample)>> = BTreeMap::new();
        for sample in samples {
            for backend in &sample.backends {
                backends.entry(backend.pid).or_default().push((sample.at, backend));
            }
        }
        let mut sums: BTreeMap<(Kind, String), (f64, u64)> = BTreeMap::new();
        let mut result = TimeShares { exact: true, ..TimeShares::default() };
        for seen in backends.values() {
            let seen = counted_part(seen);
            let (Some((begin, first)), Some((end, last))) = (seen.first(), seen.last()) else { continue };
            let wall = end - begin;
            if wall <= 0.0 {
                result.seen_once += 1;
                continue;
            }
            let used = last.task.zip(first.task).map(|(last, first)| last.since(first));
            let worked = used.is_some_and(|used| used.run_ns as f64 / 1e9 > wall / 1000.0);
            if !worked && seen.iter().all(|(_, backend)| backend.waits_for_client()) {
                result.idle += 1;
                continue;
            }
            result.busy += 1;
            result.samples += seen.len() as u64;
            result.total += wall;
            result.exact &= used.is_some();
            let mut add = |kind, event: &str, seconds: f64, n| {
                let sum = sums.entry((kind, event.to_owned())).or_default();
                *sum = (sum.0 + seconds, sum.1 + n);
            };
            let mut asleep = wall;
            if let Some(used) = used {
                let (mut run, mut queue) = (used.run_ns as f64 / 1e9, used.queue_ns as f64 / 1e9);
                // The two ends are read at slightly different moments of a slice.
                let most = wall / (run + queue).max(wall);
                (run, queue) = (run * most, queue * most);
                let kernel = ratio(used.kernel_ticks as f64, (used.user_ticks + used.kernel_ticks) as f64);
                add(Kind::RunningUser, "", run * (1.0 - kernel), 1);
                add(Kind::RunningKernel, "", run * kernel, 1);
                add(Kind::RunQueue, "", queue, 1);
                result.turns += used.turns;
                asleep = (wall - run - queue).max(0.0);
            }
            let waits: Vec<(Kind, &str)> = seen
                .iter()
                .filter_map(|(_, backend)| match backend.waiting() {
                    None if used.is_none() => Some((Kind::Running, "")),
                    waiting => waiting,
                })
                .collect();
            for (kind, event) in &waits {
                add(*kind, event, asleep / waits.len() as f64, 1);
            }
            if waits.is_empty() {
                add(Kind::Other, "not sampled", asleep, 0);
            }
        }
        result.exact &= result.busy > 0;
        let share = |((kind, event), (seconds, n))| Share { kind, event, seconds, n };
        result.shares = sums.into_iter().map(share).filter(|share| share.seconds > 0.0).collect();
        result.shares.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        result
    }
}

/// The samples from the first to the last that have the kernel's counts; all of them if fewer than two have.
fn counted_part<'a, 'b>(seen: &'b [(f64, &'a BackendSample)]) -> &'b [(f64, &'a BackendSample)] {
    let counted = |(_, backend): &(f64, &BackendSample)| backend.task.is_some();
    match (seen.iter().position(counted), seen.iter().rposition(counted)) {
        (Some(first), Some(last)) if first < last => &seen[first..=last],
        _ => seen,
    }
}

/// A ratio; 0 if the denominator is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::activity::Task;

    fn backend(pid: i32, state: &str, wait: Option<(&str, &str)>, task: Option<Task>) -> BackendSample {
        BackendSample {
            pid,
            state: state.into(),
            wait_type: wait.map(|(kind, _)| kind.into()),
            wait: wait.map(|(_, event)| event.into()),
            task,
            ..BackendSample::default()
        }
    }

    fn task(run_ms: u64, queue_ms: u64, user_ticks: u64, kernel_ticks: u64) -> Option<Task> {
        let turns = queue_ms / 2;
        Some(Task {
            run_ns: run_ms * 1_000_000,
            queue_ns: queue_ms * 1_000_000,
            turns,
            user_ticks,
            kernel_ticks,
        })
    }

    #[test]
    fn shares_add_up_and_sleep_is_divided_by_samples() {
        let at = |at, waiting, task| ActivitySample {
            at,
            backends: vec![backend(7, "active", waiting, task)],
            ..ActivitySample::default()
        };
        let lock = Some(("Lock", "transactionid"));
        let client = Some(("Client", "ClientRead"));
        let samples = [
            at(0.0, lock, task(100, 10, 5, 5)),
            at(1.0, lock, task(300, 60, 20, 10)),
            at(2.0, None, task(400, 80, 20, 10)),
            at(3.0, lock, task(500, 100, 30, 10)),
            at(4.0, client, task(1100, 410, 80, 30)),
        ];
        let shares = TimeShares::of(&samples);
        // 400 ms in the queue, 200 turns.
        assert_eq!((shares.turns, shares.turn_wait_ms()), (200, 2.0));
        // 4 s: 1 s on a CPU, a quarter of it in the kernel; 0.4 s in the queue; 2.6 s asleep, 3 of 4 waits for the lock.
        let near = |kind, expected: f64| {
            let seconds = shares.seconds(&[kind]);
            assert!((seconds - expected).abs() < 1e-9, "{kind:?}: {seconds} s, not {expected}");
        };
        near(Kind::RunningUser, 0.75);
        near(Kind::RunningKernel, 0.25);
        near(Kind::RunQueue, 0.4);
        near(Kind::Lock, 1.95);
        near(Kind::Client, 0.65);
        let sum: f64 = shares.shares.iter().map(|share| share.seconds).sum();
        assert!((sum - 4.0).abs() < 1e-9 && shares.total == 4.0 && shares.exact);
        assert_eq!((shares.waits(&["transactionid"]).1, shares.busy), (3, 1));
        assert!((shares.active() - 3.35).abs() < 1e-9);
    }

    #[test]
    fn less_cpu_time_is_less_waiting_for_a_cpu() {
        let share = |kind, seconds| Share { kind, event: String::new(), seconds, n: 1 };
        let shares =
            [(Kind::RunningUser, 3.0), (Kind::RunningKernel, 1.0), (Kind::RunQueue, 4.0), (Kind::Io, 2.0)];
        let shares = shares.map(|(kind, seconds)| share(kind, seconds)).to_vec();
        let time = TimeShares { total: 10.0, shares, ..TimeShares::default() };
        // Half of 4 s of CPU, and thereby half of 4 s of waiting, of 10 s.
        assert!((time.with_cpu_seconds(2.0) - 0.4).abs() < 1e-9);
        assert!((time.with_cpu_seconds(40.0) - 0.8).abs() < 1e-9);
        assert_eq!(TimeShares::default().with_cpu_seconds(1.0), 0.0);
    }

    #[test]
    fn time_without_counts_at_the_end_is_left_out() {
        let waiting = Some(("Lock", "tuple"));
        let tasks = [task(0, 0, 0, 0), None, task(1000, 0, 1, 0), None];
        let samples: Vec<ActivitySample> = tasks
            .into_iter()
            .enumerate()
            .map(|(at, task)| ActivitySample {
                at: at as f64,
                backends: vec![backend(7, "active", waiting, task)],
                ..ActivitySample::default()
            })
            .collect();
        let shares = TimeShares::of(&samples);
        // Counts at 0 and 2 s: one second on a CPU, one in the lock.
        assert_eq!((shares.total, shares.exact, shares.samples), (2.0, true, 3));
        assert!((shares.seconds(&[Kind::Lock]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn idle_connections_are_left_out_and_far_servers_are_sampled() {
        let idle = || backend(1, "idle", Some(("Client", "ClientRead")), task(10, 0, 1, 0));
        let far = |wait| backend(2, "active", wait, None);
        let io = Some(("IO", "DataFileRead"));
        let samples: Vec<ActivitySample> = [None, io, None, None]
            .into_iter()
            .enumerate()
            .map(|(at, wait)| ActivitySample {
                at: at as f64,
                backends: vec![idle(), far(wait)],
                ..ActivitySample::default()
            })
            .collect();
        let shares = TimeShares::of(&samples);
        assert_eq!((shares.idle, shares.busy, shares.exact, shares.total), (1, 1, false, 3.0));
        assert!((shares.seconds(&[Kind::Running]) - 2.25).abs() < 1e-9);
        assert!((shares.seconds(&[Kind::Io]) - 0.75).abs() < 1e-9);
    }
}
