//! How the target's processes spent their time: running, waiting for a CPU, asleep. From
//! `/proc/PID/task/*/schedstat`, which the kernel updates in any case.
//!
//! ```text
//!   wall time of a process = running + in the run queue + asleep       asleep: disk (state D), else lock, client, timer
//! ```

use hardmeter_samples::model::{Pid, ProcessTime};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);

/// One process, from its first to its last reading.
#[derive(Debug, Clone, Copy)]
struct Watched {
    since: Instant,
    until: Instant,
    at_first: Schedule,
    at_last: Schedule,
    looks: u64,
    on_disk: u64,
}

/// Nanoseconds that a process ran and waited for a CPU, with all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Schedule {
    ran: u64,
    queued: u64,
}

/// Reads processes periodically.
#[derive(Debug, Default)]
pub(super) struct Waits {
    watched: BTreeMap<Pid, Watched>,
    last_look: Option<Instant>,
}

impl Waits {
    /// True if it is time for the next reading.
    pub(super) fn is_due(&self) -> bool {
        self.last_look.is_none_or(|last| last.elapsed() >= INTERVAL)
    }

    /// Reads these processes.
    pub(super) fn look(&mut self, processes: impl IntoIterator<Item = Pid>) {
        let now = Instant::now();
        self.last_look = Some(now);
        for pid in processes {
            let Some((schedule, on_disk)) = look_at(pid) else { continue }; // ended
            let watched = self.watched.entry(pid).or_insert(Watched {
                since: now,
                until: now,
                at_first: schedule,
                at_last: schedule,
                looks: 0,
                on_disk: 0,
            });
            watched.until = now;
            watched.at_last = schedule;
            watched.looks += 1;
            watched.on_disk += u64::from(on_disk);
        }
    }

    /// The time of each process that was read more than once.
    pub(super) fn times(&self) -> Vec<ProcessTime> {
        let of = |(pid, watched): (&Pid, &Watched)| {
            let wall = watched.until.duration_since(watched.since).as_nanos() as u64;
            (wall > 0).then(|| ProcessTime {
                pid: *pid,
                wall_ns: wall,
                running_ns: watched.at_last.ran.saturating_sub(watched.at_first.ran),
                run_queue_ns: watched.at_last.queued.saturating_sub(watched.at_first.queued),
                looks: watched.looks,
                looks_on_disk: watched.on_disk,
            })
        };
        self.watched.iter().filter_map(of).collect()
    }
}

/// A process's present counters, and whether it waits for a disk.
fn look_at(pid: Pid) -> Option<(Schedule, bool)> {
    let mut schedule = Schedule::default();
    for thread in crate::target::threads(pid).ok()? {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")) else {
            continue; // this thread has ended
        };
        let of_thread = schedule_of(&text)?;
        schedule.ran += of_thread.ran;
        schedule.queued += of_thread.queued;
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some((schedule, state_of(&stat)? == 'D'))
}

/// `ran queued times`, in nanoseconds.
fn schedule_of(schedstat: &str) -> Option<Schedule> {
    let mut numbers = schedstat.split_whitespace().map(str::parse);
    Some(Schedule { ran: numbers.next()?.ok()?, queued: numbers.next()?.ok()? })
}

/// The third field: after the name, which may contain any character.
fn state_of(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_files_are_read() {
        assert_eq!(schedule_of("1500 20 3\n"), Some(Schedule { ran: 1500, queued: 20 }));
        assert_eq!(schedule_of(""), None);
        assert_eq!(state_of("17 (a) b) D 1 1"), Some('D'));
        assert_eq!(state_of("17"), None);
    }

    /// Reads a process with one thread: the times of threads that end between two readings are lost.
    #[test]
    fn a_process_that_works_has_run() {
        let mut shell = std::process::Command::new("sh");
        let mut child = shell.args(["-c", "while :; do :; done"]).spawn().expect("sh starts");
        let pid = Pid(child.id() as i32);
        let mut waits = Waits::default();
        assert!(waits.is_due());
        waits.look([pid, Pid(i32::MAX)]);
        assert!(waits.times().is_empty(), "one look is not a time");
        let started = Instant::now();
        let mut looks = 1;
        while waits.times().first().is_none_or(|time| time.running_ns == 0) {
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", waits.times());
            std::thread::sleep(Duration::from_millis(5));
            waits.look([pid]);
            looks += 1;
        }
        child.kill().expect("it lives");
        child.wait().expect("it has ended");
        let times = waits.times();
        assert_eq!((times.len(), times[0].pid, times[0].looks), (1, pid, looks));
    }
}
