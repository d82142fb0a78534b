//! Errors of TPC-H: cause and remedy.

use hardmeter_session::SessionError;
use std::io;
use std::path::PathBuf;

/// Errors of TPC-H. [`TpchError::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum TpchError {
    #[error(transparent)]
    Session(#[from] SessionError),
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
    #[error("invalid scale {scale}: {reason}")]
    BadScale { scale: String, reason: &'static str },
    #[error("invalid variant '{text}': {reason}")]
    BadVariant { text: String, reason: String },
    #[error("'{text}' names no queries: {reason}")]
    BadQueries { text: String, reason: String },
    #[error("all {available} update sets of these data are used up")]
    NoUpdateSet { available: u32 },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl TpchError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            TpchError::Session(error) if error.is_missing_table() => {
                "load the data of TPC-H: hardmeter tpch load".into()
            }
            TpchError::Session(error) => error.remedy(),
            TpchError::NoData { .. } => "load them (hardmeter tpch load), or name another database".into(),
            TpchError::AlreadyLoaded { .. } => {
                "use the existing tables, load into another database, or drop the tables of TPC-H and load \
                 them again: --replace"
                    .into()
            }
            TpchError::Incomplete => "load them again: hardmeter tpch load --replace".into(),
            TpchError::WrongScale { .. } => {
                "load scale 1 into another database: hardmeter tpch load --scale 1".into()
            }
            TpchError::Refreshed { .. } | TpchError::NoUpdateSet { .. } => {
                "load them again: hardmeter tpch load --replace".into()
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
            TpchError::Io { .. } => "fix what the system reports, or name another file".into(),
        }
    }

    /// Whether the session is unusable after it.
    pub fn ends_session(&self) -> bool {
        matches!(self, TpchError::Session(error) if error.ends_session())
    }
}

/// Gives an I/O error the action and the path that it lacks.
pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> TpchError {
    let path = path.into();
    move |source| TpchError::Io { action, path, source }
}
