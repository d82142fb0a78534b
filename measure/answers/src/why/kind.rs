//! The kinds of events, and the causes of misses.

use super::geometry::CacheLevel;
use hardmeter_samples::model::{
    EventDescription, MemoryEvent, MissCause, SharingVerdict, SimulatedDetail, OTHER_CPU_EVENT, STALL_EVENT,
};
use serde::Serialize;

/// The reason why a line was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Cause {
    /// First access.
    Cold,
    /// The working set is larger than the cache.
    Capacity,
    /// Too many lines of the working set belong to one set of the cache.
    Conflict,
    /// Another core wrote the accessed word.
    TrueSharing,
    /// Another core wrote only other words of the line.
    FalseSharing,
    /// Another core took the line; it is unknown whether it wrote the same word.
    Coherence,
    /// The samples do not decide.
    Unknown,
}

impl Cause {
    /// Every cause, in the order in which they are shown.
    pub const ALL: [Cause; 7] = [
        Cause::Cold,
        Cause::Capacity,
        Cause::Conflict,
        Cause::TrueSharing,
        Cause::FalseSharing,
        Cause::Coherence,
        Cause::Unknown,
    ];

    /// Its name as text.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Cold => "cold",
            Cause::Capacity => "capacity",
            Cause::Conflict => "conflict",
            Cause::TrueSharing => "true sharing",
            Cause::FalseSharing => "false sharing",
            Cause::Coherence => "coherence",
            Cause::Unknown => "unknown",
        }
    }

    /// The cause of a miss that the software PMU recorded.
    pub fn told(detail: &SimulatedDetail) -> Option<Cause> {
        Some(match detail.cause? {
            MissCause::Cold => Cause::Cold,
            MissCause::Capacity => Cause::Capacity,
            MissCause::Conflict => Cause::Conflict,
            MissCause::Coherence => match detail.sharing.and_then(|sharing| sharing.verdict) {
                Some(SharingVerdict::True) => Cause::TrueSharing,
                Some(SharingVerdict::False) => Cause::FalseSharing,
                None => Cause::Coherence,
            },
        })
    }

    /// Whether processors take the line from each other.
    pub fn is_sharing(self) -> bool {
        self.without_sharing_verdict() == Cause::Coherence
    }

    /// The cause without the distinction of true and false sharing, which samples alone cannot make.
    pub fn without_sharing_verdict(self) -> Cause {
        match self {
            Cause::TrueSharing | Cause::FalseSharing => Cause::Coherence,
            other => other,
        }
    }
}

/// The quantity that an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// Misses of a level.
    Miss(CacheLevel),
    /// Misses because another core wrote the line.
    CoherenceMiss,
    /// Stores that invalidate a line in other cores: the other side of coherence misses.
    Invalidation,
    /// Translations that a TLB did not hold.
    TlbMiss,
    /// Accesses, hits and misses: the data source identifies those that the first level did not serve.
    Accesses,
    /// Time right behind a load, missing or not.
    Stall,
    /// Time elsewhere.
    OtherTime,
    /// Not related to memory.
    Other,
}

impl EventKind {
    /// The cache whose misses the samples are, or contain.
    pub fn level(self) -> Option<CacheLevel> {
        match self {
            EventKind::Miss(level) => Some(level),
            EventKind::Accesses => Some(CacheLevel::L1d),
            _ => None,
        }
    }

    /// The kind of an event, by Hardmeter's name or the usual ones.
    pub fn of(event: &EventDescription) -> EventKind {
        use EventKind::{Accesses, CoherenceMiss, Invalidation, Miss, Other, TlbMiss};
        if let Some(known) = event.known {
            return match known {
                MemoryEvent::L1dMiss => Miss(CacheLevel::L1d),
                MemoryEvent::L1iMiss => Miss(CacheLevel::L1i),
                MemoryEvent::L2Miss => Miss(CacheLevel::L2),
                MemoryEvent::L3Miss => Miss(CacheLevel::L3),
                MemoryEvent::DtlbMiss | MemoryEvent::ItlbMiss | MemoryEvent::StlbMiss => TlbMiss,
                MemoryEvent::CoherenceMiss => CoherenceMiss,
                MemoryEvent::Loads | MemoryEvent::Stores => Accesses,
                MemoryEvent::Invalidation => Invalidation,
                MemoryEvent::Instructions | MemoryEvent::BranchesMispredicted => Other,
            };
        }
        match event.name.split(':').next() {
            Some(STALL_EVENT) => return EventKind::Stall,
            Some(OTHER_CPU_EVENT) => return EventKind::OtherTime,
            _ => {}
        }
        let name = event.name.to_ascii_lowercase().replace(['-', '.'], "_");
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        if has(&["tlb"]) {
            TlbMiss
        } else if has(&["l1_icache_load_miss", "l1i_cache_refill", "icache_miss"]) {
            Miss(CacheLevel::L1i)
        } else if has(&["l1_miss", "l1_dcache_load_miss", "l1d_cache_refill", "l1d_replacement"]) {
            Miss(CacheLevel::L1d)
        } else if has(&["l2_miss", "l2d_cache_refill"]) {
            Miss(CacheLevel::L2)
        } else if has(&["l3_miss", "llc_miss", "llc_load_miss", "cache_misses"]) {
            Miss(CacheLevel::L3)
        } else if has(&["mem_load", "mem_store", "mem_trans", "mem_inst", "ibs_op", "arm_spe"]) {
            Accesses
        } else {
            Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str) -> EventKind {
        EventKind::of(&EventDescription {
            name: name.into(),
            known: MemoryEvent::from_name(name),
            period: None,
            frequency: None,
            attr_type: 4,
            attr_config: 0,
            sample_type: 0,
            precise_ip: 0,
        })
    }

    #[test]
    fn our_events_and_those_of_others_are_understood() {
        assert_eq!(event("l2-miss"), EventKind::Miss(CacheLevel::L2));
        assert_eq!(event("coherence-miss"), EventKind::CoherenceMiss);
        assert_eq!(event("MEM_LOAD_RETIRED.L2_MISS:pp"), EventKind::Miss(CacheLevel::L2));
        assert_eq!(event("L1-dcache-load-misses"), EventKind::Miss(CacheLevel::L1d));
        assert_eq!(event("LLC-load-misses"), EventKind::Miss(CacheLevel::L3));
        assert_eq!(event("dTLB-load-misses"), EventKind::TlbMiss);
        assert_eq!(event("cpu/mem-loads,ldlat=30/P"), EventKind::Accesses);
        assert_eq!(event("MEM_TRANS_RETIRED.LOAD_LATENCY"), EventKind::Accesses);
        assert_eq!(event("cycles:u"), EventKind::Other);
        assert_eq!(event("stall:u"), EventKind::Stall);
        assert_eq!(event("other-cpu"), EventKind::OtherTime);
    }
}
