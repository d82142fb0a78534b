//! Encodes records that the kernel does not write (mappings and names of processes that already ran), and all
//! records of simulated captures.

use super::abi::{
    attr_flag, misc, record_type, sample_type, PerfEventAttr, EVENT_UPDATE_NAME, PROT_EXEC,
    RECORD_HEADER_SIZE,
};
use super::events::EventAttributes;
use crate::model::{Comm, CpuMode, Exit, Fork, LostRecords, Mmap, Pid, Tid, Timestamp};

const PROT_READ: u32 = 1;
const MAP_PRIVATE: u32 = 2;

/// Maximum length of a path in a record, as `PATH_MAX` in the kernel, so that a record fits its 16-bit size.
const PATH_LIMIT: usize = 4095;

/// One record under construction.
///
/// The caller lays out sample records, whose fields depend on the event; the functions below encode the model's
/// other records.
pub struct RecordBuilder {
    bytes: Vec<u8>,
}

impl RecordBuilder {
    /// Begins a record; its size is filled in by [`RecordBuilder::finish`].
    pub fn new(kind: u32, misc_field: u16) -> RecordBuilder {
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&misc_field.to_le_bytes());
        bytes.extend_from_slice(&[0, 0]);
        RecordBuilder { bytes }
    }

    /// Appends a 64-bit word.
    pub fn u64(mut self, word: u64) -> Self {
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self
    }

    /// Appends a 32-bit word.
    pub fn u32(mut self, word: u32) -> Self {
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self
    }

    /// Appends bytes as they are.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends a text, zero-terminated and padded to eight bytes.
    pub fn text(mut self, text: &str) -> Self {
        let start = self.bytes.len();
        let text = text.as_bytes();
        self.bytes.extend_from_slice(&text[..text.len().min(PATH_LIMIT)]);
        let length = (self.bytes.len() - start + 1).next_multiple_of(8);
        self.bytes.resize(start + length, 0);
        self
    }

    /// Fills in the size.
    ///
    /// # Panics
    /// If the record is longer than the 65535 bytes of a record, or not a multiple of eight: both are programming
    /// errors, independent of the data.
    pub fn finish(mut self) -> Vec<u8> {
        assert!(self.bytes.len().is_multiple_of(8), "records are multiples of eight bytes");
        let size = u16::try_from(self.bytes.len()).expect("a record fits its 16-bit size");
        self.bytes[6..RECORD_HEADER_SIZE].copy_from_slice(&size.to_le_bytes());
        self.bytes
    }
}

/// Encodes the model's records in the layout of one event, with its trailer (`sample_id_all`).
///
/// A record without a time gets time 0, which readers sort first: right for state from before the recording.
#[derive(Clone, Copy, Debug)]
pub struct RecordEncoder {
    attr: PerfEventAttr,
    /// The event's first id; 0 means "the first event" to every reader.
    id: u64,
}

impl RecordEncoder {
    /// An encoder for records of `event`.
    pub fn new(event: &EventAttributes) -> RecordEncoder {
        RecordEncoder { attr: event.attr, id: event.ids.first().copied().unwrap_or(0) }
    }

    /// An MMAP2 record, with the build id if there is one.
    pub fn mmap(&self, mmap: &Mmap) -> Vec<u8> {
        let mode = if mmap.mode == CpuMode::Kernel { misc::KERNEL } else { misc::USER };
        let mut misc_field = if mmap.executable { mode } else { mode | misc::MMAP_DATA };
        let mut identity = [0u8; 24]; // device and inode, which the model does not keep, or the build id
        if let Some(id) = &mmap.build_id {
            misc_field |= misc::MMAP_BUILD_ID;
            let length = id.len().min(20);
            identity[0] = length as u8;
            identity[4..4 + length].copy_from_slice(&id[..length]);
        }
        let protection =
            mmap.protection.unwrap_or(if mmap.executable { PROT_READ | PROT_EXEC } else { PROT_READ });
        RecordBuilder::new(record_type::MMAP2, misc_field)
            .pid_and_tid(mmap.pid, mmap.tid)
            .u64(mmap.start.0)
            .u64(mmap.length)
            .u64(mmap.offset.0)
            .bytes(&identity)
            .u32(protection)
            .u32(mmap.flags.unwrap_or(MAP_PRIVATE))
            .text(&mmap.path)
            .trailer(self, mmap.pid, mmap.tid, mmap.time)
            .finish()
    }

