//! The folder of a copy: its lock, its mark, its removal. The invariants are those of the module.

use super::super::file_lock::FileLock;
use super::super::ledger::{Entry, Ledger};
use super::super::outcome::{Closing, Undone};
use super::super::{Switch, TryError};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A setting of the copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySetting {
    /// Its name.
    pub name: String,
    /// The value that is tried.
    pub value: String,
    /// The server's value.
    pub was: String,
}

/// A copy of the server, and the changed settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopySwitch {
    /// Its folder.
    pub folder: PathBuf,
    /// The contents of its mark.
    pub token: String,
    /// The changed settings.
    pub settings: Vec<CopySetting>,
}

/// The file that marks a folder as the copy of a trial.
const MARK: &str = "hardmeter-copy";
/// The entries of a copy's folder besides its mark, in the order of their removal.
const PARTS: [&str; 6] = ["data", "tablespaces", "socket", "copy.conf", "hba.conf", "log"];

impl CopySwitch {
    /// The change, as a sentence.
    pub(in super::super) fn apply(&self) -> Vec<String> {
        let set = |one: &CopySetting| format!("on a copy: {} = '{}';", one.name, one.value);
        let mut done: Vec<String> = self.settings.iter().map(set).collect();
        done.push(format!("the copy: a base backup of the server, in {}", self.folder.display()));
        done
    }

    /// The command that undoes it, as a sentence.
    pub(in super::super) fn undo(&self) -> Vec<String> {
        vec![format!("removing the copy: {}", self.folder.display())]
    }

    /// Makes the folder with its mark.
    pub(super) fn create(&self) -> Result<(), TryError> {
        let failed = |error: io::Error| unusable(&self.folder, &error);
        fs::create_dir(&self.folder).map_err(failed)?;
        fs::write(self.folder.join(MARK), &self.token).map_err(failed)
    }
}

/// The error of a folder that cannot be used.
pub(super) fn unusable(folder: &Path, error: &io::Error) -> TryError {
    TryError::Copy {
        what: format!("{} cannot be used for a copy: {error}", folder.display()),
        remedy: "name a folder with room that this user may write: --copy DIR".into(),
    }
}

/// The lock of processes that create or remove copies.
pub(super) const LOCK: &str = "copy.lock";

/// Removes the copies of killed tuners, and closes their entries; with a token only that trial's. Does
/// nothing while a trial on a copy runs.
pub(in super::super) fn close_abandoned(
    ledger: &Ledger,
    token: Option<&str>,
    patience: Duration,
    note: &str,
) -> Result<Vec<(Entry, Undone)>, TryError> {
    let is_ours = |entry: &Entry| {
        entry.closed.is_none()
            && entry.begin.copy().is_some()
            && token.is_none_or(|token| entry.begin.token == token)
    };
    if !ledger.entries()?.iter().any(is_ours) {
        return Ok(Vec::new());
    }
    let Some(_lock) = FileLock::take(ledger.beside(LOCK), patience)? else { return Ok(Vec::new()) };
    let mut closed = Vec::new();
    // Reads the ledger again: the previous holder of the lock may have closed the entry.
    for entry in ledger.entries()?.into_iter().filter(is_ours) {
        let Some(copy) = entry.begin.copy() else { continue };
        let undone = remove(copy)?;
        let (how, why) = match &undone {
            Undone::Foreign(why) => (Closing::Foreign, why.as_str()),
            _ => (Closing::Undone, note),
        };
        ledger.close(entry.begin.entry, how, why)?;
        closed.push((entry, undone));
    }
    Ok(closed)
}

impl super::super::Begin {
    /// The copy of the server that the trial made, if any.
    pub fn copy(&self) -> Option<&CopySwitch> {
        self.switches.iter().find_map(|switch| match switch {
            Switch::Copy(copy) => Some(copy),
            _ => None,
        })
    }
}

