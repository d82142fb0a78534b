//! The objects that cost most, and other large costs.
//!
//! Invariants:
//! 1. A finding has a name that a reader can act on; memory without one is never a finding, whatever it costs.
//! 2. Objects of the database come before those of the program.
//! 3. Code and nameless memory are in `besides`, each once, if together they cost [`LARGE`] or more.

use super::index::UNSPECIFIC;
use super::patterns::Patterns;
use super::table::{ObjectCount, NAMES};
use super::{ObjectIndex, ObjectLevel};
use crate::estimate::{Share, Weights};
use crate::latency::StallShare;
use crate::ranking::Ranking;
use crate::why::PatternCount;
use hardmeter_samples::model::{EventIndex, MissCause, StatementId};
use hardmeter_samples::object_notes::{TextId, NOT_IN_TIME};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// Findings of an event, at most.
const MOST: usize = 3;
/// An object with at least this share is a finding.
const LARGE: f64 = 0.05;
/// If there are fewer than [`MOST`] findings, objects of the database with at least this share are added.
const SMALL: f64 = 0.005;
/// A smaller object has at least this many samples: fewer are chance.
const LEAST_SAMPLES: u64 = 10;
/// With fewer samples than this, a single long wait can make up a large share of the stall.
const LEAST_FOR_STALL: u64 = 5;

/// The class of instructions.
const CODE: &str = "code";
/// Classes of the program's own memory: its image, its stacks and blocks, the kernel.
const OF_PROGRAM: [&str; 12] = [
    "constants",
    "static variable",
    "static data",
    "global variable",
    "linkage table",
    "program",
    "library",
    "stack",
    "file",
    "kernel",
    "heap block",
    "compiled code",
];

/// The kind of an object in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The server's observer named it: table, index, lock, area, memory context.
    Database,
    /// Memory of the program itself, with a name.
    Program,
    /// Instructions.
    Code,
    /// Only the kind of memory is known, or it was not read in time.
    Nameless,
}

fn standing(class: &str, name: &str) -> Standing {
    match class {
        _ if name == NOT_IN_TIME || UNSPECIFIC.contains(&class) => Standing::Nameless,
        CODE => Standing::Code,
        _ if OF_PROGRAM.contains(&class) || class.starts_with("object in ") => Standing::Program,
        _ => Standing::Database,
    }
}

/// One of the objects that cost most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectFinding {
    /// The class of the object.
    pub class: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
    /// Its samples, of all with an address.
    pub share: Share,
    /// Its share of the exposed latency of all samples with an address; `None` if unknown.
    #[serde(flatten)]
    pub stall: Option<StallShare>,
    /// The part with most of the samples.
    pub part: Option<(Arc<str>, Share)>,
    /// The most frequent cause, with its share, if it was simulated.
    pub cause: Option<(MissCause, Share)>,
    /// The most frequent pattern of its misses, if it was simulated.
    pub pattern: Option<PatternCount>,
    /// The statement with the most of these samples, and its share.
    pub statement: Option<(StatementId, Share)>,
}

/// The kinds of samples that are not on a named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BesidesKind {
    /// Instructions: the code itself was missing.
    Code,
    /// Memory without a name: only its kind is known, or it was not read in time.
    Nameless,
}

/// Samples that no finding names, of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Besides {
    /// The kind.
    pub kind: BesidesKind,
    /// The samples, of all with an address.
    pub share: Share,
    /// Their share of the exposed latency of all samples with an address; `None` if unknown.
    #[serde(flatten)]
    pub stall: Option<StallShare>,
    /// The objects, by class and name, largest first, with their samples of these.
    pub most: Vec<(Arc<str>, Arc<str>, Share)>,
}

type ObjectId = (TextId, TextId);

/// Sums of one object over its instances.
#[derive(Default)]
struct Sums {
    count: u64,
    latency: Weights,
    parts: FxHashMap<TextId, u64>,
    patterns: Patterns,
}

/// The objects of one event with their sums.
pub(super) struct Findings<'c> {
    count: &'c ObjectCount,
    index: &'c ObjectIndex,
    event: EventIndex,
    /// Samples with an address, and their latencies.
    total: (u64, Weights),
    ranking: Ranking,
    objects: Vec<(ObjectId, Sums)>,
}

