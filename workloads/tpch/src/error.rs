//! Why something of TPC-H could not be done: the cause, and what mends it.

use postgres::error::{DbError, SqlState};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;

/// Why something of TPC-H could not be done. [`TpchError::remedy`] says what mends it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages say what each is; the fields are what they name
pub enum TpchError {
    #[error("{target} is no description of a connection: {reason}")]
    BadTarget { target: String, reason: String },
    #[error("cannot connect to {target}: {reason}")]
    Connect { target: String, reason: String, remedy: String },
    #[error("the server closed the connection while {what}")]
    ServerGone { what: String },
    #[error("{what} failed: {reason}")]
    Statement { what: String, reason: String, remedy: String },
    #[error("{what} took longer than {seconds} s and was cancelled")]
    TimedOut { what: String, seconds: u64 },
    #[error("{what} was interrupted")]
    Interrupted { what: String },
    #[error("this database holds no data of TPC-H: there is no table {table}")]
    NoData { table: &'static str },
    #[error("this database already holds the table {table}")]
    AlreadyLoaded { table: String },
    #[error("the data of TPC-H in this database are incomplete: a load was cut off")]
    Incomplete,
    #[error("the data are of scale {found}, and the published answers of scale 1")]
    WrongScale { found: f64 },
    #[error("the data were changed by {refreshes} pairs of refresh functions")]
    Refreshed { refreshes: u32 },
    #[error("{scale} is no scale to load: {reason}")]
    BadScale { scale: String, reason: &'static str },
    #[error("'{text}' is no variant: {reason}")]
    BadVariant { text: String, reason: String },
    #[error("'{text}' names no queries: {reason}")]
    BadQueries { text: String, reason: String },
    #[error("all {available} update sets of these data are used up")]
    NoUpdateSet { available: u32 },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl TpchError {
    /// What mends the cause.
    pub fn remedy(&self) -> String {
        match self {
            TpchError::BadTarget { .. } => {
                "write it as libpq does, for example: host=/run/postgresql user=postgres dbname=tpch".into()
            }
            TpchError::Connect { remedy, .. } | TpchError::Statement { remedy, .. } => remedy.clone(),
            TpchError::ServerGone { .. } => {
                "see the server's log for why (a crash, or somebody stopped it); start it, then try again"
                    .into()
            }
            TpchError::TimedOut { .. } => {
                "give it more time with --timeout, or see with EXPLAIN why it takes so long".into()
            }
            TpchError::Interrupted { .. } => "run it again".into(),
            TpchError::NoData { .. } => "load them (hardmeter tpch load), or name another database".into(),
            TpchError::AlreadyLoaded { .. } => {
                "use what is there, load into another database, or throw the tables of TPC-H away and load \
                 anew: --replace"
                    .into()
            }
            TpchError::Incomplete => "load them anew: hardmeter tpch load --replace".into(),
            TpchError::WrongScale { .. } => {
                "load scale 1 into another database: hardmeter tpch load --scale 1".into()
            }
            TpchError::Refreshed { .. } | TpchError::NoUpdateSet { .. } => {
                "load them anew: hardmeter tpch load --replace".into()
            }
            TpchError::BadScale { .. } => {
                "1 is 1 GB of raw data; give a number from 0.01 to 300, for example --scale 0.1".into()
            }
            TpchError::BadVariant { .. } => {
                "write NAME=SETTINGS, settings separated by semicolons, for example \
                 --variant 'on=load:ccopt; ccopt.enabled=on'"
                    .into()
            }
            TpchError::BadQueries { .. } => "give numbers from 1 to 22, for example 1,6,13-15".into(),
            TpchError::Io { .. } => "mend what the system says, or name another file".into(),
        }
    }

    /// Whether the session that met it is of no use any more.
    pub fn ends_session(&self) -> bool {
        matches!(self, TpchError::ServerGone { .. } | TpchError::Interrupted { .. })
    }
}

/// What the server said, in one line.
pub(crate) fn said(error: &DbError) -> String {
    let mut text = error.message().to_owned();
    for more in [error.detail(), error.hint()].into_iter().flatten() {
        text += &format!(" ({more})");
    }
    text
}

/// The error of a statement as one of ours.
pub(crate) fn statement_error(what: &str, error: &postgres::Error) -> TpchError {
    let what = what.to_owned();
    let Some(told) = error.as_db_error() else {
        if error.is_closed() || error.source().is_some_and(|source| source.is::<io::Error>()) {
            return TpchError::ServerGone { what };
        }
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        return TpchError::Statement { what, reason, remedy: String::new() };
    };
    // Class 57: an administrator, or a crash of another backend, ended the session.
    if [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW]
        .contains(told.code())
    {
        return TpchError::ServerGone { what };
    }
    TpchError::Statement { what, reason: said(told), remedy: remedy_of(told) }
}

/// The error of a connection attempt as one of ours.
pub(crate) fn connect_error(target: &str, error: &postgres::Error) -> TpchError {
    let (reason, remedy) = match error.as_db_error() {
        Some(told) => (said(told), remedy_of(told)),
        None => (
            error.source().map_or_else(|| error.to_string(), ToString::to_string),
            "see that the server runs and listens on this socket (hardmeter server list, or pg_lsclusters)"
                .into(),
        ),
    };
    TpchError::Connect { target: target.to_owned(), reason, remedy }
}

fn remedy_of(told: &DbError) -> String {
    let code = told.code();
    let remedies: [(&SqlState, &str); 10] = [
        (&SqlState::UNDEFINED_TABLE, "load the data of TPC-H: hardmeter tpch load"),
        (&SqlState::INSUFFICIENT_PRIVILEGE, "connect as a user who may do this, or GRANT it"),
        (&SqlState::DISK_FULL, "free some space on the disk of the server's data"),
        (&SqlState::INVALID_CATALOG_NAME, "make the database (createdb), or name another with --database"),
        (&SqlState::INVALID_AUTHORIZATION_SPECIFICATION, "name a user whom the server lets in: user=NAME"),
        (&SqlState::INVALID_PASSWORD, "give the password in PGPASSWORD or in the connection string"),
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

/// Gives an I/O error the action and the path that it lacks.
pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> TpchError {
    let path = path.into();
    move |source| TpchError::Io { action, path, source }
}
