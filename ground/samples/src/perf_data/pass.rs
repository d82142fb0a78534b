//! One pass over a capture: orders, decodes, counts and delivers every raw record.

use super::abi::{aux_flag, record_type, sample_type};
use super::auxtrace::Block;
use super::bytes::Cursor;
use super::events::{EventAttributes, EventTable};
use super::group_read::{reads_named_counters, GroupReads};
use super::order::TimeQueue;
use super::stream::{RawRecord, RecordStream};
use super::summary::ReadSummary;
use super::traces::Traces;
use super::{record, sample};
use crate::model::{LostRecords, ReadValue, Record, Sample, Timestamp};
use std::io;
use std::ops::ControlFlow;

/// The state of one pass.
pub(super) struct Pass<'r> {
    table: EventTable,
    pub(super) summary: ReadSummary,
    receiver: &'r mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    /// Samples that are not separate records.
    traces: Option<Traces<'r>>,
    /// Counters that samples read.
    reads: GroupReads,
    /// The reason why reading a trace ended the pass.
    failure: Option<io::Error>,
}

impl<'r> Pass<'r> {
    pub(super) fn new(
        events: &[EventAttributes],
        traces: Option<Traces<'r>>,
        receiver: &'r mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Pass<'r> {
        let fields = events.iter().fold(0, |fields, event| fields | event.attr.sample_type);
        let summary = ReadSummary {
            samples: vec![0; events.len()],
            unknown_fields: fields & !sample_type::KNOWN,
            ..ReadSummary::default()
        };
        Pass {
            table: EventTable::new(events),
            summary,
            receiver,
            traces,
            reads: GroupReads::default(),
            failure: None,
        }
    }

    /// Looks for traces in the whole file, for the order of time.
    pub(super) fn find_traces(&mut self, mut stream: RecordStream<'_>) -> io::Result<()> {
        let Some(traces) = &mut self.traces else { return Ok(()) };
        traces.find(&mut stream, &mut self.table)?;
        traces.begin(&mut self.summary)
    }

    pub(super) fn in_file_order(&mut self, stream: &mut RecordStream<'_>) -> io::Result<ControlFlow<()>> {
        while stream.advance(&mut self.summary)? {
            let mut flow = self.deliver(stream.current());
            if flow.is_continue() && self.traces.is_some() && stream.current().kind == record_type::AUXTRACE {
                flow = self.deliver_in_place(stream)?;
            }
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn in_time_order(&mut self, stream: &mut RecordStream<'_>) -> io::Result<ControlFlow<()>> {
        let mut queue = TimeQueue::new();
        while stream.advance(&mut self.summary)? {
            let record = stream.current();
            if let (Some(traces), record_type::AUXTRACE) = (&mut self.traces, record.kind) {
                // It is read elsewhere; only its losses are counted here.
                if let Some(block) = Block::decode(record, stream.payload()) {
                    traces.admit(&block, &mut self.summary);
                }
            }
            let flow = self.enqueue(&mut queue, record);
            if flow.is_break() {
                return self.ended(flow);
            }
        }
        let mut flow = queue.flush_all(&mut |record| self.deliver(record));
        if flow.is_continue() {
            flow = self.deliver_traced(None);
        }
        self.ended(flow)
    }

    fn ended(&mut self, flow: ControlFlow<()>) -> io::Result<ControlFlow<()>> {
        self.failure.take().map_or(Ok(flow), Err)
    }

    /// Delivers the traces' samples that are older than a record.
    fn deliver_traced(&mut self, before: Option<u64>) -> ControlFlow<()> {
        let Some(traces) = &mut self.traces else { return ControlFlow::Continue(()) };
        loop {
            match traces.due(before, &mut self.summary) {
                Ok(Some(sample)) => {
                    self.summary.samples[sample.event.0] += 1;
                    (self.receiver)(Record::Sample(sample))?;
                }
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => {
                    self.failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
    }

    /// Delivers the samples of the trace that follows the current record.
    fn deliver_in_place(&mut self, stream: &RecordStream<'_>) -> io::Result<ControlFlow<()>> {
        let Some(traces) = &mut self.traces else { return Ok(ControlFlow::Continue(())) };
        let receiver = &mut self.receiver;
        let mut flow = ControlFlow::Continue(());
        traces.in_place(stream.current(), stream.payload(), &mut self.summary, &mut |sample, summary| {
            summary.samples[sample.event.0] += 1;
            flow = (*receiver)(Record::Sample(sample));
            flow.is_continue()
        })?;
        Ok(flow)
    }

    /// Records without a time (perf's own, and those synthesized at the start) are delivered at once, as in perf.
    fn enqueue(&mut self, queue: &mut TimeQueue, record: RawRecord<'_>) -> ControlFlow<()> {
        if record.kind == record_type::FINISHED_ROUND {
            queue.finish_round(&mut |due| self.deliver(due))?;
        }
        let time = match record.kind < record_type::FIRST_USER {
            true => self.table.time_of(record.kind, record.body),
            false => None,
        };
        let Some(time) = time else { return self.deliver(record) };
        self.summary.out_of_order += u64::from(queue.push(time, record));
        if queue.is_full() {
            queue.flush_half(&mut |due| self.deliver(due))?;
        }
        ControlFlow::Continue(())
    }

    /// Decodes a record and delivers it.
    fn deliver(&mut self, raw: RawRecord<'_>) -> ControlFlow<()> {
        if self.traces.is_some() && raw.kind < record_type::FIRST_USER {
            if let Some(time) = self.table.time_of(raw.kind, raw.body) {
                self.deliver_traced(Some(time))?;
            }
        }
        self.summary.records += 1;
        if raw.kind == record_type::SAMPLE {
            let decoded = self
                .table
                .event_of(raw.kind, raw.body)
                .and_then(|event| sample::decode(self.table.attr(event), event, raw.misc, raw.body));
            let Some(sample) = decoded else {
                self.summary.unparsable += 1;
                return ControlFlow::Continue(());
            };
            if let Some(probe) = self.table.probe_of(sample.event) {
                let Some(mark) = probe.decode(&sample) else {
                    self.summary.unparsable += 1;
                    return ControlFlow::Continue(());
                };
                return (self.receiver)(Record::Statement(mark));
            }
            return self.deliver_sample(sample);
        }
        let record = match raw.kind < record_type::FIRST_USER {
            true => {
                let trailer = self.table.trailer_of(raw.kind, raw.body);
                if let Some(traces) = &mut self.traces {
                    traces.observe(raw, trailer);
                }
                let decoded = self.traces.is_some();
                match raw.kind {
                    record_type::AUX if decoded => Some(self.piece_of_trace(raw, trailer.time(raw.body))),
                    _ => record::decode(raw.kind, raw.misc, raw.body, trailer),
                }
            }
            false => Some(Record::Other { record_type: raw.kind, body: raw.body }),
        };
        let Some(record) = record else {
            self.summary.unparsable += 1;
            return ControlFlow::Continue(());
        };
        if let Some(traces) = &mut self.traces {
            traces.observe_decoded(&record);
        }
        match &record {
            Record::Lost(lost) => {
                let total = match lost.samples_only {
                    true => &mut self.summary.lost_samples,
                    false => &mut self.summary.lost_records,
                };
                *total = total.saturating_add(lost.count);
            }
            Record::Throttle(throttle) if !throttle.resumed => self.summary.throttled += 1,
            Record::Other { record_type, .. } if !record::is_known(*record_type) => {
                *self.summary.unknown_records.entry(*record_type).or_default() += 1;
            }
            _ => {}
        }
        (self.receiver)(record)
    }

    /// Delivers a sample, or one for each counter that it read.
    fn deliver_sample(&mut self, sample: Sample<'_>) -> ControlFlow<()> {
        let attr = self.table.attr(sample.event);
        if !reads_named_counters(attr) {
            self.summary.samples[sample.event.0] += 1;
            return (self.receiver)(Record::Sample(sample));
        }
        let known = |read: &ReadValue| read.id.is_some_and(|id| self.table.event_with_id(id).is_some());
        if !sample.read.iter().any(known) {
            self.summary.unparsable += 1;
            return ControlFlow::Continue(());
        }
        for (id, period) in self.reads.counted(attr, &sample) {
            let Some(event) = self.table.event_with_id(id) else { continue };
            self.summary.samples[event.0] += 1;
            (self.receiver)(Record::Sample(Sample { event, period, ..sample.clone() }))?;
        }
        ControlFlow::Continue(())
    }

    /// An `AUX` record of a decoded trace: a loss, if the buffer was full.
    fn piece_of_trace<'a>(&mut self, raw: RawRecord<'a>, time: Option<Timestamp>) -> Record<'a> {
        let mut fields = Cursor::new(raw.body);
        let (_offset, _size) = (fields.u64(), fields.u64());
        let flags = fields.u64().unwrap_or(0);
        self.summary.collisions += u64::from(flags & aux_flag::COLLISION != 0);
        if flags & (aux_flag::TRUNCATED | aux_flag::PARTIAL) == 0 {
            return Record::Other { record_type: raw.kind, body: raw.body };
        }
        self.summary.traces_cut += 1;
        // The number of lost records is unknown: at least one.
        Record::Lost(LostRecords { count: 1, samples_only: true, time })
    }
}
