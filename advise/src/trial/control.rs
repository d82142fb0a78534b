//! The session with which a trial changes the server, and the locks that exclude a second trial.
//!
//! Invariants:
//! 1. A session that changes or undoes something holds [`Lock::Trial`]; one that builds an index holds
//!    [`Lock::Build`]. They are advisory locks of a session, which the server releases when the backend ends:
//!    a change that is still running when its client dies is complete before another session gets the lock.
//! 2. At most one session of the whole server holds each lock: holders in other databases count, too.

use super::TryError;
use hardmeter_session::{Session, Stop, Target};
use std::time::{Duration, Instant};

/// The kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// To change and to undo.
    Trial = 1,
    /// To build and drop an index.
    Build = 2,
}

/// "HM": distinguishes the locks from those of applications.
const CLASS: i32 = 0x484d;

/// A session that changes the server.
pub(super) struct Control {
    session: Session,
    queries: u64,
    target: Target,
    stop: Stop,
    /// The locks that it holds, or takes when it connects again.
    locks: Vec<Lock>,
}

impl Control {
    /// Connects. `stop` cancels statements on this session; a session that undoes must not have it.
    pub(super) fn open(target: &Target, stop: &Stop) -> Result<Control, TryError> {
        let session = Control::session(target, stop)?;
        Ok(Control { session, queries: 0, target: target.clone(), stop: stop.clone(), locks: Vec::new() })
    }

    /// Connects again after a restart of the server, and takes the locks that it held.
    ///
    /// # Errors
    /// If the server cannot be reached, or another session has taken a lock. It may be called again.
    pub(super) fn reopen(&mut self) -> Result<(), TryError> {
        self.session = Control::session(&self.target, &self.stop)?;
        let locks = std::mem::take(&mut self.locks);
        let taken = locks.iter().try_for_each(|lock| self.lock_within(*lock, Duration::from_secs(10)));
        self.locks = locks;
        taken
    }

    fn session(target: &Target, stop: &Stop) -> Result<Session, TryError> {
        let mut session = Session::open(&target.clone().named("hardmeter tune"), stop)?;
        session.leave_cpu();
        // A trial's own queries are not worth compiling; `SettingSwitch::plan` resets this setting if it is
        // tried itself.
        let limits = "SET statement_timeout = 0; SET lock_timeout = '5s'; SET idle_session_timeout = 0; \
             SET default_transaction_read_only = off; SET standard_conforming_strings = on; \
             SET client_connection_check_interval = '1s'; SET jit_above_cost = -1";
        session.execute("preparing the session", limits)?;
        Ok(session)
    }

    /// The backend's process.
    pub(super) fn backend(&self) -> i32 {
        self.session.backend()
    }

    /// Transactions of this session so far.
    pub(super) fn queries(&self) -> u64 {
        self.queries
    }

    /// Runs one statement.
    pub(super) fn run(&mut self, what: &str, sql: &str) -> Result<(), TryError> {
        self.queries += 1;
        Ok(self.session.query(what, sql).map(drop)?)
    }

    /// The rows of a query.
    pub(super) fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TryError> {
        self.queries += 1;
        Ok(self.session.query(what, sql)?.rows)
    }

    /// The first row of a query.
    pub(super) fn row(&mut self, what: &str, sql: &str) -> Result<Option<Vec<Option<String>>>, TryError> {
        Ok(self.rows(what, sql)?.into_iter().next())
    }

    /// The one value of the one row; `None` for NULL and for no row.
    pub(super) fn value(&mut self, what: &str, sql: &str) -> Result<Option<String>, TryError> {
        Ok(self.row(what, sql)?.and_then(|row| row.into_iter().next().flatten()))
    }

    /// True if a condition holds.
    pub(super) fn holds(&mut self, what: &str, condition: &str) -> Result<bool, TryError> {
        Ok(self.value(what, &format!("SELECT {condition}"))?.as_deref() == Some("t"))
    }

    /// Takes a lock, unless another session of the server has it.
    ///
    /// # Errors
    /// [`TryError::TrialRuns`] if another one has it.
    pub(super) fn lock(&mut self, lock: Lock) -> Result<(), TryError> {
        let number = lock as i32;
        let taken = self.holds("taking the lock", &format!("pg_try_advisory_lock({CLASS}, {number})"))?;
        let others = format!(
            "SELECT pid FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND classid = {CLASS} \
             AND objid = {number} AND objsubid = 2 AND granted AND pid <> pg_backend_pid()"
        );
        match self.value("checking for other trials", &others)? {
            Some(pid) => {
                if taken {
                    self.run("freeing the lock", &format!("SELECT pg_advisory_unlock({CLASS}, {number})"))?;
                }
                Err(TryError::TrialRuns { pid })
            }
            None if taken => {
                self.locks.push(lock);
                Ok(())
            }
            None => Err(TryError::TrialRuns { pid: "just gone".into() }),
        }
    }

    /// Ends those of these backends that hold a lock.
    pub(super) fn end_holders(&mut self, backends: &[i32]) -> Result<(), TryError> {
        let backends: Vec<String> = backends.iter().map(i32::to_string).collect();
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' \
             AND classid = {CLASS} AND objsubid = 2 AND granted AND pid IN (0, {})",
            backends.join(", ")
        );
        match backends.is_empty() {
            true => Ok(()),
            false => self.rows("ending the backends of the trial", &sql).map(drop),
        }
    }

    /// Takes a lock as soon as it is free, within `patience`. A backend that ends frees its locks a moment later.
    pub(super) fn lock_within(&mut self, lock: Lock, patience: Duration) -> Result<(), TryError> {
        let end = Instant::now() + patience;
        loop {
            match self.lock(lock) {
                Err(TryError::TrialRuns { .. }) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                result => return result,
            }
        }
    }
}

/// A text as an SQL literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
