//! Statement marks: written as the kernel writes a probe's samples, read back as statement records.

use hardmeter_samples::model::{Pid, Record, StatementMark, StatementMarkKind, Tid, Timestamp};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{
    CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder, RecordOrder,
};
use std::ops::ControlFlow;

const FIELDS: u64 = sample_type::IDENTIFIER | sample_type::IP | sample_type::TID | sample_type::TIME;

fn event(name: &str, kind: u32, fields: u64, id: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(kind, 0);
    attr.sample_type = FIELDS | fields;
    attr.sample_period = 1;
    attr.flags = attr_flag::SAMPLE_ID_ALL;
    if fields & sample_type::REGS_USER != 0 {
        attr.sample_regs_user = 1 << 4;
    }
    EventAttributes { name: name.into(), attr, ids: vec![id] }
}

fn sample(id: u64, time: u64) -> RecordBuilder {
    RecordBuilder::new(record_type::SAMPLE, 2).u64(id).u64(0x401000).u32(21).u32(22).u64(time)
}

/// A raw field: common part, probe's address, text's address, its position, the text; padded so that the record
/// ends on eight bytes.
fn raw(address: u64, text: &[u8]) -> Vec<u8> {
    let mut raw = vec![0; 16];
    raw.extend(address.to_le_bytes());
    raw.extend((28 | (text.len() as u32) << 16).to_le_bytes());
    raw.extend(text);
    raw.resize((raw.len() + 4).next_multiple_of(8) - 4, 0);
    raw
}

#[test]
fn marks_come_out_in_order_with_their_texts_and_are_no_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("marks.data");
    let events = [
        event("cpu-clock", 1, 0, 1),
        event("hardmeter_7:statement", 2, sample_type::RAW, 2),
        event("hardmeter_7:statement_2", 8, sample_type::REGS_USER, 3),
        event("hardmeter_7:query_done", 2, sample_type::RAW, 4),
    ];
    let header = CaptureHeader { tracing_data: Some(b"layouts".to_vec()), ..CaptureHeader::default() };
    let mut writer = CaptureWriter::create(&path, &events, &header).expect("created");
    let with_raw =
        |id: u64, time: u64, raw: &[u8]| sample(id, time).u32(raw.len() as u32).bytes(raw).finish();
    writer.append(&with_raw(2, 10, &raw(0x5000, b"SELECT 1\0"))).expect("taken");
    writer.append(&sample(1, 20).finish()).expect("taken");
    writer.append(&with_raw(2, 30, &raw(0, b"\t"))).expect("taken");
    // Without a raw field: the register (after its ABI) points to a text, or is 0.
    writer.append(&sample(3, 40).u64(2).u64(0x5000).finish()).expect("taken");
    writer.append(&sample(3, 50).u64(2).u64(0).finish()).expect("taken");
    writer.append(&with_raw(2, 60, &raw(0x5000, b"(fault)\0"))).expect("taken");
    writer.append(&with_raw(4, 70, &[0; 20])).expect("taken");
    writer.finish().expect("written");

    let reader = CaptureReader::open(&path).expect("opens");
    let mut seen = Vec::new();
    let summary = reader
        .for_each(RecordOrder::Time, &mut |record| {
            match record {
                Record::Statement(StatementMark { pid, tid, time: Some(Timestamp(time)), kind }) => {
                    assert_eq!((pid, tid), (Pid(21), Tid(22)));
                    seen.push((
                        time,
                        match kind {
                            StatementMarkKind::Begins { text } => match text {
                                Some(text) => String::from_utf8_lossy(text).into_owned(),
                                None => "begins".to_string(),
                            },
                            StatementMarkKind::Ends => "ends".to_string(),
                        },
                    ));
                }
                Record::Sample(sample) => seen.push((sample.time.map_or(0, |time| time.0), "sample".into())),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    let expected = ["SELECT 1", "sample", "ends", "begins", "ends", "begins", "ends"];
    let expected: Vec<(u64, String)> =
        expected.iter().zip(1..).map(|(what, index)| (index * 10, what.to_string())).collect();
    assert_eq!(seen, expected);
    assert_eq!(summary.samples, [1, 0, 0, 0]);
    assert_eq!(summary.unparsable, 0);
}
