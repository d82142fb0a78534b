//! A run: its threads, start, measurement interval and result.

use super::shared::Shared;
use super::worker::{Counted, Place, Worker};
use super::{Logs, Patience};
use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::measure::{interval, DriverPart, Ending, Run, RunResult};
use crate::order::{Mode, RunOrder};
use crate::terminals::Source;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Work};
use hardmeter_session::{Progress, Stop};
use rustix::time::{clock_gettime, ClockId};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Creates the source of transactions for an order and a thread number.
pub type Sources<'a> = dyn Fn(&RunOrder, u32) -> Box<dyn Source + Send> + Sync + 'a;

/// Interval of checks for a request to stop.
const LOOK_UP: Duration = Duration::from_millis(100);

/// As [`super::drive`], with other terminals and patience.
///
/// # Errors
///
/// As [`super::drive`].
pub fn drive_with(
    order: &RunOrder,
    backends: &dyn Backends,
    sources: &Sources,
    logs: &Logs,
    patience: Patience,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<RunResult, TpccError> {
    if order.connections == 0 || order.warehouses == 0 {
        return Err(TpccError::BadOrder {
            reason: "it has no connection, or no warehouse".into(),
            remedy: "give at least one of each: --connections, --warehouses".into(),
        });
    }
    let order = &RunOrder { threads: order.threads.clamp(1, order.connections), ..order.clone() };
    logs.create()?;
    let clock = order.start_at.map_or_else(Clock::start, Clock::beginning_at);
    let interval = interval(order);
    let shared = Shared::new(interval.end);
    let (told, tidings) = channel();
    let counted = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..order.threads)
            .map(|number| {
                let (start, started) = channel();
                let thread = Thread {
                    place: Place { order, number, patience, shared: &shared },
                    told: told.clone(),
                    started,
                };
                let body = move || thread.run(backends, sources, logs, clock);
                let name = format!("driver {number}");
                let handle = std::thread::Builder::new().name(name).spawn_scoped(scope, body);
                (start, handle.expect("a thread can be had"))
            })
            .collect();
        drop(told);
        let starts = threads.iter().map(|(start, _)| start.clone()).collect();
        let over = Conductor { order, clock, shared: &shared, tidings, stop, progress }.conduct(starts);
        let mut counted = Vec::new();
        for (start, handle) in threads {
            // Threads that have not been started end.
            drop(start);
            match handle.join() {
                Ok(thread) => counted.extend(thread),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        over.map(|over| (over, counted))
    });
    let (over, counted): (Over, Vec<Counted>) = counted?;
    let driver = DriverPart {
        host: host_name(),
        first_warehouse: order.first_warehouse,
        warehouses: order.warehouses,
        terminals: match order.mode {
            Mode::Closed { clients } => clients,
            _ => over.terminals,
        },
        started_at: over.clock.calendar_at_start(),
        clock_step_seconds: over.clock.stepped_by(),
        cpu_seconds: over.cpu_seconds,
        resident_bytes: resident_peak(),
        abandoned: counted.iter().map(|thread| u64::from(thread.abandoned)).sum(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
    };
    let run =
        Run { order, started_at: driver.started_at, ended: over.ended, ending: shared.ending(), driver };
    Ok(run.result(counted.into_iter().map(|counted| counted.recorder)))
}

/// A message of a thread to the conductor.
enum Tiding {
    /// Its connections are ready; its number of terminals.
    Ready(u32),
    /// It could not connect.
    Cannot(TpccError),
    /// It has finished.
    Done,
    /// It panicked: the run is invalid.
    Panicked,
}

/// Sends a message if its thread panics: the conductor would wait for it without end.
struct Alarm(Sender<Tiding>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.send(Tiding::Panicked);
        }
    }
}

/// A thread of the driver.
struct Thread<'a> {
    place: Place<'a>,
    told: Sender<Tiding>,
    /// When the run begins, by the clock that the backends were opened with.
    started: Receiver<Micros>,
}

impl Thread<'_> {
    fn run(self, backends: &dyn Backends, sources: &Sources, logs: &Logs, clock: Clock) -> Option<Counted> {
        let _alarm = Alarm(self.told.clone());
        let Place { order, number, .. } = self.place;
        let share = order.connections / order.threads + u32::from(number < order.connections % order.threads);
        let opened = backends.open(share, clock).and_then(|backend| Ok((backend, logs.open(clock)?)));
        let (backend, mut writers) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // The receiver is gone if another thread could not connect either.
                let _ = self.told.send(Tiding::Cannot(error));
                return None;
            }
        };
        let mut source = sources(order, number);
        let _ = self.told.send(Tiding::Ready(source.terminals()));
        let begun = self.started.recv().ok()?;
        let time = clock.begun_at(begun);
        writers.calendar_is(time);
        let mut backend = Shifted { backend, begun };
        let counted = Worker::new(self.place, time, &mut backend, &mut *source, writers).run();
        let _ = self.told.send(Tiding::Done);
        Some(counted)
    }
}

