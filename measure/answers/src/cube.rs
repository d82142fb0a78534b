//! Samples grouped by every dimension that a reader can filter by: event, statement, object, cause, call
//! path, time. A view that is redrawn with each filter, such as the HTML report, adds up rows instead of
//! walking the capture again.
//!
//! # Invariants
//!
//! 1. The rows' samples add up to the samples that were added, whatever was merged.
//! 2. Time has at most [`STEPS`] steps of equal length, a power of two of nanoseconds. When a sample is later than the
//!    last step, the length doubles and rows are merged: memory grows with the distinct rows, not with the duration.
//! 3. [`CubeRows::bounded`] merges in a fixed order until the rows fit, and reports each step: the length of time, rare
//!    call paths, the rest of the time, parts of objects.

use crate::code::{CodeMap, Place};
use crate::key_table::KeyTable;
use crate::pass::{Located, Pass};
use crate::stacks::{callers, StackId, Stacks};
use crate::why::Cause;
use hardmeter_samples::model::{Sample, StatementId};
use hardmeter_samples::object_notes::{ObjectPath, TextId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// Time has at most this many steps.
pub const STEPS: u64 = 256;
/// The first length of a step: 2 to this power, in nanoseconds.
const FIRST_SHIFT: u32 = 16;
/// Time is merged to this many steps before call paths are.
const STEPS_KEPT: u64 = 32;
/// Call paths of fewer samples than this are merged at most.
const RARE_AT_MOST: u64 = 1 << 20;

/// A merge that reduced the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "merged", rename_all = "kebab-case")]
pub enum Coarsening {
    /// Time has steps of this many nanoseconds now.
    Time {
        /// The length of a step.
        step_ns: u64,
    },
    /// Call paths with few samples were added to those of their callers.
    RarePaths {
        /// The limit: fewer samples than this.
        samples: u64,
    },
    /// Parts of objects are counted for their objects.
    Parts,
}

/// A part of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CubeObject {
    /// "table", "lightweight lock".
    pub class: Arc<str>,
    /// Its name; may be empty.
    pub name: Arc<str>,
    /// The part, such as "line pointers"; may be empty.
    pub part: Arc<str>,
}

/// A frame of a call path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CubeFrame {
    /// The routine, or the phrase of [`crate::Routine::text`].
    pub routine: String,
    /// Its image's path; empty if the address lies in no image.
    pub image: String,
    /// The instruction within the image, where frames are instructions.
    pub instruction: Option<u64>,
}

/// Steps of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CubeTime {
    /// The first sample's time, in nanoseconds.
    pub begin_ns: u64,
    /// The length of a step.
    pub step_ns: u64,
    /// Number of steps.
    pub steps: u64,
}

/// Samples with equal values in every dimension. Numbers index the lists of a [`CubeRows`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CubeKey {
    /// The event.
    pub event: u32,
    /// The statement, where one ran.
    pub statement: Option<u32>,
    /// The object, where the sample has a data address.
    pub object: Option<u32>,
    /// The cause, where the simulator recorded it.
    pub cause: Option<Cause>,
    /// The call path.
    pub path: Option<u32>,
    /// The step of time.
    pub time: u32,
}

/// The sums over a row's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CubeSum {
    /// Samples.
    pub samples: u64,
    /// Events that they stand for: the sum of their periods.
    pub events: u64,
    /// Latency in cycles, weighted: the sum of latency times period; 0 if no latency was recorded.
    pub cycles: u64,
    /// The sum of the squares of the samples' events, for the error of a share.
    #[serde(skip)]
    pub event_squares: f64,
    /// The same of their cycles.
    #[serde(skip)]
    pub cycle_squares: f64,
}

impl CubeSum {
    fn of_sample(period: u64, latency: u64) -> CubeSum {
        let cycles = latency.saturating_mul(period);
        CubeSum {
            samples: 1,
            events: period,
            cycles,
            event_squares: (period as f64).powi(2),
            cycle_squares: (cycles as f64).powi(2),
        }
    }

