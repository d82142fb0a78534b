//! Bounded memory: a capture of a quarter gigabyte, read in both orders, needs as much as a small one.
//!
//! The test has a file of its own, because the peak is measured for the whole process.

mod common;

use common::each_sample;
use hardmeter_samples::perf_data::abi::{record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{
    CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder, RecordOrder,
};

/// Peak resident memory of this process in KiB, as the kernel counts it.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_large_capture_is_read_in_bounded_memory() {
    const RECORD: u64 = 32 << 10;
    const RECORDS: u64 = 8 << 10;
    let mut attr = PerfEventAttr::new(1, 0);
    attr.sample_type = sample_type::TIME | sample_type::RAW;
    let events = [EventAttributes { name: "cpu-clock".to_string(), attr, ids: vec![] }];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.data");
    let mut writer = CaptureWriter::create(&path, &events, &CaptureHeader::default()).expect("created");
    let payload = vec![0x5a; RECORD as usize - 8 - 8 - 4];
    for n in 0..RECORDS {
        // Neighbours are swapped, so that sorting is needed.
        let sample = RecordBuilder::new(record_type::SAMPLE, 0).u64(1 + (n ^ 1)).u32(payload.len() as u32);
        writer.append(&sample.bytes(&payload).finish()).expect("appended");
    }
    writer.finish().expect("finished");
    let reader = CaptureReader::open(&path).expect("opens");
    assert!(reader.data_length().0 > 256 << 20, "a quarter gigabyte");

    let file_order = each_sample(&reader, RecordOrder::File, |_| {});
    assert_eq!(file_order.total_samples(), RECORDS);
    assert_eq!(reader.data_position(), reader.data_length());
    let Some(after_file_order) = peak() else { return println!("skipped: no /proc") };
    assert!(after_file_order < 32 << 10, "{after_file_order} KiB in file order");

    let mut newest = 0;
    let time_order = each_sample(&reader, RecordOrder::Time, |sample| {
        let time = sample.time.expect("time").0;
        assert!(time > newest);
        newest = time;
    });
    assert_eq!((time_order.total_samples(), time_order.out_of_order), (RECORDS, 0));
    // The window of 64 MiB, the half that is kept while it moves, and the over-allocation of a growing vector.
    let after_time_order = peak().expect("as before");
    assert!(after_time_order < 192 << 10, "{after_time_order} KiB in time order");
}
