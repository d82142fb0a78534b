//! Captures that follow one another for days, each with a name that holds its start, and each readable alone.
//!
//! ```text
//!   source, rings, readers ══ go on without a stop ═══════════════════════════════════════════>
//!   captures               ├── OUTPUT-20261126T185000.data ──┤├── OUTPUT-20261126T190000.data ──┤├ ...
//!                                                            └─ file and side files completed; oldest removed (--keep)
//! ```
//! Between two captures nothing is closed and nothing is waited for: a thread completes the files of the old one while
//! samples go into the new one.
//!
//! Invariants:
//! 1. A name is given to a complete file only; a name that exists is not used.
//! 2. Files are removed only if they are this series': their name has its form, and their side file says that they are
//!    part of one; or this process has written them.
//! 3. A capture that cannot be written ends alone. After [`MOST_FAILURES`] in a row the series ends.

use super::choose::{self, Chosen};
use super::observer::{Attach, Awaited, Observation};
use super::opened::{Description, Opened};
use super::population::Population;
use super::recorder::{self, Ending, LoopError, Part, Progress, Stage, Unfinished, When};
use super::request::{check, Report, Request, SessionError};
use super::signals::Signals;
use crate::source::{DrainError, EventCount};
use hardmeter_samples::model::EventSource;
use hardmeter_samples::object_notes::ObjectNotes;
use hardmeter_samples::sidecar::Sidecar;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Captures in a row that may fail before the series ends.
const MOST_FAILURES: u32 = 3;
/// Bytes of a time in a name: 20261126T185000.
const TIME_LENGTH: usize = 15;

/// How the captures of a series are named and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// The output, whose name is that of each capture without its time.
    pub output: PathBuf,
    /// The time between the starts of two captures.
    pub interval: Duration,
    /// The number of finished captures to keep; `None`: all.
    pub keep: Option<usize>,
}

/// What has become of one capture.
#[derive(Debug)]
pub enum CaptureEnd {
    /// It is complete, or shortened by a full disk ([`Recorded::discarded`]).
    Written(Box<Report>),
    /// It could not be written, for this reason.
    GivenUp(String),
}

/// The end of a series.
#[derive(Debug)]
pub struct SeriesReport {
    /// Why it ended.
    pub ending: Ending,
    /// Captures that were written whole.
    pub complete: u64,
    /// Captures that were shortened or given up.
    pub failed: u64,
    /// The command's exit status, if there was a command and it has ended.
    pub status: Option<std::process::ExitStatus>,
    /// Whether the profiled processes had ended while the command still ran.
    pub target_ended_early: bool,
}

/// Records captures one after the other until the command, the target or a signal ends the last one. `finished` receives
/// each capture's path and what has become of it, `announce` the chosen source before anything runs.
///
/// # Errors
///
/// [`SessionError`] if the request contradicts itself, no source can serve it, or several captures in a row cannot
/// be written.
pub fn record_series(
    request: &Request,
    series: &Series,
    attach: Option<Attach>,
    command_line: &[String],
    announce: &mut dyn FnMut(&Chosen),
    progress: &mut dyn FnMut(Progress),
    finished: &mut dyn FnMut(&Path, &CaptureEnd),
) -> Result<SeriesReport, SessionError> {
    let request = Request { interval: Some(series.interval), delay: None, ..request.clone() };
    check(&request)?;
    let chosen = choose::choose(&request)?;
    if chosen.ghosts || chosen.source == EventSource::Simulated {
        return Err(SessionError::Contradiction {
            cause: "captures follow one another with the sources live, timer and hardware only".to_string(),
            remedy: "leave --interval out, or choose one of these with --source".to_string(),
        });
    }
    announce(&chosen);
    let mut opened = Opened::open(&request, chosen, &mut None, attach, command_line)?;
    let signals = Signals::block().map_err(LoopError::from)?;
    let mut population = Population::new(&opened.source.attributes());
    let archive = RefCell::new(Archive {
        series,
        finished,
        written: BTreeSet::new(),
        completion: None,
        complete: 0,
        failed: 0,
        in_a_row: 0,
        cause: String::new(),
    });
    let mut progress = |at| {
        archive.borrow_mut().settle(false);
        progress(at);
    };
    let mut counted: Vec<EventCount> = Vec::new();
    let (mut target_ended_early, mut goes_on, header) = (false, false, opened.header.clone());
    let mut preamble = opened.source.preamble();
    let mut until = Instant::now() + series.interval;
    loop {
        let output = series.next_name(SystemTime::now());
        let when = When { delay: None, goes_on, until: Some(until) };
        let mut stage = Stage {
            source: opened.source.as_mut(),
            workload: opened.workload.as_mut(),
            signals: &signals,
            observation: opened.observation.as_mut(),
            population: population.as_mut(),
            progress: &mut progress,
            begun: goes_on,
        };
        let recorded =
            recorder::record(&mut stage, Part { output: &output, header: &header, preamble, when });
        let (mut ending, mut status) = (Ending::DiskFull, None);
        archive.borrow_mut().settle(true);
        match recorded {
            // Nothing was recorded yet: this is the user's mistake.
            Err(error) if !stage.begun => return Err(error.into()),
            Err(LoopError::Write(error) | LoopError::Drain(DrainError::Write(error))) => {
                archive.borrow_mut().note(&output, &CaptureEnd::GivenUp(error.to_string()));
            }
            Err(error) => return Err(error.into()),
            Ok(mut unfinished) => {
                (ending, status) = (unfinished.recorded.ending, unfinished.recorded.status);
                target_ended_early |= unfinished.recorded.target_ended_early;
                for (count, before) in unfinished.recorded.counts.iter_mut().zip(&counted) {
                    count.reading -= before.reading;
                }
                let description = opened.describe(&request, &unfinished.recorded);
                let awaited = opened.observation.as_mut().map(Observation::next_capture);
                archive.borrow_mut().complete(output, unfinished, description, awaited);
            }
        }
        goes_on = true;
        if archive.borrow().has_failed() && matches!(ending, Ending::DiskFull | Ending::Interval) {
            opened.source.stop();
            if let Some(workload) = &mut opened.workload {
                workload.terminate();
            }
            let archive = archive.into_inner();
            return Err(SessionError::SeriesFailed { failures: archive.in_a_row, cause: archive.cause });
        }
        if ending == Ending::DiskFull {
            let mut stage = Stage {
                source: opened.source.as_mut(),
                workload: opened.workload.as_mut(),
                signals: &signals,
                observation: opened.observation.as_mut(),
                population: population.as_mut(),
                progress: &mut progress,
                begun: true,
            };
            ending = recorder::wait_out(&mut stage, until)?;
        }
        if ending != Ending::Interval {
            let mut archive = archive.into_inner();
            archive.settle(true);
            let (complete, failed) = (archive.complete, archive.failed);
            return Ok(SeriesReport { ending, complete, failed, status, target_ended_early });
        }
        counted = opened.source.counts();
        opened.source.begin_capture();
        preamble = population.as_mut().map(Population::next_capture).unwrap_or_default();
        // After a machine's sleep the missed captures are not made up for.
        until = (until + series.interval).max(Instant::now());
    }
}

