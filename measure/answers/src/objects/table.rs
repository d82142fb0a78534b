//! Samples counted by the object of their data address.

use super::findings::{Besides, Findings, ObjectFinding};
use super::partitions::Partitions;
use super::patterns::Patterns;
use super::{Formula, Object, ObjectIndex, ObjectSource};
use crate::estimate::Share;
use crate::key_table::KeyTable;
use crate::latency::LatencySummary;
use crate::ranking::Ranking;
use crate::tally::Tally;
use crate::why::PatternCount;
use hardmeter_samples::model::{
    CpuMode, EventIndex, MemoryOperation, MissCause, Period, Sample, StatementId,
};
use hardmeter_samples::object_notes::{ObjectPath, TextId};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// The names by which samples are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectLevel {
    /// The class.
    Class,
    /// The object's name; requires its class.
    Name,
    /// The instance, if several objects have the name; requires its name.
    Instance,
    /// The part; requires its name. Parts are summed over all instances unless [`ObjectLevel::Instance`] is
    /// requested.
    Part,
    /// The partition that the instance is in: a range of blocks, a partition of locks; requires its name.
    Partition,
}

impl ObjectLevel {
    /// Every level with its name on the command line, from general to particular.
    pub const ALL: [(ObjectLevel, &'static str); 5] = [
        (ObjectLevel::Class, "class"),
        (ObjectLevel::Name, "name"),
        (ObjectLevel::Instance, "instance"),
        (ObjectLevel::Part, "part"),
        (ObjectLevel::Partition, "partition"),
    ];

    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        ObjectLevel::ALL[self as usize].1
    }

    /// The requested levels, completed with those that they require.
    pub fn complete(wanted: &[ObjectLevel]) -> Vec<ObjectLevel> {
        let most = wanted.iter().copied().max().unwrap_or(ObjectLevel::Part);
        let levels = ObjectLevel::ALL.iter().map(|(level, _)| *level);
        levels
            .filter(|level| wanted.contains(level) || (*level <= ObjectLevel::Name && *level <= most))
            .collect()
    }
}

/// Samples of data, and how well they could be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObjectCoverage {
    /// Samples with a data address.
    pub with_address: u64,
    /// Samples without one.
    pub without_address: u64,
    /// Samples with an address that the side file names.
    pub noted: u64,
    /// Those named by the side file that were certainly there at the time of the sample.
    pub stable: u64,
    /// Samples of data (not of code) in user mode.
    pub user_data: u64,
    /// Of those, named more specifically than "shared memory" or "heap".
    pub specific: u64,
}

impl ObjectCoverage {
    /// Share of the samples named by the side file whose object was certainly there at the time.
    pub fn stable_share(&self) -> Share {
        Share { count: self.stable, total: self.noted }
    }

    /// Share of user-mode data samples with a name more specific than the kind of memory.
    pub fn specific_share(&self) -> Share {
        Share { count: self.specific, total: self.user_data }
    }
}

/// One row: the samples of all objects with equal values in the chosen columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectRow {
    /// Its name at each of the table's levels; empty if it has none.
    pub names: Vec<Arc<str>>,
    /// The value of each formula of the user.
    pub defined: Vec<Option<i64>>,
    /// Its samples, of all with an address.
    pub share: Share,
    /// If the table is by partition: its samples, among all samples of its object.
    pub of_object: Option<Share>,
    /// The part of them whose object was certainly there.
    pub stable: Share,
    /// Events that the samples stand for (sum of periods).
    pub events: Period,
    /// Their latencies.
    pub latency: LatencySummary,
    /// The most frequent pattern of its misses; `None` where none was simulated.
    pub pattern: Option<PatternCount>,
}

/// The samples of one event by object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectTable {
    /// The event.
    pub event: EventIndex,
    /// The columns.
    pub levels: Vec<ObjectLevel>,
    /// How many of its samples could be named.
    pub coverage: ObjectCoverage,
    /// The latencies of all samples with an address.
    pub latency: LatencySummary,
    /// The figure by which the rows are ordered, largest first.
    pub ranking: Ranking,
    /// The rows, in that order.
    pub rows: Vec<ObjectRow>,
    /// Number of rows beyond the limit.
    pub more_rows: u64,
    /// Samples in rows beyond the limit.
    pub more_samples: u64,
    /// The objects that cost most, by class and name, whatever the columns: those of the database first.
    pub findings: Vec<ObjectFinding>,
    /// Code and nameless memory, where they cost much.
    pub besides: Vec<Besides>,
}

