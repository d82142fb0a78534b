//! Opening a capture and passing over its records.

use super::abi::{record_type, PerfEventAttr, ATTR_SIZE_MINIMUM, EVENT_UPDATE_NAME};
use super::auxtrace::TraceHeader;
use super::bytes::{text_until_zero, Cursor};
use super::error::ReadError;
use super::events::{default_name, EventAttributes};
use super::header::{self, feature, CaptureForm, CaptureHeader};
use super::input::{Input, Section};
use super::pass::Pass;
use super::stream::{RawRecord, RecordStream};
use super::summary::{ReadSummary, SkipReason, TraceKind};
use super::traces::Traces;
use crate::model::{ByteCount, EventDescription, Record};
use crate::sidecar::{Sidecar, SidecarError};
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The order in which records are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOrder {
    /// File order: fastest, and sufficient for counting.
    File,
    /// By time, which attribution needs: a mapping comes before the samples in it.
    Time,
}

/// An opened capture. Reading is possible any number of times.
pub struct CaptureReader {
    path: PathBuf,
    input: Input,
    header: CaptureHeader,
    attributes: Vec<EventAttributes>,
    events: Vec<EventDescription>,
    traces: TraceHeader,
    /// The range of the records, limited to the file's size.
    data: Range<u64>,
    /// Bytes beyond the file's end according to the header.
    missing: u64,
    /// Position of the current pass in the file.
    position: AtomicU64,
    sidecar: Result<Option<Sidecar>, SidecarError>,
}

/// Maximum size of a section whose contents are built in memory (a feature, ids).
const SECTION_LIMIT: u64 = 64 << 20;

/// Maximum number of events: each costs a recorder a file descriptor per processor.
const EVENT_LIMIT: usize = 1 << 14;

/// The kernel numbers the PMUs that drivers register from here on (`PERF_TYPE_MAX`).
const FIRST_DYNAMIC_PMU: u32 = 6;

/// Records in front of an unfinished file's samples in which names are looked for, and of any file's in which the
/// header of its traces is.
const LEADING_RECORDS: usize = 4096;

