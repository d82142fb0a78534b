//! Ghosts: misses of a running server, by executing stretches of it once more from copies.
//!
//! ```text
//!   running processes <══ptrace══ hardmeter-ghost ──perf records──> segment ──┐
//!                                     └── report at its end (stdout)          ├─> GhostSource ──> recorder
//!   cpu-clock ──> LiveSource (where time is sampled as well) ─────────────────┘
//! ```
//! `hardmeter-ghost` (`measure/simulate/ghost`) is a program of its own under the GPL: it follows, emulates, checks and
//! simulates. Its records have the layout of source `simulated`, the server's clock, and a period that is scaled to
//! what the followed stretches stand for.
//!
//! Invariants:
//! 1. The segment has no name once the follower runs: the follower inherits its descriptor.
//! 2. [`GhostSource::stop`] returns when the follower has ended, or after [`PATIENCE`]; meanwhile its ring is emptied.
//! 3. Beside [`LiveSource`], the kernel names processes and mappings, and only samples of the follower are passed on.

mod follower;

pub use follower::{self_test, GhostError};
use follower::{Follower, Report};

use crate::live::LiveSource;
use crate::pmu::syscall::Reading;
use crate::softpmu::SoftwarePmu;
use crate::source::{DrainError, EventCount, RecordSink, RecordSource};
use hardmeter_samples::model::{
    EventSource, GhostNotes, MemoryEvent, Period, Pid, ProcessTime, StallNotes, StateRule,
};
use hardmeter_samples::perf_data::abi::record_type;
use hardmeter_samples::perf_data::EventAttributes;
use hardmeter_samples::sidecar::{LatencyKind, PageWalks, ReuseHistogram, Statement};
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Set in the ids of ghosts' events: the kernel counts its ids from 1, as the simulator does.
const GHOST: u64 = 1 << 62;
/// Time limit for the follower to release its processes: the longest window, and a margin.
const PATIENCE: Duration = Duration::from_secs(6);
const INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of processes that are followed at the same time, and of simulated cores for helper
/// processes.
const MOST_LANES: usize = 4;
const HELPERS: u32 = 3;

/// The number of processes that are followed at the same time: one per processor.
fn lanes() -> u32 {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(MOST_LANES)) as u32
}

/// Simulated cores: one for each process followed at once, and those of helpers, the last for all kinds that are left.
pub(crate) fn simulated_cores() -> u32 {
    lanes() + HELPERS
}

/// The default period of an event. Only a part of the time is followed, so that periods are short.
pub(crate) fn default_period(event: MemoryEvent) -> Period {
    Period(match event {
        MemoryEvent::L1dMiss | MemoryEvent::L1iMiss => 11,
        MemoryEvent::DtlbMiss | MemoryEvent::ItlbMiss => 3,
        MemoryEvent::Loads | MemoryEvent::Stores => 307,
        MemoryEvent::Instructions => 1_009,
        MemoryEvent::BranchesMispredicted => 23,
        _ => 1,
    })
}

/// A recording with ghosts.
pub struct GhostSource {
    live: Option<LiveSource>,
    pmu: SoftwarePmu,
    follower: Follower,
    report: Option<Report>,
    /// The follower's report at the end of measuring.
    late: Vec<Vec<u8>>,
}

impl GhostSource {
    /// Starts the follower of `processes` and their descendants on `pmu`, which waits until [`RecordSource::start`].
    ///
    /// # Errors
    /// [`GhostError`] if the follower is missing or cannot be started.
    pub fn open(
        pmu: SoftwarePmu,
        live: Option<LiveSource>,
        processes: &[Pid],
    ) -> Result<GhostSource, GhostError> {
        let follower = Follower::start(processes, pmu.descriptor())?;
        pmu.forget_name();
        Ok(GhostSource { live, pmu, follower, report: None, late: Vec::new() })
    }

