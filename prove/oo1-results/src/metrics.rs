//! Metrics of runs: one number per run for each kind of unit, medians of rounds, ratios within rounds.
//!
//! ```text
//! first / cold   the first unit, wall ms            (first: with a hot page cache; cold: without)
//! warm           mean of the units after it, wall ms
//! total          first or cold and warm together, wall ms
//! hot, repeat    median unit, CPU ns a visit        (no unit waits for a disk; others on the machine disturb less)
//! mixed          mean unit of a hot set, wall ms
//! commit/raw     median of a commit to the append of as many bytes beside it
//! ```

use crate::modes::{self, Family};
use crate::order::{Measure, PageCache};
use crate::report::{CellReport, Entry};
use crate::run::{Phase, Run};
use hardmeter_evidence::Median;
use serde::Serialize;

/// A metric of a contestant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `ms`, `ns/visit`, or `x`.
    pub unit: &'static str,
    /// Over rounds.
    pub median: Median,
    /// The mean of the two runs of each round.
    pub rounds: Vec<f64>,
    /// Its ratio to plain pointers by the same compiler, if measured.
    pub to_plain: Option<Ratio>,
    /// Its ratio to the faster form of Texas, if measured.
    pub to_texas: Option<Ratio>,
}

/// A ratio, round by round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratio {
    /// The mode that it is compared with.
    pub to: String,
    /// The median over rounds.
    pub median: Median,
    /// Round by round.
    pub rounds: Vec<f64>,
}

/// The kinds of numbers that a table has, with their units.
pub fn names(cell: &CellReport) -> Vec<(&'static str, &'static str)> {
    let mut names = Vec::new();
    for run in cell.sound().filter_map(Entry::first_run) {
        for (name, unit, _) in of_run(cell, run) {
            if !names.contains(&(name, unit)) {
                names.push((name, unit));
            }
        }
    }
    names
}

/// The metrics of an entry; empty if it is not sound.
pub fn of_entry(cell: &CellReport, entry: &Entry) -> Vec<Metric> {
    if !entry.is_sound() {
        return Vec::new();
    }
    let metric = |(name, unit)| {
        let rounds = rounds(cell, entry, name);
        let ratio = |to: Option<&Entry>| to.and_then(|to| ratio(cell, entry, to, name));
        Some(Metric {
            name,
            unit,
            median: Median::of(&rounds)?,
            to_plain: ratio(plain_for(cell, entry)),
            to_texas: ratio(best(cell, Family::Texas, name)),
            rounds,
        })
    };
    names(cell).into_iter().filter_map(metric).collect()
}

/// One number of an entry.
pub fn median(cell: &CellReport, entry: &Entry, name: &str) -> Option<Median> {
    Median::of(&rounds(cell, entry, name))
}

/// The ratio of two entries.
pub fn ratio(cell: &CellReport, entry: &Entry, to: &Entry, name: &str) -> Option<Ratio> {
    let (ours, theirs) = (rounds(cell, entry, name), rounds(cell, to, name));
    let rounds: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    Some(Ratio { to: to.name.clone(), median: Median::of(&rounds)?, rounds })
}

/// The member of a family that is the fastest by a number.
pub fn best<'a>(cell: &'a CellReport, family: Family, name: &str) -> Option<&'a Entry> {
    let members = cell.sound().filter(|entry| modes::family(&entry.mode) == family);
    let with_value = members.filter_map(|entry| Some((entry, median(cell, entry, name)?.value)));
    with_value.min_by(|left, right| left.1.total_cmp(&right.1)).map(|(entry, _)| entry)
}

/// Plain pointers by an entry's compiler, else by the other one. `plain`, which makes one call per visit as all
/// modes do, is preferred to `plain-inline`.
fn plain_for<'a>(cell: &'a CellReport, entry: &Entry) -> Option<&'a Entry> {
    let clang =
        |entry: &Entry| entry.first_run().is_some_and(|run| run.compiler.to_lowercase().contains("clang"));
    let plain = || cell.sound().filter(|other| modes::family(&other.mode) == Family::Plain);
    plain().find(|other| clang(other) == clang(entry)).or_else(|| plain().next())
}

