//! One connection for statements that are not timed: load, audit.

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

/// How often a session looks whether it shall stop. The server is told then to break off what it does.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// One connection, which ends what it does when somebody asks to stop.
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
                    // A server that does not hear it is gone or going; the session ends by its own error then.
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

    /// Runs a statement whose rows nobody wants. `what` is what it does, for messages.
    pub(super) fn execute(&mut self, what: &str, sql: &str) -> Result<(), TpccError> {
        self.begin(what)?;
        let result = self.connection.query_drop(sql);
        result.map_err(|error| self.explain(what, &error))
    }

    /// Runs a statement and gives its rows, as the texts that the server sent.
    pub(super) fn rows(&mut self, what: &str, sql: &str) -> Result<Rows, TpccError> {
        self.begin(what)?;
        let rows = self.connection.query::<mysql::Row, _>(sql);
        let rows = rows.map_err(|error| self.explain(what, &error))?;
        Ok(rows.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect())
    }

    /// The one value of the one row; `None`: no row, or NULL.
    pub(super) fn single(&mut self, what: &str, sql: &str) -> Result<Option<String>, TpccError> {
        Ok(self.rows(what, sql)?.into_iter().next().and_then(|row| row.into_iter().next()?))
    }

    /// Sends rows as lines of text into `LOAD DATA LOCAL`. `next` appends some and tells whether there may be more.
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
                // Of the crate's own buffer: 4 KB, so that an interrupted write_all is not tried again for ever.
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
            // It only ever waits for the server to hear it.
            let _ = watcher.join();
        }
    }
}

/// A value as the text protocol brings it.
fn text(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}
