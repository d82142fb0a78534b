//! Predicts the misses of another layout: replays the line's trace with each group of bytes on a separate line.
//!
//! Each group has the states of the MESI protocol as far as they cause misses: a core holds the line, or lost it to
//! another core's write, or never had it. Caches are unbounded: a contended line is not evicted by age.
//!
//! ```text
//!   trace      core 0 writes x   core 1 writes y   core 0 writes x
//!   one line   (first touch)     takes the line    misses: it was taken
//!   two lines  (first touch)     (first touch)     holds x still: no miss
//! ```
//!
//! How far the answer can be trusted depends on the trace:
//!
//! * *All accesses* (`loads` and `stores` with period 1): exact.
//! * *Misses and invalidations* (period 1): accesses that hit were not recorded. That a miss on bytes which another
//!   core wrote (true sharing) stays is certain. That the others go is certain only as far as no unrecorded write
//!   fell into their group, and where one miss brought in several groups, each may now cost one. So the misses that
//!   vanish are a prediction, and where the groups have one writer each, a good one.
//! * *A sample* of those: the same, of the sampled misses.

use super::layout::{ByteRange, LayoutGroup};
use hardmeter_samples::model::{SharingVerdict, Timestamp};
use rustc_hash::FxHashSet;
use serde::Serialize;

/// An access of a line's trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TraceAccess {
    /// Time on a clock that all cores share. Simulated samples use the wall clock: simulated cores have separate
    /// clocks.
    pub when: Timestamp,
    /// The core.
    pub core: u32,
    /// The bytes.
    pub range: ByteRange,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it was recorded as a coherence miss.
    pub miss: bool,
    /// The simulator's verdict on the miss.
    pub verdict: Option<SharingVerdict>,
}

/// The data that a prediction is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Every load and store of the line.
    AllAccesses,
    /// Every coherence miss and invalidation of the line.
    AllMisses,
    /// One coherence miss in this number was sampled.
    OneMissIn(u64),
    /// Some coherence misses; the sampling ratio is unknown.
    SomeMisses,
    /// Samples by thread and bytes; no trace was replayed.
    Samples,
}

/// The effect of another layout on a line's coherence misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Misses with the present layout.
    pub before: u64,
    /// Misses afterwards.
    pub after: u64,
    /// Those of them by accesses that hit now: the access that fetched the line for them would then fetch another
    /// line.
    pub new: u64,
    /// The data that this is based on.
    pub basis: Basis,
}

impl Effect {
    /// Misses that the layout avoids; 0 if it adds misses.
    pub fn vanishing(&self) -> u64 {
        self.before.saturating_sub(self.after)
    }
}

/// Misses before, after, and new ones among the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub before: u64,
    pub after: u64,
    pub new: u64,
}

/// Replays a trace with each group on a separate line.
///
/// With `all_accesses` the misses before are computed as well, from the trace with all bytes on one line; otherwise
/// they are those recorded.
pub(super) fn replay(trace: &[TraceAccess], groups: &[LayoutGroup], all_accesses: bool) -> Replayed {
    let mut in_order: Vec<&TraceAccess> = trace.iter().collect();
    in_order.sort_by_key(|access| access.when);
    let whole = [ByteRange { start: 0, end: u16::MAX }];
    let mut as_it_is = vec![Line::default()];
    let mut apart: Vec<Line> = groups.iter().map(|_| Line::default()).collect();
    let parts = ranges(groups);
    let mut replayed = Replayed::default();
    for access in in_order {
        let missed_in_trace = misses(&mut as_it_is, &[&whole], access);
        let would_miss = misses(&mut apart, &parts, access);
        // Another core wrote the same bytes: no layout separates them.
        let stays = access.miss && access.verdict == Some(SharingVerdict::True);
        let before = if all_accesses { missed_in_trace } else { access.miss };
        let after = would_miss || (stays && !all_accesses);
        replayed.before += u64::from(before);
        replayed.after += u64::from(after);
        replayed.new += u64::from(after && !before);
    }
    replayed
}

fn ranges(groups: &[LayoutGroup]) -> Vec<&[ByteRange]> {
    groups.iter().map(|group| group.ranges.as_slice()).collect()
}

/// The cores that hold a line, and those that lost it to a write.
#[derive(Clone, Default)]
struct Line {
    hold: FxHashSet<u32>,
    lost: FxHashSet<u32>,
}

impl Line {
    /// Whether the access misses because of another core's write.
    fn access(&mut self, core: u32, writes: bool) -> bool {
        let missed = self.lost.remove(&core);
        self.hold.insert(core);
        if writes {
            let others: Vec<u32> = self.hold.drain().filter(|other| *other != core).collect();
            self.lost.extend(others);
            self.hold.insert(core);
        }
        missed
    }
}

