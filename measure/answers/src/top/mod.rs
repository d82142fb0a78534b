//! Which code misses most: samples counted by any combination of columns.
//!
//! Counting and naming are separate. While samples stream in, they are counted under packed keys: event, mode,
//! place and the columns that need only the sample. At the end the distinct places are named, and the groups merged
//! by name.

mod value;

pub use value::Value;

use crate::code::{CodeMap, ImageId, Place, Routine, SourceLine};
use crate::column::{Dimension, SortBy};
use crate::estimate::Share;
use crate::key_table::KeyTable;
use crate::latency::{Latencies, LatencySummary, StallShare};
use crate::objects::ObjectIndex;
use crate::pass::{Located, Pass, ProcessNameId};
use crate::tally::Tally;
use crate::totals::NamedShare;
use hardmeter_samples::model::{CpuMode, Cycles, EventIndex, FileOffset, Period, Sample, StatementId};
use hardmeter_samples::object_notes::{ObjectPath, TextId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Ordering;
use std::sync::Arc;
use value::{pack, unpack, ABSENT};

/// Columns, limits and order of the tables.
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// The grouping columns, in the order they are shown.
    pub by: Vec<Dimension>,
    /// Rows to keep per table; `None` keeps all.
    pub limit: Option<usize>,
    /// Order of the rows.
    pub sort: SortBy,
    /// Whether to compute medians: they need memory for each distinct latency of each group.
    pub medians: bool,
    /// Bytes of a cache line, a power of two.
    pub line_size: u32,
}

impl Default for TopOptions {
    /// The defaults of the paper's tables 5 and 6: ten addresses with their routines.
    fn default() -> Self {
        TopOptions {
            by: Dimension::Address.with_companions(),
            limit: Some(10),
            sort: SortBy::Count,
            medians: false,
            line_size: 64,
        }
    }
}

/// One row of a table: a group of samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its value in each of the table's columns.
    pub values: Vec<Value>,
    /// Its samples, of all in the table.
    pub share: Share,
    /// Events that the samples stand for (sum of periods).
    pub events: Period,
    /// Their latencies.
    pub latency: LatencySummary,
}

/// The samples of one event (or of all, when grouped by event), in groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// The event; `None` when the event is a column.
    pub event: Option<EventIndex>,
    /// The grouping columns.
    pub columns: Vec<Dimension>,
    /// Samples in the table, including rows beyond the limit: the n of every share.
    pub total: u64,
    /// Events that the samples stand for (sum of periods).
    pub events: Period,
    /// The latencies of all its samples.
    pub latency: LatencySummary,
    /// The rows, at most `limit`.
    pub rows: Vec<Row>,
    /// Number of rows beyond the limit.
    pub more_rows: u64,
    /// Samples in rows beyond the limit.
    pub more_samples: u64,
}

/// The samples of one event in a routine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutineSum {
    /// The event.
    pub event: EventIndex,
    /// The routine.
    pub routine: Arc<str>,
    /// Its program or library.
    pub image: Option<Arc<str>>,
    /// Its samples, of all of the event.
    pub share: Share,
    /// Its share of the event's exposed latency, where the tables are ordered by it.
    #[serde(flatten)]
    pub stall: Option<StallShare>,
}

// The packed key:   event | mode | image | offset | one word per column of the sample's own
//                                 `--- only when a column needs the place
const EVENT: usize = 0;
const MODE: usize = 1;
const PLACE: usize = 2;

/// Counts samples by columns.
pub struct Top {
    options: TopOptions,
    /// The columns that need only the sample, in the order of their words.
    own: Vec<Dimension>,
    has_place: bool,
    keys: KeyTable,
    tallies: Vec<Tally>,
    /// (row, latency) to samples; empty without medians.
    latencies: FxHashMap<(u32, u64), u64>,
    scratch: Vec<u64>,
}

