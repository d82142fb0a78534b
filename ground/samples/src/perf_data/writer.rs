//! Writing a capture that perf 6.1 reads.
//!
//! ```text
//! 0      | header, 104 bytes: where everything is. The size of the data stays 0 until the end
//!        | event ids
//!        | event attributes
//!        | data: records as they come
//!        | feature table, features
//! ```
//! The file grows under a temporary name in the same folder and takes its final name when it is complete. If the
//! recorder is killed before that, the temporary file is readable: its header has size 0, and readers take records
//! up to the end.

use super::abi::{record_type, PerfEventAttr, RECORD_HEADER_SIZE};
use super::encode::{self, RecordEncoder};
use super::error::WriteError;
use super::events::EventAttributes;
use super::header::{feature, CaptureHeader};
use crate::model::{ByteCount, Comm, Exit, Fork, LostRecords, Mmap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes collected before a write.
const BUFFER_SIZE: usize = 256 << 10;

/// Records wait for a write no longer than this, for those who read the file while it grows.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Bytes of the file's header.
const HEADER_SIZE: u64 = 104;

/// Size of an entry of the attribute table: the attribute, and the position of its ids.
const ATTR_ENTRY_SIZE: u64 = PerfEventAttr::SIZE as u64 + 16;

/// A capture being written.
///
/// Dropped without [`CaptureWriter::finish`], it removes its temporary file.
pub struct CaptureWriter {
    file: File,
    path: PathBuf,
    temporary: PathBuf,
    events: Vec<EventAttributes>,
    header: CaptureHeader,
    encoder: RecordEncoder,
    attrs_at: u64,
    data_at: u64,
    /// Complete records that are not written yet.
    buffer: Vec<u8>,
    /// When they were last written.
    flushed: Instant,
    /// End of what is in the file.
    written: u64,
    /// Two earlier ends of the file, at least half a [`BUFFER_SIZE`] apart: it is truncated to one of them if the
    /// disk is full, so that the features fit (see [`CaptureWriter::safe_end`]).
    marks: [u64; 2],
    discarded: u64,
    /// Positions and sizes of `AUXTRACE` records: perf decodes no trace without this list.
    traces: Vec<(u64, u64)>,
    finished: bool,
}

impl CaptureWriter {
    /// Begins a capture of `events` with the final name `path`. The header may still be completed by
    /// [`CaptureWriter::header_mut`].
    ///
    /// # Errors
    ///
    /// [`WriteError`] if `events` is empty, or the file cannot be created or written.
    pub fn create(
        path: impl AsRef<Path>,
        events: &[EventAttributes],
        header: &CaptureHeader,
    ) -> Result<CaptureWriter, WriteError> {
        let path = path.as_ref().to_path_buf();
        let first = events
            .first()
            .ok_or(WriteError::BadRecord { length: 0, what: "a capture needs at least one event" })?;
        let temporary = temporary_name(&path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&temporary)
            .map_err(|source| WriteError::from_io(&path, source))?;
        let ids: u64 = events.iter().map(|event| event.ids.len() as u64 * 8).sum();
        let attrs_at = HEADER_SIZE + ids;
        let data_at = attrs_at + events.len() as u64 * ATTR_ENTRY_SIZE;
        let mut writer = CaptureWriter {
            file,
            path,
            temporary,
            encoder: RecordEncoder::new(first),
            events: events.to_vec(),
            header: header.clone(),
            attrs_at,
            data_at,
            buffer: Vec::with_capacity(BUFFER_SIZE),
            flushed: Instant::now(),
            written: data_at,
            marks: [data_at; 2],
            discarded: 0,
            traces: Vec::new(),
            finished: false,
        };
        let start = writer.start_of_file();
        writer.put(&start, 0)?;
        for event in events {
            writer.append(&encode::event_name(event))?;
        }
        // A recorder that is killed at once leaves a file with events and names.
        writer.flush()?;
        // These are never given back: data of size 0 is that of an unfinished file.
        writer.marks = [writer.written; 2];
        Ok(writer)
    }

    /// The header, for what is known only at the end (build ids, first and last time).
    pub fn header_mut(&mut self) -> &mut CaptureHeader {
        &mut self.header
    }

    /// The temporary path of the capture until it is finished.
    pub fn temporary_path(&self) -> &Path {
        &self.temporary
    }

    /// Appends complete records from a kernel ring buffer. An `AUXTRACE` record must be followed by the bytes of
    /// the trace that it announces.
    ///
    /// # Errors
    ///
    /// [`WriteError::BadRecord`] if `records` is not a sequence of whole records; otherwise as
    /// [`CaptureWriter::flush`].
    pub fn append(&mut self, records: &[u8]) -> Result<(), WriteError> {
        let traces = check_records(records)?;
        if self.buffer.len() + records.len() > BUFFER_SIZE || self.flushed.elapsed() >= LONGEST_WAIT {
            self.flush()?;
        }
        let start = self.written + self.buffer.len() as u64;
        self.traces.extend(traces.into_iter().map(|(at, size)| (start + at, size)));
        self.buffer.extend_from_slice(records);
        Ok(())
    }

    /// Appends a mapping.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_mmap(&mut self, mmap: &Mmap) -> Result<(), WriteError> {
        self.append(&self.encoder.mmap(mmap))
    }

    /// Appends a thread's name.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_comm(&mut self, comm: &Comm) -> Result<(), WriteError> {
        self.append(&self.encoder.comm(comm))
    }

    /// Appends the creation of a process or thread.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_fork(&mut self, fork: &Fork) -> Result<(), WriteError> {
        self.append(&self.encoder.fork(fork))
    }

    /// Appends the end of a process or thread.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_exit(&mut self, exit: &Exit) -> Result<(), WriteError> {
        self.append(&self.encoder.exit(exit))
    }

    /// Appends a record of lost samples.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_lost(&mut self, lost: &LostRecords) -> Result<(), WriteError> {
        self.append(&self.encoder.lost(lost))
    }

    /// Ends a round: every buffer has been read once since the last call. Readers sort by rounds.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::append`].
    pub fn append_finished_round(&mut self) -> Result<(), WriteError> {
        self.append(&encode::finished_round())
    }

    /// Writes collected records, so that a killed recorder loses only later ones.
    ///
    /// If the disk is full, the file is truncated to its last safe end and the rest is discarded; the capture can
    /// still be finished.
    ///
    /// # Errors
    ///
    /// [`WriteError::DiskFull`] if there is no space left; other variants if the file cannot be written.
    pub fn flush(&mut self) -> Result<(), WriteError> {
        self.flushed = Instant::now();
        if self.buffer.is_empty() {
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        match self.put(&buffer, self.written) {
            Ok(()) => {
                if self.is_far_behind(self.marks[1]) {
                    self.marks = [self.marks[1], self.written];
                }
                self.written += buffer.len() as u64;
                self.buffer = buffer;
                self.buffer.clear();
                Ok(())
            }
            Err(error) => {
                let safe = self.safe_end();
                self.discarded += buffer.len() as u64 + (self.written - safe);
                self.written = safe;
                self.marks = self.marks.map(|mark| mark.min(safe));
                self.traces.retain(|(at, _)| *at < safe);
                // A failure leaves an incomplete record, which readers report.
                let _ = self.file.set_len(self.written);
                Err(error)
            }
        }
    }

    /// Writes collected records if they have waited long enough, for a recorder that may now have nothing to append
    /// for a long time.
    ///
    /// # Errors
    ///
    /// As [`CaptureWriter::flush`].
    pub fn flush_if_due(&mut self) -> Result<(), WriteError> {
        match self.flushed.elapsed() >= LONGEST_WAIT {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Whether truncating the file to `mark` gives back enough space for the features.
    fn is_far_behind(&self, mark: u64) -> bool {
        self.written - mark >= BUFFER_SIZE as u64 / 2
    }

    /// The newest mark far enough behind the end, however small the last writes were.
    fn safe_end(&self) -> u64 {
        let [older, newer] = self.marks;
        if self.is_far_behind(newer) {
            newer
        } else {
            older
        }
    }

    /// Bytes of records that a full disk cost so far.
    pub fn discarded(&self) -> ByteCount {
        ByteCount(self.discarded)
    }

    /// Total bytes of records so far.
    pub fn length(&self) -> ByteCount {
        ByteCount(self.written - self.data_at + self.buffer.len() as u64)
    }

    /// Completes the capture and renames it to its final name. An existing file of that name is replaced.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the file cannot be completed, synchronised or renamed; a full disk is not an error here:
    /// what was safely written is kept.
    pub fn finish(mut self) -> Result<(), WriteError> {
        // A full disk costs the last buffer here, as it does while recording; the features may still fit.
        match self.flush() {
            Ok(()) | Err(WriteError::DiskFull { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut features = self.header.encode_features(&self.events);
        if !self.traces.is_empty() {
            let words = self.traces.iter().flat_map(|(at, size)| [*at, *size]);
            let words = std::iter::once(self.traces.len() as u64).chain(words);
            features.push((feature::AUXTRACE, words.flat_map(u64::to_le_bytes).collect()));
            features.sort_by_key(|feature| feature.0);
        }
        let mut bitmap = [0u64; feature::COUNT as usize / 64];
        let mut table = Vec::new();
        let mut contents = Vec::new();
        let contents_at = self.written + features.len() as u64 * 16;
        for (number, bytes) in &features {
            bitmap[*number as usize / 64] |= 1 << (number % 64);
            table.extend_from_slice(&(contents_at + contents.len() as u64).to_le_bytes());
            table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            contents.extend_from_slice(bytes);
        }
        table.extend_from_slice(&contents);
        self.put(&table, self.written)?;
        let header = self.header_bytes(self.written - self.data_at, bitmap);
        self.put(&header, 0)?;
        // Write-back errors are reported here, before the file gets its final name.
        self.file.sync_data().map_err(|source| WriteError::from_io(&self.path, source))?;
        std::fs::rename(&self.temporary, &self.path)
            .map_err(|source| WriteError::from_io(&self.path, source))?;
        self.finished = true;
        match self.discarded {
            0 => Ok(()),
            _ => Err(WriteError::Shortened { path: self.path.clone(), discarded: ByteCount(self.discarded) }),
        }
    }

    fn put(&self, bytes: &[u8], at: u64) -> Result<(), WriteError> {
        self.file.write_all_at(bytes, at).map_err(|source| WriteError::from_io(&self.path, source))
    }

    fn header_bytes(&self, data_size: u64, features: [u64; 4]) -> Vec<u8> {
        let mut bytes = b"PERFILE2".to_vec();
        let attrs_size = self.events.len() as u64 * ATTR_ENTRY_SIZE;
        // The two zeros are the section of event types, which nothing has used since 2013.
        let words = [HEADER_SIZE, ATTR_ENTRY_SIZE, self.attrs_at, attrs_size, self.data_at, data_size, 0, 0];
        words.iter().chain(&features).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// Header, ids and attributes.
    fn start_of_file(&self) -> Vec<u8> {
        let mut bytes = self.header_bytes(0, [0; 4]);
        let mut sections = Vec::new();
        for event in &self.events {
            sections.push((bytes.len() as u64, event.ids.len() as u64 * 8));
            event.ids.iter().for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
        }
        for (event, (offset, size)) in self.events.iter().zip(sections) {
            let attr = PerfEventAttr { size: PerfEventAttr::SIZE as u32, ..event.attr };
            bytes.extend_from_slice(&attr.to_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
        }
        bytes
    }
}

impl Drop for CaptureWriter {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// `folder/name.PID-N.partial`: in the same folder, so that the final rename is atomic, and distinct from other
/// recorders of the same file.
fn temporary_name(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{number}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Checks that the bytes are complete records: one wrong length would make all later ones unreadable. Returns
/// position and size of the `AUXTRACE` records.
fn check_records(records: &[u8]) -> Result<Vec<(u64, u64)>, WriteError> {
    let mut traces = Vec::new();
    let bad = |what| Err(WriteError::BadRecord { length: records.len(), what });
    let mut rest = records;
    while !rest.is_empty() {
        let Some(header) = rest.first_chunk::<RECORD_HEADER_SIZE>() else {
            return bad("it is shorter than a record's header");
        };
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        match rest.split_at_checked(size) {
            Some((record, next)) if record.len() >= RECORD_HEADER_SIZE => {
                let start = records.len() - rest.len();
                rest = match trace_size(record) {
                    None => next,
                    Some(size) => {
                        traces.push((start as u64, record.len() as u64));
                        match next.get(size..) {
                            Some(next) => next,
                            None => return bad("it announces more of a trace than the bytes given"),
                        }
                    }
                };
            }
            Some(_) => return bad("its size field is smaller than a header"),
            None => return bad("its size field is larger than the bytes given"),
        }
    }
    Ok(traces)
}

/// Number of trace bytes that follow a record that announces some.
fn trace_size(record: &[u8]) -> Option<usize> {
    let kind = u32::from_le_bytes([record[0], record[1], record[2], record[3]]);
    let size = record[RECORD_HEADER_SIZE..].first_chunk::<8>().filter(|_| kind == record_type::AUXTRACE)?;
    Some(usize::try_from(u64::from_le_bytes(*size)).unwrap_or(usize::MAX))
}
