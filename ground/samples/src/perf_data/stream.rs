//! Splits the data section into records, in bounded memory, compressed or not.
//!
//! ```text
//!            read_at                       zstd
//!   input ───────────> outer window ──┬──────────────> inner window ──> records
//!                                     └──────────────────────────────> records
//! ```
//! Records are borrowed from their window. perf compresses all its buffers as *one* zstd stream split into
//! `COMPRESSED` records, so the decoder lives as long as the pass, and a record may begin in one of them and end in
//! the next.

use super::abi::{record_type, RECORD_HEADER_SIZE};
use super::bytes::Cursor;
use super::input::Input;
use super::summary::{ReadSummary, SkipReason, TraceKind};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use zstd::stream::raw::{DParameter, Decoder, Operation};

/// Size of a read: large enough that system calls are negligible, small compared with any capture.
const READ_WINDOW_SIZE: usize = 1 << 20;

/// Size of the decompressed window: an incomplete record (at most 64 KiB) plus a whole zstd block (128 KiB).
const DECOMPRESSION_WINDOW_SIZE: usize = 256 << 10;

/// The largest accepted zstd window, as a power of two: 128 MiB, which perf's highest level uses.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// One undecoded record of the file.
#[derive(Clone, Copy)]
pub(super) struct RawRecord<'a> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// Without the header.
    pub(super) body: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Takes a complete record, header included, of exactly its length.
    fn new(bytes: &'a [u8]) -> RawRecord<'a> {
        RawRecord {
            kind: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            misc: u16::from_le_bytes([bytes[4], bytes[5]]),
            body: &bytes[RECORD_HEADER_SIZE..],
        }
    }
}

/// The front of a window.
enum Front {
    /// A whole record, here.
    Record(Range<usize>),
    /// Not enough bytes yet.
    Incomplete,
    /// No record can begin like this.
    Damaged,
}

/// A sliding window: filled at the end, consumed from the front.
struct Window {
    /// Allocated at the first use.
    buffer: Vec<u8>,
    capacity: usize,
    start: usize,
    end: usize,
}

impl Window {
    fn new(capacity: usize) -> Window {
        Window { buffer: Vec::new(), capacity, start: 0, end: 0 }
    }

    fn length(&self) -> usize {
        self.end - self.start
    }

    fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// The free space behind the bytes, after moving them to the beginning.
    fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer = vec![0; self.capacity];
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Takes a complete record from the front, if there is one.
    #[inline]
    fn take_record(&mut self) -> Front {
        let Some(header) = self.buffer[self.start..self.end].first_chunk::<RECORD_HEADER_SIZE>() else {
            return Front::Incomplete;
        };
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < RECORD_HEADER_SIZE {
            return Front::Damaged;
        }
        if self.length() < size {
            return Front::Incomplete;
        }
        let range = self.start..self.start + size;
        self.start = range.end;
        Front::Record(range)
    }
}

/// The window that contains the current record.
#[derive(Clone, Copy)]
enum Side {
    Outer,
    Inner,
}

/// The records of a data section, one after another.
pub(super) struct RecordStream<'a> {
    input: &'a Input,
    /// The file position of the next read.
    position: u64,
    /// The end of the data.
    end: u64,
    outer: Window,
    inner: Window,
    /// The part of the current `COMPRESSED` record that is not decompressed yet, in the outer window.
    compressed: Range<usize>,
    /// The decoder filled the inner window and may have more to give.
    more_output: bool,
    /// `None` before the first compressed record.
    decoder: Option<Decoder<'static>>,
    /// Whether the compressed stream is damaged.
    broken: bool,
    /// Whether to decompress records, or to return compressed ones as they are.
    inflate: bool,
    /// Whether another reader takes the payloads of traces, so that skipping them is not a loss.
    traces_are_read: bool,
    /// The kind of the file's traces.
    trace_kind: TraceKind,
    /// Receives the position, for a progress bar.
    progress: Option<&'a AtomicU64>,
    current: (Side, Range<usize>),
    /// The file range of the current record's payload, which follows the record.
    payload: Range<u64>,
}

