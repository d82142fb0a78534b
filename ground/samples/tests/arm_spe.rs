//! Arm SPE from a file's bytes to samples: values computed by hand from the packets, time order, damage, and perf's
//! own decoder on the same file.

mod common;
#[path = "common/spe.rs"]
mod spe;

use common::{each_sample, perf_lines};
use hardmeter_samples::model::*;
use hardmeter_samples::perf_data::abi::aux_flag;
use hardmeter_samples::perf_data::{CaptureReader, ReadSummary, RecordOrder, SkipReason, TraceKind};
use spe::{load, trace, Operation, SpeCapture, PERIOD, PROGRAM, TICK};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn capture(folder: &Path, fill: impl FnOnce(&mut SpeCapture)) -> PathBuf {
    let path = folder.join("spe.data");
    let mut capture = SpeCapture::create(&path);
    fill(&mut capture);
    capture.finish();
    path
}

fn read(fill: impl FnOnce(&mut SpeCapture)) -> CaptureReader {
    let folder = tempfile::tempdir().expect("a folder");
    CaptureReader::open(capture(folder.path(), fill)).expect("opens")
}

/// One of each kind: a load from DRAM, a store in the kernel, a mispredicted branch, an addition.
fn one_of_each() -> [Operation; 4] {
    let store = Operation {
        instruction: 0xffff_8000_0810_0040,
        level: 2,
        kind: (1, 1),
        events: 0x26, // retired, L1D access, TLB walk
        data: Some(0xffff_8000_0a00_1000),
        latency: 40,
        ticks: Some(1001),
        ..Operation::default()
    };
    let branch = Operation {
        instruction: PROGRAM + 0x2000,
        kind: (2, 1),
        events: 0x82, // retired, mispredicted
        target: Some(PROGRAM + 0x2040),
        latency: 9,
        ticks: Some(1002),
        ..Operation::default()
    };
    let addition = Operation {
        instruction: PROGRAM + 0x2044,
        events: 0x02,
        latency: 2,
        ticks: Some(1003),
        ..Operation::default()
    };
    let with_context = |operation: Operation| Operation { context: Some(101), ..operation };
    [load(0), with_context(store), with_context(branch), with_context(addition)]
}

#[test]
fn samples_are_what_the_packets_say() {
    let reader = read(|capture| capture.trace(3, &trace(&one_of_each())));
    assert_eq!(reader.events()[0].name, spe::EVENT);
    for order in [RecordOrder::File, RecordOrder::Time] {
        let mut samples = Vec::new();
        let summary = reader
            .for_each(order, &mut |record| {
                if let Record::Sample(sample) = record {
                    let Sample { ip, address, physical_address, weight, mode, data_source, .. } = &sample;
                    let word = data_source.map(|source| (source.operation(), source.level(), source.tlb()));
                    let weight = weight.map(|weight| weight.latency.0);
                    samples.push((
                        ip.map(|ip| ip.0),
                        address.map(|at| at.0),
                        *physical_address,
                        weight,
                        *mode,
                        word,
                    ));
                    assert_eq!(sample.event, EventIndex(0));
                    assert_eq!((sample.pid, sample.tid), (Some(Pid(100)), Some(Tid(101))));
                    assert_eq!((sample.cpu, sample.period), (Some(CpuId(3)), Period(PERIOD)));
                    assert_eq!(sample.time, Some(Timestamp((1000 + samples.len() as u64 - 1) * TICK)));
                    assert!(sample.exact_ip);
                    assert_eq!(sample.branches.len(), usize::from(samples.len() == 3));
                    if let Some(branch) = sample.branches.first() {
                        assert_eq!(branch.to, VirtualAddress(PROGRAM + 0x2040));
                        assert_eq!(branch.flags, 1, "mispredicted");
                    }
                }
                ControlFlow::Continue(())
            })
            .expect("readable");
        use MemoryOperation::{Load, Store};
        let expected = [
            (
                Some(PROGRAM + 0x1000),
                Some(0xffff_f800_0000),
                Some(PhysicalAddress(0x8_0000_0000)),
                Some(300),
                CpuMode::User,
                Some((Load, MemoryLevel::LocalDram, TlbOutcome::Unknown)),
            ),
            (
                Some(0xffff_8000_0810_0040),
                Some(0xffff_8000_0a00_1000),
                None,
                Some(40),
                CpuMode::Kernel,
                // Neoverse does not report what served a store.
                Some((Store, MemoryLevel::Unknown, TlbOutcome::Walk)),
            ),
            (Some(PROGRAM + 0x2000), None, None, Some(9), CpuMode::User, None),
            (Some(PROGRAM + 0x2044), None, None, Some(2), CpuMode::User, None),
        ];
        assert_eq!(samples, expected, "{order:?}");
        assert_eq!(summary.samples, [4, 0]);
        assert!(summary.is_complete() && summary.skipped.is_empty(), "{summary:?}");
    }
}

