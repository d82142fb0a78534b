//! The measured latencies of a machine: the time of a load that depends on the previous one, by the size of
//! the memory in which the loads lie; the caches that follow from it; and a machine model with these figures.
//!
//! Pure: `measure/record/src/latency` measures.

use crate::machine::{LatencyMethod, Machine};
use serde::Serialize;

/// The time of a load in memory of some size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyPoint {
    /// Size of the memory in which the loads lie.
    pub bytes: u64,
    /// Nanoseconds per load: a median.
    pub ns: f64,
    /// The median's 95 % interval.
    pub low_ns: f64,
    /// Its other end.
    pub high_ns: f64,
}

/// Where latency rises from one level to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// The size at which the latency has risen by a fifth of the step, which is the size of the lower level.
    pub bytes: f64,
    /// The latency of the lower level.
    pub before_ns: f64,
    /// The latency of the upper level.
    pub after_ns: f64,
}

/// A cache level, as the kernel reports it and as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredCache {
    /// "L1", "L2", "L3".
    pub name: &'static str,
    /// Nanoseconds for a load that this level serves; `None` if no measured size lies within this level
    /// alone.
    pub ns: Option<f64>,
    /// Its size as the kernel reports it.
    pub reported_bytes: u64,
    /// Its size according to the cliff after it; `None` if there was no cliff.
    pub cliff_bytes: Option<f64>,
}

impl MeasuredCache {
    /// True if the cliff agrees with the kernel's size, within [`AGREEMENT`]; `None` without a cliff.
    pub fn agrees(&self) -> Option<bool> {
        let ratio = self.cliff_bytes? / self.reported_bytes as f64;
        Some((1.0 / AGREEMENT..=AGREEMENT).contains(&ratio))
    }
}

/// One line on each of several pages, compared with the same number of adjacent lines on huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PagePoint {
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Nanoseconds for a load if each line is on its own page.
    pub spread_ns: f64,
    /// Nanoseconds for a load if the lines are adjacent.
    pub packed_ns: f64,
}

impl PagePoint {
    /// The cost of the address translations.
    pub fn translation_ns(&self) -> f64 {
        (self.spread_ns - self.packed_ns).max(0.0)
    }
}

/// Two processors that write one line alternately.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CorePair {
    /// One processor.
    pub first: usize,
    /// The other one.
    pub second: usize,
    /// Nanoseconds to transfer the line from one to the other: half of a round.
    pub ns: f64,
    /// The 95 % interval.
    pub low_ns: f64,
    /// Its other end.
    pub high_ns: f64,
}

/// How the latency of memory was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryBy {
    /// The lines were flushed from all caches before, which is exact for any cache contents.
    Flushed,
    /// The largest memory that was tried; some of its lines may have been in a cache.
    Largest,
}

/// All measured latencies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineLatency {
    /// The processor's name.
    pub processor: String,
    /// Cycles per nanosecond.
    pub ghz: f64,
    /// True if it was measured; otherwise the kernel reports it.
    pub ghz_measured: bool,
    /// The caches.
    pub caches: Vec<MeasuredCache>,
    /// Nanoseconds for a load from memory.
    pub memory_ns: f64,
    /// How that was measured.
    pub memory_by: MemoryBy,
    /// Cost of a miss of the first-level TLB, if the second level has the translation.
    pub tlb_miss_ns: Option<f64>,
    /// Cost of a page walk.
    pub page_walk_ns: Option<f64>,
    /// Latencies on huge pages, or on the kind of pages that the kernel gave.
    pub huge: Vec<LatencyPoint>,
    /// True if the kernel gave huge pages.
    pub huge_pages: bool,
    /// Latencies on pages of 4 KiB.
    pub small: Vec<LatencyPoint>,
    /// Latencies of translations.
    pub pages: Vec<PagePoint>,
    /// Latencies from core to core.
    pub cores: Vec<CorePair>,
    /// Notes that the reader needs to interpret these figures.
    pub notes: Vec<String>,
}

