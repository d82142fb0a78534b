//! The result of a comparison, run by run, as it is written to the result file.

use crate::error::{io_error, Oo1Error};
use crate::metrics;
use crate::order::{Cell, Contestant};
use crate::run::Run;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The name of the format of result files.
pub const FORMAT: &str = "hardmeter-oo1";
/// Its version.
pub const VERSION: u32 = 1;

/// The result of a comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The machine.
    pub machine: Machine,
    /// Number of rounds: in each, every mode ran twice.
    pub rounds: usize,
    /// Seed of the first round's patterns.
    pub seed: u64,
    /// Table by table.
    pub cells: Vec<CellReport>,
}

/// The machine of the measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Machine {
    pub processor: String,
    pub processors: usize,
    pub kernel: String,
    pub load_average: f64,
}

/// One table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellReport {
    /// The conditions of the run.
    #[serde(flatten)]
    pub cell: Cell,
    /// The contestants.
    pub entries: Vec<Entry>,
}

/// The results of one contestant in one table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its name on the command line.
    pub name: String,
    /// Its mode.
    pub mode: String,
    /// Whether it prefetched.
    pub prefetch: bool,
    /// Whether that can be compared.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Two runs per round, in order.
    pub runs: Vec<RoundRun>,
}

/// A run, and its round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RoundRun {
    /// Number of the round, from 0.
    pub round: usize,
    /// The program's output.
    #[serde(flatten)]
    pub run: Run,
}

/// Whether what a contestant did can be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Outcome {
    /// It visited the same parts as the others.
    Sound,
    /// It visited other parts than the others.
    Wrong { seed: u64, checksum: String, expected: String },
    /// It failed.
    Failed { reason: String, remedy: String },
    /// This machine cannot run it.
    CannotHere { reason: String, remedy: String },
    /// It lacks this layout, measure or option.
    Lacks { what: String },
}

impl Entry {
    /// An entry without runs.
    pub fn new(contestant: &Contestant) -> Entry {
        Entry {
            name: contestant.to_string(),
            mode: contestant.mode.clone(),
            prefetch: contestant.prefetch,
            outcome: Outcome::Sound,
            runs: Vec::new(),
        }
    }

    /// Whether it takes part in comparisons.
    pub fn is_sound(&self) -> bool {
        self.outcome == Outcome::Sound && !self.runs.is_empty()
    }

    /// Any of its runs, for values that are equal in all of them.
    pub fn first_run(&self) -> Option<&Run> {
        self.runs.first().map(|run| &run.run)
    }
}

impl CellReport {
    /// The entries that can be compared.
    pub fn sound(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_sound())
    }

    /// Finds contestants with differing checksums. The checksum of most contestants is right; in a tie, the
    /// first one's: plain pointers come first.
    pub fn judge(&mut self) {
        let mut votes: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !matches!(entry.outcome, Outcome::Failed { .. })) {
            let mut own: Vec<(u64, &str)> =
                entry.runs.iter().map(|run| (run.run.seed, run.run.checksum.as_str())).collect();
            own.sort_unstable();
            own.dedup();
            for (seed, checksum) in own {
                let of_seed = votes.entry(seed).or_default();
                match of_seed.iter_mut().find(|(known, _)| known == checksum) {
                    Some((_, count)) => *count += 1,
                    None => of_seed.push((checksum.to_owned(), 1)),
                }
            }
        }
        let right: BTreeMap<u64, String> = votes
            .into_iter()
            .filter_map(|(seed, votes)| {
                let most = votes.iter().map(|(_, count)| *count).max()?;
                let (checksum, _) = votes.into_iter().find(|(_, count)| *count == most)?;
                Some((seed, checksum))
            })
            .collect();
        for entry in self.entries.iter_mut().filter(|entry| entry.outcome == Outcome::Sound) {
            let wrong = entry.runs.iter().find(|run| right.get(&run.run.seed) != Some(&run.run.checksum));
            if let Some(RoundRun { run, .. }) = wrong {
                let expected = right.get(&run.seed).cloned().unwrap_or_default();
                entry.outcome = Outcome::Wrong { seed: run.seed, checksum: run.checksum.clone(), expected };
            }
        }
    }
}

impl Report {
    /// Whether every contestant ran, and visited the same parts. Modes that this machine cannot run, or without the
    /// measure, do not count.
    pub fn is_sound(&self) -> bool {
        let fault = |entry: &Entry| matches!(entry.outcome, Outcome::Wrong { .. } | Outcome::Failed { .. });
        !self.cells.iter().any(|cell| cell.entries.iter().any(fault))
    }

    /// The complete report, with derived medians, ratios and intervals.
    pub fn to_json(&self) -> Value {
        let mut value = json!(self);
        for (at, cell) in self.cells.iter().enumerate() {
            for (of, entry) in cell.entries.iter().enumerate() {
                value["cells"][at]["entries"][of]["metrics"] = json!(metrics::of_entry(cell, entry));
            }
        }
        value
    }