    /// A COMM record.
    pub fn comm(&self, comm: &Comm) -> Vec<u8> {
        // The kernel's names have 15 bytes and a zero; perf reads no further.
        let mut name = [0u8; 16];
        let length = comm.name.len().min(15);
        name[..length].copy_from_slice(&comm.name.as_bytes()[..length]);
        RecordBuilder::new(record_type::COMM, if comm.exec { misc::COMM_EXEC } else { 0 })
            .pid_and_tid(comm.pid, comm.tid)
            .bytes(&name)
            .trailer(self, comm.pid, comm.tid, comm.time)
            .finish()
    }

    /// A FORK record.
    pub fn fork(&self, fork: &Fork) -> Vec<u8> {
        RecordBuilder::new(record_type::FORK, 0)
            .u32(fork.pid.0 as u32)
            .u32(fork.parent_pid.0 as u32)
            .u32(fork.tid.0 as u32)
            .u32(fork.parent_tid.0 as u32)
            .u64(fork.time.map_or(0, |time| time.0))
            .trailer(self, fork.parent_pid, fork.parent_tid, fork.time)
            .finish()
    }

    /// An EXIT record.
    pub fn exit(&self, exit: &Exit) -> Vec<u8> {
        RecordBuilder::new(record_type::EXIT, 0)
            .pid_and_tid(exit.pid, Tid(exit.pid.0))
            .pid_and_tid(Pid(exit.tid.0), exit.tid)
            .u64(exit.time.map_or(0, |time| time.0))
            .trailer(self, exit.pid, exit.tid, exit.time)
            .finish()
    }

    /// A LOST or LOST_SAMPLES record.
    pub fn lost(&self, lost: &LostRecords) -> Vec<u8> {
        let record = match lost.samples_only {
            true => RecordBuilder::new(record_type::LOST_SAMPLES, 0),
            false => RecordBuilder::new(record_type::LOST, 0).u64(self.id),
        };
        record.u64(lost.count).trailer(self, Pid(0), Tid(0), lost.time).finish()
    }
}

/// A FINISHED_ROUND record: later records are not older than those before the previous one.
pub fn finished_round() -> Vec<u8> {
    RecordBuilder::new(record_type::FINISHED_ROUND, 0).finish()
}

/// An EVENT_UPDATE record with an event's name. A finished file has the names in a feature section; this record
/// preserves them if the recorder is killed.
pub(super) fn event_name(event: &EventAttributes) -> Vec<u8> {
    RecordBuilder::new(record_type::EVENT_UPDATE, 0)
        .u64(EVENT_UPDATE_NAME)
        .u64(event.ids.first().copied().unwrap_or(0))
        .text(&event.name)
        .finish()
}

impl RecordBuilder {
    fn pid_and_tid(self, pid: Pid, tid: Tid) -> Self {
        self.u32(pid.0 as u32).u32(tid.0 as u32)
    }

    fn trailer(mut self, layout: &RecordEncoder, pid: Pid, tid: Tid, time: Option<Timestamp>) -> Self {
        if !layout.attr.has(attr_flag::SAMPLE_ID_ALL) {
            return self;
        }
        for (bit, word) in [
            (sample_type::TID, u64::from(pid.0 as u32) | u64::from(tid.0 as u32) << 32),
            (sample_type::TIME, time.map_or(0, |time| time.0)),
            (sample_type::ID, layout.id),
            (sample_type::STREAM_ID, layout.id),
            (sample_type::CPU, 0),
            (sample_type::IDENTIFIER, layout.id),
        ] {
            if layout.attr.sample_type & bit != 0 {
                self = self.u64(word);
            }
        }
        self
    }
}
