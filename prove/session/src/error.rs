//! Errors of sessions with a server: cause and remedy.

use postgres::error::{DbError, SqlState};
use std::error::Error as _;
use std::io;

/// Errors of sessions with a server. [`SessionError::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum SessionError {
    #[error("invalid connection string {target}: {reason}")]
    BadTarget { target: String, reason: String },
    #[error("cannot connect to {target}: {reason}")]
    Connect { target: String, reason: String, remedy: String },
    #[error("the server closed the connection while {what}")]
    ServerGone { what: String },
    /// `code` is the SQLSTATE, empty if it was not the server that refused.
    #[error("{what} failed: {reason}")]
    Statement { what: String, reason: String, code: String, remedy: String },
    #[error("{what} took longer than {seconds} s and was cancelled")]
    TimedOut { what: String, seconds: u64 },
    #[error("{what} was interrupted")]
    Interrupted { what: String },
}

impl SessionError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            SessionError::BadTarget { .. } => {
                "write it as libpq does, for example: host=/run/postgresql user=postgres dbname=postgres"
                    .into()
            }
            SessionError::Connect { remedy, .. } | SessionError::Statement { remedy, .. } => remedy.clone(),
            SessionError::ServerGone { .. } => {
                "the server's log has the cause (a crash, or it was stopped); start it, then try again".into()
            }
            SessionError::TimedOut { .. } => {
                "give it more time with --timeout, or see with EXPLAIN why it takes so long".into()
            }
            SessionError::Interrupted { .. } => "run it again".into(),
        }
    }

    /// Whether the session is unusable after it.
    pub fn ends_session(&self) -> bool {
        matches!(self, SessionError::ServerGone { .. } | SessionError::Interrupted { .. })
    }

    /// Whether the server reported a missing table.
    pub fn is_missing_table(&self) -> bool {
        matches!(self, SessionError::Statement { code, .. } if code == SqlState::UNDEFINED_TABLE.code())
    }
}

/// The server's message in one line.
fn said(error: &DbError) -> String {
    let mut text = error.message().to_owned();
    for more in [error.detail(), error.hint()].into_iter().flatten() {
        text += &format!(" ({more})");
    }
    text
}

/// The error of a statement as a `SessionError`.
pub(crate) fn statement_error(what: &str, error: &postgres::Error) -> SessionError {
    let what = what.to_owned();
    let Some(told) = error.as_db_error() else {
        if error.is_closed() || error.source().is_some_and(|source| source.is::<io::Error>()) {
            return SessionError::ServerGone { what };
        }
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        return SessionError::Statement { what, reason, code: String::new(), remedy: String::new() };
    };
    // Class 57: an administrator, or a crash of another backend, ended the session.
    if [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW]
        .contains(told.code())
    {
        return SessionError::ServerGone { what };
    }
    SessionError::Statement {
        what,
        reason: said(told),
        code: told.code().code().into(),
        remedy: remedy_of(told),
    }
}

/// The error of a connection attempt as a `SessionError`.
pub(crate) fn connect_error(target: &str, error: &postgres::Error) -> SessionError {
    let (reason, remedy) = match error.as_db_error() {
        Some(told) => (said(told), remedy_of(told)),
        None => {
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            let remedy = if reason.contains("password missing") {
                PASSWORD
            } else {
                "see that the server runs and listens on this socket (hardmeter server list, or pg_lsclusters)"
            };
            (reason, remedy.into())
        }
    };
    SessionError::Connect { target: target.to_owned(), reason, remedy }
}

const PASSWORD: &str = "give the password in PGPASSWORD or in ~/.pgpass (which only you may read)";

fn remedy_of(told: &DbError) -> String {
    let code = told.code();
    let remedies: [(&SqlState, &str); 10] = [
        (&SqlState::INSUFFICIENT_PRIVILEGE, "connect as a user who may do this, or GRANT it"),
        (&SqlState::DISK_FULL, "free some space on the disk of the server's data"),
        (&SqlState::INVALID_CATALOG_NAME, "make the database (createdb), or name another with --database"),
        (&SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "name a user whom the server lets in: user=NAME"),
        (&SqlState::INVALID_PASSWORD, PASSWORD),
        (
            &SqlState::TOO_MANY_CONNECTIONS,
            "ask for fewer sessions, or let the server take more: max_connections, or the CONNECTION LIMIT of the \
             role or the database",
        ),
        (
            &SqlState::UNDEFINED_FILE,
            "install the library for this server's version, or name its folder in the server's \
             dynamic_library_path",
        ),
        (
            &SqlState::UNDEFINED_OBJECT,
            "check the spelling; parameters of a library exist once it is loaded: put load:LIBRARY before",
        ),
        (&SqlState::INVALID_PARAMETER_VALUE, "give a value that the parameter takes"),
        (&SqlState::OUT_OF_MEMORY, "give the server less work_mem, or the machine more memory"),
    ];
    remedies.iter().find(|(known, _)| *known == code).map_or_else(String::new, |(_, text)| (*text).into())
}
