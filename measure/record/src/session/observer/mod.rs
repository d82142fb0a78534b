//! Observes the profiled server while it is recorded: the observer, which can identify addresses, receives each
//! sampled access shortly after it happened, and may configure the software PMU to read the server's state at each
//! sample.
//!
//! ```text
//!   recorder loop ── copies sample records ──> bounded queue ──> observer's thread ──> SampleObserver
//!        │   ^                                  (full: dropped,        │  see(), tick()
//!        │   └────────── state rules ───────────  and counted) ────────┤
//!        └── end ──────────────────────────────────────────────────────┴──> Observations: notes, warnings
//! ```
//! While recording, the recorder never waits for the observer nor fails because of it: its problems are warnings.
//! The caller of [`session::record`](super::record) provides the observer; this module does not depend on it.

mod access;

pub use access::ObservedAccess;

use crate::kept_rights::KeptRights;
use crate::threads::block_signals;
use access::AccessReader;
use hardmeter_samples::model::{Pid, StateRule, Timestamp};
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::perf_data::abi::record_type;
use hardmeter_samples::perf_data::EventAttributes;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receives the sampled accesses of one server. All calls come from one thread.
pub trait SampleObserver: Send {
    /// The state rules for the software PMU; called once.
    fn state_rules(&self) -> Vec<StateRule>;
    /// Accesses that happened since the last call.
    fn see(&mut self, accesses: &[ObservedAccess]);
    /// About a second has passed.
    fn tick(&mut self, now: Timestamp);
    /// The recording has ended; the server may still run.
    fn finish(self: Box<Self>, now: Timestamp) -> Observations;
}

/// The results of an observer.
#[derive(Debug, Default)]
pub struct Observations {
    /// The objects at addresses; `None`: nothing known.
    pub notes: Option<ObjectNotes>,
    /// Warnings for readers of the capture.
    pub remarks: Vec<String>,
    /// The server's own counters during the recording, for example transactions.
    pub workload: Vec<(String, f64)>,
    /// The databases that were counted.
    pub workload_databases: Vec<String>,
    /// Limits of the workload's certainty.
    pub workload_limits: Vec<String>,
}

/// The result of inspecting a process.
pub enum Attached {
    /// It is a server; this observer is attached to it.
    Observer(Box<dyn SampleObserver>),
    /// It is not a known server. A command may still become one.
    NotAServer,
    /// It is a server that cannot be read: reason and remedy.
    Refused(String),
    /// It is a server that is not ready yet.
    NotReady(String),
}

/// Inspects a process; called again while it is not a ready server.
pub type Attach = Box<dyn FnMut(Pid) -> Attached + Send>;

/// Batches that may wait for the observer's thread.
const QUEUE: usize = 64;
/// Places in the queue for other messages, so that the recorder does not wait behind batches: each capture of a series
/// that is being completed has one.
const OTHERS: usize = 16;
/// Bytes of records in a batch.
const BATCH: usize = 64 << 10;
/// Time between two ticks.
const TICK: Duration = Duration::from_secs(1);
/// Time limits for a server to become ready: one started as the command, possibly on the software PMU, and one that
/// runs already. And the interval of inspections.
const START: Duration = Duration::from_secs(60);
const START_OF_RUNNING: Duration = Duration::from_secs(30);
const START_INTERVAL: Duration = Duration::from_millis(250);
const LONGEST_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum bytes of samples that are kept until the observer starts.
const MOST_EARLY: usize = 64 << 20;
/// How long the recorder waits for the observer at its start and end. The end includes writing all observations.
const PATIENCE_AT_START: Duration = Duration::from_secs(30);
const PATIENCE_AT_END: Duration = Duration::from_secs(60);

enum Message {
    /// The command was released: inspect its process.
    Released,
    /// Root was given up.
    RightsDropped,
    /// Whole sample records.
    Samples(Vec<u8>),
    /// A capture ends here, and its observations are wanted; the next one begins.
    NextCapture(mpsc::Sender<Observations>),
}

/// The process to observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// A running process that the user named as a server: report why if it is not one.
    Running(Pid),
    /// The command, not yet executed: most are not servers, which needs no warning.
    Command(Pid),
}

/// The recorder's end of an observation.
pub(super) struct Observation {
    to_thread: Option<SyncSender<Message>>,
    rules: Receiver<Vec<StateRule>>,
    end: Receiver<Observations>,
    /// Batches in the queue.
    queued: Arc<AtomicUsize>,
    batch: Vec<u8>,
    batched: u64,
    passed: u64,
    dropped: u64,
    /// Wait for the observer rather than drop samples.
    waits: bool,
}

