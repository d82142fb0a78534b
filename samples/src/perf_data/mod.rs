//! The container: Linux's `perf.data`, read and written.
//!
//! * [`CaptureReader`] opens files and pipes of any perf, compressed or not, and hands out records of the model.
//! * [`CaptureWriter`] writes the subset that perf 6.1 (Debian 12) reads.
//!
//! ```text
//! reader ── stream ── input          bytes to raw records, in bounded memory
//!   │  └─── order                    raw records in time order
//!   ├────── events                   which event, which layout
//!   ├────── sample, record           raw record to model
//!   └────── header                   features
//! writer ── encode, header           model to bytes
//! ```
//!
//! # Memory
//! A pass holds two windows of 1 MiB, the zstd decoder's window if the file is compressed (its size is in the file,
//! 128 MiB at most), and in time order up to 64 MiB of waiting records. Samples borrow from the window: nothing is
//! allocated per sample, save for branch stacks and counter readings.

pub mod abi;
mod bytes;
mod encode;
mod error;
mod events;
mod header;
mod input;
mod order;
mod reader;
mod record;
mod sample;
mod stream;
mod summary;
mod writer;

pub use encode::{finished_round, RecordBuilder, RecordEncoder};
pub use error::{ReadError, WriteError};
pub use events::EventAttributes;
pub use header::{BuildId, CacheDescription, CaptureForm, CaptureHeader, Endianness};
pub use reader::{CaptureReader, RecordOrder};
pub use summary::{ReadSummary, SkipReason};
pub use writer::CaptureWriter;

// Values are borrowed from the file's bytes as they lie there.
#[cfg(target_endian = "big")]
compile_error!(
    "captures are little-endian, and this reader borrows from their bytes: big-endian hosts need work"
);
