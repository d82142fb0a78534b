//! The contents of a capture before any filter: samples per event, processes, losses.

use crate::estimate::Share;
use hardmeter_samples::model::{CpuMode, EventIndex, Period, Pid, Record, Sample, Tid, Timestamp};
use rustc_hash::FxHashSet;
use serde::Serialize;

/// The recorded samples of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EventTotals {
    /// Samples.
    pub samples: u64,
    /// Events that the samples stand for: the sum of their periods.
    pub events: Period,
    /// Samples with an exact instruction address.
    pub exact: u64,
    /// Samples with a data address.
    pub with_address: u64,
    /// Samples with a latency.
    pub with_latency: u64,
    /// Samples with a call chain.
    pub with_callchain: u64,
}

/// The contents of a capture.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    events: Vec<EventTotals>,
    pids: FxHashSet<Pid>,
    tids: FxHashSet<Tid>,
    /// Time of the first sample.
    pub first: Option<Timestamp>,
    /// Time of the last sample.
    pub last: Option<Timestamp>,
    /// Samples in user mode.
    pub user_samples: u64,
    /// Samples in kernel mode.
    pub kernel_samples: u64,
    /// Samples that the kernel dropped.
    pub lost_samples: u64,
    /// Records of any kind that the kernel dropped, samples probably among them.
    pub lost_records: u64,
    /// The number of times that the kernel throttled an event because of too many interrupts.
    pub throttled: u64,
}

impl Totals {
    pub(crate) fn see(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Lost(lost) if lost.samples_only => self.lost_samples += lost.count,
            Record::Lost(lost) => self.lost_records += lost.count,
            Record::Throttle(throttle) if !throttle.resumed => self.throttled += 1,
            _ => {}
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let index = sample.event.0;
        if index >= self.events.len() {
            self.events.resize(index + 1, EventTotals::default());
        }
        let event = &mut self.events[index];
        event.samples += 1;
        event.events.0 = event.events.0.saturating_add(sample.period.0);
        event.exact += u64::from(sample.exact_ip);
        event.with_address += u64::from(sample.address.is_some());
        event.with_latency += u64::from(sample.weight.is_some());
        event.with_callchain += u64::from(!sample.callchain.is_empty());
        match sample.mode {
            CpuMode::User | CpuMode::GuestUser => self.user_samples += 1,
            CpuMode::Kernel | CpuMode::GuestKernel | CpuMode::Hypervisor => self.kernel_samples += 1,
            CpuMode::Unknown => {}
        }
        if let Some(pid) = sample.pid {
            self.pids.insert(pid);
        }
        if let Some(tid) = sample.tid {
            self.tids.insert(tid);
        }
        if let Some(time) = sample.time {
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
        }
    }

    /// The totals of one event; zero if it has no samples.
    pub fn event(&self, index: EventIndex) -> EventTotals {
        self.events.get(index.0).copied().unwrap_or_default()
    }

    /// Samples of all events.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.samples).sum()
    }

    /// Processes that were sampled.
    pub fn processes(&self) -> u64 {
        self.pids.len() as u64
    }

    /// Threads that were sampled.
    pub fn threads(&self) -> u64 {
        self.tids.len() as u64
    }

    /// Nanoseconds between the first and the last sample, on the capture's clock.
    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.last?.0 - self.first?.0)
    }
}

/// How many user-mode samples lie in an identified routine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NamedShare {
    /// User-mode samples in a routine with a name.
    pub named: u64,
    /// User-mode samples in a routine without a name ("static function 2 before XLogFlush").
    pub nameless: u64,
    /// All user-mode samples examined.
    pub user_samples: u64,
}

impl NamedShare {
    /// Share of samples with a name, or known to be in an unnamed routine.
    pub fn identified(self) -> Share {
        Share { count: self.named + self.nameless, total: self.user_samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::LostRecords;

    #[test]
    fn totals_by_hand() {
        let mut totals = Totals::default();
        for (event, pid, time) in [(0, 1, 100), (1, 1, 50), (1, 2, 400)] {
            let mut sample = sample(event, pid, 0x1000);
            sample.time = Some(Timestamp(time));
            sample.period = Period(10);
            totals.see(&Record::Sample(sample));
        }
        totals.see(&Record::Lost(LostRecords { count: 7, samples_only: true, time: None }));
        totals.see(&Record::Lost(LostRecords { count: 3, samples_only: false, time: None }));
        assert_eq!(totals.samples(), 3);
        assert_eq!(totals.event(EventIndex(1)).samples, 2);
        assert_eq!(totals.event(EventIndex(1)).events, Period(20));
        assert_eq!(totals.event(EventIndex(9)).samples, 0);
        assert_eq!((totals.processes(), totals.threads()), (2, 2));
        assert_eq!(totals.duration_ns(), Some(350));
        assert_eq!((totals.lost_samples, totals.lost_records), (7, 3));
        assert_eq!((totals.user_samples, totals.kernel_samples), (3, 0));
    }
}
