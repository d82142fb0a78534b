//! One pass over a capture: every raw record is put in order, decoded, counted and handed on.

use super::abi::{record_type, sample_type};
use super::events::{EventAttributes, EventTable};
use super::order::TimeQueue;
use super::stream::{RawRecord, RecordStream};
use super::summary::ReadSummary;
use super::{record, sample};
use crate::model::Record;
use std::io;
use std::ops::ControlFlow;

/// The state of one pass.
pub(super) struct Pass<'r> {
    table: EventTable,
    pub(super) summary: ReadSummary,
    receiver: &'r mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
}

impl<'r> Pass<'r> {
    pub(super) fn new(
        events: &[EventAttributes],
        receiver: &'r mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Pass<'r> {
        let fields = events.iter().fold(0, |fields, event| fields | event.attr.sample_type);
        let summary = ReadSummary {
            samples: vec![0; events.len()],
            unknown_fields: fields & !sample_type::KNOWN,
            ..ReadSummary::default()
        };
        Pass { table: EventTable::new(events), summary, receiver }
    }

    pub(super) fn in_file_order(&mut self, stream: &mut RecordStream<'_>) -> io::Result<ControlFlow<()>> {
        while stream.advance(&mut self.summary)? {
            if self.deliver(stream.current()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn in_time_order(&mut self, stream: &mut RecordStream<'_>) -> io::Result<ControlFlow<()>> {
        let mut queue = TimeQueue::new();
        while stream.advance(&mut self.summary)? {
            let flow = self.enqueue(&mut queue, stream.current());
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(queue.flush_all(&mut |record| self.deliver(record)))
    }

    /// Records without a time (perf's own, and those made up at the start) go out at once, as in perf.
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

    /// Decodes a record and hands it on.
    fn deliver(&mut self, raw: RawRecord<'_>) -> ControlFlow<()> {
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
            self.summary.samples[sample.event.0] += 1;
            return (self.receiver)(Record::Sample(sample));
        }
        let record = match raw.kind < record_type::FIRST_USER {
            true => {
                let trailer = self.table.trailer_of(raw.kind, raw.body);
                record::decode(raw.kind, raw.misc, raw.body, trailer)
            }
            false => Some(Record::Other { record_type: raw.kind, body: raw.body }),
        };
        let Some(record) = record else {
            self.summary.unparsable += 1;
            return ControlFlow::Continue(());
        };
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
}
