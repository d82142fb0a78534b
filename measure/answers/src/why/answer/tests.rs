//! Tests with synthetic samples.

use super::*;
use crate::filter::Filter;
use crate::testing::{sample, FakeMap, BASE};
use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::{DataSource, PhysicalAddress, VirtualAddress};

fn answers(kinds: &[EventKind], machine: Option<&str>, samples: &[Sample<'_>]) -> Vec<EventAnswer> {
    let machine = machine.map(|name| Machine::builtin(name).expect("built in"));
    let hierarchy = machine.map(|machine| Hierarchy::of_machine(&machine, machine.name.clone()));
    let events = kinds.to_vec();
    let mut why = Why::new(WhyOptions { events, hierarchy, one_line_in: 1, ignore_told: false, limit: 3 });
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    for sample in samples {
        let place = pass.place(sample.pid, sample.ip.expect("has one"), sample.mode);
        let object = DataNames { general: "index t_pkey".into(), particular: "index t_pkey block 7".into() };
        why.add(sample, Located { place: Some(place), process: None, object: None }, Some(object), None);
    }
    why.answers(&mut pass)
}

fn load(event: usize, address: u64, source: u64) -> Sample<'static> {
    let mut sample = sample(event, 1, BASE + 0x300);
    sample.address = Some(VirtualAddress(address));
    sample.data_source = Some(DataSource(source));
    sample
}

/// The data sources of a recorded Skylake capture: five from the line-fill buffer, three from L3, one of them with
/// a page walk, one from L2, four from L1, which are not misses.
#[test]
fn the_data_source_tells_which_accesses_are_misses() {
    let mut words = vec![0x0118_6810_0242u64; 5];
    words.extend([0x0106_6810_0842; 3]);
    words.extend([0x0106_5010_0842, 0x0104_6810_0442]);
    words.extend([0x0102_6810_0142; 4]);
    let samples: Vec<Sample<'_>> = words.iter().map(|word| load(0, 0x1000, *word)).collect();
    let answer = &answers(&[EventKind::Accesses], Some("skylake-sp"), &samples)[0];
    assert_eq!((answer.samples, answer.misses, answer.how), (14, 10, How::Inferred));
    assert_eq!(answer.walked, Share { count: 1, total: 10 });
    let all: u64 = answer.causes.iter().map(|cause| cause.share.count).sum();
    assert_eq!(all, 10, "every miss has one cause, or is unknown");
}

/// L2 is indexed by the physical address: without it the map of sets is missing, with it the set is bits 15..6.
#[test]
fn the_second_level_wants_physical_addresses() {
    let kinds = [EventKind::Miss(CacheLevel::L2)];
    let mut samples: Vec<Sample<'_>> = (0..3).map(|k| load(0, 0x1000 * k, 0)).collect();
    let answer = &answers(&kinds, Some("xeon-2003"), &samples)[0];
    assert_eq!(answer.sets, Err(SetsUnknown::NoPhysicalAddress));
    let without = Share { count: 3, total: 3 };
    assert!(answer.missing.contains(&Missing::PhysicalAddress { without }), "{:?}", answer.missing);
    for sample in &mut samples {
        sample.physical_address = Some(PhysicalAddress(0x7_0140));
    }
    let answer = &answers(&kinds, Some("xeon-2003"), &samples)[0];
    let map = answer.sets.as_ref().expect("physical addresses");
    assert_eq!((map.counts[5], map.samples, map.lines), (3, 3, 1));
}

#[test]
fn a_hashed_or_absent_level_has_no_map() {
    let kinds = [EventKind::Miss(CacheLevel::L3)];
    let samples = [load(0, 0x1000, 0)];
    assert_eq!(answers(&kinds, Some("skylake-sp"), &samples)[0].sets, Err(SetsUnknown::Hashed));
    assert_eq!(answers(&kinds, Some("xeon-2003"), &samples)[0].sets, Err(SetsUnknown::NoSuchLevel));
    assert_eq!(answers(&kinds, None, &samples)[0].sets, Err(SetsUnknown::NoGeometry));
}

/// Places are named and merged by routine and line; objects have the names that the caller passes.
#[test]
fn causes_have_their_places_and_objects() {
    let samples: Vec<Sample<'_>> = (0..4).map(|k| load(0, 0x4_0000 * k, 0)).collect();
    let answer = &answers(&[EventKind::Miss(CacheLevel::L1d)], Some("xeon-2003"), &samples)[0];
    let [cold] = answer.causes.as_slice() else { panic!("{:?}", answer.causes) };
    assert_eq!((cold.cause, cold.share), (Cause::Cold, Share { count: 4, total: 4 }));
    assert_eq!((cold.p, cold.basis[0].count), (Some(0.0), 4), "every miss was sampled");
    assert_eq!((cold.places[0].routine.as_str(), cold.places[0].count), ("hash_search", 4));
    assert_eq!((&*cold.objects[0].name, cold.objects[0].count), ("index t_pkey", 4));
}

/// Four translations on three pages of 4 KiB, and two of these pages are in one of 2 MiB.
#[test]
fn pages_of_translations_are_counted() {
    let samples = [0x1000, 0x1ff8, 0x2000, 0x20_0000].map(|address| load(0, address, 0));
    let answer = &answers(&[EventKind::TlbMiss], None, &samples)[0];
    assert_eq!(answer.pages, Some(PagesTouched { pages: 3, huge_pages: 2 }));
    assert_eq!((answer.how, answer.places[0].count), (How::None, 4));
    let other = &answers(&[EventKind::Other], None, &samples)[0];
    assert_eq!((other.samples, other.misses, other.missing.len()), (4, 0, 0));
}

/// A coherence miss of a hardware event is inferred from the snoop result, which does not distinguish true from
/// false sharing.
#[test]
fn a_coherence_event_of_hardware_is_not_exact() {
    let samples = [load(0, 0x1000, 0), load(0, 0x1000, 0)];
    let answer = &answers(&[EventKind::CoherenceMiss], None, &samples)[0];
    assert_eq!((answer.how, answer.causes[0].cause), (How::Inferred, Cause::Coherence));
    assert_eq!((answer.causes[0].p, &*answer.causes[0].basis[0].name), (None, "snoop"));
}
