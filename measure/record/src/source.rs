//! The interface between the recorder and a source of records.

use crate::pmu::syscall::Reading;
use crate::rings::RingError;
use hardmeter_samples::model::{Cycles, EventSource, GhostNotes, ProcessTime, StallNotes, StateRule};
use hardmeter_samples::perf_data::{EventAttributes, WriteError};
use hardmeter_samples::sidecar::{HiddenLatency, LatencyKind, PageWalks, ReuseHistogram, Statement};
use std::os::fd::RawFd;
use std::time::Duration;

/// The reason why records stopped coming.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// A ring buffer is broken.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A record could not be written to the file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The source itself failed.
    #[error("{0}")]
    Source(String),
}

/// The receiver of drained records: one complete record each, header included.
pub type RecordSink<'a> = dyn FnMut(&[u8]) -> Result<(), DrainError> + 'a;

/// The counts of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCount {
    /// The event's name in the capture.
    pub name: String,
    /// Its count.
    pub reading: Reading,
}

/// A source of samples: the kernel's rings, or the software PMU's.
///
/// The recorder waits until a descriptor of [`RecordSource::wakeups`] is readable or the interval is over, then
/// drains. No code of a source runs in between: a waiting recorder costs no CPU time.
pub trait RecordSource {
    /// Which kind it is.
    fn kind(&self) -> EventSource;

    /// The events as the file shall describe them.
    fn attributes(&self) -> Vec<EventAttributes>;

    /// Records about the state before the recording: names, mappings.
    fn preamble(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Descriptors that become readable when there are records to drain.
    fn wakeups(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// A descriptor of [`RecordSource::wakeups`] has hung up: its target has ended.
    fn hung_up(&mut self, _descriptor: RawFd) {}

    /// The longest time between two drains.
    fn interval(&self) -> Duration;

    /// Passes on every available record; returns the number of bytes.
    ///
    /// # Errors
    ///
    /// [`DrainError`] if a ring was overrun, or `sink` fails.
    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError>;

    /// Starts measuring, unless it has started already.
    ///
    /// # Errors
    ///
    /// [`DrainError`] if the kernel refuses to start an event.
    fn start(&mut self) -> Result<(), DrainError>;

    /// Has the state of the profiled program read at each sample from now on, where the source can.
    fn set_state_rules(&mut self, _rules: &[StateRule]) {}

    /// Begins the statistics of a new capture, while measuring goes on. [`RecordSource::counts`] are of the whole
    /// recording all the same.
    fn begin_capture(&mut self) {}

    /// Stops measuring; recorded data can still be drained.
    fn stop(&mut self);

    /// Whether no record of the round after next is older than one of this round, as with the kernel's rings:
    /// readers may then sort by rounds.
    fn comes_in_rounds(&self) -> bool {
        true
    }

    /// Whether no more records can come.
    fn is_finished(&self) -> bool;

    /// Number of occurrences of each event, sampled or not.
    fn counts(&self) -> Vec<EventCount>;

    /// Simulated time, where time is simulated.
    fn simulated_cycles(&self) -> Option<Cycles> {
        None
    }

    /// One cache line in this number is simulated; `None` without simulation.
    fn one_line_in(&self) -> Option<u32> {
        None
    }

    /// The meaning of its samples' latencies; `None` without simulation.
    fn latency_kind(&self) -> Option<LatencyKind> {
        None
    }

    /// The hidden part of latencies; `None` without simulation.
    fn hidden_latency(&self) -> Option<HiddenLatency> {
        None
    }

    /// The texts of the statements that its samples name by hash.
    fn statements(&self) -> Vec<Statement> {
        Vec::new()
    }

    /// Reuse of lines, where it is simulated.
    fn reuse(&self) -> Option<ReuseHistogram> {
        None
    }

    /// The effect of huge pages, where it is simulated.
    fn page_walks(&self) -> Option<PageWalks> {
        None
    }

    /// How loads were found for timer samples; `None` for other sources.
    fn stall(&self) -> Option<StallNotes> {
        None
    }

    /// The quality of ghosts; `None` where no process was followed.
    fn ghosts(&self) -> Option<GhostNotes> {
        None
    }

    /// How the target's processes spent their time, if observed.
    fn times(&self) -> Vec<ProcessTime> {
        Vec::new()
    }

    /// Warnings for readers of the capture: concessions, limits of the source.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