    /// The simulated hierarchy.
    pub fn pmu(&self) -> &SoftwarePmu {
        &self.pmu
    }

    fn notes_of(&self) -> GhostNotes {
        self.report.as_ref().map(|report| report.notes.clone()).unwrap_or_default()
    }
}

/// A record as it goes into the file; `None`: another source has it already.
fn passed_on(record: &[u8], beside_live: bool) -> Option<Vec<u8>> {
    let kind = record.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind));
    if kind != Some(record_type::SAMPLE) {
        return (!beside_live).then(|| record.to_vec());
    }
    let mut sample = record.to_vec();
    let id = sample.get_mut(8..16)?;
    let marked = u64::from_ne_bytes((&*id).try_into().ok()?) | GHOST;
    id.copy_from_slice(&marked.to_ne_bytes());
    Some(sample)
}

impl RecordSource for GhostSource {
    fn kind(&self) -> EventSource {
        EventSource::Live
    }

    fn attributes(&self) -> Vec<EventAttributes> {
        let mut events = self.live.as_ref().map(LiveSource::attributes).unwrap_or_default();
        events.extend(self.pmu.attributes().into_iter().map(|mut event| {
            event.ids.iter_mut().for_each(|id| *id |= GHOST);
            event
        }));
        events
    }

    fn preamble(&mut self) -> Vec<u8> {
        self.live.as_mut().map(LiveSource::preamble).unwrap_or_default()
    }

    fn wakeups(&self) -> Vec<RawFd> {
        self.live.as_ref().map(LiveSource::wakeups).unwrap_or_default()
    }