/// Samples of one object, and the number of them that were certainly on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObjectTally {
    pub(super) all: Tally,
    stable: u64,
}

impl ObjectTally {
    fn merge(&mut self, other: &ObjectTally) {
        self.all.merge(&other.all);
        self.stable += other.stable;
    }
}

/// The packed form of "no value".
const ABSENT: i64 = i64::MIN;

// The packed key:   event | class | name | instance | part | one word per formula
pub(super) const NAMES: usize = 1;
const FORMULAS: usize = 5;

/// The class and name of a packed key.
fn object_of(key: &[u64]) -> (u64, u64) {
    (key[NAMES], key[NAMES + 1])
}

/// The class, name and instance of a packed key.
fn instance_of(key: &[u64]) -> (TextId, TextId, TextId) {
    let id = |level: ObjectLevel| TextId(key[NAMES + level as usize] as u32);
    (id(ObjectLevel::Class), id(ObjectLevel::Name), id(ObjectLevel::Instance))
}

/// Counts samples by object.
#[derive(Debug)]
pub struct ObjectCount {
    formulas: Vec<Formula>,
    line_size: u32,
    pub(super) keys: KeyTable,
    pub(super) tallies: Vec<ObjectTally>,
    /// By row, as the tallies.
    pub(super) patterns: Vec<Patterns>,
    coverage: Vec<ObjectCoverage>,
    /// Samples by event, class, name, cause.
    pub(super) causes: FxHashMap<(usize, TextId, TextId, MissCause), u64>,
    /// Samples by event, class, name, statement.
    pub(super) statements: FxHashMap<(usize, TextId, TextId, StatementId), u64>,
    scratch: Vec<u64>,
}

impl ObjectCount {
    /// An empty count, with formulas of the user as additional columns. `line_size` is a power of two.
    pub fn new(formulas: Vec<Formula>, line_size: u32) -> Self {
        ObjectCount {
            keys: KeyTable::new(FORMULAS + formulas.len()),
            formulas,
            line_size,
            tallies: Vec::new(),
            patterns: Vec::new(),
            coverage: Vec::new(),
            causes: FxHashMap::default(),
            statements: FxHashMap::default(),
            scratch: Vec::new(),
        }
    }

    /// Counts one sample; `object` is at its data address, `statement` was executed by its process.
    pub fn add(
        &mut self,
        sample: &Sample<'_>,
        object: Option<Object>,
        statement: Option<StatementId>,
        index: &ObjectIndex,
    ) {
        let event = sample.event.0;
        if event >= self.coverage.len() {
            self.coverage.resize(event + 1, ObjectCoverage::default());
        }
        let coverage = &mut self.coverage[event];
        let Some(object) = object else {
            coverage.without_address += 1;
            return;
        };
        coverage.with_address += 1;
        let noted = object.source == ObjectSource::Notes;
        coverage.noted += u64::from(noted);
        coverage.stable += u64::from(noted && object.stable);
        let code = sample.data_source.is_some_and(|source| source.operation() == MemoryOperation::Execute);
        if !code && matches!(sample.mode, CpuMode::User | CpuMode::GuestUser) {
            coverage.user_data += 1;
            coverage.specific += u64::from(index.is_specific(object.path));
        }
        let ObjectPath { class, name, instance, part } = object.path;
        self.scratch.clear();
        self.scratch.push(event as u64);
        self.scratch.extend([class, name, instance, part].map(|id| u64::from(id.0)));
        for formula in &self.formulas {
            let value = formula.evaluate(sample, self.line_size).and_then(|value| i64::try_from(value).ok());
            self.scratch.push(value.unwrap_or(ABSENT) as u64);
        }
        let row = self.keys.number(&self.scratch);
        if row == self.tallies.len() {
            self.tallies.push(ObjectTally::default());
            self.patterns.push(Patterns::default());
        }
        self.patterns[row].add(sample);
        let tally = &mut self.tallies[row];
        tally.all.add(sample);
        tally.stable += u64::from(object.stable);
        if let Some(cause) = sample.simulated().and_then(|detail| detail.cause) {
            *self.causes.entry((event, class, name, cause)).or_default() += 1;
        }
        if let Some(statement) = statement {
            *self.statements.entry((event, class, name, statement)).or_default() += 1;
        }
    }

