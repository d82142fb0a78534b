//! Synthetic samples through the writer and back: every field alone, all together, and mixed.

mod common;

use common::each_sample;
use hardmeter_samples::model::*;
use hardmeter_samples::perf_data::abi::{
    attr_flag, branch_sample_type, misc, read_format, record_type, sample_type as field, PerfEventAttr,
};
use hardmeter_samples::perf_data::{
    finished_round, CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder, RecordOrder,
};
use std::ops::ControlFlow;

const ID: u64 = 77;
const REGISTERS: u64 = 1 << 0 | 1 << 7 | 1 << 8; // ax, sp, ip

fn event(sample_type: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(4, 0x1d1);
    attr.sample_type = sample_type;
    attr.sample_period = 1000;
    attr.flags = attr_flag::SAMPLE_ID_ALL;
    attr.sample_regs_user = REGISTERS;
    attr.sample_regs_intr = REGISTERS;
    attr.sample_stack_user = 16;
    attr.branch_sample_type = branch_sample_type::HW_INDEX;
    attr.read_format = read_format::ID;
    EventAttributes { name: "l1d-miss".to_string(), attr, ids: vec![ID] }
}

/// A sample with every field of `attr`, in the kernel's order.
fn sample_record(attr: &PerfEventAttr) -> Vec<u8> {
    let has = |bit: u64| attr.sample_type & bit != 0;
    let mut body = Vec::new();
    let mut put = |bit: u64, words: &[u64]| {
        if has(bit) {
            body.extend_from_slice(words);
        }
    };
    put(field::IDENTIFIER, &[ID]);
    put(field::IP, &[0x401000]);
    put(field::TID, &[11 << 32 | 10]);
    put(field::TIME, &[123_456_789]);
    put(field::ADDR, &[0x7f00_0000_1040]);
    put(field::ID, &[ID]);
    put(field::STREAM_ID, &[ID]);
    put(field::CPU, &[3]);
    put(field::PERIOD, &[500]);
    put(field::READ, &reading(attr.read_format));
    put(field::CALLCHAIN, &[3, -512i64 as u64, 0x401000, 0x402000]);
    put(field::RAW, &[12 | 0x0403_0201 << 32, 0x0c0b_0a09_0807_0605]);
    put(field::BRANCH_STACK, &[2, 9, 0x10, 0x20, 1, 0x30, 0x40, 2]);
    put(field::REGS_USER, &[2, 0xa0, 0xa7, 0xa8]);
    put(field::STACK_USER, &[16, 0x1111, 0x2222, 8]);
    put(field::WEIGHT, &[1 << 33]);
    if !has(field::WEIGHT) {
        put(field::WEIGHT_STRUCT, &[0x0003_0002_0000_0001]);
    }
    put(field::DATA_SRC, &[0x10668100842]);
    put(field::TRANSACTION, &[0x55]);
    put(field::REGS_INTR, &[1, 0xb0, 0xb7, 0xb8]);
    put(field::PHYS_ADDR, &[0x1_0000_1040]);
    put(field::CGROUP, &[0x66]);
    put(field::DATA_PAGE_SIZE, &[2 << 20]);
    put(field::CODE_PAGE_SIZE, &[4096]);
    put(field::AUX, &[8, 0x0102_0304_0506_0708]);
    record(misc::USER | misc::EXACT_IP, &body)
}

/// A sample record of these words.
fn record(misc_field: u16, words: &[u64]) -> Vec<u8> {
    let start = RecordBuilder::new(record_type::SAMPLE, misc_field);
    words.iter().fold(start, |record, word| record.u64(*word)).finish()
}

/// A counter reading: the value 1000 (and 2000 in a group), times 1 and 2, ids 77 and 78, losses 5 and 6.
fn reading(format: u64) -> Vec<u64> {
    let has = |bit: u64| format & bit != 0;
    let mut words = Vec::new();
    let value = |words: &mut Vec<u64>, value: u64, id: u64, lost: u64| {
        words.push(value);
        words.extend(has(read_format::ID).then_some(id));
        words.extend(has(read_format::LOST).then_some(lost));
    };
    let times = |words: &mut Vec<u64>| {
        words.extend(has(read_format::TOTAL_TIME_ENABLED).then_some(1));
        words.extend(has(read_format::TOTAL_TIME_RUNNING).then_some(2));
    };
    if has(read_format::GROUP) {
        words.push(2);
        times(&mut words);
        value(&mut words, 1000, 77, 5);
        value(&mut words, 2000, 78, 6);
    } else {
        let mut rest = Vec::new();
        value(&mut rest, 1000, 77, 5);
        words.push(rest.remove(0));
        times(&mut words);
        words.extend(rest);
    }
    words
}

