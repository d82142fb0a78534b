//! Measures the latencies of this machine (L1, L2, L3, memory, TLBs, core to core) in a few seconds, without
//! privileges or a PMU.
//!
//! ```text
//!  ring    one load after another, each of the address that the last one read, in random order: nothing can be
//!          fetched ahead or overlapped. The time of a load, by the memory that the ring lies in, rises at each cache's size.
//!  flush   the same in lines flushed from all caches before: memory, however large the caches are
//!  spread  one line per page, compared with as many adjacent lines on huge pages: the cost of translation
//!  pair    two threads write one line alternately
//! ```

mod cores;
mod ring;

use crate::softpmu::this_machine;
use hardmeter_evidence::Median;
use hardmeter_samples::machine::Machine;
use hardmeter_samples::machine_latency::{
    caches, translation_between, LatencyPoint, MachineLatency, MemoryBy, PagePoint,
};
use ring::{Layout, Ring};
use std::time::{Duration, Instant};

/// The range of a measurement, and the number of repetitions of each figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyOptions {
    /// The largest ring; `None`: twice the last level, within [`LARGEST`] and a quarter of the free memory.
    pub largest: Option<u64>,
    /// Number of measurements of each figure: at least six, for an interval.
    pub repeats: usize,
}

impl Default for LatencyOptions {
    fn default() -> Self {
        LatencyOptions { largest: None, repeats: 7 }
    }
}

/// Why no measurement is possible.
#[derive(Debug, thiserror::Error)]
pub enum LatencyError {
    /// The kernel does not describe the caches.
    #[error(transparent)]
    Machine(#[from] crate::softpmu::SoftPmuError),
    /// Not enough memory.
    #[error("no memory for {0} bytes\n  remedy: free some, or --largest with a smaller size")]
    Memory(u64),
}

/// The largest ring, unless a larger one is requested: making one takes seconds.
pub const LARGEST: u64 = 512 << 20;
/// The smallest ring: 64 lines.
const SMALLEST: u64 = 4 << 10;
/// The largest ring is at least this large.
const LEAST_LARGEST: u64 = 64 << 20;
/// Up to this size, four sizes are tried for each doubling; above it, two.
const FINE: u64 = 8 << 20;
/// The minimum duration of one measurement.
const LEAST_TIME: Duration = Duration::from_micros(1500);
/// Number of loads between two readings of the clock.
const LEAST_LOADS: u64 = 4096;
/// Size of the memory that is flushed: enough lines, on few pages.
const FLUSHED: u64 = 4 << 20;
/// Pages with one line each: the smallest and the largest number.
const PAGES: (u64, u64) = (8, 32_768);
const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Measures all latencies. `progress` is called with the name of the next step.
///
/// # Errors
/// If the kernel does not describe the caches, or memory is short.
pub fn measure(options: LatencyOptions, progress: &dyn Fn(&str)) -> Result<MachineLatency, LatencyError> {
    let machine = this_machine()?;
    let mut notes = Vec::new();
    progress("clock");
    let (ghz, ghz_measured) = match ring::cycles_per_ns() {
        Some(ghz) => (ghz, true),
        None => (f64::from(machine.clock_mhz) / 1000.0, false),
    };
    let reported = reported_caches(&machine);
    let last = reported.last().map_or(0, |(_, bytes)| *bytes);
    let free = free_memory().map_or(u64::MAX, |free| free / 4);
    let largest = options.largest.unwrap_or_else(|| (2 * last).clamp(LEAST_LARGEST, LARGEST).min(free));
    let largest = largest.max(SMALLEST);
    let (mut huge, mut small, mut all_huge) = (Vec::new(), Vec::new(), true);
    for bytes in sizes(largest) {
        progress(&format!("{} KB", bytes >> 10));
        let (point, on_huge) = point(bytes, Layout::Huge, options.repeats)?;
        huge.push(point);
        // Smaller memory lies on one page of either kind.
        all_huge &= on_huge || bytes < 2 << 20;
        small.push(self::point(bytes, Layout::Small, options.repeats)?.0);
    }
    if !all_huge {
        notes.push(
            "the kernel gave no huge pages (/sys/kernel/mm/transparent_hugepage/enabled): latencies above the TLB's reach \
             contain page walks"
                .into(),
        );
    }
    progress("memory");
    let largest_point = huge.last().map_or(0.0, |point| point.ns);
    let (memory_ns, memory_by) = match flushed(options.repeats)? {
        Some(ns) => (ns, MemoryBy::Flushed),
        None => (largest_point, MemoryBy::Largest),
    };
    progress("translations");
    let pages = translations(largest, options.repeats)?;
    let entries = |of: Option<hardmeter_samples::machine::TlbGeometry>, unknown| {
        of.map_or(unknown, |tlb| u64::from(tlb.entries))
    };
    let (first, second) = (entries(machine.dtlb, 64), entries(machine.stlb, 1536));
    progress("cores");
    let cores = cores::pairs(options.repeats);
    if cores.is_empty() {
        notes.push("core to core: there is one processor".into());
    }
    Ok(MachineLatency {
        processor: machine.title.clone(),
        ghz,
        ghz_measured,
        caches: caches(&reported, &huge),
        memory_ns,
        memory_by,
        tlb_miss_ns: translation_between(&pages, 2 * first, second / 2),
        page_walk_ns: translation_between(&pages, 4 * second, 16 * second),
        huge,
        huge_pages: all_huge,
        small,
        pages,
        cores,
        notes,
    })
}

/// The data caches of the machine by name and size.
fn reported_caches(machine: &Machine) -> Vec<(&'static str, u64)> {
    let first = ("L1", u64::from(machine.l1d.size));
    let others = [("L2", machine.l2), ("L3", machine.l3)];
    let others = others.into_iter().filter_map(|(name, cache)| Some((name, u64::from(cache?.size))));
    std::iter::once(first).chain(others).collect()
}

/// The sizes to try.
fn sizes(largest: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut base = SMALLEST;
    while base <= largest {
        let parts: &[u64] = if base < FINE { &[4, 5, 6, 7] } else { &[4, 6] };
        sizes.extend(parts.iter().map(|part| base / 4 * part).filter(|bytes| *bytes <= largest));
        base *= 2;
    }
    sizes
}

/// The number of free bytes, as the kernel reports it.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The latency in a ring of this size, and whether it lies on huge pages.
fn point(bytes: u64, layout: Layout, repeats: usize) -> Result<(LatencyPoint, bool), LatencyError> {
    let mut ring = Ring::side_by_side(bytes / LINE, layout).ok_or(LatencyError::Memory(bytes))?;
    let on_huge = layout == Layout::Huge && ring.on_huge_pages();
    let (ns, low_ns, high_ns) = median(&time(&mut ring, repeats));
    Ok((LatencyPoint { bytes, ns, low_ns, high_ns }, on_huge))
}

/// Nanoseconds per load, measured `repeats` times. Each measurement continues where the last one ended.
fn time(ring: &mut Ring, repeats: usize) -> Vec<f64> {
    // Goes around once, for at most a second, so that the ring was used before it is measured.
    let warm = Instant::now();
    let mut left = ring.nodes();
    while left > 0 && warm.elapsed() < Duration::from_secs(1) {
        ring.run(LEAST_LOADS);
        left = left.saturating_sub(LEAST_LOADS);
    }
    (0..repeats)
        .map(|_| {
            let begin = Instant::now();
            let mut loads = 0;
            while begin.elapsed() < LEAST_TIME {
                ring.run(LEAST_LOADS);
                loads += LEAST_LOADS;
            }
            begin.elapsed().as_nanos() as f64 / loads as f64
        })
        .collect()
}

/// The time of a load of a line that is in no cache; `None` if lines cannot be flushed.
fn flushed(repeats: usize) -> Result<Option<f64>, LatencyError> {
    let nodes = FLUSHED / LINE;
    let mut ring = Ring::side_by_side(nodes, Layout::Huge).ok_or(LatencyError::Memory(FLUSHED))?;
    let mut times = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        if !ring.flush() {
            return Ok(None);
        }
        let begin = Instant::now();
        ring.run(nodes);
        times.push(begin.elapsed().as_nanos() as f64 / nodes as f64);
    }
    Ok(Some(median(&times).0))
}

