//! The recorder's loop: wait, drain, write, until the command, the target or the user ends it.

use super::images::Images;
use super::observer::Observation;
use super::population::Population;
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
    /// The next capture of a series begins; the source goes on.
    Interval,
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

/// One capture of a recording.
pub(super) struct Part<'a> {
    /// The file to write.
    pub(super) output: &'a Path,
    /// Its header.
    pub(super) header: &'a CaptureHeader,
    /// The records that it begins with.
    pub(super) preamble: Vec<u8>,
    /// Its beginning and end.
    pub(super) when: When,
}

/// When a capture begins and ends.
#[derive(Clone, Copy)]
pub(super) struct When {
    /// Start measuring so long after the command.
    pub(super) delay: Option<Duration>,
    /// True if an earlier capture has started the source and released the command.
    pub(super) goes_on: bool,
    /// When the next capture begins, if there is one. The source then goes on, also when the disk is full.
    pub(super) until: Option<Instant>,
}

impl When {
    /// Whether a series ends with this capture, for which a full disk is no reason.
    fn ends_series(&self, ending: Ending) -> bool {
        self.until.is_some() && !matches!(ending, Ending::Interval | Ending::DiskFull)
    }

    /// Whether the source goes on after this capture.
    fn is_followed(&self, ending: Ending) -> bool {
        self.until.is_some() && matches!(ending, Ending::Interval | Ending::DiskFull)
    }
}

/// What a recording has besides the file: shared by its captures.
pub(super) struct Stage<'a> {
    /// The source.
    pub(super) source: &'a mut dyn RecordSource,
    /// The command, prepared on the same source; the first capture releases it.
    pub(super) workload: Option<&'a mut Workload>,
    /// What ends the recording.
    pub(super) signals: &'a Signals,
    /// The observer of the server.
    pub(super) observation: Option<&'a mut Observation>,
    /// The living processes, for the next capture.
    pub(super) population: Option<&'a mut Population>,
    /// Receives the state of the loop.
    pub(super) progress: &'a mut dyn FnMut(Progress),
    /// Whether the source was started and the command released.
    pub(super) begun: bool,
}

/// A capture whose records are complete, and whose file is not.
pub(super) struct Unfinished {
    pub(super) recorded: Recorded,
    writer: CaptureWriter,
    images: Images,
    /// Whether the recording ends with it for another reason than a full disk.
    ends_series: bool,
}

impl Unfinished {
    /// Completes the file, which waits for the disk.
    pub(super) fn finish(self) -> Result<Recorded, LoopError> {
        let Unfinished { recorded, mut writer, images, ends_series } = self;
        writer.header_mut().sample_time = recorded.tally.times;
        writer.header_mut().build_ids = images.build_ids();
        let (bytes, discarded) = (writer.length().0, writer.discarded().0);
        let ending = match writer.finish() {
            Ok(()) => recorded.ending,
            // The file lacks its end, but is kept: it is more useful than none.
            Err(WriteError::Shortened { .. }) if ends_series => recorded.ending,
            Err(WriteError::Shortened { .. }) => Ending::DiskFull,
            Err(error) => return Err(error.into()),
        };
        Ok(Recorded { bytes, discarded, ending, ..recorded })
    }
}

/// Records into a file until the end.
pub(super) fn record(stage: &mut Stage<'_>, part: Part<'_>) -> Result<Unfinished, LoopError> {
    let attributes = stage.source.attributes();
    let (started, clock) = (SystemTime::now(), Instant::now());
    let mut writer = CaptureWriter::create(part.output, &attributes, part.header)?;
    let mut onlookers = Onlookers { tally: Tally::new(&attributes), images: Images::default() };
    for record in each_record(&part.preamble) {
        onlookers.images.see(record);
        if let (false, Some(population)) = (part.when.goes_on, &mut stage.population) {
            population.begin(record);
        }
    }
    writer.append(&part.preamble)?;
    let outcome = run(stage, part.when, Some(&mut writer), &mut onlookers, clock);
    let (ending, target_ended_early, status) = outcome?;
    let recorded = Recorded {
        tally: onlookers.tally,
        events: attributes.into_iter().map(|event| event.name).collect(),
        counts: stage.source.counts(),
        ending,
        target_ended_early,
        status,
        started,
        duration: clock.elapsed(),
        bytes: writer.length().0,
        discarded: 0,
    };
    let ends_series = part.when.ends_series(ending);
    Ok(Unfinished { recorded, writer, images: onlookers.images, ends_series })
}

/// Goes on without a file, which could not be written, until the next capture begins or the recording ends.
pub(super) fn wait_out(stage: &mut Stage<'_>, until: Instant) -> Result<Ending, LoopError> {
    let attributes = stage.source.attributes();
    let mut onlookers = Onlookers { tally: Tally::new(&attributes), images: Images::default() };
    let when = When { delay: None, goes_on: true, until: Some(until) };
    run(stage, when, None, &mut onlookers, Instant::now()).map(|(ending, ..)| ending)
}

/// The receivers of one capture's records besides the file.
struct Onlookers {
    tally: Tally,
    images: Images,
}

impl Stage<'_> {
    /// Passes the observer's state rules to the source.
    fn pass_rules_on(&mut self) {
        if let Some(rules) = self.observation.as_ref().and_then(|observation| observation.rules()) {
            self.source.set_state_rules(&rules);
        }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.workload.as_deref_mut().and_then(Workload::try_wait)
    }
}