impl Observation {
    /// Starts to observe. For a running process it returns after the inspection, when its state rules can be
    /// [taken](Self::rules).
    pub(super) fn begin(observed: Observed, attach: Attach, events: &[EventAttributes]) -> Observation {
        let (to_thread, messages) = mpsc::sync_channel(QUEUE + OTHERS);
        let (rules_out, rules) = mpsc::channel();
        let (end_out, end) = mpsc::channel();
        let (ready_out, ready) = mpsc::channel();
        let reader = AccessReader::new(events);
        let queued = Arc::new(AtomicUsize::new(0));
        let taken = queued.clone();
        let started = std::thread::Builder::new().name("observer".into()).spawn(move || {
            block_signals();
            let rights = KeptRights::keep();
            let watch = Watch {
                observed,
                attach,
                reader,
                queued: taken,
                rights,
                rules: rules_out,
                observer: None,
                trouble: None,
                pause: START_INTERVAL,
                early: Vec::new(),
                early_bytes: 0,
            };
            let observations = catch_unwind(AssertUnwindSafe(|| watch.run(&messages, &ready_out)));
            let _ = end_out.send(observations.unwrap_or_else(|_| {
                remark("objects were not recorded: the observer failed (a fault of hardmeter)")
            }));
        });
        let mut observation = Observation {
            to_thread: Some(to_thread),
            rules,
            end,
            queued,
            batch: Vec::new(),
            batched: 0,
            passed: 0,
            dropped: 0,
            waits: false,
        };
        match started {
            Ok(_) => drop(ready.recv_timeout(PATIENCE_AT_START)),
            Err(_) => observation.to_thread = None, // the thread has ended, which finish() reports
        }
        observation
    }

    /// From now on samples wait for the observer, because their program may be delayed.
    pub(super) fn drop_nothing(&mut self) {
        self.waits = true;
    }

    /// Notifies the thread that root was given up.
    pub(super) fn rights_dropped(&self) {
        self.send(Message::RightsDropped);
    }

    /// Notifies the thread that the command runs.
    pub(super) fn released(&self) {
        self.send(Message::Released);
    }

    fn send(&self, message: Message) {
        // The observer has ended: finish() reports it.
        let _ = self.to_thread.as_ref().map(|thread| thread.send(message));
    }

    /// State rules that the software PMU shall carry out from now on, if there are new ones.
    pub(super) fn rules(&self) -> Option<Vec<StateRule>> {
        self.rules.try_recv().ok()
    }

    /// Examines a record on its way to the file.
    #[inline]
    pub(super) fn see(&mut self, record: &[u8]) {
        if record.first_chunk::<4>().is_some_and(|kind| u32::from_ne_bytes(*kind) == record_type::SAMPLE) {
            self.batch.extend_from_slice(record);
            self.batched += 1;
            if self.batch.len() >= BATCH {
                self.flush();
            }
        }
    }

    /// Sends collected accesses to the thread.
    pub(super) fn flush(&mut self) {
        let (Some(thread), false) = (&self.to_thread, self.batch.is_empty()) else { return };
        let samples = std::mem::take(&mut self.batched);
        self.passed += samples;
        if !self.waits && self.queued.load(Ordering::Relaxed) >= QUEUE {
            self.dropped += samples;
            self.batch.clear();
            return;
        }
        self.queued.fetch_add(1, Ordering::Relaxed);
        if thread.send(Message::Samples(std::mem::take(&mut self.batch))).is_err() {
            self.to_thread = None;
        }
    }

    /// Ends the observation; call it while the server still runs.
    pub(super) fn finish(mut self) -> Observations {
        self.flush();
        self.to_thread = None; // the thread processes its queue, and then ends
        let (passed, dropped) = (self.passed, self.dropped);
        Awaited { from: self.end, passed, dropped }.wait()
    }

    /// Ends the observation for one capture and begins that for the next, whose samples wait until the server has been
    /// examined again.
    pub(super) fn next_capture(&mut self) -> Awaited {
        self.flush();
        let (to, from) = mpsc::channel();
        // If its places in the queue are taken, the observer hangs: this capture has no objects, and the recorder goes on.
        let _ = self.to_thread.as_ref().map(|thread| thread.try_send(Message::NextCapture(to)));
        let (passed, dropped) = (std::mem::take(&mut self.passed), std::mem::take(&mut self.dropped));
        Awaited { from, passed, dropped }
    }
}

/// Observations that the observer's thread has yet to hand over.
pub(super) struct Awaited {
    from: Receiver<Observations>,
    passed: u64,
    dropped: u64,
}

impl Awaited {
    /// Waits for them, for a limited time.
    pub(super) fn wait(self) -> Observations {
        let mut observations = self.from.recv_timeout(PATIENCE_AT_END).unwrap_or_else(|error| {
            remark(match error {
                RecvTimeoutError::Timeout => {
                    "objects were not recorded: the server's memory could not be read in time"
                }
                RecvTimeoutError::Disconnected => "objects were not recorded: their thread does not run",
            })
        });
        if self.dropped > 0 && observations.notes.is_some() {
            observations.remarks.push(format!(
                "{} of {} samples came faster than their objects could be looked up: some have none; take a longer period",
                self.dropped, self.passed
            ));
        }
        observations
    }
}

