//! What the recorder needs of a source of records, whichever it is.

use crate::pmu::syscall::Reading;
use crate::rings::RingError;
use hardmeter_samples::model::{Cycles, EventSource, ProcessTime, StallNotes, StateRule};
use hardmeter_samples::perf_data::{EventAttributes, WriteError};
use hardmeter_samples::sidecar::{HiddenLatency, LatencyKind, PageWalks, ReuseHistogram, Statement};
use std::os::fd::RawFd;
use std::time::Duration;

/// Why records stopped coming.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    /// A ring buffer is broken.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The file did not take a record.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The source itself failed.
    #[error("{0}")]
    Source(String),
}

/// Where drained records go: one whole record each, header included.
pub type RecordSink<'a> = dyn FnMut(&[u8]) -> Result<(), DrainError> + 'a;

/// What a source counted while it sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventCount {
    /// The event's name in the capture.
    pub name: String,
    /// Its count.
    pub reading: Reading,
}

/// Somewhere samples come from: the kernel's rings, or the software PMU's.
///
/// The recorder waits until a descriptor of [`RecordSource::wakeups`] is readable or the interval is over, then
/// drains. Nothing of a source runs in between: a recorder that waits costs nothing.
pub trait RecordSource {
    /// Which kind it is.
    fn kind(&self) -> EventSource;

    /// The events as the file shall describe them.
    fn attributes(&self) -> Vec<EventAttributes>;

    /// Records about what existed before: names, mappings.
    fn preamble(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Descriptors that become readable when there is something to drain.
    fn wakeups(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// A descriptor of [`RecordSource::wakeups`] has hung up: its target has ended.
    fn hung_up(&mut self, _descriptor: RawFd) {}

    /// The longest time between two drains.
    fn interval(&self) -> Duration;

    /// Passes on every available record; returns how many bytes.
    ///
    /// # Errors
    ///
    /// [`DrainError`] if a ring was overrun, or `sink` fails.
    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError>;

    /// Starts measuring, if it has not started yet.
    ///
    /// # Errors
    ///
    /// [`DrainError`] if the kernel refuses to start an event.
    fn start(&mut self) -> Result<(), DrainError>;

    /// Has the state of the profiled program read at each sample from now on, where the source can.
    fn set_state_rules(&mut self, _rules: &[StateRule]) {}

    /// Stops measuring; what was recorded can still be drained.
    fn stop(&mut self);

    /// Whether no record of the round after next is older than one of this round, as it is with the kernel's rings:
    /// readers may then put records into order round by round.
    fn comes_in_rounds(&self) -> bool {
        true
    }

    /// Whether nothing more can come.
    fn is_finished(&self) -> bool;

    /// How often each event happened, sampled or not.
    fn counts(&self) -> Vec<EventCount>;

    /// Simulated time, where time is simulated.
    fn simulated_cycles(&self) -> Option<Cycles> {
        None
    }

    /// One cache line in this many is simulated; `None` where nothing is simulated.
    fn one_line_in(&self) -> Option<u32> {
        None
    }

    /// What the latencies of its samples are, where they are simulated.
    fn latency_kind(&self) -> Option<LatencyKind> {
        None
    }

    /// What was hidden of them, where that is simulated.
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

    /// How loads were found behind samples of time, where they were.
    fn stall(&self) -> Option<StallNotes> {
        None
    }

    /// What the target's processes did with their time, where that was watched.
    fn times(&self) -> Vec<ProcessTime> {
        Vec::new()
    }

    /// What a reader of the capture must know: concessions made, limits of the source.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
