//! Orderly stopping: running statements are cancelled by the protocol's request, so that the server does not
//! continue them after the program has ended.

use postgres::CancelToken;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A request to stop all sessions of a piece of work. Clones share it.
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

    /// Requests to stop, and cancels running statements.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        for (_, token) in self.running().iter() {
            // A server that does not receive it is going down.
            let _ = token.cancel_query(postgres::NoTls);
        }
    }

    /// True if a stop was requested.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Records that a session runs a statement, until the guard is dropped. Returns false if it should not begin.
    pub(crate) fn begin(&self, session: u64, token: CancelToken) -> Option<Running<'_>> {
        self.running().push((session, token));
        // After the push: a concurrent request either sees the token or is seen here.
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
