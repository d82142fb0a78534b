//! What an address is to a database server: which relation and block, which lock, which memory context.
//!
//! A profiled server is looked into from outside while it is recorded: its memory is read, never written, and nothing
//! is asked of it that it would have to answer. What was found becomes [`ObjectNotes`], the notes beside the capture;
//! from there on nobody needs to know what kind of server it was.
//!
//! ```text
//!   attach(pid) ──> ServerObjects ── state_rules() ──> what the software PMU reads at each sample
//!                        │
//!   sampled accesses ──> see()          looks up each address that is new, while it is fresh
//!   a clock ───────────> look_again()   confirms what was found, or ends its validity
//!                        │
//!                     counted() ─> Counted: transactions, rows
//!                     finish() ──> ObjectNotes ──> hardmeter.data.objects
//! ```
//!
//! What this crate is *not* for: it takes no samples (that is `capture`) and joins nothing (`analysis`).
//!
//! # Design constraints
//!
//! * *Read only.* Memory is read by `process_vm_readv`, files by `open(O_RDONLY)`. No connection, no signal, no ptrace stop.
//! * *Stripped binaries.* What a distribution ships is enough: exported symbols, and layout tables by major version.
//! * *Loud.* At attach the layout is tested against the living server (magic numbers, sizes, tags). A server that does
//!   not pass is refused with the reason, and the rest of the profile works.
//! * *Bounded.* A server in the middle of a change, or a damaged one, may show any bytes: every length and every list is
//!   bounded, and pointers are followed only into memory that is mapped.
//! * *One interface.* [`ServerObjects`] knows nothing of PostgreSQL; MariaDB's InnoDB can be a second implementation.

mod bytes;
mod error;
pub mod postgres;
pub mod process_memory;
pub mod program;
mod source_files;

pub use error::AttachError;

use hardmeter_samples::model::{Pid, StateId, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::ObjectNotes;

/// Attaches to the server that a process belongs to, whichever of its processes that is.
///
/// Nothing but PostgreSQL is known so far; a process of something else gives [`AttachError::Program`].
pub fn attach(pid: Pid) -> Result<Box<dyn ServerObjects>, AttachError> {
    Ok(Box::new(postgres::Postgres::attach(pid)?))
}

/// A sampled data access, as the recorder saw it pass by.
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

/// What a server counted itself while it was looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// What, and how many: "transactions", "rows written".
    pub figures: Vec<(String, u64)>,
    /// Of which databases, where it is not of the whole server.
    pub databases: Vec<String>,
    /// How far the figures can be trusted.
    pub limits: Vec<String>,
    /// Why figures are missing that there could be.
    pub trouble: Option<String>,
}

/// A server whose objects can be told from outside.
pub trait ServerObjects: Send {
    /// What it is, for example "PostgreSQL 15.18 (process 4711)".
    fn describe(&self) -> String;

    /// What to read of it at each sample, where the source of samples can.
    fn state_rules(&self) -> Vec<StateRule>;

    /// Looks up the addresses of new samples. Called often, with what came since the last time.
    fn see(&mut self, accesses: &[Access]);

    /// Looks again at what was found, so that facts get an end. Called about once a second.
    fn look_again(&mut self, now: Timestamp);

    /// What the server itself counted since it was attached to. Called once, when the recording has ended and what
    /// was recorded too, as far as it will; it may take a moment.
    fn counted(&mut self) -> Counted {
        Counted::default()
    }

    /// Ends: what was found. `now` ends the last look.
    fn finish(self: Box<Self>, now: Timestamp) -> ObjectNotes;
}
