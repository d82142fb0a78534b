//! The comparison itself: aligns the rows of all runs, and computes rates per unit of work, intervals, and
//! differences.

use super::comparable::{check, check_work, events_compared, Incomparable};
use super::per::Per;
use super::run::{CompareColumn, CompareRun, RunRow, RunSum};
use crate::remark::Remark;
use crate::why::EventKind;
use hardmeter_evidence::{false_discovery, Change, Counted};
use hardmeter_samples::model::EventSource;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// The expected share of false ones among the rows reported as different.
pub const DISCOVERY: f64 = 0.05;
/// Rows with fewer samples on both sides together are not judged: chance alone gives 5 to 0 once in sixteen
/// times.
pub const JUDGED: u64 = 6;

/// The runs of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Their captures.
    pub files: Vec<String>,
    /// Their total work, in the comparison's unit.
    pub work: f64,
    /// Their samples.
    pub samples: u64,
}

/// A row of a table: the samples with the same names, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// The name in each column of the table; `None` if unknown for these samples.
    pub names: Vec<Option<Arc<str>>>,
    /// Samples of A and of B.
    pub samples: [u64; 2],
    /// Events per unit of work, of A and of B.
    pub rates: [f64; 2],
    /// Cycles that these events waited, per unit of work.
    pub cycles: [f64; 2],
    /// The change of the rate.
    pub change: Option<Change>,
    /// The probability of the change if the rate is the same, adjusted for the number of rows; `None` if the
    /// row is not judged.
    pub adjusted_p: Option<f64>,
    /// True if the row is reported as different.
    pub different: bool,
}

impl ComparedRow {
    /// The rate of B minus that of A.
    pub fn difference(&self) -> f64 {
        self.rates[1] - self.rates[0]
    }
}

/// The samples of an event, by some columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedTable {
    /// The columns.
    pub columns: Vec<CompareColumn>,
    /// The rows: those that differ first, by the size of their difference.
    pub rows: Vec<ComparedRow>,
    /// Number of rows that were judged.
    pub judged: usize,
    /// Number of rows reported as different.
    pub different: usize,
}

/// An event on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedEvent {
    /// Its name.
    pub name: String,
    /// The events that it counts.
    pub kind: EventKind,
    /// True if it is time: then "events" are nanoseconds.
    pub time: bool,
    /// All its samples, as a row without names.
    pub total: ComparedRow,
    /// The table by function, which is always made.
    pub functions: ComparedTable,
    /// The requested tables.
    pub tables: Vec<ComparedTable>,
}

/// Two sides, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Before.
    pub a: Side,
    /// After.
    pub b: Side,
    /// Where the samples came from.
    pub source: EventSource,
    /// The filter as text, if samples were filtered.
    pub filter: Option<String>,
    /// The unit of work of the rates.
    pub per: Per,
    /// True if both sides have several runs: the intervals then include differences between runs. Otherwise
    /// two runs are described, and only the sampling error is judged.
    pub between_runs: bool,
    /// True if all images that both sides ran are known to be the same builds.
    pub same_builds: bool,
    /// The events; those whose difference costs most come first.
    pub events: Vec<ComparedEvent>,
    /// Notes that the reader needs to interpret the comparison.
    pub notes: Vec<String>,
    /// Warnings about the captures.
    pub remarks: Vec<Remark>,
    /// Parts of the captures that could not be read.
    pub unread: Vec<String>,
}

impl Comparison {
    /// Compares the runs of A with those of B, by each list of columns.
    ///
    /// # Errors
    /// If they cannot be compared, or do not record the requested unit of work.
    pub fn of(
        a: &[CompareRun],
        b: &[CompareRun],
        tables: &[Vec<CompareColumn>],
        per: Option<Per>,
    ) -> Result<Comparison, Incomparable> {
        let mut notes = check(a, b)?;
        let (names, more) = events_compared(a, b)?;
        notes.extend(more);
        let per = per.unwrap_or_else(|| Per::choose(a.iter().chain(b)));
        check_work(per, a, b)?;
        let source = a[0].source;
        let mut events: Vec<ComparedEvent> =
            names.iter().map(|name| compared_event(a, b, name, tables, per)).collect();
        events.sort_by(|one, other| {
            other.weight().total_cmp(&one.weight()).then_with(|| one.name.cmp(&other.name))
        });
        let all = || a.iter().chain(b);
        let mut remarks: Vec<Remark> = Vec::new();
        for remark in all().flat_map(|run| &run.remarks) {
            if !remarks.contains(remark) {
                remarks.push(remark.clone());
            }
        }
        Ok(Comparison {
            a: side(a, per),
            b: side(b, per),
            source,
            filter: a[0].filter.clone(),
            per,
            between_runs: a.len() > 1 && b.len() > 1,
            same_builds: a.iter().all(|a| b.iter().all(|b| same_builds(a, b))),
            events,
            notes,
            remarks,
            unread: all()
                .flat_map(|run| run.unread.iter().map(|text| format!("{}: {text}", run.file)))
                .collect(),
        })
    }
}