impl CaptureReader {
    /// Opens a file, a named pipe, or `-` for standard input.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the file cannot be opened, is a directory, or does not begin as a perf.data file does.
    pub fn open(path: impl AsRef<Path>) -> Result<CaptureReader, ReadError> {
        let path = path.as_ref();
        let failed = |source| ReadError::Io { path: path.to_path_buf(), source };
        if path == Path::new("-") {
            let input = Input::spool(&mut io::stdin().lock()).map_err(failed)?;
            return CaptureReader::from_input(path.to_path_buf(), input, Ok(None));
        }
        let mut file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(ReadError::Directory { path: path.to_path_buf() });
        }
        let input = match metadata.is_file() {
            true => Input::File(file),
            false => Input::spool(&mut file).map_err(failed)?,
        };
        CaptureReader::from_input(path.to_path_buf(), input, Sidecar::load(path))
    }

    /// Reads a capture that is already in memory.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the bytes do not begin as a perf.data file does.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<CaptureReader, ReadError> {
        CaptureReader::from_input(PathBuf::from("capture in memory"), Input::Bytes(bytes), Ok(None))
    }

    fn from_input(
        path: PathBuf,
        input: Input,
        sidecar: Result<Option<Sidecar>, SidecarError>,
    ) -> Result<CaptureReader, ReadError> {
        let mut reader = CaptureReader {
            path,
            input,
            header: CaptureHeader::default(),
            attributes: Vec::new(),
            events: Vec::new(),
            traces: TraceHeader::default(),
            data: 0..0,
            missing: 0,
            position: AtomicU64::new(0),
            sidecar,
        };
        reader.read_header()?;
        reader.name_the_nameless();
        reader.events = reader.attributes.iter().map(EventAttributes::describe).collect();
        if let Ok(Some(sidecar)) = &mut reader.sidecar {
            sidecar.complete_old(&reader.events);
        }
        Ok(reader)
    }

    /// Information about machine and recording.
    pub fn header(&self) -> &CaptureHeader {
        &self.header
    }

    /// The events, in the order of [`EventIndex`](crate::model::EventIndex).
    pub fn events(&self) -> &[EventDescription] {
        &self.events
    }

    /// The events with their kernel attributes and ids, for writing them again.
    pub fn attributes(&self) -> &[EventAttributes] {
        &self.attributes
    }

    /// The capture's side file, if it exists and can be read.
    pub fn sidecar(&self) -> Option<&Sidecar> {
        self.sidecar.as_ref().ok()?.as_ref()
    }

    /// The reason why an existing side file was not used.
    pub fn sidecar_problem(&self) -> Option<&SidecarError> {
        self.sidecar.as_ref().err()
    }

    /// Bytes of records in the file: the length of a progress bar.
    pub fn data_length(&self) -> ByteCount {
        ByteCount(self.data.end - self.data.start)
    }

    /// Bytes processed by the current pass, to the nearest megabyte: the progress.
    pub fn data_position(&self) -> ByteCount {
        ByteCount(self.position.load(Ordering::Relaxed).saturating_sub(self.data.start))
    }

    /// Passes every record to `receiver` until it stops. A damaged or truncated file yields its readable records;
    /// the summary counts the lost ones.
    ///
    /// # Errors
    ///
    /// [`ReadError::Io`] if the input fails while it is read. Damaged records are no error: the summary counts
    /// them.
    pub fn for_each(
        &self,
        order: RecordOrder,
        receiver: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<ReadSummary, ReadError> {
        let traces = Traces::new(&self.input, &self.traces, &self.header, &self.attributes);
        let stream = || match &traces {
            Some(_) => RecordStream::new(&self.input, self.data.clone(), true).leaving_traces(),
            None => {
                RecordStream::new(&self.input, self.data.clone(), true).of_traces(TraceKind(self.traces.kind))
            }
        };
        let (look_ahead, stream) = (stream(), stream());
        let mut pass = Pass::new(&self.attributes, traces, receiver);
        pass.summary.skip(SkipReason::MissingData, self.missing);
        if order == RecordOrder::Time {
            pass.find_traces(look_ahead).map_err(|source| self.io_error(source))?;
        }
        let mut stream = stream.reporting_to(&self.position);
        let flow = match order {
            RecordOrder::File => pass.in_file_order(&mut stream),
            RecordOrder::Time => pass.in_time_order(&mut stream),
        };
        pass.summary.stopped = flow.map_err(|source| self.io_error(source))?.is_break();
        Ok(pass.summary)
    }

    fn io_error(&self, source: io::Error) -> ReadError {
        ReadError::Io { path: self.path.clone(), source }
    }

    fn damaged(&self, what: impl Into<String>) -> ReadError {
        ReadError::DamagedHeader { path: self.path.clone(), what: what.into() }
    }

    fn section(&self, section: Section, what: &str) -> Result<Vec<u8>, ReadError> {
        self.input
            .section(section, SECTION_LIMIT)
            .map_err(|source| self.io_error(source))?
            .ok_or_else(|| self.damaged(format!("the section of {what} lies outside the file")))
    }

    fn read_header(&mut self) -> Result<(), ReadError> {
        let length = self.input.length().map_err(|source| self.io_error(source))?;
        let mut start = [0u8; 104];
        let count = self.input.read_at(&mut start, 0).map_err(|source| self.io_error(source))?;
        let path = || self.path.clone();
        match start.first_chunk::<8>().expect("104 bytes") {
            _ if count == 0 => return Err(ReadError::Empty { path: path() }),
            b"PERFILE2" => {}
            b"2ELIFREP" => return Err(ReadError::ForeignByteOrder { path: path() }),
            b"PERFFILE" => return Err(ReadError::Version1 { path: path() }),
            _ => return Err(ReadError::NotACapture { path: path() }),
        }
        let words: Vec<u64> = start.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        match words[1] {
            16 if count >= 16 => self.read_pipe(length),
            // Files written before 2010 have no feature bitmap.
            72.. if count >= 72 => self.read_file(&words, length),
            _ if count < 72 => Err(self.damaged("the file ends inside its header")),
            size => Err(self.damaged(format!("its header size field is {size} bytes"))),
        }
    }

    /// The file form: sections at offsets.
    fn read_file(&mut self, words: &[u64], length: u64) -> Result<(), ReadError> {
        let attr_size = words[2];
        let attrs = Section { offset: words[3], size: words[4] };
        let data = Section { offset: words[5], size: words[6] };
        if attr_size < (ATTR_SIZE_MINIMUM + Section::SIZE) as u64 || attr_size > 1 << 16 {
            return Err(self.damaged(format!("an event attribute of {attr_size} bytes")));
        }
        self.read_attributes(attrs, attr_size as usize, length)?;
        let end =
            data.offset.checked_add(data.size).ok_or_else(|| self.damaged("the data section has no end"))?;
        if data.offset > length {
            return Err(self.damaged("the data section lies outside the file"));
        }
        // The recorder fills in the size when it ends. If it was killed, the size is 0, and records extend to the
        // end.
        self.header.unfinished = data.size == 0;
        if self.header.unfinished {
            self.data = data.offset..length;
        } else {
            self.data = data.offset..end.min(length);
            self.missing = end.saturating_sub(length);
        }
        let mut described = false;
        if !self.header.unfinished && self.missing == 0 && words[1] >= 104 {
            described = self.read_features(&words[9..13], end)?;
        }
        // Other PMUs than the kernel's fixed ones may write traces, whose header is among the first records.
        let may_trace = self.attributes.iter().any(|event| event.attr.event_type >= FIRST_DYNAMIC_PMU);
        if !described || may_trace {
            self.read_leading_records(!described)?;
        }
        Ok(())
    }

    fn read_attributes(&mut self, attrs: Section, attr_size: usize, length: u64) -> Result<(), ReadError> {
        let bytes = self.section(attrs, "event attributes")?;
        if bytes.len() / attr_size > EVENT_LIMIT {
            return Err(self.damaged(format!("{} events", bytes.len() / attr_size)));
        }
        let mut id_bytes = 0u64;
        for entry in bytes.chunks_exact(attr_size) {
            let (attr, section) = entry.split_at(attr_size - Section::SIZE);
            let ids = Section::from_bytes(section);
            // Malicious entries may all refer to one large section; valid ids are stored once.
            id_bytes = id_bytes.saturating_add(ids.size);
            if id_bytes > length {
                return Err(self.damaged("the event ids overlap"));
            }
            let ids = self.section(ids, "event ids")?;
            let ids = ids.as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id)).collect();
            let attr = PerfEventAttr::from_bytes(attr);
            self.attributes.push(EventAttributes { name: String::new(), attr, ids });
        }
        Ok(())
    }

    /// Reads the feature sections after the data; returns whether they described the events.
    fn read_features(&mut self, bitmap: &[u64], data_end: u64) -> Result<bool, ReadError> {
        let mut described = false;
        let present = (0..feature::COUNT).filter(|bit| bitmap[*bit as usize / 64] >> (bit % 64) & 1 != 0);
        for (index, number) in present.enumerate() {
            let at = data_end.saturating_add((index * Section::SIZE) as u64);
            let entry = self
                .input
                .section(Section { offset: at, size: Section::SIZE as u64 }, SECTION_LIMIT)
                .map_err(|source| self.io_error(source))?;
            // A damaged feature costs a line of the report's header, not the report.
            let Some(entry) = entry else { break };
            let section = Section::from_bytes(&entry);
            let Ok(bytes) = self.section(section, "a feature") else { continue };
            described |= self.take_feature(number, &bytes);
        }
        Ok(described)
    }

    /// Decodes a feature of a file or a pipe; returns whether it described the events.
    fn take_feature(&mut self, number: u32, bytes: &[u8]) -> bool {
        if number != feature::EVENT_DESC {
            self.header.decode_feature(number, bytes);
            return false;
        }
        let Some(described) = header::decode_event_descriptions(bytes) else { return false };
        for (index, event) in self.attributes.iter_mut().enumerate() {
            let same = |other: &&EventAttributes| {
                other.attr.event_type == event.attr.event_type && other.attr.config == event.attr.config
            };
            let id = event.ids.first();
            let by_id = || described.iter().find(|other| id.is_some() && other.ids.first() == id);
            if let Some(found) = described.get(index).filter(same).or_else(by_id) {
                event.name = found.name.clone();
                if event.ids.is_empty() {
                    event.ids = found.ids.clone();
                }
            }
        }
        true
    }

    /// The pipe form: all data are records, some of them (build ids) at the very end. One pass over the record
    /// headers collects them; compressed records contain none and are skipped.
    fn read_pipe(&mut self, length: u64) -> Result<(), ReadError> {
        self.header.form = CaptureForm::Pipe;
        self.data = 16..length;
        self.read_header_records(usize::MAX, false, true)
    }

    /// An unfinished file has no feature sections; Hardmeter's writer puts records with the events' names first.
    fn read_leading_records(&mut self, names: bool) -> Result<(), ReadError> {
        self.read_header_records(LEADING_RECORDS, true, names)
    }

    fn read_header_records(&mut self, limit: usize, inflate: bool, names: bool) -> Result<(), ReadError> {
        let input = std::mem::replace(&mut self.input, Input::Bytes(Vec::new()));
        let mut stream = RecordStream::new(&input, self.data.clone(), inflate);
        let mut unused = ReadSummary::default();
        let mut failure = None;
        for _ in 0..limit {
            match stream.advance(&mut unused) {
                Ok(true) => {
                    self.traces.take(stream.current());
                    if names {
                        self.take_header_record(stream.current());
                    }
                }
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        self.input = input;
        failure.map_or(Ok(()), |source| Err(self.io_error(source)))
    }

    fn take_header_record(&mut self, record: RawRecord<'_>) {
        let mut cursor = Cursor::new(record.body);
        match record.kind {
            record_type::HEADER_ATTR
                if self.header.form == CaptureForm::Pipe && self.attributes.len() < EVENT_LIMIT =>
            {
                let size = match record.body.get(4..8) {
                    Some(size) => u32::from_le_bytes(size.try_into().expect("four bytes")),
                    None => return,
                };
                // A size of 0 is the oldest kernel's structure.
                let size = u64::from(size).max(ATTR_SIZE_MINIMUM as u64);
                let Some(attr) = cursor.bytes(size) else { return };
                let ids = cursor.rest().as_chunks::<8>().0.iter().map(|id| u64::from_le_bytes(*id)).collect();
                let attr = PerfEventAttr::from_bytes(attr);
                self.attributes.push(EventAttributes { name: String::new(), attr, ids });
            }
            record_type::HEADER_FEATURE => {
                if let Some(number) = cursor.u64() {
                    self.take_feature(u32::try_from(number).unwrap_or(u32::MAX), cursor.rest());
                }
            }
            record_type::EVENT_UPDATE => {
                let (Some(EVENT_UPDATE_NAME), Some(id)) = (cursor.u64(), cursor.u64()) else { return };
                let single = self.attributes.len() == 1;
                let event = self.attributes.iter_mut().find(|event| single || event.ids.contains(&id));
                if let Some(event) = event {
                    event.name = text_until_zero(cursor.rest());
                }
            }
            record_type::HEADER_BUILD_ID => {
                self.header.build_ids.extend(header::decode_build_id(record.misc, record.body));
            }
            _ => {}
        }
    }

    fn name_the_nameless(&mut self) {
        for event in self.attributes.iter_mut().filter(|event| event.name.is_empty()) {
            event.name = default_name(&event.attr);
        }
    }
}
