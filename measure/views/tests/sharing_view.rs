//! The report on sharing, of a capture made by hand: two processes write the two halves of a word pair in turns.

use hardmeter_answers::{Answers, SharingQuestion};
use hardmeter_samples::model::{Comm, CpuMode, FileOffset, Mmap, Pid, Tid, Timestamp, VirtualAddress};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_views::{SharingDetail, SharingReport, Style};
use std::path::Path;

const USER_EXACT: u16 = 2 | 1 << 14;
const SHARED: u64 = 0x7f00_0000_0000;
const STORE: u64 = 0x04;
/// `hardmeter.data` of the software PMU uses this type for its events.
const RAW: u32 = 4;

fn event(name: &str, id: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(RAW, id);
    attr.sample_period = 1;
    attr.sample_type = sample_type::PLACE
        | sample_type::RAW
        | sample_type::DATA_SRC
        | sample_type::WEIGHT_STRUCT
        | sample_type::PHYS_ADDR;
    attr.flags = attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::EXCLUDE_KERNEL;
    EventAttributes { name: name.to_string(), attr, ids: vec![id] }
}

/// A store of eight bytes at `offset` of the shared line, by process `pid`; of a miss, with the other's offset.
fn store(event: u64, time: u64, pid: u64, offset: u64, other: Option<u8>) -> Vec<u8> {
    let mut raw = b"HMs1\x08\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec();
    if let Some(offset) = other {
        raw.extend([1, 0, 16, 0, 0, 0, 0, 0, 2, offset, 8, 1]);
        raw.extend((3 - pid as u32).to_le_bytes());
        raw.extend((0x1000 * (3 - pid)).to_le_bytes());
    }
    raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
    RecordBuilder::new(record_type::SAMPLE, USER_EXACT)
        .u64(event)
        .u64(0x1000 * pid)
        .u32(pid as u32)
        .u32(pid as u32)
        .u64(time)
        .u64(SHARED + offset)
        .u64(pid - 1)
        .u64(1)
        .u32(raw.len() as u32)
        .bytes(&raw)
        .u64(60)
        .u64(STORE)
        .u64(0x5000 + offset)
        .finish()
}

/// Ten turns; each but the first two begins with a miss, each but the first takes the line away.
fn ping_pong(path: &Path) {
    let events = [event("coherence-miss", 1), event("invalidation", 2)];
    let mut writer = CaptureWriter::create(path, &events, &CaptureHeader::default()).expect("created");
    for pid in 1..=2 {
        let comm = Comm {
            pid: Pid(pid),
            tid: Tid(pid),
            name: format!("writer{pid}"),
            exec: true,
            time: Some(Timestamp(1)),
        };
        writer.append_comm(&comm).expect("written");
        let mmap = Mmap {
            pid: Pid(pid),
            tid: Tid(pid),
            mode: CpuMode::User,
            start: VirtualAddress(SHARED),
            length: 4096,
            offset: FileOffset(0),
            executable: false,
            protection: Some(3),
            flags: Some(1),
            build_id: None,
            path: "/dev/zero (deleted)".into(),
            time: Some(Timestamp(2)),
        };
        writer.append_mmap(&mmap).expect("written");
    }
    for turn in 0..10 {
        let (pid, time) = (1 + turn % 2, 100 + 10 * turn);
        let (mine, other) = ((pid - 1) * 8, (2 - pid) as u8 * 8);
        if turn > 1 {
            writer.append(&store(1, time, pid, mine, Some(other))).expect("written");
        }
        if turn > 0 {
            writer.append(&store(2, time + 1, pid, mine, None)).expect("written");
        }
    }
    writer.finish().expect("finished");
}

fn report(path: &Path, judge_by_samples: bool) -> SharingReport {
    let question = SharingQuestion { lines: Some(10), judge_by_samples };
    SharingReport(Answers::open(path).expect("opens").sharing(&question).expect("answered"))
}

const GOLDEN: &str = "\
* 100.00 % (n = 8 of 8) of the misses that waited for another core: shared memory, 1 line, falsely
  shared between 2 processes, exact (simulated)

contended cache lines: n = 8 coherence misses and 9 invalidations on 1 line
  #  misses      of 8  local  remote  taken  latency  sharing  address         object
  1       8  100.00 %      0       0      9       60  false    0x7f0000000000  shared memory /dev/zero (deleted)

1: physical line 0x140, 0x7f0000000000 in process 2: shared memory /dev/zero (deleted)
  false sharing: 8 of n = 8 coherence misses (100.00 %) on bytes that no other core had written;
  exact (simulated)
  bytes  access  misses  true  false  blamed  takes  others  latency  routine            line    process  object
  8..16  store        4            4       4      5               60  [unknown address]  0x2000  writer2  \
shared memory /dev/zero (deleted)
  0..8   store        4            4       4      4               60  [unknown address]  0x1000  writer1  \
shared memory /dev/zero (deleted)
  who waits for whom, n = 8 coherence misses; exact (simulated)
    misses  waits              for
         8  [unknown address]  [unknown address]
  another layout: a cache line for each of
    bytes 0..8 (used by one thread): shared memory /dev/zero (deleted)
    bytes 8..16 (used by one thread): shared memory /dev/zero (deleted)
  predicted: 8 of n = 8 coherence misses vanish (100.00 %), that is 100.00 % of all n = 8; every
  recorded miss and invalidation was replayed; accesses that hit are not in the trace (record loads
  and stores with period 1 for an exact answer)
