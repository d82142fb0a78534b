//! The files of a series of captures: their names, and the right to write them.
//!
//! ```text
//!   OUTPUT-20261126T185000.data        a capture; "-2" behind the time for the second one of a second
//!   OUTPUT-20261126T185000.data.json   its side file, which says that it is part of a series
//!   OUTPUT-20261126T185000.data.PID-N.partial   one that is being written, or whose recorder was killed
//!   OUTPUT.data.lock                   locked by the recorder that writes the series, and removed at its end
//! ```
//!
//! Invariants:
//! 1. A file is the series' only if its name has this form, and its side file says that it is part of one.
//! 2. One process at a time writes captures of an output.

use super::recorder::LoopError;
use super::request::SessionError;
use super::series::Series;
use crate::target;
use hardmeter_samples::model::Pid;
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::perf_data::WriteError;
use hardmeter_samples::sidecar::Sidecar;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of a time in a name: 20261126T185000.
const TIME_LENGTH: usize = 15;

impl Series {
    /// The name of a capture that begins at this time (UTC), and that neither exists nor is being completed (`taken`).
    pub(super) fn next_name(&self, begins: SystemTime, taken: impl Fn(&Path) -> bool) -> PathBuf {
        let (stem, extension) = self.stem_and_extension();
        let time = utc(begins);
        let named = |number: u32| {
            let mut name = stem.to_vec();
            name.extend(time.as_bytes());
            if number > 1 {
                name.extend(format!("-{number}").as_bytes());
            }
            name.extend(&extension);
            self.output.with_file_name(OsString::from_vec(name))
        };
        // Two captures of one second: the recorder was started again at once.
        (1..).map(named).find(|path| !path.exists() && !taken(path)).expect("a number that is free")
    }

    /// What is before and behind the time in a name.
    fn stem_and_extension(&self) -> (Vec<u8>, Vec<u8>) {
        let mut stem = self.output.file_stem().unwrap_or_default().as_bytes().to_vec();
        stem.push(b'-');
        let extension = self.output.extension().map_or(Vec::new(), |extension| {
            let mut dotted = vec![b'.'];
            dotted.extend(extension.as_bytes());
            dotted
        });
        (stem, extension)
    }

    /// Captures in the output's folder that are this series', oldest first, by their side files.
    pub(super) fn own_captures(&self) -> Vec<PathBuf> {
        self.sorted(|name| {
            let capture = name.strip_suffix(b".json")?;
            let began = self.began(capture)?;
            let path = self.output.with_file_name(OsStr::from_bytes(capture));
            let sidecar = Sidecar::load(&path).ok()??;
            sidecar.interval.is_some().then_some((began, path))
        })
    }

    /// With a limit of captures: removes the oldest files that killed recorders have left, and keeps as many as
    /// captures. They can be read, and may show what killed the recorder.
    pub(super) fn remove_remnants(&self) {
        let Some(keep) = self.keep else { return };
        let remnants = self.sorted(|name| {
            let (capture, pid) = of_partial(name)?;
            let began = self.began(capture)?;
            (!target::runs(pid)).then(|| (began, self.output.with_file_name(OsStr::from_bytes(name))))
        });
        let old = remnants.len().saturating_sub(keep);
        for remnant in &remnants[..old] {
            let _ = std::fs::remove_file(remnant); // the next recorder tries it again
        }
    }

    /// Files in the output's folder, oldest first, by their names.
    fn sorted(&self, of_name: impl Fn(&[u8]) -> Option<(Began, PathBuf)>) -> Vec<PathBuf> {
        let folder = match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut found: Vec<(Began, PathBuf)> =
            entries.filter_map(|entry| of_name(entry.file_name().as_bytes())).collect();
        found.sort_unstable();
        found.into_iter().map(|(_, path)| path).collect()
    }

    /// When a capture of this name began; `None` if the name has not the form of a capture's.
    fn began(&self, name: &[u8]) -> Option<Began> {
        let (stem, extension) = self.stem_and_extension();
        let middle = name.strip_prefix(&stem[..])?.strip_suffix(&extension[..])?;
        let (time, number) = middle.split_first_chunk::<TIME_LENGTH>()?;
        if !(digits(&time[..8]) && time[8] == b'T' && digits(&time[9..])) {
            return None;
        }
        let number = match number {
            [] => 1,
            _ => as_number(number.strip_prefix(b"-")?)?,
        };
        Some((*time, number))
    }

