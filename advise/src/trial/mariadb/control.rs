//! The session that applies a trial's changes to a MariaDB server.

use super::super::TryError;
use crate::mariadb::{MariaSession, MariaTarget};
use hardmeter_session::Stop;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A session that holds the lock for making and undoing changes.
pub(super) struct MariaControl {
    target: MariaTarget,
    session: MariaSession,
    /// Its connection id.
    id: Option<u32>,
    /// Statements of this session so far.
    pub(super) statements: u64,
}

impl MariaControl {
    /// Connects, with a short lock wait timeout.
    pub(super) fn open(target: &MariaTarget) -> Result<MariaControl, TryError> {
        let (session, target) = (target.open()?, target.clone());
        let mut control = MariaControl { target, session, id: None, statements: 0 };
        control.run("preparing the session", "SET SESSION lock_wait_timeout = 5, wait_timeout = 86400")?;
        let id = control.value("reading the number of the session", "SELECT CONNECTION_ID()")?;
        control.id = id.and_then(|id| id.parse().ok());
        Ok(control)
    }

    /// Connects, and takes the lock.
    ///
    /// # Errors
    /// [`TryError::TrialRuns`] if another session keeps it until the timeout.
    pub(super) fn locked(target: &MariaTarget) -> Result<MariaControl, TryError> {
        let mut control = MariaControl::open(target)?;
        match control.value("taking the lock", "SELECT GET_LOCK('hardmeter tune', 5)")?.as_deref() {
            Some("1") => Ok(control),
            _ => {
                let holder =
                    control.value("checking for other trials", "SELECT IS_USED_LOCK('hardmeter tune')")?;
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

    /// Its connection id, with which other sessions can end it.
    pub(super) fn id(&self) -> Option<u32> {
        self.id
    }

    /// Ends the session that holds the lock, if it is one of these: the session of a killed tuner.
    pub(super) fn end_holder(&mut self, sessions: &[i32]) -> Result<(), TryError> {
        let holder = self.value("looking for the trial", "SELECT IS_USED_LOCK('hardmeter tune')")?;
        let holder = holder.and_then(|holder| holder.parse::<i32>().ok());
        if let Some(holder) = holder.filter(|one| sessions.contains(one)) {
            // It may have ended meanwhile.
            let _ = self.run("ending the session of the trial", &format!("KILL {holder}"));
        }
        Ok(())
    }

    /// Runs a statement that builds an index, for at most `longest` seconds and until `stop` is requested.
    ///
    /// # Errors
    /// [`TryError::SlowBuild`] or [`TryError::Interrupted`]; and if the server refuses it.
    pub(super) fn build(&mut self, what: &str, sql: &str, longest: f64, stop: &Stop) -> Result<(), TryError> {
        let limited =
            format!("SET STATEMENT max_statement_time = {longest} FOR {}", sql.trim_end_matches(';'));
        let (target, id) = (self.target.clone(), self.id);
        let (done, ended) = channel::<()>();
        let begin = Instant::now();
        let result = std::thread::scope(|scope| {
            scope.spawn(move || loop {
                match (ended.recv_timeout(Duration::from_millis(100)), id) {
                    (Err(RecvTimeoutError::Timeout), Some(id)) if stop.asked() => {
                        if let Ok(mut other) = target.open() {
                            let _ = other.run("ending the build", &format!("KILL QUERY {id}"));
                        }
                    }
                    (Err(RecvTimeoutError::Timeout), _) => {}
                    _ => return,
                }
            });
            let result = self.run(what, &limited);
            drop(done);
            result
        });
        match result {
            Err(_) if stop.asked() => Err(TryError::Interrupted),
            Err(_) if begin.elapsed().as_secs_f64() >= longest => {
                Err(TryError::SlowBuild { seconds: begin.elapsed().as_secs_f64(), limit: longest })
            }
            result => result,
        }
    }

    /// The identity of the server: a restart keeps it.
    pub(super) fn server(&mut self) -> Result<String, TryError> {
        const PLACE: &str = "SELECT CONCAT(@@GLOBAL.hostname, ':', @@GLOBAL.datadir)";
        let place = self.value("reading the identity of the server", PLACE)?;
        place.ok_or_else(|| TryError::Answer { what: PLACE.into() })
    }
}
