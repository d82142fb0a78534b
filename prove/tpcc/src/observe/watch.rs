//! Observes a server during a run: two threads of negligible cost, one for `/proc`, one for queries to the server.

use super::pins::Pins;
use super::processes::Process;
use super::server::{Look, Server};
use crate::measure::{Checkpoint, ServerCost};
use crate::time::{Clock, Micros};
use hardmeter_session::Stop;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of the observations.
const PERIOD: Duration = Duration::from_secs(1);

/// Observes until it is stopped.
pub struct Watch {
    clock: Clock,
    stop: Stop,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Observations, in seconds since the start of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Checkpoints that were done.
    pub checkpoints: Vec<Checkpoint>,
    /// CPU seconds in the requested interval; `None` if the server's processes were not visible all the time.
    pub server: Option<ServerCost>,
    /// Other events.
    pub remarks: Vec<String>,
}

#[derive(Default)]
struct Shared {
    ended: Mutex<bool>,
    told: Condvar,
    notes: Mutex<Notes>,
}

/// Times are of the watch's own clock.
#[derive(Debug, Default)]
struct Notes {
    server: Option<Process>,
    /// CPU seconds of all processes of the server, by time.
    cpu: Vec<(Micros, f64)>,
    checkpoints: Vec<(Micros, bool)>,
    /// When the server was away, and for how long; `None`: it did not come back.
    absences: Vec<(Micros, Option<Micros>)>,
    /// The times at which a restart was detected.
    restarts: Vec<Micros>,
    refused_checkpoint: Option<String>,
    /// Whether the server's processes were others at a later look.
    lost_sight: bool,
}

impl Watch {
    /// Starts to observe; requests a checkpoint at an interval in seconds, if given. `stop` cancels only the
    /// observer's own statements.
    pub fn start(
        server: Box<dyn Server>,
        stop: Stop,
        checkpoint_every: Option<Duration>,
        pins: Option<Arc<Pins>>,
    ) -> Watch {
        let clock = Clock::start();
        let shared = Arc::new(Shared::default());
        shared.notes().server = server.first_process();
        let (one, other) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || watch_processes(&one, clock, pins.as_deref())),
            std::thread::spawn(move || watch_server(&other, clock, server, checkpoint_every)),
        ];
        Watch { clock, stop, shared, threads }
    }

    /// Stops. `run_began` is the start of the run in calendar time, microseconds since 1970; `interval` is the
    /// measurement interval in the run's time.
    pub fn end(self, run_began: u64, interval: Range<Micros>) -> Seen {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.told.notify_all();
        self.stop.ask();
        for thread in self.threads {
            // A panic in that thread is a bug, but does not affect the run's own figures.
            let _ = thread.join();
        }
        let offset = run_began as i64 - self.clock.calendar_at_start() as i64;
        self.shared.notes().seen(offset, interval)
    }
}

