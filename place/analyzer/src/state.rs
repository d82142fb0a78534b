//! The state of the analyzer at a moment, as a file in the segments' folder: the views (top, report, metrics) read
//! only that file.

use crate::model::{AppId, KindRef, Machine, Plan, Workload};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Its name in the folder.
pub const FILE: &str = "analyzer-state.json";
/// The version of the file's format.
pub const VERSION: u32 = 1;
/// The limit for reading; no state is that long.
const LENGTH_MAX: u64 = 256 << 20;
/// A file older than this belongs to an analyzer that has ended.
pub const STALE_NS: u64 = 5_000_000_000;

/// The complete state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// [`VERSION`].
    pub version: u32,
    /// The time of writing on CLOCK_MONOTONIC, which shows whether an analyzer still runs.
    pub written_ns: u64,
    /// The analyzer's process.
    pub pid: u32,
    /// The name given to `--policy`.
    pub policy: String,
    /// The interval between rounds, in milliseconds.
    pub interval_ms: u64,
    /// Processors that may be used.
    pub machine: Machine,
    /// Running applications.
    pub applications: Vec<Application>,
    /// Kinds over the latest window.
    pub workload: Workload,
    /// The plan of the policy; in force while `placement_on`.
    pub plan: Plan,
    /// The guard's state and results.
    pub guard: Guard,
    /// The number of times that placement was switched on or off.
    pub epoch: u64,
    /// True if kinds are placed now.
    pub placement_on: bool,
    /// The state of the occupancy probe.
    pub probe: Probe,
    /// The latest lines of the log, oldest first.
    pub events: Vec<Event>,
}

/// An application, without its kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Application {
    pub app: AppId,
    pub name: String,
    pub related: Option<AppId>,
    pub collecting: bool,
    /// True if it allows its threads to be moved.
    pub placing: bool,
    /// "pmu", "probe", "none".
    pub backend: String,
    /// The facilities that it lacks.
    pub without: Vec<String>,
    pub kinds: u32,
    pub kinds_max: u32,
    pub sections: u64,
    pub without_room: u64,
    pub contended: u64,
    pub dropped: u64,
    /// The number of changes of an affinity.
    pub moves: u64,
    /// The number of threads whose affinity is narrowed now.
    pub narrowed: u32,
    /// The number of changes of a time slice.
    #[serde(default)]
    pub slices: u64,
    /// The number of threads whose time slice is changed now.
    #[serde(default)]
    pub sliced: u32,
    /// The queue of its long requests.
    #[serde(default)]
    pub admission: Admission,
    pub probes: u64,
    pub probe_cycles: u64,
    pub cycles_per_second: u64,
}

/// The long requests of an application that run or wait for a place, and counters since its segment was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Admission {
    /// How many run at once; 0: any number.
    pub places: u32,
    /// Those that run now.
    pub running: u32,
    /// Those that wait now.
    pub waiting: u32,
    /// Requests that waited so far.
    pub waits: u64,
    /// The sum of these waits.
    pub waited_seconds: f64,
    /// The longest of them.
    pub longest_wait_seconds: f64,
    /// Admitted without a place, because they had waited for as long as their server lets them.
    pub late: u64,
    /// Admitted without a place, because others waited for their locks.
    pub for_others: u64,
    /// Not held back, because of their locks or transactions.
    pub exempt: u64,
    /// Not limited, because the table of requests was full.
    #[serde(default)]
    pub unlimited: u64,
}

impl Admission {
    /// As text for users; `None` if nothing was ever limited.
    pub fn in_words(&self) -> Option<String> {
        let Admission { places, running, waiting, waits, late, for_others, exempt, .. } = self;
        if (*places, *waits, *running, *exempt) == (0, 0, 0, 0) {
            return None;
        }
        let places = match places {
            0 => "no limit now".to_string(),
            places => format!("{places} places"),
        };
        let mean = if *waits == 0 { 0.0 } else { self.waited_seconds / *waits as f64 };
        let unlimited = match self.unlimited {
            0 => String::new(),
            more => format!(", {more} since the table of long requests was full"),
        };
        Some(format!(
            "{places}, {running} long requests run, {waiting} wait; {waits} waited so far, {:.3} s on average, {:.3} s at most; without a place: {exempt} with locks or in transactions, {for_others} since others waited for them, {late} after their limit{unlimited}",
            mean, self.longest_wait_seconds
        ))
    }
}

/// The guard's state and results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// false: `--no-guard`, or a policy that places nothing.
    pub active: bool,
    /// "idle", "trial", "kept", "refused".
    pub phase: String,
    /// The reason as text.
    pub reason: String,
    /// Seconds until it tries again; for "refused".
    pub retry_seconds: Option<f64>,
    /// Compared epochs with placement on.
    pub epochs_on: u32,
    /// Compared epochs with placement off.
    pub epochs_off: u32,
    /// The compared metrics: "CPU time per request", "work done per second", "p99 of ...".
    pub effects: Vec<Effect>,
    /// Rules that were judged separately: the placement of one kind with all others unchanged.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// The guard's result for the placement of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The kind.
    pub kind: KindRef,
    /// Off: the kind runs anywhere, independent of the policy.
    pub on: bool,
    /// The reason as text.
    pub reason: String,
    /// Pairs of epochs compared.
    pub n: u32,
    /// The seconds until it is tested again.
    pub retry_seconds: f64,
}