    /// How many samples of all events could be named.
    pub fn coverage(&self) -> ObjectCoverage {
        self.coverage.iter().fold(ObjectCoverage::default(), |a, b| ObjectCoverage {
            with_address: a.with_address + b.with_address,
            without_address: a.without_address + b.without_address,
            noted: a.noted + b.noted,
            stable: a.stable + b.stable,
            user_data: a.user_data + b.user_data,
            specific: a.specific + b.specific,
        })
    }

    /// The table of an event, by `levels` and the formulas: at most `limit` rows in the order of `ranking`. The
    /// partitions of an object follow each other in their own order.
    pub fn table(
        &self,
        event: EventIndex,
        levels: &[ObjectLevel],
        (limit, ranking): (Option<usize>, Ranking),
        index: &ObjectIndex,
    ) -> ObjectTable {
        let coverage = self.coverage.get(event.0).copied().unwrap_or_default();
        let by_partition = levels.contains(&ObjectLevel::Partition);
        let partitions = if by_partition { self.partitions(event, index) } else { Partitions::default() };
        let word = |level: ObjectLevel, key: &[u64]| match level {
            ObjectLevel::Partition => partitions.number(instance_of(key)),
            level => key[NAMES + level as usize],
        };
        let mut groups = KeyTable::new(levels.len() + self.formulas.len() + 1);
        let mut tallies: Vec<ObjectTally> = Vec::new();
        let mut patterns: Vec<Patterns> = Vec::new();
        // Whole objects by class and name, where rows are their partitions.
        let mut wholes: FxHashMap<(u64, u64), ObjectTally> = FxHashMap::default();
        for row in self.rows_of(event) {
            let key = self.keys.key(row);
            if by_partition {
                wholes.entry(object_of(key)).or_default().merge(&self.tallies[row]);
            }
            let mut group: Vec<u64> = levels.iter().map(|level| word(*level, key)).collect();
            group.extend(&key[FORMULAS..]);
            group.push(0); // a key has at least one word
            let number = groups.number(&group);
            if number == tallies.len() {
                tallies.push(ObjectTally::default());
                patterns.push(Patterns::default());
            }
            tallies[number].merge(&self.tallies[row]);
            patterns[number].merge(&self.patterns[row]);
        }
        let total = coverage.with_address;
        let texts = |group: usize| -> Vec<Arc<str>> {
            let words = levels.iter().zip(groups.key(group));
            let text = |(level, word): (&ObjectLevel, &u64)| match level {
                ObjectLevel::Partition => partitions.text(*word).cloned().unwrap_or_default(),
                _ => index.text(TextId(*word as u32)).clone(),
            };
            words.map(text).collect()
        };
        // By partition the first two levels are class and name.
        let whole = |group: usize| -> Option<ObjectTally> {
            let key = groups.key(group);
            wholes.get(&(*key.first()?, *key.get(1)?)).copied()
        };
        let mut order: Vec<(usize, Vec<Arc<str>>)> =
            (0..groups.len()).map(|group| (group, texts(group))).collect();
        // Ties are ordered by name, so that the order is the same in every run.
        order.sort_by(|(a, names), (b, others)| {
            let (x, y) = (&tallies[*a], &tallies[*b]);
            if let (Some(x), Some(y)) = (whole(*a), whole(*b)) {
                let larger = ranking.size(&y.all).cmp(&ranking.size(&x.all));
                let named = larger.then_with(|| names[..2].cmp(&others[..2]));
                return named.then_with(|| groups.key(*a).cmp(groups.key(*b)));
            }
            ranking
                .size(&y.all)
                .cmp(&ranking.size(&x.all))
                .then_with(|| y.all.count.cmp(&x.all.count))
                .then_with(|| names.cmp(others))
                .then_with(|| groups.key(*a).cmp(groups.key(*b)))
        });
        let mut all = Tally::default();
        tallies.iter().for_each(|tally| all.merge(&tally.all));
        let more = order.split_off(limit.unwrap_or(usize::MAX).min(order.len()));
        let found = Findings::new(self, event, (total, all.latencies), ranking, index);
        let rows = order.into_iter().map(|(group, names)| {
            let tally = &tallies[group];
            let formulas = &groups.key(group)[levels.len()..levels.len() + self.formulas.len()];
            ObjectRow {
                names,
                defined: formulas
                    .iter()
                    .map(|word| Some(*word as i64).filter(|value| *value != ABSENT))
                    .collect(),
                share: tally.all.share(total),
                of_object: whole(group).map(|whole| tally.all.share(whole.all.count)),
                stable: Share { count: tally.stable, total: tally.all.count },
                events: tally.all.events(),
                latency: tally.all.latency(None),
                pattern: patterns[group].most(),
            }
        });
        ObjectTable {
            event,
            levels: levels.to_vec(),
            coverage,
            latency: all.latency(None),
            ranking,
            rows: rows.collect(),
            more_rows: more.len() as u64,
            more_samples: more.iter().map(|(group, _)| tallies[*group].all.count).sum(),
            findings: found.strongest(),
            besides: found.besides(),
        }
    }