/// Times of the samples and paths of the mappings, in order of delivery.
fn sequence(reader: &CaptureReader) -> Vec<String> {
    let mut seen = Vec::new();
    let summary = reader
        .for_each(RecordOrder::Time, &mut |record| {
            match record {
                Record::Sample(sample) => {
                    seen.push(sample.time.map_or("untimed".into(), |time| (time.0 / TICK).to_string()));
                }
                Record::Mmap(mmap) => seen.push(mmap.path),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .expect("readable");
    assert_eq!(summary.out_of_order, 0);
    seen
}

/// The trace of a quiet CPU is written long after the records of its time, rounds later.
#[test]
fn samples_stand_among_the_records_of_their_time() {
    let at = |ticks: u64| Operation { ticks: Some(ticks), ..load(ticks) };
    let reader = read(|capture| {
        capture.map("/a", 0x1000_0000, Some(10 * TICK));
        capture.round();
        capture.map("/b", 0x1000_0000, Some(20 * TICK));
        capture.trace(1, &trace(&[at(12), at(22)]));
        capture.round();
        capture.map("/c", 0x1000_0000, Some(30 * TICK));
        capture.round();
        capture.round();
        capture.trace(0, &trace(&[at(5), at(15), at(25), at(30)]));
        capture.trace(1, &trace(&[at(31)]));
        capture.round();
    });
    let expected = ["/nonexistent/server", "5", "/a", "12", "15", "/b", "22", "25", "/c", "30", "31"];
    assert_eq!(sequence(&reader), expected);
}

#[test]
fn untimed_samples_come_behind_what_stands_before_them() {
    let untimed = Operation { ticks: None, ..load(0) };
    let reader = read(|capture| {
        capture.map("/a", 0x1000_0000, Some(10 * TICK));
        capture.trace(1, &trace(&[untimed, untimed]));
        capture.map("/b", 0x1000_0000, Some(20 * TICK));
        capture.round();
    });
    assert_eq!(sequence(&reader), ["/nonexistent/server", "/a", "untimed", "untimed", "/b"]);
}

/// If the kernel does not write the thread id to CONTEXTIDR, context switches identify the thread.
#[test]
fn threads_are_known_by_switches_too() {
    let at = |ticks: u64| Operation { ticks: Some(ticks), context: None, ..load(ticks) };
    let reader = read(|capture| {
        capture.switch_in((100, 101), 10 * TICK, 2);
        capture.switch_out((100, 101), (0, 0), 20 * TICK, 2);
        capture.switch_out((0, 0), (100, 100), 30 * TICK, 2);
        capture.round();
        capture.trace(2, &trace(&[at(5), at(15), at(25), at(35)]));
    });
    let mut threads = Vec::new();
    each_sample(&reader, RecordOrder::Time, |sample| threads.push((sample.pid, sample.tid)));
    let thread = |pid, tid| (Some(Pid(pid)), Some(Tid(tid)));
    assert_eq!(threads, [(None, None), thread(100, 101), thread(0, 0), thread(100, 100)]);
    // The thread id in the trace takes precedence.
    let reader = read(|capture| {
        capture.switch_in((100, 100), 10 * TICK, 2);
        capture.trace(2, &trace(&[Operation { context: Some(101), ..at(15) }]));
    });
    each_sample(&reader, RecordOrder::Time, |sample| {
        assert_eq!((sample.pid, sample.tid), thread(100, 101));
    });
}

#[test]
fn losses_are_told() {
    let good = trace(&[load(0)]);
    let reader = read(|capture| {
        capture.piece(64, aux_flag::TRUNCATED | aux_flag::PARTIAL, 50_000, 0);
        capture.piece(64, aux_flag::COLLISION, 60_000, 0);
        capture.piece(64, 0, 70_000, 0);
        // The middle record has an invalid byte; the last one is truncated.
        let mut damaged = good.clone();
        damaged[9] = 0xff;
        capture.trace(0, &[good.clone(), damaged, good.clone(), good[..20].to_vec()].concat());
    });
    for order in [RecordOrder::File, RecordOrder::Time] {
        let summary = each_sample(&reader, order, |_| {});
        assert_eq!((summary.traces_cut, summary.collisions, summary.lost_samples), (1, 1, 1));
        assert_eq!(summary.total_samples(), 2);
        let damaged = summary.skipped[&SkipReason::DamagedTrace].0;
        // All of the damaged record; the truncated one's 20, and the byte up to a multiple of eight, which its last
        // packet takes for its own.
        assert_eq!(damaged, good.len() as u64 + 20 + 1);
        assert!(!summary.is_complete());
        let warnings = summary.warnings().join("\n");
        for expected in ["buffer was full", "longer period", "not whole records of the Arm SPE trace"] {
            assert!(warnings.contains(expected), "{warnings}");
        }
    }
}

/// A trace that is not announced as Arm SPE, such as Intel PT, is skipped.
#[test]
fn traces_of_others_are_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = capture(folder.path(), |capture| capture.trace(0, &trace(&[load(0)])));
    let mut bytes = std::fs::read(path).expect("readable");
    let info = [70u32.to_le_bytes(), [0, 0, 32, 0], 4u32.to_le_bytes()].concat();
    let at = bytes.windows(12).position(|window| window == info).expect("the announcement");
    bytes[at + 8] = 1; // PERF_AUXTRACE_INTEL_PT
    let reader = CaptureReader::from_bytes(bytes).expect("opens");
    let summary = each_sample(&reader, RecordOrder::Time, |_| panic!("no samples"));
    assert_eq!(
        summary.skipped[&SkipReason::UndecodedTrace(TraceKind(1))].0,
        trace(&[load(0)]).len().next_multiple_of(8) as u64
    );
    let size = trace(&[load(0)]).len().next_multiple_of(8);
    assert_eq!(
        summary.undecoded_traces(),
        [format!("{size} bytes are a trace of Intel PT, which Hardmeter does not decode; samples in it are not shown")]
    );
    assert!(summary.is_complete() && summary.warnings().len() == 1, "{:?}", summary.warnings());
}

/// A file with a megabyte of trace in pieces of four CPUs.
fn large(folder: &Path) -> PathBuf {
    capture(folder, |capture| {
        for piece in 0..16 {
            for cpu in 0..4 {
                let operations: Vec<Operation> = (0..256).map(|n| load(piece * 256 + n)).collect();
                capture.trace(cpu, &trace(&operations));
            }
            capture.round();
        }
    })
}

/// 64 KiB windows slide over the pieces; none of 16,384 records is lost or duplicated at their boundaries.
#[test]
fn every_record_of_a_long_trace_comes_once_and_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let reader = CaptureReader::open(large(folder.path())).expect("opens");
    let (mut newest, mut of_cpus) = (0, [0u64; 4]);
    let summary = each_sample(&reader, RecordOrder::Time, |sample| {
        let time = sample.time.expect("timed").0;
        assert!(time >= newest);
        newest = time;
        let cpu = sample.cpu.expect("of a CPU").0 as usize;
        assert_eq!(sample.ip, Some(VirtualAddress(PROGRAM + 0x1000 + of_cpus[cpu] * 4)));
        of_cpus[cpu] += 1;
    });
    assert_eq!(of_cpus, [4096; 4]);
    assert!(summary.is_complete(), "{summary:?}");
}

/// Reads everything in both orders, which must agree.
fn read_all(bytes: Vec<u8>) -> Option<ReadSummary> {
    let reader = CaptureReader::from_bytes(bytes).ok()?;
    let [file, time] = [RecordOrder::File, RecordOrder::Time].map(|order| {
        let mut samples = 0;
        let summary = each_sample(&reader, order, |sample| {
            samples += 1;
            std::hint::black_box(sample.data_source.map(|source| (source.level(), source.snoop())));
        });
        assert_eq!(samples, summary.total_samples());
        summary
    });
    assert_eq!((file.samples, file.skipped), (time.samples.clone(), time.skipped.clone()));
    Some(time)
}

/// As the fuzzer, but deterministic: 10,000 damaged captures, the same in every run.
#[test]
fn damaged_captures_are_read_alike_in_both_orders() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = capture(folder.path(), |capture| {
        capture.switch_in((100, 101), 10 * TICK, 2);
        capture.piece(64, aux_flag::TRUNCATED, 50_000, 2);
        capture.trace(2, &trace(&one_of_each()));
        capture.round();
        capture.trace(1, &trace(&[load(7), load(8)]));
        capture.round();
    });
    let good = std::fs::read(path).expect("readable");
    assert_eq!(read_all(good.clone()).expect("opens").total_samples(), 6);
    for length in 0..good.len() {
        read_all(good[..length].to_vec());
    }
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as usize) % limit
    };
    let (mut opened, mut fewer) = (0, 0);
    for _ in 0..10_000 {
        let mut bytes = good.clone();
        for _ in 0..=random(3) {
            let position = random(bytes.len());
            bytes[position] = [0, 0xff, random(256) as u8][random(3)];
        }
        if let Some(summary) = read_all(bytes) {
            opened += 1;
            fewer += u64::from(summary.total_samples() < 6);
        }
    }
    assert!(opened > 5_000 && fewer > 500, "{opened} opened, {fewer} with fewer samples");
}