";

#[test]
fn a_falsely_shared_line_as_text_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    ping_pong(&path);
    let made = report(&path, false);
    let text = made.render(Style::default(), SharingDetail { lines: 3, rows: 8 }, true);
    assert_eq!(text, GOLDEN);
    let json = made.json();
    assert_eq!(json["total"]["misses"], 8);
    let line = &json["lines"][0];
    assert_eq!(line["verdict"]["kind"], "false");
    assert_eq!(line["verdict"]["evidence"]["method"], "simulated");
    assert_eq!(line["layout"]["misses_after"], 0);
    assert_eq!(line["layout"]["basis"], "all-misses");
    assert_eq!(line["layout"]["groups"][1]["ranges"][0], "8..16");
    assert_eq!(line["accesses"][0]["blamed"], 4);
    assert_eq!(line["fights"][0]["misses"], 8);
}

#[test]
fn judged_by_samples_eight_misses_are_too_few() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    ping_pong(&path);
    let made = report(&path, true);
    let text = made.render(Style::default(), SharingDetail { lines: 1, rows: 1 }, true);
    // 0.9^8 = 0.430 for the misses, 0.9^17 for the stores: the misses are the weaker side.
    let line = "unknown sharing: 0.00 % of n = 8 misses on bytes that another thread stores, 0.00 % of n = 17 stores on \
                bytes that another thread misses on; too few samples to tell, p=0.430";
    let on_one_line = text.replace("\n  ", " ");
    assert!(on_one_line.contains(line), "{text}");
    assert!(text.contains("and 1 access more; --rows shows them"), "{text}");
}

#[test]
fn the_page_stands_alone_and_tells_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("<made>.data");
    ping_pong(&path);
    let page = report(&path, false).html(SharingDetail { lines: 1, rows: 8 });
    assert!(page.contains("false sharing: 8 of n = 8 coherence misses (100.00 %)"), "{page}");
    assert!(page.contains("id=\"line-1\"") && page.contains("<td>8..16</td>"), "{page}");
    assert!(!page.contains("<made>") && !page.contains("<script"), "names are escaped, and nothing runs");
}

/// As `perf c2c record` leaves it: no physical addresses, no widths; the two processes map the memory at different
/// addresses. Process 1 loads bytes 0.. and hits the modified line of process 2, which stores bytes 8...
fn sampled_by_hardware(path: &Path) {
    const HITM_LOAD: u64 = 0x02 | 0x42 << 5 | 0x10 << 19;
    let events = ["cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"].into_iter().zip(1..).map(|(name, id)| {
        let mut event = event(name, id);
        event.attr.sample_type &= !(sample_type::RAW | sample_type::PHYS_ADDR);
        event.attr.sample_period = 1000;
        event
    });
    let events: Vec<_> = events.collect();
    let mut writer = CaptureWriter::create(path, &events, &CaptureHeader::default()).expect("created");
    let base = |pid: u64| SHARED - 0x10_0000 * pid;
    for pid in 1..=2 {
        let mmap = Mmap {
            pid: Pid(pid as i32),
            tid: Tid(pid as i32),
            mode: CpuMode::User,
            start: VirtualAddress(base(pid)),
            length: 4096,
            offset: FileOffset(0),
            executable: false,
            protection: Some(3),
            flags: Some(1),
            build_id: None,
            path: "/dev/shm/table".into(),
            time: Some(Timestamp(2)),
        };
        writer.append_mmap(&mmap).expect("written");
    }
    let mut sample = |event: u64, time: u64, pid: u64, address: u64, source: u64| {
        let record = RecordBuilder::new(record_type::SAMPLE, USER_EXACT)
            .u64(event)
            .u64(0x1000 * pid)
            .u32(pid as u32)
            .u32(pid as u32)
            .u64(time)
            .u64(address)
            .u64(pid - 1)
            .u64(1000)
            .u64(90)
            .u64(source);
        writer.append(&record.finish()).expect("written");
    };
    (0..40).for_each(|i| sample(1, 100 + i, 1, base(1), HITM_LOAD));
    (0..30).for_each(|i| sample(2, 200 + i, 2, base(2) + 8, STORE));
    writer.finish().expect("finished");
}

#[test]
fn what_hardware_samples_is_judged_by_where_the_samples_fell() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("c2c.data");
    sampled_by_hardware(&path);
    let made = report(&path, false);
    let json = made.json();
    assert_eq!(json["lines"].as_array().expect("lines").len(), 1, "one line, at two addresses");
    let line = &json["lines"][0];
    assert_eq!(line["identified_by"], "place in a shared mapping");
    assert_eq!((&line["counts"]["local_hitm"], &line["verdict"]["kind"]), (&40.into(), &"false".into()));
    assert_eq!(line["fights_exact"], false);
    assert_eq!(line["fights"][0]["misses"], 40);
    assert_eq!((&line["layout"]["basis"], &line["layout"]["misses_after"]), (&"samples".into(), &0.into()));
    let text = made.render(Style::default(), SharingDetail { lines: 1, rows: 8 }, true).replace("\n  ", " ");
    // 0.9^30 = 0.042: the thirty stores are the weaker side.
    assert!(text.contains("inferred (sampled, n=70, p=0.042)"), "{text}");
    assert!(text.contains("0..4?") && text.contains("8..12?"), "widths are guessed, and marked: {text}");
}