    fn add(&mut self, other: CubeSum) {
        self.event_squares += other.event_squares;
        self.cycle_squares += other.cycle_squares;
        self.samples += other.samples;
        self.events = self.events.saturating_add(other.events);
        self.cycles = self.cycles.saturating_add(other.cycles);
    }
}

/// All rows, with the lists that they point into.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CubeRows {
    /// The statements.
    pub statements: Vec<StatementId>,
    /// The objects.
    pub objects: Vec<CubeObject>,
    /// The frames.
    pub frames: Vec<CubeFrame>,
    /// Call paths as a prefix tree: the index of the caller's path, which is lower than this one's, and the
    /// innermost frame.
    pub paths: Vec<(Option<u32>, u32)>,
    /// Time.
    pub time: CubeTime,
    /// The rows, in order of their keys.
    pub rows: Vec<(CubeKey, CubeSum)>,
    /// The merges that reduced the number of rows.
    pub coarsened: Vec<Coarsening>,
}

/// Counts samples by every dimension.
pub struct Cube {
    stacks: Stacks,
    chains: bool,
    keys: KeyTable,
    sums: Vec<CubeSum>,
    begin: Option<u64>,
    shift: u32,
}

impl Default for Cube {
    fn default() -> Self {
        Cube {
            stacks: Stacks::default(),
            chains: false,
            keys: KeyTable::new(WORDS),
            sums: Vec::new(),
            begin: None,
            shift: FIRST_SHIFT,
        }
    }
}

/// Words of a key: event, cause and time; statement; class and name; part and path.
const WORDS: usize = 4;
const NO_STATEMENT: u64 = 1 << 63;
const NO_OBJECT: u64 = 1 << 62;
const TIME: u64 = 0xffff;

impl Cube {
    /// Counts a sample, in order of time.
    pub fn add<M: CodeMap>(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        object: Option<ObjectPath>,
        statement: Option<StatementId>,
        pass: &mut Pass<M>,
    ) {
        self.chains |= callers(sample).next().is_some();
        let path = self.stacks.path(sample, located, pass);
        let step = self.step(sample.time.map_or(0, |time| time.0));
        let cause = sample.simulated().as_ref().and_then(Cause::told).map_or(0, |cause| cause as u64 + 1);
        let mut key = [step | cause << 16 | (sample.event.0 as u64) << 24, 0, 0, u64::from(path.number())];
        match statement {
            Some(statement) => key[1] = statement.0,
            None => key[0] |= NO_STATEMENT,
        }
        match object {
            Some(object) => {
                key[2] = u64::from(object.class.0) << 32 | u64::from(object.name.0);
                key[3] |= u64::from(object.part.0) << 32;
            }
            None => key[0] |= NO_OBJECT,
        }
        let latency = sample.weight.map_or(0, |weight| weight.latency.0);
        self.count(&key, CubeSum::of_sample(sample.period.0, latency));
    }

    fn count(&mut self, key: &[u64; WORDS], sum: CubeSum) {
        let row = self.keys.number(key);
        if row == self.sums.len() {
            self.sums.push(CubeSum::default());
        }
        self.sums[row].add(sum);
    }

    /// The step of a time; doubles the length of steps until the time fits.
    fn step(&mut self, time: u64) -> u64 {
        let begin = *self.begin.get_or_insert(time);
        let mut doublings = 0;
        while time.saturating_sub(begin) >> (self.shift + doublings) >= STEPS {
            doublings += 1;
        }
        if doublings > 0 {
            self.shift += doublings;
            let old = std::mem::replace(&mut self.keys, KeyTable::new(WORDS));
            let sums = std::mem::take(&mut self.sums);
            for (row, sum) in sums.into_iter().enumerate() {
                let mut key: [u64; WORDS] = old.key(row).try_into().expect("keys have this width");
                key[0] = key[0] & !TIME | (key[0] & TIME) >> doublings;
                self.count(&key, sum);
            }
        }
        time.saturating_sub(begin) >> self.shift
    }