/// A cliff and a reported size agree if they differ by at most this factor.
pub const AGREEMENT: f64 = 1.5;
/// A smaller ratio between adjacent sizes is not a rise.
const RISE: f64 = 1.06;
/// The minimum height of a cliff.
const HEIGHT: f64 = 1.3;
/// The part of the rise at which a cache counts as full.
const FULL: f64 = 0.2;
/// A level's own latency is read between this multiple of the previous level's size and this fraction of its
/// own.
const ABOVE: f64 = 1.6;
const BELOW: f64 = 0.7;

/// The cliffs of a curve whose points are ordered by size.
pub fn cliffs(points: &[LatencyPoint]) -> Vec<Cliff> {
    // A point slower than a larger memory was disturbed.
    let mut level: Vec<f64> = points.iter().map(|point| point.ns).collect();
    for at in (0..level.len().saturating_sub(1)).rev() {
        level[at] = level[at].min(level[at + 1]);
    }
    let mut found = Vec::new();
    let mut from = 0;
    while from + 1 < level.len() {
        let mut to = from;
        while to + 1 < level.len() && level[to + 1] >= level[to] * RISE {
            to += 1;
        }
        if to > from && level[to] >= level[from] * HEIGHT {
            found.push(Cliff {
                bytes: size_at(points, &level, from, level[from] + FULL * (level[to] - level[from])),
                before_ns: level[from],
                after_ns: level[to],
            });
        }
        from = to.max(from + 1);
    }
    found
}

/// The size after `from` at which a latency is reached, between two points on a logarithmic scale.
fn size_at(points: &[LatencyPoint], level: &[f64], from: usize, wanted: f64) -> f64 {
    let behind = (from..level.len()).find(|at| level[*at] >= wanted).unwrap_or(level.len() - 1);
    let before = behind.saturating_sub(1).max(from);
    let (low, high) = (points[before].bytes as f64, points[behind].bytes as f64);
    let rise = level[behind] - level[before];
    let part = if rise > 0.0 { (wanted - level[before]) / rise } else { 0.0 };
    low * (high / low).powf(part.clamp(0.0, 1.0))
}

/// The caches that the kernel reports, by name and size, ordered by level, with their cliffs and latencies.
/// The first and the second level get the cliff nearest to their size. The last level gets the remaining
/// cliff, however far away, because virtual machines share that cache.
pub fn caches(reported: &[(&'static str, u64)], points: &[LatencyPoint]) -> Vec<MeasuredCache> {
    let mut left = cliffs(points);
    let mut caches: Vec<MeasuredCache> = Vec::new();
    for (number, (name, bytes)) in reported.iter().enumerate() {
        let distance = |cliff: &Cliff| (cliff.bytes / *bytes as f64).ln().abs();
        let last = number + 1 == reported.len() && number > 0;
        let next = reported.get(number + 1).map(|(_, bytes)| *bytes as f64);
        let own =
            |cliff: &Cliff| last || next.is_none_or(|next| distance(cliff) < (cliff.bytes / next).ln().abs());
        let nearest = left.iter().enumerate().filter(|(_, cliff)| own(cliff));
        let nearest = nearest.min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b))).map(|(at, _)| at);
        let cliff_bytes = nearest.map(|at| {
            let cliff = left[at].bytes;
            left.drain(..=at);
            cliff
        });
        let before = caches.last().map(|cache| cache.cliff_bytes.unwrap_or(cache.reported_bytes as f64));
        let end = cliff_bytes.unwrap_or(*bytes as f64);
        let ns = latency_between(points, before.unwrap_or(0.0), end);
        caches.push(MeasuredCache { name, ns, reported_bytes: *bytes, cliff_bytes });
    }
    caches
}

/// The median latency of the sizes that lie in one level alone. If there are none, that of the size nearest
/// its middle.
fn latency_between(points: &[LatencyPoint], low: f64, high: f64) -> Option<f64> {
    let inside = |point: &&LatencyPoint| {
        let bytes = point.bytes as f64;
        bytes >= low * ABOVE && bytes <= high * BELOW
    };
    let mut values: Vec<f64> = points.iter().filter(inside).map(|point| point.ns).collect();
    values.sort_by(f64::total_cmp);
    if let Some(middle) = values.get(values.len() / 2) {
        return Some(*middle);
    }
    let middle = (low.max(1.0) * high).sqrt().ln();
    let between = points.iter().filter(|point| (low..=high).contains(&(point.bytes as f64)));
    let distance = |point: &&LatencyPoint| ((point.bytes as f64).ln() - middle).abs();
    between.min_by(|a, b| distance(a).total_cmp(&distance(b))).map(|point| point.ns)
}

