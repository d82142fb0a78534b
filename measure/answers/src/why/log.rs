//! The misses of one event as the inference needs them: the line, the time since its last miss, and the first burst
//! of its region.
//!
//! # The clock
//!
//! Time is counted in lines: the clock of a core advances by a sample's period (the misses that it stands for) when
//! the sample's line was not sampled within the last C / 2 ticks, C being the lines that the cache holds. Repeated
//! misses of the same few lines do not advance it. A line that is sampled again before that was evicted although
//! fewer than C / 2 lines came in: capacity is probably not the cause. Half of C, because lines that hit meanwhile
//! also take space in a fully associative cache, and are not sampled.

use super::finding::DataNames;
use super::kind::Cause;
use crate::code::Place;
use hardmeter_samples::model::{MissPattern, Pid, StatementId, Timestamp, VirtualAddress};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// No line, no object.
pub(super) const NONE: u32 = u32::MAX;

/// Sizes of the regions whose first burst is detected: 4 KiB, 64 KiB, 1 MiB.
pub(super) const REGION_BITS: [u32; 3] = [12, 16, 20];

/// Properties of a sample besides its line.
pub(super) mod flag {
    /// The line was in another cache, modified.
    pub const HIT_MODIFIED: u8 = 1 << 0;
    /// Its line came again before C / 2 ticks: before ...
    pub const NEAR_BEFORE: u8 = 1 << 1;
    /// ... or after this sample.
    pub const NEAR_AFTER: u8 = 1 << 2;
    /// The first sample of its line.
    pub const FIRST: u8 = 1 << 3;
    /// The first of its line, in the first burst of its region of `REGION_BITS[k]`: this bit shifted by k.
    pub const BURST: u8 = 1 << 4;
}

/// A sampled miss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    pub place: Option<Place>,
    pub line: u32,
    pub object: u32,
    pub statement: Option<StatementId>,
    pub told: Option<Cause>,
    pub set_told: u32,
    pub flags: u8,
    pub pattern: Option<MissPattern>,
    pub stride: i64,
    pub when: Option<Timestamp>,
}

/// A line that missed, on one core.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub core: u32,
    pub address: VirtualAddress,
    /// The address that selects the set; `None` if unknown.
    pub indexed_by: Option<u64>,
    pub samples: u64,
    pub object: Option<Arc<str>>,
    pub regions: [u32; REGION_BITS.len()],
    last_tick: u64,
    last_miss: u32,
}

/// A line's surroundings.
#[derive(Clone, Copy, Debug)]
struct Region {
    begin: u64,
    burst: u64,
}

/// A sample, as it is added to the log.
pub(super) struct Seen {
    pub place: Option<Place>,
    pub core: u32,
    pub pid: Pid,
    pub address: Option<VirtualAddress>,
    /// The line by physical address, equal in all processes.
    pub physical: Option<u64>,
    /// The address that chooses the set.
    pub indexed_by: Option<u64>,
    pub set_told: Option<u32>,
    pub period: u64,
    pub hit_modified: bool,
    pub told: Option<Cause>,
    /// The pattern of the instruction's misses, and their constant distance.
    pub pattern: (Option<MissPattern>, i64),
    pub data: Option<DataNames>,
    pub statement: Option<StatementId>,
    pub when: Option<Timestamp>,
}

/// Identity of a line: its core, and its address in physical memory (pid -1) or in its process.
type LineKey = (u32, Pid, u64);

/// The misses of one event.
#[derive(Default)]
pub(super) struct MissLog {
    pub misses: Vec<Miss>,
    pub lines: Vec<Line>,
    /// Sum of the periods.
    pub events: u64,
    objects: Vec<Arc<str>>,
    object_numbers: FxHashMap<Arc<str>, u32>,
    line_numbers: FxHashMap<LineKey, u32>,
    regions: Vec<Region>,
    region_numbers: FxHashMap<(u32, u32, Pid, u64), u32>,
    clocks: FxHashMap<u32, u64>,
    capacity: Option<u64>,
    line_bits: u32,
}