    /// The rows with names. If no sample has a call chain, each instruction is a child of its routine.
    pub fn rows<M: CodeMap>(&self, pass: &mut Pass<M>) -> CubeRows {
        let mut names = Names {
            cube: self,
            frames: Numbered::new(),
            paths: Numbered::new(),
            known: FxHashMap::default(),
        };
        let (mut statements, mut objects) = (Numbered::new(), Numbered::new());
        let mut merged: FxHashMap<CubeKey, CubeSum> = FxHashMap::default();
        for (row, sum) in self.sums.iter().enumerate() {
            let words = self.keys.key(row);
            let object = (words[0] & NO_OBJECT == 0).then(|| {
                let index = pass.objects();
                let text = |word: u64| index.text(TextId(word as u32)).clone();
                let (class, name) = (text(words[2] >> 32), text(words[2]));
                objects.number(CubeObject { class, name, part: text(words[3] >> 32) })
            });
            let key = CubeKey {
                event: (words[0] >> 24) as u32 & 0xffff,
                statement: (words[0] & NO_STATEMENT == 0).then(|| statements.number(StatementId(words[1]))),
                object,
                cause: ((words[0] >> 16 & 0xff) as usize).checked_sub(1).map(|cause| Cause::ALL[cause]),
                path: names.path(StackId::of_number(words[3] as u32), pass),
                time: (words[0] & TIME) as u32,
            };
            merged.entry(key).or_default().add(*sum);
        }
        let mut rows = CubeRows {
            statements: statements.list,
            objects: objects.list,
            frames: names.frames.list,
            paths: names.paths.list,
            time: CubeTime { begin_ns: self.begin.unwrap_or(0), step_ns: 1 << self.shift, steps: 0 },
            rows: merged.into_iter().collect(),
            coarsened: Vec::new(),
        };
        rows.tidy();
        rows
    }
}

/// Values, numbered in order of appearance.
struct Numbered<T> {
    list: Vec<T>,
    numbers: FxHashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    fn new() -> Self {
        Numbered { list: Vec::new(), numbers: FxHashMap::default() }
    }

    fn number(&mut self, value: T) -> u32 {
        let next = self.list.len() as u32;
        let list = &mut self.list;
        *self.numbers.entry(value).or_insert_with_key(|value| {
            list.push(value.clone());
            next
        })
    }
}

/// Call paths by routine, made of those by instruction.
struct Names<'c> {
    cube: &'c Cube,
    frames: Numbered<CubeFrame>,
    paths: Numbered<(Option<u32>, u32)>,
    /// Paths of routines by those of instructions.
    known: FxHashMap<StackId, u32>,
}

impl Names<'_> {
    fn path<M: CodeMap>(&mut self, stack: StackId, pass: &mut Pass<M>) -> Option<u32> {
        if stack == StackId::ROOT {
            return None;
        }
        if self.cube.chains {
            return Some(self.routines(stack, pass));
        }
        // The only frame: its parent is the routine.
        let (_, place) = self.cube.stacks.split(stack);
        let routine = self.routines(stack, pass);
        let mut frame = frame_of(place, pass);
        frame.instruction = Some(pass.map().address(place).0);
        let frame = self.frames.number(frame);
        Some(self.paths.number((Some(routine), frame)))
    }

    fn routines<M: CodeMap>(&mut self, stack: StackId, pass: &mut Pass<M>) -> u32 {
        // Search outwards from the innermost frame for a known one; iterative, since chains can be long.
        let mut unknown = Vec::new();
        let mut next = stack;
        let mut caller = None;
        while next != StackId::ROOT {
            if let Some(known) = self.known.get(&next) {
                caller = Some(*known);
                break;
            }
            let (outer, place) = self.cube.stacks.split(next);
            unknown.push((next, place));
            next = outer;
        }
        for (stack, place) in unknown.into_iter().rev() {
            let frame = self.frames.number(frame_of(place, pass));
            let path = self.paths.number((caller, frame));
            self.known.insert(stack, path);
            caller = Some(path);
        }
        caller.expect("a path that is not the root has a frame")
    }
}

