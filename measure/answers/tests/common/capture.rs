// A synthetic capture: five lines compete for one set of four ways, ten are accessed once. Tests and the examples
// of the documentation include this file.

use hardmeter_samples::machine::Machine;
use hardmeter_samples::model::{
    Comm, CpuMode, EventSource, FileOffset, Mmap, Pid, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_samples::sidecar::{PageWalks, ReuseBucket, ReuseHistogram, Sidecar};
use std::path::Path;

const USER_EXACT: u16 = 2 | 1 << 14;
const SHARED: u64 = 0x7f00_0000_0000;
/// `hardmeter.data` of the software PMU uses this type for its events.
const RAW: u32 = 4;
const COLD: u8 = 1;
const CONFLICT: u8 = 3;
/// A load served by L2; translated by the TLB, or by a page walk.
const L2_HIT: u64 = 0x2 | 0x22 << 5 | 0x2 << 19 | 0x0a << 26 | 2 << 33;
const L2_HIT_WALKED: u64 = 0x2 | 0x22 << 5 | 0x2 << 19 | 0x14 << 26 | 2 << 33;

fn event(name: &str, id: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(RAW, id);
    attr.sample_period = 1;
    attr.sample_type = sample_type::PLACE | sample_type::RAW | sample_type::DATA_SRC | sample_type::PHYS_ADDR;
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

/// A capture of one process with a shared area, before its samples.
fn begin(path: &Path) -> CaptureWriter {
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
    writer
}

/// Writes a capture of this many conflict misses, without a side file.
#[allow(dead_code)]
pub fn long_capture(path: &Path, samples: u64) {
    let mut writer = begin(path);
    for turn in 0..samples {
        writer.append(&load(1, 100 + turn, 3 + turn % 5 * 16, CONFLICT, L2_HIT)).expect("written");
    }
    writer.finish().expect("finished");
}

/// Writes the capture with its side file.
pub fn capture(path: &Path) {
    let mut writer = begin(path);
    // Ten first accesses, in sets 0 to 9; then a hundred rounds over lines 3, 19, 35, 51 and 67, all in set 3.
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
    let machine = include_str!("../../../../tests/machines/small.toml");
    let machine = Machine::parse("small.toml", machine).expect("a machine");
    let mut notes = Sidecar::new(EventSource::Simulated);
    notes.machine = Some(serde_json::to_value(&machine).expect("JSON"));
    // L2 holds 512 lines. 400 first uses, 100 at distances up to 255, 300 up to 511, 200 up to 1023: it misses 600.
    let bucket = |lines, count| ReuseBucket { lines, count };
    let buckets = vec![bucket(255, 100), bucket(511, 300), bucket(1023, 200)];
    notes.reuse = Some(ReuseHistogram { one_line_in: 64, cold: 400, buckets });
    notes.page_walks = Some(PageWalks { small: 1000, all_huge: 10, shared_huge: 280 });
    notes.store(path).expect("stored");
}
