//! Samples per cache set, and the sets that stand out.
//!
//! # The null model
//!
//! All sets are equal: every line lies in one of S sets, chosen at random, with all its samples. Samples of one
//! line are not independent: a test that counts samples would report every set with one hot line. Therefore lines
//! are the units, each with a weight:
//!
//! ```text
//!   n(l)   samples of line l (its cold misses left out: they cannot be conflicts)
//!   m(s)   the (W+1)th largest n among the lines of set s on one core (of all cores, the largest); W: ways
//!   w(l) = min(n(l), m(s))
//!   T    = sum of w over all lines      phi = sum of w^2 / T     the overdispersion: samples that come in one piece
//!   x(s) = sum of w over the lines of set s
//!   p(s) = P(X >= x(s) / phi),   X ~ Binomial(T / phi, 1 / S)
//! ```
//!
//! The weights are capped because up to W lines of a set coexist however hot they are: only W + 1 lines can
//! conflict. A set stands out if it has more than W distinct lines on one core, and if its false discovery rate
//! (Benjamini and Hochberg, over all S sets) is 1 % at most.

use super::geometry::{CacheLevel, LevelGeometry};
use super::statistics::{binomial_upper_tail, false_discovery_rates};
use hardmeter_samples::model::VirtualAddress;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::Arc;

/// Sets stand out at this false discovery rate.
const DISCOVERY_RATE: f64 = 0.01;
/// Minimum number of listed lines of a set; twice the ways if that is more.
const LINES_LISTED: usize = 8;

/// A line among those that conflict in a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FightingLine {
    /// Its address in the first sampled process.
    pub address: VirtualAddress,
    /// Its samples.
    pub samples: u64,
    /// The object there, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Arc<str>>,
}

/// A set that gets more misses than the null model explains.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StandingSet {
    /// The set.
    pub set: u32,
    /// Its samples.
    pub samples: u64,
    /// The cap on samples of each line: those of the line at rank W + 1 (m).
    pub cut_at: u64,
    /// The samples counted after the cut (x).
    pub counted: u64,
    /// Expected number under the null model (T / S).
    pub expected: f64,
    /// Distinct lines sampled in it, on the core that has most of them.
    pub lines_on_one_core: u32,
    /// Distinct lines sampled in it, of all cores.
    pub distinct_lines: u32,
    /// Overdispersion (phi): how many samples come together on average.
    pub overdispersion: f64,
    /// The probability of at least this many under the null model.
    pub p: f64,
    /// The false discovery rate at which it counts as found.
    pub q: f64,
    /// The lines with most samples.
    pub lines: Vec<FightingLine>,
}

/// Samples per set of a level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetMap {
    /// The level.
    pub level: CacheLevel,
    /// Its geometry.
    pub geometry: LevelGeometry,
    /// Samples of each set.
    pub counts: Vec<u64>,
    /// Samples in all sets.
    pub samples: u64,
    /// Samples in the test: all except cold misses.
    pub tested: u64,
    /// Distinct lines.
    pub lines: u64,
    /// The sets that stand out, most samples first.
    pub standing_out: Vec<StandingSet>,
}

/// The reason why there is no map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetsUnknown {
    /// The machine's geometry is unknown.
    NoGeometry,
    /// The machine has no such level.
    NoSuchLevel,
    /// Samples have no data address.
    NoAddress,
    /// The set is chosen by physical bits, and samples have no physical address.
    NoPhysicalAddress,
    /// The set is chosen by an unpublished hash.
    Hashed,
    /// The event does not count the misses of one level.
    NoLevel,
}

/// A line with its counts for the test.
pub(super) struct SetLine {
    pub set: u32,
    pub core: u32,
    pub address: VirtualAddress,
    /// All its samples.
    pub samples: u64,
    /// Samples that are not cold misses.
    pub tested: u64,
    pub object: Option<Arc<str>>,
}