    fn partitions(&self, event: EventIndex, index: &ObjectIndex) -> Partitions {
        let instances = self.rows_of(event).map(|row| instance_of(self.keys.key(row)));
        Partitions::of(instances, |id| index.text(id))
    }

    pub(super) fn rows_of(&self, event: EventIndex) -> impl Iterator<Item = usize> + '_ {
        (0..self.keys.len()).filter(move |row| self.keys.key(*row)[0] == event.0 as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::{Cycles, Pid, Timestamp, VirtualAddress};
    use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes};

    /// Table t: 0x1000..0x1100 is part p of block 1, 0x1100..0x1200 part q of block 1, 0x1200..0x1300 part p
    /// of block 2. 0x2000..0x3000 is "heap". Observed at times 0..10.
    fn index(table: &str) -> ObjectIndex {
        let mut notes = ObjectNotes::new("a server");
        notes.texts.extend(["table", table, "1", "2", "p", "q", "heap"].map(String::from));
        let path = |class, name, instance, part| ObjectPath {
            class: TextId(class),
            name: TextId(name),
            instance: TextId(instance),
            part: TextId(part),
        };
        for (start, length, path) in [
            (0x1000, 0x100, path(1, 2, 3, 5)),
            (0x1100, 0x100, path(1, 2, 3, 6)),
            (0x1200, 0x100, path(1, 2, 4, 5)),
            (0x2000, 0x1000, path(7, 0, 0, 0)),
        ] {
            let length = hardmeter_samples::model::ByteCount(length);
            let (start, seen) = (VirtualAddress(start), (Timestamp(0), Timestamp(10)));
            notes.facts.push(ObjectFact { pid: None, start, length, seen, state: None, path, origin: start });
        }
        ObjectIndex::new(Some(&notes))
    }

    fn counted(formulas: &[&str]) -> (ObjectCount, ObjectIndex) {
        counted_in(index("t"), formulas)
    }

    fn counted_in(mut index: ObjectIndex, formulas: &[&str]) -> (ObjectCount, ObjectIndex) {
        let formulas = formulas.iter().map(|text| text.parse().expect("a formula")).collect();
        let mut count = ObjectCount::new(formulas, 64);
        // Three samples on part p (two blocks), one on q, two on the heap (the second one after the last
        // observation), and one without an address.
        let samples = [(0x1000, 1), (0x1008, 1), (0x1200, 1), (0x1100, 1), (0x2000, 1), (0x2040, 20), (0, 1)];
        for (address, time) in samples {
            let mut sample = sample(0, 10, 0x400);
            sample.time = Some(Timestamp(time));
            sample.address = Some(VirtualAddress(address)).filter(|address| address.0 != 0);
            let object = sample.address.and_then(|address| index.lookup(Pid(10), address, sample.time, &[]));
            let statement = (address == 0x1008).then_some(StatementId(7));
            count.add(&sample, object, statement, &index);
        }
        (count, index)
    }

    fn rows(table: &ObjectTable) -> Vec<(String, u64)> {
        let text = |row: &ObjectRow| (row.names.join("/"), row.share.count);
        table.rows.iter().map(text).collect()
    }

