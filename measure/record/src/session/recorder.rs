//! The recorder's loop: wait, drain, write, until the command, the target or the user ends it.

use super::images::Images;
use super::observer::Observation;
use super::signals::{self, Signals};
use super::tally::Tally;
use crate::pmu::latecomers::each_record;
use crate::source::{DrainError, EventCount, RecordSource};
use crate::workload::{Workload, WorkloadError};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, WriteError};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant, SystemTime};

/// The reason why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The command.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The file without any saved records.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The source.
    #[error(transparent)]
    Drain(#[from] DrainError),
    /// Waiting failed.
    #[error("cannot wait for records: {0}")]
    Wait(#[from] io::Error),
}

/// The reason for the end of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The command ended.
    Command,
    /// All target processes ended.
    Target,
    /// A signal, by its number.
    Signal(i32),
    /// The disk is full; the file holds the earlier records.
    DiskFull,
}

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Counts of the records.
    pub tally: Tally,
    /// Names of the events, in the order of `tally.samples`.
    pub events: Vec<String>,
    /// Totals of each event.
    pub counts: Vec<EventCount>,
    /// The reason why it ended.
    pub ending: Ending,
    /// Whether all profiled processes had ended while the command still ran, as after a crash of the server.
    pub target_ended_early: bool,
    /// The command's exit status, if there was a command and it has ended.
    pub status: Option<ExitStatus>,
    /// When it began.
    pub started: SystemTime,
    /// Its duration.
    pub duration: Duration,
    /// Bytes of records in the file.
    pub bytes: u64,
    /// Bytes that did not fit.
    pub discarded: u64,
}

/// The state of the loop, for a progress line.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Samples so far.
    pub samples: u64,
    /// Bytes of records so far.
    pub bytes: u64,
    /// Whether the events are running (`--delay`).
    pub measuring: bool,
}

/// Records into a file until the end; the file is complete when this returns `Ok`.
///
/// The command, if any, must have been prepared on the same source and is released here.
pub fn record(
    source: &mut dyn RecordSource,
    workload: Option<&mut Workload>,
    output: &Path,
    header: &CaptureHeader,
    delay: Option<Duration>,
    observation: Option<&mut Observation>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recorded, LoopError> {
    let attributes = source.attributes();
    let mut writer = CaptureWriter::create(output, &attributes, header)?;
    let mut onlookers = Onlookers { tally: Tally::new(&attributes), images: Images::default(), observation };
    let preamble = source.preamble();
    each_record(&preamble).for_each(|record| onlookers.images.see(record));
    writer.append(&preamble)?;
    let signals = Signals::block()?;
    let started = SystemTime::now();
    let clock = Instant::now();
    let outcome = run(source, workload, &signals, &mut writer, &mut onlookers, delay, clock, progress);
    let (ending, target_ended_early, status) = outcome?;
    let Onlookers { tally, images, .. } = onlookers;
    let duration = clock.elapsed();
    let counts = source.counts();
    writer.header_mut().sample_time = tally.times;
    writer.header_mut().build_ids = images.build_ids();
    let (bytes, discarded) = (writer.length().0, writer.discarded().0);
    let ending = match writer.finish() {
        Ok(()) => ending,
        // The file lacks its end, but is kept: it is more useful than none.
        Err(WriteError::Shortened { .. }) => Ending::DiskFull,
        Err(error) => return Err(error.into()),
    };
    Ok(Recorded {
        tally,
        events: attributes.into_iter().map(|event| event.name).collect(),
        counts,
        ending,
        target_ended_early,
        status,
        started,
        duration,
        bytes,
        discarded,
    })
}

/// The receivers of records besides the file.
struct Onlookers<'a> {
    tally: Tally,
    images: Images,
    observation: Option<&'a mut Observation>,
}

impl Onlookers<'_> {
    /// Passes the observer's state rules to the source.
    fn pass_rules_on(&self, source: &mut dyn RecordSource) {
        if let Some(rules) = self.observation.as_ref().and_then(|observation| observation.rules()) {
            source.set_state_rules(&rules);
        }
    }
}

/// Time limit for the command to end after a signal, or when the disk is full.
const PATIENCE: Duration = Duration::from_secs(2);

