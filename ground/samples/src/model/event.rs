//! The events of a capture, and the names by which users request them.

use super::units::Period;
use serde::{Deserialize, Serialize};

/// Position of an event in its capture's list of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventIndex(pub usize);

/// The source of a capture's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventSource {
    /// A processor's performance monitoring unit, through `perf_event_open`.
    Hardware,
    /// The software PMU: a simulated memory hierarchy under Valgrind.
    Simulated,
    /// The kernel's timer (`cpu-clock`): CPU time, without data addresses.
    Timer,
    /// The kernel's timer with registers: loads that a thread waited for, and their data addresses.
    Live,
    /// A perf.data file of another recorder.
    Imported,
}

/// The events with a Hardmeter name, which have the same meaning for every source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum MemoryEvent {
    /// Loads and stores that the first-level data cache did not hold.
    L1dMiss = 0,
    /// Instruction fetches that the first-level instruction cache did not hold.
    L1iMiss = 1,
    /// Accesses (data and instruction) that the second level did not hold.
    L2Miss = 2,
    /// Accesses that the last level did not hold.
    L3Miss = 3,
    /// Data accesses that missed the first-level data TLB.
    DtlbMiss = 4,
    /// Instruction fetches that missed the first-level instruction TLB.
    ItlbMiss = 5,
    /// Translations that missed the second-level TLB: page walks.
    StlbMiss = 6,
    /// Load accesses, missing or not.
    Loads = 7,
    /// Store accesses, missing or not.
    Stores = 8,
    /// Instructions executed.
    Instructions = 9,
    /// Branches whose direction or target was mispredicted.
    BranchesMispredicted = 10,
    /// Accesses to a line that this core had, and lost to another core's write.
    CoherenceMiss = 11,
    /// Stores that invalidated a line in other cores.
    Invalidation = 12,
}

impl MemoryEvent {
    /// Every event, in the order of its number.
    pub const ALL: [MemoryEvent; 13] = [
        MemoryEvent::L1dMiss,
        MemoryEvent::L1iMiss,
        MemoryEvent::L2Miss,
        MemoryEvent::L3Miss,
        MemoryEvent::DtlbMiss,
        MemoryEvent::ItlbMiss,
        MemoryEvent::StlbMiss,
        MemoryEvent::Loads,
        MemoryEvent::Stores,
        MemoryEvent::Instructions,
        MemoryEvent::BranchesMispredicted,
        MemoryEvent::CoherenceMiss,
        MemoryEvent::Invalidation,
    ];

    /// The name on the command line and in the capture, for example `l1d-miss`.
    pub fn name(self) -> &'static str {
        match self {
            MemoryEvent::L1dMiss => "l1d-miss",
            MemoryEvent::L1iMiss => "l1i-miss",
            MemoryEvent::L2Miss => "l2-miss",
            MemoryEvent::L3Miss => "l3-miss",
            MemoryEvent::DtlbMiss => "dtlb-miss",
            MemoryEvent::ItlbMiss => "itlb-miss",
            MemoryEvent::StlbMiss => "stlb-miss",
            MemoryEvent::Loads => "loads",
            MemoryEvent::Stores => "stores",
            MemoryEvent::Instructions => "instructions",
            MemoryEvent::BranchesMispredicted => "branches-mispredicted",
            MemoryEvent::CoherenceMiss => "coherence-miss",
            MemoryEvent::Invalidation => "invalidation",
        }
    }

    /// The event of a name, if it is one of Hardmeter's.
    pub fn from_name(name: &str) -> Option<MemoryEvent> {
        MemoryEvent::ALL.into_iter().find(|event| event.name() == name)
    }

    /// The question a user has when this event is the right one to record.
    pub fn question(self) -> &'static str {
        match self {
            MemoryEvent::L1dMiss => "Which accesses miss the first-level data cache?",
            MemoryEvent::L1iMiss => "Which code does not fit the instruction cache?",
            MemoryEvent::L2Miss => "Which accesses miss L2?",
            MemoryEvent::L3Miss => "Which accesses go to main memory?",
            MemoryEvent::DtlbMiss => "Which accesses miss the data TLB?",
            MemoryEvent::ItlbMiss => "Which code misses the instruction TLB?",
            MemoryEvent::StlbMiss => "Which accesses pay a page walk?",
            MemoryEvent::Loads => "Where are the loads?",
            MemoryEvent::Stores => "Where are the stores?",
            MemoryEvent::Instructions => "Where are instructions spent?",
            MemoryEvent::BranchesMispredicted => "Which branches are predicted wrongly?",
            MemoryEvent::CoherenceMiss => "Which accesses wait for a line that another core wrote?",
            MemoryEvent::Invalidation => "Which stores take lines away from other cores?",
        }
    }
}

/// One event of a capture, as described in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventDescription {
    /// The name as recorded: Hardmeter's (`l1d-miss`) or perf's.
    pub name: String,
    /// Hardmeter's event of that name, if there is one.
    pub known: Option<MemoryEvent>,
    /// The sampling period, when it was fixed.
    pub period: Option<Period>,
    /// The sampling frequency in Hz, when the kernel adapted the period instead.
    pub frequency: Option<u64>,
    /// `perf_event_attr.type`.
    pub attr_type: u32,
    /// `perf_event_attr.config`.
    pub attr_config: u64,
    /// `perf_event_attr.sample_type`: which fields a sample of this event carries.
    pub sample_type: u64,
    /// `perf_event_attr.precise_ip`, 0 to 3.
    pub precise_ip: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_by_its_name_and_sits_at_its_number() {
        for (number, event) in MemoryEvent::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, number);
            assert_eq!(MemoryEvent::from_name(event.name()), Some(event));
        }
        assert_eq!(MemoryEvent::from_name("cycles"), None);
    }
}