/// The finished captures of a series, and the one whose file is being completed.
struct Archive<'a> {
    series: &'a Series,
    finished: &'a mut dyn FnMut(&Path, &CaptureEnd),
    /// Captures of this process.
    written: BTreeSet<PathBuf>,
    /// The disk and the observer are waited for beside the recording: rings hold a second of a busy machine's records.
    completion: Option<(PathBuf, JoinHandle<CaptureEnd>)>,
    complete: u64,
    failed: u64,
    /// Captures that failed one after the other until now, and the reason of the last one.
    in_a_row: u32,
    cause: String,
}

impl Archive<'_> {
    /// Begins to complete a capture.
    fn complete(
        &mut self,
        output: PathBuf,
        unfinished: Unfinished,
        description: Description,
        awaited: Option<Awaited>,
    ) {
        let path = output.clone();
        let complete = move || {
            let stored = unfinished.finish().map_err(SessionError::from).and_then(|recorded| {
                let observations = awaited.map(Awaited::wait).unwrap_or_default();
                description.store(&path, recorded, observations)
            });
            match stored {
                Ok(report) => CaptureEnd::Written(Box::new(report)),
                Err(error) => CaptureEnd::GivenUp(error.to_string()),
            }
        };
        match std::thread::Builder::new().name("completion".into()).spawn(complete) {
            Ok(thread) => self.completion = Some((output, thread)),
            Err(error) => {
                self.note(&output, &CaptureEnd::GivenUp(format!("no thread can be started: {error}")))
            }
        }
    }

    /// Takes what has become of the last capture, if that is known; `wait`: until it is.
    fn settle(&mut self, wait: bool) {
        let settled = self.completion.take_if(|(_, thread)| wait || thread.is_finished());
        let Some((output, thread)) = settled else { return };
        let mut end = thread.join().unwrap_or_else(|_| {
            CaptureEnd::GivenUp("its completion failed (a fault of hardmeter)".to_string())
        });
        self.written.insert(output.clone());
        if let CaptureEnd::Written(report) = &mut end {
            report.remarks.extend(self.remove_oldest());
        }
        self.note(&output, &end);
    }

    /// Counts and reports a capture.
    fn note(&mut self, output: &Path, end: &CaptureEnd) {
        match end {
            CaptureEnd::Written(report) if report.recorded.discarded == 0 => {
                (self.complete, self.in_a_row) = (self.complete + 1, 0);
            }
            other => {
                (self.failed, self.in_a_row) = (self.failed + 1, self.in_a_row + 1);
                self.cause = match other {
                    CaptureEnd::GivenUp(cause) => cause.clone(),
                    CaptureEnd::Written(_) => "there is no room left for it".to_string(),
                };
            }
        }
        (self.finished)(output, end);
    }

    /// Whether too many captures in a row have failed.
    fn has_failed(&self) -> bool {
        self.in_a_row >= MOST_FAILURES
    }

    /// Removes the oldest captures of the series that are too many; returns what went wrong.
    fn remove_oldest(&mut self) -> Vec<String> {
        let Some(keep) = self.series.keep else { return Vec::new() };
        let mut own = self.series.own_captures();
        own.extend(self.written.iter().cloned());
        let old = own.len().saturating_sub(keep);
        let mut troubles = Vec::new();
        for capture in own.into_iter().take(old) {
            self.written.remove(&capture);
            // The side file that marks it as one of the series goes last.
            for file in [capture.clone(), ObjectNotes::path_for(&capture), Sidecar::path_for(&capture)] {
                match std::fs::remove_file(&file) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        troubles.push(format!("cannot remove {}: {error}", file.display()));
                    }
                    _ => {}
                }
            }
        }
        troubles
    }
}

