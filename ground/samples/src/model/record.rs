//! All records of a capture other than samples: processes, mappings, losses.

use super::sample::Sample;
use super::statement_mark::StatementMark;
use super::units::{CpuId, FileOffset, Pid, Tid, Timestamp, VirtualAddress};

/// The processor's mode, from a record header's `misc` field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuMode {
    /// Unknown.
    #[default]
    Unknown,
    /// The operating system's kernel.
    Kernel,
    /// A program.
    User,
    /// A hypervisor.
    Hypervisor,
    /// A virtual machine's kernel.
    GuestKernel,
    /// A virtual machine's program.
    GuestUser,
}

impl CpuMode {
    /// Decodes `perf_event_header.misc & PERF_RECORD_MISC_CPUMODE_MASK`.
    pub fn from_misc(misc: u16) -> CpuMode {
        match misc & 7 {
            1 => CpuMode::Kernel,
            2 => CpuMode::User,
            3 => CpuMode::Hypervisor,
            4 => CpuMode::GuestKernel,
            5 => CpuMode::GuestUser,
            _ => CpuMode::Unknown,
        }
    }
}

/// A file or anonymous area was mapped (`PERF_RECORD_MMAP`, `PERF_RECORD_MMAP2`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mmap {
    /// The process; `Pid(-1)` for the kernel and its modules.
    pub pid: Pid,
    /// The thread that called.
    pub tid: Tid,
    /// Kernel or user mapping.
    pub mode: CpuMode,
    /// First address.
    pub start: VirtualAddress,
    /// Length in bytes.
    pub length: u64,
    /// Offset of the first byte in the file.
    pub offset: FileOffset,
    /// Whether it can be executed.
    pub executable: bool,
    /// `PROT_*` bits, when recorded (MMAP2).
    pub protection: Option<u32>,
    /// `MAP_*` bits, when recorded (MMAP2).
    pub flags: Option<u32>,
    /// Build id, when recorded.
    pub build_id: Option<Vec<u8>>,
    /// The file, or a bracketed name such as `[heap]` or `[kernel.kallsyms]_text`. Bytes that are not UTF-8 are
    /// replaced.
    pub path: String,
    /// The time.
    pub time: Option<Timestamp>,
}

impl Mmap {
    /// A process's mapping of code, from the beginning of its file, without the fields that not every kernel
    /// records.
    pub fn code(pid: Pid, start: VirtualAddress, length: u64, path: impl Into<String>) -> Mmap {
        Mmap {
            pid,
            tid: Tid(pid.0),
            mode: CpuMode::User,
            start,
            length,
            offset: FileOffset(0),
            executable: true,
            protection: None,
            flags: None,
            build_id: None,
            path: path.into(),
            time: None,
        }
    }
}

/// A thread set its name, by exec or explicitly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comm {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The name, at most 15 bytes from a kernel.
    pub name: String,
    /// Whether it came with an exec, which removes all older mappings of the process.
    pub exec: bool,
    /// The time.
    pub time: Option<Timestamp>,
}

/// A process or thread was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The new process.
    pub pid: Pid,
    /// Its parent.
    pub parent_pid: Pid,
    /// The new thread.
    pub tid: Tid,
    /// The thread that forked.
    pub parent_tid: Tid,
    /// The time.
    pub time: Option<Timestamp>,
}

/// A process or thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The time.
    pub time: Option<Timestamp>,
}

/// The kernel dropped records or samples because a buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// Number of lost records.
    pub count: u64,
    /// Whether only samples were lost (`LOST_SAMPLES`), rather than any record.
    pub samples_only: bool,
    /// The time.
    pub time: Option<Timestamp>,
}

/// The kernel stopped (or resumed) an event that interrupted too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// `false`: throttled; `true`: running again.
    pub resumed: bool,
    /// The processor.
    pub cpu: Option<CpuId>,
    /// The time.
    pub time: Option<Timestamp>,
}

/// One record of a capture.
// Nearly all records are samples, which are passed by value and never stored: boxing would cost an allocation each.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A mapping.
    Mmap(Mmap),
    /// A name.
    Comm(Comm),
    /// A new process or thread.
    Fork(Fork),
    /// The end of one.
    Exit(Exit),
    /// A loss.
    Lost(LostRecords),
    /// A throttling.
    Throttle(Throttle),
    /// A statement began or ended: a sample of a server's own probe, not of a memory event.
    Statement(StatementMark<'a>),
    /// Anything else, by its type number: counted, not decoded.
    Other {
        /// `perf_event_header.type`.
        record_type: u32,
        /// The record's body, without its header.
        body: &'a [u8],
    },
}
