//! The session that a trial changes a MariaDB server with.

use super::super::TryError;
use crate::mariadb::{MariaSession, MariaTarget};

/// A session with the lock of those who change or undo something.
pub(super) struct MariaControl {
    session: MariaSession,
    /// Statements of this session so far.
    pub(super) statements: u64,
}

impl MariaControl {
    /// Connects. A statement waits for no lock longer than a moment.
    pub(super) fn open(target: &MariaTarget) -> Result<MariaControl, TryError> {
        let mut control = MariaControl { session: target.open()?, statements: 0 };
        control.run("preparing the session", "SET SESSION lock_wait_timeout = 5, wait_timeout = 86400")?;
        Ok(control)
    }

    /// Connects, and takes the lock.
    ///
    /// # Errors
    /// [`TryError::TrialRuns`] if another session has it for longer than a moment.
    pub(super) fn locked(target: &MariaTarget) -> Result<MariaControl, TryError> {
        let mut control = MariaControl::open(target)?;
        match control.value("taking the lock", "SELECT GET_LOCK('hardmeter tune', 5)")?.as_deref() {
            Some("1") => Ok(control),
            _ => {
                let holder =
                    control.value("looking for other trials", "SELECT IS_USED_LOCK('hardmeter tune')")?;
                Err(TryError::TrialRuns { pid: holder.unwrap_or_else(|| "just gone".into()) })
            }
        }
    }

    pub(super) fn rows(&mut self, what: &str, sql: &str) -> Result<Vec<Vec<Option<String>>>, TryError> {
        self.statements += 1;
        Ok(self.session.rows(what, sql)?)
    }

    pub(super) fn value(&mut self, what: &str, sql: &str) -> Result<Option<String>, TryError> {
        self.statements += 1;
        Ok(self.session.value(what, sql)?)
    }

    pub(super) fn run(&mut self, what: &str, sql: &str) -> Result<(), TryError> {
        self.statements += 1;
        Ok(self.session.run(what, sql)?)
    }

    /// The identity of the server: a restart keeps it.
    pub(super) fn server(&mut self) -> Result<String, TryError> {
        const PLACE: &str = "SELECT CONCAT(@@GLOBAL.hostname, ':', @@GLOBAL.datadir)";
        let place = self.value("reading the identity of the server", PLACE)?;
        place.ok_or_else(|| TryError::Answer { what: PLACE.into() })
    }
}
