//! Small complete captures of every form: the start of the mutation test and the fuzzer.

use hardmeter_samples::model::{
    Comm, CpuMode, Exit, FileOffset, Fork, LostRecords, Mmap, Pid, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{
    attr_flag, branch_sample_type, misc, read_format, record_type, sample_type, PerfEventAttr,
};
use hardmeter_samples::perf_data::{
    finished_round, CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, RecordBuilder,
};
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Samples in each seed.
pub const SAMPLES: u64 = 4;

/// Name and bytes of every seed.
pub fn all() -> Vec<(&'static str, Vec<u8>)> {
    let file = file();
    vec![
        ("pipe", pipe(&file)),
        ("compressed", compressed(&file, false)),
        ("compressed2", compressed(&file, true)),
        ("file", file),
    ]
}

/// Two events, one of them with every supported field.
fn events() -> [EventAttributes; 2] {
    let mut attr = PerfEventAttr::new(4, 0x1d1);
    attr.sample_type = sample_type::KNOWN & !sample_type::WEIGHT;
    attr.flags = attr_flag::SAMPLE_ID_ALL;
    attr.sample_regs_user = 3;
    attr.sample_regs_intr = 3;
    attr.sample_stack_user = 8;
    attr.branch_sample_type = branch_sample_type::HW_INDEX;
    attr.read_format = read_format::GROUP | read_format::ID;
    let mut small = attr;
    small.sample_type = sample_type::IDENTIFIER | sample_type::IP | sample_type::TIME;
    [
        EventAttributes { name: "l1d-miss".to_string(), attr, ids: vec![5] },
        EventAttributes { name: "l2-miss".to_string(), attr: small, ids: vec![6] },
    ]
}

fn full_sample(time: u64) -> Vec<u8> {
    let words: [&[u64]; 12] = [
        &[5, 0x401000, 11 << 32 | 10, time, 0x7f00_0000_1040, 5, 5, 1, 500],
        &[1, 1000 * time, 5],            // READ: a group of one
        &[2, -512i64 as u64, 0x401000],  // CALLCHAIN
        &[4 | 0xdead << 32],             // RAW
        &[1, 9, 0x10, 0x20, 1],          // BRANCH_STACK
        &[2, 0xa0, 0xa1],                // REGS_USER
        &[8, 0x1111, 8],                 // STACK_USER
        &[70, 0x10668100842, 0],         // WEIGHT_STRUCT, DATA_SRC, TRANSACTION
        &[2, 0xb0, 0xb1],                // REGS_INTR
        &[0x1_0000_1040, 1, 4096, 4096], // PHYS_ADDR, CGROUP, page sizes
        &[8],                            // AUX
        &[0x0807_0605_0403_0201],
    ];
    let start = RecordBuilder::new(record_type::SAMPLE, misc::USER);
    words.concat().iter().fold(start, |record, word| record.u64(*word)).finish()
}

/// The file form, from Hardmeter's writer.
fn file() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("seed.data");
    let header = CaptureHeader {
        hostname: Some("host".into()),
        command_line: vec!["hardmeter".into()],
        ..CaptureHeader::default()
    };
    let mut writer = CaptureWriter::create(&path, &events(), &header).expect("created");
    let (pid, tid, time) = (Pid(10), Tid(11), Some(Timestamp(1)));
    let mmap = Mmap {
        pid,
        tid,
        mode: CpuMode::User,
        start: VirtualAddress(0x400000),
        length: 0x1000,
        offset: FileOffset(0),
        executable: true,
        protection: Some(5),
        flags: Some(2),
        build_id: Some(vec![1; 20]),
        path: "/bin/server".into(),
        time,
    };
    writer.append_comm(&Comm { pid, tid, name: "server".into(), exec: true, time }).expect("comm");
    writer.append_mmap(&mmap).expect("mmap");
    writer.append(&full_sample(20)).expect("sample");
    let small =
        |time: u64| RecordBuilder::new(record_type::SAMPLE, 0).u64(6).u64(0x401000).u64(time).finish();
    writer.append(&small(10)).expect("sample");
    writer.append(&finished_round()).expect("round");
    writer.append(&small(25)).expect("sample");
    writer.append(&full_sample(30)).expect("sample");
    writer.append_fork(&Fork { pid, parent_pid: pid, tid, parent_tid: tid, time }).expect("fork");
    writer.append_exit(&Exit { pid, tid, time }).expect("exit");
    writer.append_lost(&LostRecords { count: 1, samples_only: true, time }).expect("lost");
    writer.append(&finished_round()).expect("round");
    writer.finish().expect("finished");
    std::fs::read(path).expect("readable")
}

fn word(bytes: &[u8], index: usize) -> usize {
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().expect("eight bytes")) as usize
}

/// The data section of the file form.
fn data(file: &[u8]) -> &[u8] {
    let (offset, size) = (word(file, 5), word(file, 6));
    &file[offset..offset + size]
}

/// The same as a pipe: attributes as records, then the data.
fn pipe(file: &[u8]) -> Vec<u8> {
    let mut bytes = b"PERFILE2\x10\0\0\0\0\0\0\0".to_vec();
    let reader = CaptureReader::from_bytes(file.to_vec()).expect("our own file");
    for event in reader.attributes() {
        let record = RecordBuilder::new(record_type::HEADER_ATTR, 0).bytes(&event.attr.to_bytes());
        bytes.extend(event.ids.iter().fold(record, |record, id| record.u64(*id)).finish());
    }
    let hostname = RecordBuilder::new(record_type::HEADER_FEATURE, 0).u64(3);
    bytes.extend(hostname.u32(8).bytes(b"host\0\0\0\0").u32(0).finish());
    bytes.extend_from_slice(data(file));
    // Trace payload, which follows its record without being one.
    let trace = RecordBuilder::new(record_type::AUXTRACE, 0).u64(16).u64(0).u64(0).u64(0).u64(0);
    bytes.extend(trace.finish());
    bytes.extend_from_slice(&[0xff; 16]);
    bytes
}

/// The same with its records in one zstd stream, cut anywhere into records as perf does.
fn compressed(file: &[u8], second_form: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(1).expect("zstd");
    let mut stream = vec![0; 1 << 16];
    let mut output = OutBuffer::around(&mut stream[..]);
    // perf flushes after each buffer, so that a killed recorder leaves all but the last one readable.
    for piece in data(file).chunks(data(file).len() / 3) {
        let mut input = InBuffer::around(piece);
        while input.pos() < piece.len() {
            encoder.run(&mut input, &mut output).expect("compresses");
        }
        encoder.flush(&mut output).expect("flushes");
    }
    let length = output.pos();
    stream.truncate(length);
    let mut records = Vec::new();
    // Parts that are not a multiple of eight: the first form keeps the length, the second pads it.
    for part in stream.chunks(50) {
        if second_form {
            let padded = [part, &vec![0; part.len().next_multiple_of(8) - part.len()]].concat();
            let record = RecordBuilder::new(record_type::COMPRESSED2, 0).u64(part.len() as u64);
            records.extend(record.bytes(&padded).finish());
        } else {
            records.extend(record_type::COMPRESSED.to_le_bytes());
            records.extend([0, 0]);
            records.extend(((part.len() + 8) as u16).to_le_bytes());
            records.extend(part);
        }
    }
    // Without features: the data section is the last one, and its size is known.
    let mut bytes = file[..word(file, 5)].to_vec();
    bytes[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    bytes[72..104].fill(0);
    bytes.extend(records);
    bytes
}