/// Compares every field of the model with what [`sample_record`] wrote.
fn check(attr: &PerfEventAttr, sample: &Sample<'_>) {
    let has = |bit: u64| attr.sample_type & bit != 0;
    let about = format!("sample type {:#x}", attr.sample_type);
    assert_eq!(sample.mode, CpuMode::User, "{about}");
    assert!(sample.exact_ip, "{about}");
    assert_eq!(sample.ip, has(field::IP).then_some(VirtualAddress(0x401000)), "{about}");
    assert_eq!(sample.pid, has(field::TID).then_some(Pid(10)), "{about}");
    assert_eq!(sample.tid, has(field::TID).then_some(Tid(11)), "{about}");
    assert_eq!(sample.time, has(field::TIME).then_some(Timestamp(123_456_789)), "{about}");
    assert_eq!(sample.address, has(field::ADDR).then_some(VirtualAddress(0x7f00_0000_1040)), "{about}");
    assert_eq!(sample.cpu, has(field::CPU).then_some(CpuId(3)), "{about}");
    // A sample that reads its counter stands for the increment since the last one: 1000, as the fixed period.
    let reads = has(field::READ) && attr.read_format & read_format::ID != 0;
    assert_eq!(sample.period, Period(if has(field::PERIOD) && !reads { 500 } else { 1000 }), "{about}");
    let values: Vec<u64> = sample.read.iter().map(|read| read.value).collect();
    let group = attr.read_format & read_format::GROUP != 0;
    match (has(field::READ), group) {
        (false, _) => assert!(values.is_empty(), "{about}"),
        (true, false) => assert_eq!(values, [1000], "{about}"),
        (true, true) => assert_eq!(values, [1000, 2000], "{about}"),
    }
    for (read, (id, lost)) in sample.read.iter().zip([(77, 5), (78, 6)]) {
        assert_eq!(read.id, (attr.read_format & read_format::ID != 0).then_some(id), "{about}");
        assert_eq!(read.lost, (attr.read_format & read_format::LOST != 0).then_some(lost), "{about}");
    }
    let frames: Vec<u64> = sample.callchain.frames(sample.mode).map(|frame| frame.address.0).collect();
    assert_eq!(frames, if has(field::CALLCHAIN) { vec![0x401000, 0x402000] } else { vec![] }, "{about}");
    let raw: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    assert_eq!(sample.raw, has(field::RAW).then_some(raw), "{about}");
    let branches: Vec<(u64, u64, u64)> =
        sample.branches.iter().map(|branch| (branch.from.0, branch.to.0, branch.flags)).collect();
    let expected = if has(field::BRANCH_STACK) { vec![(0x10, 0x20, 1), (0x30, 0x40, 2)] } else { vec![] };
    assert_eq!(branches, expected, "{about}");
    for (registers, bit, base, abi) in
        [(&sample.user_registers, field::REGS_USER, 0xa0, 2), (&sample.registers, field::REGS_INTR, 0xb0, 1)]
    {
        assert_eq!(registers.is_some(), has(bit), "{about}");
        if let Some(registers) = registers {
            assert_eq!((registers.abi, registers.mask), (abi, REGISTERS), "{about}");
            assert_eq!(registers.get(Register::Rax), Some(base), "{about}");
            assert_eq!(registers.get(Register::Rsp), Some(base + 7), "{about}");
            assert_eq!(registers.get(Register::Rip), Some(base + 8), "{about}");
            assert_eq!(registers.get(Register::Rbx), None, "{about}");
        }
    }
    let stack: &[u8] = &[0x11, 0x11, 0, 0, 0, 0, 0, 0]; // cut to its dynamic size of 8
    assert_eq!(sample.user_stack, has(field::STACK_USER).then_some(stack), "{about}");
    let weight = if has(field::WEIGHT) {
        Some(Weight { latency: Cycles(1 << 33), instruction_latency: Cycles(0), third: 0 })
    } else {
        has(field::WEIGHT_STRUCT).then_some(Weight {
            latency: Cycles(1),
            instruction_latency: Cycles(2),
            third: 3,
        })
    };
    assert_eq!(sample.weight, weight, "{about}");
    assert_eq!(sample.data_source, has(field::DATA_SRC).then_some(DataSource(0x10668100842)), "{about}");
    assert_eq!(sample.transaction, has(field::TRANSACTION).then_some(0x55), "{about}");
    assert_eq!(
        sample.physical_address,
        has(field::PHYS_ADDR).then_some(PhysicalAddress(0x1_0000_1040)),
        "{about}"
    );
    assert_eq!(sample.cgroup, has(field::CGROUP).then_some(0x66), "{about}");
    assert_eq!(sample.data_page_size, has(field::DATA_PAGE_SIZE).then_some(PageSize(2 << 20)), "{about}");
    assert_eq!(sample.code_page_size, has(field::CODE_PAGE_SIZE).then_some(PageSize(4096)), "{about}");
    let aux: &[u8] = &[8, 7, 6, 5, 4, 3, 2, 1];
    assert_eq!(sample.aux, has(field::AUX).then_some(aux), "{about}");
}