/// The seeds of both fuzz targets; `HARDMETER_WRITE_SEEDS=1 cargo test` renews them.
#[test]
fn the_fuzzers_seeds_are_current() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = capture(folder.path(), |capture| capture.trace(2, &trace(&one_of_each())));
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let file = std::fs::read(path).expect("readable");
    // The first byte is the size of the pieces into which the target cuts the rest.
    let one_of_each = [vec![16], trace(&one_of_each())].concat();
    for (name, bytes) in [("read_capture/arm_spe", file), ("decode_arm_spe/one_of_each", one_of_each)] {
        let path = seeds.join(name);
        if std::env::var_os("HARDMETER_WRITE_SEEDS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
            std::fs::write(&path, &bytes).expect("written");
        }
        let seed = std::fs::read(&path).expect("run with HARDMETER_WRITE_SEEDS=1");
        assert_eq!(seed, bytes, "{name} is outdated");
    }
}

/// The fields of one record as each decoder prints them.
#[derive(Debug, PartialEq)]
struct Told {
    thread: String,
    cpu: u32,
    time: u64,
    ip: u64,
    address: u64,
    physical: u64,
    weight: u64,
    data_source: u64,
}

/// perf 6.1 on the same file: every field of every sample must agree.
#[test]
fn perf_decodes_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    // One load of each Neoverse data source.
    let mut operations: Vec<Operation> = [0u8, 8, 9, 10, 11, 12, 13, 14]
        .iter()
        .enumerate()
        .map(|(n, source)| Operation {
            source: Some(*source),
            events: if n % 2 == 0 { 0x12 } else { 0x22 },
            ..load(n as u64)
        })
        .collect();
    // Events without a table of sources: L1D hit, L1D refill, last-level hit, other socket.
    operations.extend([0x06, 0x0e, 0x10e, 0x70e].map(|events| Operation {
        events,
        source: Some(0),
        ticks: Some(1050),
        ..load(50)
    }));
    operations.extend(
        one_of_each()
            .map(|operation| Operation { ticks: operation.ticks.map(|ticks| ticks + 100), ..operation }),
    );
    for (midr, name) in [("0x00000000413fd0c1", "Neoverse N1"), ("0x00000000481fd010", "another processor")] {
        let path = folder.path().join(name);
        let mut capture = SpeCapture::create_on(&path, midr);
        // Timed records on both sides, between which perf decodes.
        capture.switch_in((100, 101), 10, 3);
        capture.trace(3, &trace(&operations));
        capture.switch_in((100, 101), 1_000_000, 3);
        capture.round();
        capture.finish();
        let file = path.to_str().expect("a plain path");
        let fields = "tid,cpu,time,event,addr,phys_addr,weight,data_src,ip";
        let Some(lines) = perf_lines(&["script", "-i", file, "--itrace=i1i", "--ns", "-F", fields]) else {
            return;
        };
        let theirs: Vec<Told> = lines.iter().map(|line| parse(line)).collect();
        let reader = CaptureReader::open(&path).expect("opens");
        let mut ours = Vec::new();
        each_sample(&reader, RecordOrder::Time, |sample| {
            ours.push(Told {
                thread: sample.tid.expect("a thread").to_string(),
                cpu: sample.cpu.expect("a CPU").0,
                time: sample.time.expect("a time").0,
                ip: sample.ip.expect("an instruction").0,
                address: sample.address.unwrap_or_default().0,
                physical: sample.physical_address.unwrap_or_default().0,
                weight: sample.weight.expect("a latency").latency.0,
                data_source: sample.data_source.unwrap_or_default().0,
            });
        });
        assert_eq!(ours.len(), operations.len());
        assert_eq!(theirs, ours, "{name}");
    }
}

/// A line of `perf script`: thread, CPU, time, event, address, data source with its words; weight, instruction and
/// physical address at the end.
fn parse(line: &str) -> Told {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [thread, cpu, time, "instructions:", address, data_source, .., weight, ip, physical] = words[..]
    else {
        panic!("{line}");
    };
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap_or_else(|_| panic!("{word} in {line}"));
    let (seconds, nanoseconds) = time.trim_end_matches(':').split_once('.').expect("a time");
    Told {
        thread: thread.to_string(),
        cpu: cpu.trim_matches(['[', ']']).parse().expect("a CPU"),
        time: seconds.parse::<u64>().expect("seconds") * 1_000_000_000
            + nanoseconds.parse::<u64>().expect("nanoseconds"),
        ip: hex(ip),
        address: hex(address),
        physical: hex(physical),
        weight: weight.parse().expect("a latency"),
        data_source: hex(data_source),
    }
}
