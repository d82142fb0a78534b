//! The side file of a capture: data that perf.data has no field for.
//!
//! `hardmeter.data` has perf's format and is complete in itself; `hardmeter.data.json` is Hardmeter's, optional and
//! versioned. Without it, those columns are empty.

use crate::model::{
    Cycles, EventDescription, EventSource, GhostNotes, Period, ProcessTime, StallNotes, StatementId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// An event as requested by the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedEvent {
    /// Its name.
    pub name: String,
    /// Events per sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Samples per second, where the period was left to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<u64>,
}

/// A statement that was executed while recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The id in samples. Files from before ids were common to all parts have a number called `hash`: such a
    /// capture opens, but its statements do not join with other parts.
    #[serde(alias = "hash")]
    pub id: StatementId,
    /// Its normalised text, cut at 1000 bytes.
    pub text: String,
}

/// Reuse distances: the number of other lines used between two uses of a line, measured on a sample of all lines
/// (SHARDS: Waldspurger and others, FAST 2015). The stream is the input of the second level: first-level misses,
/// code and data, per core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseHistogram {
    /// One line in this number was followed; distances are scaled to all lines, counts are not.
    pub one_line_in: u32,
    /// First uses of a line by its core.
    pub cold: u64,
    /// Uses by distance: ascending, each bucket up to and including `lines`.
    pub buckets: Vec<ReuseBucket>,
}

/// A bucket of a [`ReuseHistogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseBucket {
    /// The largest distance counted here, in cache lines.
    pub lines: u64,
    /// Number of uses.
    pub count: u64,
}

/// Page walks, and their number with pages of 2 MiB (simulated in parallel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageWalks {
    /// With pages of 4 KiB.
    pub small: u64,
    /// With all memory in huge pages.
    pub all_huge: u64,
    /// With huge pages only for shared memory (`MAP_SHARED`), as with a server's `huge_pages`.
    pub shared_huge: u64,
}

/// The meaning of a sample's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyKind {
    /// The part that the core could not hide by prefetching and overlap; the whole latency is the instruction's.
    Exposed,
    /// From issue to data, without regard to overlap.
    Whole,
}

/// The miss latency that a simulated core hid, over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenLatency {
    /// Cycles that it could not hide: stall time.
    pub exposed: Cycles,
    /// First-level misses whose line had been prefetched in time.
    pub prefetched: u64,
    /// First-level misses whose prefetch was outstanding.
    pub prefetched_late: u64,
    /// First-level load misses that waited for another load, for their address.
    pub dependent: u64,
}

/// The contents of the side file. Fields that a source or an older version does not have are empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sidecar {
    /// Version of this format: [`Sidecar::VERSION`] when written here.
    pub version: u32,
    /// The source of the samples.
    pub source: EventSource,
    /// Hardmeter's version.
    #[serde(default)]
    pub tool_version: String,
    /// The recorded or simulated machine's name, for example `xeon-2003`.
    #[serde(default)]
    pub machine_name: Option<String>,
    /// Its geometry: caches, TLBs, latencies.
    #[serde(default)]
    pub machine: Option<serde_json::Value>,
    /// The requested events.
    #[serde(default)]
    pub events: Vec<RequestedEvent>,
    /// Total number of occurrences of each event, sampled or not.
    #[serde(default)]
    pub counts: BTreeMap<String, u64>,
    /// Instructions executed while recording.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Simulated time.
    #[serde(default)]
    pub simulated_cycles: Option<Cycles>,
    /// One cache line in this number was simulated, and counts are scaled to all; 1: every line. `None` without
    /// simulation. Read it through [`Sidecar::lines_per_simulated`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_line_in: Option<u32>,
    /// The meaning of latencies in a simulated capture. `None` without simulation, and in captures of older
    /// versions, whose latencies are whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyKind>,
    /// The hidden part, if latencies are exposed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_latency: Option<HiddenLatency>,
    /// When the recording began.
    #[serde(default)]
    pub wall_start: Option<SystemTime>,
    /// Wall-clock duration.
    #[serde(default)]
    pub wall_duration: Option<Duration>,
    /// The length of each capture of a series, of which this is one (`record --interval`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// Samples lost while recording.
    #[serde(default)]
    pub lost: u64,
    /// The number of times that an event was throttled.
    #[serde(default)]
    pub throttled: u64,
    /// Limits for the user, for example "kernel mode was not seen". Text only: no code reads a number from it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Counters of the workload: transactions, rows.
    #[serde(default)]
    pub workload: BTreeMap<String, f64>,
    /// The databases that `workload` covers, if not the whole server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_databases: Vec<String>,
    /// Limits of `workload`, as text for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_limits: Vec<String>,
    /// Statements that samples name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<Statement>,
    /// Reuse of lines, where it was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<ReuseHistogram>,
    /// The effect of huge pages, where it was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_walks: Option<PageWalks>,
    /// The quality of live samples (source `live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<StallNotes>,
    /// The quality of ghosts, and what their counts stand for (`record --ghosts`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ghosts: Option<GhostNotes>,
    /// How each process spent its time (source `live`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<ProcessTime>,
}

