//! From samples to the answer per event: causes with their places and objects, sets, page walks, missing data.

use super::finding::{
    CauseAnswer, ColdStart, DataNames, EventAnswer, How, Missing, NamedCount, PagesTouched, PatternCount,
    PlaceCountNamed,
};
use super::geometry::{CacheLevel, Hierarchy, LevelGeometry};
use super::infer::{infer, map_of, Basis, Verdict};
use super::kind::{Cause, EventKind};
use super::log::{Miss, MissLog, Seen, NONE};
use super::score::Score;
use super::sets::{SetMap, SetsUnknown};
use crate::code::{CodeMap, Place, Routine, SourceLine};
use crate::estimate::Share;
use crate::pass::{Located, Pass};
use hardmeter_samples::model::{
    EventIndex, MemoryLevel, MemoryOperation, Pid, Sample, Snoop, StatementId, Timestamp, TlbOutcome,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;

/// Options of the analysis.
#[derive(Clone, Debug)]
pub struct WhyOptions {
    /// The kind of each event of the capture, by its index.
    pub events: Vec<EventKind>,
    /// The machine's caches, where known.
    pub hierarchy: Option<Hierarchy>,
    /// One cache line in this number was simulated; 1: all.
    pub one_line_in: u32,
    /// Ignore the causes and sets that the software PMU recorded, and infer them.
    pub ignore_told: bool,
    /// Maximum number of places, objects and statements per cause.
    pub limit: usize,
}

#[derive(Default)]
struct Tally {
    samples: u64,
    without_address: u64,
    without_source: u64,
    without_physical: u64,
    translated: u64,
    walked: u64,
    snooped: u64,
    hit_modified: u64,
    simulated: bool,
    told: u64,
    pages: FxHashSet<(Pid, u64)>,
    huge_pages: FxHashSet<(Pid, u64)>,
}

/// Collects the misses of a capture.
pub struct Why {
    options: WhyOptions,
    events: Vec<(MissLog, Tally)>,
    /// The times of the first and the last sample of any event.
    span: Option<(Timestamp, Timestamp)>,
}

/// First uses are a cold start if nearly all of them, and as many as this at least, are in an early part of the time.
const NEARLY_ALL_PERCENT: u64 = 95;
const LEAST_OF_START: u64 = 20;
const EARLY: f64 = 0.2;

const PAGE_BITS: u32 = 12;
const HUGE_PAGE_BITS: u32 = 21;

impl Why {
    /// An empty collection.
    pub fn new(options: WhyOptions) -> Why {
        let log = |kind: &EventKind| {
            let geometry = kind.level().and_then(|level| options.hierarchy.as_ref()?.level(level));
            let line_bits = geometry.map_or(6, |geometry| geometry.line_size.trailing_zeros());
            (MissLog::new(geometry.map(|geometry| geometry.lines()), line_bits), Tally::default())
        };
        let events = options.events.iter().map(log).collect();
        Why { options, events, span: None }
    }

    /// Adds a sample, in order of time, with the object at its data address and the statement of its process.
    pub fn add(
        &mut self,
        sample: &Sample<'_>,
        located: Located,
        data: Option<DataNames>,
        statement: Option<StatementId>,
    ) {
        if let Some(now) = sample.time {
            let (first, last) = self.span.unwrap_or((now, now));
            self.span = Some((first.min(now), last.max(now)));
        }
        let Some(kind) = self.options.events.get(sample.event.0).copied() else { return };
        let (log, tally) = &mut self.events[sample.event.0];
        tally.samples += 1;
        if matches!(kind, EventKind::Other | EventKind::OtherTime | EventKind::Invalidation) {
            return;
        }
        let source = sample.data_source;
        if kind == EventKind::Accesses && !is_first_level_miss(sample) {
            tally.without_source +=
                u64::from(source.is_none_or(|source| source.level() == MemoryLevel::Unknown));
            return;
        }
        let detail = sample.simulated();
        // An instruction fetch misses at the instruction's own address.
        let fetches = kind == EventKind::Miss(CacheLevel::L1i)
            || source.is_some_and(|source| source.operation() == MemoryOperation::Execute);
        let address = sample.address.or(sample.ip.filter(|_| fetches));
        tally.without_address += u64::from(address.is_none());
        let tlb = source.map_or(TlbOutcome::Unknown, |source| source.tlb());
        let snoop = source.map_or(Snoop::Unknown, |source| source.snoop());
        tally.without_source += u64::from(source.is_none());
        tally.translated += u64::from(tlb != TlbOutcome::Unknown);
        tally.walked += u64::from(tlb == TlbOutcome::Walk);
        tally.snooped += u64::from(snoop != Snoop::Unknown);
        tally.hit_modified += u64::from(snoop == Snoop::HitModified);
        let physical = sample.physical_address.filter(|physical| physical.0 != 0 && sample.address.is_some());
        tally.without_physical += u64::from(physical.is_none());
        let told = detail.as_ref().and_then(Cause::told);
        tally.simulated |= detail.is_some();
        tally.told += u64::from(told.is_some());
        let pid = sample.pid.unwrap_or(Pid(-1));
        if let (EventKind::TlbMiss, Some(address)) = (kind, address) {
            tally.pages.insert((pid, address.0 >> PAGE_BITS));
            tally.huge_pages.insert((pid, address.0 >> HUGE_PAGE_BITS));
        }
        let indexed_by = match kind.level() {
            Some(CacheLevel::L1d | CacheLevel::L1i) => address.map(|address| address.0),
            Some(_) => physical.map(|physical| physical.0),
            None => None,
        };
        log.add(Seen {
            place: located.place,
            core: match kind.level() {
                Some(CacheLevel::L3) => 0,
                _ => sample.cpu.map_or(NONE, |cpu| cpu.0),
            },
            pid,
            address,
            physical: physical.map(|physical| physical.0),
            indexed_by,
            set_told: detail.as_ref().map(|detail| detail.set),
            period: sample.period.0,
            hit_modified: snoop == Snoop::HitModified,
            told,
            pattern: detail.as_ref().map_or((None, 0), |detail| (detail.pattern, detail.stride)),
            data,
            statement,
            when: sample.time,
        });
    }

    /// The answers, for events that had samples, in their order.
    pub fn answers<M: CodeMap>(&self, pass: &mut Pass<M>) -> Vec<EventAnswer> {
        let mut answers = Vec::new();
        for (index, (log, tally)) in
            self.events.iter().enumerate().filter(|(_, (_, tally))| tally.samples > 0)
        {
            answers.push(self.answer(EventIndex(index), log, tally, pass));
        }
        answers
    }

    fn answer<M: CodeMap>(
        &self,
        event: EventIndex,
        log: &MissLog,
        tally: &Tally,
        pass: &mut Pass<M>,
    ) -> EventAnswer {
        let kind = self.options.events[event.0];
        let misses = log.misses.len() as u64;
        let mut answer = EventAnswer {
            event,
            kind,
            samples: tally.samples,
            misses,
            how: How::None,
            causes: Vec::new(),
            walked: Share { count: tally.walked, total: tally.translated },
            hit_modified: Share { count: tally.hit_modified, total: tally.snooped },
            places: Vec::new(),
            objects: Vec::new(),
            pages: None,
            sets: Err(SetsUnknown::NoLevel),
            score: None,
            missing: self.missing(kind, log, tally),
        };
        let all = |_: usize| true;
        match (kind, kind.level()) {
            (EventKind::Other | EventKind::OtherTime | EventKind::Invalidation, _) => {}
            (EventKind::CoherenceMiss, _) => {
                // Hardware counts loads that hit a line modified in another core, without a verdict on words.
                let by_snoop = Verdict { cause: Cause::Coherence, basis: Basis::Snoop, p: f64::NAN };
                answer.how = if tally.told > 0 { How::Exact } else { How::Inferred };
                let verdict = |miss: &Miss| miss.told.map_or(by_snoop, told);
                let verdicts: Vec<Verdict> = log.misses.iter().map(verdict).collect();
                answer.causes = self.causes(log, &verdicts, None, pass);
            }
            (_, Some(level)) => self.miss_answer(&mut answer, level, log, tally, pass),
            _ => {
                let pages = PagesTouched {
                    pages: tally.pages.len() as u64,
                    huge_pages: tally.huge_pages.len() as u64,
                };
                answer.pages = (pages.pages > 0).then_some(pages);
                answer.places = self.places(log, &all, pass);
                answer.objects = self.objects(log, &all);
            }
        }
        answer
    }

    fn miss_answer<M: CodeMap>(
        &self,
        answer: &mut EventAnswer,
        level: CacheLevel,
        log: &MissLog,
        tally: &Tally,
        pass: &mut Pass<M>,
    ) {
        let geometry = self.options.hierarchy.as_ref().and_then(|hierarchy| hierarchy.level(level));
        let one_line_in = self.options.one_line_in;
        let exact = tally.told > 0 && !self.options.ignore_told;
        let (verdicts, sets);
        if exact {
            answer.how = How::Exact;
            verdicts = log.misses.iter().map(|miss| told(miss.told.unwrap_or(Cause::Unknown))).collect();
            let left_out = |_: usize, miss: &Miss| {
                matches!(
                    miss.told,
                    Some(Cause::Cold | Cause::TrueSharing | Cause::FalseSharing | Cause::Coherence)
                )
            };
            sets = map_of(log, level, geometry, one_line_in, true, &left_out);
        } else {
            answer.how = How::Inferred;
            (verdicts, sets) = infer(log, level, geometry, one_line_in);
            if tally.told > 0 {
                let mut score = Score::default();
                for (miss, verdict) in log.misses.iter().zip(&verdicts) {
                    score.add(verdict.cause, miss.told.unwrap_or(Cause::Unknown));
                }
                answer.score = Some(score);
            }
        }
        let has_level = self.options.hierarchy.is_none() || geometry.is_some();
        answer.sets = if has_level { sets } else { Err(SetsUnknown::NoSuchLevel) };
        let map = answer.sets.as_ref().ok().zip(geometry);
        answer.causes = self.causes(log, &verdicts, map, pass);
    }

    fn causes<M: CodeMap>(
        &self,
        log: &MissLog,
        verdicts: &[Verdict],
        map: Option<(&SetMap, LevelGeometry)>,
        pass: &mut Pass<M>,
    ) -> Vec<CauseAnswer> {
        let total = verdicts.len() as u64;
        let mut causes = Vec::new();
        for cause in Cause::ALL {
            let is_it = |index: usize| verdicts[index].cause == cause;
            let mine: Vec<usize> = (0..verdicts.len()).filter(|index| is_it(*index)).collect();
            if mine.is_empty() {
                continue;
            }
            let inferred = mine.iter().any(|index| verdicts[*index].basis != Basis::Told);
            // NaN stands for unknown.
            let mut p_of_each = mine.iter().map(|index| verdicts[*index].p);
            let largest = p_of_each.try_fold(0.0, |largest: f64, p| (!p.is_nan()).then(|| largest.max(p)));
            let bases = mine.iter().map(|index| verdicts[*index].basis).filter(|basis| *basis != Basis::Told);
            let standing = map.filter(|(map, _)| !map.standing_out.is_empty()).map(|(map, geometry)| {
                let sets: FxHashSet<u32> = map.standing_out.iter().map(|set| set.set).collect();
                let inside = |index: &&usize| {
                    let miss = &log.misses[**index];
                    set_of_miss(log, miss, geometry, self.options.ignore_told)
                        .is_some_and(|set| sets.contains(&set))
                };
                Share { count: mine.iter().filter(inside).count() as u64, total: mine.len() as u64 }
            });
            causes.push(CauseAnswer {
                cause,
                share: Share { count: mine.len() as u64, total },
                p: largest.filter(|_| inferred && cause != Cause::Unknown),
                basis: ranked(bases, usize::MAX)
                    .into_iter()
                    .filter_map(|(basis, count)| Some(NamedCount { name: basis_name(basis)?.into(), count }))
                    .collect(),
                places: self.places(log, &is_it, pass),
                objects: self.objects(log, &is_it),
                statements: {
                    let statements = mine.iter().filter_map(|index| log.misses[*index].statement);
                    ranked(statements, self.options.limit)
                },
                in_standing_sets: standing,
                patterns: self.patterns(log, &mine, pass),
                cold_start: (cause == Cause::Cold).then(|| self.cold_start(log, &mine)).flatten(),
            });
        }
        causes.sort_by(|a, b| b.share.count.cmp(&a.share.count).then(a.cause.cmp(&b.cause)));
        causes
    }

    /// Whether nearly all of these first uses are in an early part of the recording.
    fn cold_start(&self, log: &MissLog, mine: &[usize]) -> Option<ColdStart> {
        let (first, last) = self.span?;
        let mut times: Vec<u64> = mine.iter().filter_map(|index| Some(log.misses[*index].when?.0)).collect();
        times.sort_unstable();
        let total = times.len() as u64;
        let within = (total * NEARLY_ALL_PERCENT).div_ceil(100);
        let end = *times.get(within.checked_sub(1)? as usize)?;
        let part = (end - first.0) as f64 / (last.0 - first.0).max(1) as f64;
        let misses = Share { count: times.partition_point(|time| *time <= end) as u64, total };
        (total >= LEAST_OF_START && part <= EARLY).then_some(ColdStart { misses, part })
    }

    /// The patterns of these misses, most frequent first.
    fn patterns<M: CodeMap>(&self, log: &MissLog, mine: &[usize], pass: &mut Pass<M>) -> Vec<PatternCount> {
        let counted = ranked(mine.iter().filter_map(|index| log.misses[*index].pattern), usize::MAX);
        counted
            .into_iter()
            .map(|(pattern, count)| {
                let is_it = |index: &&usize| log.misses[**index].pattern == Some(pattern);
                let strides = mine.iter().filter(is_it).map(|index| log.misses[*index].stride);
                let stride = ranked(strides.filter(|stride| *stride != 0), 1).first().copied();
                // Indices are in order.
                let wanted = |index: usize| {
                    mine.binary_search(&index).is_ok() && log.misses[index].pattern == Some(pattern)
                };
                let place = self.places(log, &wanted, pass).into_iter().next();
                PatternCount { pattern, count, stride, place }
            })
            .collect()
    }

    /// The routines and lines with most misses.
    fn places<M: CodeMap>(
        &self,
        log: &MissLog,
        wanted: &dyn Fn(usize) -> bool,
        pass: &mut Pass<M>,
    ) -> Vec<PlaceCountNamed> {
        let mut of_place: FxHashMap<Place, u64> = FxHashMap::default();
        for (_, miss) in log.misses.iter().enumerate().filter(|(index, _)| wanted(*index)) {
            if let Some(place) = miss.place {
                *of_place.entry(place).or_default() += 1;
            }
        }
        let mut merged: FxHashMap<(Routine, Option<SourceLine>), u64> = FxHashMap::default();
        for (place, count) in of_place {
            let named = (pass.map().routine(place), pass.map().line(place));
            *merged.entry(named).or_default() += count;
        }
        let mut rows: Vec<_> = merged.into_iter().collect();
        rows.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        rows.truncate(self.options.limit);
        rows.into_iter()
            .map(|((routine, line), count)| PlaceCountNamed { routine: routine.to_string(), line, count })
            .collect()
    }

    fn objects(&self, log: &MissLog, wanted: &dyn Fn(usize) -> bool) -> Vec<NamedCount> {
        let misses = log.misses.iter().enumerate().filter(|(index, _)| wanted(*index));
        let objects = misses.filter_map(|(_, miss)| log.object(miss.object));
        ranked(objects, self.options.limit)
            .into_iter()
            .map(|(name, count)| NamedCount { name, count })
            .collect()
    }

    fn missing(&self, kind: EventKind, log: &MissLog, tally: &Tally) -> Vec<Missing> {
        let mut missing = Vec::new();
        if matches!(kind, EventKind::Other | EventKind::OtherTime | EventKind::Invalidation) {
            return missing;
        }
        let misses = log.misses.len() as u64;
        let mut add = |count: u64, total: u64, make: &dyn Fn(Share) -> Missing| {
            if count > 0 {
                missing.push(make(Share { count, total }));
            }
        };
        if kind == EventKind::Stall {
            return missing; // the heading shows how many have an address, and no cause depends on them
        }
        add(tally.without_address, misses, &|without| Missing::DataAddress { without });
        let of = if kind == EventKind::Accesses { tally.samples } else { misses };
        add(tally.without_source, of, &|without| Missing::DataSource { without });
        let Some(level) = kind.level() else { return missing };
        if level == CacheLevel::L2 {
            add(tally.without_physical, misses, &|without| Missing::PhysicalAddress { without });
        }
        if self.options.hierarchy.is_none() {
            missing.push(Missing::Geometry);
        }
        if tally.simulated && tally.told == 0 && kind != EventKind::Accesses {
            missing.push(Missing::Causes);
        }
        missing
    }
}

fn told(cause: Cause) -> Verdict {
    Verdict { cause, basis: Basis::Told, p: 0.0 }
}

fn basis_name(basis: Basis) -> Option<&'static str> {
    Some(match basis {
        Basis::Told | Basis::Nothing => return None,
        Basis::Snoop => "snoop",
        Basis::Burst => "first burst",
        Basis::Set => "set",
        Basis::Reuse => "reuse",
        Basis::Number => "number of lines",
    })
}

fn is_first_level_miss(sample: &Sample<'_>) -> bool {
    sample.data_source.is_some_and(|source| {
        let data = !matches!(source.operation(), MemoryOperation::Execute);
        data && !matches!(source.level(), MemoryLevel::L1 | MemoryLevel::Unknown)
    })
}

fn set_of_miss(log: &MissLog, miss: &Miss, geometry: LevelGeometry, ignore_told: bool) -> Option<u32> {
    if !ignore_told && miss.set_told < geometry.sets {
        return Some(miss.set_told);
    }
    super::infer::set_of(geometry, log.lines.get(miss.line as usize)?.indexed_by)
}

/// Values by frequency, most frequent first; ties by value, so that the order is the same in every run.
fn ranked<T: Hash + Eq + Ord>(values: impl Iterator<Item = T>, limit: usize) -> Vec<(T, u64)> {
    let mut counts: FxHashMap<T, u64> = FxHashMap::default();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let mut rows: Vec<(T, u64)> = counts.into_iter().collect();
    rows.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    rows.truncate(limit);
    rows
}

#[cfg(test)]
mod tests;
