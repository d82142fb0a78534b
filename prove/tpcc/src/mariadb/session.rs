//! A connection for untimed statements: load, audit.

use super::fault;
use super::target::Target;
use crate::error::TpccError;
use hardmeter_session::{SessionError, Stop};
use mysql::prelude::Queryable;
use mysql::{Conn, Error, LocalInfileHandler, Value};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval in which a session checks for a request to stop; the server then cancels its statement.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// A connection whose statements can be cancelled by a request to stop.
pub(super) struct Session {
    connection: Conn,
    stop: Stop,
    ended: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

/// Rows of texts; `None` is NULL.
pub(super) type Rows = Vec<Vec<Option<String>>>;

impl Session {
    /// Connects.
    pub(super) fn open(target: &Target, stop: &Stop) -> Result<Session, TpccError> {
        Session::over(target.connect()?, target, stop)
    }

    /// Connects to the server, whether the database is there or not.
    pub(super) fn open_server(target: &Target, stop: &Stop) -> Result<Session, TpccError> {
        Session::over(target.connect_without_database()?, target, stop)
    }

    fn over(connection: Conn, target: &Target, stop: &Stop) -> Result<Session, TpccError> {
        let ended = Arc::new(AtomicBool::new(false));
        let (asked, over, target) = (stop.clone(), Arc::clone(&ended), target.clone());
        let id = connection.connection_id();
        let watch = move || {
            while !over.load(Ordering::SeqCst) {
                if asked.asked() {
                    // If the server cannot be reached it is going down; the session then ends by its own error.
                    if let Ok(mut other) = target.connect_without_database() {
                        let _ = other.query_drop(format!("KILL QUERY {id}"));
                    }
                    return;
                }
                std::thread::park_timeout(LOOKS_EVERY);
            }
        };
        let watcher = std::thread::Builder::new()
            .name("mariadb-stop".into())
            .spawn(watch)
            .map_err(|error| fault::running("watching for an interruption", &Error::IoError(error)))?;
        Ok(Session { connection, stop: stop.clone(), ended, watcher: Some(watcher) })
    }

    /// Runs a statement and ignores its rows. `what` is its purpose, for messages.
    pub(super) fn execute(&mut self, what: &str, sql: &str) -> Result<(), TpccError> {
        self.begin(what)?;
        let result = self.connection.query_drop(sql);
        result.map_err(|error| self.explain(what, &error))
    }

    /// Runs a statement and returns its rows as the server's texts.
    pub(super) fn rows(&mut self, what: &str, sql: &str) -> Result<Rows, TpccError> {
        self.begin(what)?;
        let rows = self.connection.query::<mysql::Row, _>(sql);
        let rows = rows.map_err(|error| self.explain(what, &error))?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    /// The single value of a single row; `None`: no row, or NULL.
    pub(super) fn single(&mut self, what: &str, sql: &str) -> Result<Option<String>, TpccError> {
        Ok(self.rows(what, sql)?.into_iter().next().and_then(|row| row.into_iter().next()?))
    }

    /// Sends lines of text into `LOAD DATA LOCAL`. `next` appends lines and returns whether more may follow.
    pub(super) fn load(
        &mut self,
        what: &str,
        sql: &str,
        mut next: impl FnMut(&mut Vec<u8>) -> bool + Send + 'static,
    ) -> Result<u64, TpccError> {
        self.begin(what)?;
        let stop = self.stop.clone();
        let interrupted = Arc::new(Mutex::new(false));
        let noted = Arc::clone(&interrupted);
        let handler = LocalInfileHandler::new(move |_, writer| {
            let mut buffer = Vec::with_capacity(1 << 17);
            let mut more = true;
            while more {
                if stop.asked() {
                    *noted.lock().unwrap_or_else(PoisonError::into_inner) = true;
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                buffer.clear();
                more = next(&mut buffer);
                // Fill the crate's own buffer of 4 KB: an interrupted write_all would be retried without end.
                writer.write_all(&buffer)?;
            }
            Ok(())
        });
        self.connection.set_local_infile_handler(Some(handler));
        let result = self.connection.query_drop(sql);
        self.connection.set_local_infile_handler(None);
        if *interrupted.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(SessionError::Interrupted { what: what.to_owned() }.into());
        }
        result.map_err(|error| self.explain(what, &error))?;
        if self.connection.warnings() > 0 {
            // A row that did not fit would be cut to what does, and the load would look whole.
            let said = self.single(what, "SHOW WARNINGS LIMIT 1")?;
            let reason = format!("the server changed rows while it read them ({})", said.unwrap_or_default());
            let (what, code) = (what.to_owned(), String::new());
            return Err(SessionError::Statement { what, reason, code, remedy: String::new() }.into());
        }
        Ok(self.connection.affected_rows())
    }

    fn begin(&self, what: &str) -> Result<(), TpccError> {
        if self.stop.asked() {
            return Err(SessionError::Interrupted { what: what.to_owned() }.into());
        }
        Ok(())
    }

    fn explain(&self, what: &str, error: &Error) -> TpccError {
        if self.stop.asked() {
            return SessionError::Interrupted { what: what.to_owned() }.into();
        }
        fault::running(what, error)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            // It waits only for the server's reply.
            let _ = watcher.join();
        }
    }
}

/// A value of the text protocol.
fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}
