//! Undoes the changes of open entries in the ledger.

use super::control::{Control, Lock};
use super::copy::close_abandoned;
use super::file_lock::FileLock;
use super::ledger::{Entry, Ledger};
use super::outcome::{Closing, Undone};
use super::restart::{lock_of_open, reach, restart_lock};
use super::{Switch, TryError};
use hardmeter_session::{Stop, Target};
use std::time::Duration;

/// The longest time for another trial to release its lock: its backend ends when its client does.
const PATIENCE: Duration = Duration::from_secs(5);

/// Undoes all open entries of this server, the latest first; returns them with the result.
///
/// # Errors
/// If the server cannot be reached, a trial is running on it, or a statement fails. Entries that were not
/// undone stay open.
pub fn undo_all(target: &Target, ledger: &Ledger) -> Result<Vec<(Entry, Undone)>, TryError> {
    // Removing a copy needs no server; a copy in use is left to its trial.
    let mut done = close_abandoned(ledger, None, Duration::ZERO, "removed by hardmeter tune undo")?;
    // The lock is kept until the entries are closed; a trial with restarts that runs keeps its entry.
    let restarts = lock_of_open(ledger, None, Duration::ZERO)?;
    let (mut control, gone) = control(target, ledger, restarts.as_ref())?;
    done.extend(gone);
    let server = system_identifier(&mut control)?;
    let mut open = ledger.entries()?;
    open.retain(|entry| {
        entry.closed.is_none()
            && entry.begin.server == server
            && entry.begin.copy().is_none()
            && (entry.begin.restart().is_none() || restarts.is_some())
    });
    open.reverse();
    for entry in open {
        let undone = close(&mut control, target, ledger, &entry, "undone by hardmeter tune undo")?;
        done.push((entry, undone));
    }
    Ok(done)
}

/// Undoes one entry of this server: one that is open, or one that was kept.
///
/// # Errors
/// As [`undo_all`], and if there is no such entry.
pub fn undo_entry(target: &Target, ledger: &Ledger, number: u64) -> Result<(Entry, Undone), TryError> {
    // One that was kept is restored with a restart, too.
    let restarts = match ledger.entry(number)?.is_some_and(|entry| entry.begin.restart().is_some()) {
        true => Some(
            restart_lock(ledger, PATIENCE)?
                .ok_or_else(|| TryError::TrialRuns { pid: "with restarts".into() })?,
        ),
        false => None,
    };
    let (mut control, _) = control(target, ledger, restarts.as_ref())?;
    let server = system_identifier(&mut control)?;
    let entry = ledger
        .entry(number)?
        .filter(|entry| entry.begin.server == server && matches!(entry.closed, None | Some(Closing::Kept)));
    let entry = entry.ok_or(TryError::NoEntry { entry: number })?;
    let undone = close(&mut control, target, ledger, &entry, "undone by hardmeter tune undo")?;
    Ok((entry, undone))
}

/// A session that holds both locks, and the entries that were closed to reach the server, as of [`reach`].
fn control(
    target: &Target,
    ledger: &Ledger,
    restarts: Option<&FileLock>,
) -> Result<(Control, Vec<(Entry, Undone)>), TryError> {
    let (mut control, closed) = reach(target, (ledger, None), restarts)?;
    control.lock_within(Lock::Trial, PATIENCE)?;
    control.lock_within(Lock::Build, PATIENCE)?;
    Ok((control, closed))
}

/// Undoes an entry's changes in reverse, and closes it. The session holds both locks.
pub(super) fn close(
    control: &mut Control,
    target: &Target,
    ledger: &Ledger,
    entry: &Entry,
    note: &str,
) -> Result<Undone, TryError> {
    // Names of tables and settings of a database are valid in that database only.
    let database = &entry.begin.database;
    let undone = if database == target.database() {
        restore(control, &entry.begin.switches)?
    } else {
        let mut there = Control::open(&target.with_database(database), &Stop::new())?;
        restore(&mut there, &entry.begin.switches)?
    };
    let (how, why) = closing(&undone);
    let note = if why.is_empty() { note.to_owned() } else { why.to_owned() };
    ledger.close(entry.begin.entry, how, &note)?;
    // A restart by the other session has ended this one, and freed its locks.
    if database != target.database() && entry.begin.restart().is_some() {
        control.reopen()?;
    }
    Ok(undone)
}

/// Restores all changes, the last first.
pub(super) fn restore(control: &mut Control, switches: &[Switch]) -> Result<Undone, TryError> {
    let mut worst = Undone::AsBefore;
    for switch in switches.iter().rev() {
        match (switch.restore(control)?, &worst) {
            (Undone::AsBefore, _) | (_, Undone::Foreign(_)) => {}
            (undone, _) => worst = undone,
        }
    }
    Ok(worst)
}

/// How an entry is closed, and a note if necessary.
pub(super) fn closing(undone: &Undone) -> (Closing, &str) {
    match undone {
        Undone::Foreign(why) => (Closing::Foreign, why),
        _ => (Closing::Undone, ""),
    }
}

/// The identity of this server.
pub(super) fn system_identifier(control: &mut Control) -> Result<String, TryError> {
    let what = "reading the system identifier";
    let value = control.value(what, "SELECT system_identifier FROM pg_catalog.pg_control_system()")?;
    value.ok_or_else(|| TryError::Answer { what: what.into() })
}
