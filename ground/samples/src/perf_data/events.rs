//! The events of a capture: their attributes, their ids, and which record belongs to which.

use super::abi::{attr_flag, misc, record_type, sample_type, PerfEventAttr};
use crate::model::{EventDescription, EventIndex, MemoryEvent, Period, StatementProbe, Timestamp};

/// One event: its name, its attribute, and the kernel's ids (one per CPU or thread).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventAttributes {
    /// The event's name, for example `l1d-miss`.
    pub name: String,
    /// The attribute it was opened with.
    pub attr: PerfEventAttr,
    /// The ids in its samples; may be empty if there is only one event.
    pub ids: Vec<u64>,
}

impl EventAttributes {
    /// The same in the terms of the model.
    pub fn describe(&self) -> EventDescription {
        let frequency = self.attr.has(attr_flag::FREQ);
        // perf appends modifiers (`:u`, `:ppp`) to the name; the part before them is the event.
        let base = self.name.split(':').next().unwrap_or_default();
        EventDescription {
            name: self.name.clone(),
            known: MemoryEvent::from_name(base),
            period: (!frequency && self.attr.sample_period != 0).then_some(Period(self.attr.sample_period)),
            frequency: frequency.then_some(self.attr.sample_period),
            attr_type: self.attr.event_type,
            attr_config: self.attr.config,
            sample_type: self.attr.sample_type,
            precise_ip: self.attr.precise_ip(),
        }
    }
}

/// perf's default name of an event without a name in the file.
pub(super) fn default_name(attr: &PerfEventAttr) -> String {
    const HARDWARE: [&str; 10] = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: [&str; 12] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ];
    let names: &[&str] = match attr.event_type {
        0 => &HARDWARE,
        1 => &SOFTWARE,
        _ => &[],
    };
    match usize::try_from(attr.config).ok().and_then(|config| names.get(config)) {
        Some(name) => (*name).to_string(),
        None => format!("type-{}-config-{:#x}", attr.event_type, attr.config),
    }
}

/// The fields that `sample_id_all` appends to every record that is not a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trailer {
    /// Bytes at the record's end.
    pub(super) length: usize,
    /// Position of the time in them.
    time_at: Option<usize>,
    /// Position of the CPU in them.
    cpu_at: Option<usize>,
    /// Position of process and thread in them.
    thread_at: Option<usize>,
}

impl Trailer {
    pub(super) fn of(attr: &PerfEventAttr) -> Trailer {
        let mut trailer = Trailer::default();
        if !attr.has(attr_flag::SAMPLE_ID_ALL) {
            return trailer;
        }
        // The kernel's order; each field takes eight bytes.
        for bit in [
            sample_type::TID,
            sample_type::TIME,
            sample_type::ID,
            sample_type::STREAM_ID,
            sample_type::CPU,
            sample_type::IDENTIFIER,
        ] {
            if attr.sample_type & bit == 0 {
                continue;
            }
            match bit {
                sample_type::TIME => trailer.time_at = Some(trailer.length),
                sample_type::CPU => trailer.cpu_at = Some(trailer.length),
                sample_type::TID => trailer.thread_at = Some(trailer.length),
                _ => {}
            }
            trailer.length += 8;
        }
        trailer
    }

    fn word(&self, body: &[u8], at: Option<usize>) -> Option<u64> {
        let start = body.len().checked_sub(self.length)? + at?;
        Some(u64::from_le_bytes(body.get(start..start + 8)?.try_into().ok()?))
    }

    /// The record's time; `None` also for records that perf synthesized at the start, whose trailer is zero.
    pub(super) fn time(&self, body: &[u8]) -> Option<Timestamp> {
        self.word(body, self.time_at).filter(|time| *time != 0).map(Timestamp)
    }

    /// The process and thread in the record's trailer.
    pub(super) fn thread(&self, body: &[u8]) -> Option<(i32, i32)> {
        self.word(body, self.thread_at).map(|word| (word as i32, (word >> 32) as i32))
    }

    /// The record's CPU.
    pub(super) fn cpu(&self, body: &[u8]) -> Option<u32> {
        self.word(body, self.cpu_at).map(|word| word as u32)
    }
}