impl<'a> RecordStream<'a> {
    pub(super) fn new(input: &'a Input, data: Range<u64>, inflate: bool) -> RecordStream<'a> {
        RecordStream {
            input,
            position: data.start,
            end: data.end,
            // A small file needs no more than itself.
            outer: Window::new((data.end - data.start).min(READ_WINDOW_SIZE as u64) as usize),
            inner: Window::new(DECOMPRESSION_WINDOW_SIZE),
            compressed: 0..0,
            more_output: false,
            decoder: None,
            broken: false,
            inflate,
            traces_are_read: false,
            trace_kind: TraceKind(0),
            progress: None,
            current: (Side::Outer, 0..0),
            payload: 0..0,
        }
    }

    /// The same for a reader that takes the payloads of traces from [`RecordStream::payload`].
    pub(super) fn leaving_traces(self) -> RecordStream<'a> {
        RecordStream { traces_are_read: true, ..self }
    }

    /// Enters traces that are passed over under this kind.
    pub(super) fn of_traces(self, trace_kind: TraceKind) -> RecordStream<'a> {
        RecordStream { trace_kind, ..self }
    }

    /// Writes the file position to `progress`.
    pub(super) fn reporting_to(self, progress: &'a AtomicU64) -> RecordStream<'a> {
        RecordStream { progress: Some(progress), ..self }
    }

    /// Advances to the next record; `false` at the end. Unreadable parts are added to the summary.
    pub(super) fn advance(&mut self, summary: &mut ReadSummary) -> io::Result<bool> {
        self.payload = 0..0;
        loop {
            match self.inner.take_record() {
                Front::Record(range) => {
                    self.current = (Side::Inner, range);
                    return Ok(true);
                }
                Front::Damaged => {
                    self.give_up_compressed(summary);
                    continue;
                }
                Front::Incomplete => {}
            }
            if self.more_output || !self.compressed.is_empty() {
                self.decompress(summary);
                continue;
            }
            match self.outer.take_record() {
                Front::Record(range) => {
                    self.current = (Side::Outer, range.clone());
                    let record = self.current();
                    match record.kind {
                        record_type::COMPRESSED | record_type::COMPRESSED2 if self.inflate => {
                            self.begin_compressed(range, summary);
                            continue;
                        }
                        record_type::AUXTRACE | record_type::HEADER_TRACING_DATA => {
                            let (size, kind) = (payload_size(record), record.kind);
                            self.skip_payload(size, kind, summary);
                        }
                        _ => {}
                    }
                    return Ok(true);
                }
                Front::Damaged => {
                    let rest = self.outer.length() as u64 + (self.end - self.position);
                    summary.skip(SkipReason::DamagedRecord, rest);
                    self.outer.clear();
                    self.position = self.end;
                    return Ok(self.end_of_stream(summary));
                }
                Front::Incomplete => {
                    if !self.fill()? {
                        return Ok(self.end_of_stream(summary));
                    }
                }
            }
        }
    }

    /// The record found by the last [`RecordStream::advance`].
    pub(super) fn current(&self) -> RawRecord<'_> {
        let (side, range) = &self.current;
        let window = match side {
            Side::Outer => &self.outer,
            Side::Inner => &self.inner,
        };
        RawRecord::new(&window.buffer[range.clone()])
    }

    /// The file range of the current record's payload, limited to the file's size.
    pub(super) fn payload(&self) -> Range<u64> {
        self.payload.clone()
    }

    /// Reads more of the file; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let left = self.end - self.position;
        let room = self.outer.room();
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
        let count = self.input.read_at(&mut room[..wanted], self.position)?;
        self.outer.end += count;
        self.position += count as u64;
        if let Some(progress) = self.progress {
            progress.store(self.position, Ordering::Relaxed);
        }
        Ok(count > 0)
    }

    fn end_of_stream(&mut self, summary: &mut ReadSummary) -> bool {
        let rest = self.outer.length() + self.inner.length();
        summary.skip(SkipReason::TruncatedTail, rest as u64);
        // The file became shorter while it was read.
        summary.skip(SkipReason::MissingData, self.end - self.position);
        self.outer.clear();
        self.inner.clear();
        self.position = self.end; // another call finds the end again
        false
    }

    /// Passes over bytes that follow a record without being one.
    fn skip_payload(&mut self, size: u64, kind: u32, summary: &mut ReadSummary) {
        let buffered = self.outer.length() as u64;
        let left = buffered + (self.end - self.position);
        let skipped = size.min(left);
        let start = self.position - buffered;
        self.payload = start..start + skipped;
        if skipped <= buffered {
            // `current` stays valid: `fill` runs only in the next `advance`.
            self.outer.start += skipped as usize;
        } else {
            self.position += skipped - buffered;
            self.outer.start = self.outer.end;
        }
        let read = self.traces_are_read && kind == record_type::AUXTRACE;
        match size > left {
            // The available part is read; the rest is missing.
            true if read => summary.skip(SkipReason::TruncatedTail, size - left),
            true => summary.skip(SkipReason::TruncatedTail, skipped),
            false if read => {}
            false if kind == record_type::AUXTRACE => {
                summary.skip(SkipReason::UndecodedTrace(self.trace_kind), skipped);
            }
            false => summary.skip(SkipReason::TracepointFormats, skipped),
        }
    }

    fn begin_compressed(&mut self, record: Range<usize>, summary: &mut ReadSummary) {
        let kind = self.current().kind;
        let mut payload = record.start + RECORD_HEADER_SIZE..record.end;
        if kind == record_type::COMPRESSED2 {
            // The newer form pads its payload to eight bytes and stores the real length first.
            let mut cursor = Cursor::new(&self.outer.buffer[payload.clone()]);
            let size = cursor.u64().unwrap_or(0).min(cursor.rest().len() as u64) as usize;
            let start = payload.end - cursor.rest().len();
            payload = start..start + size;
        }
        if self.broken {
            summary.skip(SkipReason::DamagedCompression, payload.len() as u64);
            return;
        }
        self.compressed = payload;
    }

    /// Decompresses as much as the inner window can hold.
    fn decompress(&mut self, summary: &mut ReadSummary) {
        let decoder = match &mut self.decoder {
            Some(decoder) => decoder,
            None => match new_decoder() {
                Ok(decoder) => self.decoder.insert(decoder),
                Err(_) => return self.give_up_compressed(summary),
            },
        };
        let input = &self.outer.buffer[self.compressed.clone()];
        let room = self.inner.room();
        let capacity = room.len();
        match decoder.run_on_buffers(input, room) {
            Ok(status) if status.bytes_read > 0 || status.bytes_written > 0 => {
                self.inner.end += status.bytes_written;
                self.compressed.start += status.bytes_read;
                self.more_output = status.bytes_written == capacity;
            }
            Ok(_) if self.compressed.is_empty() => self.more_output = false,
            // No progress, or damage: continuing would loop or return invalid records.
            Ok(_) | Err(_) => self.give_up_compressed(summary),
        }
    }

    fn give_up_compressed(&mut self, summary: &mut ReadSummary) {
        let lost = self.inner.length() + self.compressed.len();
        summary.skip(SkipReason::DamagedCompression, lost as u64);
        self.inner.clear();
        self.compressed = 0..0;
        self.more_output = false;
        self.broken = true;
    }
}

fn new_decoder() -> io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
    Ok(decoder)
}

/// Bytes that follow an `AUXTRACE` or tracing-data record and are not part of its size.
fn payload_size(record: RawRecord<'_>) -> u64 {
    let mut cursor = Cursor::new(record.body);
    match record.kind {
        record_type::AUXTRACE => cursor.u64().unwrap_or(0),
        _ => u64::from(cursor.u32().unwrap_or(0)).next_multiple_of(8),
    }
}
