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
//! 1. A name is given to a complete file only; a name that exists is not used, and one recorder uses them at a time.
//! 2. Files are removed only if they are this series' (see [`captures`](super::captures)), or this process has written
//!    them; those of earlier recordings first, then those of this one in the order in which they were written.
//! 3. A capture that cannot be written ends alone, and leaves no file. After [`MOST_FAILURES`] in a row the series
//!    ends.

use super::captures;
use super::choose::{self, Chosen};
use super::observer::{Attach, Awaited, Observation};
use super::opened::{Description, Opened};
use super::population::Population;
use super::recorder::{self, Ending, LoopError, Part, Progress, Stage, Unfinished, When};
use super::request::{check, Report, Request, SessionError};
use super::signals::Signals;
use crate::source::{DrainError, EventCount};
use hardmeter_samples::model::EventSource;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Captures in a row that may fail before the series ends.
const MOST_FAILURES: u32 = 3;
/// Captures that may be in completion at a time, each with an open file and a thread.
const MOST_INCOMPLETE: usize = 8;

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
/// [`SessionError`] if the request contradicts itself, no source can serve it, another recorder writes captures of this
/// output, or several captures in a row cannot be written.
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
    // With the rights of the user, who may remove its file.
    let _claim = series.claim()?;
    series.remove_remnants();
    let signals = Signals::block().map_err(LoopError::from)?;
    let mut population = Population::new(&opened.source.attributes());
    let archive = RefCell::new(Archive::new(series, finished));
    let mut progress = |at| {
        archive.borrow_mut().settle(MOST_INCOMPLETE);
        progress(at);
    };
    let mut counted: Vec<EventCount> = Vec::new();
    let (mut target_ended_early, mut goes_on, header) = (false, false, opened.header.clone());
    let mut preamble = opened.source.preamble();
    let mut until = Instant::now() + series.interval;
    loop {
        let output = series.next_name(SystemTime::now(), |path| archive.borrow().completes(path));
        let when = When { delay: None, goes_on, until: Some(until) };
        let mut stage = stage_of(&mut opened, &signals, population.as_mut(), &mut progress, goes_on);
        let recorded =
            recorder::record(&mut stage, Part { output: &output, header: &header, preamble, when });
        let (mut ending, mut status) = (Ending::DiskFull, None);
        // No wait unless completion has fallen far behind: the rings fill meanwhile.
        archive.borrow_mut().settle(MOST_INCOMPLETE - 1);
        match recorded {
            // Nothing was recorded yet: this is the user's mistake.
            Err(error) if !stage.begun => return Err(error.into()),
            Err(LoopError::Write(error) | LoopError::Drain(DrainError::Write(error))) => {
                archive.borrow_mut().note(&output, &CaptureEnd::GivenUp(error.to_string()));
            }
            Err(error) => {
                archive.borrow_mut().settle(0);
                return Err(error.into());
            }
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
        let would_go_on = matches!(ending, Ending::DiskFull | Ending::Interval);
        if would_go_on && archive.borrow().has_failed() {
            archive.borrow_mut().settle(0); // a capture that is being completed may be a good one
        }
        if would_go_on && archive.borrow().has_failed() {
            opened.source.stop();
            if let Some(workload) = &mut opened.workload {
                workload.terminate();
            }
            let archive = archive.into_inner();
            return Err(SessionError::SeriesFailed { failures: archive.in_a_row, cause: archive.cause });
        }
        if ending == Ending::DiskFull {
            let mut stage = stage_of(&mut opened, &signals, population.as_mut(), &mut progress, true);
            let waited = recorder::wait_out(&mut stage, until);
            if waited.is_err() {
                archive.borrow_mut().settle(0);
            }
            ending = waited?;
        }
        if ending != Ending::Interval {
            let mut archive = archive.into_inner();
            archive.settle(0);
            let (complete, failed) = (archive.complete, archive.failed);
            return Ok(SeriesReport { ending, complete, failed, status, target_ended_early });
        }
        counted = opened.source.counts();
        opened.source.begin_capture();
        preamble = population.as_mut().map(Population::next_capture).unwrap_or_default();
        until = following(until, series.interval, Instant::now());
    }
}