impl ComparedEvent {
    /// The cost of its difference: cycles if latencies are known; events without latencies come last.
    fn weight(&self) -> f64 {
        let [a, b] = self.total.cycles;
        if a > 0.0 || b > 0.0 {
            (b - a).abs()
        } else {
            -self.total.change.map_or(1.0, |change| change.p)
        }
    }
}

/// True if no image that two runs share is known to have different builds.
fn same_builds(a: &CompareRun, b: &CompareRun) -> bool {
    a.builds.iter().all(|(image, build)| b.builds.get(image).is_none_or(|other| other == build))
}

fn side(runs: &[CompareRun], per: Per) -> Side {
    let work = |run: &CompareRun| match per {
        Per::Run | Per::Share => 1.0,
        per => run.work.get(&per).copied().unwrap_or(0.0),
    };
    Side {
        files: runs.iter().map(|run| run.file.clone()).collect(),
        work: runs.iter().map(work).sum(),
        samples: runs.iter().flat_map(|run| &run.events).map(|event| event.sum.samples).sum(),
    }
}

/// One event in all runs: how much work each did, and how many events one of its samples stands for.
struct Scale {
    work: Vec<f64>,
    weight: Vec<f64>,
    /// Number of runs that belong to side A.
    of_a: usize,
}

impl Scale {
    /// A row without its change, and the data that the change is computed from: the runs of each side.
    fn row(&self, names: Vec<Option<Arc<str>>>, sums: &[RunSum]) -> Uncompared {
        let counted = |run: usize| {
            let sum = sums[run];
            let weight = if sum.events > 0.0 { sum.squares / sum.events } else { self.weight[run] };
            Counted { events: sum.events, weight, work: self.work[run] }
        };
        let runs: Vec<Counted> = (0..sums.len()).map(counted).collect();
        let sides = [0..self.of_a, self.of_a..sums.len()];
        let work = sides.clone().map(|side| self.work[side].iter().sum::<f64>());
        let per_work = |side: usize, of: fn(&RunSum) -> f64| {
            let sum: f64 = sums[sides[side].clone()].iter().map(of).sum();
            if work[side] > 0.0 {
                sum / work[side]
            } else {
                0.0
            }
        };
        let both = |of: fn(&RunSum) -> f64| [per_work(0, of), per_work(1, of)];
        let row = ComparedRow {
            names,
            samples: sides.clone().map(|side| sums[side].iter().map(|sum| sum.samples).sum()),
            rates: both(|sum| sum.events),
            cycles: both(|sum| sum.cycles),
            change: None,
            adjusted_p: None,
            different: false,
        };
        let [before, after] = sides.map(|side| runs[side].to_vec());
        (row, (before, after))
    }
}

fn compared_event(
    a: &[CompareRun],
    b: &[CompareRun],
    name: &str,
    tables: &[Vec<CompareColumn>],
    per: Per,
) -> ComparedEvent {
    let runs: Vec<&CompareRun> = a.iter().chain(b).collect();
    let index: Vec<usize> = runs
        .iter()
        .map(|run| run.events.iter().position(|event| event.name == name).expect("an event of all runs"))
        .collect();
    let totals: Vec<RunSum> = runs.iter().zip(&index).map(|(run, event)| run.events[*event].sum).collect();
    let own = |sum: &RunSum| if sum.events > 0.0 { sum.squares / sum.events } else { 0.0 };
    // A run without samples has the period of the others.
    let widest = totals.iter().map(own).fold(0.0, f64::max).max(1.0);
    let weight = totals.iter().map(|sum| if sum.events > 0.0 { own(sum) } else { widest }).collect();
    let work = runs.iter().zip(&index).map(|(run, event)| per.work(run, *event)).collect();
    let scale = Scale { work, weight, of_a: a.len() };
    let kind = runs[0].events[index[0]].kind;
    let time =
        matches!(kind, EventKind::Stall | EventKind::OtherTime) || runs[0].source == EventSource::Timer;
    let table = |columns: &[CompareColumn]| {
        let grouped = Grouped::of(&runs, &index, columns);
        judged(columns, grouped.rows(&scale, columns))
    };
    let (total, (before, after)) = scale.row(Vec::new(), &totals);
    ComparedEvent {
        name: name.to_string(),
        kind,
        time,
        total: ComparedRow { change: Change::of(&before, &after), ..total },
        functions: table(&[CompareColumn::Function]),
        tables: tables.iter().map(|columns| table(columns)).collect(),
    }
}

/// A row, and the runs of both sides from which its change is computed.
type Uncompared = (ComparedRow, (Vec<Counted>, Vec<Counted>));

