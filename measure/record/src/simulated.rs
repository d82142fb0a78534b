//! The software PMU as a source of records like any other.

use crate::pmu::syscall::Reading;
use crate::softpmu::SoftwarePmu;
use crate::source::{DrainError, EventCount, RecordSink, RecordSource};
use hardmeter_samples::model::{Cycles, EventSource, StateRule};
use hardmeter_samples::perf_data::EventAttributes;
use hardmeter_samples::sidecar::{HiddenLatency, LatencyKind, PageWalks, ReuseHistogram, Statement};
use std::time::Duration;

/// A prepared software PMU, drained by the recorder.
pub struct SimulatedSource {
    pmu: SoftwarePmu,
}

impl SimulatedSource {
    /// Wraps a PMU.
    pub fn new(pmu: SoftwarePmu) -> SimulatedSource {
        SimulatedSource { pmu }
    }

    /// The PMU.
    pub fn pmu(&self) -> &SoftwarePmu {
        &self.pmu
    }
}

impl RecordSource for SimulatedSource {
    fn kind(&self) -> EventSource {
        EventSource::Simulated
    }

    fn attributes(&self) -> Vec<EventAttributes> {
        self.pmu.attributes()
    }

    fn interval(&self) -> Duration {
        // The shared ring cannot wake the recorder. Simulated programs write a few MB/s; the ring holds more than
        // that.
        Duration::from_millis(20)
    }

    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError> {
        self.pmu.drain(sink)
    }

    fn comes_in_rounds(&self) -> bool {
        false // each simulated core has its own clock, which may lag by any number of rounds
    }

    fn start(&mut self) -> Result<(), DrainError> {
        self.pmu.start_measuring();
        Ok(())
    }

    fn set_state_rules(&mut self, rules: &[StateRule]) {
        self.pmu.set_state_rules(rules);
    }

    fn stop(&mut self) {
        self.pmu.stop_measuring();
    }

    fn is_finished(&self) -> bool {
        false // the recorder ends with the command
    }

    fn counts(&self) -> Vec<EventCount> {
        let counted = |(event, value): (hardmeter_samples::model::MemoryEvent, u64)| EventCount {
            name: event.name().to_string(),
            reading: Reading { value, enabled: 1, running: 1 },
        };
        self.pmu.counts().events.into_iter().map(counted).collect()
    }

    fn simulated_cycles(&self) -> Option<Cycles> {
        // Misses on lines that were left out cost no cycles: the time of a run with set sampling is too short.
        (!self.pmu.samples_sets()).then(|| self.pmu.counts().cycles)
    }

    fn statements(&self) -> Vec<Statement> {
        self.pmu.statements()
    }

    fn one_line_in(&self) -> Option<u32> {
        Some(self.pmu.one_line_in())
    }

    fn latency_kind(&self) -> Option<LatencyKind> {
        Some(self.pmu.latency_kind())
    }

    fn hidden_latency(&self) -> Option<HiddenLatency> {
        self.pmu.hidden_latency()
    }

    fn reuse(&self) -> Option<ReuseHistogram> {
        self.pmu.reuse()
    }

    fn page_walks(&self) -> Option<PageWalks> {
        self.pmu.page_walks()
    }

    fn notes(&self) -> Vec<String> {
        self.pmu.notes()
    }
}