/// One line on each of 8, 16, 32 ... pages, compared with as many adjacent lines.
fn translations(largest: u64, repeats: usize) -> Result<Vec<PagePoint>, LatencyError> {
    let mut points = Vec::new();
    let mut pages = PAGES.0;
    while pages <= PAGES.1 && pages * PAGE <= largest.max(LEAST_LARGEST) {
        let measured = |ring: Option<Ring>, bytes| {
            let mut ring = ring.ok_or(LatencyError::Memory(bytes))?;
            Ok::<f64, LatencyError>(median(&time(&mut ring, repeats)).0)
        };
        points.push(PagePoint {
            pages,
            spread_ns: measured(Ring::spread(pages), pages * PAGE)?,
            packed_ns: measured(Ring::side_by_side(pages, Layout::Huge), pages * LINE)?,
        });
        pages *= 2;
    }
    Ok(points)
}

/// The median and the ends of its interval.
fn median(values: &[f64]) -> (f64, f64, f64) {
    let Some(median) = Median::of(values) else { return (0.0, 0.0, 0.0) };
    let ends =
        median.interval_95.map_or((median.value, median.value), |interval| (interval.low, interval.high));
    (median.value, ends.0, ends.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_and_end_where_they_should() {
        let sizes = sizes(64 << 20);
        assert_eq!(sizes[..6], [4096, 5120, 6144, 7168, 8192, 10240]);
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
        assert_eq!(sizes.last(), Some(&(64 << 20)));
        assert!(sizes.iter().all(|bytes| bytes % LINE == 0));
        assert!(super::sizes(1024).is_empty());
    }

    /// Asserts no times, only that a line in no cache takes longer than one in L1.
    #[test]
    fn a_small_measurement_is_whole() {
        let options = LatencyOptions { largest: Some(1 << 20), repeats: 6 };
        let measured = match measure(options, &|_| {}) {
            Ok(measured) => measured,
            Err(LatencyError::Machine(error)) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(measured.huge.len(), measured.small.len());
        assert_eq!(measured.huge.last().map(|point| point.bytes), Some(1 << 20));
        let points = measured.huge.iter().chain(&measured.small);
        assert!(points
            .clone()
            .all(|point| point.low_ns <= point.ns && point.ns <= point.high_ns && point.ns > 0.0));
        assert!(!measured.pages.is_empty());
        if measured.memory_by == MemoryBy::Flushed {
            assert!(measured.huge[0].ns < measured.memory_ns, "{measured:?}");
        }
        let machine = measured.in_machine(&this_machine().unwrap());
        assert_eq!(Machine::parse("written", &machine.to_toml()).unwrap(), machine);
    }
}