fn frame_of<M: CodeMap>(place: Place, pass: &mut Pass<M>) -> CubeFrame {
    let routine = pass.map().routine(place).to_string();
    let image = pass.map().image(place.image).map_or(String::new(), |image| image.path);
    CubeFrame { routine, image, instruction: None }
}

impl CubeRows {
    /// Samples in all rows.
    pub fn samples(&self) -> u64 {
        self.rows.iter().map(|(_, sum)| sum.samples).sum()
    }

    /// At most `limit` rows, if merging gets there.
    pub fn bounded(mut self, limit: usize) -> CubeRows {
        while self.rows.len() > limit && self.time.steps > STEPS_KEPT {
            self.halve_time();
        }
        let mut rare = 2;
        while self.rows.len() > limit && rare <= RARE_AT_MOST {
            self.merge_paths(rare);
            rare *= 2;
        }
        while self.rows.len() > limit && self.time.steps > 1 {
            self.halve_time();
        }
        if self.rows.len() > limit {
            self.merge_parts();
        }
        self.tidy();
        self
    }

    fn halve_time(&mut self) {
        self.time.step_ns = self.time.step_ns.saturating_mul(2);
        self.time.steps = self.time.steps.div_ceil(2);
        self.note(Coarsening::Time { step_ns: self.time.step_ns });
        self.merge(|key| key.time /= 2);
    }

    /// Paths of fewer samples than this, with all that they call, become their callers.
    fn merge_paths(&mut self, samples: u64) {
        let mut totals = vec![0u64; self.paths.len()];
        for (key, sum) in &self.rows {
            if let Some(path) = key.path {
                totals[path as usize] += sum.samples;
            }
        }
        // Callers have lower numbers: in descending order each total is complete before it is added to its
        // caller's.
        for path in (0..self.paths.len()).rev() {
            if let Some(caller) = self.paths[path].0 {
                totals[caller as usize] += totals[path];
            }
        }
        let mut kept: Vec<Option<u32>> = Vec::with_capacity(totals.len());
        for (path, total) in totals.iter().enumerate() {
            let caller = self.paths[path].0.and_then(|caller| kept[caller as usize]);
            kept.push(if *total >= samples { Some(path as u32) } else { caller });
        }
        self.note(Coarsening::RarePaths { samples });
        self.merge(|key| key.path = key.path.and_then(|path| kept[path as usize]));
    }

    fn merge_parts(&mut self) {
        let mut whole = Numbered::new();
        let numbers: Vec<u32> = self
            .objects
            .iter()
            .map(|object| whole.number(CubeObject { part: "".into(), ..object.clone() }))
            .collect();
        self.objects = whole.list;
        self.note(Coarsening::Parts);
        self.merge(|key| key.object = key.object.map(|object| numbers[object as usize]));
    }

    /// Records a merge; a later one replaces an earlier one of the same kind.
    fn note(&mut self, step: Coarsening) {
        let kind = std::mem::discriminant(&step);
        self.coarsened.retain(|earlier| std::mem::discriminant(earlier) != kind);
        self.coarsened.push(step);
    }

    fn merge(&mut self, change: impl Fn(&mut CubeKey)) {
        let mut merged: FxHashMap<CubeKey, CubeSum> = FxHashMap::default();
        for (mut key, sum) in std::mem::take(&mut self.rows) {
            change(&mut key);
            merged.entry(key).or_default().add(sum);
        }
        self.rows = merged.into_iter().collect();
    }

    fn tidy(&mut self) {
        self.rows.sort_unstable_by_key(|(key, _)| *key);
        self.time.steps = self.rows.iter().map(|(key, _)| u64::from(key.time) + 1).max().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests;