/// Ends the processes in a copy's folder, and removes the folder. May be repeated.
pub(in super::super) fn remove(copy: &CopySwitch) -> Result<Undone, TryError> {
    let folder = &copy.folder;
    if !folder.exists() {
        return Ok(Undone::AsBefore);
    }
    if fs::read_to_string(folder.join(MARK)).is_ok_and(|mark| mark == copy.token) {
        end_processes(folder);
        let failed = |error: io::Error| TryError::Copy {
            what: format!("the copy in {} cannot be removed: {error}", folder.display()),
            remedy: "run hardmeter tune undo as the user who made it".into(),
        };
        for part in PARTS {
            let path = folder.join(part);
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        fs::remove_file(folder.join(MARK)).map_err(failed)?;
    }
    // Without a mark it is the trial's only if it is empty.
    match fs::remove_dir(folder) {
        Ok(()) => Ok(Undone::Restored),
        Err(_) => Ok(Undone::Foreign(format!(
            "{} has files that this trial did not make, and was left as it is",
            folder.display()
        ))),
    }
}

/// Ends the processes that work in this folder: servers, and base backups.
fn end_processes(folder: &Path) {
    let end = Instant::now() + Duration::from_secs(15);
    let postmaster = || -> Option<i32> {
        fs::read_to_string(folder.join("data/postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
    };
    let mut asked = false;
    loop {
        let there = processes_in(folder);
        if there.is_empty() {
            return;
        }
        let late = Instant::now() >= end;
        let first = postmaster().filter(|pid| there.contains(pid));
        for pid in &there {
            // A server ends its own processes, and so frees its shared memory.
            let number = match first {
                _ if late => libc::SIGKILL,
                Some(first) if first == *pid => libc::SIGQUIT,
                Some(_) => continue,
                None => libc::SIGTERM,
            };
            if late || !asked {
                // SAFETY: a signal to a process that works in the folder of a copy.
                unsafe { libc::kill(*pid, number) };
            }
        }
        asked = true;
        std::thread::sleep(Duration::from_millis(20));
        if Instant::now() >= end + Duration::from_secs(5) {
            return;
        }
    }
}

/// The processes whose working folder is in this one.
fn processes_in(folder: &Path) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
            && !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(folder: PathBuf) -> CopySwitch {
        CopySwitch { folder, token: "12-34".into(), settings: Vec::new() }
    }

    #[test]
    fn only_a_marked_folder_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mine = copy(parent.path().join("mine"));
        assert_eq!(remove(&mine).unwrap(), Undone::AsBefore);
        mine.create().unwrap();
        fs::create_dir_all(mine.folder.join("data/base")).unwrap();
        fs::write(mine.folder.join("data/base/1"), "x").unwrap();
        assert!(mine.create().is_err(), "it exists");
        assert_eq!(remove(&mine).unwrap(), Undone::Restored);
        assert!(!mine.folder.exists());

        let other = copy(parent.path().join("other"));
        fs::create_dir_all(other.folder.join("data")).unwrap();
        assert!(matches!(remove(&other).unwrap(), Undone::Foreign(_)));
        fs::write(other.folder.join(MARK), "99-99").unwrap();
        assert!(matches!(remove(&other).unwrap(), Undone::Foreign(_)));
        assert!(other.folder.join("data").exists());

        // The tuner was killed after creating the folder and before writing its mark.
        let early = copy(parent.path().join("early"));
        fs::create_dir(&early.folder).unwrap();
        assert_eq!(remove(&early).unwrap(), Undone::Restored);
    }

    #[test]
    fn what_works_in_the_folder_is_ended() {
        let parent = tempfile::tempdir().unwrap();
        let mine = copy(parent.path().join("mine"));
        mine.create().unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("60").current_dir(&mine.folder).spawn().unwrap();
        assert_eq!(remove(&mine).unwrap(), Undone::Restored);
        assert!(!child.wait().unwrap().success());
    }
}
