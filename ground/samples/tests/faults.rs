//! Faults while recording: killed, dropped, disk full, missing folder.

mod common;

use common::each_sample;
use hardmeter_samples::model::{CpuMode, MemoryEvent, Pid};
use hardmeter_samples::perf_data::abi::{record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{
    BuildId, CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder, RecordOrder,
    WriteError,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn events() -> Vec<EventAttributes> {
    let event = |name: &str, id| {
        let mut attr = PerfEventAttr::new(4, id);
        attr.sample_type = sample_type::IDENTIFIER | sample_type::IP;
        EventAttributes { name: name.to_string(), attr, ids: vec![id] }
    };
    vec![event("l1d-miss", 5), event("l2-miss", 6)]
}

fn sample(id: u64) -> Vec<u8> {
    RecordBuilder::new(record_type::SAMPLE, 0).u64(id).u64(0x401000).finish()
}

fn create(path: &Path) -> CaptureWriter {
    CaptureWriter::create(path, &events(), &CaptureHeader::default()).expect("created")
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("readable").count()
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = create(&folder.path().join("capture.data"));
    writer.append(&sample(5)).expect("appended");
    assert_eq!(entries(folder.path()), 1, "only the temporary file");
    drop(writer);
    assert_eq!(entries(folder.path()), 0);
}

#[test]
fn an_older_capture_stays_until_the_new_one_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("capture.data");
    std::fs::write(&path, "older").expect("written");
    let writer = create(&path);
    assert_eq!(std::fs::read(&path).expect("read"), b"older");
    writer.finish().expect("finished");
    assert!(CaptureReader::open(&path).is_ok());
    assert_eq!(entries(folder.path()), 1);
}

/// The recorder is killed: flushed data, with events and names, are readable under the temporary name.
#[test]
fn a_killed_recorder_leaves_a_readable_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = create(&folder.path().join("capture.data"));
    for _ in 0..3 {
        writer.append(&sample(6)).expect("appended");
    }
    writer.flush().expect("flushed");
    let killed = folder.path().join("killed.data");
    std::fs::copy(writer.temporary_path(), &killed).expect("copied");
    let reader = CaptureReader::open(&killed).expect("opens");
    assert!(reader.header().unfinished);
    assert_eq!(reader.events()[1].known, Some(MemoryEvent::L2Miss));
    let summary = each_sample(&reader, RecordOrder::File, |_| {});
    assert_eq!(summary.samples, [0, 3]);
    // An incomplete write costs only its own record.
    let bytes = std::fs::read(&killed).expect("read");
    let reader = CaptureReader::from_bytes(bytes[..bytes.len() - 10].to_vec()).expect("opens");
    let summary = each_sample(&reader, RecordOrder::File, |_| {});
    assert_eq!(summary.samples, [0, 2]);
    assert!(!summary.is_complete());
}

#[test]
fn a_missing_folder_is_named() {
    let error = CaptureWriter::create("/nonexistent/x.data", &events(), &CaptureHeader::default()).err();
    let text = error.expect("no such folder").to_string();
    assert!(text.contains("/nonexistent/x.data") && text.contains("check that the folder exists"), "{text}");
}

#[test]
fn bytes_that_are_no_records_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut writer = create(&folder.path().join("capture.data"));
    let whole = sample(5);
    for bad in [&whole[..20], &[0; 8], &[whole.as_slice(), &[1, 2, 3]].concat()] {
        assert!(matches!(writer.append(bad), Err(WriteError::BadRecord { .. })), "{bad:?}");
    }
    writer.append(&[whole.as_slice(), &whole].concat()).expect("several at once");
    writer.finish().expect("finished");
    let reader = CaptureReader::open(folder.path().join("capture.data")).expect("opens");
    assert_eq!(each_sample(&reader, RecordOrder::File, |_| {}).samples, [2, 0]);
}