impl Shared {
    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses; returns whether to continue.
    fn goes_on(&self, pause: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(ended, pause, |ended| !*ended);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn watch_processes(shared: &Shared, clock: Clock, pins: Option<&Pins>) {
    let mut last = false;
    loop {
        let server = shared.notes().server;
        if let Some(server) = server {
            let cpu = server.tree_cpu_seconds();
            let mut notes = shared.notes();
            match cpu {
                Some(seconds) => notes.cpu.push((clock.now(), seconds)),
                None => notes.lost_sight = true,
            }
        }
        if let Some(pins) = pins {
            // Autovacuum workers come and go; processes that cannot be bound were reported at the start.
            let _ = pins.bind_daemons();
        }
        if last {
            return;
        }
        last = !shared.goes_on(PERIOD);
    }
}

fn watch_server(
    shared: &Shared,
    clock: Clock,
    mut server: Box<dyn Server>,
    checkpoint_every: Option<Duration>,
) {
    let mut last: Option<Look> = None;
    let mut next_checkpoint = checkpoint_every.map(Micros::from);
    let mut asked = false;
    loop {
        match server.look() {
            Ok(look) => {
                note_look(&mut shared.notes(), last.as_ref(), &look, asked, clock.now());
                asked = false;
                last = Some(look);
            }
            // Cancelled by ourselves.
            Err(_) if shared.has_ended() => return,
            Err(_) => note_absence(shared, clock, server.as_mut()),
        }
        if let (Some(due), Some(every)) = (next_checkpoint, checkpoint_every) {
            if clock.now() >= due {
                next_checkpoint = Some(due + every.into());
                let done = server.checkpoint();
                asked = done.is_ok();
                if let (Err(error), false) = (done, shared.has_ended()) {
                    shared.notes().refused_checkpoint.get_or_insert(error.to_string());
                }
                continue; // it has just finished: observe it now
            }
        }
        if !shared.goes_on(PERIOD) {
            return;
        }
    }
}

/// `asked`: a checkpoint requested by this observer completed since the last observation.
fn note_look(notes: &mut Notes, last: Option<&Look>, look: &Look, asked: bool, now: Micros) {
    let Some(last) = last else { return };
    let requested = asked || look.requested > last.requested;
    if last.start != look.start {
        notes.restarts.push(now);
    } else if last.last_checkpoint != look.last_checkpoint {
        notes.checkpoints.push((now, requested));
    } else if let (true, Some(checkpoint)) = (requested, notes.checkpoints.last_mut()) {
        // PostgreSQL counts it shortly after its end: it is the one of the last observation.
        checkpoint.1 |= now.saturating_sub(checkpoint.0) < Micros::from(PERIOD * 2);
    }
}

/// The server did not answer: retries until it does, or the run ends.
fn note_absence(shared: &Shared, clock: Clock, server: &mut dyn Server) {
    let begun = clock.now();
    shared.notes().absences.push((begun, None));
    while shared.goes_on(Duration::from_millis(200)) {
        if server.reconnect().is_ok() {
            let mut notes = shared.notes();
            // The last CPU time of the earlier processes is unknown.
            notes.lost_sight |= notes.server != server.first_process();
            notes.server = server.first_process();
            if let Some(last) = notes.absences.last_mut() {
                last.1 = Some(clock.now() - begun);
            }
            return;
        }
    }
}

impl Notes {
    /// In the run's time, which began `offset` microseconds after the watch.
    fn seen(&self, offset: i64, interval: Range<Micros>) -> Seen {
        let in_run = |moment: Micros| (moment.0 as i64 - offset) as f64 / 1e6;
        let mut remarks = Vec::new();
        for &(moment, length) in &self.absences {
            remarks.push(match length {
                Some(length) => format!(
                    "the server ended connections {:.0} s after the beginning and was back after {:.1} s",
                    in_run(moment),
                    length.as_seconds()
                ),
                None => format!("the server went away {:.0} s after the beginning", in_run(moment)),
            });
        }
        for &moment in &self.restarts {
            remarks
                .push(format!("the server was found restarted {:.0} s after the beginning", in_run(moment)));
        }
        if let Some(error) = &self.refused_checkpoint {
            remarks.push(format!("no checkpoint could be asked for: {error}"));
        }
        let checkpoints = self.checkpoints.iter().map(|&(moment, requested)| (in_run(moment), requested));
        let moments = [interval.start, interval.end].map(|moment| (moment.0 as i64 + offset) as f64);
        let known = !self.lost_sight && self.restarts.is_empty() && interval.start < interval.end;
        let cpu = if known { Some(self.cpu_at(moments[1]).zip(self.cpu_at(moments[0]))) } else { None };
        Seen {
            checkpoints: checkpoints
                .filter(|&(at, _)| at >= 0.0)
                .map(|(at, requested)| Checkpoint { at, requested })
                .collect(),
            server: cpu.flatten().map(|(after, before)| ServerCost { cpu_seconds: after - before }),
            remarks,
        }
    }

    /// CPU seconds at a time, interpolated linearly between two observations. `None` outside of them.
    fn cpu_at(&self, moment: f64) -> Option<f64> {
        let at = self.cpu.iter().position(|&(at, _)| at.0 as f64 >= moment).filter(|&at| at > 0)?;
        let ((t0, c0), (t1, c1)) = (self.cpu[at - 1], self.cpu[at]);
        Some(c0 + (c1 - c0) * (moment - t0.0 as f64) / (t1 - t0).0 as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TpccError;
    use std::collections::{BTreeMap, VecDeque};

    #[test]
    fn what_was_seen_is_told_in_the_time_of_the_run() {
        let mut notes = Notes::default();
        // The run began 2 s after the watch; one observation per second: 0.5 CPU seconds each, then 1.5.
        for second in 0..=10u64 {
            let cpu = if second <= 6 { 0.5 * second as f64 } else { 3.0 + 1.5 * (second - 6) as f64 };
            notes.cpu.push((Micros::seconds(second), cpu));
        }
        notes.checkpoints = vec![(Micros::seconds(1), true), (Micros::seconds(7), false)];
        notes.absences = vec![(Micros::seconds(5), Some(Micros::of_seconds(1.5)))];
        // Seconds 3 to 5.5 of the run are 5 to 7.5 of the watch: from 2.5 to 3 + 1.5 x 1.5 = 5.25.
        let seen = notes.seen(2_000_000, Micros::seconds(3)..Micros::of_seconds(5.5));
        assert!((seen.server.unwrap().cpu_seconds - 2.75).abs() < 1e-9, "{seen:?}");
        assert_eq!(seen.checkpoints, [Checkpoint { at: 5.0, requested: false }]);
        assert_eq!(
            seen.remarks,
            ["the server ended connections 3 s after the beginning and was back after 1.5 s"]
        );
        // Beyond the last observation there is no value.
        assert_eq!(notes.seen(2_000_000, Micros::ZERO..Micros::seconds(9)).server, None);
        notes.restarts.push(Micros::seconds(6));
        let seen = notes.seen(2_000_000, Micros::seconds(3)..Micros::seconds(5));
        assert_eq!(seen.server, None, "the CPU time of the processes before is gone");
        assert!(seen.remarks[1].contains("found restarted 4 s"), "{seen:?}");
    }

    #[test]
    fn a_checkpoint_that_is_counted_late_was_asked_for_all_the_same() {
        let mut notes = Notes::default();
        let look =
            |lsn: &str, requested| Look { last_checkpoint: lsn.into(), requested, start: "today".into() };
        let seconds =
            [look("0/1", 3), look("0/2", 3), look("0/2", 4), look("0/2", 4), look("0/3", 4), look("0/4", 4)];
        for (at, pair) in seconds.windows(2).enumerate() {
            note_look(&mut notes, Some(&pair[0]), &pair[1], at == 4, Micros::seconds(at as u64));
        }
        let requested: Vec<bool> = notes.checkpoints.iter().map(|checkpoint| checkpoint.1).collect();
        assert_eq!(requested, [true, false, true], "counted late; the server's own; ours");
    }

    /// Returns these observations; `None` is a lost connection. The last one repeats.
    struct Scripted(VecDeque<Option<Look>>, Look, Arc<Mutex<u32>>);

    impl Server for Scripted {
        fn first_process(&self) -> Option<Process> {
            Process::of(std::process::id())
        }
        fn settings(&mut self) -> Result<BTreeMap<String, String>, TpccError> {
            Ok(BTreeMap::new())
        }
        fn database_bytes(&mut self) -> Result<u64, TpccError> {
            Ok(0)
        }
        fn look(&mut self) -> Result<Look, TpccError> {
            match self.0.pop_front() {
                Some(Some(look)) => {
                    self.1 = look;
                    Ok(self.1.clone())
                }
                Some(None) => Err(TpccError::NoData { table: "of a lost connection".into() }),
                None => Ok(self.1.clone()),
            }
        }
        fn checkpoint(&mut self) -> Result<(), TpccError> {
            *self.2.lock().unwrap() += 1;
            self.1.requested += 1;
            self.1.last_checkpoint += "+";
            Ok(())
        }
        fn reconnect(&mut self) -> Result<(), TpccError> {
            Ok(())
        }
    }

    #[test]
    fn checkpoints_are_asked_for_and_seen_and_a_lost_connection_is_told() {
        let look = Look { last_checkpoint: "0/1".into(), requested: 3, start: "today".into() };
        let asked = Arc::new(Mutex::new(0));
        let server = Scripted([Some(look.clone()), None].into(), look, asked.clone());
        let watch = Watch::start(Box::new(server), Stop::new(), Some(Duration::from_millis(10)), None);
        let began = watch.clock.calendar_at_start();
        let limit = std::time::Instant::now();
        while *asked.lock().unwrap() < 3 {
            assert!(limit.elapsed() < Duration::from_secs(60), "no checkpoint is asked for");
            std::thread::yield_now();
        }
        let seen = watch.end(began, Micros::ZERO..Micros::ZERO);
        assert!(seen.checkpoints.len() >= 2 && seen.checkpoints.iter().all(|one| one.requested), "{seen:?}");
        assert_eq!(seen.remarks.len(), 1, "{seen:?}");
        assert!(seen.remarks[0].contains("and was back after"), "{seen:?}");
    }
}
