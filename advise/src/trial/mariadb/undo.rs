//! Undoes the open entries of the ledger on a MariaDB server.

use super::super::ledger::{Entry, Ledger};
use super::super::outcome::{Closing, Undone};
use super::super::undo::closing;
use super::super::watchdog::watch_by;
use super::super::{Switch, TryError};
use super::control::MariaControl;
use crate::mariadb::MariaTarget;
use std::io::{Read, Write};
use std::time::Duration;

/// Undoes all entries of this server that are open, the latest first; returns each with a description of its
/// undoing.
///
/// # Errors
/// If the server cannot be reached, a trial is under way on it, or a statement fails. Entries that were not
/// undone stay open.
pub fn undo_all_of_mariadb(target: &MariaTarget, ledger: &Ledger) -> Result<Vec<(Entry, Undone)>, TryError> {
    let mut control = MariaControl::locked(target)?;
    let server = control.server()?;
    let mut open = ledger.entries()?;
    open.retain(|entry| entry.closed.is_none() && entry.begin.server == server);
    open.reverse();
    let mut done = Vec::new();
    for entry in open {
        let undone = close(&mut control, ledger, &entry, "undone by hardmeter tune undo")?;
        done.push((entry, undone));
    }
    Ok(done)
}

/// Undoes one entry of this server: one that is open, or one that was kept.
///
/// # Errors
/// As [`undo_all_of_mariadb`], and if there is no such entry.
pub fn undo_entry_of_mariadb(
    target: &MariaTarget,
    ledger: &Ledger,
    number: u64,
) -> Result<(Entry, Undone), TryError> {
    let mut control = MariaControl::locked(target)?;
    let server = control.server()?;
    let entry = ledger
        .entry(number)?
        .filter(|entry| entry.begin.server == server && matches!(entry.closed, None | Some(Closing::Kept)));
    let entry = entry.ok_or(TryError::NoEntry { entry: number })?;
    let undone = close(&mut control, ledger, &entry, "undone by hardmeter tune undo")?;
    Ok((entry, undone))
}

/// The watchdog's side, as [`super::super::watch`] for PostgreSQL.
///
/// # Errors
/// If the entry could not be undone within `patience`; it stays open.
pub fn watch_mariadb(
    target: &MariaTarget,
    ledger: &Ledger,
    token: &str,
    pipes: (&mut dyn Read, &mut dyn Write),
    patience: Duration,
) -> Result<(), TryError> {
    let undo = || -> Result<(), TryError> {
        // A trial without an entry has changed nothing.
        let open = || Ok::<_, TryError>(ledger.entry_of(token)?.filter(|entry| entry.closed.is_none()));
        let Some(entry) = open()? else { return Ok(()) };
        // A build that continues without its client holds the lock.
        MariaControl::open(target)?.end_holder(&entry.begin.backends)?;
        let mut control = MariaControl::locked(target)?;
        // A new trial or a user may have closed the entry while this session waited for the lock.
        let Some(entry) = open()? else { return Ok(()) };
        if control.server()? != entry.begin.server {
            return Err(TryError::NoEntry { entry: entry.begin.entry });
        }
        close(&mut control, ledger, &entry, "undone by the watchdog: the tuner was killed").map(drop)
    };
    watch_by(&undo, pipes, patience)
}

fn close(control: &mut MariaControl, ledger: &Ledger, entry: &Entry, note: &str) -> Result<Undone, TryError> {
    let undone = restore(control, &entry.begin.switches)?;
    let (how, why) = closing(&undone);
    ledger.close(entry.begin.entry, how, if why.is_empty() { note } else { why })?;
    Ok(undone)
}

/// Restores all changes, the last first.
pub(super) fn restore(control: &mut MariaControl, switches: &[Switch]) -> Result<Undone, TryError> {
    let mut worst = Undone::AsBefore;
    for switch in switches.iter().rev() {
        let undone = match switch {
            Switch::Global(global) => global.restore(control)?,
            Switch::OnlineIndex(index) => index.restore(control)?,
            _ => continue,
        };
        match (undone, &worst) {
            (Undone::AsBefore, _) | (_, Undone::Foreign(_)) => {}
            (undone, _) => worst = undone,
        }
    }
    Ok(worst)
}