impl<'c> Findings<'c> {
    /// The objects of an event, largest first. `total` are its samples with an address, and their latencies.
    pub(super) fn new(
        count: &'c ObjectCount,
        event: EventIndex,
        total: (u64, Weights),
        ranking: Ranking,
        index: &'c ObjectIndex,
    ) -> Findings<'c> {
        let mut objects: FxHashMap<ObjectId, Sums> = FxHashMap::default();
        for row in count.rows_of(event) {
            let id = |level: ObjectLevel| TextId(count.keys.key(row)[NAMES + level as usize] as u32);
            let sums = objects.entry((id(ObjectLevel::Class), id(ObjectLevel::Name))).or_default();
            let tally = &count.tallies[row].all;
            sums.count += tally.count;
            sums.latency.merge(tally.latencies);
            *sums.parts.entry(id(ObjectLevel::Part)).or_default() += tally.count;
            sums.patterns.merge(&count.patterns[row]);
        }
        let mut found = Findings { count, index, event, total, ranking, objects: Vec::new() };
        let mut objects: Vec<(ObjectId, Sums)> = objects.into_iter().collect();
        let texts = |(class, name): ObjectId| (index.text(class), index.text(name));
        objects.sort_by(|(a, x), (b, y)| {
            found.size(y).cmp(&found.size(x)).then_with(|| texts(*a).cmp(&texts(*b)))
        });
        found.objects = objects;
        found
    }

    /// The sort key of the ranking.
    fn size(&self, sums: &Sums) -> u64 {
        match self.ranking {
            Ranking::Count => sums.count,
            Ranking::Stall => sums.latency.sum,
        }
    }

    fn standing(&self, (class, name): ObjectId) -> Standing {
        standing(self.index.text(class), self.index.text(name))
    }

    fn fraction(&self, size: u64) -> f64 {
        let all = match self.ranking {
            Ranking::Count => self.total.0,
            Ranking::Stall => self.total.1.sum,
        };
        Share { count: size, total: all }.fraction()
    }

    fn share(&self, count: u64) -> Share {
        Share { count, total: self.total.0 }
    }

    fn stall(&self, latency: Weights) -> Option<StallShare> {
        StallShare::of(latency, self.total.1).filter(|_| self.ranking == Ranking::Stall)
    }

    /// Whether an object is large, with enough samples.
    fn is_large(&self, sums: &Sums) -> bool {
        let often = sums.count >= LEAST_FOR_STALL || self.share(sums.count).fraction() >= LARGE;
        self.fraction(self.size(sums)) >= LARGE && (often || self.ranking == Ranking::Count)
    }

    /// The three strongest: large objects of the database, smaller ones of it, then large ones of the program.
    pub(super) fn strongest(&self) -> Vec<ObjectFinding> {
        let of = |wanted| self.objects.iter().filter(move |(id, _)| self.standing(*id) == wanted);
        let small = |sums: &Sums| {
            sums.count >= LEAST_SAMPLES && self.fraction(self.size(sums)) >= SMALL && !self.is_large(sums)
        };
        let large = of(Standing::Database).filter(|(_, sums)| self.is_large(sums));
        let smaller = of(Standing::Database).filter(|(_, sums)| small(sums));
        let program = of(Standing::Program).filter(|(_, sums)| self.is_large(sums));
        large.chain(smaller).chain(program).take(MOST).map(|(id, sums)| self.finding(*id, sums)).collect()
    }

    fn finding(&self, (class, name): ObjectId, sums: &Sums) -> ObjectFinding {
        let here = |(e, c, n): (usize, TextId, TextId)| (e, c, n) == (self.event.0, class, name);
        let of = |count: u64| Share { count, total: sums.count };
        let parts = sums.parts.iter().filter(|(part, _)| **part != TextId(0));
        let part = parts.map(|(part, count)| (*count, self.index.text(*part).clone())).max();
        let causes = self.count.causes.iter().filter(|((e, c, n, _), _)| here((*e, *c, *n)));
        let cause = causes.map(|((.., cause), count)| (*count, *cause)).max();
        let statements = self.count.statements.iter().filter(|((e, c, n, _), _)| here((*e, *c, *n)));
        let statement = statements.map(|((.., statement), count)| (*count, *statement)).max();
        ObjectFinding {
            class: self.index.text(class).clone(),
            name: self.index.text(name).clone(),
            share: self.share(sums.count),
            stall: self.stall(sums.latency),
            part: part.map(|(count, part)| (part, of(count))),
            cause: cause.map(|(count, cause)| (cause, of(count))),
            pattern: sums.patterns.most(),
            statement: statement.map(|(count, statement)| (statement, of(count))),
        }
    }

    /// Code and nameless memory, each if it is large.
    pub(super) fn besides(&self) -> Vec<Besides> {
        let kinds = [(BesidesKind::Code, Standing::Code), (BesidesKind::Nameless, Standing::Nameless)];
        let mut found: Vec<(u64, Besides)> = Vec::new();
        for (kind, standing) in kinds {
            let objects: Vec<_> =
                self.objects.iter().filter(|(id, _)| self.standing(*id) == standing).collect();
            let count = objects.iter().map(|(_, one)| one.count).sum();
            let mut latency = Weights::default();
            objects.iter().for_each(|(_, one)| latency.merge(one.latency));
            let size = match self.ranking {
                Ranking::Count => count,
                Ranking::Stall => latency.sum,
            };
            if self.fraction(size) < LARGE {
                continue;
            }
            let most = objects.iter().take(MOST).map(|((class, name), sums)| {
                let text = |id: TextId| self.index.text(id).clone();
                (text(*class), text(*name), Share { count: sums.count, total: count })
            });
            let (share, stall) = (self.share(count), self.stall(latency));
            found.push((size, Besides { kind, share, stall, most: most.collect() }));
        }
        found.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
        found.into_iter().map(|(_, besides)| besides).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{ObjectCount, ObjectTable};
    use crate::testing::sample;
    use hardmeter_samples::model::{ByteCount, Cycles, Pid, Timestamp, VirtualAddress};
    use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes, ObjectPath};

    /// A table of objects (class, name, samples, latency of each), an object every 0x1000 bytes.
    fn table(ranking: Ranking, objects: &[(&str, &str, u64, u64)]) -> ObjectTable {
        let mut notes = ObjectNotes::new("a server");
        for (number, (class, name, ..)) in objects.iter().enumerate() {
            notes.texts.extend([class.to_string(), name.to_string()]);
            let text = |at: usize| TextId((1 + 2 * number + at) as u32);
            let path = ObjectPath { class: text(0), name: text(1), instance: TextId(0), part: TextId(0) };
            let (start, seen) = (VirtualAddress(0x1000 * (1 + number as u64)), (Timestamp(0), Timestamp(9)));
            let length = ByteCount(0x1000);
            notes.facts.push(ObjectFact { pid: None, start, length, seen, state: None, path, origin: start });
        }
        let mut index = ObjectIndex::new(Some(&notes));
        let mut count = ObjectCount::new(Vec::new(), 64);
        for (number, (.., samples, latency)) in objects.iter().enumerate() {
            for _ in 0..*samples {
                let mut sample = sample(0, 10, 0x400);
                sample.time = Some(Timestamp(1));
                sample.address = Some(VirtualAddress(0x1000 * (1 + number as u64)));
                sample.weight.as_mut().expect("a latency").latency = Cycles(*latency);
                let object =
                    sample.address.and_then(|address| index.lookup(Pid(10), address, sample.time, &[]));
                count.add(&sample, object, None, &index);
            }
        }
        count.table(EventIndex(0), &[ObjectLevel::Class], (None, ranking), &index)
    }

    fn names(table: &ObjectTable) -> Vec<String> {
        table.findings.iter().map(|finding| format!("{} {}", finding.class, finding.name)).collect()
    }

    #[test]
    fn the_database_comes_first_and_nameless_memory_is_told_once() {
        let table = table(
            Ranking::Count,
            &[
                ("heap", "outside memory contexts", 300, 1),
                ("heap", NOT_IN_TIME, 250, 1),
                ("constants", "postgres", 200, 1),
                ("table", "public.t", 20, 1),
                ("index", "public.i", 100, 1),
                ("table", "public.rare", 9, 1),
                ("code", "f", 60, 1),
                ("code", "g", 61, 1),
            ],
        );
        assert_eq!(names(&table), ["index public.i", "table public.t", "constants postgres"]);
        let besides: Vec<_> = table.besides.iter().map(|one| (one.kind, one.share.count)).collect();
        assert_eq!(besides, [(BesidesKind::Nameless, 550), (BesidesKind::Code, 121)]);
        let most: Vec<_> =
            table.besides[1].most.iter().map(|(_, name, share)| (&**name, share.count)).collect();
        assert_eq!(most, [("g", 61), ("f", 60)]);
        assert_eq!(table.findings[0].stall, None);
    }

    /// 2 long waits of 400 cycles are 80 % of the stall, but too few samples; ten of 10 cycles are 10 %.
    #[test]
    fn two_long_waits_are_no_finding() {
        let objects = [("table", "public.t", 2, 400), ("index", "public.i", 10, 10), ("lock", "l", 100, 1)];
        let table = table(Ranking::Stall, &objects);
        assert_eq!(names(&table), ["index public.i", "lock l"]);
        assert_eq!(table.findings[0].stall.map(|stall| stall.percent), Some(10.0));
        assert_eq!(table.besides, []);
    }
}
