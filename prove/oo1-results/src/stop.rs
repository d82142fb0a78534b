//! Orderly stopping: the running program gets SIGTERM, so that it removes its files, then SIGKILL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for a program to clean up before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A request to stop a comparison. Clones share it.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    /// The process group of the running program. While it is set, the process is not reaped, so that its number is
    /// not reused.
    running: Mutex<Option<libc::pid_t>>,
}

impl Stop {
    /// No request yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Requests to stop, and ends the running program.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        self.end_running();
    }

    /// True if a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Ends the running program: SIGTERM, then SIGKILL.
    pub(crate) fn end_running(&self) {
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + GRACE;
        while self.running().is_some() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.signal(libc::SIGKILL);
    }

    /// Records a running process group; returns false if it should end at once.
    pub(crate) fn begin(&self, group: libc::pid_t) -> bool {
        *self.running() = Some(group);
        // After recording: a concurrent request either sees the group or is seen here.
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
