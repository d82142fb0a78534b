//! Infers causes from samples alone, as for a hardware PMU's capture, with the certainty of each verdict.
//!
//! The verdict on a sampled miss is the first of these that holds. n and p go with it. One sample stands for P
//! misses.
//!
//! 1. **cold**: the sample is the first of its line, and lies in the first burst of its page (or 64 KiB, or 1 MiB):
//!    less than C lines came in since the region was sampled first. Had an earlier pass gone over the region as
//!    densely as this burst of b lines, it would have left no sample with chance `p = e^-b`; and had this line
//!    missed once before, that would have gone unsampled with chance `p = 1 - 1/P`. The smaller p, if at most 5 %.
//!    Not if rule 3 applies to the line's next sample: a line that misses often was probably not sampled at its
//!    very first miss. Weak: the cache may have held the line before the recording began.
//! 2. **coherence**: the snoop found the line modified in another cache (HITM). Of a first level this counts only
//!    if the line is near as in 3, for a line that the core's second level does not hold either was mostly lost
//!    long before. Below it counts always, and p is not known: the core may have lost the line for lack of room,
//!    before the other core wrote it.
//! 3. **conflict by reuse**: the line was sampled twice while fewer than R = C / 2 lines came in (see
//!    [`super::log`]). A fully associative cache of C lines would have kept it, so its set caused the miss, unless
//!    C - R other lines hit meanwhile. Those are not seen, so p is not known: in pgbench's L1d such a verdict was
//!    wrong every second time. The line's other samples follow if at least 75 % of them all are near.
//! 4. **conflict by set**: the line's set is significant under the null model (see [`super::sets`]), and of the
//!    samples counted there at most 25 % are those that any set has. p is that share, or the rate of false
//!    discovery if larger. Not if 5 shows that reuse in the set is long, and at most 25 % of the set's samples are
//!    near.
//! 5. **capacity**: no early reuse of the line was sampled, and there are enough samples to have found one. Of n
//!    samples left, these may be something else: * hidden conflicts. Within R misses after a sample lie `k =
//!    floor((R - 1) / P)` further samples; a line that misses once more within them is found with chance k / R. So
//!    each line sampled as a single pair represents R / k - 1 unsampled pairs, `u(d) (R / k - 1)` at most, with d
//!    the lines seen as a single pair and u the upper 95 % limit of a Poisson mean. With k = 0, the samples are too
//!    far apart for a verdict on this cache. * cold misses. There are as many as lines. Chao's estimate (1984) from
//!    the lines sampled once and twice: `M = D + (1 - 1/P) f1 (f1 - 1) / (2 (f2 + 1))`, so M / P of the samples are
//!    expected to be cold.
//!
//!    p is their sum over n, an estimate, not a bound: reuse after R to C lines is in neither term. Capacity if at
//!    most 25 %. With every miss sampled both terms are 0 and only that third one is left, so p is not known.
//! 6. **cold by number**: conversely, if cold misses are at least 75 % of the remaining samples; p is the
//!    remainder.
//! 7. **unknown**.

use super::geometry::{CacheLevel, LevelGeometry, SetIndexing};
use super::kind::Cause;
use super::log::{flag, Miss, MissLog, NONE};
use super::sets::{set_map, SetLine, SetMap, SetsUnknown, StandingSet};
use super::statistics::poisson_upper_limit;
use rustc_hash::FxHashMap;

/// A cold verdict needs this p.
const COLD_P: f64 = 0.05;
/// A verdict on what is left after the evidence needs this p.
const REST_P: f64 = 0.25;

/// Threshold for a set's share of near samples: above it, the set has conflicts regardless of its other samples.
const FEW_NEAR: f64 = 0.25;

/// The evidence for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(super) enum Basis {
    /// Recorded by the source.
    Told,
    /// The snoop result.
    Snoop,
    /// The first burst of a region.
    Burst,
    /// A set that stands out.
    Set,
    /// The distance to the line's last miss.
    Reuse,
    /// The number of lines.
    Number,
    /// Nothing.
    Nothing,
}

/// The verdict on one miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Verdict {
    pub cause: Cause,
    pub basis: Basis,
    pub p: f64,
}

