//! Stopping in an orderly way: what runs on a server is cancelled by the protocol's own request, so that nothing goes
//! on there after the program has left.

use postgres::CancelToken;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells all sessions of a piece of work to stop. Clones are the same.
#[derive(Clone, Default)]
pub struct Stop(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    /// The statements that run now, by the number of the session.
    running: Mutex<Vec<(u64, CancelToken)>>,
}

impl Stop {
    /// No request yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks to stop, and cancels what runs.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        for (_, token) in self.running().iter() {
            // A server that does not hear it is gone or going.
            let _ = token.cancel_query(postgres::NoTls);
        }
    }

    /// True if a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Records that a session runs a statement, until the guard is dropped. False if it should not even begin.
    pub(crate) fn begin(&self, session: u64, token: CancelToken) -> Option<Running<'_>> {
        self.running().push((session, token));
        // After the push: a request either sees the token or is seen here.
        let guard = Running { stop: self, session };
        (!self.asked()).then_some(guard)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<(u64, CancelToken)>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A statement that runs.
pub(crate) struct Running<'a> {
    stop: &'a Stop,
    session: u64,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let session = self.session;
        self.stop.running().retain(|(other, _)| *other != session);
    }
}