/// Position of the event's id in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdPosition {
    /// The file has one event, or no ids: all records belong to the first.
    OnlyEvent,
    /// The `n`-th word of a sample; the `m`-th word from the end of any other record.
    Words { in_sample: usize, from_end: usize },
}

/// All events of a capture, made for looking one up per record.
pub(super) struct EventTable {
    attrs: Vec<PerfEventAttr>,
    trailers: Vec<Trailer>,
    /// Word index of the time in a sample, per event.
    sample_time_at: Vec<Option<usize>>,
    /// The events of statement probes. Empty in most captures.
    probes: Vec<(EventIndex, StatementProbe)>,
    /// `(id, event)`, sorted by id.
    ids: Vec<(u64, u32)>,
    position: IdPosition,
    /// Cache: consecutive samples usually have the same id.
    last: Option<(u64, u32)>,
}

impl EventTable {
    pub(super) fn new(events: &[EventAttributes]) -> EventTable {
        let mut ids: Vec<(u64, u32)> = events
            .iter()
            .enumerate()
            .flat_map(|(event, attributes)| attributes.ids.iter().map(move |id| (*id, event as u32)))
            .collect();
        ids.sort_unstable();
        let attrs: Vec<PerfEventAttr> = events.iter().map(|event| event.attr).collect();
        EventTable {
            trailers: attrs.iter().map(Trailer::of).collect(),
            sample_time_at: attrs.iter().map(sample_time_position).collect(),
            probes: events
                .iter()
                .enumerate()
                .filter_map(|(index, event)| {
                    Some((EventIndex(index), StatementProbe::of_event(&event.name)?))
                })
                .collect(),
            position: id_position(&attrs, ids.is_empty()),
            last: None,
            attrs,
            ids,
        }
    }

    pub(super) fn attr(&self, event: EventIndex) -> &PerfEventAttr {
        &self.attrs[event.0]
    }

    /// The probe of an event's samples, if they are not memory samples.
    #[inline]
    pub(super) fn probe_of(&self, event: EventIndex) -> Option<StatementProbe> {
        self.probes.iter().find(|(index, _)| *index == event).map(|(_, probe)| *probe)
    }

    /// The event with this id.
    pub(super) fn event_with_id(&self, id: u64) -> Option<EventIndex> {
        let found = self.ids.binary_search_by_key(&id, |entry| entry.0).ok()?;
        Some(EventIndex(self.ids[found].1 as usize))
    }

    /// The event of a record. `None`: its id belongs to no event of this file.
    #[inline]
    pub(super) fn event_of(&mut self, kind: u32, body: &[u8]) -> Option<EventIndex> {
        let IdPosition::Words { in_sample, from_end } = self.position else {
            return (!self.attrs.is_empty()).then_some(EventIndex(0));
        };
        let start =
            if kind == record_type::SAMPLE { in_sample * 8 } else { body.len().checked_sub(from_end * 8)? };
        let id = u64::from_le_bytes(body.get(start..start + 8)?.try_into().ok()?);
        if let Some((last, event)) = self.last {
            if last == id {
                return Some(EventIndex(event as usize));
            }
        }
        if id == 0 {
            return Some(EventIndex(0)); // perf's synthesized records (the first mappings, for example) have id 0
        }
        let found = self.ids.binary_search_by_key(&id, |entry| entry.0).ok()?;
        self.last = Some(self.ids[found]);
        Some(EventIndex(self.ids[found].1 as usize))
    }

    /// The trailer of a record that is not a sample. Records of an unknown event are read like the first event's,
    /// which is how they were laid out unless the recorder mixed layouts.
    pub(super) fn trailer_of(&mut self, kind: u32, body: &[u8]) -> Trailer {
        let event = self.event_of(kind, body).unwrap_or(EventIndex(0));
        self.trailers.get(event.0).copied().unwrap_or_default()
    }

    /// The time of any kernel record, without decoding it. `None` where it has none.
    pub(super) fn time_of(&mut self, kind: u32, body: &[u8]) -> Option<u64> {
        if kind == record_type::SAMPLE {
            let event = self.event_of(kind, body)?;
            let start = self.sample_time_at[event.0]? * 8;
            let time = u64::from_le_bytes(body.get(start..start + 8)?.try_into().ok()?);
            return (time != 0).then_some(time);
        }
        self.trailer_of(kind, body).time(body).map(|time| time.0)
    }
}

