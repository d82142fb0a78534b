//! Reasons why no advice could be given: the cause, and the remedy.

use hardmeter_session::SessionError;

/// The reason why a server could not be examined. [`AdviseError::remedy`] has the remedy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the messages describe each
pub enum AdviseError {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the server is PostgreSQL {version}; this needs version 15 or newer")]
    OldServer { version: String },
    #[error("the role {role} may not see the statistics of other sessions")]
    NoRights { role: String },
    #[error("{what}: {reason}")]
    Maria { what: String, reason: String, remedy: String },
    #[error("the server's answer to \"{what}\" cannot be read: {reason}")]
    Answer { what: String, reason: String },
}

impl AdviseError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            AdviseError::Session(error) => error.remedy(),
            AdviseError::OldServer { .. } => {
                "upgrade the server; older versions lack the views that are read".into()
            }
            AdviseError::NoRights { role } => {
                format!("let a superuser run: GRANT pg_monitor TO \"{}\"", role.replace('"', "\"\""))
            }
            AdviseError::Maria { remedy, .. } => remedy.clone(),
            AdviseError::Answer { .. } => {
                "report this with the server's version: it is a fault of hardmeter".into()
            }
        }
    }
}
