//! Measures CPU time of the server's processes against the time that they had work: wraps a backend.

use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::observe::Process;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Work};
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, PoisonError};

/// CPU use of the server's processes from the end of the ramp to the last answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gauged {
    /// Of the backends: CPU seconds, seconds ready without a CPU, seconds with work.
    pub backends: Option<Use>,
    /// CPU seconds of all the server's processes.
    pub server_cpu: Option<f64>,
}

/// Seconds of backends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// On a CPU.
    pub cpu: f64,
    /// Seconds ready without a CPU.
    pub ready: f64,
    /// Time from getting work to its answer.
    pub busy: f64,
}

impl AddAssign for Use {
    fn add_assign(&mut self, other: Use) {
        self.cpu += other.cpu;
        self.ready += other.ready;
        self.busy += other.busy;
    }
}

impl Use {
    /// cpu / (cpu + wait), where waiting for a CPU does not count as wait.
    pub fn effective_multiplicity(self) -> Option<f64> {
        // The two clocks differ: small values may come out negative.
        let had_work = self.busy - self.ready;
        (self.cpu > 0.0 && had_work > 0.0).then(|| (self.cpu / had_work).min(1.0))
    }
}

/// Observed backends: from the end of each one's ramp until it is closed.
pub(super) struct Gauge<'a> {
    backends: &'a dyn Backends,
    ramp: Micros,
    shared: Arc<Shared>,
}

struct Shared {
    server: Option<Process>,
    sums: Mutex<Sums>,
}

#[derive(Default)]
struct Sums {
    backends: Use,
    /// A backend whose processes could not be observed all the time.
    unseen: bool,
    server_before: Option<f64>,
    server_after: Option<f64>,
}

impl<'a> Gauge<'a> {
    /// Wraps backends of a server whose first process may be known.
    pub fn around(backends: &'a dyn Backends, server: Option<Process>, ramp: Micros) -> Gauge<'a> {
        Gauge { backends, ramp, shared: Arc::new(Shared { server, sums: Mutex::default() }) }
    }

    /// The observations, after all backends are closed.
    pub fn read(self) -> Gauged {
        let sums = self.shared.sums();
        let seen = !sums.unseen && sums.backends.busy > 0.0;
        let server = sums.server_after.zip(sums.server_before);
        Gauged {
            backends: seen.then_some(sums.backends),
            server_cpu: server.map(|(after, before)| after - before),
        }
    }
}

impl Backends for Gauge<'_> {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        let backend = self.backends.open(connections, clock)?;
        Ok(Box::new(Gauging {
            processes: backend.server_processes(),
            backend,
            ramp: self.ramp,
            shared: self.shared.clone(),
            begun: None,
            from: None,
            busy: Micros::ZERO,
        }))
    }

    fn description(&self) -> String {
        self.backends.description()
    }
}

impl Shared {
    fn sums(&self) -> std::sync::MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is watched.
struct Gauging {
    backend: Box<dyn Backend>,
    processes: Vec<u32>,
    ramp: Micros,
    shared: Arc<Shared>,
    /// When it first had work.
    begun: Option<Micros>,
    /// Since when it is watched, and what its processes had used by then.
    from: Option<(Micros, Option<(f64, f64)>)>,
    busy: Micros,
}

impl Backend for Gauging {
    fn connections(&self) -> u32 {
        self.backend.connections()
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        self.begun.get_or_insert(now);
        self.backend.submit(connection, work, now);
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let before = done.len();
        let waited = self.backend.wait(until, done);
        for completion in &done[before..] {
            match (self.from, self.begun) {
                (Some((from, _)), _) => {
                    self.busy += completion.answered.saturating_sub(completion.dispatched.max(from));
                }
                (None, Some(begun)) if completion.answered >= begun + self.ramp => {
                    self.from = Some((completion.answered, used(&self.processes)));
                    if let Some(server) = self.shared.server {
                        let mut sums = self.shared.sums();
                        sums.server_before = sums.server_before.or_else(|| server.tree_cpu_seconds());
                    }
                }
                _ => {}
            }
        }
        waited
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        // The connection has a new process from here on; the earlier one's CPU time is lost.
        self.processes.clear();
        self.backend.reconnect(connection)
    }

