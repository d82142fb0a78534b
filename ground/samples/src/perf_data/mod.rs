//! The container: Linux's `perf.data`, read and written.
//!
//! * [`CaptureReader`] opens files and pipes of any perf version, compressed or not, and returns records of the
//!   model.
//! * [`CaptureWriter`] writes the subset that perf 6.1 (Debian 12) reads.
//!
//! ```text
//! reader ─┬─ header                  features
//!         └─ pass ─┬─ stream, input  bytes to raw records, in bounded memory
//!                  ├─ traces         Arm SPE: bytes between the records to samples among them
//!                  ├─ order          raw records in time order
//!                  ├─ events         which event, which layout
//!                  └─ sample, record raw record to model
//! writer ── encode, header           model to bytes
//! ```
//!
//! # Reading
//! ```no_run
//! use hardmeter_samples::model::Record;
//! use hardmeter_samples::perf_data::{CaptureReader, RecordOrder};
//! use std::ops::ControlFlow;
//!
//! let reader = CaptureReader::open("hardmeter.data")?;
//! let mut events = 0;
//! let summary = reader.for_each(RecordOrder::Time, &mut |record| {
//!     if let Record::Sample(sample) = record {
//!         events += sample.period.0;
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! println!("{events} events in {} samples", summary.total_samples());
//! for warning in summary.warnings() {
//!     println!("{warning}");
//! }
//! # Ok::<(), hardmeter_samples::perf_data::ReadError>(())
//! ```
//!
//! # Memory
//! A pass holds a window of 1 MiB. If the file is compressed, it holds a second one and zstd's own, whose size is
//! in
//! the file (128 MiB at most). Time order adds the waiting records: two rounds of a file with rounds, else 64 MiB.
//! Samples borrow from the window: only branch stacks and counter readings are allocated per sample. A trace of Arm
//! SPE is read in place: 4 to 64 KiB for each buffer it came from,
//! 64 MiB at most for all, and 40 bytes for each piece of it in the file.
//!
//! # Limits
//! Big-endian captures are refused. Directories of `perf record --threads` are refused. Instruction traces (Intel
//! PT,
//! CoreSight) are skipped and counted. Arm SPE is decoded; in file order its samples have no thread if neither the
//! trace nor its record has one, since that requires earlier context switches.

pub mod abi;
mod auxtrace;
mod bytes;
mod encode;
mod error;
mod events;
mod group_read;
mod header;
mod input;
mod order;
mod pass;
mod reader;
mod record;
mod sample;
mod stream;
mod summary;
mod traces;
mod writer;

pub use encode::{finished_round, RecordBuilder, RecordEncoder};
pub use error::{ReadError, WriteError};
pub use events::EventAttributes;
pub use header::{BuildId, CacheDescription, CaptureForm, CaptureHeader, Endianness, MemoryNode};
pub use reader::{CaptureReader, RecordOrder};
pub use record::decode_record;
pub use summary::{ReadSummary, SkipReason, TraceKind};
pub use writer::CaptureWriter;

// Values are borrowed from the file's bytes as they lie there.
#[cfg(target_endian = "big")]
compile_error!(
    "captures are little-endian, and this reader borrows from their bytes: big-endian hosts need work"
);
