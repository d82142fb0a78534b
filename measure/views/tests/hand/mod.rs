//! A capture of eight samples, and notes made by hand:
//!
//! ```text
//!   process 10, client backend        0x7f00_0000_0000  block 1 of index public.i: header, then keys from byte 64
//!   process 11, checkpointer          0x7f00_0000_2000  block 2 of index public.i: keys
//!                                     0x7f00_0000_8000  "shared memory" around all of it
//! ```

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_samples::model::{
    ByteCount, Comm, EventSource, Pid, StatementId, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::object_notes::{ObjectFact, ObjectNotes, ObjectPath, PageKind, ProcessRole, TextId};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_samples::sidecar::{Sidecar, Statement};
use std::path::{Path, PathBuf};

pub const BASE: u64 = 0x7f00_0000_0000;
const LOAD: u64 = 0x02;

/// Process, data address less `BASE`, wall time, statement (0: none), cause (0: none).
pub const SAMPLES: [(u32, u64, u64, u64, u8); 8] = [
    (10, 0x0000, 15, 7, 3),
    (10, 0x0048, 15, 7, 3),
    (10, 0x0048, 15, 7, 3),
    (10, 0x2050, 15, 7, 2),
    (10, 0x2088, 15, 8, 2),
    (10, 0x4000, 15, 8, 1),
    // After the last look: not sure.
    (11, 0x2048, 50, 0, 1),
    // A sample of another program, about which no fact is recorded.
    (99, 0x0048, 15, 0, 1),
];

/// Writes the capture with its side file.
pub fn write(folder: &Path) -> PathBuf {
    write_turns(folder, 1)
}

/// Writes the capture with each of its samples this many times.
pub fn write_turns(folder: &Path, turns: usize) -> PathBuf {
    let path = folder.join("hand.data");
    let mut attr = PerfEventAttr::new(4, 0);
    attr.sample_period = 10;
    attr.sample_type = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::RAW
        | sample_type::DATA_SRC
        | sample_type::WEIGHT_STRUCT;
    attr.flags = attr_flag::SAMPLE_ID_ALL | attr_flag::COMM | attr_flag::EXCLUDE_KERNEL;
    let event = EventAttributes { name: "l2-miss".into(), attr, ids: vec![1] };
    let mut writer = CaptureWriter::create(&path, &[event], &CaptureHeader::default()).expect("created");
    for pid in [10, 11, 99] {
        let (pid, tid, name) = (Pid(pid), Tid(pid), "server".to_string());
        writer.append_comm(&Comm { pid, tid, name, exec: false, time: Some(Timestamp(1)) }).expect("written");
    }
    for (number, (pid, address, time, statement, cause)) in
        SAMPLES.into_iter().cycle().take(8 * turns).enumerate()
    {
        let mut raw = b"HMs1\x08".to_vec();
        raw.extend([cause, 0, 0, 12, 0, 0, 0]);
        raw.extend(time.to_le_bytes());
        if statement != 0 {
            raw.extend([2, 0, 8, 0, 0, 0, 0, 0]);
            raw.extend(statement.to_le_bytes());
        }
        // The kernel's own padding: size and payload together are a multiple of eight.
        raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
        // PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP
        let record = RecordBuilder::new(record_type::SAMPLE, 2 | 1 << 14)
            .u64(1)
            .u64(0x40_0000)
            .u32(pid)
            .u32(pid)
            .u64(1000 + number as u64)
            .u64(BASE + address)
            .u32(raw.len() as u32)
            .bytes(&raw)
            .u64(100)
            .u64(LOAD);
        writer.append(&record.finish()).expect("written");
    }
    writer.finish().expect("finished");
    let mut notes = Sidecar::new(EventSource::Simulated);
    notes.workload.insert("transactions".into(), 4.0);
    notes.workload.insert("tps".into(), 2.0);
    for (hash, text) in [(7, "SELECT a FROM t WHERE k = $1"), (8, "UPDATE t SET a = a + $1")] {
        notes.statements.push(Statement { id: StatementId(hash), text: text.into() });
    }
    notes.store(&path).expect("stored");
    objects().store(&path).expect("stored");
    path
}

fn objects() -> ObjectNotes {
    let mut notes = ObjectNotes::new("a server made by hand");
    let mut number = |text: &str| {
        let known = notes.texts.iter().position(|known| known == text);
        TextId(known.unwrap_or_else(|| {
            notes.texts.push(text.to_string());
            notes.texts.len() - 1
        }) as u32)
    };
    let none = TextId(0);
    let (index, name) = (number("index"), number("public.i"));
    let path = |instance, part| ObjectPath { class: index, name, instance, part };
    let (one, two) = (number("main block 1"), number("main block 2"));
    let (header, keys) = (number("header"), number("keys"));
    let memory = ObjectPath { class: number("shared memory"), name: none, instance: none, part: none };
    let kind = number("btree index");
    let roles = [(10, number("client backend")), (11, number("checkpointer"))];
    for (start, length, path, origin) in [
        (0x0000, 0x8000, memory, 0x0000),
        (0x0000, 64, path(one, header), 0x0000),
        (0x0040, 0x1fc0, path(one, keys), 0x0000),
        (0x2000, 0x2000, path(two, keys), 0x2000),
    ] {
        notes.facts.push(ObjectFact {
            pid: None,
            start: VirtualAddress(BASE + start),
            length: ByteCount(length),
            seen: (Timestamp(10), Timestamp(20)),
            state: None,
            path,
            origin: VirtualAddress(BASE + origin),
        });
    }
    notes.roles.extend(roles.map(|(pid, role)| ProcessRole { pid: Pid(pid), role }));
    notes.pages.push(PageKind { relation: name, page_size: 256, kind });
    notes
}