/// Time limit for the command to end after a signal, or when the disk is full.
const PATIENCE: Duration = Duration::from_secs(2);

fn run(
    stage: &mut Stage<'_>,
    when: When,
    mut writer: Option<&mut CaptureWriter>,
    onlookers: &mut Onlookers,
    clock: Instant,
) -> Result<(Ending, bool, Option<ExitStatus>), LoopError> {
    let mut target_ended_early = false;
    let mut measuring = when.delay.is_none() || when.goes_on;
    stage.pass_rules_on(); // they apply from the first sample
    if !when.goes_on {
        begin(stage, measuring)?;
        stage.begun = true;
    }
    let ending = loop {
        let mut timeout = stage.source.interval();
        if let (false, Some(delay)) = (measuring, when.delay) {
            timeout = timeout.min(delay.saturating_sub(clock.elapsed()));
        }
        if let Some(until) = when.until {
            timeout = timeout.min(until.saturating_duration_since(Instant::now()));
        }
        let pidfd = stage.workload.as_deref().and_then(|workload| workload.pidfd().map(|fd| fd.as_raw_fd()));
        if stage.workload.is_some() && pidfd.is_none() {
            timeout = timeout.min(Duration::from_millis(50)); // no descriptor signals its end: poll often
        }
        let wakeups = stage.source.wakeups();
        let mut waiting: Vec<RawFd> = vec![stage.signals.descriptor()];
        waiting.extend(pidfd);
        let own = waiting.len();
        waiting.extend(&wakeups);
        let events = signals::wait(&waiting, timeout)?;

        // Read before the drain: everything written until now will be in the file.
        let signal = stage.signals.take();
        let ended = stage.status().is_some();
        let over = when.until.is_some_and(|until| Instant::now() >= until);
        if let Some(full) = drain_round(stage, writer.as_deref_mut(), onlookers)? {
            // A signal that came with it ends the recording all the same.
            break signal.filter(|_| when.until.is_some()).map_or(full, Ending::Signal);
        }
        stage.pass_rules_on();
        for (descriptor, (_, hung_up)) in wakeups.iter().zip(&events[own..]) {
            if *hung_up {
                stage.source.hung_up(*descriptor);
            }
        }
        let bytes = writer.as_deref().map_or(0, |writer| writer.length().0);
        (stage.progress)(Progress { samples: onlookers.tally.total(), bytes, measuring });
        if let Some(signal) = signal {
            break Ending::Signal(signal);
        }
        if ended {
            break Ending::Command;
        }
        if stage.source.is_finished() {
            if stage.workload.is_none() {
                break Ending::Target;
            }
            target_ended_early = true; // no more records will come, but the command belongs to the user
        }
        if over {
            break Ending::Interval;
        }
        if !measuring && when.delay.is_some_and(|delay| clock.elapsed() >= delay) {
            stage.source.start()?;
            measuring = true;
        }
    };
    if when.is_followed(ending) {
        return Ok((ending, target_ended_early, None));
    }
    stage.source.stop();
    if matches!(ending, Ending::Signal(_) | Ending::DiskFull) {
        if let Some(workload) = stage.workload.as_deref_mut() {
            end_politely(workload);
        }
    }
    if ending != Ending::DiskFull && drain_round(stage, writer, onlookers)?.is_some() {
        let ending = if when.ends_series(ending) { ending } else { Ending::DiskFull };
        return Ok((ending, target_ended_early, stage.status()));
    }
    Ok((ending, target_ended_early, stage.status()))
}

/// Starts the source and releases the command.
fn begin(stage: &mut Stage<'_>, measuring: bool) -> Result<(), LoopError> {
    if measuring {
        stage.source.start()?;
    }
    if let Some(workload) = stage.workload.as_deref_mut() {
        workload.release()?;
    }
    if let Some(observation) = &stage.observation {
        observation.released();
    }
    Ok(())
}

/// One pass over all rings. `Some` if the disk is full. Without a writer, records only keep the population up to date.
fn drain_round(
    stage: &mut Stage<'_>,
    mut writer: Option<&mut CaptureWriter>,
    onlookers: &mut Onlookers,
) -> Result<Option<Ending>, LoopError> {
    let Onlookers { tally, images } = onlookers;
    let Stage { source, observation, population, .. } = stage;
    let mut failed = None;
    let mut written = writer.as_deref_mut();
    let drained = source.drain(&mut |record| {
        if let Some(population) = population {
            population.see(record);
        }
        let Some(writer) = &mut written else { return Ok(()) };
        tally.see(record);
        images.see(record);
        if let Some(observation) = observation {
            observation.see(record);
        }
        // The rest of this round still changes the population.
        if let Err(error) = writer.append(record) {
            failed = Some(error);
            written = None;
        }
        Ok(())
    });
    if let Some(observation) = observation {
        observation.flush();
    }
    if let Some(population) = population {
        population.end_round();
    }
    let drained = drained?;
    if let (None, Some(writer)) = (&failed, writer) {
        if drained > 0 && source.comes_in_rounds() {
            failed = writer.append_finished_round().err();
        }
        if failed.is_none() {
            failed = writer.flush_if_due().err();
        }
    }
    match failed {
        Some(WriteError::DiskFull { .. }) => Ok(Some(Ending::DiskFull)),
        Some(error) => Err(DrainError::from(error).into()),
        None => Ok(None),
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