    /// Claims the names of this output for this process; `None` where files cannot be locked.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if another process has claimed them, or the folder may not be written to.
    pub(super) fn claim(&self) -> Result<Option<Claim>, SessionError> {
        let mut name = self.output.file_name().unwrap_or_default().to_os_string();
        name.push(".lock");
        let path = self.output.with_file_name(name);
        loop {
            // Only read: another user may have left it.
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_CREAT | libc::O_NOFOLLOW);
            let file = options
                .open(&path)
                .map_err(|source| LoopError::Write(WriteError::Io { path: self.output.clone(), source }))?;
            // SAFETY: no memory; the descriptor is open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                return match std::io::Error::last_os_error().kind() {
                    ErrorKind::WouldBlock => Err(self.claimed_by_another()),
                    _ => {
                        let _ = std::fs::remove_file(&path); // it serves nothing
                        Ok(None)
                    }
                };
            }
            let claim = Claim { path: path.clone(), file };
            // The process that had it may have removed it meanwhile.
            if claim.is_at_its_path() {
                return Ok(Some(claim));
            }
        }
    }

    fn claimed_by_another(&self) -> SessionError {
        SessionError::Contradiction {
            cause: format!("another recorder writes captures of {}", self.output.display()),
            remedy: "give this one another name with -o, or end the other one".to_string(),
        }
    }
}

/// Time and number in a capture's name: both grow, as numbers.
type Began = ([u8; TIME_LENGTH], u64);

/// The right to write captures of an output, which ends with the process at the latest.
pub(super) struct Claim {
    path: PathBuf,
    /// Locked until it is closed.
    file: File,
}

impl Claim {
    fn is_at_its_path(&self) -> bool {
        let identity = |found: Metadata| (found.dev(), found.ino());
        let there = std::fs::symlink_metadata(&self.path).map(identity).ok();
        there.is_some() && there == self.file.metadata().map(identity).ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_at_its_path() {
            let _ = std::fs::remove_file(&self.path); // one that stays can be claimed again
        }
    }
}

/// The files beside a capture. The one that marks it as one of a series is the last.
pub(super) fn side_files(capture: &Path) -> [PathBuf; 2] {
    [ObjectNotes::path_for(capture), Sidecar::path_for(capture)]
}