const UNKNOWN: Verdict = Verdict { cause: Cause::Unknown, basis: Basis::Nothing, p: 1.0 };

/// The set to which a line of the log belongs.
pub(super) fn set_of(geometry: LevelGeometry, indexed_by: Option<u64>) -> Option<u32> {
    Some(geometry.set_of(indexed_by?))
}

/// The map of a log's misses by cache set. `is_cold` selects the misses that the test leaves out.
pub(super) fn map_of(
    log: &MissLog,
    level: CacheLevel,
    geometry: Option<LevelGeometry>,
    one_line_in: u32,
    sets_told: bool,
    is_cold: &dyn Fn(usize, &Miss) -> bool,
) -> Result<SetMap, SetsUnknown> {
    let geometry = geometry.ok_or(SetsUnknown::NoGeometry)?;
    let hidden = geometry.indexing == SetIndexing::Hashed;
    if hidden && !sets_told {
        return Err(SetsUnknown::Hashed);
    }
    let mut lines: FxHashMap<(u32, u32), SetLine> = FxHashMap::default();
    for (index, miss) in log.misses.iter().enumerate().filter(|(_, miss)| miss.line != NONE) {
        let line = &log.lines[miss.line as usize];
        let told = (sets_told && miss.set_told < geometry.sets).then_some(miss.set_told);
        let Some(set) = told.or_else(|| set_of(geometry, line.indexed_by).filter(|_| !hidden)) else {
            continue;
        };
        let entry = lines.entry((miss.line, set)).or_insert_with(|| SetLine {
            set,
            core: if level.is_private() { line.core } else { 0 },
            address: line.address,
            samples: 0,
            tested: 0,
            object: line.object.clone(),
        });
        entry.samples += 1;
        entry.tested += u64::from(!is_cold(index, miss));
    }
    if lines.is_empty() {
        let physical = geometry.indexing == SetIndexing::Physical && !log.lines.is_empty();
        return Err(if physical { SetsUnknown::NoPhysicalAddress } else { SetsUnknown::NoAddress });
    }
    let mut lines: Vec<((u32, u32), SetLine)> = lines.into_iter().collect();
    lines.sort_by_key(|(key, _)| *key);
    let lines: Vec<SetLine> = lines.into_iter().map(|(_, line)| line).collect();
    Ok(set_map(level, geometry, one_line_in, &lines))
}

/// The verdict on every miss of the log, and the map they rest on.
pub(super) fn infer(
    log: &MissLog,
    level: CacheLevel,
    geometry: Option<LevelGeometry>,
    one_line_in: u32,
) -> (Vec<Verdict>, Result<SetMap, SetsUnknown>) {
    let period = (log.period() / f64::from(one_line_in.max(1))).max(1.0);
    let mut verdicts: Vec<Verdict> =
        log.misses.iter().map(|miss| early_verdict(log, level, miss, period)).collect();
    let is_open = |index: usize| verdicts[index] == UNKNOWN;
    let map = map_of(log, level, geometry, one_line_in, false, &|index, _| !is_open(index));
    if log.capacity().is_none() {
        return (verdicts, map);
    }
    let mut standing: FxHashMap<u32, f64> = FxHashMap::default();
    if let (Ok(map), Some(_)) = (&map, geometry) {
        let p = |set: &StandingSet| set.q.max(set.expected / set.counted.max(1) as f64);
        let most_are_excess = map.standing_out.iter().filter(|set| p(set) <= REST_P);
        standing.extend(most_are_excess.map(|set| (set.set, p(set))));
    }
    let group_of = |miss: &Miss| -> Option<u32> {
        let set = set_of(geometry?, log.lines.get(miss.line as usize)?.indexed_by)?;
        standing.contains_key(&set).then_some(set)
    };
    let returns = Returns::count(log, period);
    let groups = Groups::count(log, &verdicts, &returns, &group_of);
    for (index, miss) in log.misses.iter().enumerate() {
        if verdicts[index] == UNKNOWN && miss.line != NONE {
            verdicts[index] = returns.verdict(miss).unwrap_or_else(|| {
                let group = group_of(miss);
                groups.verdict(group, group.map(|set| standing[&set]), miss)
            });
        }
    }
    (verdicts, map)
}

