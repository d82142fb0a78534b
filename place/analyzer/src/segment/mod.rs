//! Applications' segments, as libsplit lays them out (`place/libsplit/src/segment.h`), read and written by
//! the analyzer.
//!
//! ```text
//!   Folder ──scan──> Application (one app-<id>.segment) ──> Snapshot        statistics, copied by seqlock
//!                                                       <── Decision        class, cores, probes, by seqlock
//!                                                       <── beat, command   heartbeat; placement on or off
//! ```
//!
//! * [`layout`]: the structures and their offsets; [`mapping`]: bytes that may change or vanish at every
//!   read.
//! * [`application`]: one segment, and writing to it; [`reading`]: its statistics; [`convert`]: records of
//!   the model; [`folder`]: the present applications.
//!
//! Any user with access to the folder may put files there: nothing read is trusted. Invalid numbers are left
//! out and counted; a segment whose header does not match its sizes exactly is refused with a reason.

mod application;
mod convert;
mod folder;
mod layout;
mod mapping;
mod reading;

#[cfg(fuzzing)]
pub mod fuzz;
#[cfg(any(test, fuzzing))]
pub(crate) mod made;
#[cfg(test)]
mod tests;

pub use application::{Application, Decision, Facts, Refusal, ThreadSeen};
pub use folder::{directory, Change, Folder};
pub use reading::{Reading, TraceCursor, TraceEntry};

/// Nanoseconds of CLOCK_MONOTONIC, the clock of heartbeats and snapshots.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux; `time` lives.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
