//! The ledger: what was changed, why, with what result, and what is still open. One JSON value a line.
//!
//! ```text
//!   begin() ──> open ──> result() ──> open ──> close(Undone | Kept | Foreign) ──> closed
//!                └────────────────────────────────────^     (an interrupted trial has no result)
//! ```
//!
//! Invariants:
//! 1. Lines are only appended, each by one write, and synced before the caller continues: `Begin` is on the
//!    disk before anything is changed, `Closed` is written only after the change was undone or is to be kept.
//! 2. An entry without `Closed` may have changed the server. One whose `Begin` line is torn has not: it was
//!    not synced.
//! 3. Numbers of entries rise; the file is locked while one is given out.

use super::outcome::Closing;
use super::{Measure, Switch, TrialResult, TryError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The beginning of a trial: all data that is needed to undo it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The number of the entry; assigned by [`Ledger::begin`].
    pub entry: u64,
    /// The token that the watchdog identifies it by.
    #[serde(default)]
    pub token: String,
    /// Seconds since 1970.
    pub at: u64,
    /// The server's system identifier.
    pub server: String,
    /// The database and its server, as text.
    pub target: String,
    /// The database.
    pub database: String,
    /// The remedy, or the setting that the user named.
    pub remedy: String,
    /// The rule's finding.
    pub finding: Option<String>,
    /// The figures that the rule relied on.
    pub evidence: Value,
    /// The share that was predicted to be saved of what decides.
    pub predicted: Option<f64>,
    /// What was to decide; none in ledgers of earlier versions.
    #[serde(default)]
    pub measure: Option<Measure>,
    /// The switches, with the values before.
    pub switches: Vec<Switch>,
    /// The backends of the trial, which may be terminated to undo it.
    pub backends: Vec<i32>,
    /// The run of `--auto` to which it belonged.
    #[serde(default)]
    pub run: Option<String>,
    /// The server's first process, if it runs on this machine.
    #[serde(default)]
    pub postmaster: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Begin(Begin),
    Result { entry: u64, result: TrialResult },
    Closed { entry: u64, at: u64, how: Closing, note: String },
}

/// An entry, assembled from its events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The beginning.
    #[serde(flatten)]
    pub begin: Begin,
    /// The measurements; `None` for an interrupted trial.
    pub result: Option<TrialResult>,
    /// How it was closed; `None`: it is open.
    pub closed: Option<Closing>,
    /// Who closed it, and why.
    pub note: String,
}

/// The ledger's file.
#[derive(Clone, Debug)]
pub struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// The ledger of this user: `$XDG_STATE_HOME/hardmeter/tune/ledger.jsonl`, or below `~/.local/state`.
    pub fn of_user() -> Ledger {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = set("XDG_STATE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".local/state")))
            .unwrap_or_else(|| PathBuf::from("/var/tmp"));
        Ledger::at(state.join("hardmeter/tune/ledger.jsonl"))
    }

    /// The ledger in this file.
    pub fn at(path: PathBuf) -> Ledger {
        Ledger { path }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file next to it: for example, for a load's output.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }

    /// Writes the beginning of a trial, and assigns its number.
    ///
    /// # Errors
    /// If the file cannot be read, written or synced.
    pub fn begin(&self, begin: Begin) -> Result<u64, TryError> {
        self.append(|entries| {
            let entry = entries.iter().map(|entry| entry.begin.entry).max().unwrap_or(0) + 1;
            (Event::Begin(Begin { entry, ..begin }), entry)
        })
    }

    /// Writes the measurements of a trial.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn result(&self, entry: u64, result: TrialResult) -> Result<(), TryError> {
        self.append(|_| (Event::Result { entry, result }, ()))
    }

    /// Closes an entry.
    ///
    /// # Errors
    /// As [`Ledger::begin`].
    pub fn close(&self, entry: u64, how: Closing, note: &str) -> Result<(), TryError> {
        self.append(|_| (Event::Closed { entry, at: now(), how, note: note.to_owned() }, ()))
    }

    /// All entries, the oldest first.
    ///
    /// # Errors
    /// If the file exists and cannot be read.
    pub fn entries(&self) -> Result<Vec<Entry>, TryError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(entries_of(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(self.error("read", error)),
        }
    }

    /// The entries of servers with this first process, the oldest first, including entries from before a
    /// restart of the same server.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn entries_of_process(&self, postmaster: i32) -> Result<Vec<Entry>, TryError> {
        let entries = self.entries()?;
        let servers: Vec<String> = entries
            .iter()
            .filter(|entry| entry.begin.postmaster == Some(postmaster))
            .map(|entry| entry.begin.server.clone())
            .collect();
        Ok(entries.into_iter().filter(|entry| servers.contains(&entry.begin.server)).collect())
    }

    /// The number of lines that cannot be read: incomplete after a crash, or of a newer version.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn unreadable(&self) -> Result<usize, TryError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().filter(|line| serde_json::from_str::<Event>(line).is_err()).count()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(self.error("read", error)),
        }
    }

    /// One entry.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn entry(&self, number: u64) -> Result<Option<Entry>, TryError> {
        Ok(self.entries()?.into_iter().find(|entry| entry.begin.entry == number))
    }

    /// The entry of the trial that a watchdog watches.
    ///
    /// # Errors
    /// As [`Ledger::entries`].
    pub fn entry_of(&self, token: &str) -> Result<Option<Entry>, TryError> {
        Ok(self.entries()?.into_iter().find(|entry| entry.begin.token == token))
    }

    fn append<T>(&self, event: impl FnOnce(&[Entry]) -> (Event, T)) -> Result<T, TryError> {
        let write = || -> io::Result<T> {
            let folder = self.path.parent().unwrap_or(Path::new("."));
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let mut file =
                OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
            // SAFETY: flock of a descriptor that is open as long as the file; the lock is released when it is
            // closed.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } != 0 {
                return Err(io::Error::last_os_error());
            }
            let mut text = String::new();
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut text)?;
            let (event, value) = event(&entries_of(&text));
            // An incomplete line, left by a crash, ends here.
            let mut line = if text.is_empty() || text.ends_with('\n') { String::new() } else { "\n".into() };
            line += &serde_json::to_string(&event)?;
            line.push('\n');
            file.write_all(line.as_bytes())?;
            file.sync_all()?;
            if text.is_empty() {
                File::open(folder)?.sync_all()?;
            }
            Ok(value)
        };
        write().map_err(|error| self.error("written", error))
    }

    fn error(&self, what: &'static str, error: io::Error) -> TryError {
        TryError::Ledger { path: self.path.clone(), what, error }
    }
}