    fn server_processes(&self) -> Vec<u32> {
        self.backend.server_processes()
    }
}

impl Drop for Gauging {
    /// Read before the connections are closed, while the processes exist.
    fn drop(&mut self) {
        let after = used(&self.processes);
        let mut sums = self.shared.sums();
        if let Some(server) = self.shared.server {
            sums.server_after = sums.server_after.or_else(|| server.tree_cpu_seconds());
        }
        match (self.from, after) {
            (Some((_, Some(before))), Some(after)) => {
                sums.backends +=
                    Use { cpu: after.0 - before.0, ready: after.1 - before.1, busy: self.busy.as_seconds() };
            }
            _ => sums.unseen = true,
        }
    }
}

/// CPU seconds of processes, and seconds ready without a CPU; `None` if one of them cannot be read.
fn used(processes: &[u32]) -> Option<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for pid in processes {
        let (cpu, ready) = parse(&std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?)?;
        sum.0 += cpu;
        sum.1 += ready;
    }
    (!processes.is_empty()).then_some(sum)
}

/// `/proc/PID/schedstat`: nanoseconds on a CPU, nanoseconds ready without one, time slices.
fn parse(text: &str) -> Option<(f64, f64)> {
    let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>().ok());
    Some((numbers.next()?? as f64 / 1e9, numbers.next()?? as f64 / 1e9))
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{input, success};
    use super::*;
    use crate::work::{Kind, TerminalId};

    #[test]
    fn effective_multiplicity_is_the_part_of_its_work_that_a_process_has_a_cpu() {
        // The article's example: 40 ms of CPU, 16 disk accesses of 10 ms.
        let m = |cpu, ready, busy| Use { cpu, ready, busy }.effective_multiplicity();
        assert!((m(0.040, 0.0, 0.200).unwrap() - 0.2).abs() < 1e-12);
        // Another 0.2 s in line for a CPU change nothing.
        assert!((m(0.040, 0.2, 0.400).unwrap() - 0.2).abs() < 1e-12);
        assert_eq!(m(0.5, 0.0, 0.499), Some(1.0));
        assert_eq!(m(0.0, 0.0, 1.0), None);
        assert_eq!(m(0.1, 1.0, 1.0), None);
    }

    #[test]
    fn what_the_kernel_prints_is_read() {
        assert_eq!(parse("1500000000 250000000 17\n"), Some((1.5, 0.25)));
        assert_eq!(parse("0"), None);
        assert_eq!(parse("a b c"), None);
        assert_eq!(used(&[]), None);
        assert_eq!(used(&[u32::MAX]), None);
    }

    /// Completes at each wait; each transaction takes 30 ms of the given clock.
    struct Ours(Option<Completion>);

    impl Backend for Ours {
        fn connections(&self) -> u32 {
            1
        }
        fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
            let outcome = success(work.input.kind());
            let answered = now + Micros(30_000);
            self.0 = Some(Completion { connection, work, dispatched: now, answered, outcome });
        }
        fn wait(&mut self, _until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
            done.extend(self.0.take());
            Ok(())
        }
        fn reconnect(&mut self, _connection: ConnectionId) -> Result<(), TpccError> {
            Ok(())
        }
        fn server_processes(&self) -> Vec<u32> {
            // This thread plays the server.
            vec![rustix::thread::gettid().as_raw_nonzero().get() as u32]
        }
    }

    struct Opens;

    impl Backends for Opens {
        fn open(&self, _connections: u32, _clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
            Ok(Box::new(Ours(None)))
        }
        fn description(&self) -> String {
            String::new()
        }
    }

    fn gauged(transactions: u64, reconnect: bool) -> Gauged {
        let gauge = Gauge::around(&Opens, Process::of(std::process::id()), Micros(50_000));
        let mut backend = gauge.open(1, Clock::start()).unwrap();
        for number in 0..transactions {
            let now = Micros(number * 40_000);
            let work =
                Work { terminal: TerminalId(0), input: input(Kind::Payment, 1), due: now, entered: now };
            backend.submit(ConnectionId(0), work, now);
            backend.wait(None, &mut Vec::new()).unwrap();
        }
        if reconnect {
            backend.reconnect(ConnectionId(0)).unwrap();
        }
        // The kernel updates a thread's CPU time at intervals: wait for an update.
        let (begin, before) = (std::time::Instant::now(), used(&backend.server_processes()));
        while used(&backend.server_processes()) == before {
            assert!(begin.elapsed().as_secs() < 60, "no CPU time goes by");
        }
        drop(backend);
        gauge.read()
    }

    #[test]
    fn the_ramp_does_not_count_and_a_new_process_spoils_it() {
        // Answered at 30, 70, 110, 150 ms: the second one ends the ramp, two count.
        let seen = gauged(4, false).backends.unwrap();
        assert!((seen.busy - 0.060).abs() < 1e-9, "{seen:?}");
        assert!(seen.cpu > 0.0);
        assert_eq!(gauged(4, true).backends, None);
        assert_eq!(gauged(1, false), Gauged::default(), "it never got beyond the ramp, but {:?}", seen);
    }
}
