//! The daemon: reads all applications periodically, decides, writes the decisions, and writes a heartbeat.
//!
//! ```text
//!   every 100 ms   heartbeat into every segment
//!   every interval scan the folder ─> snapshots ─> scores ─> policy ─> decisions, analyzer-state.json
//!   at the guard's times  snapshots ─> guard: placement on or off
//! ```
//!
//! One thread does all this, so that an analyzer that hangs stops its heartbeat, and placement ends 1.5 s later. Finding the probe's sets
//! takes seconds: that has a thread of its own.

mod analysis;
mod deciding;
mod journal;
mod lock;
mod neighbours;
mod probing;
mod rights;
mod tracing;
mod waits;

pub use rights::drop_rights;

use crate::machine::{self, MachineError};
use crate::policy;
use crate::segment::{monotonic_ns, Folder};
use crate::state::State;
use analysis::Analysis;
use journal::Journal;
use lock::{Lock, LockError};
use std::path::PathBuf;
use std::sync::{mpsc, Arc, Condvar, Mutex};
use std::time::Duration;
use tracing::Tracing;

/// A third of the servers' shortest limit for a missing heartbeat, 0.5 s for time slices, would suffice; a fifth allows
/// for a busy machine.
const BEAT_NS: u64 = 100_000_000;
/// The limits of what applications may request.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(1);

/// The daemon's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// The segments' folder.
    pub directory: PathBuf,
    /// A name of [`policy::NAMES`].
    pub policy: String,
    /// How many long requests run at once, for policies `time` and `admit`; `None`: as the policy decides.
    pub admission: Option<policy::Admission>,
    /// The interval between rounds; `None`: as requested by the applications, one second without a request.
    pub interval: Option<Duration>,
    /// Ends after this time.
    pub limit: Option<Duration>,
    /// Whether placement is switched on and off to measure its effect.
    pub guard: bool,
    /// The occupancy probe's sets are found and published.
    pub probe: bool,
    /// A file to which every section is written.
    pub trace: Option<PathBuf>,
    /// How long the segment of a dead application is kept.
    pub grace: Duration,
    /// The seed of the guard's random choices and of the probe's search.
    pub seed: u64,
}

/// The reason why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another analyzer does.
    #[error("another analyzer is running on {}{}", directory.display(), pid.map(|pid| format!(": process {pid}")).unwrap_or_default())]
    Taken {
        /// The folder.
        directory: PathBuf,
        /// The process that has the lock.
        pid: Option<u32>,
    },
    /// The folder cannot be opened or created.
    #[error("the segments' folder {}: {error}", directory.display())]
    Folder {
        /// The folder.
        directory: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The lock of the folder cannot be used: another file is in its place, or the right is missing.
    #[error("the lock {}: {error}", file.display())]
    Lock {
        /// The lock.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// No processors.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// There is no policy with this name.
    #[error("there is no policy {0}")]
    Policy(String),
    /// The policy cannot limit how many requests run at once.
    #[error("policy {0} has no admission")]
    NoAdmission(String),
    /// The trace file cannot be written.
    #[error("the trace {}: {error}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The error.
        error: std::io::Error,
    },
}

impl DaemonError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            DaemonError::Taken { .. } => "end that one, or name another folder (--directory)".into(),
            DaemonError::Folder { .. } => {
                "run it as a user who may make and write that folder, or name another (--directory)".into()
            }
            DaemonError::Lock { .. } => {
                "see whose file it is and who may write into the folder, and remove it".into()
            }
            DaemonError::Machine(_) => String::new(),
            DaemonError::Policy(_) => format!("one of {}", policy::NAMES.join(", ")),
            DaemonError::NoAdmission(_) => "leave --admit out, or use --policy time or admit".into(),
            DaemonError::Trace { .. } => "name another file (--trace)".into(),
        }
    }
}

/// A request to the daemon and its thread to end.
#[derive(Debug, Default)]
pub struct Stop {
    told: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Requests the end.
    pub fn set(&self) {
        *self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.changed.notify_all();
    }

