//! Errors of OO1: cause and remedy.

use std::io;
use std::path::PathBuf;

/// Errors of OO1. [`Oo1Error::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum Oo1Error {
    #[error("the programs of OO1 are not built: there is no oo1-generate in {}", listed(searched))]
    NoPrograms { searched: Vec<PathBuf> },
    #[error("the mode {mode} is not built here: {reason}")]
    NotBuilt { mode: String, reason: String },
    #[error("unknown mode '{mode}' of OO1: there are {known}")]
    UnknownMode { mode: String, known: String },
    #[error("invalid {kind} '{text}': {reason}")]
    BadArgument { kind: &'static str, text: String, reason: String },
    #[error("graphs and stores take about {needed} MB more, and the disk of {} has {free} MB left", folder.display())]
    NoRoom { folder: PathBuf, needed: u64, free: u64 },
    #[error("{} is in use by another hardmeter oo1", folder.display())]
    Busy { folder: PathBuf },
    #[error("{what} failed: {reason}")]
    Failed { what: String, reason: String, remedy: String },
    #[error("this machine does not support it: {reason}")]
    CannotHere { reason: String, remedy: String },
    #[error("{what} was killed by signal {signal}{}", told(*signal))]
    Killed { what: String, signal: i32 },
    #[error("{what} took longer than {seconds} s and was killed")]
    TimedOut { what: String, seconds: u64 },
    #[error("{what} was interrupted")]
    Interrupted { what: String },
    #[error("{what} printed something else than the JSON it should: {reason}")]
    BadOutput { what: String, reason: String },
    #[error("{} is not a result of hardmeter oo1: {reason}", path.display())]
    BadResult { path: PathBuf, reason: String },
    #[error("cannot draw {}: {reason}", path.display())]
    Drawing { path: PathBuf, reason: String },
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Oo1Error {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            Oo1Error::NoPrograms { .. } => {
                "build them (make build), or name the folder where they are: HARDMETER_OO1=DIR".into()
            }
            Oo1Error::NotBuilt { .. } | Oo1Error::UnknownMode { .. } => {
                "choose among those that hardmeter oo1 modes lists".into()
            }
            Oo1Error::BadArgument { .. } => "see hardmeter oo1 run --help".into(),
            Oo1Error::NoRoom { .. } => {
                "take fewer modes or parts, clear what earlier runs keep (hardmeter oo1 clear), or name a folder on \
                 another disk: --dir DIR"
                    .into()
            }
            Oo1Error::Busy { .. } => "wait for it, or name another folder: --dir DIR".into(),
            Oo1Error::Failed { remedy, .. } | Oo1Error::CannotHere { remedy, .. } => remedy.clone(),
            Oo1Error::Killed { signal: libc::SIGKILL, .. } => {
                "see dmesg whether memory ran out; take fewer parts, or leave the mode out with --modes".into()
            }
            Oo1Error::Killed { .. } => {
                "a fault of that program: run it alone to see where (see docs/oo1.md), or leave the mode out \
                 with --modes"
                    .into()
            }
            Oo1Error::TimedOut { .. } => {
                "give it more time with --timeout, or leave the mode out with --modes".into()
            }
            Oo1Error::Interrupted { .. } => "run it again; graphs and stores that were finished are kept".into(),
            Oo1Error::BadOutput { .. } => {
                "the programs and this command are of different versions: build both again (make build)".into()
            }
            Oo1Error::BadResult { .. } => "name a file that hardmeter oo1 run -o wrote".into(),
            Oo1Error::Drawing { .. } | Oo1Error::Io { .. } => {
                "fix what the system reports, or name another place".into()
            }
        }
    }
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn told(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => " (killed, or out of memory)",
        libc::SIGSEGV => " (it used memory that it does not have)",
        libc::SIGABRT => " (it gave up: an assertion, or an unhandled fault)",
        libc::SIGBUS => " (a page of a mapped file could not be had)",
        _ => "",
    }
}

/// Gives an I/O error the action and the path that it lacks.
pub(crate) fn io_error(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Oo1Error {
    let path = path.into();
    move |source| Oo1Error::Io { action, path, source }
}