/// The verdict that needs only one sample: cold by burst, or coherence.
fn early_verdict(log: &MissLog, level: CacheLevel, miss: &Miss, period: f64) -> Verdict {
    let cold = cold_by_burst(log, miss, period);
    if cold != UNKNOWN || miss.flags & flag::HIT_MODIFIED == 0 {
        return cold;
    }
    let near = miss.flags & (flag::NEAR_BEFORE | flag::NEAR_AFTER) != 0;
    match level {
        _ if near => Verdict { cause: Cause::Coherence, basis: Basis::Snoop, p: f64::NAN },
        CacheLevel::L1d | CacheLevel::L1i if log.capacity().is_some() => UNKNOWN,
        _ => Verdict { cause: Cause::Coherence, basis: Basis::Snoop, p: f64::NAN },
    }
}

fn cold_by_burst(log: &MissLog, miss: &Miss, period: f64) -> Verdict {
    let again_soon = period > 1.0 && miss.flags & flag::NEAR_AFTER != 0;
    if miss.flags & flag::FIRST == 0 || again_soon {
        return UNKNOWN;
    }
    let line = &log.lines[miss.line as usize];
    let in_burst = |position: usize| miss.flags & (flag::BURST << position) != 0;
    let densest = (0..line.regions.len())
        .filter(|position| in_burst(*position))
        .map(|position| log.burst(line.regions[position]))
        .max();
    let p = densest.map_or(1.0, |burst| (-(burst as f64)).exp()).min(1.0 - 1.0 / period);
    if p <= COLD_P {
        Verdict { cause: Cause::Cold, basis: Basis::Burst, p }
    } else {
        UNKNOWN
    }
}

/// The number of times that lines were sampled again within C / 2 ticks.
struct Returns {
    period: f64,
    /// Inverse probability that a further miss within R misses is sampled: R / k; infinite if samples are too far
    /// apart.
    per_pair: f64,
    /// By line: samples with an earlier near sample of the same line.
    pairs: Vec<u64>,
    /// By line: samples with an earlier or later near sample.
    near: Vec<u64>,
    /// By line: all samples.
    samples: Vec<u64>,
}

impl Returns {
    fn count(log: &MissLog, period: f64) -> Returns {
        let reach = log.reach().unwrap_or(0) as f64;
        let per_pair = reach / ((reach - 1.0) / period).floor().max(0.0);
        let (mut pairs, mut near) = (vec![0u64; log.lines.len()], vec![0u64; log.lines.len()]);
        for miss in log.misses.iter().filter(|miss| miss.line != NONE) {
            let (before, after) = (miss.flags & flag::NEAR_BEFORE != 0, miss.flags & flag::NEAR_AFTER != 0);
            pairs[miss.line as usize] += u64::from(before);
            near[miss.line as usize] += u64::from(before || after);
        }
        let samples = log.lines.iter().map(|line| line.samples).collect();
        Returns { period, per_pair, pairs, near, samples }
    }

    /// Whether the line was sampled again soon. A later near sample counts only if samples are missing: with every
    /// miss sampled, it is itself the miss that the pair explains.
    fn verdict(&self, miss: &Miss) -> Option<Verdict> {
        let conflict = Verdict { cause: Cause::Conflict, basis: Basis::Reuse, p: f64::NAN };
        let sampled = self.period > 1.0;
        let line = miss.line as usize;
        let others = 1.0 - self.near[line] as f64 / self.samples[line].max(1) as f64;
        let near = miss.flags & flag::NEAR_BEFORE != 0;
        let near_or_alike = near || (sampled && (miss.flags & flag::NEAR_AFTER != 0 || others <= REST_P));
        near_or_alike.then_some(conflict)
    }
}

/// A group of samples: those of a set that stands out, or all others.
#[derive(Clone, Copy, Default)]
struct Group {
    /// Samples without evidence of their own.
    left: u64,
    /// Samples that are near.
    near: u64,
    /// Lines sampled as a single pair.
    pairs: u64,
}

