//! Reasons why a remedy was not tried, or a trial ended early: the cause, and the remedy.

use super::outcome::Closing;
use crate::AdviseError;
use hardmeter_session::SessionError;
use std::path::PathBuf;

/// The reason why a trial could not be made. [`TryError::remedy`] has the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages describe each
pub enum TryError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Advise(#[from] AdviseError),
    #[error("{remedy} is not tried: {reason}")]
    NotTried { remedy: String, reason: String, instead: String },
    #[error("\"{text}\" is not a setting")]
    NotSetting { text: String },
    #[error("{name} may not be tried: {reason}")]
    NotAllowed { name: String, reason: &'static str },
    #[error("the role {role} may not {what}")]
    NoRights { role: String, what: String, grant: String },
    #[error("a reload does not change {name} for the sessions of the load: {by}")]
    Overridden { name: String, by: String, remedy: String },
    #[error("{what} already")]
    Already { what: String },
    #[error("the server refuses {name} = '{value}': {reason}")]
    BadValue { name: String, value: String, reason: String },
    #[error("a trial on this server is under way (backend {pid})")]
    TrialRuns { pid: String },
    #[error("the server executed no statement of the load in {seconds:.0} s")]
    NoLoad { seconds: f64 },
    #[error("LOAD failed: {status}; it wrote {log}")]
    LoadFailed { status: String, log: String },
    #[error("the ledger {path} cannot be {what}: {error}")]
    Ledger { path: PathBuf, what: &'static str, error: std::io::Error },
    #[error("the ledger has no entry {entry} that could be undone on this server")]
    NoEntry { entry: u64 },
    #[error("the watchdog cannot be started: {reason}")]
    Watchdog { reason: String },
    #[error("{name} was changed and the server reloaded, but its value stayed {value}")]
    NoEffect { name: String, value: String },
    #[error("another session has changed {name} during the trial")]
    ChangedByOthers { name: String },
    #[error("building the index took {seconds:.0} s, more than the {limit:.0} s that a trial may wait at each switch")]
    SlowBuild { seconds: f64, limit: f64 },
    #[error("{what}")]
    Guard { what: String },
    #[error("the server's answer to \"{what}\" cannot be read")]
    Answer { what: String },
    #[error("{what}")]
    Copy { what: String, remedy: String },
    #[error("{what}")]
    Restart { what: String, remedy: String },
    #[error("interrupted")]
    Interrupted,
    #[error("{cause}; {}", after(*.how))]
    EndedEarly { cause: Box<TryError>, how: Closing },
    #[error("the change could not be undone yet: {reason}")]
    NotUndone { reason: String },
}

impl TryError {
    /// The remedy; empty if the message contains it.
    pub fn remedy(&self) -> String {
        match self {
            TryError::Session(error) => error.remedy(),
            TryError::Advise(error) => error.remedy(),
            TryError::NotTried { instead, .. } => instead.clone(),
            TryError::NotSetting { .. } => "write it as NAME=VALUE, such as work_mem=64MB".into(),
            error if error.needs_restart() => {
                "try it on a throwaway copy of the server: --copy DIR; or, with a restart for each block, on the \
                 server itself: --restart"
                    .into()
            }
            TryError::NotAllowed { .. } => {
                "change it by hand in a quiet hour, and compare with: hardmeter tune".into()
            }
            TryError::NoRights { grant, .. } => grant.clone(),
            TryError::Overridden { remedy, .. } => remedy.clone(),
            TryError::Already { .. } => "there is nothing to try".into(),
            TryError::BadValue { .. } => "name a value that the setting takes".into(),
            TryError::TrialRuns { .. } => "wait for its end, or end it with Ctrl-C".into(),
            TryError::NoLoad { .. } => {
                "run this while the server has load, or give a load: hardmeter tune try ... -- LOAD".into()
            }
            TryError::LoadFailed { .. } => "run LOAD alone until it works".into(),
            TryError::Ledger { .. } => {
                "nothing is changed without a ledger: make its folder writable, or set XDG_STATE_HOME".into()
            }
            TryError::NoEntry { .. } => "hardmeter tune log lists the entries".into(),
            TryError::Watchdog { .. } => {
                "nothing was changed; the watchdog is this program, started again".into()
            }
            TryError::NoEffect { .. } => {
                "it was undone; SELECT source, sourcefile FROM pg_settings says what sets it".into()
            }
            TryError::ChangedByOthers { .. } => {
                "find the program that changes this server's settings, and try again".into()
            }
            TryError::SlowBuild { .. } => {
                "it was dropped again; allow more with --longest-build, or create it by hand and look again"
                    .into()
            }
            TryError::Answer { .. } => {
                "report this with the server's version: it is a fault of hardmeter".into()
            }
            TryError::Guard { .. } => {
                "try again when the machine has room, or set other limits: --least-memory, --most-lag".into()
            }
            TryError::Copy { remedy, .. } | TryError::Restart { remedy, .. } => remedy.clone(),
            TryError::Interrupted => String::new(),
            TryError::EndedEarly { cause, .. } => cause.remedy(),
            TryError::NotUndone { .. } => {
                "its watchdog continues for ten minutes; after that: hardmeter tune undo".into()
            }
        }
    }

    /// A setting that only a restart changes: it is tried on a copy.
    pub(super) fn needs_restart(&self) -> bool {
        matches!(self, TryError::NotAllowed { reason, .. } if *reason == super::allowed::RESTART)
    }

    /// Only a copy can take the change: it needs a restart, or another command line.
    pub(super) fn needs_copy(&self) -> bool {
        let started = |remedy: &str| remedy == super::setting::STARTED_WITH;
        self.needs_restart() || matches!(self, TryError::Overridden { remedy, .. } if started(remedy))
    }

    /// The server is down or restarting: another attempt can succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            TryError::Session(error) => error.ends_session() || matches!(error, SessionError::Connect { .. }),
            TryError::TrialRuns { .. } => true,
            _ => false,
        }
    }
}

fn after(how: Closing) -> &'static str {
    match how {
        Closing::Undone => "the server is as it was before",
        Closing::Kept => "the change was kept",
        Closing::Foreign => "another session has made the same change, which was left alone",
    }
}