impl Top {
    /// An empty count.
    pub fn new(options: TopOptions) -> Self {
        let has_place = options.by.iter().any(|dimension| dimension.needs_place());
        let own: Vec<Dimension> =
            options.by.iter().copied().filter(|d| !d.needs_place() && *d != Dimension::Event).collect();
        let width = PLACE + if has_place { 2 } else { 0 } + own.len();
        Top {
            options,
            own,
            has_place,
            keys: KeyTable::new(width),
            tallies: Vec::new(),
            latencies: FxHashMap::default(),
            scratch: Vec::with_capacity(width),
        }
    }

    /// Counts one sample. `pass` provides statements and roles, `located` the object.
    pub fn add_with<M: CodeMap>(&mut self, sample: &Sample<'_>, located: Located, pass: &mut Pass<M>) {
        let statement = self.own.contains(&Dimension::Statement).then(|| pass.statements().of_sample(sample));
        let role = pass.objects().role_of(sample);
        self.add_known(sample, located, Known { statement: statement.flatten(), role });
    }

    /// Counts one sample, without its statement and role.
    pub fn add(&mut self, sample: &Sample<'_>, located: Located) {
        self.add_known(sample, located, Known::default());
    }

    fn add_known(&mut self, sample: &Sample<'_>, located: Located, known: Known) {
        self.scratch.clear();
        self.scratch.extend([sample.event.0 as u64, sample.mode as u64]);
        if self.has_place {
            let place = located.place.unwrap_or(NO_PLACE);
            self.scratch.extend([u64::from(place.image.0), place.offset.0]);
        }
        for dimension in &self.own {
            self.scratch.push(match dimension {
                Dimension::Process => located.process.map_or(ABSENT, |id| u64::from(id.0)),
                Dimension::Class | Dimension::Object | Dimension::Part => {
                    located.object.map_or(ABSENT, |object| pack_object(*dimension, object.path))
                }
                Dimension::Statement => known.statement.map_or(ABSENT, |statement| statement.0),
                Dimension::Role => known.role.map_or(ABSENT, |role| u64::from(role.0)),
                _ => pack(*dimension, sample, self.options.line_size),
            });
        }
        let row = self.keys.number(&self.scratch);
        if row == self.tallies.len() {
            self.tallies.push(Tally::default());
        }
        self.tallies[row].add(sample);
        if let Some(weight) = sample.weight.filter(|_| self.options.medians) {
            *self.latencies.entry((row as u32, weight.latency.0)).or_default() += 1;
        }
    }

    /// Names the places and builds one table per event of `events` (a single one when the event is a column).
    /// `events` are the event names, in the order of their index.
    pub fn tables<M: CodeMap>(&self, pass: &mut Pass<M>, events: &[Arc<str>]) -> Vec<Table> {
        let mut groups = Groups::new(self);
        let mut names = Names::default();
        for row in 0..self.keys.len() {
            groups.add(row, pass, &mut names);
        }
        for ((row, latency), count) in &self.latencies {
            groups.add_latency(*row as usize, Cycles(*latency), *count);
        }
        if groups.event_is_column {
            return vec![groups.table(None, pass, &mut names, events)];
        }
        (0..events.len())
            .map(|event| groups.table(Some(EventIndex(event)), pass, &mut names, events))
            .collect()
    }