    /// True if a stop was requested.
    pub fn is_set(&self) -> bool {
        *self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for this time, or until a stop is requested; returns true then.
    pub fn wait(&self, time: Duration) -> bool {
        let told = self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.changed.wait_timeout_while(told, time, |told| !*told);
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }
}

/// Runs until `stop` is requested or the time is over; returns the last state.
///
/// # Errors
///
/// [`DaemonError`] if the policy is unknown, the folder cannot be used, or another analyzer works in it.
pub fn run(options: &Options, stop: &Arc<Stop>) -> Result<State, DaemonError> {
    let policy = match options.admission {
        None => {
            policy::by_name(&options.policy).ok_or_else(|| DaemonError::Policy(options.policy.clone()))?
        }
        Some(admission) => policy::with_admission(&options.policy, admission)
            .ok_or_else(|| DaemonError::NoAdmission(options.policy.clone()))?,
    };
    let directory = &options.directory;
    let folder_error = |error| DaemonError::Folder { directory: directory.clone(), error };
    let folder = Folder::open(directory, options.grace).map_err(folder_error)?;
    let _lock = match Lock::take(directory) {
        Ok(lock) => lock,
        Err(LockError::Taken(pid)) => return Err(DaemonError::Taken { directory: directory.clone(), pid }),
        Err(LockError::Io(error)) => {
            return Err(DaemonError::Lock { file: directory.join(lock::FILE), error })
        }
    };
    let mut journal = Journal::default();
    let machine = machine::read()?;
    journal.say(format!(
        "analyzer {} of {}: policy {}, {}",
        std::process::id(),
        directory.display(),
        policy.name(),
        machine::describe(&machine)
    ));
    let tracing = match &options.trace {
        Some(path) => {
            Some(Tracing::create(path).map_err(|error| DaemonError::Trace { path: path.clone(), error })?)
        }
        None => None,
    };
    let (news, found) = mpsc::channel();
    let probing = options.probe.then(|| {
        let (directory, seed, stop) = (directory.clone(), options.seed, Arc::clone(stop));
        let watch = neighbours::Watch::new(machine.clone());
        std::thread::spawn(move || probing::run(&directory, seed, watch, &news, &stop))
    });
    let mut analysis = Analysis::new(options, policy, machine, folder, tracing, journal);
    work(&mut analysis, options, &found, stop);
    // The thread ends after a measurement, or at the end of its search for sets. It is not joined, because it owns
    // no resources.
    drop(probing);
    Ok(analysis.finish())
}

fn work(analysis: &mut Analysis, options: &Options, found: &mpsc::Receiver<probing::News>, stop: &Stop) {
    let start = monotonic_ns();
    let end = options.limit.map_or(u64::MAX, |limit| start.saturating_add(nanoseconds(limit)));
    let (mut beat_at, mut look_at) = (start, start);
    while !stop.is_set() {
        let now = monotonic_ns();
        if now >= end {
            // Includes the changes since the last round.
            analysis.look(now);
            return;
        }
        if now >= beat_at {
            analysis.beat(now);
            beat_at = now + BEAT_NS;
        }
        for news in found.try_iter() {
            analysis.probe_news(news);
        }
        if now >= look_at {
            analysis.look(now);
            look_at = now + nanoseconds(interval(options.interval, analysis.wished_interval()));
        }
        if now >= analysis.guard_due() {
            analysis.guard(now);
        }
        let next = beat_at.min(look_at).min(end).min(analysis.guard_due());
        stop.wait(Duration::from_nanos(next.saturating_sub(monotonic_ns())));
    }
}

/// The given interval, or the shortest interval that an application requests.
fn interval(told: Option<Duration>, wished: Option<Duration>) -> Duration {
    told.or(wished).unwrap_or(INTERVAL).clamp(INTERVAL_MIN, INTERVAL_MAX)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
