//! The folder of segments: the applications that exist, appeared and ended.

use super::application::{Application, Refusal};
use crate::model::AppId;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The folder of segments by default, which is libsplit's default.
const DEFAULT_DIRECTORY: &str = "/run/hardmeter-split";
/// The limit of files read in the folder.
const FILES_MAX: usize = 65536;
/// The interval of the check whether an application without ended sections still runs; the check takes its lock
/// briefly.
const ASK_NS: u64 = 3_000_000_000;

/// The folder to use: the given one, the environment's SPLIT_DIRECTORY, or the default, in this order.
pub fn directory(told: Option<&Path>) -> PathBuf {
    match (told, std::env::var_os("SPLIT_DIRECTORY")) {
        (Some(told), _) => told.to_owned(),
        (None, Some(named)) if !named.is_empty() => named.into(),
        _ => DEFAULT_DIRECTORY.into(),
    }
}

/// The change of an application between two scans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It appeared.
    Came(AppId, String),
    /// Its processes ended; its segment is kept for a while.
    Died(AppId, String),
    /// Its segment was removed, by this process or another one.
    Left(AppId, String),
    /// Its segment is not used.
    Refused(PathBuf, Refusal),
}

#[derive(Debug)]
struct Known {
    application: Application,
    /// The number of ended sections at the last scan, and the time of the last check.
    sections: u64,
    asked_ns: u64,
    dead_since: Option<u64>,
}

/// The applications of a folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    grace: Duration,
    known: BTreeMap<AppId, Known>,
    /// Refused files with their state at that time: each is reported once.
    refused: BTreeMap<PathBuf, (u64, i64, Refusal)>,
}

impl Folder {
    /// Opens a folder, and makes it if it does not exist, writable for all users as /tmp is, so that servers of
    /// several users can put files there. `grace`: how long the segment of a dead application stays.
    ///
    /// # Errors
    ///
    /// The system's error if the folder cannot be made or listed.
    pub fn open(path: &Path, grace: Duration) -> std::io::Result<Folder> {
        match std::fs::DirBuilder::new().mode(0o1777).create(path) {
            // The umask removed bits.
            Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o1777))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        std::fs::read_dir(path)?;
        Ok(Folder { path: path.to_owned(), grace, known: BTreeMap::new(), refused: BTreeMap::new() })
    }

    /// Opens an existing folder for reading.
    ///
    /// # Errors
    ///
    /// The system's error if the folder cannot be listed.
    pub fn existing(path: &Path) -> std::io::Result<Folder> {
        std::fs::read_dir(path)?;
        let grace = Duration::MAX;
        Ok(Folder { path: path.to_owned(), grace, known: BTreeMap::new(), refused: BTreeMap::new() })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Running applications.
    pub fn applications(&mut self) -> impl Iterator<Item = &mut Application> {
        self.known.values_mut().filter(|known| known.dead_since.is_none()).map(|known| &mut known.application)
    }

    /// One application.
    pub fn application(&mut self, app: AppId) -> Option<&mut Application> {
        self.known.get_mut(&app).map(|known| &mut known.application)
    }

    /// Finds the applications that appeared or ended.
    pub fn scan(&mut self, now_ns: u64) -> Vec<Change> {
        let mut changes = self.part(now_ns);
        let files = self.files();
        for (app, path) in &files {
            if self.known.contains_key(app) {
                continue;
            }
            let identity =
                std::fs::symlink_metadata(path).map(|file| (file.ino(), file.mtime())).unwrap_or_default();
            match Application::open(path, *app) {
                Ok(application) => {
                    self.refused.remove(path);
                    changes.push(Change::Came(*app, application.title()));
                    let known = Known { application, sections: 0, asked_ns: now_ns, dead_since: None };
                    self.known.insert(*app, known);
                }
                // Removed since the folder was read.
                Err(_) if std::fs::symlink_metadata(path).is_err() => {}
                Err(refusal) => {
                    let now = (identity.0, identity.1, refusal.clone());
                    if self.refused.get(path) != Some(&now) {
                        self.refused.insert(path.clone(), now);
                        changes.push(Change::Refused(path.clone(), refusal));
                    }
                }
            }
        }
        self.refused.retain(|path, _| files.iter().any(|(_, file)| file == path));
        changes
    }

    /// Forgets an application whose segment turned out to be invalid: it is opened again at the next scan, and then
    /// refused with a reason.
    pub fn forget(&mut self, app: AppId) {
        self.known.remove(&app);
    }

    /// The applications that left, died, or were dead long enough to be removed.
    fn part(&mut self, now_ns: u64) -> Vec<Change> {
        let mut changes = Vec::new();
        let grace = u64::try_from(self.grace.as_nanos()).unwrap_or(u64::MAX);
        self.known.retain(|&app, known| {
            let title = known.application.title();
            if !known.application.is_at_its_path() {
                changes.push(Change::Left(app, title));
                return false;
            }
            let sections = known.application.sections();
            if sections != known.sections {
                known.sections = sections;
                known.asked_ns = now_ns;
                known.dead_since = None;
                return true;
            }
            if now_ns.saturating_sub(known.asked_ns) < ASK_NS {
                return true;
            }
            known.asked_ns = now_ns;
            match (known.application.is_dead(), known.dead_since) {
                (false, _) => known.dead_since = None,
                (true, None) => {
                    known.dead_since = Some(now_ns);
                    changes.push(Change::Died(app, title));
                }
                (true, Some(since)) if now_ns.saturating_sub(since) >= grace => {
                    if matches!(known.application.remove_if_dead(), Ok(true)) {
                        changes.push(Change::Left(app, title));
                        return false;
                    }
                }
                (true, Some(_)) => {}
            }
            true
        });
        changes
    }

    fn files(&self) -> Vec<(AppId, PathBuf)> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        entries
            .flatten()
            .take(FILES_MAX)
            .filter_map(|entry| Some((app_of(&entry.file_name())?, entry.path())))
            .collect()
    }
}

/// The application whose segment has this name.
fn app_of(name: &OsStr) -> Option<AppId> {
    let id = name.to_str()?.strip_prefix("app-")?.strip_suffix(".segment")?;
    let number = u32::from_str_radix(id, 16).ok()?;
    // Accepts exactly libsplit's notation: no sign, no leading zeros, no capitals.
    (format!("{number:x}") == id && (1..1 << 24).contains(&number)).then_some(AppId(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_libsplit_gives_are_segments() {
        assert_eq!(app_of(OsStr::new("app-3f2a.segment")), Some(AppId(0x3f2a)));
        for other in [
            "app-.segment",
            "app-03.segment",
            "app-+3.segment",
            "app-3F.segment",
            "app-0.segment",
            "app-1000000.segment",
            "probe.segment",
            "app-3.segment.tmp",
            "app-ffffffffff.segment",
        ] {
            assert_eq!(app_of(OsStr::new(other)), None, "{other}");
        }
    }
}
