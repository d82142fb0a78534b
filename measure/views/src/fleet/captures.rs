//! The table `captures`: one row per capture and event, with its conditions and what the server counted.

use super::table::{optional, required, Batch, ColumnKind, FleetColumn, Texts};
use super::EventSums;
use crate::CaptureIdentity;
use hardmeter_answers::{Heading, Workload};

/// The columns, in their order.
pub const CAPTURE_COLUMNS: [FleetColumn; 31] = [
    required("capture", ColumnKind::Text, "id of the capture"),
    optional("host", ColumnKind::Text, "as in `samples`"),
    optional("kernel", ColumnKind::Text, "release of its kernel"),
    optional("release", ColumnKind::Text, "as in `samples`"),
    optional("server", ColumnKind::Text, "the server that was observed, with its version"),
    required("source", ColumnKind::Text, "as in `samples`"),
    optional("machine", ColumnKind::Text, "processor, host, kernel"),
    optional("geometry", ColumnKind::Text, "caches, or those that were simulated"),
    optional("tool_version", ColumnKind::Text, "version of the recorder"),
    required("exporter_version", ColumnKind::Text, "version of Hardmeter that wrote this row"),
    required("file", ColumnKind::Text, "the capture's file when it was exported"),
    optional("command", ColumnKind::Text, "command line that recorded it"),
    optional("filter", ColumnKind::Text, "filter of the export, in words"),
    optional("recorded_at", ColumnKind::Moment, "when the recording began"),
    optional("duration_ns", ColumnKind::Whole, "from the first sample to the last, by the capture's clock"),
    optional("instructions", ColumnKind::Whole, "instructions while recording"),
    optional("simulated_cycles", ColumnKind::Whole, "simulated time, over all cores"),
    required("lost", ColumnKind::Whole, "samples and records that were lost"),
    required("event", ColumnKind::Text, "the event"),
    required("unit", ColumnKind::Text, "what `events` counts: events, or ns of CPU time"),
    optional("period", ColumnKind::Whole, "events per sample, where it was fixed"),
    optional("counted", ColumnKind::Whole, "occurrences, sampled or not, where they were counted"),
    required("samples", ColumnKind::Whole, "samples exported: rows in `samples`"),
    required("events", ColumnKind::Whole, "sum of `events` of these samples"),
    required("latency_cycles", ColumnKind::Whole, "sum of `latency_cycles` of these samples"),
    optional("latency_kind", ColumnKind::Text, "exposed or whole, where it was simulated"),
    optional("transactions", ColumnKind::Real, "transactions of the server while recording"),
    optional("writing_transactions", ColumnKind::Real, "those that wrote"),
    optional("rows_returned", ColumnKind::Real, "rows that scans of the server read"),
    optional("rows_fetched", ColumnKind::Real, "rows that index scans of the server fetched"),
    optional("rows_written", ColumnKind::Real, "rows that the server wrote"),
];

/// The rows of a capture.
pub(super) fn batch(
    facts: &CaptureIdentity,
    heading: &Heading,
    workload: &Workload,
    filter: Option<&str>,
    sums: &[EventSums],
) -> Batch {
    let (mut texts, mut batch) = (Texts::default(), Batch::new(&CAPTURE_COLUMNS));
    for (sums, event) in sums.iter().zip(&heading.events) {
        let figure = |name: &str| workload.figures.get(name).copied();
        batch.begin();
        batch.text(Some(texts.number(&facts.id)));
        batch.text(texts.some(facts.host.as_deref()));
        batch.text(texts.some(facts.kernel.as_deref()));
        batch.text(texts.some(facts.release.as_deref()));
        batch.text(texts.some(facts.server.as_deref()));
        batch.text(Some(texts.number(&facts.source)));
        batch.text(texts.some(heading.machine.as_deref()));
        batch.text(texts.some(heading.geometry.as_deref()));
        batch.text(texts.some(heading.recorder.as_deref()));
        batch.text(Some(texts.number(env!("CARGO_PKG_VERSION"))));
        batch.text(Some(texts.number(&heading.file)));
        batch.text(texts.some(heading.command.as_deref()));
        batch.text(texts.some(filter));
        batch.whole(facts.recorded_at_us);
        batch.bits(heading.duration_ns);
        batch.bits(heading.instructions);
        batch.bits(heading.simulated_cycles.map(|cycles| cycles.0));
        batch.bits(Some(heading.lost_samples + heading.lost_records));
        batch.text(Some(texts.number(&sums.name)));
        batch.text(Some(texts.number(facts.unit)));
        batch.bits(event.period);
        batch.bits(event.counted);
        batch.bits(Some(sums.samples));
        batch.bits(Some(sums.events));
        batch.bits(Some(sums.latency));
        batch.text(texts.some(facts.latency_kind));
        batch.real(figure("transactions"));
        batch.real(figure("writing transactions"));
        batch.real(figure("rows returned"));
        batch.real(figure("rows fetched"));
        batch.real(figure("rows written"));
        batch.end();
    }
    batch.add_texts(texts.take_new());
    batch
}