impl Series {
    /// The name of a capture that begins at this time (UTC), and that does not exist yet.
    fn next_name(&self, begins: SystemTime) -> PathBuf {
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
        (1..).map(named).find(|path| !path.exists()).expect("a number that is free")
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
    fn own_captures(&self) -> BTreeSet<PathBuf> {
        let folder = match self.output.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let capture = name.as_bytes().strip_suffix(b".json")?;
                if !self.is_name(capture) {
                    return None;
                }
                let path = self.output.with_file_name(OsString::from_vec(capture.to_vec()));
                let sidecar = Sidecar::load(&path).ok()??;
                sidecar.interval.is_some().then_some(path)
            })
            .collect()
    }

    /// Whether a file's name has the form of a capture's.
    fn is_name(&self, name: &[u8]) -> bool {
        let (stem, extension) = self.stem_and_extension();
        let middle = name.strip_prefix(&stem[..]).and_then(|rest| rest.strip_suffix(&extension[..]));
        let Some((time, number)) = middle.and_then(|middle| middle.split_at_checked(TIME_LENGTH)) else {
            return false;
        };
        let digits = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
        digits(&time[..8])
            && time[8] == b'T'
            && digits(&time[9..])
            && (number.is_empty() || number.strip_prefix(b"-").is_some_and(digits))
    }
}

/// A time as in 20261126T185000, in UTC: names sort by time, also when clocks are changed.
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
mod tests {
    use super::*;

    fn series(output: PathBuf, keep: usize) -> Series {
        Series { output, interval: Duration::from_secs(1), keep: Some(keep) }
    }

    /// A capture with its side files, part of a series or not.
    fn capture(path: &Path, in_series: bool) {
        std::fs::write(path, "PERFILE2").expect("written");
        std::fs::write(ObjectNotes::path_for(path), "{}").expect("written");
        let mut sidecar = Sidecar::new(EventSource::Live);
        sidecar.interval = in_series.then_some(Duration::from_secs(600));
        sidecar.store(path).expect("written");
    }

    #[test]
    fn names_hold_the_start_in_utc_and_are_used_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let series = series(folder.path().join("a.data"), 1);
        // date -u -d @1795632600
        let time = UNIX_EPOCH + Duration::from_secs(1_795_632_600);
        let name = |path: PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        let first = series.next_name(time);
        assert_eq!(name(first.clone()), "a-20261125T185000.data");
        std::fs::write(&first, "").expect("written");
        assert_eq!(name(series.next_name(time)), "a-20261125T185000-2.data");
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
            assert_eq!(series.is_name(form.as_bytes()), right, "{form}");
        }
        let without = Series { output: "captures".into(), ..series };
        assert!(without.is_name(b"captures-20261125T185000"));
        assert_eq!(name(without.next_name(time)), "captures-20261125T185000");
    }

    #[test]
    fn only_the_oldest_of_the_series_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for hour in ["01", "02", "03"] {
            capture(&path(&format!("a-20261125T{hour}0000.data")), true);
        }
        capture(&path("a-20261124T010000.data"), false); // a copy of another recording, with such a name
        capture(&path("b-20261124T010000.data"), true); // another series
        std::fs::write(path("a-20261124T020000.data"), "notes").expect("written");
        let series = series(path("a.data"), 2);
        let written = BTreeSet::from([path("a-20261125T040000.data")]);
        capture(&path("a-20261125T040000.data"), true);
        let mut archive = Archive {
            series: &series,
            finished: &mut |_, _| {},
            written,
            completion: None,
            complete: 0,
            failed: 0,
            in_a_row: 0,
            cause: String::new(),
        };
        assert!(archive.remove_oldest().is_empty());
        let mut left: Vec<String> = std::fs::read_dir(folder.path())
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".data"))
            .collect();
        left.sort();
        let expected = [
            "a-20261124T010000.data",
            "a-20261124T020000.data",
            "a-20261125T030000.data",
            "a-20261125T040000.data",
            "b-20261124T010000.data",
        ];
        assert_eq!(left, expected);
        assert!(!ObjectNotes::path_for(&path("a-20261125T010000.data")).exists());
        assert!(!Sidecar::path_for(&path("a-20261125T010000.data")).exists());
    }
}
