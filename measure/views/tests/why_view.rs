//! The report on causes, of a capture made by hand: five lines fight for one set of four ways, ten are touched once.

use hardmeter_answers::Filter;
use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::{
    Comm, CpuMode, EventSource, FileOffset, Mmap, Pid, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_samples::sidecar::{PageWalks, ReuseBucket, ReuseHistogram, Sidecar};
use hardmeter_symbols::SymbolizerOptions;
use hardmeter_views::{Capture, Style, WalkOptions, WhyReport, WhyReportOptions};
use std::path::Path;

const USER_EXACT: u16 = 2 | 1 << 14;
const SHARED: u64 = 0x7f00_0000_0000;
/// `hardmeter.data` of the software PMU uses this type for its events.
const RAW: u32 = 4;
const COLD: u8 = 1;
const CONFLICT: u8 = 3;
/// A load that L2 served; found in the TLB, or by a walk.
const L2_HIT: u64 = 0x2 | 0x22 << 5 | 0x2 << 19 | 0x0a << 26 | 2 << 33;
const L2_HIT_WALKED: u64 = 0x2 | 0x22 << 5 | 0x2 << 19 | 0x14 << 26 | 2 << 33;

fn event(name: &str, id: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(RAW, id);
    attr.sample_period = 1;
    attr.sample_type = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::CPU
        | sample_type::PERIOD
        | sample_type::RAW
        | sample_type::DATA_SRC
        | sample_type::PHYS_ADDR;
    attr.flags = attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::EXCLUDE_KERNEL;
    EventAttributes { name: name.to_string(), attr, ids: vec![id] }
}

/// A load from a line of the shared area.
fn load(event: u64, time: u64, line: u64, cause: u8, source: u64) -> Vec<u8> {
    let mut raw = b"HMs1\x08".to_vec();
    raw.extend([cause, 2, 0]);
    raw.extend((line as u32 % 16).to_le_bytes());
    raw.extend([0; 8]);
    RecordBuilder::new(record_type::SAMPLE, USER_EXACT)
        .u64(event)
        .u64(0x1000)
        .u32(7)
        .u32(7)
        .u64(time)
        .u64(SHARED + line * 64)
        .u64(0)
        .u64(1)
        .u32(raw.len() as u32)
        .bytes(&raw)
        .u64(source)
        .u64(0x10_0000 + line * 64)
        .finish()
}

fn capture(path: &Path) {
    let events = [event("l1d-miss", 1), event("dtlb-miss", 2), event("instructions", 3)];
    let mut writer = CaptureWriter::create(path, &events, &CaptureHeader::default()).expect("created");
    let comm =
        Comm { pid: Pid(7), tid: Tid(7), name: "fighter".into(), exec: true, time: Some(Timestamp(1)) };
    writer.append_comm(&comm).expect("written");
    let mmap = Mmap {
        pid: Pid(7),
        tid: Tid(7),
        mode: CpuMode::User,
        start: VirtualAddress(SHARED),
        length: 1 << 20,
        offset: FileOffset(0),
        executable: false,
        protection: Some(3),
        flags: Some(1),
        build_id: None,
        path: "/dev/zero (deleted)".into(),
        time: Some(Timestamp(2)),
    };
    writer.append_mmap(&mmap).expect("written");
    // Ten first touches, in sets 0 to 9; then a hundred rounds over lines 3, 19, 35, 51 and 67, all of set 3.
    for line in 0..10 {
        let source = if line < 2 { L2_HIT_WALKED } else { L2_HIT };
        writer.append(&load(1, 10 + line, 160 + line, COLD, source)).expect("written");
    }
    for turn in 0..90 {
        writer.append(&load(1, 100 + turn, 3 + turn % 5 * 16, CONFLICT, L2_HIT)).expect("written");
    }
    for page in 0..4 {
        writer.append(&load(2, 300 + page, page * 64, 0, L2_HIT_WALKED)).expect("written");
    }
    writer.finish().expect("finished");
    let machine = include_str!("../../../tests/machines/small.toml");
    let machine = Machine::parse("small.toml", machine).expect("a machine");
    let mut notes = Sidecar::new(EventSource::Simulated);
    notes.machine = Some(serde_json::to_value(&machine).expect("JSON"));
    // L2 holds 512 lines. 400 first uses, 100 up to 255 lines ago, 300 up to 511, 200 up to 1023: it misses 600.
    let bucket = |lines, count| ReuseBucket { lines, count };
    let buckets = vec![bucket(255, 100), bucket(511, 300), bucket(1023, 200)];
    notes.reuse = Some(ReuseHistogram { one_line_in: 64, cold: 400, buckets });
    notes.page_walks = Some(PageWalks { small: 1000, all_huge: 10, shared_huge: 280 });
    notes.store(path).expect("stored");
}

fn report(path: &Path, infer: bool) -> WhyReport {
    let capture = Capture::open(path).expect("opens");
    let walk = WalkOptions {
        filter: Filter::default(),
        symbols: Some(SymbolizerOptions::default()),
        progress: &|_| (),
    };
    let options = WhyReportOptions { walk, filter_text: None, machine: None, infer, limit: 5 };
    WhyReport::make(&capture, options).expect("made")
}

/// Made by this test itself: after a change that is meant, copy what it prints.
const GOLDEN: &str = include_str!("golden/why.txt");

#[test]
fn a_fight_for_a_set_as_text_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, false);
    let text = report.render(Style::default(), true);
    assert_eq!(text, GOLDEN, "\n{text}");
    let json = report.json();
    assert_eq!((&json["format"], &json["version"]), (&"hardmeter-why".into(), &1.into()));
    let l1d = &json["events"][0];
    assert_eq!(
        (&l1d["event"], &l1d["how"], &l1d["misses"]),
        (&"l1d-miss".into(), &"exact".into(), &100.into())
    );
    let conflict = &l1d["causes"][0];
    assert_eq!((&conflict["cause"], &conflict["share"]["count"]), (&"conflict".into(), &90.into()));
    assert_eq!(conflict["in_standing_sets"]["fraction"], 1.0);
    assert_eq!(conflict["p"], serde_json::Value::Null, "exact");
    let sets = &l1d["sets"];
    assert_eq!(sets["counts"][3], 91);
    assert_eq!(sets["standing_out"][0]["lines"][4]["address"], "0x7f00000010c0");
    assert_eq!((&l1d["walked"]["count"], &l1d["walked"]["of"]), (&2.into(), &100.into()));
    assert_eq!(json["events"][1]["pages"]["pages"], 4);
    let change = json["reuse"]["sizes"][3]["change"].as_f64().expect("misses now");
    assert!((change + 1.0 / 3.0).abs() < 1e-12, "600 misses become 400: {change}");
}