/// Samples without evidence of their own, by group: each set that stands out, and all others together.
struct Groups {
    groups: FxHashMap<Option<u32>, Group>,
    /// Samples left, in all groups.
    left: u64,
    /// Expected cold misses that have no verdict yet.
    cold_expected: f64,
    /// Unsampled pairs for each sampled one.
    hidden_per_pair: f64,
}

impl Groups {
    fn count(
        log: &MissLog,
        verdicts: &[Verdict],
        returns: &Returns,
        group_of: &dyn Fn(&Miss) -> Option<u32>,
    ) -> Groups {
        let mut groups: FxHashMap<Option<u32>, Group> = FxHashMap::default();
        for (miss, verdict) in log.misses.iter().zip(verdicts) {
            if *verdict != UNKNOWN || miss.line == NONE {
                continue;
            }
            let group = groups.entry(group_of(miss)).or_default();
            match returns.verdict(miss) {
                None => group.left += 1,
                Some(_) => group.near += 1,
            }
            let single = miss.flags & flag::NEAR_BEFORE != 0 && returns.pairs[miss.line as usize] == 1;
            group.pairs += u64::from(single);
        }
        let cold_found = verdicts.iter().filter(|verdict| verdict.cause == Cause::Cold).count() as f64;
        Groups {
            left: groups.values().map(|group| group.left).sum(),
            groups,
            cold_expected: (lines_estimated(log, returns.period) / returns.period - cold_found).max(0.0),
            hidden_per_pair: if returns.period > 1.0 { returns.per_pair - 1.0 } else { 0.0 },
        }
    }

    fn verdict(&self, group: Option<u32>, standing_p: Option<f64>, miss: &Miss) -> Verdict {
        let group = self.groups.get(&group).copied().unwrap_or_default();
        if group.left == 0 {
            return UNKNOWN;
        }
        let hidden = poisson_upper_limit(group.pairs) * self.hidden_per_pair / group.left as f64;
        let cold = (self.cold_expected / self.left as f64).min(1.0);
        let other = (hidden + cold).min(1.0);
        let few_near = group.near as f64 <= FEW_NEAR * (group.near + group.left) as f64;
        // With every miss sampled, each has its own verdict, and the other samples of its set add nothing.
        let long = standing_p.is_none() || few_near || self.hidden_per_pair == 0.0;
        if other <= REST_P && long {
            let p = if self.hidden_per_pair == 0.0 { f64::NAN } else { other };
            return Verdict { cause: Cause::Capacity, basis: Basis::Reuse, p };
        }
        if let Some(p) = standing_p {
            return Verdict { cause: Cause::Conflict, basis: Basis::Set, p };
        }
        if miss.flags & flag::FIRST != 0 && 1.0 - cold <= REST_P {
            return Verdict { cause: Cause::Cold, basis: Basis::Number, p: 1.0 - cold };
        }
        UNKNOWN
    }
}

/// Chao's estimate of the number of lines, those never sampled included.
fn lines_estimated(log: &MissLog, period: f64) -> f64 {
    let times = |wanted: u64| log.lines.iter().filter(|line| line.samples == wanted).count() as f64;
    let (once, twice) = (times(1), times(2));
    let unseen = (1.0 - 1.0 / period) * once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0));
    log.lines.len() as f64 + unseen
}

#[cfg(test)]
mod tests {
    use super::super::log::tests::seen;
    use super::*;

    /// 16 sets of four ways: 64 lines.
    fn geometry() -> LevelGeometry {
        LevelGeometry { sets: 16, ways: 4, line_size: 64, indexing: SetIndexing::Virtual }
    }

    /// Every `period`th of the misses, by line.
    fn verdicts(period: u64, misses: impl Iterator<Item = u64>) -> (Vec<Verdict>, SetMap) {
        let mut log = MissLog::new(Some(64), 6);
        misses
            .skip(period as usize - 1)
            .step_by(period as usize)
            .for_each(|line| log.add(seen(line, period)));
        let (verdicts, map) = infer(&log, CacheLevel::L1d, Some(geometry()), 1);
        (verdicts, map.expect("addresses are known"))
    }