/// A backend was opened before the run began, with a clock that began earlier than the run's.
struct Shifted {
    backend: Box<dyn Backend>,
    begun: Micros,
}

impl Backend for Shifted {
    fn connections(&self) -> u32 {
        self.backend.connections()
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        self.backend.submit(connection, work, now + self.begun);
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let before = done.len();
        let waited = self.backend.wait(until.map(|until| until + self.begun), done);
        for completion in &mut done[before..] {
            completion.dispatched = completion.dispatched.saturating_sub(self.begun);
            completion.answered = completion.answered.saturating_sub(self.begun);
        }
        waited
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        self.backend.reconnect(connection)
    }
}

/// The calling thread: starts the others, watches the clock and requests to stop.
struct Conductor<'a> {
    order: &'a RunOrder,
    /// The clock of the backends.
    clock: Clock,
    shared: &'a Shared,
    tidings: Receiver<Tiding>,
    stop: &'a Stop,
    progress: &'a dyn Progress,
}

/// The observations of a finished run.
struct Over {
    clock: Clock,
    ended: Micros,
    terminals: u32,
    cpu_seconds: f64,
}

impl Conductor<'_> {
    fn conduct(self, starts: Vec<Sender<Micros>>) -> Result<Over, TpccError> {
        let terminals = self.gather(starts.len())?;
        let begun = match self.order.start_at {
            None => self.clock.now(),
            Some(at) => {
                self.await_start(at)?;
                Micros::ZERO
            }
        };
        if self.stop.asked() {
            self.shared.end(Micros::ZERO, Ending::Interrupted);
        }
        let clock = self.clock.begun_at(begun);
        for start in &starts {
            // A thread whose receiver is gone has panicked; it is joined below.
            let _ = start.send(begun);
        }
        let cpu_seconds = self.watch(&clock, starts.len());
        Ok(Over { clock, ended: self.shared.ended(), terminals, cpu_seconds })
    }

    /// Waits until all are connected; returns the number of terminals.
    fn gather(&self, threads: usize) -> Result<u32, TpccError> {
        self.progress.phase("connecting", threads as u64);
        let mut terminals = 0;
        for _ in 0..threads {
            match self.tidings.recv() {
                Ok(Tiding::Ready(own)) => terminals += own,
                Ok(Tiding::Cannot(error)) => return Err(error),
                Ok(Tiding::Done | Tiding::Panicked) | Err(_) => {
                    self.shared.end(Micros::ZERO, panicked());
                    break;
                }
            }
            self.progress.advance(1);
        }
        Ok(terminals)
    }

    /// Waits until the given calendar time, or a request to stop.
    fn await_start(&self, at: u64) -> Result<(), TpccError> {
        let late = self.clock.now();
        if late > interval(self.order).start {
            return Err(TpccError::TooLate { late_seconds: late.as_seconds() });
        }
        while self.clock.now() == Micros::ZERO && !self.stop.asked() {
            let left = at.saturating_sub(Clock::start().calendar_at_start()).max(1);
            std::thread::sleep(Duration::from_micros(left).min(LOOK_UP));
        }
        Ok(())
    }

    /// Waits until all threads have finished; returns the CPU seconds of the measurement interval.
    fn watch(&self, clock: &Clock, threads: usize) -> f64 {
        let edge = interval(self.order).start;
        let seconds = |time: f64| time.ceil() as u64;
        self.progress.phase("ramping up", seconds(self.order.ramp_seconds));
        let (mut shown, mut left) = (0, threads);
        let (mut before, mut after) = (None, None);
        while left > 0 {
            let now = clock.now();
            if self.stop.asked() {
                self.shared.end(now, Ending::Interrupted);
            }
            if now >= edge && before.is_none() {
                before = Some(cpu_seconds());
                self.progress.phase("measuring", seconds(self.order.interval_seconds));
                shown = edge.0 / 1_000_000;
            }
            if now >= self.shared.ended() && after.is_none() {
                after = Some(cpu_seconds());
            }
            let second = now.min(self.shared.ended()).0 / 1_000_000;
            if second > shown {
                self.progress.advance(second - shown);
                shown = second;
            }
            let next = [edge, self.shared.ended()].into_iter().filter(|&moment| moment > now);
            let next = next.min().map_or(LOOK_UP, |moment| Duration::from(moment - now).min(LOOK_UP));
            match self.tidings.recv_timeout(next) {
                Ok(Tiding::Panicked) => {
                    self.shared.end(now, panicked());
                    left -= 1;
                }
                Ok(_) => left -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match (before, after.unwrap_or_else(cpu_seconds)) {
            (Some(before), after) => after - before,
            (None, _) => 0.0,
        }
    }
}

fn panicked() -> Ending {
    Ending::Failed { reason: "a thread of the driver met a broken invariant".into() }
}

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The peak resident memory of this process in bytes; 0 if unknown.
fn resident_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unknown".into(), |name| name.trim().into())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{order, success, List};
    use super::*;
    use crate::work::Kind;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A server of no data that answers at once.
    struct Prompt {
        clock: Clock,
        connections: u32,
        done: Vec<Completion>,
    }

    impl Backend for Prompt {
        fn connections(&self) -> u32 {
            self.connections
        }

        fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
            let outcome = success(work.input.kind());
            let answered = self.clock.now();
            self.done.push(Completion { connection, work, dispatched: now, answered, outcome });
        }

        fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
            if self.done.is_empty() {
                let left = until.map_or(Micros::ZERO, |until| until.saturating_sub(self.clock.now()));
                std::thread::sleep(left.into());
            }
            done.append(&mut self.done);
            Ok(())
        }

        fn reconnect(&mut self, _connection: ConnectionId) -> Result<(), TpccError> {
            Ok(())
        }
    }

    /// Opens backends and counts the requested connections.
    #[derive(Default)]
    struct Opened {
        connections: AtomicU32,
        refused: bool,
    }

    impl Backends for Opened {
        fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
            self.connections.fetch_add(connections, Ordering::Relaxed);
            if self.refused {
                return Err(TpccError::NoData { table: "warehouse".into() });
            }
            Ok(Box::new(Prompt { clock, connections, done: Vec::new() }))
        }

        fn description(&self) -> String {
            "prompt".into()
        }
    }

    struct Silent;

    impl Progress for Silent {
        fn phase(&self, _what: &str, _units: u64) {}
        fn advance(&self, _units: u64) {}
    }

    /// Each thread: a payment every millisecond for a tenth of a second.
    fn payments(_order: &RunOrder, _number: u32) -> Box<dyn Source + Send> {
        let due: Vec<_> = (0..100).map(|n| (n * 1_000, Kind::Payment, 1)).collect();
        Box::new(List::of(&due))
    }

    fn driven(order: &RunOrder, backends: &Opened, stop: &Stop) -> Result<RunResult, TpccError> {
        drive_with(order, backends, &payments, &Logs::default(), Patience::default(), stop, &Silent)
    }

    #[test]
    fn threads_share_the_connections_and_what_they_count_adds_up() {
        let order = RunOrder { threads: 3, connections: 7, interval_seconds: 0.3, ..order() };
        let backends = Opened::default();
        let result = driven(&order, &backends, &Stop::new()).unwrap();
        assert_eq!(backends.connections.into_inner(), 7);
        assert_eq!((result.ending.clone(), result.measured_seconds), (Ending::Complete, 0.3));
        assert_eq!(result.of(Kind::Payment).completed, 300);
        assert_eq!(result.drivers[0].terminals, 300);
        assert!(result.drivers[0].resident_bytes > 1 << 20 && result.drivers[0].cpu_seconds > 0.0);
    }

    #[test]
    fn there_are_no_more_threads_than_connections() {
        let order = RunOrder { threads: 8, connections: 2, interval_seconds: 0.15, ..order() };
        let result = driven(&order, &Opened::default(), &Stop::new()).unwrap();
        assert_eq!((result.order.threads, result.of(Kind::Payment).completed), (2, 200));
    }

    #[test]
    fn who_cannot_begin_says_why() {
        let refused = Opened { refused: true, ..Opened::default() };
        let error = driven(&RunOrder { threads: 2, ..order() }, &refused, &Stop::new()).unwrap_err();
        assert!(matches!(error, TpccError::NoData { .. }), "{error}");
        let none = RunOrder { connections: 0, ..order() };
        let error = driven(&none, &Opened::default(), &Stop::new()).unwrap_err();
        assert!(matches!(error, TpccError::BadOrder { .. }), "{error}");
        let long_ago = Clock::start().calendar_at_start() - 60_000_000;
        let late = RunOrder { start_at: Some(long_ago), ramp_seconds: 1.0, ..order() };
        let error = driven(&late, &Opened::default(), &Stop::new()).unwrap_err();
        assert!(error.to_string().starts_with("the run was to begin 60 s ago"), "{error}");
    }

    #[test]
    fn drivers_begin_when_the_calendar_says_so() {
        let soon = Clock::start().calendar_at_start() + 200_000;
        let order = RunOrder { start_at: Some(soon), interval_seconds: 0.2, ..order() };
        let result = driven(&order, &Opened::default(), &Stop::new()).unwrap();
        assert_eq!((result.started_at, result.drivers[0].started_at), (soon, soon));
        assert_eq!(result.of(Kind::Payment).completed, 100);
    }

    #[test]
    fn who_is_stopped_before_the_interval_has_a_result_of_nothing() {
        let stop = Stop::new();
        stop.ask();
        let order = RunOrder { interval_seconds: 3600.0, ..order() };
        let result = driven(&order, &Opened::default(), &stop).unwrap();
        assert_eq!((result.ending.clone(), result.measured_seconds), (Ending::Interrupted, 0.0));
        assert_eq!(result.throughput(), 0.0);
    }
}
