//! The identity of a capture, for files and messages about many captures.

use hardmeter_answers::{AnswersError, Capture};
use hardmeter_samples::model::{EventSource, Timestamp};
use hardmeter_samples::sidecar::LatencyKind;
use sha2::{Digest, Sha256};
use std::time::UNIX_EPOCH;

/// A capture's id, and what is known of it beside its samples.
#[derive(Clone, Debug)]
pub struct CaptureIdentity {
    /// 16 hexadecimal digits. They depend on the capture alone: on host, command, events, beginning.
    pub id: String,
    pub(crate) host: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) release: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) source: String,
    pub(crate) started_ns: Option<u64>,
    pub(crate) recorded_at_us: Option<i64>,
    pub(crate) exposed: bool,
    pub(crate) latency_kind: Option<&'static str>,
    pub(crate) unit: &'static str,
    pub(crate) transactions: Option<f64>,
}

impl CaptureIdentity {
    /// The identity of a capture. `release` names what ran; by default it is the server with its version.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of(capture: &Capture, release: Option<&str>) -> Result<CaptureIdentity, AnswersError> {
        let (host, kernel) = capture.host();
        let server = capture.object_notes().map(|notes| product(&notes.server));
        let source = capture.source();
        let kind = capture.latency_kind();
        let started = capture.started().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let clock = matches!(source, EventSource::Live | EventSource::Timer);
        let transactions = capture.workload().figures.get("transactions").copied();
        Ok(CaptureIdentity {
            id: identity(capture, capture.first_sample_time()?),
            host: host.map(str::to_string),
            kernel: kernel.map(str::to_string),
            release: release.map(str::to_string).or_else(|| server.clone()),
            server,
            source: source_name(source).to_string(),
            started_ns: started.and_then(|time| u64::try_from(time.as_nanos()).ok()),
            recorded_at_us: started.and_then(|time| i64::try_from(time.as_micros()).ok()),
            exposed: kind == Some(LatencyKind::Exposed),
            latency_kind: kind.map(|kind| match kind {
                LatencyKind::Exposed => "exposed",
                LatencyKind::Whole => "whole",
            }),
            unit: if clock { "ns" } else { "events" },
            transactions: transactions.filter(|transactions| *transactions >= 1.0),
        })
    }
}

/// `PostgreSQL 15.18` of `PostgreSQL 15.18 (process 4711)`: the same on every host.
fn product(server: &str) -> String {
    server.split(" (").next().unwrap_or(server).trim().to_string()
}

fn identity(capture: &Capture, first: Option<Timestamp>) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    let (host, kernel) = capture.host();
    add(host.unwrap_or_default());
    add(kernel.unwrap_or_default());
    capture.command_line().iter().for_each(|word| add(word));
    for event in capture.events() {
        add(&event.name);
        add(&event.period.map_or(String::new(), |period| period.0.to_string()));
    }
    let started = capture.started().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    add(&started.map_or(String::new(), |time| time.as_nanos().to_string()));
    add(&first.map_or(String::new(), |time| time.0.to_string()));
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn source_name(source: EventSource) -> &'static str {
    match source {
        EventSource::Hardware => "hardware",
        EventSource::Simulated => "simulated",
        EventSource::Timer => "timer",
        EventSource::Live => "live",
        EventSource::Imported => "imported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_its_process() {
        assert_eq!(product("PostgreSQL 15.18 (process 4711)"), "PostgreSQL 15.18");
        assert_eq!(product("MariaDB 10.11"), "MariaDB 10.11");
    }
}