    fn share(verdicts: &[Verdict], cause: Cause) -> f64 {
        verdicts.iter().filter(|verdict| verdict.cause == cause).count() as f64 / verdicts.len() as f64
    }

    /// A loop over five lines of one set: five first accesses, then conflicts by reuse, in a set that stands out.
    #[test]
    fn five_lines_in_one_set_are_a_conflict() {
        let (verdicts, map) = verdicts(1, (0..500).map(|k| k % 5 * 16 + 3));
        assert!(verdicts[..5].iter().all(|verdict| verdict.cause == Cause::Cold));
        assert!(verdicts[5..].iter().all(|verdict| verdict.cause == Cause::Conflict));
        assert_eq!(map.standing_out.iter().map(|set| set.set).collect::<Vec<_>>(), [3]);
    }

    /// A loop over 128 lines, twice the cache: first accesses, then capacity misses; no set stands out.
    #[test]
    fn twice_the_cache_is_capacity() {
        let (verdicts, map) = verdicts(1, (0..1280).map(|k| k % 128));
        assert!(verdicts[..128].iter().all(|verdict| verdict.cause == Cause::Cold));
        assert!(verdicts[128..].iter().all(|verdict| verdict.cause == Cause::Capacity));
        assert_eq!(map.standing_out, []);
    }

    /// The same with one miss in seven sampled (7 and 128 are coprime): many samples give the verdict capacity, few
    /// give unknown. Cold misses are 128 of 128,000.
    #[test]
    fn few_samples_leave_capacity_unknown() {
        let (many, _) = verdicts(7, (0..128_000).map(|k| k % 128));
        assert!(share(&many, Cause::Capacity) > 0.99, "{}", share(&many, Cause::Capacity));
        assert_eq!(share(&many, Cause::Conflict), 0.0);
        let (few, _) = verdicts(7, (0..300).map(|k| k % 128));
        assert_eq!(share(&few, Cause::Capacity), 0.0, "two rounds only: half of them are first touches");
    }

    /// Conflicts of five lines with one miss in three sampled: five samples are 15 of 32 lines.
    #[test]
    fn a_sampled_fight_is_a_conflict() {
        let (verdicts, map) = verdicts(3, (0..1500).map(|k| k % 5 * 16 + 3));
        assert_eq!(share(&verdicts, Cause::Conflict), 1.0);
        assert_eq!(map.standing_out.len(), 1);
    }

    /// Samples further apart than the cache has lines: no reuse can be detected. The test of sets still finds
    /// conflicts; a loop over twice the cache stays unknown.
    #[test]
    fn samples_too_far_apart_leave_only_the_set() {
        let (fight, _) = verdicts(67, (0..67_000).map(|k| k % 5 * 16 + 3));
        assert_eq!(share(&fight, Cause::Conflict), 1.0);
        let (loop_, map) = verdicts(67, (0..670_000).map(|k| k % 128));
        assert_eq!(share(&loop_, Cause::Unknown), 1.0);
        assert_eq!(map.standing_out, []);
    }

    /// Only first accesses, with one miss in seven sampled: pages of 64 lines have nine samples in their first
    /// burst.
    #[test]
    fn first_touches_are_cold() {
        let (verdicts, map) = verdicts(7, 0..10_000);
        assert!(share(&verdicts, Cause::Cold) > 0.99, "{}", share(&verdicts, Cause::Cold));
        assert_eq!(map.standing_out, []);
    }

    /// A hundred lines lost to other cores, without geometry: only snoops give a verdict.
    #[test]
    fn without_geometry_only_snoops_tell() {
        let mut log = MissLog::new(None, 6);
        for k in 0..200u64 {
            log.add(super::super::log::Seen { hit_modified: k % 2 == 0, ..seen(k % 7, 10) });
        }
        let (verdicts, map) = infer(&log, CacheLevel::L1d, None, 1);
        assert_eq!(share(&verdicts, Cause::Coherence), 0.5);
        assert_eq!(share(&verdicts, Cause::Unknown), 0.5);
        assert_eq!(map, Err(SetsUnknown::NoGeometry));
    }
}