/// By round: the mean of its runs.
fn rounds(cell: &CellReport, entry: &Entry, name: &str) -> Vec<f64> {
    let last = entry.runs.iter().map(|run| run.round).max().map_or(0, |last| last + 1);
    let of_round = |round: usize| {
        let values: Vec<f64> = entry
            .runs
            .iter()
            .filter(|run| run.round == round)
            .filter_map(|run| value(cell, &run.run, name))
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    (0..last).filter_map(of_round).collect()
}

fn value(cell: &CellReport, run: &Run, name: &str) -> Option<f64> {
    of_run(cell, run).into_iter().find(|(known, ..)| *known == name).map(|(.., value)| value)
}

/// The numbers of one run, in the order of tables.
fn of_run(cell: &CellReport, run: &Run) -> Vec<(&'static str, &'static str, f64)> {
    let wall = |name: &str| run.phase(name).map(ms);
    let hot = cell.cell.page_cache == PageCache::Hot;
    let mut numbers = Vec::new();
    let cold = wall("cold").and_then(|cold| cold.first().copied());
    if let Some(cold) = cold {
        numbers.push((if hot { "first" } else { "cold" }, "ms", cold));
    }
    if let Some(warm) = wall("warm") {
        if let Some(mean) = mean(&warm) {
            numbers.push(("warm", "ms", mean));
        }
        numbers.push(("total", "ms", cold.unwrap_or(0.0) + warm.iter().sum::<f64>()));
    }
    if let Some(mean) = wall("first").as_deref().and_then(mean) {
        numbers.push(("new", "ms", mean));
    }
    for (phase, name) in [("hot", "hot"), ("repeat", "repeat"), ("repeat-first", "repeat-first")] {
        if let Some(value) = run.phase(phase).and_then(|phase| per_visit(run, phase)) {
            numbers.push((name, "ns/visit", value));
        }
    }
    if let Some(mean) = wall("mixed").as_deref().and_then(mean) {
        numbers.push(("mixed", "ms", mean));
    }
    // Inserts that are not durable have no comparable commit.
    if cell.cell.measure == Measure::Insert && run.durable != Some(false) {
        let commits: Vec<f64> = run.phases.iter().flat_map(|phase| phase.wall_ns.iter().copied()).collect();
        let ratios: Vec<f64> = commits.iter().zip(&run.raw_wall_ns).map(|(ours, raw)| ours / raw).collect();
        if let Some(ratio) = Median::of(&ratios) {
            numbers.push(("commit/raw", "x", ratio.value));
        }
    }
    numbers
}

fn ms(phase: &Phase) -> Vec<f64> {
    phase.wall_ns.iter().map(|ns| ns / phase.repeats.max(1) as f64 / 1e6).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// CPU time a visit of the median unit.
fn per_visit(run: &Run, phase: &Phase) -> Option<f64> {
    let unit = Median::of(&phase.cpu_ns)?.value / phase.repeats.max(1) as f64;
    let visits = mean(&run.visited.iter().map(|visited| *visited as f64).collect::<Vec<_>>())?;
    (visits > 0.0).then(|| unit / visits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{entry, report};

    fn metric(metrics: &[Metric], name: &str) -> Metric {
        metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    #[test]
    fn numbers_can_be_reckoned_by_hand() {
        let report = report(vec![
            entry("plain", 4.0, [1.0, 3.0], [0.0131, 0.0133]),
            entry("texas", 8.0, [2.0, 6.0], [0.02624; 2]),
            entry("texas-uffd", 6.0, [4.0, 5.0], [0.02624; 2]),
        ]);
        let cell = &report.cells[0];
        assert_eq!(names(cell), [("first", "ms"), ("warm", "ms"), ("total", "ms"), ("hot", "ns/visit")]);
        let plain = of_entry(cell, &cell.entries[0]);
        assert_eq!(metric(&plain, "first").rounds, [4.0, 8.0, 4.0, 4.0, 4.0, 4.0], "the slow round");
        assert_eq!((metric(&plain, "warm").median.value, metric(&plain, "total").median.value), (2.0, 8.0));
        // CPU time is half of wall time here: the median of 6550 and 6650 ns, by 3280 visits.
        assert!((metric(&plain, "hot").median.value - 6600.0 / 3280.0).abs() < 1e-9);
        // Texas by userfaultfd is faster at first (6 ms) and in total (15 to 16 ms), by mprotect when warm (4 to 4.5 ms).
        let to = |name: &str| metric(&plain, name).to_texas.unwrap();
        assert_eq!((to("first").to.as_str(), to("first").median.value), ("texas-uffd", 4.0 / 6.0));
        assert_eq!((to("warm").to.as_str(), to("warm").median.value), ("texas", 0.5));
        assert_eq!((to("total").to.as_str(), to("total").median.value), ("texas-uffd", 8.0 / 15.0));
        let interval = to("warm").median.interval_95.unwrap();
        assert_eq!(
            (interval.low, interval.high, to("warm").median.n),
            (0.5, 0.5, 6),
            "no noise within rounds"
        );
        assert_eq!(metric(&of_entry(cell, &cell.entries[1]), "first").to_plain.unwrap().median.value, 2.0);
    }

    #[test]
    fn plain_is_of_the_same_compiler() {
        let mut report = report(vec![
            entry("plain", 1.0, [1.0; 2], [4.0; 2]),
            entry("plain-clang", 1.0, [1.0; 2], [2.0; 2]),
            entry("p3l-plugin", 1.0, [1.0; 2], [2.0; 2]),
            entry("p3l-pptr-gcc", 1.0, [1.0; 2], [2.0; 2]),
        ]);
        for at in [1, 2] {
            for run in &mut report.cells[0].entries[at].runs {
                run.run.compiler = "Debian Clang 19.1.7".into();
            }
        }
        let cell = &report.cells[0];
        let to = |at: usize| metric(&of_entry(cell, &cell.entries[at]), "hot").to_plain.unwrap();
        assert_eq!((to(2).to.as_str(), to(2).median.value), ("plain-clang", 1.0));
        assert_eq!((to(3).to.as_str(), to(3).median.value), ("plain", 0.5));
    }

    #[test]
    fn commits_are_measured_by_the_appends_beside_them() {
        let mut report = report(vec![entry("p3l-macros", 3.0, [6.0, 9.0], [1.0; 2])]);
        report.cells[0].cell.measure = Measure::Insert;
        for run in &mut report.cells[0].entries[0].runs {
            run.run.phases.retain(|phase| phase.name != "hot");
            let slow = if run.round == 1 { 2.0 } else { 1.0 };
            run.run.raw_wall_ns = [2e6, 5e6, 3e6].map(|ns| ns * slow).into();
        }
        let cell = &report.cells[0];
        let raw = metric(&of_entry(cell, &cell.entries[0]), "commit/raw");
        assert_eq!((raw.median.value, raw.unit), (1.5, "x"), "of 1.5, 1.2 and 3");
        for run in &mut report.cells[0].entries[0].runs {
            run.run.durable = Some(false);
        }
        assert!(
            names(&report.cells[0]).iter().all(|(name, _)| *name != "commit/raw"),
            "nothing was committed"
        );
    }
}