    /// Reads a result file.
    ///
    /// # Errors
    ///
    /// [`Oo1Error`] if the file cannot be read, or is not a result of a known version.
    pub fn read(path: &Path) -> Result<Report, Oo1Error> {
        let text = std::fs::read(path).map_err(io_error("read", path))?;
        let bad = |reason: String| Oo1Error::BadResult { path: path.into(), reason };
        let value: Value = serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if value["format"] != FORMAT {
            return Err(bad(format!("its format is {}, not {FORMAT}", value["format"])));
        }
        if value["version"] != VERSION {
            return Err(bad(format!(
                "it is of version {}, and this program reads {VERSION}",
                value["version"]
            )));
        }
        serde_json::from_value(value).map_err(|error| bad(error.to_string()))
    }

    /// Writes the report to a file atomically.
    ///
    /// # Errors
    ///
    /// [`Oo1Error`] if the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Oo1Error> {
        let mut text = serde_json::to_vec_pretty(&self.to_json())
            .map_err(|error| Oo1Error::BadResult { path: path.into(), reason: error.to_string() })?;
        text.push(b'\n');
        write_whole(path, &text)
    }
}

/// Writes a file atomically.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Oo1Error> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(io_error("write", path))
}

impl Machine {
    /// This one.
    pub fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let information = read("/proc/cpuinfo");
        let named = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let load = read("/proc/loadavg");
        Machine {
            processor: named.map_or("unknown processor", |(_, name)| name).to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load_average: load.split(' ').next().and_then(|value| value.parse().ok()).unwrap_or(0.0),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::order::{Graph, Layout, Measure, PageCache, Protocol};
    use crate::run::tests::run;

    pub(crate) const CELL: Cell = Cell {
        graph: Graph { parts: 20_000, locality: true, seed: 1 },
        layout: Layout::Oo1,
        measure: Measure::Traversal,
        protocol: Protocol::Texas,
        page_cache: PageCache::Hot,
        memory_bytes: None,
    };

    /// An entry of six rounds, two equal runs in each. In the second round the machine is half as fast.
    pub(crate) fn entry(mode: &str, cold: f64, warm: [f64; 2], hot: [f64; 2]) -> Entry {
        let mut entry = Entry::new(&mode.parse().unwrap());
        for round in 0..6 {
            let slow = if round == 1 { 2.0 } else { 1.0 };
            let mut one = run(mode, cold * slow, warm.map(|ms| ms * slow), hot.map(|ms| ms * slow));
            one.seed = 7 + round as u64;
            one.checksum = format!("sum of {}", one.seed);
            entry.runs.extend([one.clone(), one].map(|run| RoundRun { round, run }));
        }
        entry
    }

    pub(crate) fn report(entries: Vec<Entry>) -> Report {
        let machine = Machine {
            processor: "a processor".into(),
            processors: 2,
            kernel: "6.18".into(),
            load_average: 0.5,
        };
        let cells = vec![CellReport { cell: CELL, entries }];
        Report { format: FORMAT.into(), version: VERSION, machine, rounds: 6, seed: 7, cells }
    }

    fn with_checksum(mode: &str, checksum: &str) -> Entry {
        let mut entry = entry(mode, 1.0, [1.0; 2], [1.0; 2]);
        for run in &mut entry.runs[4..6] {
            run.run.checksum = checksum.into();
        }
        entry
    }

    #[test]
    fn whoever_visits_something_else_is_named() {
        let honest = |mode: &str| with_checksum(mode, "sum of 9");
        let mut report = report(vec![honest("e"), with_checksum("texas", "ffff"), honest("offset")]);
        assert!(report.is_sound());
        report.cells[0].judge();
        assert!(!report.is_sound());
        let outcomes: Vec<bool> = report.cells[0].entries.iter().map(Entry::is_sound).collect();
        assert_eq!(outcomes, [true, false, true]);
        let wrong = Outcome::Wrong { seed: 9, checksum: "ffff".into(), expected: "sum of 9".into() };
        assert_eq!(report.cells[0].entries[1].outcome, wrong);
    }

    #[test]
    fn between_two_the_first_is_right() {
        let mut report = report(vec![with_checksum("plain", "a"), with_checksum("texas", "b")]);
        report.cells[0].judge();
        assert_eq!(report.cells[0].entries[0].outcome, Outcome::Sound);
        assert!(matches!(report.cells[0].entries[1].outcome, Outcome::Wrong { .. }));
    }

    #[test]
    fn a_result_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        let report = report(vec![entry("plain", 4.0, [1.0, 3.0], [0.656; 2])]);
        report.write(&path).unwrap();
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(
            (value["format"].as_str(), value["cells"][0]["parts"].as_u64()),
            (Some(FORMAT), Some(20_000))
        );
        assert_eq!(value["cells"][0]["entries"][0]["outcome"], "sound");
        assert_eq!(value["cells"][0]["entries"][0]["metrics"][0]["name"], "first");
        let again = Report::read(&path).unwrap();
        assert_eq!(json!(again), json!(report));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
        std::fs::write(&path, r#"{"format": "hardmeter-tpch", "version": 1}"#).unwrap();
        let error = Report::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("its format is \"hardmeter-tpch\", not hardmeter-oo1"), "{error}");
    }
}
