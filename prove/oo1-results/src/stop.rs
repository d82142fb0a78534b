//! Stopping in an orderly way: the program that runs is asked to end, so that it takes away what it made, then killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a program may take to clear away before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Tells a comparison to stop. Clones are the same.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    /// The process group of the program that runs. While it is here, the process is not waited for, so that its number
    /// is reused by no other process.
    running: Mutex<Option<libc::pid_t>>,
}

impl Stop {
    /// No request yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks to stop, and ends what runs.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.end_running();
    }

    /// True if a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Ends the program that runs: gently, then not.
    pub(crate) fn end_running(&self) {
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + GRACE;
        while self.running().is_some() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(libc::SIGKILL);
    }

    /// Notes that a process group runs; false if it should end at once.
    pub(crate) fn begin(&self, group: libc::pid_t) -> bool {
        *self.running() = Some(group);
        // After that: a request either sees the group or is seen here.
        !self.asked()
    }

    /// Records that it has ended, before it is waited for.
    pub(crate) fn end(&self) {
        *self.running() = None;
    }

    fn signal(&self, signal: libc::c_int) {
        if let Some(group) = *self.running() {
            // SAFETY: no preconditions; a process that has not been waited for keeps its number.
            unsafe { libc::kill(-group, signal) };
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<libc::pid_t>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