/// Half of a round from core to core is two transactions that overlap in part: the writer takes the reader's copy away,
/// and the reader fetches the line. A line that both cores request continuously moves once in this fraction
/// of a round, as increments of one counter by two cores show on a Sapphire Rapids (`bench/truth/run --only
/// contention`).
const TRANSFER_OF_HALF_ROUND: f64 = 0.62;

/// The median cost of a translation between two numbers of pages.
pub fn translation_between(points: &[PagePoint], low: u64, high: u64) -> Option<f64> {
    let inside = points.iter().filter(|point| (low..=high).contains(&point.pages));
    let mut costs: Vec<f64> = inside.map(PagePoint::translation_ns).collect();
    costs.sort_by(f64::total_cmp);
    costs.get(costs.len() / 2).copied()
}

impl MachineLatency {
    /// Nanoseconds as cycles.
    pub fn cycles(&self, ns: f64) -> f64 {
        ns * self.ghz
    }

    /// The median over the pairs of processors.
    pub fn core_to_core_ns(&self) -> Option<f64> {
        let mut pairs: Vec<f64> = self.cores.iter().map(|pair| pair.ns).collect();
        pairs.sort_by(f64::total_cmp);
        pairs.get(pairs.len() / 2).copied()
    }

    /// The model with the measured latencies instead of its own, to be written to a file.
    pub fn in_machine(&self, machine: &Machine) -> Machine {
        let cycles = |ns: f64| (self.cycles(ns).round() as u32).max(1);
        let cache = |name: &str| self.caches.iter().find(|cache| cache.name == name)?.ns;
        let mut machine = machine.clone();
        machine.notes.retain(|note| !note.starts_with("latencies are assumed"));
        machine.notes.push("latencies were measured by hardmeter latency".into());
        machine.source = format!("{}; latencies by hardmeter latency", machine.source);
        machine.clock_mhz = ((self.ghz * 1000.0).round() as u32).max(1);
        machine.memory_latency = cycles(self.memory_ns);
        if let Some(ns) = cache("L1") {
            machine.l1d.latency = cycles(ns);
        }
        for (level, name) in [(&mut machine.l2, "L2"), (&mut machine.l3, "L3")] {
            if let (Some(level), Some(ns)) = (level.as_mut(), cache(name)) {
                level.latency = cycles(ns);
            }
        }
        if let Some(ns) = self.core_to_core_ns() {
            machine.transfer_latency = Some(cycles(ns * TRANSFER_OF_HALF_ROUND));
            machine.transfer_method = Some(LatencyMethod::Measured);
        }
        if let Some(ns) = self.page_walk_ns {
            machine.page_walk_latency = cycles(ns);
        }
        if let (Some(stlb), Some(ns)) = (machine.stlb.as_mut(), self.tlb_miss_ns) {
            stlb.latency = self.cycles(ns).round() as u32;
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 15] = [4, 8, 16, 32, 45, 64, 128, 256, 512, 1024, 1448, 2048, 4096, 8192, 16384];

    fn curve(latency: impl Fn(u64) -> f64) -> Vec<LatencyPoint> {
        let point = |kib: &u64| {
            let ns = latency(*kib);
            LatencyPoint { bytes: kib << 10, ns, low_ns: ns, high_ns: ns }
        };
        SIZES.iter().map(point).collect()
    }

    /// 32 KiB at 1.5 ns, 1 MiB at 5 ns, then 20 ns: loads that do not fit miss.
    fn two_levels(kib: u64) -> f64 {
        match kib {
            0..=32 => 1.5,
            33..=45 => 3.0,
            46..=64 => 4.0,
            65..=1024 => 5.0,
            1025..=2000 => 10.0,
            _ => 20.0,
        }
    }

    #[test]
    fn cliffs_are_where_the_cache_is_full() {
        let points = curve(two_levels);
        let cliffs = cliffs(&points);
        assert_eq!(cliffs.len(), 2, "{cliffs:?}");
        assert_eq!((cliffs[0].before_ns, cliffs[0].after_ns), (1.5, 5.0));
        let kib = |cliff: &Cliff| cliff.bytes / 1024.0;
        assert!((32.0..48.0).contains(&kib(&cliffs[0])), "{cliffs:?}");
        assert!((1024.0..1536.0).contains(&kib(&cliffs[1])), "{cliffs:?}");
    }

    #[test]
    fn a_disturbed_point_is_no_cliff() {
        let mut points = curve(two_levels);
        points[2].ns = 9.0;
        assert_eq!(cliffs(&points), cliffs(&curve(two_levels)));
        assert_eq!(cliffs(&[]), []);
        assert_eq!(cliffs(&points[..1]), []);
    }

    #[test]
    fn levels_have_their_latency_and_say_where_the_kernel_is_wrong() {
        let points = curve(two_levels);
        let agreeing = caches(&[("L1", 32 << 10), ("L2", 1 << 20)], &points);
        assert_eq!(agreeing.iter().map(|cache| cache.ns).collect::<Vec<_>>(), [Some(1.5), Some(5.0)]);
        assert!(agreeing.iter().all(|cache| cache.agrees() == Some(true)), "{agreeing:?}");
        // A virtual machine that reports 16 MiB but has one.
        let wrong = caches(&[("L1", 32 << 10), ("L2", 16 << 20)], &points);
        assert_eq!(wrong[1].agrees(), Some(false), "{wrong:?}");
        assert_eq!(wrong[1].ns, Some(5.0), "the latency is the measured level's all the same");
        // A cache that is larger than all sizes tried.
        let unseen = caches(&[("L1", 32 << 10), ("L2", 1 << 20), ("L3", 512 << 20)], &points);
        assert_eq!((unseen[2].cliff_bytes, unseen[2].agrees(), unseen[2].ns), (None, None, Some(20.0)));
    }

    #[test]
    fn translations_cost_what_spread_lines_take_longer() {
        let point = |pages, spread_ns| PagePoint { pages, spread_ns, packed_ns: 5.0 };
        let points =
            [point(16, 5.0), point(128, 7.0), point(1024, 7.0), point(8192, 20.0), point(16384, 25.0)];
        assert_eq!(translation_between(&points, 128, 1024), Some(2.0));
        assert_eq!(translation_between(&points, 4096, 65536), Some(20.0));
        assert_eq!(translation_between(&points, 1, 2), None);
    }

    #[test]
    fn a_model_takes_over_what_was_measured() {
        let points = curve(two_levels);
        let measured = MachineLatency {
            processor: "a processor".into(),
            ghz: 2.0,
            ghz_measured: true,
            caches: caches(&[("L1", 32 << 10), ("L2", 1 << 20)], &points),
            memory_ns: 90.0,
            memory_by: MemoryBy::Flushed,
            tlb_miss_ns: Some(3.6),
            page_walk_ns: Some(14.0),
            huge: points.clone(),
            huge_pages: true,
            small: points,
            pages: Vec::new(),
            cores: vec![CorePair { first: 0, second: 1, ns: 100.0, low_ns: 99.0, high_ns: 101.0 }],
            notes: Vec::new(),
        };
        let machine = measured.in_machine(&Machine::builtin("skylake-sp").unwrap());
        assert_eq!((machine.clock_mhz, machine.l1d.latency, machine.l2.unwrap().latency), (2000, 3, 10));
        assert_eq!((machine.memory_latency, machine.page_walk_latency), (180, 28));
        assert_eq!(machine.stlb.unwrap().latency, 7);
        assert_eq!(machine.transfer_latency, Some(124), "62 % of 200 cycles");
        assert_eq!(machine.transfer_method, Some(LatencyMethod::Measured));
        assert_eq!(machine.l3.unwrap().latency, 77, "not measured");
        let text = machine.to_toml();
        assert_eq!(Machine::parse("written", &text).expect("it can be read again"), machine, "{text}");
    }
}
