//! Segments that are read, decided on, repaired or refused; and hostile ones.

use super::application::{check, Application, Decision, Refusal};
use super::layout::{Identity, Layout, RawTrace, Tables};
use super::made::{bytes, identity, Made, Random, BOOT};
use super::reading::{Found, TraceCursor, TraceEntry, STUCK_NS};
use crate::model::{Actuation, AppId, Class, CodeId, CpuId, CpuSet};
use hardmeter_samples::model::Cycles;
use std::os::unix::fs::FileExt;

fn opened(made: &Made) -> Application {
    Application::open_on(&made.path, AppId(7), BOOT).expect("a segment")
}

#[test]
fn a_segment_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    made.record(1, 2, 10, 500);
    let reading = opened(&made).snapshot().expect("read");
    let kinds: Vec<_> =
        reading.snapshot.kinds.iter().map(|kind| (kind.code.0, kind.label.as_str())).collect();
    assert_eq!(kinds, [(1, "(other)"), (2, "/a"), (3, "/b")]);
    let (cpu, record) = &reading.snapshot.kinds[1].records[0];
    assert_eq!((cpu.0, record.count, record.cycles.0, record.own.mean), (1, 10, 5000, 500.0));
    assert_eq!(reading.snapshot.name, "test");
    assert!(reading.snapshot.kinds[0].records.is_empty());
}

#[test]
fn a_decision_lies_where_libsplit_looks() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    let mut application = opened(&made);
    let cpus = CpuSet([CpuId(1), CpuId(65)].into());
    let decision = Decision {
        class: Class::Polluter,
        actuation: Actuation::Lazy,
        slice_us: 1600,
        background: true,
        admit: true,
        wants_probes: 8,
        uses_cpu_clock: true,
        expected: Cycles(12345),
        queue: 3,
        cpus,
    };
    assert!(application.decide(CodeId(2), &decision));
    assert!(!application.decide(CodeId(2), &decision), "the same again is not written");
    assert!(!application.decide(CodeId(8), &decision), "there are eight kinds");
    let written = made.get::<48>(made.layout.decision(2));
    assert_eq!(written[..8], [2, 0, 0, 0, 2, 2, 8, 1]);
    assert_eq!(written[8..20], [0x39, 0x30, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    assert_eq!(written[20..24], 1600_u32.to_le_bytes());
    assert_eq!(written[24..28], 1_u32.to_le_bytes());
    assert_eq!((written[32], written[40]), (2, 2), "bit 1 of the first word and of the second");
}

#[test]
fn a_record_whose_writer_died_is_mended_and_its_last_value_stands_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    made.record(0, 2, 10, 500);
    let mut application = opened(&made);
    application.snapshot().expect("read");
    // Odd, with a thread id that cannot exist: above the largest number of threads in Linux.
    let at = made.layout.record(0, 2);
    made.put(at, &3_u32.to_le_bytes());
    made.put(at + 4, &0x7fff_ffff_u32.to_le_bytes());
    assert_eq!(application.snapshot().expect("read").snapshot.kinds[1].records[0].1.count, 10);
    let now = super::monotonic_ns();
    assert!(matches!(application.record(0, 2, now + STUCK_NS - 1_000_000_000), Found::Busy));
    assert!(matches!(application.record(0, 2, now + 2 * STUCK_NS), Found::Healed));
    assert_eq!(made.get::<8>(at), [4, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(application.record(0, 2, now + 2 * STUCK_NS), Found::Record(_)));
    // A record whose owner is alive is left alone.
    made.put(at, &5_u32.to_le_bytes());
    made.put(at + 4, &std::process::id().to_le_bytes());
    assert!(matches!(application.record(0, 2, now + 3 * STUCK_NS), Found::Busy));
    assert!(matches!(application.record(0, 2, now + 9 * STUCK_NS), Found::Busy));
}

#[test]
fn wrong_headers_are_refused_with_a_reason() {
    let layout = Layout::of(8, 2, 4, 4).expect("sane");
    let good = identity(&layout, 7);
    assert_eq!(check(&good, AppId(7), layout.size, BOOT), Ok(layout));
    let said = |identity: &Identity, length| check(identity, AppId(7), length, BOOT).unwrap_err().to_string();
    assert!(said(&Identity { version: 9, ..good }, layout.size).contains("version 9"));
    assert!(said(&Identity { magic: 9, ..good }, layout.size).contains("not a segment of libsplit"));
    assert!(said(&Identity { kinds: 1 << 30, ..good }, layout.size).contains("sizes out of range"));
    assert!(said(&Identity { tables: Tables { records_at: u64::MAX, ..good.tables }, ..good }, layout.size)
        .contains("place of records"));
    assert!(said(&Identity { app_id: 8, ..good }, layout.size).contains("application 8"));
    assert!(said(&good, layout.size - 1).contains("bytes"));
    assert_eq!(check(&good, AppId(7), layout.size, "another"), Err(Refusal::OtherBoot));
}

#[test]
fn what_is_no_file_of_one_name_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    let other = folder.path().join("app-8.segment");
    std::os::unix::fs::symlink(&made.path, &other).expect("linked");
    assert!(matches!(Application::open_on(&other, AppId(7), BOOT), Err(Refusal::Unreachable(_))));
    let third = folder.path().join("app-9.segment");
    std::fs::hard_link(&made.path, &third).expect("linked");
    assert!(matches!(Application::open_on(&third, AppId(7), BOOT), Err(Refusal::Malformed(_))));
}

