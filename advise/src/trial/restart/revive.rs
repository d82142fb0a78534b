//! Servers that a killed trial left down. The invariants are those of the module.

use super::super::control::Control;
use super::super::file_lock::FileLock;
use super::super::ledger::{Entry, Ledger};
use super::super::outcome::{Closing, Undone};
use super::super::{Begin, Switch, TryError};
use super::switch::RestartSwitch;
use hardmeter_session::{Stop, Target};
use std::time::Duration;

/// What became of open entries whose servers may be down.
#[derive(Debug, Default)]
pub struct Revived {
    /// Those that were closed: the server's data folder is gone.
    pub closed: Vec<(Entry, Undone)>,
    /// Those that stay open: the server could not be started.
    pub failed: Vec<(Entry, TryError)>,
}

/// Starts servers that killed trials left down, with the settings of before; their entries stay open. Does nothing
/// while a trial with restarts runs.
///
/// # Errors
/// Those of the ledger. That one server cannot be started does not keep another one down.
pub fn revive(ledger: &Ledger) -> Result<Revived, TryError> {
    match lock_of_open(ledger, None, Duration::ZERO)? {
        Some(_lock) => revive_open(ledger, None),
        None => Ok(Revived::default()),
    }
}

/// The lock of processes that restart a server; the caller keeps it until the entries are closed. `None`: a trial with
/// restarts runs.
pub(in super::super) fn restart_lock(
    ledger: &Ledger,
    patience: Duration,
) -> Result<Option<FileLock>, TryError> {
    FileLock::take(ledger.beside("restart.lock"), patience)
}

/// The same if a trial with restarts has an open entry, any or the one with this token.
pub(in super::super) fn lock_of_open(
    ledger: &Ledger,
    token: Option<&str>,
    patience: Duration,
) -> Result<Option<FileLock>, TryError> {
    match ledger.entries()?.iter().any(|entry| is_open(entry, token)) {
        true => restart_lock(ledger, patience),
        false => Ok(None),
    }
}

/// A session with the server, and the entries that were closed. If the server accepts no connection, it is started as
/// killed trials found it, provided that this process has the lock of restarts.
pub(in super::super) fn reach(
    target: &Target,
    (ledger, token): (&Ledger, Option<&str>),
    lock: Option<&FileLock>,
) -> Result<(Control, Vec<(Entry, Undone)>), TryError> {
    let connect = || Control::open(target, &Stop::new());
    match connect() {
        Err(TryError::Session(_)) if lock.is_some() => {}
        control => return Ok((control?, Vec::new())),
    }
    let Revived { closed, failed } = revive_open(ledger, token)?;
    let is_its =
        |entry: &Entry| target.with_database(&entry.begin.database).description() == entry.begin.target;
    match connect() {
        Ok(control) => Ok((control, closed)),
        // Why it was not started is the cause.
        Err(error) => {
            Err(failed.into_iter().find(|(entry, _)| is_its(entry)).map_or(error, |(_, cause)| cause))
        }
    }
}

fn is_open(entry: &Entry, token: Option<&str>) -> bool {
    entry.closed.is_none()
        && entry.begin.restart().is_some()
        && token.is_none_or(|token| entry.begin.token == token)
}

/// The caller has the lock: the ledger is read again, since its former holder may have closed an entry.
fn revive_open(ledger: &Ledger, token: Option<&str>) -> Result<Revived, TryError> {
    let mut revived = Revived::default();
    for entry in ledger.entries()?.into_iter().filter(|entry| is_open(entry, token)) {
        let Some(restart) = entry.begin.restart() else { continue };
        if restart.is_gone() {
            let why = format!("the data folder {} is gone: there is nothing to undo", restart.data.display());
            ledger.close(entry.begin.entry, Closing::Foreign, &why)?;
            revived.closed.push((entry, Undone::Foreign(why)));
        } else if let Err(error) = restart.revive() {
            revived.failed.push((entry, error));
        }
    }
    Ok(revived)
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

#[cfg(test)]
mod tests {
    use super::super::super::ledger::tests::begin;
    use super::super::super::undo_all;
    use super::*;
    use std::fs;

    #[test]
    fn a_server_that_cannot_be_started_keeps_no_other_one_down() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let left_down = |name: &str, command: &str| {
            let (data, log) = (folder.path().join(name), folder.path().join("restart.log"));
            let command = format!("cd {} && {command}", folder.path().display());
            let switch = RestartSwitch { settings: Vec::new(), data, command, log };
            let switches = vec![Switch::Restart(switch)];
            ledger.begin(Begin { switches, ..begin(name) }).unwrap()
        };
        fs::create_dir(folder.path().join("broken")).unwrap();
        fs::create_dir(folder.path().join("sound")).unwrap();
        let broken = left_down("broken", "echo no disk >&2; exit 1");
        let deleted = left_down("deleted", "touch deleted.started");
        let sound = left_down("sound", "touch sound.started");
        let Revived { closed, failed } = revive(&ledger).unwrap();
        let numbers = (closed[0].0.begin.entry, failed[0].0.begin.entry);
        assert_eq!((numbers, closed.len(), failed.len()), ((deleted, broken), 1, 1));
        assert!(failed[0].1.to_string().ends_with("no disk"), "{}", failed[0].1);
        assert!(folder.path().join("sound.started").exists());
        assert!(!folder.path().join("deleted.started").exists());
        let states: Vec<_> = ledger.entries().unwrap().iter().map(|entry| entry.closed).collect();
        assert_eq!(states, [None, Some(Closing::Foreign), None], "{sound} is undone by its server");
    }

    #[test]
    fn the_error_of_a_start_is_reported_for_its_own_server_only() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let (data, log) = (folder.path().to_owned(), folder.path().join("restart.log"));
        let command = "echo no disk >&2; exit 1".into();
        let switches = vec![Switch::Restart(RestartSwitch { settings: Vec::new(), data, command, log })];
        let target = "shop at /nowhere/run".into();
        ledger.begin(Begin { switches, target, ..begin("shared_buffers") }).unwrap();
        let said = |socket: &str, database: &str| {
            let target = Target::socket(std::path::Path::new(socket), 1, "user", database);
            undo_all(&target, &ledger).unwrap_err().to_string()
        };
        assert!(said("/nowhere/run", "postgres").contains("no disk"));
        assert!(said("/nowhere/else", "shop").starts_with("cannot connect to shop at /nowhere/else"));
    }

    #[test]
    fn nothing_is_started_while_a_trial_with_restarts_runs() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let (data, log) = (folder.path().to_owned(), folder.path().join("restart.log"));
        let command = format!("touch {}", folder.path().join("started").display());
        let switch = RestartSwitch { settings: Vec::new(), data, command, log };
        ledger.begin(Begin { switches: vec![Switch::Restart(switch)], ..begin("shared_buffers") }).unwrap();
        let lock = restart_lock(&ledger, Duration::ZERO).unwrap();
        revive(&ledger).unwrap();
        assert!(lock.is_some() && !folder.path().join("started").exists());
        drop(lock);
        revive(&ledger).unwrap();
        assert!(folder.path().join("started").exists());
    }
}