/// Whether an access misses on one of the lines that it touches.
fn misses(lines: &mut [Line], groups: &[&[ByteRange]], access: &TraceAccess) -> bool {
    let mut missed = false;
    for (line, ranges) in lines.iter_mut().zip(groups) {
        if ranges.iter().any(|range| range.overlaps(access.range)) {
            missed |= line.access(access.core, access.writes);
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::GroupKind;

    fn group(ranges: &[(u16, u16)]) -> LayoutGroup {
        let ranges = ranges.iter().map(|(start, end)| ByteRange { start: *start, end: *end }).collect();
        LayoutGroup { kind: GroupKind::OneThread, ranges }
    }

    /// Misses before, after, new.
    fn played(trace: &[TraceAccess], groups: &[LayoutGroup], all_accesses: bool) -> (u64, u64, u64) {
        let Replayed { before, after, new } = replay(trace, groups, all_accesses);
        (before, after, new)
    }

    fn access(core: u32, start: u16, what: &str) -> TraceAccess {
        TraceAccess {
            when: Timestamp(0),
            core,
            range: ByteRange { start, end: start + 8 },
            writes: what.contains('w'),
            miss: what.contains('m'),
            verdict: match what {
                what if what.contains('t') => Some(SharingVerdict::True),
                what if what.contains('f') => Some(SharingVerdict::False),
                _ => None,
            },
        }
    }

    /// Two cores alternately write a word each: on one line each write but the first two misses; on two lines,
    /// none.
    #[test]
    fn false_sharing_vanishes_when_each_word_has_its_line() {
        let trace: Vec<_> = (0..10).map(|i| access(i % 2, (i % 2) as u16 * 8, "w")).collect();
        let apart = [group(&[(0, 8)]), group(&[(8, 16)])];
        assert_eq!(played(&trace, &apart, true), (8, 0, 0));
        assert_eq!(played(&trace, &[group(&[(0, 16)])], true), (8, 8, 0), "together they fight on");
    }

    /// One core writes a word, the other reads it: each read after a write misses. A reader does not take the line
    /// away from the writer.
    #[test]
    fn true_sharing_stays_and_readers_take_nothing_away() {
        let trace: Vec<_> = (0..10).map(|i| access(i % 2, 0, if i % 2 == 0 { "w" } else { "r" })).collect();
        // The reader's first access is not a coherence miss; its four others are.
        assert_eq!(played(&trace, &[group(&[(0, 8)])], true), (4, 4, 0));
    }

    /// Core 1 reads word 0, then word 8, both written by core 0: one miss fetched both.
    #[test]
    fn parting_what_is_used_together_costs_misses_which_only_the_full_trace_shows() {
        let round = [access(0, 0, "w"), access(0, 8, "w"), access(1, 0, "r"), access(1, 8, "r")];
        let trace: Vec<_> = (0..5).flat_map(|_| round).collect();
        let apart = [group(&[(0, 8)]), group(&[(8, 16)])];
        assert_eq!(played(&trace, &apart, true), (4, 8, 4), "rounds two to five");
    }

    /// The recorded events of ten rounds of two writers on two words: each write but the first two misses with
    /// verdict false, and each but the first invalidates the line.
    #[test]
    fn recorded_misses_alone_give_the_same_answer_where_each_word_has_one_writer() {
        let trace: Vec<_> =
            (0..10).map(|i| access(i % 2, (i % 2) as u16 * 8, if i < 2 { "w" } else { "wmf" })).collect();
        assert_eq!(played(&trace, &[group(&[(0, 8)]), group(&[(8, 16)])], false), (8, 0, 0));
        let shared: Vec<_> = (0..10).map(|i| access(i % 2, 0, if i < 2 { "w" } else { "wmt" })).collect();
        assert_eq!(played(&shared, &[group(&[(0, 8)])], false), (8, 8, 0));
    }

    /// The writer's first write hit and was not recorded, but the simulator knows that the word was written.
    #[test]
    fn a_miss_by_true_sharing_stays_though_the_write_is_not_in_the_trace() {
        let trace = [access(1, 0, "rmt"), access(1, 8, "rmf"), access(1, 0, "rmt")];
        assert_eq!(played(&trace, &[group(&[(0, 8)]), group(&[(8, 16)])], false), (3, 2, 0));
    }

    /// A lock word next to a constant word, as in PostgreSQL's buffer descriptors: each round reads the constant,
    /// which misses, and then takes the lock, which hits. On separate lines, the lock misses instead.
    #[test]
    fn a_false_miss_may_have_fetched_what_is_needed_next() {
        let turn = |core| {
            let (constant, lock) = if core < 2 { ("rmf", "w") } else { ("r", "w") };
            [access(core, 0, constant), access(core, 8, lock)]
        };
        let trace: Vec<_> = [turn(0), turn(1), turn(0), turn(1)].into_iter().flatten().collect();
        // The locks of rounds three and four miss; those of the first two are first accesses.
        assert_eq!(played(&trace, &[group(&[(0, 8)]), group(&[(8, 16)])], false), (4, 2, 2));
    }
}
