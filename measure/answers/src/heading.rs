//! The conditions of a recording. Views show them above every table: numbers without their conditions
//! mislead.

use crate::estimate::Share;
use crate::quality::AddressCheck;
use crate::totals::{EventTotals, Totals};
use hardmeter_samples::model::{
    Cycles, EventDescription, EventIndex, EventSource, GhostNotes, MemoryEvent, ProcessTime, StallNotes,
    OTHER_CPU_EVENT, STALL_EVENT,
};
use serde::Serialize;

/// The recorded samples of one event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EventHeading {
    /// The event as the capture names it.
    pub name: String,
    /// The fixed period, if it was fixed.
    pub period: Option<u64>,
    /// The frequency in Hz, if the kernel adapted the period.
    pub frequency: Option<u64>,
    /// The requested precision (`precise_ip`).
    pub precise_ip: u8,
    /// Total number of occurrences, sampled or not, if the recorder counted them.
    pub counted: Option<u64>,
    /// In live recordings: its share of all samples of CPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Share>,
    /// Events of ghosts: the part of the CPU time that was followed. Counts are scaled to all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed_share: Option<f64>,
    /// Counts over the whole capture.
    #[serde(flatten)]
    pub totals: EventTotals,
}

impl EventHeading {
    /// The heading of an event.
    pub fn new(event: &EventDescription, totals: EventTotals) -> Self {
        EventHeading {
            name: event.name.clone(),
            period: event.period.map(|period| period.0),
            frequency: event.frequency,
            precise_ip: event.precise_ip,
            counted: None,
            cpu_time: None,
            followed_share: None,
            totals,
        }
    }
}

/// The conditions of a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Heading {
    /// The file.
    pub file: String,
    /// The source of the samples.
    pub source: EventSource,
    /// The program that recorded it.
    pub recorder: Option<String>,
    /// Host and processor.
    pub machine: Option<String>,
    /// The memory hierarchy of the machine, or of the simulated one.
    pub geometry: Option<String>,
    /// The command line that recorded it.
    pub command: Option<String>,
    /// Nanoseconds from the first sample to the last; simulated time in simulated captures.
    pub duration_ns: Option<u64>,
    /// Instructions executed while recording, where the recorder counted them.
    pub instructions: Option<u64>,
    /// Duration in cycles of the simulated machine, over all cores.
    pub simulated_cycles: Option<Cycles>,
    /// Processes sampled.
    pub processes: u64,
    /// Threads sampled.
    pub threads: u64,
    /// Samples in user mode.
    pub user_samples: u64,
    /// Samples in the kernel.
    pub kernel_samples: u64,
    /// Samples lost.
    pub lost_samples: u64,
    /// Records lost, samples perhaps among them.
    pub lost_records: u64,
    /// Times an event was throttled.
    pub throttled: u64,
    /// Data addresses computed once more from registers and instructions, where samples have them.
    pub addresses: Option<AddressCheck>,
    /// Statistics of the search for loads before timer samples, in live recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallNotes>,
    /// The quality of ghosts, where processes were followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ghosts: Option<GhostNotes>,
    /// CPU and wait time of the processes, if recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<ProcessTime>,
    /// The events.
    pub events: Vec<EventHeading>,
    /// Traces in the file that are not decoded, with their sizes, as text.
    pub undecoded_traces: Vec<String>,
    /// Limits of the source, as text.
    pub limits: Vec<String>,
}

impl Heading {
    /// Copies the totals of a pass.
    pub fn set_totals(&mut self, events: &[EventDescription], totals: &Totals) {
        self.duration_ns = totals.duration_ns();
        self.processes = totals.processes();
        self.threads = totals.threads();
        self.user_samples = totals.user_samples;
        self.kernel_samples = totals.kernel_samples;
        self.lost_samples = totals.lost_samples;
        self.lost_records = totals.lost_records;
        self.throttled = totals.throttled;
        self.events = events
            .iter()
            .enumerate()
            .map(|(index, event)| EventHeading::new(event, totals.event(EventIndex(index))))
            .collect();
        self.set_cpu_time();
    }

    /// Shares of CPU time, where samples are of time.
    fn set_cpu_time(&mut self) {
        let is_time = |event: &EventHeading| {
            let base = event.name.split(':').next();
            base == Some(STALL_EVENT) || base == Some(OTHER_CPU_EVENT)
        };
        let live = self.source == EventSource::Live;
        let all = self.events.iter().filter(|event| live && is_time(event));
        let total = all.map(|event| event.totals.samples).sum();
        for event in self.events.iter_mut().filter(|event| live && is_time(event)) {
            event.cpu_time = Some(Share { count: event.totals.samples, total });
        }
    }

    /// Adds the followed part to the events of ghosts.
    pub fn set_ghosts(&mut self, ghosts: Option<GhostNotes>) {
        for event in &mut self.events {
            let simulated = MemoryEvent::from_name(&event.name).is_some();
            event.followed_share = ghosts.as_ref().filter(|_| simulated).map(GhostNotes::followed_share);
        }
        self.ghosts = ghosts;
    }

    /// Samples of all events.
    pub fn samples(&self) -> u64 {
        self.events.iter().map(|event| event.totals.samples).sum()
    }
}