/// What all captures of the series are recorded with.
fn stage_of<'a>(
    opened: &'a mut Opened,
    signals: &'a Signals,
    population: Option<&'a mut Population>,
    progress: &'a mut dyn FnMut(Progress),
    begun: bool,
) -> Stage<'a> {
    Stage {
        source: opened.source.as_mut(),
        workload: opened.workload.as_mut(),
        signals,
        observation: opened.observation.as_mut(),
        population,
        progress,
        begun,
    }
}

/// The end of the capture that begins now. After the machine's or the recorder's sleep the missed captures are not made
/// up for, and the next one has its whole time.
fn following(until: Instant, interval: Duration, now: Instant) -> Instant {
    Some(until + interval).filter(|next| *next > now).unwrap_or(now + interval)
}

/// The finished captures of a series, and those whose files are being completed.
struct Archive<'a> {
    series: &'a Series,
    finished: &'a mut dyn FnMut(&Path, &CaptureEnd),
    /// Captures of this process, in the order in which they were written: the clock that names them may be set back.
    written: Vec<PathBuf>,
    /// Oldest first. The disk and the observer are waited for beside the recording, which goes on also when they take
    /// longer than a capture: the rings hold a second of a busy machine's records.
    completions: VecDeque<(PathBuf, JoinHandle<CaptureEnd>)>,
    complete: u64,
    failed: u64,
    /// Captures that failed one after the other until now, and the reason of the last one.
    in_a_row: u32,
    cause: String,
}

impl<'a> Archive<'a> {
    fn new(series: &'a Series, finished: &'a mut dyn FnMut(&Path, &CaptureEnd)) -> Archive<'a> {
        Archive {
            series,
            finished,
            written: Vec::new(),
            completions: VecDeque::new(),
            complete: 0,
            failed: 0,
            in_a_row: 0,
            cause: String::new(),
        }
    }

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
                // Without its side file it is not known to be the series', and would never be removed.
                let remove = |_: &SessionError| drop(captures::remove(&path));
                description.store(&path, recorded, observations).inspect_err(remove)
            });
            match stored {
                Ok(report) => CaptureEnd::Written(Box::new(report)),
                Err(error) => CaptureEnd::GivenUp(error.to_string()),
            }
        };
        match std::thread::Builder::new().name("completion".into()).spawn(complete) {
            Ok(thread) => self.completions.push_back((output, thread)),
            Err(error) => {
                self.note(&output, &CaptureEnd::GivenUp(format!("no thread can be started: {error}")))
            }
        }
    }

    /// Whether a capture of this name is being completed.
    fn completes(&self, output: &Path) -> bool {
        self.completions.iter().any(|(completed, _)| completed == output)
    }

    /// Takes what has become of captures, oldest first, as far as that is known; waits until at most `left` are
    /// incomplete.
    fn settle(&mut self, left: usize) {
        while self.completions.len() > left
            || self.completions.front().is_some_and(|(_, thread)| thread.is_finished())
        {
            let Some((output, thread)) = self.completions.pop_front() else { return };
            let mut end = thread.join().unwrap_or_else(|_| {
                CaptureEnd::GivenUp("its completion failed (a fault of hardmeter)".to_string())
            });
            if output.exists() {
                self.written.push(output.clone());
            }
            if let CaptureEnd::Written(report) = &mut end {
                report.remarks.extend(self.remove_oldest());
            }
            self.note(&output, &end);
        }
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
        self.written.retain(|capture| capture.exists());
        let mut own = self.series.own_captures();
        // Neither is of an earlier recording; those in completion are counted when they are complete.
        own.retain(|capture| !self.written.contains(capture) && !self.completes(capture));
        own.extend(self.written.iter().cloned());
        let old = own.len().saturating_sub(keep);
        let mut troubles = Vec::new();
        for capture in own.into_iter().take(old) {
            match captures::remove(&capture) {
                Ok(()) => self.written.retain(|written| *written != capture),
                Err(trouble) => troubles.push(trouble),
            }
        }
        troubles
    }
}

#[cfg(test)]
mod tests {
    use super::super::captures::tests::{capture, names_in};
    use super::*;