#[test]
fn a_hundred_thousand_mutations_hurt_nobody() {
    let mut random = Random(1);
    let layout = Layout::of(8, 2, 4, 4).expect("sane");
    let good = identity(&layout, 7);
    let mut accepted = 0;
    for _ in 0..50_000 {
        let mut copy = bytes(&good).to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(copy.len() as u64) as usize;
            copy[at] = random.next() as u8;
        }
        // SAFETY: the sizes are equal, and every pattern of bits is a valid identity.
        let mutated: Identity = unsafe { std::ptr::read_unaligned(copy.as_ptr().cast()) };
        if let Ok(found) = check(&mutated, AppId(7), layout.size, BOOT) {
            assert!(found.size <= layout.size);
            accepted += 1;
        }
    }
    // Bytes of the name and of the clock may change: about 50 of 192.
    assert!((500..25_000).contains(&accepted), "{accepted}");

    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    let mut application = opened(&made);
    let mut cursor = TraceCursor::default();
    let (mut read, mut spoilt) = (0, 0);
    for round in 0..50_000_u32 {
        let at = layout.tables.kinds_at + random.below(layout.size - layout.tables.kinds_at);
        let length = random.below(16).min(layout.size - at) as usize;
        let junk: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        made.put(at, &junk);
        if round.is_multiple_of(16) {
            let reading = application.snapshot().expect("the file did not shrink");
            assert!(reading.snapshot.kinds.len() <= 8);
            read += reading.snapshot.kinds.iter().map(|kind| kind.records.len()).sum::<usize>();
            spoilt += reading.spoilt;
            application.facts();
            assert!(application.traces(&mut cursor).len() <= 8);
            application.decide(CodeId(round % 16), &Decision::default());
            application.written.clear();
        }
    }
    assert!(read > 0 && spoilt > 0, "{read} {spoilt}");
}

#[test]
fn a_segment_that_shrinks_is_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    let mut application = opened(&made);
    made.file.set_len(4096).expect("shrunk");
    assert_eq!(application.snapshot().unwrap_err(), Refusal::Shrunk);
    let byte = &mut [0];
    assert_eq!(made.file.read_at(byte, 8192).expect("read"), 0, "nor is it made longer");
}

#[test]
fn rings_are_read_once_and_from_the_oldest_that_is_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = Made::new(folder.path(), 7);
    let application = opened(&made);
    let mut cursor = TraceCursor::default();
    let raw = |ended_tsc| RawTrace {
        ended_tsc,
        elapsed_cycles_16: 2,
        code: 3,
        displaced: 0xffff,
        ..RawTrace::default()
    };
    // Six were written to a ring of four: 3 to 6 are left.
    for number in 1..=6_u64 {
        made.put(made.layout.trace(1, ((number - 1) % 4) as u32), bytes(&raw(number)));
    }
    made.put(made.layout.cpu(1), &6_u64.to_le_bytes());
    let ended = |entries: Vec<TraceEntry>| entries.iter().map(|entry| entry.ended_tsc).collect::<Vec<_>>();
    let entries = application.traces(&mut cursor);
    assert_eq!((entries[0].elapsed, entries[0].displaced), (Cycles(32), None));
    assert_eq!(ended(entries), [3, 4, 5, 6]);
    assert_eq!(ended(application.traces(&mut cursor)), [0_u64; 0]);
}