/// Removes a capture with its side files; if one cannot be removed, those behind it stay, so that it is still known as
/// one of the series.
///
/// # Errors
///
/// A sentence that names the file and the reason.
pub(super) fn remove(capture: &Path) -> Result<(), String> {
    for file in std::iter::once(capture.to_path_buf()).chain(side_files(capture)) {
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", file.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The capture that a recorder was writing, and the recorder: `NAME.PID-N.partial`.
fn of_partial(name: &[u8]) -> Option<(&[u8], Pid)> {
    let name = name.strip_suffix(b".partial")?;
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    let recorder = std::str::from_utf8(&name[at + 1..]).ok()?;
    let (pid, number) = recorder.split_once('-')?;
    as_number(number.as_bytes())?;
    let pid = i32::try_from(as_number(pid.as_bytes())?).ok()?;
    Some((&name[..at], Pid(pid)))
}

fn digits(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

fn as_number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok().filter(|_| digits(bytes))?.parse().ok()
}

/// A time as in 20261126T185000, in UTC: the hour that summer time repeats gives other names.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as libc::time_t;
    // SAFETY: a plain structure that the call fills in.
    let parts = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        libc::gmtime_r(&seconds, &mut parts);
        parts
    };
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hardmeter_samples::model::EventSource;
    use std::time::Duration;

    fn series(output: PathBuf, keep: usize) -> Series {
        Series { output, interval: Duration::from_secs(1), keep: Some(keep) }
    }

    /// A capture with its side files, part of a series or not.
    pub(in super::super) fn capture(path: &Path, in_series: bool) {
        std::fs::write(path, "PERFILE2").expect("written");
        std::fs::write(ObjectNotes::path_for(path), "{}").expect("written");
        let mut sidecar = Sidecar::new(EventSource::Live);
        sidecar.interval = in_series.then_some(Duration::from_secs(600));
        sidecar.store(path).expect("written");
    }

    /// Names of the captures in a folder.
    pub(in super::super) fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".data"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn names_hold_the_start_in_utc_and_are_used_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let series = series(folder.path().join("a.data"), 1);
        // date -u -d @1795632600
        let time = UNIX_EPOCH + Duration::from_secs(1_795_632_600);
        let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        let first = series.next_name(time, |_| false);
        assert_eq!(name(first.clone()), "a-20261125T185000.data");
        std::fs::write(&first, "").expect("written");
        assert_eq!(name(series.next_name(time, |_| false)), "a-20261125T185000-2.data");
        let second = folder.path().join("a-20261125T185000-2.data");
        assert_eq!(name(series.next_name(time, |path| path == second)), "a-20261125T185000-3.data");
        for (right, form) in [
            (true, "a-20261125T185000.data"),
            (true, "a-20261125T185000-12.data"),
            (false, "a-20261125T185000-.data"),
            (false, "a-20261125T18500.data"),
            (false, "a-20261125t185000.data"),
            (false, "b-20261125T185000.data"),
            (false, "a-20261125T185000"),
            (false, "a-20261125T185000.data.data"),
            (false, "a.data"),
        ] {
            assert_eq!(series.began(form.as_bytes()).is_some(), right, "{form}");
        }
        let without = Series { output: "captures".into(), ..series };
        assert!(without.began(b"captures-20261125T185000").is_some());
        assert_eq!(name(without.next_name(time, |_| false)), "captures-20261125T185000");
    }

    #[test]
    fn captures_sort_by_time_and_number_and_a_side_file_stays_with_its_capture() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let in_order = ["a-20261125T010000.data", "a-20261125T010000-2.data", "a-20261125T010000-10.data"];
        in_order.iter().rev().for_each(|name| capture(&path(name), true));
        let series = series(path("a.data"), 1);
        assert_eq!(series.own_captures(), in_order.map(path));
        remove(&path(in_order[0])).expect("removed");
        assert_eq!(series.own_captures(), [path(in_order[1]), path(in_order[2])]);
        // A folder cannot be removed as a file is: what marks the capture stays.
        std::fs::remove_file(ObjectNotes::path_for(&path(in_order[1]))).expect("removed");
        std::fs::create_dir(ObjectNotes::path_for(&path(in_order[1]))).expect("made");
        assert!(remove(&path(in_order[1])).expect_err("a folder").contains("cannot remove"));
        assert_eq!(series.own_captures(), [path(in_order[1]), path(in_order[2])]);
    }

    #[test]
    fn an_output_is_claimed_by_one_recorder_at_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let series = series(folder.path().join("a.data"), 1);
        let other = Series { output: folder.path().join("b.data"), ..series.clone() };
        let Some(claim) = series.claim().expect("free") else {
            println!("skipped: files cannot be locked here");
            return;
        };
        match series.claim() {
            Err(error) => assert!(error.remedy().contains("-o"), "{error}"),
            Ok(_) => panic!("claimed twice"),
        }
        drop(other.claim().expect("another output"));
        drop(claim);
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
        // A recorder that was killed leaves its file.
        std::fs::write(folder.path().join("a.data.lock"), "").expect("written");
        assert!(series.claim().expect("free").is_some());
    }

    #[test]
    fn of_what_killed_recorders_left_the_newest_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ended, own) = (1 << 28, std::process::id()); // the first is beyond pid_max
        let write = |name: &str| std::fs::write(folder.path().join(name), "PERFILE2").expect("written");
        let stay = [
            format!("a-20261125T010000.data.{own}-0.partial"),
            format!("a-20261125T030000.data.{ended}-1.partial"),
            format!("a.data.{ended}-0.partial"),
            format!("b-20261125T010000.data.{ended}-0.partial"),
            "a-20261125T010000.data.old.partial".to_string(),
        ];
        stay.iter().for_each(|name| write(name));
        write(&format!("a-20261125T020000.data.{ended}-0.partial"));
        let all = Series { keep: None, ..series(folder.path().join("a.data"), 1) };
        all.remove_remnants();
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 6);
        series(folder.path().join("a.data"), 1).remove_remnants();
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        left.sort();
        let mut stay = stay;
        stay.sort();
        assert_eq!(left, stay);
    }
}