/// A measure with placement on against off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The metric.
    pub measure: String,
    /// On over off, minus one: -0.2 is 20 % less.
    pub change: f64,
    /// The lower bound of its 95 % interval.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// Pairs of epochs compared.
    pub n: u32,
}

/// The state of the occupancy probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// "searching", "full sets", "random lines", "impossible", "off".
    pub kind: String,
    /// The reason, if it is not full sets.
    pub reason: String,
    /// The generation of the sets; 0: none.
    pub generation: u64,
    /// The share of the sets that were still full at the last check.
    pub verified: Option<f64>,
    /// The background rate: the share of the remaining lines that other work displaces per cycle. It is subtracted
    /// from the displacement of sections.
    #[serde(default)]
    pub background_per_cycle: f64,
    /// The displacement by sections of known size.
    pub points: Vec<ProbePoint>,
    /// Other work in the caches of the processors.
    #[serde(default)]
    pub neighbours: Neighbours,
}

/// Other work in the L2 caches of the processors, by the latest measurements of two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Neighbours {
    /// The number of measurements.
    pub looks: u32,
    /// The number of measurements in which processors shared an L2 although the kernel reports separate ones.
    pub together: u32,
    /// The number of measurements without a result, because other work left too few lines.
    pub unclear: u32,
    /// The mean share of a processor's lines that was evicted in 200 us while the analyzer did nothing: by other
    /// guests on the core's other thread, or by this guest's servers if that thread is one of its processors.
    pub by_others: f64,
}

impl Neighbours {
    /// The number of measurements with a result.
    fn told(&self) -> u32 {
        self.looks.saturating_sub(self.unclear)
    }

    /// Of the measurements with a result, the share in which processors shared an L2.
    pub fn shared(&self) -> Option<f64> {
        let told = self.told();
        (told > 0).then(|| f64::from(self.together) / f64::from(told))
    }

    /// As text for users; `None` before the first measurement.
    pub fn in_words(&self) -> Option<String> {
        if self.looks == 0 {
            return None;
        }
        let Neighbours { looks, together, unclear, by_others } = self;
        let told = self.told();
        let more = match unclear {
            0 => String::new(),
            unclear => format!(" ({unclear} more were unclear)"),
        };
        let seen = match (together, told) {
            (_, 0) => format!("{looks} checks did not show whether processors share an L2"),
            (0, _) => format!("no L2 is shared that should not be, by {told} checks{more}"),
            _ => format!(
                "two processors share an L2 by {together} of {told} checks{more}, though each should have one: the host puts them on one core"
            ),
        };
        Some(format!("{seen}; other programs displace {:.0} % of L2 in 200 us", by_others * 100.0))
    }
}

/// A section of known size, and the share of the probe's lines that it displaced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProbePoint {
    pub kilobytes: u32,
    pub median: f32,
    pub p10: f32,
    pub p90: f32,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Event {
    /// 2026-11-22T10:30:00.123Z
    pub time: String,
    pub text: String,
}

/// The facilities that an application lacks, as a suffix: `, without rseq, PMU`; empty if it has all.
pub fn without_in_words(without: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = without.iter().map(AsRef::as_ref).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(", without {}", names.join(", "))
}

/// The reason why there is no state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No analyzer works on this folder, or never did.
    #[error("no analyzer has written into {0}")]
    Missing(String),
    /// The file cannot be read.
    #[error("the analyzer's state in {0} cannot be read: {1}")]
    Unreadable(String, String),
}

impl State {
    /// Writes the state, readable for all users: to a temporary file, then renamed.
    ///
    /// # Errors
    ///
    /// The system's error if the file cannot be written or renamed.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        let beside = folder.join(format!(".{FILE}.{}", std::process::id()));
        // A file left by an analyzer with this process id; if it cannot be removed, the next line fails with the
        // reason.
        let _ = std::fs::remove_file(&beside);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&beside)?;
        let text = serde_json::to_vec(self).map_err(std::io::Error::other)?;
        file.write_all(&text)
            .and_then(|()| std::fs::rename(&beside, folder.join(FILE)))
            .inspect_err(|_| _ = std::fs::remove_file(&beside))
    }

    /// Reads the last state that the analyzer of this folder wrote.
    ///
    /// # Errors
    ///
    /// [`StateError`] if there is no state, or it cannot be read.
    pub fn read(folder: &Path) -> Result<State, StateError> {
        let path = folder.join(FILE);
        let unreadable = |error: &dyn std::fmt::Display| {
            StateError::Unreadable(folder.display().to_string(), error.to_string())
        };
        let file =
            match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path)
            {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(StateError::Missing(folder.display().to_string()))
                }
                Err(error) => return Err(unreadable(&error)),
            };
        let text = bounded(file).map_err(|error| unreadable(&error))?;
        let state: State = serde_json::from_slice(&text).map_err(|error| unreadable(&error))?;
        if state.version != VERSION {
            return Err(unreadable(&format_args!("it is of version {}, not {VERSION}", state.version)));
        }
        Ok(state)
    }

    /// True if its writer has ended.
    pub fn is_stale(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.written_ns) > STALE_NS.max(3 * self.interval_ms * 1_000_000)
    }
}

fn bounded(file: File) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if file.take(LENGTH_MAX + 1).read_to_end(&mut text)? as u64 > LENGTH_MAX {
        return Err(std::io::Error::other("it is too long"));
    }
    Ok(text)
}