impl MissLog {
    /// A log for a cache of `capacity` lines; `None` if its size is not known. Lines have `1 << line_bits` bytes.
    pub fn new(capacity: Option<u64>, line_bits: u32) -> MissLog {
        MissLog { capacity, line_bits, ..MissLog::default() }
    }

    /// Adds a sample, in order of time.
    pub fn add(&mut self, seen: Seen) {
        let general = seen.data.as_ref().map(|data| data.general.clone());
        let object = general.map_or(NONE, |name| self.object_number(name));
        let mut miss = Miss {
            place: seen.place,
            line: NONE,
            object,
            statement: seen.statement,
            told: seen.told,
            set_told: seen.set_told.unwrap_or(NONE),
            flags: if seen.hit_modified { flag::HIT_MODIFIED } else { 0 },
            pattern: seen.pattern.0,
            stride: seen.pattern.1,
            when: seen.when,
        };
        self.events = self.events.saturating_add(seen.period);
        if let Some(address) = seen.address {
            self.follow(&seen, address, &mut miss);
        }
        self.misses.push(miss);
    }

    fn follow(&mut self, seen: &Seen, address: VirtualAddress, miss: &mut Miss) {
        let tick = *self.clocks.entry(seen.core).or_default();
        let (pid, location) = seen.physical.map_or((seen.pid, address.0), |physical| (Pid(-1), physical));
        let key = (seen.core, pid, location >> self.line_bits);
        let reach = self.reach();
        let is_near = |last: u64| reach.is_some_and(|reach| tick - last < reach);
        let number = self.misses.len() as u32;
        let mut fresh = true;
        if let Some(index) = self.line_numbers.get(&key) {
            let line = &mut self.lines[*index as usize];
            if is_near(line.last_tick) {
                miss.flags |= flag::NEAR_BEFORE;
                self.misses[line.last_miss as usize].flags |= flag::NEAR_AFTER;
                fresh = false;
            }
            (miss.line, line.last_tick, line.last_miss) = (*index, tick, number);
            line.samples += 1;
        } else {
            let regions = self.regions_of(seen.core, pid, location, address, tick);
            miss.flags |= flag::FIRST;
            miss.line = self.lines.len() as u32;
            self.line_numbers.insert(key, miss.line);
            self.lines.push(Line {
                core: seen.core,
                address: VirtualAddress(address.0 >> self.line_bits << self.line_bits),
                indexed_by: seen.indexed_by,
                samples: 1,
                object: seen.data.as_ref().map(|data| data.particular.clone()),
                regions,
                last_tick: tick,
                last_miss: number,
            });
        }
        for (position, region) in self.lines[miss.line as usize].regions.into_iter().enumerate() {
            let region = &mut self.regions[region as usize];
            let first = miss.flags & flag::FIRST != 0;
            if first && self.capacity.is_some_and(|capacity| tick - region.begin < capacity) {
                region.burst += 1;
                miss.flags |= flag::BURST << position;
            }
        }
        if fresh {
            // The clock of a core; an invalid period must not turn it back.
            let clock = self.clocks.entry(seen.core).or_default();
            *clock = clock.saturating_add(seen.period);
        }
    }

    /// A page is identified by its frame if known. Larger regions are contiguous only in virtual memory; pages that
    /// another process of the core accessed before count as accessed, which errs towards fewer cold verdicts.
    fn regions_of(
        &mut self,
        core: u32,
        pid: Pid,
        location: u64,
        address: VirtualAddress,
        tick: u64,
    ) -> [u32; REGION_BITS.len()] {
        let mut position = 0;
        REGION_BITS.map(|bits| {
            let key = match position {
                0 => (core, bits, pid, location >> bits),
                _ => (core, bits, Pid(-1), address.0 >> bits),
            };
            position += 1;
            let next = self.regions.len() as u32;
            let number = *self.region_numbers.entry(key).or_insert(next);
            if number == next {
                self.regions.push(Region { begin: tick, burst: 0 });
            }
            number
        })
    }