/// Tests the rows together, and sorts them.
fn judged(columns: &[CompareColumn], rows: Vec<Uncompared>) -> ComparedTable {
    let (mut rows, runs): (Vec<ComparedRow>, Vec<_>) = rows.into_iter().unzip();
    for (row, change) in rows.iter_mut().zip(Change::of_rows(&runs)) {
        row.change = change;
    }
    let tested: Vec<usize> =
        (0..rows.len()).filter(|row| rows[*row].samples.iter().sum::<u64>() >= JUDGED).collect();
    let p: Vec<f64> = tested.iter().map(|row| rows[*row].change.map_or(1.0, |change| change.p)).collect();
    for (row, adjusted) in tested.iter().zip(false_discovery(&p)) {
        rows[*row].adjusted_p = Some(adjusted);
        rows[*row].different = adjusted <= DISCOVERY;
    }
    rows.sort_by(|one, other| {
        let size = |row: &ComparedRow| row.difference().abs();
        let both = |row: &ComparedRow| row.rates[0] + row.rates[1];
        (other.different.cmp(&one.different))
            .then_with(|| size(other).total_cmp(&size(one)))
            .then_with(|| both(other).total_cmp(&both(one)))
            .then_with(|| one.names.cmp(&other.names))
    });
    let different = rows.iter().filter(|row| row.different).count();
    ComparedTable { columns: columns.to_vec(), judged: tested.len(), different, rows }
}

type Identity = Vec<Option<Arc<str>>>;

/// Samples with the same names, in all runs.
struct Group<'r> {
    /// A row of the last run that has one; its names are shown.
    row: &'r RunRow,
    sums: Vec<RunSum>,
}

struct Grouped<'r> {
    groups: Vec<Group<'r>>,
    runs: Vec<&'r CompareRun>,
}

impl<'r> Grouped<'r> {
    fn of(runs: &[&'r CompareRun], index: &[usize], columns: &[CompareColumn]) -> Grouped<'r> {
        let mut numbers: FxHashMap<Identity, usize> = FxHashMap::default();
        let mut groups: Vec<Group<'r>> = Vec::new();
        for (run, event) in
            runs.iter().zip(index).enumerate().map(|(number, (run, event))| ((number, run), *event))
        {
            let (number, run) = run;
            for row in run.rows.iter().filter(|row| row.event == event) {
                let group = *numbers.entry(identity(row, columns)).or_insert(groups.len());
                if group == groups.len() {
                    groups.push(Group { row, sums: vec![RunSum::default(); runs.len()] });
                }
                groups[group].row = row;
                groups[group].sums[number].add(row.sum);
            }
        }
        Grouped { groups, runs: runs.to_vec() }
    }

    fn rows(mut self, scale: &Scale, columns: &[CompareColumn]) -> Vec<Uncompared> {
        if columns.contains(&CompareColumn::Line) {
            self.align_moved_lines(scale.of_a, columns);
        }
        let shown = |group: &Group<'_>| {
            let name =
                |column: &CompareColumn| Some(group.row.names[*column as usize].as_ref()?.shown.clone());
            scale.row(columns.iter().map(name).collect(), &group.sums)
        };
        self.groups.iter().map(shown).collect()
    }

    /// In another build of an image, lines within a function may move. A row that is on one side only is
    /// aligned without its line, if there is only one candidate.
    fn align_moved_lines(&mut self, of_a: usize, columns: &[CompareColumn]) {
        let without: Vec<CompareColumn> =
            columns.iter().copied().filter(|column| *column != CompareColumn::Line).collect();
        let mut orphans: FxHashMap<Identity, [Vec<usize>; 2]> = FxHashMap::default();
        for (number, group) in self.groups.iter().enumerate() {
            let on = |sums: &[RunSum]| sums.iter().any(|sum| sum.samples > 0);
            let side = match (on(&group.sums[..of_a]), on(&group.sums[of_a..])) {
                (true, false) => 0,
                (false, true) => 1,
                _ => continue,
            };
            if self.rebuilt(&group.row.image, of_a) {
                orphans.entry(identity(group.row, &without)).or_default()[side].push(number);
            }
        }
        let mut gone = vec![false; self.groups.len()];
        for [of_a, of_b] in orphans.into_values() {
            let ([old], [new]) = (of_a.as_slice(), of_b.as_slice()) else { continue };
            for run in 0..self.runs.len() {
                let sum = self.groups[*old].sums[run];
                self.groups[*new].sums[run].add(sum);
            }
            gone[*old] = true;
        }
        let mut number = 0;
        self.groups.retain(|_| {
            number += 1;
            !gone[number - 1]
        });
    }

    /// True unless the sides are known to have run the same build of an image.
    fn rebuilt(&self, image: &Arc<str>, of_a: usize) -> bool {
        let (a, b) = self.runs.split_at(of_a);
        let same = |a: &&CompareRun, b: &&CompareRun| {
            a.builds.get(image).is_some_and(|build| b.builds.get(image) == Some(build))
        };
        a.iter().any(|a| b.iter().any(|b| !same(a, b)))
    }
}

fn identity(row: &RunRow, columns: &[CompareColumn]) -> Identity {
    columns.iter().map(|column| Some(row.names[*column as usize].as_ref()?.identity.clone())).collect()
}
