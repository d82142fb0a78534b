//! Synthetic captures of two processes on one line, walked twice as a view does.

use super::*;
use crate::code::{ImageId, Place};
use crate::estimate::Share;
use crate::testing::{sample, BASE};
use hardmeter_samples::model::{
    AccessSize, CacheLine, CpuId, DataSource, EventDescription, EventIndex, FileOffset, MemoryEvent, Period,
    PhysicalAddress, Pid, Sample, Tid, VirtualAddress,
};

const LOAD: u64 = 0x02;
const STORE: u64 = 0x04;
/// L3 hit, HITM.
const MODIFIED: u64 = 0x42 << 5 | 0x10 << 19;
const MISS: usize = 0;
const INVALIDATION: usize = 1;

fn events(names: &[(&str, u64)]) -> Vec<EventDescription> {
    let event = |(name, period): &(&str, u64)| EventDescription {
        name: name.to_string(),
        known: MemoryEvent::from_name(name),
        period: Some(Period(*period)),
        frequency: None,
        attr_type: 4,
        attr_config: 0,
        sample_type: 0,
        precise_ip: 3,
    };
    names.iter().map(event).collect()
}

/// The raw field of a simulated access of eight bytes; `other`: verdict (1 true, 2 false, 0 none), offset on the
/// line, process.
fn raw(other: Option<(u8, u8, u32)>) -> &'static [u8] {
    let mut raw = b"HMs1\x08\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    if let Some((verdict, offset, pid)) = other {
        raw.extend([1, 0, 16, 0, 0, 0, 0, 0]);
        raw.extend([verdict, offset, 8, 1]);
        raw.extend(pid.to_le_bytes());
        raw.extend((BASE + 0x100 * u64::from(pid)).to_le_bytes());
    }
    Vec::leak(raw)
}

