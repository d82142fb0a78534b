//! The interface of an observed server to the rest of Hardmeter: samples in, names out.

use hardmeter_samples::model::{Pid, StateId, StateRule, Timestamp, VirtualAddress};
use hardmeter_samples::object_notes::ObjectNotes;

/// The clock of samples.
pub(crate) fn clock() -> Timestamp {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in a structure on this stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Timestamp(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// A sampled data access, as the recorder received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The process.
    pub pid: Pid,
    /// The data address.
    pub address: VirtualAddress,
    /// The time (`CLOCK_MONOTONIC`).
    pub time: Timestamp,
    /// The stack pointer, if registers were recorded.
    pub stack_pointer: Option<VirtualAddress>,
    /// The values read by the state rules at the sample.
    pub states: Vec<(StateId, Vec<u8>)>,
}

/// The server's own counters while it was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Names and values: "transactions", "rows written".
    pub figures: Vec<(String, u64)>,
    /// The databases that were counted, if not the whole server.
    pub databases: Vec<String>,
    /// The limits of the figures' accuracy.
    pub limits: Vec<String>,
    /// The reason why figures are missing.
    pub trouble: Option<String>,
}

/// A server whose objects can be identified from outside.
pub trait ServerObjects: Send {
    /// A description, for example "PostgreSQL 15.18 (process 4711)".
    fn describe(&self) -> String;

    /// The memory to read with each sample, if the source of samples can.
    fn state_rules(&self) -> Vec<StateRule>;

    /// Looks up the addresses of new samples. Called often, with the samples since the last call.
    fn see(&mut self, accesses: &[Access]);

    /// Checks earlier findings again, so that facts get an end. Called about once a second.
    fn look_again(&mut self, now: Timestamp);

    /// The server's own counts since the attachment. Called once, after the recording and the recorded program
    /// have ended; may take a moment.
    fn counted(&mut self) -> Counted {
        Counted::default()
    }

    /// Ends and returns all findings. `now` is the end of the last check.
    fn finish(self: Box<Self>, now: Timestamp) -> ObjectNotes;
}
