//! Errors of throwaway servers: cause and remedy.

use hardmeter_samples::model::Pid;
use std::io;
use std::path::PathBuf;

/// Errors of throwaway servers. [`ServerError::remedy`] is the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants and their fields
pub enum ServerError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("no {engine} was found; looked in {searched}")]
    ProgramsMissing { engine: &'static str, searched: String, package: String },
    #[error("no {engine} {wanted} was found; there is {found}")]
    VersionMissing { engine: &'static str, wanted: String, found: String, remedy: String },
    #[error("{} holds no server of Hardmeter (it has no state.json)", folder.display())]
    NoServer { folder: PathBuf },
    #[error("{} is not empty and was not made by Hardmeter", folder.display())]
    Foreign { folder: PathBuf },
    #[error("{} holds a {found} server, not {wanted}", folder.display())]
    OtherEngine { folder: PathBuf, found: &'static str, wanted: &'static str },
    #[error("the server in {} is damaged: {reason}", folder.display())]
    Damaged { folder: PathBuf, reason: String },
    #[error("the data in {} were made by {engine} {made_by}, and the programs in {} are {found}",
            folder.display(), programs.display())]
    DataVersion { folder: PathBuf, engine: &'static str, made_by: String, programs: PathBuf, found: String },
    #[error("the account {account}, as which the server runs, cannot enter {}", path.display())]
    Unreachable { account: String, path: PathBuf },
    #[error("the server in {} belongs to {owner}", folder.display())]
    NotYours { folder: PathBuf, owner: String },
    #[error("the server in {} is already running, process {pid}", folder.display())]
    AlreadyRunning { folder: PathBuf, pid: Pid },
    #[error("the server in {} is not running", folder.display())]
    NotRunning { folder: PathBuf },
    #[error("the server in {} (process {pid}) died{}", folder.display(), quoted(log))]
    Died { folder: PathBuf, pid: Pid, log: String },
    #[error("another hardmeter command is at work on the server in {}", folder.display())]
    Busy { folder: PathBuf },
    #[error("{what} failed ({status}){}", quoted(log))]
    Failed { what: String, status: String, log: String, remedy: String },
    #[error("{what} took longer than {seconds} s{}", quoted(log))]
    TimedOut { what: String, seconds: u64, log: String },
    #[error("{what} was interrupted")]
    Interrupted { what: String },
    #[error("the setting '{setting}' is not valid: {reason}")]
    BadSetting { setting: String, reason: &'static str },
    #[error("the setting {name} cannot be changed: a throwaway server listens on its own socket only")]
    ReservedSetting { name: String },
    #[error("{what}")]
    Unsupported { what: String, remedy: String },
}

impl ServerError {
    /// The remedy; one line or a few.
    pub fn remedy(&self) -> String {
        match self {
            ServerError::Io { source, path, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "choose a folder of your own with --dir, or run as the user who owns this one".into()
                }
                io::ErrorKind::StorageFull => {
                    format!("free some space on the disk of {}, or use another with --dir", path.display())
                }
                io::ErrorKind::ReadOnlyFilesystem => "choose a folder on a writable disk with --dir".into(),
                _ => "fix what the system reports, or choose another folder with --dir".into(),
            },
            ServerError::ProgramsMissing { package, .. } => format!("apt-get install {package}"),
            ServerError::VersionMissing { remedy, .. } => remedy.clone(),
            ServerError::NoServer { folder } => {
                format!("make one: hardmeter server start postgres --dir {}", folder.display())
            }
            ServerError::Foreign { .. } => "name a new or empty folder with --dir".into(),
            ServerError::OtherEngine { .. } => "name another folder with --dir".into(),
            ServerError::Damaged { folder, .. } => format!(
                "throw it away: hardmeter server remove --dir {}; then start a new one",
                folder.display()
            ),
            ServerError::DataVersion { made_by, folder, .. } => format!(
                "use the programs that made it (--version {made_by}), or throw the server away: hardmeter server \
                 remove --dir {}",
                folder.display()
            ),
            ServerError::Unreachable { account, path } => format!(
                "chmod o+x {}; or choose a folder that {account} can enter with --dir, for example below /var/tmp",
                path.display()
            ),
            ServerError::NotYours { owner, .. } => {
                format!("run as {owner}, or make a server of your own with --dir")
            }
            ServerError::AlreadyRunning { folder, .. } => {
                format!("use it as it is, or stop it first: hardmeter server stop --dir {}", folder.display())
            }
            ServerError::NotRunning { folder } => {
                format!("start it: hardmeter server start --dir {}", folder.display())
            }
            ServerError::Died { folder, log, .. } => crate::diagnose::diagnose(log).unwrap_or_else(|| {
                format!("start it again: hardmeter server start --dir {} (it recovers)", folder.display())
            }),
            ServerError::Interrupted { .. } => "start it again".into(),
            ServerError::Busy { .. } => "wait until it has ended, then try again".into(),
            ServerError::Failed { remedy, .. } | ServerError::Unsupported { remedy, .. } => remedy.clone(),
            ServerError::TimedOut { .. } => {
                "the machine may be busy, or the simulation slow: try again with a longer --timeout".into()
            }
            ServerError::BadSetting { .. } => {
                "write it as name=value, for example --set shared_buffers=64MB".into()
            }
            ServerError::ReservedSetting { .. } => {
                "leave it out; `hardmeter server status` shows where the server listens".into()
            }
        }
    }
}

/// A log's last lines as a quotation after a sentence; empty without lines.
fn quoted(log: &str) -> String {
    if log.trim().is_empty() {
        return String::new();
    }
    log.lines().fold(String::from("; it said last:"), |text, line| text + "\n    | " + line)
}

/// Gives an I/O error the action and the path that it lacks.
pub(crate) fn io_error(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> ServerError {
    let path = path.into();
    move |source| ServerError::Io { action, path, source }
}