/// Counts and tests. One line in `one_line_in` was simulated: only as many sets can have samples.
pub(super) fn set_map(
    level: CacheLevel,
    geometry: LevelGeometry,
    one_line_in: u32,
    lines: &[SetLine],
) -> SetMap {
    let mut counts = vec![0u64; geometry.sets as usize];
    for line in lines {
        counts[line.set as usize] += line.samples;
    }
    let ranked = RankedCounts::new(lines);
    let mut of_set: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.tested > 0) {
        of_set.entry(line.set).or_default().push(index);
    }
    let sets_seen = (geometry.sets / one_line_in.max(1)).max(1);
    let samples: u64 = counts.iter().sum();
    let mut candidates: Vec<StandingSet> = Vec::new();
    // With a single set there is no comparison.
    for (set, members) in of_set.iter().filter(|_| sets_seen > 1) {
        let Some((lines_on_one_core, limit)) = fighters(members, lines, geometry.ways) else { continue };
        let weight: u64 = members.iter().map(|index| lines[*index].tested.min(limit)).sum();
        let (total, overdispersion) = ranked.cut_at(limit);
        let chance = 1.0 / f64::from(sets_seen);
        let p = binomial_upper_tail(weight as f64 / overdispersion, total / overdispersion, chance);
        candidates.push(StandingSet {
            set: *set,
            samples: counts[*set as usize],
            cut_at: limit,
            counted: weight,
            expected: total * chance,
            overdispersion,
            lines_on_one_core,
            distinct_lines: members.len() as u32,
            p,
            q: 1.0,
            lines: Vec::new(),
        });
    }
    let p: Vec<f64> = candidates.iter().map(|set| set.p).collect();
    for (candidate, q) in candidates.iter_mut().zip(false_discovery_rates(&p, sets_seen as usize)) {
        candidate.q = q;
    }
    candidates.retain(|set| set.q <= DISCOVERY_RATE);
    candidates.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.set.cmp(&b.set)));
    for standing in &mut candidates {
        standing.lines = hottest(&of_set[&standing.set], lines, geometry.ways as usize);
    }
    SetMap {
        level,
        geometry,
        counts,
        samples,
        tested: lines.iter().map(|line| line.tested).sum(),
        lines: lines.len() as u64,
        standing_out: candidates,
    }
}

/// The lines' counts in ascending order with running sums, so that capping them all costs one search.
struct RankedCounts {
    counts: Vec<u64>,
    /// Sums of the first k counts, and of their squares.
    sums: Vec<(f64, f64)>,
}

impl RankedCounts {
    fn new(lines: &[SetLine]) -> RankedCounts {
        let mut counts: Vec<u64> = lines.iter().map(|line| line.tested).collect();
        counts.sort_unstable();
        let mut sums = vec![(0.0, 0.0)];
        let mut last = (0.0, 0.0);
        for count in &counts {
            last = (last.0 + *count as f64, last.1 + (*count as f64).powi(2));
            sums.push(last);
        }
        RankedCounts { counts, sums }
    }

    /// T and phi of the module's documentation.
    fn cut_at(&self, limit: u64) -> (f64, f64) {
        let below = self.counts.partition_point(|count| *count <= limit);
        let (above, limit) = ((self.counts.len() - below) as f64, limit as f64);
        let total = self.sums[below].0 + above * limit;
        let squares = self.sums[below].1 + above * limit * limit;
        (total, if total > 0.0 { (squares / total).max(1.0) } else { 1.0 })
    }
}

/// If some core has more lines in the set than ways: the largest such number, and m(s) of the module's
/// documentation.
fn fighters(members: &[usize], lines: &[SetLine], ways: u32) -> Option<(u32, u64)> {
    let mut of_core: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
    for line in members.iter().map(|index| &lines[*index]) {
        of_core.entry(line.core).or_default().push(line.tested);
    }
    let most = of_core.values().map(Vec::len).max()?;
    let limit = of_core
        .into_values()
        .filter_map(|mut counts| {
            counts.sort_unstable_by(|a, b| b.cmp(a));
            counts.get(ways as usize).copied()
        })
        .max()?;
    Some((most as u32, limit))
}

/// The hottest lines of a set. A line that several cores contend for is listed once.
fn hottest(members: &[usize], lines: &[SetLine], ways: usize) -> Vec<FightingLine> {
    let mut merged: FxHashMap<VirtualAddress, FightingLine> = FxHashMap::default();
    for line in members.iter().map(|index| &lines[*index]) {
        let entry = merged.entry(line.address).or_insert_with(|| FightingLine {
            address: line.address,
            samples: 0,
            object: line.object.clone(),
        });
        entry.samples += line.tested;
    }
    let mut listed: Vec<FightingLine> = merged.into_values().collect();
    listed.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.address.cmp(&b.address)));
    listed.truncate(LINES_LISTED.max(2 * ways));
    listed
}

#[cfg(test)]
mod tests {
    use super::super::geometry::SetIndexing;
    use super::*;

    fn geometry(sets: u32, ways: u32) -> LevelGeometry {
        LevelGeometry { sets, ways, line_size: 64, indexing: SetIndexing::Virtual }
    }

    fn line(number: u64, sets: u32, samples: u64) -> SetLine {
        SetLine {
            set: (number % u64::from(sets)) as u32,
            core: 0,
            address: VirtualAddress(number * 64),
            samples,
            tested: samples,
            object: None,
        }
    }