/// Writes one record under the event, and returns the file.
fn write(folder: &std::path::Path, events: &[EventAttributes], records: &[Vec<u8>]) -> std::path::PathBuf {
    let path = folder.join("capture.data");
    let mut writer = CaptureWriter::create(&path, events, &CaptureHeader::default()).expect("created");
    for record in records {
        writer.append(record).expect("appended");
    }
    writer.finish().expect("finished");
    path
}

fn write_and_check(event: &EventAttributes) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), std::slice::from_ref(event), &[sample_record(&event.attr)]);
    let reader = CaptureReader::open(path).expect("opens");
    let mut seen = 0;
    let summary = each_sample(&reader, RecordOrder::File, |sample| {
        check(&event.attr, sample);
        seen += 1;
    });
    assert_eq!(seen, 1, "sample type {:#x}: {summary:?}", event.attr.sample_type);
    assert!(summary.is_complete(), "{summary:?}");
}

#[test]
fn every_field_alone_and_all_together() {
    for bit in 0..25 {
        write_and_check(&event(1 << bit));
    }
    write_and_check(&event(field::KNOWN));
    write_and_check(&event(field::KNOWN & !field::WEIGHT));
}

#[test]
fn mixed_fields() {
    // A fixed multiplicative generator: the same 200 mixes in every run.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..200 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        write_and_check(&event(state >> 32 & field::KNOWN));
    }
}

#[test]
fn every_read_format() {
    for format in 0..32 {
        let mut event = event(field::KNOWN);
        event.attr.read_format = format;
        write_and_check(&event);
    }
}

/// The kernel writes only the count when it had no branch stack, but count and index when it had an empty one.
#[test]
fn empty_branch_stacks_of_both_forms() {
    let event = event(field::IP | field::BRANCH_STACK | field::DATA_SRC);
    let folder = tempfile::tempdir().expect("a folder");
    let records = [record(0, &[0x401000, 0, 0x142]), record(0, &[0x401000, 0, 9, 0x142])];
    let path = write(folder.path(), &[event], &records);
    let reader = CaptureReader::open(path).expect("opens");
    let mut sources = Vec::new();
    each_sample(&reader, RecordOrder::File, |sample| sources.push(sample.data_source));
    assert_eq!(sources, [Some(DataSource(0x142)); 2]);
}

/// Branch counters (kernel 6.8) follow the entries, one word each.
#[test]
fn branch_counters_are_passed_over() {
    let mut event = event(field::BRANCH_STACK | field::DATA_SRC);
    event.attr.branch_sample_type = branch_sample_type::COUNTERS;
    let record = record(0, &[2, 0x10, 0x20, 1, 0x30, 0x40, 2, 0xc1, 0xc2, 0x142]);
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(write(folder.path(), &[event], &[record])).expect("opens");
    let summary = each_sample(&reader, RecordOrder::File, |sample| {
        assert_eq!(sample.branches.len(), 2);
        assert_eq!(sample.data_source, Some(DataSource(0x142)));
    });
    assert_eq!(summary.total_samples(), 1);
}