    /// The routines of each event that cost most, `limit` of an event; none if no column needed places, or if places are
    /// named by the table itself.
    pub fn routines<M: CodeMap>(&self, pass: &mut Pass<M>, limit: usize) -> Vec<RoutineSum> {
        let by_address = self.options.by.contains(&Dimension::Address);
        if !self.has_place || !by_address || self.options.by.contains(&Dimension::Event) {
            return Vec::new();
        }
        let mut names = Names::default();
        let mut all: FxHashMap<u64, Tally> = FxHashMap::default();
        let mut sums: FxHashMap<(u64, Arc<str>, ImageId), Tally> = FxHashMap::default();
        for row in 0..self.keys.len() {
            let (key, tally) = (self.keys.key(row), &self.tallies[row]);
            all.entry(key[EVENT]).or_default().merge(tally);
            if let Routine::Named(name) = names.routine(pass, place_of(key)) {
                sums.entry((key[EVENT], name, place_of(key).image)).or_default().merge(tally);
            }
        }
        let size = |tally: &Tally| match self.options.sort {
            SortBy::TotalLatency => (tally.latencies.sum, tally.count),
            _ => (tally.count, 0),
        };
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|((_, a, _), x), ((_, b, _), y)| size(y).cmp(&size(x)).then_with(|| a.cmp(b)));
        let mut events: Vec<u64> = all.keys().copied().collect();
        events.sort_unstable();
        let of = |event: u64| sums.iter().filter(move |((of, ..), _)| *of == event).take(limit);
        let strongest: Vec<_> = events.iter().flat_map(|event| of(*event)).collect();
        let sum = |((event, routine, image), tally): &((u64, Arc<str>, ImageId), Tally)| RoutineSum {
            event: EventIndex(*event as usize),
            routine: routine.clone(),
            image: pass.map().image(*image).map(|image| image.path.into()),
            share: tally.share(all[event].count),
            stall: match self.options.sort {
                SortBy::TotalLatency => StallShare::of(tally.latencies, all[event].latencies),
                _ => None,
            },
        };
        strongest.into_iter().map(sum).collect()
    }

    /// Share of user-mode samples in an identified routine; `None` if no column needed places.
    pub fn named_share<M: CodeMap>(&self, pass: &mut Pass<M>) -> Option<NamedShare> {
        if !self.has_place {
            return None;
        }
        let (mut names, mut share) = (Names::default(), NamedShare::default());
        for row in 0..self.keys.len() {
            let key = self.keys.key(row);
            if key[MODE] != CpuMode::User as u64 {
                continue;
            }
            let count = self.tallies[row].count;
            share.user_samples += count;
            match names.routine(pass, place_of(key)) {
                Routine::Named(_) => share.named += count,
                Routine::Nameless(_) => share.nameless += count,
                Routine::Unknown(_) => {}
            }
        }
        Some(share)
    }
}

/// The statement and role of a sample's process, if a column needs them.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    statement: Option<StatementId>,
    role: Option<TextId>,
}

/// Packs the value of an object's column: one number of a text, for the object itself two.
fn pack_object(dimension: Dimension, path: ObjectPath) -> u64 {
    match dimension {
        Dimension::Class => path.class.0.into(),
        Dimension::Part if path.part == TextId(0) => ABSENT,
        Dimension::Part => path.part.0.into(),
        _ => u64::from(path.class.0) << 32 | u64::from(path.name.0),
    }
}

fn object_text(dimension: Dimension, word: u64, index: &ObjectIndex) -> Arc<str> {
    let text = index.text(TextId(word as u32));
    match dimension {
        Dimension::Object if text.is_empty() => index.text(TextId((word >> 32) as u32)).clone(),
        Dimension::Object => format!("{} {text}", index.text(TextId((word >> 32) as u32))).into(),
        _ => text.clone(),
    }
}

/// The place of a sample without an instruction pointer.
const NO_PLACE: Place = Place { image: ImageId::NONE, offset: FileOffset(ABSENT) };

fn place_of(key: &[u64]) -> Place {
    Place { image: ImageId(key[PLACE] as u32), offset: FileOffset(key[PLACE + 1]) }
}

/// Names looked up once per place.
#[derive(Default)]
struct Names {
    routines: FxHashMap<Place, Routine>,
    lines: FxHashMap<Place, Option<SourceLine>>,
    images: FxHashMap<ImageId, Option<Arc<str>>>,
    /// Numbers of texts, so that names can be words of a merged key.
    numbers: FxHashMap<Arc<str>, u64>,
}