/// The reason why an existing side file cannot be used, or a new one not written.
#[derive(Debug, thiserror::Error)]
pub enum SidecarError {
    /// A newer Hardmeter wrote them.
    #[error(
        "{path} has version {found}, this hardmeter knows {known}: its contents (geometry, counts) are ignored; \
         install a newer hardmeter to see them"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that this program writes.
        known: u32,
    },
    /// Not JSON of this format.
    #[error("{path} is damaged ({reason}): it is ignored; delete it, or record again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
    /// The file cannot be read or written.
    #[error("cannot access {path}: {source}; check your rights and the free space there")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Larger files were not written by Hardmeter.
const SIZE_LIMIT: u64 = 64 << 20;

impl Sidecar {
    /// The version written here. New fields need no new version; a changed meaning does.
    pub const VERSION: u32 = 2;

    /// An empty side file of a source.
    pub fn new(source: EventSource) -> Sidecar {
        Sidecar {
            version: Self::VERSION,
            source,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            machine_name: None,
            machine: None,
            events: Vec::new(),
            counts: BTreeMap::new(),
            instructions: None,
            simulated_cycles: None,
            one_line_in: (source == EventSource::Simulated).then_some(1),
            latency: None,
            hidden_latency: None,
            wall_start: None,
            wall_duration: None,
            interval: None,
            lost: 0,
            throttled: 0,
            notes: Vec::new(),
            workload: BTreeMap::new(),
            workload_databases: Vec::new(),
            workload_limits: Vec::new(),
            statements: Vec::new(),
            reuse: None,
            page_walks: None,
            stall: None,
            ghosts: None,
            times: Vec::new(),
        }
    }

    /// One cache line in this number was simulated; 1 if all were, or without simulation.
    pub fn lines_per_simulated(&self) -> u32 {
        self.one_line_in.unwrap_or(1).max(1)
    }

    /// Fills in [`Sidecar::one_line_in`] for older simulated captures: the period of an event in the capture is the
    /// requested one times the scale. Events recorded for all lines have a ratio of 1.
    pub(crate) fn complete_old(&mut self, recorded: &[EventDescription]) {
        if self.source != EventSource::Simulated || self.one_line_in.is_some() {
            return;
        }
        let scale = |requested: &RequestedEvent| {
            let event = recorded.iter().find(|event| event.name == requested.name)?;
            let (whole, asked) = (event.period?.0, requested.period?.0);
            (asked > 0 && whole.is_multiple_of(asked)).then_some(whole / asked)
        };
        let largest = self.events.iter().filter_map(scale).max().unwrap_or(1).max(1);
        self.one_line_in = u32::try_from(largest).ok();
    }

    /// The path of the side file: the capture's name with `.json` appended.
    pub fn path_for(capture: &Path) -> PathBuf {
        let mut name = capture.as_os_str().to_os_string();
        name.push(".json");
        PathBuf::from(name)
    }

    /// Reads the side file of a capture; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`SidecarError`] if the file exists but cannot be read, is damaged, or has a newer version.
    pub fn load(capture: &Path) -> Result<Option<Sidecar>, SidecarError> {
        let path = Self::path_for(capture);
        let mut text = String::new();
        match File::open(&path).and_then(|file| file.take(SIZE_LIMIT).read_to_string(&mut text)) {
            Ok(_) => Self::parse(&path, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) if source.kind() == io::ErrorKind::InvalidData => {
                Err(SidecarError::Damaged { path, reason: "not UTF-8".to_string() })
            }
            Err(source) => Err(SidecarError::Io { path, source }),
        }
    }

    fn parse(path: &Path, text: &str) -> Result<Sidecar, SidecarError> {
        let damaged =
            |error: serde_json::Error| SidecarError::Damaged { path: path.into(), reason: error.to_string() };
        // The version is read first: a newer file may have fields of other types.
        let value: serde_json::Value = serde_json::from_str(text).map_err(damaged)?;
        if let Some(found) = value["version"].as_u64().filter(|found| *found > Self::VERSION.into()) {
            return Err(SidecarError::Newer { path: path.into(), found, known: Self::VERSION });
        }
        serde_json::from_value(value).map_err(damaged)
    }

