//! The sample model: plain data, no I/O, no policy.

mod architecture;
mod data_source;
mod event;
mod ghosts;
mod process_time;
mod record;
mod registers;
mod sample;
mod simulated;
mod stall;
mod state;
mod statement_mark;
mod units;

pub use architecture::Architecture;
pub use data_source::{DataSource, MemoryLevel, MemoryOperation, Snoop, TlbOutcome};
pub use event::{EventDescription, EventIndex, EventSource, MemoryEvent};
pub use ghosts::{GhostNotes, GhostPauses, GhostStretches};
pub use process_time::ProcessTime;
pub use record::{Comm, CpuMode, Exit, Fork, LostRecords, Mmap, Record, Throttle};
pub use registers::{Register, Registers};
pub use sample::{BranchEntry, Callchain, Frame, ReadValue, Sample, Weight};
pub use simulated::{
    HeapBlock, MissCause, MissPattern, ServerState, Sharing, SharingVerdict, SimulatedDetail, StatementId,
};
pub use stall::{Landing, SkidCount, StallCounts, StallNotes, OTHER_CPU_EVENT, STALL_EVENT};
pub use state::{LastStatement, StateId, StateRule};
pub use statement_mark::{StatementMark, StatementMarkKind, StatementProbe};
pub use units::{
    AccessSize, ByteCount, CacheLine, CpuId, Cycles, FileOffset, PageSize, Period, PhysicalAddress, Pid, Tid,
    Timestamp, VirtualAddress,
};
