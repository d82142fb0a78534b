//! The role of a sample in sharing: its access waited for another core's line, invalidated one, or neither.

use super::census::is_hitm_load;
use hardmeter_samples::model::{
    EventDescription, MemoryEvent, MemoryLevel, MissCause, Sample, SimulatedDetail,
};

/// The part that an access played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A miss because another core had written the line: a coherence miss, or a load that hit another core's
    /// modified line (HITM).
    Miss {
        /// Whether the other core was on another node.
        remote: bool,
    },
    /// It invalidated the line in other cores.
    Invalidation,
    /// It accessed the line without a miss or an invalidation.
    Access,
}

/// Derives roles from the events of a capture.
#[derive(Clone, Debug)]
pub struct Roles {
    known: Vec<Option<MemoryEvent>>,
    misses_recorded: bool,
    invalidations_recorded: bool,
    one_in: u64,
    all_accesses: bool,
}

impl Roles {
    /// The roles of a capture with these events.
    pub fn new(events: &[EventDescription]) -> Roles {
        let known: Vec<_> = events.iter().map(known_event).collect();
        let period = |wanted: MemoryEvent| {
            let at = known.iter().position(|event| *event == Some(wanted));
            at.map(|at| events[at].period.map_or(0, |period| period.0))
        };
        let misses = period(MemoryEvent::CoherenceMiss);
        let invalidations = period(MemoryEvent::Invalidation);
        let every = |wanted| period(wanted) == Some(1);
        Roles {
            misses_recorded: misses.is_some(),
            invalidations_recorded: invalidations.is_some(),
            one_in: misses.into_iter().chain(invalidations).max().unwrap_or(0),
            all_accesses: every(MemoryEvent::Loads) && every(MemoryEvent::Stores),
            known,
        }
    }

    /// Whether the capture has an event of coherence misses.
    pub fn misses_recorded(&self) -> bool {
        self.misses_recorded
    }

    /// Whether stores that invalidated lines were recorded.
    pub fn invalidations_recorded(&self) -> bool {
        self.invalidations_recorded
    }

    /// Sampling ratio of sharing events: one in this number was recorded; 0 if unknown.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// Whether every load and every store is in the capture.
    pub fn all_accesses_recorded(&self) -> bool {
        self.all_accesses
    }

    /// The role of a sample. Several events may sample the same miss: if coherence misses are an event of their
    /// own, only that one counts.
    pub fn of(&self, sample: &Sample<'_>, detail: Option<&SimulatedDetail>) -> Role {
        let remote = sample.data_source.is_some_and(|source| source.level() == MemoryLevel::Remote);
        match self.known.get(sample.event.0).copied().flatten() {
            Some(MemoryEvent::CoherenceMiss) => return Role::Miss { remote },
            Some(MemoryEvent::Invalidation) => return Role::Invalidation,
            _ if self.misses_recorded => return Role::Access,
            _ => {}
        }
        let simulated = detail.is_some_and(|detail| detail.cause == Some(MissCause::Coherence));
        let modified = sample.data_source.is_some_and(is_hitm_load);
        if simulated || modified {
            Role::Miss { remote }
        } else {
            Role::Access
        }
    }
}

/// The event by its name. Our own carry perf's modifiers on hardware ("coherence-miss:u").
fn known_event(event: &EventDescription) -> Option<MemoryEvent> {
    event.known.or_else(|| MemoryEvent::from_name(event.name.split([':', '/']).next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::{DataSource, Period};

    fn event(name: &str, period: u64) -> EventDescription {
        EventDescription {
            name: name.into(),
            known: MemoryEvent::from_name(name),
            period: Some(Period(period)),
            frequency: None,
            attr_type: 4,
            attr_config: 0,
            sample_type: 0,
            precise_ip: 3,
        }
    }

    /// Load, L3 hit, HITM: op 0x02, level L3|HIT 0x42, snoop HITM 0x10.
    const HITM: DataSource = DataSource(0x02 | 0x42 << 5 | 0x10 << 19);

    #[test]
    fn without_an_event_of_its_own_the_data_source_tells() {
        let roles = Roles::new(&[event("cpu/mem-loads,ldlat=30/P", 1000)]);
        let mut load = sample(0, 1, 0x1000);
        assert_eq!(roles.of(&load, None), Role::Access);
        load.data_source = Some(HITM);
        assert_eq!(roles.of(&load, None), Role::Miss { remote: false });
        // The remote bit is bit 37.
        load.data_source = Some(DataSource(HITM.0 | 1 << 37));
        assert_eq!(roles.of(&load, None), Role::Miss { remote: true });
        let detail = SimulatedDetail::decode(b"HMs1\x08\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0").unwrap();
        load.data_source = None;
        assert_eq!(roles.of(&load, Some(&detail)), Role::Miss { remote: false }, "cause 4 is coherence");
    }

    #[test]
    fn an_access_that_several_events_saw_is_one_miss() {
        let events = [event("l2-miss", 1), event("coherence-miss", 1), event("invalidation", 1)];
        let roles = Roles::new(&events);
        let mut load = sample(0, 1, 0x1000);
        load.data_source = Some(HITM);
        assert_eq!(roles.of(&load, None), Role::Access, "the coherence miss is counted by its own event");
        load.event.0 = 1;
        assert_eq!(roles.of(&load, None), Role::Miss { remote: false });
        load.event.0 = 2;
        assert_eq!(roles.of(&load, None), Role::Invalidation);
        assert_eq!((roles.one_in(), roles.all_accesses_recorded()), (1, false));
        assert!(Roles::new(&[event("loads", 1), event("stores", 1)]).all_accesses_recorded());
    }
}
