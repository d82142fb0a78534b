//! The cache set of a line on each level: the paper's address bits, for a given machine.
//!
//! ```text
//!   63                    11 10      6 5      0
//!   |          tag          |   set   | offset |      8 KB, 4 ways, 64 B lines: 32 sets, bits 10..6
//! ```

use hardmeter_samples::machine::{CacheGeometry, Machine, LINE_SIZE};
use hardmeter_samples::model::ByteCount;
use hardmeter_samples::perf_data::CacheDescription;
use serde::Serialize;

/// A level of the hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheLevel {
    /// First level, data.
    L1d,
    /// First level, instructions.
    L1i,
    /// Second level.
    L2,
    /// Third level.
    L3,
}

impl CacheLevel {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            CacheLevel::L1d => "L1d",
            CacheLevel::L1i => "L1i",
            CacheLevel::L2 => "L2",
            CacheLevel::L3 => "L3",
        }
    }

    /// Whether each core has a cache of its own on this level.
    pub fn is_private(self) -> bool {
        self != CacheLevel::L3
    }
}

/// The address that selects the set of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetIndexing {
    /// The virtual address: first levels, whose set bits lie inside a page or are equal in both addresses (true
    /// while sets x line size is at most a page; larger first levels are treated the same).
    Virtual,
    /// The physical address.
    Physical,
    /// An unpublished hash of the physical address: the slices of last levels.
    Hashed,
}

/// One level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelGeometry {
    /// Number of sets.
    pub sets: u32,
    /// Lines per set.
    pub ways: u32,
    /// Bytes per line.
    pub line_size: u32,
    /// How the set is selected.
    pub indexing: SetIndexing,
}

impl LevelGeometry {
    /// Lines that the level holds.
    pub fn lines(&self) -> u64 {
        u64::from(self.sets) * u64::from(self.ways)
    }

    /// Bytes that the level holds.
    pub fn size(&self) -> ByteCount {
        ByteCount(self.lines() * u64::from(self.line_size))
    }

    /// Distance in bytes between addresses of the same set: the paper's 2 KB.
    pub fn stride(&self) -> ByteCount {
        ByteCount(u64::from(self.sets) * u64::from(self.line_size))
    }

    /// The highest and lowest address bit that select the set: the paper's 10..6. `None` if the number of sets is
    /// not a power of two, or 1.
    pub fn address_bits(&self) -> Option<(u32, u32)> {
        let simple = self.sets.is_power_of_two() && self.sets > 1 && self.line_size.is_power_of_two();
        simple.then(|| {
            let low = self.line_size.trailing_zeros();
            (low + self.sets.trailing_zeros() - 1, low)
        })
    }

    /// The set of an address (virtual or physical, according to [`Self::indexing`]).
    pub(super) fn set_of(&self, address: u64) -> u32 {
        (address / u64::from(self.line_size) % u64::from(self.sets)) as u32
    }
}

/// The caches of the machine of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hierarchy {
    /// The origin of the geometry, as text.
    pub origin: String,
    /// First level, data.
    pub l1d: Option<LevelGeometry>,
    /// First level, instructions.
    pub l1i: Option<LevelGeometry>,
    /// Second level.
    pub l2: Option<LevelGeometry>,
    /// Third level.
    pub l3: Option<LevelGeometry>,
}

impl Hierarchy {
    /// The geometry of a machine model.
    pub fn of_machine(machine: &Machine, origin: String) -> Hierarchy {
        let level = |cache: CacheGeometry, indexing| LevelGeometry {
            sets: cache.sets(),
            ways: cache.ways,
            line_size: LINE_SIZE,
            indexing,
        };
        Hierarchy {
            origin,
            l1d: Some(level(machine.l1d, SetIndexing::Virtual)),
            l1i: Some(level(machine.l1i, SetIndexing::Virtual)),
            l2: machine.l2.map(|cache| level(cache, SetIndexing::Physical)),
            l3: machine.l3.map(|cache| level(cache, SetIndexing::Hashed)),
        }
    }

    /// The geometry from a capture's header, if the recorder wrote it (perf does); `None` if it has no usable one.
    pub fn of_header(caches: &[CacheDescription]) -> Option<Hierarchy> {
        let find = |number: u32, kinds: &[&str], indexing| {
            let usable = |cache: &&CacheDescription| {
                cache.level == number
                    && kinds.contains(&cache.kind.as_str())
                    && cache.sets > 0
                    && cache.ways > 0
                    && cache.line_size.is_power_of_two()
            };
            caches.iter().find(usable).map(|cache| LevelGeometry {
                sets: cache.sets,
                ways: cache.ways,
                line_size: cache.line_size,
                indexing,
            })
        };
        let hierarchy = Hierarchy {
            origin: "the capture's header".into(),
            l1d: find(1, &["Data", "Unified"], SetIndexing::Virtual),
            l1i: find(1, &["Instruction", "Unified"], SetIndexing::Virtual),
            l2: find(2, &["Unified", "Data"], SetIndexing::Physical),
            l3: find(3, &["Unified", "Data"], SetIndexing::Hashed),
        };
        let any = hierarchy.l1d.or(hierarchy.l1i).or(hierarchy.l2).or(hierarchy.l3);
        any.is_some().then_some(hierarchy)
    }

    /// A level.
    pub fn level(&self, level: CacheLevel) -> Option<LevelGeometry> {
        match level {
            CacheLevel::L1d => self.l1d,
            CacheLevel::L1i => self.l1i,
            CacheLevel::L2 => self.l2,
            CacheLevel::L3 => self.l3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_machine_uses_bits_10_to_6_and_15_to_6() {
        let machine = Machine::builtin("xeon-2003").expect("built in");
        let hierarchy = Hierarchy::of_machine(&machine, String::new());
        let l1d = hierarchy.level(CacheLevel::L1d).expect("has one");
        assert_eq!(l1d.address_bits(), Some((10, 6)));
        assert_eq!((l1d.stride(), l1d.lines()), (ByteCount(2048), 128));
        assert_eq!(l1d.set_of(0x1000_07c0), 31);
        assert_eq!(l1d.set_of(0x1000_0800), 0, "2 KB further is the same set again");
        assert_eq!(hierarchy.level(CacheLevel::L2).and_then(|l2| l2.address_bits()), Some((15, 6)));
    }

    #[test]
    fn a_header_is_understood_and_nonsense_in_it_is_not_used() {
        let cache = |level, kind: &str, sets, ways| CacheDescription {
            level,
            line_size: 64,
            sets,
            ways,
            kind: kind.into(),
            ..CacheDescription::default()
        };
        let caches = [cache(1, "Data", 64, 8), cache(1, "Instruction", 0, 8), cache(2, "Unified", 1024, 16)];
        let hierarchy = Hierarchy::of_header(&caches).expect("two levels");
        assert_eq!(hierarchy.l1d.map(|level| level.lines()), Some(512));
        assert_eq!((hierarchy.l1i, hierarchy.l3), (None, None));
        assert_eq!(Hierarchy::of_header(&[cache(1, "Data", 64, 0)]), None);
    }
}