/// The model's other records, with and without a trailer.
#[test]
fn processes_mappings_and_losses() {
    let time = Some(Timestamp(1000));
    let mmap = Mmap {
        pid: Pid(10),
        tid: Tid(11),
        mode: CpuMode::User,
        start: VirtualAddress(0x400000),
        length: 0x1000,
        offset: FileOffset(0x2000),
        executable: true,
        protection: Some(5),
        flags: Some(2),
        build_id: None,
        path: "/usr/bin/server".to_string(),
        time,
    };
    let data = Mmap { executable: false, protection: Some(3), build_id: Some(vec![7; 20]), ..mmap.clone() };
    let comm = Comm { pid: Pid(10), tid: Tid(11), name: "postgres".to_string(), exec: true, time };
    let fork = Fork { pid: Pid(12), parent_pid: Pid(10), tid: Tid(13), parent_tid: Tid(11), time };
    let exit = Exit { pid: Pid(12), tid: Tid(13), time };
    let lost = LostRecords { count: 5, samples_only: false, time };
    let lost_samples = LostRecords { count: 6, samples_only: true, time };
    for sample_type in [field::KNOWN, field::IP | field::TID | field::TIME | field::ID] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("capture.data");
        let mut writer =
            CaptureWriter::create(&path, &[event(sample_type)], &CaptureHeader::default()).expect("created");
        writer.append_mmap(&mmap).expect("mmap");
        writer.append_mmap(&data).expect("mmap");
        writer.append_comm(&comm).expect("comm");
        writer.append_fork(&fork).expect("fork");
        writer.append_exit(&exit).expect("exit");
        writer.append_lost(&lost).expect("lost");
        writer.append_lost(&lost_samples).expect("lost");
        writer.append_finished_round().expect("round");
        writer.finish().expect("finished");
        let expected = [
            Record::Mmap(mmap.clone()),
            Record::Mmap(data.clone()),
            Record::Comm(comm.clone()),
            Record::Fork(fork),
            Record::Exit(exit),
            Record::Lost(lost),
            Record::Lost(lost_samples),
        ];
        let mut expected = expected.iter();
        let reader = CaptureReader::open(&path).expect("opens");
        let summary = reader
            .for_each(RecordOrder::Time, &mut |record| {
                if !matches!(record, Record::Other { .. }) {
                    assert_eq!(Some(&record), expected.next());
                }
                ControlFlow::Continue(())
            })
            .expect("readable");
        assert_eq!(expected.next(), None);
        assert_eq!((summary.lost_records, summary.lost_samples), (5, 6));
        assert!(!summary.is_complete());
    }
}

/// Two buffers, each in order, in rounds: the file orders by buffer, the receiver gets them by time.
#[test]
fn rounds_come_out_in_time_order() {
    let event = event(field::TIME | field::CPU);
    let sample = |time: u64| record(0, &[time, 0]);
    let rounds: [&[u64]; 3] = [&[3, 5, 4, 6], &[7, 10, 6, 8], &[11, 9]];
    let mut records = Vec::new();
    for round in rounds {
        records.extend(round.iter().map(|time| sample(*time)));
        records.push(finished_round());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(write(folder.path(), &[event], &records)).expect("opens");
    let times = |order| {
        let mut times = Vec::new();
        let summary = each_sample(&reader, order, |sample| times.push(sample.time.expect("time").0));
        assert_eq!(summary.out_of_order, 0);
        times
    };
    assert_eq!(times(RecordOrder::File), [3, 5, 4, 6, 7, 10, 6, 8, 11, 9]);
    assert_eq!(times(RecordOrder::Time), [3, 4, 5, 6, 6, 7, 8, 9, 10, 11]);
}

/// Two events of different layout, distinguished by their identifier.
#[test]
fn events_of_different_layout_share_a_file() {
    let first = event(field::IDENTIFIER | field::IP | field::TIME);
    let mut second = event(field::IDENTIFIER | field::TIME | field::ADDR);
    (second.name, second.ids) = ("l2-miss".to_string(), vec![88, 89]);
    let records = [
        record(0, &[89, 20, 0xadd]),
        record(0, &[ID, 0x401000, 10]),
        record(0, &[88, 5, 0]),
        record(0, &[99, 1, 1]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(write(folder.path(), &[first, second], &records)).expect("opens");
    assert_eq!(reader.events()[1].known, Some(MemoryEvent::L2Miss));
    let mut seen = Vec::new();
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        seen.push((sample.event.0, sample.time.expect("time").0, sample.address.map(|address| address.0)));
    });
    assert_eq!(seen, [(1, 5, None), (0, 10, None), (1, 20, Some(0xadd))]);
    assert_eq!(summary.samples, [1, 2]);
    assert_eq!(summary.unparsable, 1, "id 99 belongs to no event");
}

/// A field of a later kernel follows those known here, which are read; the summary reports it.
#[test]
fn fields_of_later_kernels_are_reported() {
    let event = event(field::IP | field::DATA_SRC | 1 << 25);
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(write(folder.path(), &[event], &[record(0, &[0x401000, 0x142, 7])]));
    let summary = each_sample(&reader.expect("opens"), RecordOrder::File, |sample| {
        assert_eq!(sample.data_source, Some(DataSource(0x142)));
    });
    assert_eq!((summary.total_samples(), summary.unknown_fields), (1, 1 << 25));
    assert!(summary.warnings()[0].contains("0x2000000"), "{summary:?}");
}
