//! perf 6.1 as an independent reader of Hardmeter's captures.

mod common;

use common::{each_sample, perf_lines};
use hardmeter_samples::model::*;
use hardmeter_samples::perf_data::abi::{attr_flag, misc, record_type, sample_type as field, PerfEventAttr};
use hardmeter_samples::perf_data::{
    BuildId, CacheDescription, CaptureHeader, CaptureReader, CaptureWriter, EventAttributes, MemoryNode,
    RecordBuilder, RecordOrder,
};
use std::path::{Path, PathBuf};

const ALL_FIELDS: u64 = field::IDENTIFIER
    | field::IP
    | field::TID
    | field::TIME
    | field::ADDR
    | field::CPU
    | field::PERIOD
    | field::CALLCHAIN
    | field::RAW
    | field::REGS_INTR
    | field::WEIGHT_STRUCT
    | field::DATA_SRC
    | field::PHYS_ADDR;

/// The fields of a simulated sample: those of PEBS, and Hardmeter's detail in the raw field.
fn event(name: &str, config: u64, ids: &[u64]) -> EventAttributes {
    let mut attr = PerfEventAttr::new(4, config);
    attr.sample_type = ALL_FIELDS;
    attr.sample_period = 1000;
    attr.flags =
        attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::TASK;
    attr.sample_regs_intr = Register::general_mask();
    EventAttributes { name: name.to_string(), attr, ids: ids.to_vec() }
}

/// Sample number `n`, every field a function of `n`.
fn sample_record(n: u64, id: u64) -> Vec<u8> {
    let mut record = RecordBuilder::new(record_type::SAMPLE, misc::USER | misc::EXACT_IP)
        .u64(id)
        .u64(0x401000 + n)
        .u32(100)
        .u32(101)
        .u64(1_000_000_000 + n * 1000)
        .u64(0x7f00_0000_0000 + n * 64)
        .u32((n % 2) as u32)
        .u32(0)
        .u64(1000)
        .u64(3)
        .u64(-512i64 as u64)
        .u64(0x401000 + n)
        .u64(0x402000)
        .u32(20)
        .bytes(b"HMs1\x08\x03\x00\x00\x0c\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00")
        .u64(70 + n)
        .u64(0x10668100842)
        .u64(2);
    for register in 0..18 {
        record = record.u64(n * 100 + register);
    }
    record.u64(0x1_0000_0000 + n * 64).finish()
}

fn header() -> CaptureHeader {
    CaptureHeader {
        hostname: Some("testhost".into()),
        os_release: Some("6.1.0".into()),
        recorder_version: Some("hardmeter 0.1.0".into()),
        architecture: Some("x86_64".into()),
        cpus_online: Some(2),
        cpus_available: Some(2),
        cpu_description: Some("Test processor".into()),
        cpu_id: Some("GenuineIntel,6,85,4".into()),
        total_memory: Some(ByteCount(2048 * 1024)),
        command_line: vec!["hardmeter".into(), "record".into(), "true".into()],
        caches: vec![CacheDescription {
            level: 1,
            line_size: 64,
            sets: 64,
            ways: 8,
            kind: "Data".into(),
            size: "32K".into(),
            cpus: "0".into(),
        }],
        memory_nodes: vec![
            MemoryNode {
                number: 0,
                total: ByteCount(1024 * 1024),
                free: ByteCount(512 * 1024),
                cpus: "0".into(),
                blocks: vec![0, 1, 70],
            },
            MemoryNode {
                number: 1,
                total: ByteCount(1024 * 1024),
                free: ByteCount(0),
                cpus: "1".into(),
                blocks: vec![2],
            },
        ],
        memory_block: Some(ByteCount(128 << 20)),
        build_ids: vec![BuildId {
            pid: Pid(-1),
            mode: CpuMode::User,
            id: vec![0xab; 20],
            path: "/nonexistent/server".into(),
        }],
        sample_time: Some((Timestamp(1_000_000_000), Timestamp(1_000_009_000))),
        ..CaptureHeader::default()
    }
}