    #[test]
    fn each_level_folds_those_below_it() {
        let (count, index) = counted(&[]);
        let table = |wanted: &[ObjectLevel]| {
            count.table(EventIndex(0), &ObjectLevel::complete(wanted), (None, Ranking::Count), &index)
        };
        let own = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
            rows.iter().map(|(text, count)| (text.to_string(), *count)).collect()
        };
        use ObjectLevel::{Class, Instance, Name, Part};
        assert_eq!(rows(&table(&[Class])), own(&[("table", 4), ("heap", 2)]));
        assert_eq!(rows(&table(&[Name])), own(&[("table/t", 4), ("heap/", 2)]));
        assert_eq!(rows(&table(&[Instance])), own(&[("table/t/1", 3), ("heap//", 2), ("table/t/2", 1)]));
        assert_eq!(rows(&table(&[Part])), own(&[("table/t/p", 3), ("heap//", 2), ("table/t/q", 1)]));
        let all = table(&[Instance, Part]);
        assert_eq!(
            rows(&all),
            own(&[("heap///", 2), ("table/t/1/p", 2), ("table/t/1/q", 1), ("table/t/2/p", 1)])
        );
        assert_eq!(all.rows[0].share, Share { count: 2, total: 6 }, "of all with an address");
        assert_eq!(all.rows[0].stable, Share { count: 1, total: 2 }, "one was after the last look");
        assert_eq!(all.rows[1].latency.sum, Cycles(20));
    }

    #[test]
    fn partitions_follow_each_other_and_have_their_share_of_the_object() {
        let (count, index) = counted(&[]);
        let levels = ObjectLevel::complete(&[ObjectLevel::Partition]);
        assert_eq!(levels, [ObjectLevel::Class, ObjectLevel::Name, ObjectLevel::Partition]);
        let table = count.table(EventIndex(0), &levels, (None, Ranking::Count), &index);
        let own = [("table/t/1", 3), ("table/t/2", 1), ("heap//", 2)];
        assert_eq!(rows(&table), own.map(|(text, count)| (text.to_owned(), count)));
        assert_eq!(table.rows[0].of_object, Some(Share { count: 3, total: 4 }));
        assert_eq!(table.rows[2].of_object, Some(Share { count: 2, total: 2 }));
        let table = count.table(EventIndex(0), &[ObjectLevel::Class], (None, Ranking::Count), &index);
        assert_eq!(table.rows[0].of_object, None);
    }

    #[test]
    fn coverage_and_findings_by_hand() {
        let (count, index) = counted(&[]);
        let coverage = count.coverage();
        assert_eq!((coverage.with_address, coverage.without_address), (6, 1));
        assert_eq!(coverage.stable_share(), Share { count: 5, total: 6 });
        assert_eq!(coverage.specific_share(), Share { count: 4, total: 6 });
        let table = count.table(EventIndex(0), &[ObjectLevel::Class], (Some(1), Ranking::Count), &index);
        assert_eq!((table.rows.len(), table.more_rows, table.more_samples), (1, 1, 2));
        let first = &table.findings[0];
        assert_eq!((&*first.class, &*first.name, first.share.count), ("table", "t", 4));
        assert_eq!(first.part, Some(("p".into(), Share { count: 3, total: 4 })));
        assert_eq!(first.statement, Some((StatementId(7), Share { count: 1, total: 4 })));
        assert_eq!(first.cause, None, "no simulator told");
        assert_eq!(
            count.table(EventIndex(3), &[ObjectLevel::Class], (None, Ranking::Count), &index).rows,
            []
        );
    }

    #[test]
    fn a_formula_is_a_column() {
        let (count, index) = counted(&["slot=(addr - 0x1008) / 8", "frame=phys"]);
        let table = count.table(EventIndex(0), &[ObjectLevel::Class], (None, Ranking::Count), &index);
        let slots: Vec<_> = table.rows.iter().map(|row| row.defined.clone()).collect();
        assert!(slots.contains(&vec![Some(-1), None]), "{slots:?}");
        assert!(slots.contains(&vec![Some((0x1200 - 0x1008) / 8), None]), "{slots:?}");
        assert_eq!(slots.len(), 6);
    }
}