    /// Distinct lines sampled in the first burst of a region.
    pub fn burst(&self, region: u32) -> u64 {
        self.regions[region as usize].burst
    }

    /// The lines that the cache holds, where known.
    pub fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Maximum ticks between two near samples of a line.
    pub fn reach(&self) -> Option<u64> {
        Some(self.capacity? / 2)
    }

    /// Misses per sample, on average.
    pub fn period(&self) -> f64 {
        (self.events as f64 / self.misses.len().max(1) as f64).max(1.0)
    }

    /// An object by its number.
    pub fn object(&self, number: u32) -> Option<Arc<str>> {
        self.objects.get(number as usize).cloned()
    }

    fn object_number(&mut self, name: Arc<str>) -> u32 {
        let next = self.objects.len() as u32;
        let number = *self.object_numbers.entry(name.clone()).or_insert(next);
        if number == next {
            self.objects.push(name);
        }
        number
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A miss of line `line` on core 0, every miss sampled unless `period` says otherwise.
    pub fn seen(line: u64, period: u64) -> Seen {
        Seen {
            place: None,
            core: 0,
            pid: Pid(1),
            address: Some(VirtualAddress(line * 64)),
            physical: None,
            indexed_by: Some(line * 64),
            set_told: None,
            period,
            hit_modified: false,
            told: None,
            pattern: (None, 0),
            data: None,
            statement: None,
            when: None,
        }
    }

    fn near(log: &MissLog) -> Vec<bool> {
        log.misses.iter().map(|miss| miss.flags & flag::NEAR_BEFORE != 0).collect()
    }

    /// A cache of eight lines, so that up to four lines are near. A loop over six lines that misses each time is
    /// never near. A loop over three is near from the second round on, and does not advance the clock.
    #[test]
    fn a_line_is_near_if_fewer_lines_came_in_between_than_the_cache_holds() {
        let mut log = MissLog::new(Some(8), 6);
        (0..12).for_each(|k| log.add(seen(k % 6, 1)));
        assert_eq!(near(&log), [false; 12]);
        let mut log = MissLog::new(Some(8), 6);
        (0..6).for_each(|k| log.add(seen(k % 3, 1)));
        assert_eq!(near(&log), [false, false, false, true, true, true]);
        // A hundred more rounds of the three, then line 9 and line 0: line 9 is the fourth line, line 0 still near.
        (0..100).for_each(|_| log.add(seen(1, 1)));
        log.add(seen(9, 1));
        log.add(seen(0, 1));
        assert_eq!(near(&log)[106..], [false, true]);
        assert!(log.misses[0].flags & flag::NEAR_AFTER != 0 && log.misses[0].flags & flag::FIRST != 0);
    }

    /// With one sample in ten misses, a sample is ten ticks.
    #[test]
    fn a_sample_stands_for_its_period() {
        let mut log = MissLog::new(Some(50), 6);
        [1, 2, 1, 3, 4, 5, 1].into_iter().for_each(|line| log.add(seen(line, 10)));
        // The second access to 1 is 20 ticks after the first. Of the following, 3, 4 and 5 are new: 30 ticks.
        assert_eq!(near(&log), [false, false, true, false, false, false, false]);
        assert_eq!(log.period(), 10.0);
    }

    /// The first burst of a page ends when the cache could have been filled once.
    #[test]
    fn a_burst_ends_with_the_capacity() {
        let mut log = MissLog::new(Some(4), 6);
        (0..6).for_each(|line| log.add(seen(line, 1)));
        let in_burst: Vec<bool> = log.misses.iter().map(|miss| miss.flags & flag::BURST != 0).collect();
        assert_eq!(in_burst, [true, true, true, true, false, false]);
        assert_eq!(log.burst(log.lines[0].regions[0]), 4);
    }
}