/// Ten samples of two events in a mapped program called `server`.
fn write(folder: &Path) -> PathBuf {
    let path = folder.join("ours.data");
    let events = [event("l1d-miss", 0x1d1, &[5, 6]), event("l2-miss", 0x2d1, &[7])];
    let mut writer = CaptureWriter::create(&path, &events, &header()).expect("created");
    let (pid, tid) = (Pid(100), Tid(101));
    let time = Some(Timestamp(1));
    let fork = Fork { pid, parent_pid: Pid(1), tid, parent_tid: Tid(1), time };
    writer.append_fork(&fork).expect("fork");
    writer.append_comm(&Comm { pid, tid, name: "server".into(), exec: true, time }).expect("comm");
    let mmap = Mmap {
        pid,
        tid,
        mode: CpuMode::User,
        start: VirtualAddress(0x400000),
        length: 0x10000,
        offset: FileOffset(0),
        executable: true,
        protection: Some(5),
        flags: Some(2),
        build_id: None,
        path: "/nonexistent/server".into(),
        time,
    };
    writer.append_mmap(&mmap).expect("mmap");
    for n in 0..10 {
        writer.append(&sample_record(n, if n < 7 { 5 + n % 2 } else { 7 })).expect("sample");
        if n == 4 {
            writer.append_finished_round().expect("round");
        }
    }
    writer.append_lost(&LostRecords { count: 3, samples_only: false, time: None }).expect("lost");
    writer.finish().expect("finished");
    path
}

/// Every value that perf prints is the one that was written.
#[test]
fn perf_script_prints_what_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path());
    let file = path.to_str().expect("a plain path");
    let fields = "comm,pid,tid,cpu,time,event,ip,dso,addr,period,weight,data_src,phys_addr,iregs";
    let Some(lines) = perf_lines(&["script", "-i", file, "--ns", "-G", "-F", fields]) else { return };
    assert_eq!(lines.len(), 10, "{lines:#?}");
    for (n, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = if n < 7 { "l1d-miss:" } else { "l2-miss:" };
        let start = [
            "server".to_string(),
            "100/101".to_string(),
            format!("[{:03}]", n % 2),
            format!("1.{:09}:", n * 1000),
            "1000".to_string(),
            name.to_string(),
            format!("{:x}", 0x7f00_0000_0000u64 + n as u64 * 64),
            "10668100842".to_string(),
        ];
        assert_eq!(words[..8], start, "{line}");
        let end = words[words.len() - 23..].join(" ");
        let registers: Vec<String> = ["AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS"]
            .iter()
            .map(|name| name.to_string())
            .chain((8..16).map(|number| format!("R{number}")))
            .enumerate()
            .map(|(position, name)| format!("{name}:{:#x}", n * 100 + position))
            .collect();
        let expected = format!(
            "{} {:x} (/nonexistent/server) ABI:2 {} {:x}",
            70 + n,
            0x401000 + n,
            registers.join(" "),
            0x1_0000_0000u64 + n as u64 * 64
        );
        assert_eq!(end, expected, "{line}");
    }
}

#[test]
fn perf_report_and_header_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path());
    let file = path.to_str().expect("a plain path");
    let Some(report) = perf_lines(&["report", "-i", file, "--stdio", "--sort", "comm,dso", "-g", "none"])
    else {
        return;
    };
    let report = report.join("\n");
    assert!(report.contains("Samples: 7  of event 'l1d-miss'"), "{report}");
    assert!(report.contains("Samples: 3  of event 'l2-miss'"), "{report}");
    assert!(report.contains("Event count (approx.): 7000"), "{report}");
    assert!(report.contains("100.00%  server   server"), "{report}");
    let header = perf_lines(&["script", "-i", file, "--header-only", "-I"]).expect("perf runs").join("\n");
    for expected in [
        "# hostname : testhost",
        "# os release : 6.1.0",
        "# perf version : hardmeter 0.1.0",
        "# arch : x86_64",
        "# nrcpus online : 2",
        "# cpudesc : Test processor",
        "# cpuid : GenuineIntel,6,85,4",
        "# total memory : 2048 kB",
        "# cmdline : hardmeter record true",
        "name = l1d-miss, , id = { 5, 6 }",
        "#  L1 Data                 32K [0]",
        "# time of last sample : 1.000009",
    ] {
        assert!(header.contains(expected), "no {expected:?} in:\n{header}");
    }
    let ids = perf_lines(&["buildid-list", "-i", file]).expect("perf runs").join("\n");
    assert!(ids.contains(&format!("{} /nonexistent/server", "ab".repeat(20))), "{ids}");
    let mem = perf_lines(&["mem", "report", "-i", file, "--stdio", "--sort", "mem,local_weight"])
        .expect("perf runs");
    assert!(mem.iter().any(|line| line.contains("L3 hit")), "{mem:#?}");
}

/// Hardmeter's reader on the same file: the figures of perf above.
#[test]
fn our_reader_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(write(folder.path())).expect("opens");
    assert_eq!(reader.header(), &header());
    let mut n = 0;
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        assert_eq!(sample.weight.expect("weight").latency, Cycles(70 + n));
        assert_eq!(sample.registers.expect("registers").get(Register::R15), Some(n * 100 + 17));
        assert_eq!(sample.simulated().expect("ours").cause, Some(MissCause::Conflict));
        n += 1;
    });
    assert_eq!((summary.samples.as_slice(), summary.lost_records), ([7, 3].as_slice(), 3));
}