fn remark(text: &str) -> Observations {
    Observations { remarks: vec![text.to_string()], ..Observations::default() }
}

/// The observer's thread.
struct Watch {
    observed: Observed,
    attach: Attach,
    reader: AccessReader,
    /// Batches in the queue.
    queued: Arc<AtomicUsize>,
    rights: KeptRights,
    rules: mpsc::Sender<Vec<StateRule>>,
    observer: Option<Box<dyn SampleObserver>>,
    trouble: Option<String>,
    /// Pause before the next inspection of a process that is not a server yet.
    pause: Duration,
    /// Samples before the observer's start, which it gets first.
    early: Vec<Vec<u8>>,
    early_bytes: usize,
}

impl Watch {
    fn run(mut self, messages: &Receiver<Message>, ready: &mpsc::Sender<()>) -> Observations {
        let mut deadline = None; // time limit for a process to become a ready server
        if let Observed::Running(pid) = self.observed {
            if !self.look_at(pid) {
                deadline = Some(Instant::now() + START_OF_RUNNING);
            }
        }
        let _ = ready.send(());
        let mut looked = Instant::now();
        let mut ticked = Instant::now();
        loop {
            let wait = match deadline {
                Some(_) => self.pause.min(TICK),
                None => TICK.saturating_sub(ticked.elapsed()),
            };
            let message = messages.recv_timeout(wait);
            if matches!(message, Ok(Message::Samples(_))) {
                self.queued.fetch_sub(1, Ordering::Relaxed);
            }
            match message {
                Ok(Message::RightsDropped) => self.rights.limit(),
                Ok(Message::Released) if matches!(self.observed, Observed::Command(_)) => {
                    deadline = Some(Instant::now() + START);
                }
                Ok(Message::Released) => {}
                Ok(Message::NextCapture(to)) => {
                    if self.next_capture(&to) {
                        (deadline, looked) = (Some(Instant::now() + START_OF_RUNNING), Instant::now());
                    }
                }
                Ok(Message::Samples(records)) if self.observer.is_some() => self.see(&records),
                Ok(Message::Samples(records)) => {
                    if deadline.is_some() && self.early_bytes < MOST_EARLY {
                        self.early_bytes += records.len();
                        self.early.push(records);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if deadline.is_some() && looked.elapsed() >= self.pause {
                looked = Instant::now();
                let (Observed::Running(pid) | Observed::Command(pid)) = self.observed;
                if self.look_at(pid) || deadline.is_some_and(|until| looked >= until) {
                    deadline = None;
                }
            }
            if ticked.elapsed() >= TICK {
                ticked = Instant::now();
                if let Some(observer) = &mut self.observer {
                    observer.tick(now());
                }
            }
        }
        self.end()
    }

    fn see(&mut self, records: &[u8]) {
        let accesses = self.reader.read(records, now());
        if let Some(observer) = self.observer.as_mut().filter(|_| !accesses.is_empty()) {
            observer.see(&accesses);
        }
    }

    /// Examines a process; returns whether it need not be examined again.
    fn look_at(&mut self, pid: Pid) -> bool {
        match (self.attach)(pid) {
            Attached::Observer(observer) => {
                let _ = self.rules.send(observer.state_rules());
                self.observer = Some(observer);
                self.trouble = None;
                std::mem::take(&mut self.early).iter().for_each(|records| self.see(records));
                true
            }
            // A command may not be executed yet, or may execute another program. An inspection takes milliseconds
            // of CPU time, so the interval grows.
            Attached::NotAServer if matches!(self.observed, Observed::Command(_)) => {
                self.pause = (self.pause * 2).min(LONGEST_INTERVAL);
                false
            }
            Attached::NotAServer => {
                self.trouble =
                    Some(format!("objects were not recorded: process {pid} is not a known server"));
                true
            }
            Attached::Refused(why) => {
                self.trouble = Some(format!("objects were not recorded: {why}"));
                true
            }
            Attached::NotReady(why) => {
                self.pause = START_INTERVAL;
                self.trouble = Some(format!("objects were not recorded: {why}"));
                false
            }
        }
    }

    /// Hands over what was observed for a capture, and examines the process again; returns whether it has to be
    /// examined once more.
    fn next_capture(&mut self, to: &mpsc::Sender<Observations>) -> bool {
        let watched = self.observer.is_some();
        let _ = to.send(self.end()); // not awaited any longer: nothing to do
        (self.early, self.early_bytes) = (Vec::new(), 0);
        let (Observed::Running(pid) | Observed::Command(pid)) = self.observed;
        // A command that was no server until now was inspected long enough.
        (watched || matches!(self.observed, Observed::Running(_))) && !self.look_at(pid)
    }

    fn end(&mut self) -> Observations {
        let mut observations =
            self.observer.take().map(|observer| observer.finish(now())).unwrap_or_default();
        observations.remarks.extend(self.trouble.take());
        observations
    }
}

/// The time on the clock that samples and observers share.
fn now() -> Timestamp {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `answer` is large enough.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Timestamp(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests;
