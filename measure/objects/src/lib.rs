//! What an address is to a database server: which relation and block, which lock, which memory context.
//!
//! A profiled server is inspected from outside while it is recorded: its memory is read, never written, and it receives
//! no requests. The findings become [`ObjectNotes`], a side file of the capture; later stages do not depend on the
//! server.
//!
//! ```text
//!   attach(pid) ──> ServerObjects ── state_rules() ──> what the software PMU reads at each sample
//!                        │
//!   sampled accesses ──> see()          looks up each new address at once
//!   a clock ───────────> look_again()   confirms what was found, or ends its validity
//!                        │
//!                     counted() ─> Counted: transactions, rows
//!                     finish() ──> ObjectNotes ──> hardmeter.data.objects
//! ```
//!
//! Out of scope: taking samples (`measure/record`), joining them with objects (`measure/answers`).
//!
//! # Design constraints
//!
//! * *Read only.* Memory is read by `process_vm_readv`, files by `open(O_RDONLY)`. No connection, no signal, no ptrace stop.
//! * *Stripped binaries.* A distribution's packages are enough: exported symbols, and layout tables by major version.
//! * *Loud.* At attach the layout is tested against the running server (magic numbers, sizes, tags). A server that does
//!   not pass is refused with the reason, and the rest of the profile works.
//! * *Bounded.* A server in the middle of a change, or a damaged one, may show any bytes: every length and every list is
//!   bounded, and pointers are followed only into memory that is mapped.
//! * *One interface.* [`ServerObjects`] does not depend on PostgreSQL; MariaDB's InnoDB can be a second implementation.
//!
//! ```
//! use hardmeter_objects::attach;
//! use hardmeter_samples::model::Pid;
//!
//! // This process is not a PostgreSQL server.
//! let error = attach(Pid(std::process::id() as i32)).err().expect("it is refused");
//! assert!(!error.to_string().is_empty());
//! ```

mod bytes;
mod error;
pub mod postgres;
pub mod process_memory;
pub mod program;
mod source_files;

pub use error::AttachError;

use hardmeter_samples::model::{Pid, StateId, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::ObjectNotes;

/// Attaches to the server that a process belongs to; any of its processes will do.
///
/// Only PostgreSQL is supported so far; another program gives [`AttachError::Program`].
///
/// # Errors
///
/// [`AttachError`] if the process is gone, its memory may not be read, or its program or version is not
/// supported.
pub fn attach(pid: Pid) -> Result<Box<dyn ServerObjects>, AttachError> {
    Ok(Box::new(postgres::Postgres::attach(pid)?))
}

/// A sampled data access, as the recorder received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The process.
    pub pid: Pid,
    /// The data address.
    pub address: VirtualAddress,
    /// When (`CLOCK_MONOTONIC`).
    pub time: Timestamp,
    /// The stack pointer, where registers were recorded.
    pub stack_pointer: Option<VirtualAddress>,
    /// What the state rules read at the sample.
    pub states: Vec<(StateId, Vec<u8>)>,
}

/// What a server counted itself while it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What, and how many: "transactions", "rows written".
    pub figures: Vec<(String, u64)>,
    /// The databases that were counted, if not the whole server.
    pub databases: Vec<String>,
    /// How far the figures can be trusted.
    pub limits: Vec<String>,
    /// Why figures are missing that there could be.
    pub trouble: Option<String>,
}

/// A server whose objects can be identified from outside.
pub trait ServerObjects: Send {
    /// A description, for example "PostgreSQL 15.18 (process 4711)".
    fn describe(&self) -> String;

    /// What to read of it at each sample, where the source of samples can.
    fn state_rules(&self) -> Vec<StateRule>;

    /// Looks up the addresses of new samples. Called often, with the samples since the last call.
    fn see(&mut self, accesses: &[Access]);

    /// Checks earlier findings again, so that facts get an end. Called about once a second.
    fn look_again(&mut self, now: Timestamp);

    /// What the server itself counted since the attachment. Called once, after the recording and the recorded program
    /// have ended; may take a moment.
    fn counted(&mut self) -> Counted {
        Counted::default()
    }

    /// Ends and returns all findings. `now` is the end of the last check.
    fn finish(self: Box<Self>, now: Timestamp) -> ObjectNotes;
}