    /// Writes the side file of a capture atomically.
    ///
    /// # Errors
    ///
    /// [`SidecarError::Io`] if the file cannot be written.
    pub fn store(&self, capture: &Path) -> Result<(), SidecarError> {
        let path = Self::path_for(capture);
        store_whole(&path, |file| serde_json::to_writer_pretty(file, self))
            .map_err(|source| SidecarError::Io { path, source })
    }
}

/// Writes a side file atomically.
pub(crate) fn store_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> serde_json::Result<()>,
) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // 0o666 less the user's umask, as for any file; tempfile's default would make it unreadable to other users.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
    let mut buffered = io::BufWriter::new(&mut file);
    write(&mut buffered)?;
    buffered.write_all(b"\n")?;
    buffered.flush()?;
    drop(buffered);
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_back_and_absent_notes_are_no_error() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let capture = folder.path().join("hardmeter.data");
        assert!(Sidecar::load(&capture).expect("no notes").is_none());
        let mut sidecar = Sidecar::new(EventSource::Simulated);
        sidecar.counts.insert("l1d-miss".into(), 12345);
        sidecar.events.push(RequestedEvent {
            name: "l1d-miss".into(),
            period: Some(Period(1000)),
            frequency: None,
        });
        sidecar.wall_duration = Some(Duration::from_millis(1500));
        sidecar.workload.insert("transactions".into(), 17.5);
        sidecar.store(&capture).expect("written");
        assert_eq!(Sidecar::load(&capture).expect("read"), Some(sidecar));
        assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1, "no temporary file left");
    }

    /// Written before the scale had a field: 1000 was requested, and a sample in the capture stands for 8000
    /// events.
    #[test]
    fn the_scale_of_an_old_simulated_capture_comes_from_its_periods() {
        let text = |source: &str| {
            format!(
                r#"{{"version": 1, "source": "{source}", "notes": ["1 cache line in 64 was simulated"],
                   "events": [{{"name": "instructions", "period": 1000}}, {{"name": "l1d-miss", "period": 1000}}]}}"#
            )
        };
        let event = |name: &str, period: Option<u64>| EventDescription {
            name: name.into(),
            known: None,
            period: period.map(Period),
            frequency: None,
            attr_type: 4,
            attr_config: 0,
            sample_type: 0,
            precise_ip: 0,
        };
        let scale = |source, recorded: &[EventDescription]| {
            let mut old = Sidecar::parse(Path::new("x.json"), &text(source)).expect("an old file");
            old.complete_old(recorded);
            (old.one_line_in, old.lines_per_simulated())
        };
        let scaled = [event("instructions", Some(1000)), event("l1d-miss", Some(8000))];
        assert_eq!(scale("simulated", &scaled), (Some(8), 8));
        assert_eq!(scale("hardware", &scaled), (None, 1));
        assert_eq!(scale("simulated", &[event("l1d-miss", Some(1000))]), (Some(1), 1));
        assert_eq!(scale("simulated", &[event("l1d-miss", None)]), (Some(1), 1));
        let mut new = Sidecar::new(EventSource::Simulated);
        new.events =
            vec![RequestedEvent { name: "l1d-miss".into(), period: Some(Period(1000)), frequency: None }];
        new.complete_old(&scaled);
        assert_eq!(new.one_line_in, Some(1), "a field that is there is believed");
    }

    #[test]
    fn newer_and_damaged_notes_say_so() {
        let path = Path::new("x.json");
        let newer = Sidecar::parse(path, r#"{"version": 3, "source": {"other": "shape"}}"#);
        assert!(matches!(newer, Err(SidecarError::Newer { found: 3, .. })), "{newer:?}");
        let cut = Sidecar::parse(path, r#"{"version": 1, "sour"#);
        assert!(matches!(cut, Err(SidecarError::Damaged { .. })), "{cut:?}");
        let minimal = Sidecar::parse(path, r#"{"version": 1, "source": "hardware"}"#).expect("enough");
        assert_eq!(minimal.source, EventSource::Hardware);
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let error =
            Sidecar::new(EventSource::Timer).store(Path::new("/nonexistent/x")).expect_err("no folder");
        assert!(error.to_string().contains("/nonexistent/x.json"), "{error}");
    }
}