impl Names {
    fn routine<M: CodeMap>(&mut self, pass: &mut Pass<M>, place: Place) -> Routine {
        self.routines.entry(place).or_insert_with(|| pass.map().routine(place)).clone()
    }

    fn line<M: CodeMap>(&mut self, pass: &mut Pass<M>, place: Place) -> Option<SourceLine> {
        self.lines.entry(place).or_insert_with(|| pass.map().line(place)).clone()
    }

    /// The text of a column that follows from the place.
    fn text<M: CodeMap>(
        &mut self,
        dimension: Dimension,
        pass: &mut Pass<M>,
        place: Place,
    ) -> Option<Arc<str>> {
        if place == NO_PLACE {
            return None;
        }
        match dimension {
            Dimension::Routine => match self.routine(pass, place) {
                Routine::Named(name) => Some(name),
                honest => Some(honest.to_string().into()),
            },
            Dimension::Line => self.line(pass, place).map(|line| line.to_string().into()),
            Dimension::File => self.line(pass, place).map(|line| line.file),
            Dimension::Image => self
                .images
                .entry(place.image)
                .or_insert_with(|| pass.map().image(place.image).map(|image| image.path.into()))
                .clone(),
            _ => unreachable!("not a name of code"),
        }
    }

    fn number(&mut self, text: Option<Arc<str>>) -> u64 {
        let Some(text) = text else { return ABSENT };
        let next = self.numbers.len() as u64;
        *self.numbers.entry(text).or_insert(next)
    }
}

/// The counted rows, merged under names.
struct Groups<'t> {
    top: &'t Top,
    event_is_column: bool,
    keys: KeyTable,
    tallies: Vec<Tally>,
    /// The lowest place of each group: breaks ties, and names the columns that follow from it.
    places: Vec<Place>,
    latencies: Vec<Latencies>,
    /// Group of each counted row.
    group_of: Vec<usize>,
}

impl<'t> Groups<'t> {
    fn new(top: &'t Top) -> Self {
        let by_address = top.options.by.contains(&Dimension::Address);
        let width = 1 + top.options.by.len() + usize::from(by_address);
        Groups {
            top,
            event_is_column: top.options.by.contains(&Dimension::Event),
            keys: KeyTable::new(width),
            tallies: Vec::new(),
            places: Vec::new(),
            latencies: Vec::new(),
            group_of: Vec::with_capacity(top.keys.len()),
        }
    }

    fn add<M: CodeMap>(&mut self, row: usize, pass: &mut Pass<M>, names: &mut Names) {
        let top = self.top;
        let key = top.keys.key(row);
        let place = if top.has_place { place_of(key) } else { NO_PLACE };
        let by_address = top.options.by.contains(&Dimension::Address);
        let mut own = key[if top.has_place { PLACE + 2 } else { PLACE }..].iter();
        let mut merged = Vec::with_capacity(2 + top.options.by.len());
        merged.push(key[EVENT]);
        for dimension in &top.options.by {
            match dimension {
                Dimension::Event => merged.push(key[EVENT]),
                Dimension::Address => merged.extend([u64::from(place.image.0), place.offset.0]),
                // The address determines it: look the name up only if the row is shown.
                follows if follows.follows_from_address() && by_address => merged.push(0),
                follows if follows.follows_from_address() => {
                    let text = names.text(*follows, pass, place);
                    merged.push(names.number(text));
                }
                _ => merged.push(*own.next().expect("a word per own column")),
            }
        }
        let group = self.keys.number(&merged);
        if group == self.tallies.len() {
            self.tallies.push(Tally::default());
            self.places.push(place);
            self.latencies.push(Latencies::default());
        }
        self.tallies[group].merge(&top.tallies[row]);
        self.places[group] = self.places[group].min(place);
        self.group_of.push(group);
    }

