//! Records a server on the software PMU, which requires starting it there.
//!
//! ```text
//!   stop (if it runs) -> start under the tool, unmeasured and fast -> measure while the command runs -> as it was before
//! ```
//! This module does not decide which servers may be stopped: the caller passes a
//! [`RestartableServer`], and without one a server on the software PMU is refused.

use super::request::SessionError;
use super::signals::Caught;
use crate::softpmu::SoftwarePmu;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prefixes a server's command (program and arguments) with the one that runs it on the software PMU.
pub type Wrapper = Box<dyn Fn(Vec<OsString>) -> Command>;

/// An error of a server, with the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ServerTrouble {
    /// The cause.
    pub cause: String,
    /// The remedy.
    pub remedy: String,
}

/// A server that its owner allows to be restarted for a recording.
pub trait RestartableServer {
    /// The user and group it runs as, who must be able to open the PMU's segment.
    fn owner(&self) -> (u32, u32);
    /// A path at which the server's user can read `folder` and what is in it.
    ///
    /// # Errors
    ///
    /// [`ServerTrouble`] if the folder cannot be copied or opened to that user.
    fn lend(&self, folder: &Path) -> Result<PathBuf, ServerTrouble>;
    /// Stops it if it runs, starts it through `wrapper`, and waits until it accepts connections, or until
    /// `interrupted`.
    ///
    /// # Errors
    ///
    /// [`ServerTrouble`] if the server does not stop or start.
    fn restart_under(&mut self, wrapper: Wrapper, interrupted: fn() -> bool) -> Result<(), ServerTrouble>;
    /// Stops it, and starts it again as it ran before, if it did.
    ///
    /// # Errors
    ///
    /// [`ServerTrouble`] if the server does not stop or start.
    fn restore(&mut self) -> Result<(), ServerTrouble>;
}

impl From<ServerTrouble> for SessionError {
    fn from(trouble: ServerTrouble) -> SessionError {
        SessionError::Contradiction { cause: trouble.cause, remedy: trouble.remedy }
    }
}

/// Starts `server` on `pmu`; the recorder starts the simulation later. If this fails or the user interrupts it, the
/// server is restored.
pub(super) fn start_on(server: &mut dyn RestartableServer, pmu: &SoftwarePmu) -> Result<(), SessionError> {
    let (user, group) = server.owner();
    pmu.give_to(user, group)?;
    let tool_folder = server.lend(pmu.tool_folder())?;
    let started = server.restart_under(pmu.wrapper(tool_folder), || Caught::signal().is_some());
    let interrupted = Caught::signal();
    if started.is_err() || interrupted.is_some() {
        let restored = server.restore();
        if let Some(signal) = interrupted {
            restored?;
            return Err(SessionError::Interrupted(signal));
        }
    }
    Ok(started?)
}
