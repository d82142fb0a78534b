//! Names of events in sentences.

use hardmeter_answers::why::EventKind;

/// The noun for an event's counts, in the plural: "L2 misses", "page walks". `name` is the event's, perf's modifiers aside.
pub fn event_noun(kind: Option<EventKind>, name: &str) -> String {
    match kind {
        Some(EventKind::Miss(level)) => format!("{} misses", level.name()),
        Some(EventKind::CoherenceMiss) => "coherence misses".into(),
        Some(EventKind::Stall) => "memory stalls".into(),
        Some(EventKind::OtherTime) => "other CPU time".into(),
        Some(EventKind::TlbMiss) => match name {
            "dtlb-miss" => "data TLB misses".into(),
            "itlb-miss" => "instruction TLB misses".into(),
            "stlb-miss" => "page walks".into(),
            _ => name.to_string(),
        },
        _ => name.to_string(),
    }
}