    fn add_latency(&mut self, row: usize, latency: Cycles, count: u64) {
        self.latencies[self.group_of[row]].add(latency, count);
    }

    fn table<M: CodeMap>(
        &self,
        event: Option<EventIndex>,
        pass: &mut Pass<M>,
        names: &mut Names,
        events: &[Arc<str>],
    ) -> Table {
        let mut groups: Vec<usize> = (0..self.keys.len())
            .filter(|group| event.is_none_or(|event| self.keys.key(*group)[EVENT] == event.0 as u64))
            .collect();
        let mut all = Tally::default();
        groups.iter().for_each(|group| all.merge(&self.tallies[*group]));
        groups.sort_unstable_by(|a, b| self.order(*a, *b));
        let kept = self.top.options.limit.unwrap_or(usize::MAX).min(groups.len());
        let more = &groups[kept..];
        Table {
            event,
            columns: self.top.options.by.clone(),
            total: all.count,
            events: all.events(),
            latency: all.latency(None),
            rows: groups[..kept]
                .iter()
                .map(|group| self.row(*group, all.count, pass, names, events))
                .collect(),
            more_rows: more.len() as u64,
            more_samples: more.iter().map(|group| self.tallies[*group].count).sum(),
        }
    }

    /// Largest first; ties by place, then by the other columns.
    fn order(&self, a: usize, b: usize) -> Ordering {
        let (x, y) = (&self.tallies[a], &self.tallies[b]);
        let mean = |t: &Tally| t.latencies.sum as f64 / t.latency_samples.max(1) as f64;
        let measure = match self.top.options.sort {
            SortBy::Count => y.count.cmp(&x.count),
            SortBy::Events => y.events.cmp(&x.events),
            SortBy::TotalLatency => y.latencies.sum.cmp(&x.latencies.sum),
            SortBy::MeanLatency => mean(y).total_cmp(&mean(x)),
            SortBy::MedianLatency => self.latencies[b].median().cmp(&self.latencies[a].median()),
            SortBy::Key => Ordering::Equal,
        };
        measure
            .then_with(|| self.places[a].cmp(&self.places[b]))
            .then_with(|| self.keys.key(a).cmp(self.keys.key(b)))
    }

    fn row<M: CodeMap>(
        &self,
        group: usize,
        total: u64,
        pass: &mut Pass<M>,
        names: &mut Names,
        events: &[Arc<str>],
    ) -> Row {
        let key = self.keys.key(group);
        let (tally, place) = (&self.tallies[group], self.places[group]);
        let mut words = key[1..].iter();
        let mut next = || *words.next().expect("a word per column");
        let mut values = Vec::with_capacity(self.top.options.by.len());
        for dimension in &self.top.options.by {
            let word = next();
            values.push(match dimension {
                Dimension::Event => events.get(word as usize).cloned().map_or(Value::Absent, Value::Text),
                Dimension::Process if word != ABSENT => {
                    Value::Text(pass.process_name(ProcessNameId(word as u32)))
                }
                Dimension::Class | Dimension::Object | Dimension::Part | Dimension::Role
                    if word != ABSENT =>
                {
                    Value::Text(object_text(*dimension, word, pass.objects()))
                }
                Dimension::Statement if word != ABSENT => {
                    Value::Text(pass.statements().text(StatementId(word)))
                }
                Dimension::Address => {
                    next(); // a place has two words in the key
                    if place == NO_PLACE {
                        Value::Absent
                    } else {
                        Value::Address(pass.map().address(place).0)
                    }
                }
                follows if follows.follows_from_address() => {
                    names.text(*follows, pass, place).map_or(Value::Absent, Value::Text)
                }
                own => unpack(*own, word, self.top.options.line_size),
            });
        }
        let median = if self.top.options.medians { self.latencies[group].median() } else { None };
        Row { values, share: tally.share(total), events: tally.events(), latency: tally.latency(median) }
    }
}

#[cfg(test)]
mod tests;