    fn hung_up(&mut self, descriptor: RawFd) {
        if let Some(live) = &mut self.live {
            live.hung_up(descriptor);
        }
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError> {
        let mut bytes = match &mut self.live {
            Some(live) => live.drain(sink)?,
            None => 0,
        };
        let beside_live = self.live.is_some();
        for record in std::mem::take(&mut self.late) {
            bytes += record.len();
            sink(&record)?;
        }
        bytes += self.pmu.drain(|record| match passed_on(record, beside_live) {
            Some(record) => sink(&record),
            None => Ok(()),
        })?;
        Ok(bytes)
    }

    fn comes_in_rounds(&self) -> bool {
        false // a window's samples come when it is over
    }

    fn start(&mut self) -> Result<(), DrainError> {
        self.pmu.start_measuring();
        match &mut self.live {
            Some(live) => live.start(),
            None => Ok(()),
        }
    }

    fn set_state_rules(&mut self, rules: &[StateRule]) {
        self.pmu.set_state_rules(rules);
        if let Some(live) = &mut self.live {
            live.set_state_rules(rules);
        }
    }

    fn stop(&mut self) {
        if let Some(live) = &mut self.live {
            live.stop();
        }
        self.pmu.stop_measuring();
        let (asked, beside_live) = (Instant::now(), self.live.is_some());
        let mut late = Vec::new();
        while !self.follower.has_ended() && asked.elapsed() < PATIENCE {
            // A ring that is broken ends the recording at the next drain.
            let _ = self.pmu.drain::<DrainError>(|record| {
                late.extend(passed_on(record, beside_live));
                Ok(())
            });
            std::thread::sleep(Duration::from_millis(5));
        }
        self.late.append(&mut late);
        self.report = self.follower.report();
    }

    fn is_finished(&self) -> bool {
        match &self.live {
            Some(live) => live.is_finished(),
            None => self.follower.is_known_to_have_ended(),
        }
    }

    fn counts(&self) -> Vec<EventCount> {
        let mut counts = self.live.as_ref().map(LiveSource::counts).unwrap_or_default();
        let scaled: BTreeMap<MemoryEvent, u64> = self.report.as_ref().map(Report::scaled).unwrap_or_default();
        counts.extend(scaled.into_iter().map(|(event, value)| EventCount {
            name: event.name().to_string(),
            reading: Reading { value, enabled: 1, running: 1 },
        }));
        counts
    }

    fn statements(&self) -> Vec<Statement> {
        let mut statements = self.pmu.statements();
        statements.extend(self.live.as_ref().map(LiveSource::statements).unwrap_or_default());
        statements.sort_by_key(|statement| statement.id);
        statements.dedup_by_key(|statement| statement.id);
        statements
    }

    fn latency_kind(&self) -> Option<LatencyKind> {
        Some(self.pmu.latency_kind())
    }

    fn reuse(&self) -> Option<ReuseHistogram> {
        self.pmu.reuse()
    }

    fn page_walks(&self) -> Option<PageWalks> {
        let share = self.notes_of().followed_share();
        let scaled = |count: u64| (count as f64 / share).round() as u64;
        self.pmu.page_walks().filter(|_| share > 0.0).map(|walks| PageWalks {
            small: scaled(walks.small),
            all_huge: scaled(walks.all_huge),
            shared_huge: scaled(walks.shared_huge),
        })
    }

    fn stall(&self) -> Option<StallNotes> {
        self.live.as_ref().and_then(LiveSource::stall)
    }

    fn ghosts(&self) -> Option<GhostNotes> {
        Some(self.notes_of())
    }

    fn times(&self) -> Vec<ProcessTime> {
        self.live.as_ref().map(LiveSource::times).unwrap_or_default()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.live.as_ref().map(LiveSource::notes).unwrap_or_default();
        let machine = self.pmu.machine();
        notes.push(format!(
            "misses are simulated on {} ({}), under stretches of the running processes: user mode only, counts scaled by \
             the CPU time that was followed",
            machine.name, machine.title
        ));
        notes.push(
            "stretches that ended differently from the server's are dropped: another process changed their memory, so \
             that reads are overrepresented"
                .to_string(),
        );
        let many = lanes();
        notes.push(match many {
            1 => "with one processor, processes are followed in turns: lines that they take from each other are not seen"
                .to_string(),
            _ => format!(
                "up to {many} processes are followed at once: lines that others take from them are not seen, so that \
                 coherence misses are too few where more than {many} run"
            ),
        });
        notes.push(match self.notes_of().ns_alone {
            0.0 => "totals may be too low, by up to a factor of three: no word in the processes' memory was found that \
                    counts their work, and a stretch that is followed takes longer than one that is not; rates and \
                    shares do not depend on it"
                .to_string(),
            nanoseconds => format!(
                "counts are scaled by {nanoseconds:.2} ns of CPU time an instruction, which a counter in the processes' \
                 own memory gave between windows"
            ),
        });
        notes.push(
            "a line that the followed stretches use for the first time was probably used before: in shared memory and \
             code, a capacity miss once they have filled the cache; before, and in other memory, of unknown cause"
                .to_string(),
        );
        notes.extend(machine.notes.iter().cloned());
        if self.report.is_none() {
            notes.push("the follower did not report: how its stretches ended is not known".to_string());
        }
        notes.extend(self.follower.complaint());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, id: u64) -> Vec<u8> {
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend([0, 0, 16, 0]);
        record.extend(id.to_ne_bytes());
        record
    }

    #[test]
    fn samples_get_ids_that_the_kernel_does_not_give() {
        let sample = passed_on(&record(record_type::SAMPLE, 3), true).expect("a sample");
        assert_eq!(u64::from_ne_bytes(sample[8..16].try_into().expect("eight bytes")), 3 | 1 << 62);
        assert_eq!(passed_on(&record(record_type::SAMPLE, 3)[..12], true), None, "cut off");
    }

    #[test]
    fn mappings_come_from_one_source_only() {
        let mapping = record(record_type::MMAP2, 3);
        assert_eq!(passed_on(&mapping, true), None);
        assert_eq!(passed_on(&mapping, false), Some(mapping.clone()));
    }
}