    /// A fixed pseudo-random sequence (xorshift).
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state >> 11
    }

    /// Five lines of 100 samples each in set 3 of 16 sets of four ways, and one line of one sample in every other
    /// set: T = 515, phi = 50,015 / 515 = 97.1, x = 500 / 97.1 = 5.1 of 5.3 units: about 16^-5.
    #[test]
    fn five_lines_in_a_four_way_set_stand_out() {
        let mut lines: Vec<SetLine> = (0..5).map(|k| line(3 + 16 * k, 16, 100)).collect();
        lines.extend((0..16).filter(|set| *set != 3).map(|set| line(1600 + set, 16, 1)));
        let map = set_map(CacheLevel::L1d, geometry(16, 4), 1, &lines);
        assert_eq!((map.samples, map.counts[3], map.counts[4]), (515, 500, 1));
        let [standing] = map.standing_out.as_slice() else { panic!("{:?}", map.standing_out) };
        assert_eq!((standing.cut_at, standing.counted), (100, 500));
        assert!((standing.expected - 515.0 / 16.0).abs() < 1e-9);
        assert!((standing.overdispersion - 50_015.0 / 515.0).abs() < 1e-9);
        assert_eq!((standing.set, standing.distinct_lines, standing.lines_on_one_core), (3, 5, 5));
        assert!(standing.p < 1e-5, "{}", standing.p);
        assert_eq!(standing.lines.len(), 5);
        assert_eq!(standing.lines[0].address, VirtualAddress(3 * 64));
    }

    /// As many lines as ways coexist, however often they miss.
    #[test]
    fn four_hot_lines_in_a_four_way_set_do_not() {
        let mut lines: Vec<SetLine> = (0..4).map(|k| line(3 + 16 * k, 16, 100)).collect();
        lines.extend((0..16).map(|set| line(1600 + set, 16, 1)));
        let map = set_map(CacheLevel::L1d, geometry(16, 4), 1, &lines);
        // Set 3 has five distinct lines, but the fifth is not hot.
        assert_eq!(map.counts[3], 401);
        assert_eq!(map.standing_out, []);
        // The same five lines on two cores: neither core has more than four.
        for (position, line) in lines.iter_mut().enumerate() {
            line.core = position as u32 % 2;
        }
        assert_eq!(set_map(CacheLevel::L1d, geometry(16, 4), 1, &lines).standing_out, []);
    }

    #[test]
    fn even_misses_give_no_verdict() {
        let lines: Vec<SetLine> = (0..6400).map(|number| line(number, 64, 3)).collect();
        let map = set_map(CacheLevel::L1d, geometry(64, 8), 1, &lines);
        assert!(map.counts.iter().all(|count| *count == 300));
        assert_eq!(map.standing_out, []);
    }

    /// Lines at random places, a few of them thousands of times hotter than most: no set stands out in any of 20
    /// such captures, although plain counts per set differ many times over.
    #[test]
    fn hot_lines_at_random_places_give_no_verdict() {
        let mut state = 88_172_645_463_325_252;
        let mut found = 0;
        for _ in 0..20 {
            let lines: Vec<SetLine> =
                (1..=3000).map(|rank| line(random(&mut state), 64, (3000 / rank) as u64)).collect();
            found += set_map(CacheLevel::L1d, geometry(64, 8), 1, &lines).standing_out.len();
        }
        // 1,280 tested sets; the discovery rate limits the false positives.
        assert!(found <= 1, "{found} of 1,280 sets");
    }

    /// Nine conflicting lines in one set of 64 are found among three thousand that do not.
    #[test]
    fn a_fight_is_found_in_noise() {
        let mut state = 88_172_645_463_325_252;
        let mut lines: Vec<SetLine> =
            (1..=3000).map(|rank| line(random(&mut state), 64, (1000 / rank + 1) as u64)).collect();
        lines.extend((0..12).map(|k| line((1 << 40) + 17 + 64 * k, 64, 400)));
        let map = set_map(CacheLevel::L1d, geometry(64, 8), 1, &lines);
        assert_eq!(map.standing_out.iter().map(|set| set.set).collect::<Vec<_>>(), [17]);
    }

    /// One line in four was simulated: only every fourth set can have samples, which must not count as a discovery.
    #[test]
    fn sets_that_were_not_simulated_are_not_expected_to_miss() {
        let lines: Vec<SetLine> = (0..1600).map(|number| line(number * 4, 64, 3)).collect();
        assert_eq!(set_map(CacheLevel::L1d, geometry(64, 8), 4, &lines).standing_out, []);
        assert_eq!(
            set_map(CacheLevel::L1d, geometry(64, 8), 1, &lines).standing_out.len(),
            16,
            "unless untold"
        );
    }
}