/// A file system of one megabyte; `None` (with a message) without permission to mount one.
///
/// One at a time: between the fork and the exec of another test's `mount`, that child has the files of this test open,
/// and a removed file keeps its room on the disk until then.
struct SmallDisk(PathBuf, #[expect(dead_code, reason = "held until it is dropped")] MutexGuard<'static, ()>);

static ONE_DISK: Mutex<()> = Mutex::new(());

impl SmallDisk {
    fn mount(folder: &Path) -> Option<SmallDisk> {
        let alone = ONE_DISK.lock().unwrap_or_else(PoisonError::into_inner);
        let arguments = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        let mounted = Command::new("mount").args(arguments).arg(folder).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            println!("skipped: no right to mount a small file system");
            return None;
        }
        Some(SmallDisk(folder.to_path_buf(), alone))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_the_capture_still_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let path = disk.0.join("capture.data");
    let mut writer = create(&path);
    let record = sample(5);
    let error = loop {
        if let Err(error) = writer.append(&record) {
            break error;
        }
    };
    let text = error.to_string();
    assert!(matches!(error, WriteError::DiskFull { .. }), "{text}");
    assert!(text.contains("no room to write") && text.contains("free some space"), "{text}");
    assert!(writer.discarded().0 > 0);
    // Earlier records are kept under the final name, and the loss is reported again.
    let error = writer.finish().expect_err("shortened");
    assert!(matches!(error, WriteError::Shortened { .. }), "{error}");
    let reader = CaptureReader::open(&path).expect("opens");
    assert!(!reader.header().unfinished);
    let summary = each_sample(&reader, RecordOrder::File, |_| {});
    assert!(summary.samples[0] > 10_000, "most of a megabyte: {summary:?}");
    assert!(summary.skipped.is_empty(), "{summary:?}");
}

/// Small writes, as those of a quiet target: wherever the disk becomes full, the file gives back enough for its end.
#[test]
fn a_disk_that_is_full_after_any_small_write_keeps_a_readable_capture() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    let path = disk.0.join("capture.data");
    let identity = |number: usize| BuildId {
        pid: Pid(-1),
        mode: CpuMode::User,
        id: vec![7; 20],
        path: format!("/{number:0200}"),
    };
    let build_ids: Vec<BuildId> = (0..100).map(identity).collect();
    let written = sample(5).repeat(170); // about 4 KB
    for writes in 33..=40 {
        let mut writer = create(&path);
        writer.header_mut().build_ids = build_ids.clone();
        for _ in 0..writes {
            writer.append(&written).expect("appended");
            writer.flush().expect("there is room");
        }
        // Fails as intended when the disk is full.
        let _ = std::fs::write(disk.0.join("ballast"), vec![1; 2 << 20]);
        writer.append(&written.repeat(2)).expect("collected");
        let error = writer.flush().expect_err("no room");
        assert!(matches!(error, WriteError::DiskFull { .. }), "{writes}: {error}");
        let error = writer.finish().expect_err("shortened");
        assert!(matches!(error, WriteError::Shortened { .. }), "{writes}: {error}");
        let reader = CaptureReader::open(&path).expect("opens");
        assert!(!reader.header().unfinished, "{writes}");
        assert_eq!(reader.header().build_ids, build_ids, "{writes}");
        let summary = each_sample(&reader, RecordOrder::File, |_| {});
        assert!(summary.skipped.is_empty(), "{writes}: {summary:?}");
        std::fs::remove_file(disk.0.join("ballast")).expect("removed");
        std::fs::remove_file(&path).expect("removed");
    }
}

/// Not even the header fits: no file is left behind.
#[test]
fn a_disk_that_is_full_from_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(disk) = SmallDisk::mount(folder.path()) else { return };
    // Fails as intended when the disk is full.
    let _ = std::fs::write(disk.0.join("ballast"), vec![1; 2 << 20]);
    let error =
        CaptureWriter::create(disk.0.join("capture.data"), &events(), &CaptureHeader::default()).err();
    let error = error.expect("no room");
    assert!(matches!(error, WriteError::DiskFull { .. }), "{error}");
    assert_eq!(entries(&disk.0), 1, "only the ballast");
}
