//! Servers that a killed trial left down. The invariants are those of the module.

use super::super::file_lock::FileLock;
use super::super::ledger::{Entry, Ledger};
use super::super::{Begin, Switch, TryError};
use super::switch::RestartSwitch;
use std::time::Duration;

/// The lock of processes that restart a server.
pub(super) const LOCK: &str = "restart.lock";

/// Starts servers that a killed trial left down, with the settings of before; their entries stay open. Does nothing
/// while a trial with restarts runs.
///
/// # Errors
/// If a server cannot be started.
pub fn revive(ledger: &Ledger) -> Result<(), TryError> {
    revive_abandoned(ledger, None, Duration::ZERO).map(drop)
}

/// The same for all trials, or for one; returns the lock, which the caller keeps until the entries are closed.
/// `None`: a trial with restarts runs, or there is nothing to revive.
pub(in super::super) fn revive_abandoned(
    ledger: &Ledger,
    token: Option<&str>,
    patience: Duration,
) -> Result<Option<FileLock>, TryError> {
    let is_open = |entry: &Entry| {
        entry.closed.is_none()
            && entry.begin.restart().is_some()
            && token.is_none_or(|token| entry.begin.token == token)
    };
    if !ledger.entries()?.iter().any(is_open) {
        return Ok(None);
    }
    let Some(lock) = FileLock::take(ledger.beside(LOCK), patience)? else { return Ok(None) };
    // Reads the ledger again: the holder of the lock may have closed the entry.
    for entry in ledger.entries()?.iter().filter(|entry| is_open(entry)) {
        if let Some(restart) = entry.begin.restart() {
            restart.revive()?;
        }
    }
    Ok(Some(lock))
}

impl Begin {
    /// The settings for which the trial restarts the server, if any.
    pub fn restart(&self) -> Option<&RestartSwitch> {
        self.switches.iter().find_map(|switch| match switch {
            Switch::Restart(restart) => Some(restart),
            _ => None,
        })
    }
}