/// Process `pid` on core `pid` touches eight bytes at `offset` of the physical line 0x40, by the instruction at
/// 0x100 * pid of the server.
fn touch(event: usize, pid: i32, offset: u64, source: u64, raw: Option<&'static [u8]>) -> Sample<'static> {
    Sample {
        address: Some(VirtualAddress(0x7000_0000 * pid as u64 + offset)),
        physical_address: Some(PhysicalAddress(0x1000 + offset)),
        cpu: Some(CpuId(pid as u32)),
        data_source: Some(DataSource(source)),
        raw,
        ..sample(event, pid, BASE + 0x100 * pid as u64)
    }
}

fn place(pid: i32) -> Option<Place> {
    Some(Place { image: ImageId(0), offset: FileOffset(0x100 * pid as u64) })
}

/// Walks twice; returns the census and the details of all lines.
fn studied(
    events: &[EventDescription],
    samples: &[Sample<'static>],
    by_samples: bool,
) -> (LineCensus, LineStudy) {
    let roles = Roles::new(events);
    let mut census = LineCensus::new(roles.clone(), 64);
    samples.iter().for_each(|sample| census.add(sample, || None));
    let mut study = LineStudy::new(roles, 64, &census.ranking(), by_samples);
    for sample in samples {
        let Some(line) = LineId::of(sample, 64, None).filter(|line| study.wants(*line)) else { continue };
        let other = sample.simulated().and_then(|detail| detail.sharing);
        let other =
            other.map(|other| OtherSide { place: place(other.pid.0), process: Some("server".into()) });
        let instruction = InstructionAccess { reads: false, writes: false, size: AccessSize(8) };
        let known = sample.raw.is_none().then_some(instruction);
        study.add(line, sample, place(sample.pid.unwrap().0), Some("server".into()), known, other);
    }
    (census, study)
}

/// Two processes alternately write a word each. Of ten rounds, each but the first two begins with a miss that also
/// invalidates the line: two samples of one store.
fn turns(offsets: [u64; 2], verdict: u8) -> Vec<Sample<'static>> {
    let mut samples = Vec::new();
    for turn in 0..10 {
        let pid = 1 + turn % 2;
        let (offset, others) = (offsets[pid as usize - 1], offsets[2 - pid as usize]);
        if turn > 1 {
            let other = raw(Some((verdict, others as u8, 3 - pid as u32)));
            samples.push(touch(MISS, pid, offset, STORE, Some(other)));
        }
        if turn > 0 {
            samples.push(touch(INVALIDATION, pid, offset, STORE, Some(raw(None))));
        }
    }
    samples
}

const SHARING: [(&str, u64); 2] = [("coherence-miss", 1), ("invalidation", 1)];

#[test]
fn false_sharing_of_two_processes() {
    let (census, study) = studied(&events(&SHARING), &turns([0, 8], 2), false);
    let counts = LineCounts {
        misses: 8,
        invalidations: 9,
        false_sharing: 8,
        latency_samples: 8,
        latency_sum: 80,
        ..LineCounts::default()
    };
    assert_eq!(census.ranking(), [(LineId::Physical(CacheLine(0x40)), counts)]);
    assert_eq!(census.total(), counts);
    let detail = &study.lines()[0];
    let verdict = study.verdict(detail);
    assert_eq!(verdict.kind, SharingKind::False);
    assert_eq!(verdict.evidence, Evidence::Simulated { false_sharing: Share { count: 8, total: 8 } });
    let rows = detail.accesses();
    assert_eq!(rows.len(), 2);
    // Each missed four times because of the other. The second invalidated the line once more.
    for (row, pid) in rows.iter().zip([2, 1]) {
        let start = (pid as u16 - 1) * 8;
        assert_eq!(row.range, Some(ByteRange { start, end: start + 8 }));
        assert_eq!((row.reads, row.writes, row.place), (false, true, place(pid)));
        assert_eq!((row.counts.misses, row.blamed, row.accesses), (4, 4, 0));
        assert_eq!(row.pids.iter().copied().collect::<Vec<_>>(), [Pid(pid)]);
    }
    assert_eq!((rows[0].counts.invalidations, rows[1].counts.invalidations), (5, 4));
    let (fights, exact) = detail.fights();
    let fight = |waiting, writing| Fight {
        waiting: place(waiting),
        writing: place(writing),
        misses: 4,
        false_sharing: 4,
    };
    assert!(exact);
    assert_eq!(fights, [fight(1, 2), fight(2, 1)]);
    let groups = detail.groups();
    assert_eq!(groups.iter().map(|group| group.kind).collect::<Vec<_>>(), [GroupKind::OneThread; 2]);
    assert_eq!(
        study.effect(detail, &groups),
        Some(Effect { before: 8, after: 0, new: 0, basis: Basis::AllMisses })
    );
}

#[test]
fn true_sharing_of_two_processes_has_nothing_to_part() {
    let (_, study) = studied(&events(&SHARING), &turns([0, 0], 1), false);
    let detail = &study.lines()[0];
    assert_eq!(study.verdict(detail).kind, SharingKind::True);
    let groups = detail.groups();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].kind, GroupKind::SeveralWriters);
    assert_eq!(study.effect(detail, &groups), None);
}

#[test]
fn without_invalidations_the_writers_are_known_from_the_misses() {
    let misses: Vec<_> =
        turns([0, 8], 2).into_iter().filter(|sample| sample.event == EventIndex(MISS)).collect();
    let (_, study) = studied(&events(&[("coherence-miss", 3)]), &misses, false);
    let detail = &study.lines()[0];
    let groups = detail.groups();
    assert_eq!(groups.len(), 2);
    assert_eq!(
        study.effect(detail, &groups),
        Some(Effect { before: 8, after: 0, new: 0, basis: Basis::OneMissIn(3) })
    );
}