/// Number of words before the ID field of a sample.
fn words_before_id(sample_type: u64) -> usize {
    let before =
        sample_type::IDENTIFIER | sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::ADDR;
    (sample_type & before).count_ones() as usize
}

fn sample_time_position(attr: &PerfEventAttr) -> Option<usize> {
    let before = sample_type::IDENTIFIER | sample_type::IP | sample_type::TID;
    (attr.sample_type & sample_type::TIME != 0).then(|| (attr.sample_type & before).count_ones() as usize)
}

/// Events of one file may differ in their fields only if the id is at the same position in all of them.
fn id_position(attrs: &[PerfEventAttr], no_ids: bool) -> IdPosition {
    let Some(first) = attrs.first() else { return IdPosition::OnlyEvent };
    if no_ids || attrs.len() == 1 {
        return IdPosition::OnlyEvent;
    }
    if attrs.iter().all(|attr| attr.sample_type & sample_type::IDENTIFIER != 0) {
        return IdPosition::Words { in_sample: 0, from_end: 1 };
    }
    if first.sample_type & sample_type::ID == 0 {
        return IdPosition::OnlyEvent;
    }
    let after = sample_type::STREAM_ID | sample_type::CPU | sample_type::IDENTIFIER;
    IdPosition::Words {
        in_sample: words_before_id(first.sample_type),
        from_end: 1 + (first.sample_type & after).count_ones() as usize,
    }
}

/// Whether an MMAP2 record has a build id instead of an inode.
pub(super) fn has_build_id(misc_field: u16) -> bool {
    misc_field & misc::MMAP_BUILD_ID != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, sample_type: u64, ids: &[u64]) -> EventAttributes {
        let mut attr = PerfEventAttr::new(1, 0);
        attr.sample_type = sample_type;
        attr.flags = attr_flag::SAMPLE_ID_ALL;
        EventAttributes { name: name.to_string(), attr, ids: ids.to_vec() }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn events_are_told_apart_by_identifier_or_by_id() {
        use sample_type::{ADDR, CPU, ID, IDENTIFIER, IP, TID, TIME};
        let mut table =
            EventTable::new(&[event("a", IDENTIFIER | IP, &[7, 8]), event("b", IDENTIFIER | TIME, &[9])]);
        // Found by the fuzzer: any id may occur, so none can be reserved for "none yet".
        assert_eq!(table.event_of(record_type::SAMPLE, &words(&[u64::MAX, 1])), None);
        assert_eq!(table.event_of(record_type::SAMPLE, &words(&[9, 1])), Some(EventIndex(1)));
        assert_eq!(table.event_of(record_type::SAMPLE, &words(&[8, 1])), Some(EventIndex(0)));
        assert_eq!(table.event_of(record_type::SAMPLE, &words(&[5, 1])), None);
        assert_eq!(table.event_of(record_type::COMM, &words(&[1, 2, 9])), Some(EventIndex(1)));
        assert_eq!(table.event_of(record_type::COMM, &words(&[1, 2, 0])), Some(EventIndex(0)));
        assert_eq!(table.time_of(record_type::SAMPLE, &words(&[9, 77])), Some(77));

        let fields = IP | TID | TIME | ADDR | ID | CPU;
        let mut table = EventTable::new(&[event("a", fields, &[7]), event("b", fields, &[9])]);
        assert_eq!(table.event_of(record_type::SAMPLE, &words(&[1, 2, 3, 4, 9, 0])), Some(EventIndex(1)));
        // In the trailer: tid, time, id, cpu.
        assert_eq!(table.event_of(record_type::COMM, &words(&[0, 1, 2, 3, 9, 0])), Some(EventIndex(1)));
        assert_eq!(table.time_of(record_type::COMM, &words(&[0, 1, 2, 55, 9, 0])), Some(55));
        assert_eq!(
            table.trailer_of(record_type::COMM, &words(&[0, 1, 2, 55, 9, 3])).cpu(&words(&[9, 3])),
            None
        );
    }

    #[test]
    fn modifiers_do_not_hide_a_known_event() {
        let description = event("l2-miss:u", 0, &[]).describe();
        assert_eq!(description.known, Some(MemoryEvent::L2Miss));
        assert_eq!(description.name, "l2-miss:u");
    }
}