fn entries_of(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for event in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match event {
            Event::Begin(begin) => {
                entries.push(Entry { begin, result: None, closed: None, note: String::new() });
            }
            Event::Result { entry, result } => {
                if let Some(found) = entries.iter_mut().find(|one| one.begin.entry == entry) {
                    found.result = Some(result);
                }
            }
            Event::Closed { entry, how, note, .. } => {
                if let Some(found) = entries.iter_mut().find(|one| one.begin.entry == entry) {
                    (found.closed, found.note) = (Some(how), note);
                }
            }
        }
    }
    entries
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    pub(in crate::trial) fn begin(remedy: &str) -> Begin {
        Begin {
            entry: 0,
            token: format!("of {remedy}"),
            at: 1_700_000_000,
            server: "7".into(),
            target: "shop at /run".into(),
            database: "shop".into(),
            remedy: remedy.into(),
            finding: None,
            evidence: Value::Null,
            predicted: Some(0.5),
            measure: Some(Measure::Latency),
            switches: Vec::new(),
            backends: vec![1],
            run: None,
            postmaster: None,
        }
    }

    #[test]
    fn an_entry_is_open_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("a/b/ledger.jsonl"));
        assert_eq!(ledger.entries().unwrap(), []);
        assert_eq!(ledger.begin(begin("jit")).unwrap(), 1);
        assert_eq!(ledger.begin(begin("spill")).unwrap(), 2);
        ledger.close(1, Closing::Kept, "it gained").unwrap();
        let entries = ledger.entries().unwrap();
        assert_eq!((entries[0].closed, entries[0].note.as_str()), (Some(Closing::Kept), "it gained"));
        assert_eq!((entries[1].closed, entries[1].begin.entry), (None, 2));
        assert_eq!(ledger.entry_of("of spill").unwrap().unwrap().begin.entry, 2);
        let mode = fs::metadata(ledger.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_entries_of_a_process_are_those_of_its_server() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        let of = |server: &str, postmaster| Begin { server: server.into(), postmaster, ..begin("jit") };
        ledger.begin(of("7", Some(10))).unwrap();
        ledger.begin(of("8", Some(11))).unwrap();
        ledger.begin(of("7", Some(12))).unwrap();
        let numbers = |process| -> Vec<u64> {
            ledger.entries_of_process(process).unwrap().iter().map(|entry| entry.begin.entry).collect()
        };
        assert_eq!((numbers(12), numbers(11), numbers(9)), (vec![1, 3], vec![2], vec![]));
    }

    #[test]
    fn a_torn_line_is_no_entry_and_hides_none() {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(folder.path().join("ledger.jsonl"));
        ledger.begin(begin("jit")).unwrap();
        let whole = fs::read_to_string(ledger.path()).unwrap();
        fs::write(ledger.path(), format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        assert_eq!(ledger.begin(begin("spill")).unwrap(), 2);
        let remedies: Vec<String> =
            ledger.entries().unwrap().into_iter().map(|entry| entry.begin.remedy).collect();
        assert_eq!(remedies, ["jit", "spill"]);
        assert_eq!(ledger.unreadable().unwrap(), 1);
    }
}