/// The same, inferred: with every miss sampled, all of it is right but for the first round of the fight, whose lines
/// had missed before this recording and look like first touches.
#[test]
fn inferred_causes_are_held_against_the_exact_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, true);
    let score = report.events[0].score.expect("causes are told");
    assert_eq!((score.total(), score.agreement().count), (100, 95));
    let text = report.render(Style::default(), true);
    let matrix = "  \
  inferred against exact (n = 100): 100 got a verdict (100.00 %), of which 95 are right (95.00 %, 95
  %: 88.82..97.85 %), kappa 0.77
  inferred \\ exact  cold  capacity  conflict  coherence
  cold                10         0         5          0
  capacity             0         0         0          0
  conflict             0         0        85          0
  coherence            0         0         0          0
  unknown              0         0         0          0
";
    assert!(text.contains(matrix), "{text}");
    let page = report.html();
    assert!(page.contains("inferred against exact (n = 100)") && !page.contains("<script"), "{page}");
}

/// Colours and blocks are for terminals alone.
#[test]
fn a_terminal_gets_blocks_and_a_pipe_digits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.data");
    capture(&path);
    let report = report(&path, false);
    let terminal = report.render(Style { color: true, width: Some(100) }, true);
    assert!(terminal.contains("\x1b[1;31m█\x1b[0m"), "the set that fights is hot: {terminal}");
    let piped = report.render(Style::default(), true);
    assert!(piped.is_ascii(), "{piped}");
    assert!(piped.contains("0-15 1119111111......"), "{piped}");
}
