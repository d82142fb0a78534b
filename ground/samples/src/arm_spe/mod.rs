//! Arm's Statistical Profiling Extension: from the bytes a processor writes to records of sampled operations.
//!
//! The processor picks every n-th operation, follows it through the pipeline and writes the result into a buffer: a
//! *record*, made of *packets*. The kernel copies the buffer unchanged, so the reader of the file must decode it.
//! The format is that of the Arm Architecture Reference Manual (ARM DDI 0487), chapter "Statistical Profiling
//! Extension Sample Record Specification".
//!
//! ```text
//! byte 0                    payload, little-endian
//!  7 6 5 4 3 2 1 0
//! +---------------+
//! |0 0 0 0 0 0 0 0|  0x00   none      padding
//! |0 0 0 0 0 0 0 1|  0x01   none      end: the record is over, and has no time
//! |0 1 1 1 0 0 0 1|  0x71   8 bytes   timestamp: the record is over, and this is its time
//! |0 1 s s 0 0 1 0|  0x42   2^ss      events: a bit for each thing that happened on the way
//! |0 1 s s 0 0 1 1|  0x43   2^ss      data source: who served the load; the numbers are each processor's own
//! |0 1 1 0 0 1 i i|  0x64   4 bytes   context: CONTEXTIDR_EL1 (i = 0) or _EL2 (1); Linux keeps the thread id there
//! |0 1 0 0 1 0 c c|  0x48   1 byte    operation of class c: other, load or store, branch
//! |1 0 1 1 0 i i i|  0xb0   8 bytes   address i: instruction, branch target, data (virtual, physical), last target
//! |1 0 0 1 1 i i i|  0x98   2 bytes   counter i: cycles in total, until issue, for translation
//! |0 0 1 0 0 0 j j|  0x20             one more byte follows: 0 is padding up to the next multiple of 2^(j+1);
//! +---------------+                   an address or a counter has jj in front of its index
//! ```
//!
//! * [`packet`] decodes one packet;
//! * [`record`] collects packets into a [`Record`], and resynchronizes after damaged bytes;
//! * [`source`] converts a record to the data-source word that perf_event uses for every processor.
//!
//! `perf_data` locates the bytes (`AUXTRACE` records) and adds thread and time.

pub mod packet;
pub mod record;
pub mod source;

pub use packet::Packet;
pub use record::{Decoder, Events, ExceptionLevel, Losses, Operation, Record, Window};
pub use source::Midr;