#[allow(clippy::too_many_arguments)] // the parts of one recording, each used only here
fn run(
    source: &mut dyn RecordSource,
    mut workload: Option<&mut Workload>,
    signals: &Signals,
    writer: &mut CaptureWriter,
    onlookers: &mut Onlookers<'_>,
    delay: Option<Duration>,
    clock: Instant,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Ending, bool, Option<ExitStatus>), LoopError> {
    let mut target_ended_early = false;
    let mut measuring = delay.is_none();
    onlookers.pass_rules_on(source); // they apply from the first sample
    if measuring {
        source.start()?;
    }
    if let Some(workload) = workload.as_deref_mut() {
        workload.release()?;
    }
    if let Some(observation) = &onlookers.observation {
        observation.released();
    }
    let ending = loop {
        let mut timeout = source.interval();
        if let (false, Some(delay)) = (measuring, delay) {
            timeout = timeout.min(delay.saturating_sub(clock.elapsed()));
        }
        let pidfd = workload.as_deref().and_then(|workload| workload.pidfd().map(|fd| fd.as_raw_fd()));
        if workload.is_some() && pidfd.is_none() {
            timeout = timeout.min(Duration::from_millis(50)); // no descriptor signals its end: poll often
        }
        let wakeups = source.wakeups();
        let mut waiting: Vec<RawFd> = vec![signals.descriptor()];
        waiting.extend(pidfd);
        let own = waiting.len();
        waiting.extend(&wakeups);
        let events = signals::wait(&waiting, timeout)?;

        // Read before the drain: everything written until now will be in the file.
        let signal = signals.take();
        let ended = workload.as_deref_mut().is_some_and(|workload| workload.try_wait().is_some());
        if let Some(full) = drain_round(source, writer, onlookers)? {
            break full;
        }
        onlookers.pass_rules_on(source);
        for (descriptor, (_, hung_up)) in wakeups.iter().zip(&events[own..]) {
            if *hung_up {
                source.hung_up(*descriptor);
            }
        }
        progress(Progress { samples: onlookers.tally.total(), bytes: writer.length().0, measuring });
        if let Some(signal) = signal {
            break Ending::Signal(signal);
        }
        if ended {
            break Ending::Command;
        }
        if source.is_finished() {
            if workload.is_none() {
                break Ending::Target;
            }
            target_ended_early = true; // no more records will come, but the command belongs to the user
        }
        if !measuring && delay.is_some_and(|delay| clock.elapsed() >= delay) {
            source.start()?;
            measuring = true;
        }
    };
    source.stop();
    if matches!(ending, Ending::Signal(_) | Ending::DiskFull) {
        if let Some(workload) = workload.as_deref_mut() {
            end_politely(workload);
        }
    }
    if ending != Ending::DiskFull && drain_round(source, writer, onlookers)?.is_some() {
        return Ok((Ending::DiskFull, target_ended_early, workload.and_then(|workload| workload.try_wait())));
    }
    Ok((ending, target_ended_early, workload.and_then(|workload| workload.try_wait())))
}

/// One pass over all rings. `Some` if the disk is full.
fn drain_round(
    source: &mut dyn RecordSource,
    writer: &mut CaptureWriter,
    onlookers: &mut Onlookers<'_>,
) -> Result<Option<Ending>, LoopError> {
    let Onlookers { tally, images, observation } = onlookers;
    let drained = source.drain(&mut |record| {
        tally.see(record);
        images.see(record);
        if let Some(observation) = observation {
            observation.see(record);
        }
        writer.append(record).map_err(DrainError::from)
    });
    if let Some(observation) = observation {
        observation.flush();
    }
    match drained {
        Ok(0) => Ok(None),
        Ok(_) if !source.comes_in_rounds() => Ok(None),
        Ok(_) => match writer.append_finished_round() {
            Err(WriteError::DiskFull { .. }) => Ok(Some(Ending::DiskFull)),
            other => Ok(other.map(|()| None)?),
        },
        Err(DrainError::Write(WriteError::DiskFull { .. })) => Ok(Some(Ending::DiskFull)),
        Err(error) => Err(error.into()),
    }
}

/// Sends the command a signal, and waits a moment: a Ctrl-C on the terminal has reached it already, a signal to the
/// recorder alone has not.
fn end_politely(workload: &mut Workload) {
    workload.terminate();
    let asked = Instant::now();
    while workload.try_wait().is_none() && asked.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
}