#[test]
fn misses_of_an_unknown_share_are_no_share_of_zero() {
    // The simulator's verdict is in samples of another event, as in a capture with only -e l2-miss.
    let misses: Vec<_> =
        turns([0, 8], 2).into_iter().filter(|sample| sample.event == EventIndex(MISS)).collect();
    let (_, study) = studied(&events(&[("l2-miss", 3)]), &misses, false);
    let detail = &study.lines()[0];
    let effect = study.effect(detail, &detail.groups());
    assert_eq!(effect, Some(Effect { before: 8, after: 0, new: 0, basis: Basis::SomeMisses }));
}

/// As hardware samples it: process 1 loads bytes 0..8 and hits process 2's modified line; process 2 stores 8..16.
fn hardware(stores_at: u64) -> Vec<Sample<'static>> {
    let load = |_| touch(0, 1, 0, LOAD | MODIFIED, None);
    let store = |_| touch(1, 2, stores_at, STORE, None);
    (0..40).map(load).chain((0..30).map(store)).collect()
}

#[test]
fn sampled_loads_and_stores_are_judged_by_their_bytes() {
    let events = events(&[("cpu/mem-loads,ldlat=30/P", 1000), ("cpu/mem-stores/P", 1000)]);
    let (census, study) = studied(&events, &hardware(8), false);
    assert_eq!((census.total().misses, census.total().local_hitm), (40, 40));
    let detail = &study.lines()[0];
    let verdict = study.verdict(detail);
    assert_eq!(verdict.kind, SharingKind::False);
    // 0.9^30 = 0.0424 for the thirty stores, the weaker of the two.
    let Evidence::Sampled { loads, stores, p } = verdict.evidence else { panic!("sampled") };
    assert_eq!((loads, stores), (Share { count: 0, total: 40 }, Share { count: 0, total: 30 }));
    assert!((p - 0.0424).abs() < 0.0001, "{p}");
    let (fights, exact) = detail.fights();
    assert!(!exact);
    assert_eq!(fights, [Fight { waiting: place(1), writing: place(2), misses: 40, false_sharing: 0 }]);
    let effect = study.effect(detail, &detail.groups());
    assert_eq!(effect, Some(Effect { before: 40, after: 0, new: 0, basis: Basis::Samples }));

    let (_, study) = studied(&events, &hardware(4), false);
    let detail = &study.lines()[0];
    assert_eq!(study.verdict(detail).kind, SharingKind::True, "bytes 4..12 overlap 0..8");
    assert_eq!(study.effect(detail, &detail.groups()), None);
}

#[test]
fn a_simulated_capture_can_be_judged_as_if_it_were_sampled() {
    let mut samples = Vec::new();
    (0..5).for_each(|_| samples.extend(turns([0, 8], 2)));
    let (_, study) = studied(&events(&SHARING), &samples, true);
    let verdict = study.verdict(&study.lines()[0]);
    assert_eq!(verdict.kind, SharingKind::False);
    assert!(matches!(verdict.evidence, Evidence::Sampled { .. }));
    let (_, study) = studied(&events(&SHARING), &turns([0, 8], 2), true);
    assert_eq!(study.verdict(&study.lines()[0]).kind, SharingKind::Unknown, "eight misses are too few");
}

#[test]
fn threads_of_one_process_share_by_its_own_addresses() {
    let mut load = touch(0, 1, 0, LOAD | MODIFIED, None);
    load.physical_address = None;
    let mut store = touch(1, 1, 0, STORE, None);
    store.physical_address = None;
    store.tid = Some(Tid(7));
    let samples: Vec<_> = (0..30).map(|_| load.clone()).chain((0..30).map(|_| store.clone())).collect();
    let (census, study) = studied(&events(&[("loads", 1000), ("stores", 1000)]), &samples, false);
    assert_eq!(census.ranking()[0].0, LineId::Private { pid: Pid(1), line: CacheLine(0x7000_0000 >> 6) });
    assert_eq!(study.verdict(&study.lines()[0]).kind, SharingKind::True);
}