    #[test]
    fn the_oldest_of_the_series_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["a-20261125T010000.data", "a-20261125T020000-2.data", "a-20261125T020000-10.data"] {
            capture(&path(name), true);
        }
        capture(&path("a-20261124T010000.data"), false); // a copy of another recording, with such a name
        capture(&path("b-20261124T010000.data"), true); // another series
        std::fs::write(path("a-20261124T020000.data"), "notes").expect("written");
        let series = Series { output: path("a.data"), interval: Duration::from_secs(1), keep: Some(3) };
        let mut finished = |_: &Path, _: &CaptureEnd| {};
        // The second has been removed by the user.
        let written = vec![path("a-20261125T040000.data"), path("a-20261125T030000.data")];
        let mut archive = Archive { written, ..Archive::new(&series, &mut finished) };
        capture(&path("a-20261125T040000.data"), true);
        assert!(archive.remove_oldest().is_empty());
        let left = [
            "a-20261124T010000.data",
            "a-20261124T020000.data",
            "a-20261125T020000-10.data",
            "a-20261125T020000-2.data",
            "a-20261125T040000.data",
            "b-20261124T010000.data",
        ];
        assert_eq!(names_in(folder.path()), left);
        assert!(!captures::side_files(&path("a-20261125T010000.data")).iter().any(|file| file.exists()));
        // The clock was set back: these are newer than that of four o'clock.
        for (name, goes) in [
            ("a-20261125T000000.data", "a-20261125T020000-2.data"),
            ("a-20261125T000001.data", "a-20261125T020000-10.data"),
            ("a-20261125T000002.data", "a-20261125T040000.data"),
            ("a-20261125T000003.data", "a-20261125T000000.data"),
        ] {
            capture(&path(name), true);
            archive.written.push(path(name));
            assert!(path(goes).exists(), "{goes}");
            assert!(archive.remove_oldest().is_empty());
            assert!(path(name).exists() && !path(goes).exists(), "{name}, {goes}");
        }
        assert_eq!(archive.written.len(), 3);
    }

    /// Its side file may be there before its completion is known.
    #[test]
    fn a_capture_in_completion_is_not_taken_for_an_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let series = Series { output: path("a.data"), interval: Duration::from_secs(1), keep: Some(2) };
        let mut finished = |_: &Path, _: &CaptureEnd| {};
        let [first, second, third] =
            ["a-20261125T010000.data", "a-20261125T020000.data", "a-20261125T030000.data"].map(path);
        for written in [&first, &second, &third] {
            capture(written, true);
        }
        let mut archive = Archive { written: vec![first.clone()], ..Archive::new(&series, &mut finished) };
        let end = || CaptureEnd::GivenUp("only its file counts".into());
        archive.completions.push_back((second.clone(), std::thread::spawn(end)));
        archive.completions.push_back((third.clone(), std::thread::spawn(end)));
        assert!(archive.remove_oldest().is_empty());
        assert!(first.exists() && second.exists() && third.exists(), "one is complete");
        archive.settle(0);
        assert!(archive.remove_oldest().is_empty());
        assert!(!first.exists() && second.exists() && third.exists());
    }

    #[test]
    fn captures_that_take_long_to_complete_are_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let series =
            Series { output: folder.path().join("a.data"), interval: Duration::from_secs(1), keep: None };
        let mut ends = Vec::new();
        let mut finished = |path: &Path, end: &CaptureEnd| ends.push(format!("{} {end:?}", path.display()));
        let mut archive = Archive::new(&series, &mut finished);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let slow = std::thread::spawn(move || {
            let _ = held.recv();
            CaptureEnd::GivenUp("slow".into())
        });
        let fast = std::thread::spawn(|| CaptureEnd::GivenUp("fast".into()));
        archive.completions.extend([("1".into(), slow), ("2".into(), fast)]);
        archive.settle(2);
        assert_eq!((archive.completions.len(), archive.failed), (2, 0), "in their order");
        assert!(archive.completes(Path::new("2")) && !archive.completes(Path::new("3")));
        drop(release);
        archive.settle(0);
        assert_eq!((archive.completions.len(), archive.failed), (0, 2));
        drop(archive);
        assert_eq!(ends, [r#"1 GivenUp("slow")"#, r#"2 GivenUp("fast")"#]);
    }

    #[test]
    fn a_capture_that_begins_late_has_its_whole_time() {
        let (begun, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(following(begun, 10 * second, begun), begun + 10 * second);
        assert_eq!(following(begun, 10 * second, begun + 9 * second), begun + 10 * second);
        assert_eq!(following(begun, 10 * second, begun + 10 * second), begun + 20 * second);
        assert_eq!(following(begun, 10 * second, begun + 35 * second), begun + 45 * second);
    }
}
