//! Writes a synthetic capture of N samples, for measurements of reading speed: ten processes of one program, two
//! events, with data address, data source, latency, general registers and a call chain of six frames in each
//! sample, as the software PMU and PEBS record them.
//!
//! ```text
//! cargo run --release -p hardmeter-views --example make_capture -- OUT.data 5000000 /usr/lib/postgresql/15/bin/postgres
//! ```
//!
//! The addresses lie in the code of the given program, so that perf and hardmeter have symbols to look up: 2000
//! distinct instructions, the hottest drawn most often. The same arguments give the same file.
//!
//! With a fourth argument, the name of a host, it is a capture of a server on that host: each sample has one of twenty
//! statements, and the server counted a transaction for every 100 samples.

use hardmeter_evidence::Coin;
use hardmeter_samples::model::{
    Comm, CpuMode, EventSource, FileOffset, Mmap, Pid, Register, ServerState, StatementId, Tid, Timestamp,
    VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_samples::sidecar::{Sidecar, Statement};
use std::error::Error;
use std::path::Path;

const PROCESSES: u64 = 10;
const FIRST_PID: i32 = 1001;
const DISTINCT_ADDRESSES: u64 = 2000;
const FRAMES: u64 = 6;
const LOAD_BASE: u64 = 0x5555_5555_4000;
const STATEMENTS: u64 = 20;
const SAMPLES_PER_TRANSACTION: u64 = 100;
const SAMPLES_PER_ROUND: u64 = 10_000;
/// `PERF_RECORD_MISC_USER | PERF_RECORD_MISC_EXACT_IP`.
const USER_EXACT: u16 = 2 | 1 << 14;
const CONTEXT_USER: u64 = -512i64 as u64;

/// Data-source words of a recorded Skylake capture: L1, line-fill buffer, L2, L3.
const SOURCES: [u64; 4] = [0x10268100142, 0x11868100242, 0x10468100442, 0x10668100842];
const LATENCIES: [u64; 4] = [4, 30, 14, 60];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: make_capture OUT.data SAMPLES PROGRAM");
    let (path, samples, program) = (next()?, next()?.parse::<u64>()?, next()?);
    let host = arguments.next();
    let code = executable_segment(&std::fs::read(&program)?).ok_or("no 64-bit ELF program with code")?;
    let mut events = [event("l1d-miss", 0, 1), event("l2-miss", 1, 2)];
    if host.is_some() {
        events.iter_mut().for_each(|event| event.attr.sample_type |= sample_type::RAW);
    }
    let header = CaptureHeader { hostname: host.clone(), ..CaptureHeader::default() };
    let mut writer = CaptureWriter::create(&path, &events, &header)?;
    for pid in (FIRST_PID..).take(PROCESSES as usize) {
        writer.append_comm(&Comm {
            pid: Pid(pid),
            tid: Tid(pid),
            name: "postgres".into(),
            exec: true,
            time: Some(Timestamp(1)),
        })?;
        writer.append_mmap(&mapping(pid, &program, &code))?;
    }
    writer.append_finished_round()?;
    let mut random = Coin::new(1);
    for number in 0..samples {
        writer.append(&sample(number, &code, &mut random, host.is_some()))?;
        if number % SAMPLES_PER_ROUND == SAMPLES_PER_ROUND - 1 {
            writer.append_finished_round()?;
        }
    }
    writer.finish()?;
    if host.is_some() {
        notes(samples).store(Path::new(&path))?;
    }
    Ok(())
}

/// The statements' texts, and what the server counted.
fn notes(samples: u64) -> Sidecar {
    let mut notes = Sidecar::new(EventSource::Imported);
    notes.workload.insert("transactions".into(), (samples / SAMPLES_PER_TRANSACTION) as f64);
    notes.statements.extend((1..=STATEMENTS).map(|number| Statement {
        id: StatementId(number),
        text: format!("select column_{number} from table_{number} where key=? and day between ? and ?"),
    }));
    notes
}

fn event(name: &str, config: u64, id: u64) -> EventAttributes {
    // Type 4, raw: a hardware event with the processor's own numbering.
    let mut attr = PerfEventAttr::new(4, config);
    attr.sample_period = 1000;
    attr.sample_type = sample_type::PLACE
        | sample_type::CALLCHAIN
        | sample_type::DATA_SRC
        | sample_type::WEIGHT_STRUCT
        | sample_type::REGS_INTR;
    attr.sample_regs_intr = Register::general_mask();
    attr.flags = attr_flag::SAMPLE_ID_ALL
        | attr_flag::MMAP
        | attr_flag::MMAP2
        | attr_flag::COMM
        | attr_flag::COMM_EXEC
        | attr_flag::TASK
        | attr_flag::EXCLUDE_KERNEL
        | 2 << attr_flag::PRECISE_IP_SHIFT;
    EventAttributes { name: name.to_string(), attr, ids: vec![id] }
}

fn mapping(pid: i32, program: &str, code: &Segment) -> Mmap {
    Mmap {
        pid: Pid(pid),
        tid: Tid(pid),
        mode: CpuMode::User,
        start: VirtualAddress(LOAD_BASE + (code.address & !0xfff)),
        length: (code.size + 0xfff + (code.address & 0xfff)) & !0xfff,
        offset: FileOffset(code.offset & !0xfff),
        executable: true,
        protection: Some(5),
        flags: Some(2),
        build_id: None,
        path: program.to_string(),
        time: Some(Timestamp(2)),
    }
}

fn sample(number: u64, code: &Segment, random: &mut Coin, of_server: bool) -> Vec<u8> {
    let event = u64::from(number.is_multiple_of(5)) + 1;
    let pid = FIRST_PID as u64 + random.bits() % PROCESSES;
    // The product of two uniform numbers decreases from 0: few hot places, many cold ones.
    let rank =
        (random.bits() % DISTINCT_ADDRESSES) * (random.bits() % DISTINCT_ADDRESSES) / DISTINCT_ADDRESSES;
    let at = |rank: u64| LOAD_BASE + code.address + rank * (code.size / DISTINCT_ADDRESSES);
    let (ip, kind) = (at(rank), (random.bits() % 4) as usize);
    let mut record = RecordBuilder::new(record_type::SAMPLE, USER_EXACT)
        .u64(event)
        .u64(ip)
        .u32(pid as u32)
        .u32(pid as u32)
        .u64(1000 + number * 100)
        .u64(0x7f00_0000_0000 + random.bits() % (128 << 20) / 8 * 8)
        .u64(number % 2)
        .u64(1000)
        .u64(FRAMES + 1)
        .u64(CONTEXT_USER)
        .u64(ip);
    for frame in 1..FRAMES {
        record = record.u64(at((rank / 16 + frame * 37) % DISTINCT_ADDRESSES) + 5);
    }
    if of_server {
        // Statement 1 has most samples, as the hottest instruction has.
        let statement = StatementId(1 + rank * STATEMENTS / DISTINCT_ADDRESSES);
        let state = ServerState { statement: Some(statement), statement_over: false };
        let raw = state.encode(Timestamp(1000 + number * 100), &[]);
        record = record.u32(raw.len() as u32).bytes(&raw);
    }
    record = record.u64(LATENCIES[kind] + random.bits() % 8).u64(SOURCES[kind]).u64(2);
    for register in 0..Register::GENERAL.len() as u64 {
        record = record.u64(ip ^ register << 32);
    }
    record.finish()
}

/// A code segment of the program.
struct Segment {
    offset: u64,
    address: u64,
    size: u64,
}

/// The first executable `PT_LOAD` of a little-endian ELF64 file.
fn executable_segment(elf: &[u8]) -> Option<Segment> {
    let word = |at: usize| Some(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (table, count) = (word(32)? as usize, u16::from_le_bytes(elf.get(56..58)?.try_into().ok()?));
    (0..usize::from(count)).map(|index| table + index * 56).find_map(|header| {
        let (kind, flags) = (half(header)?, half(header + 4)?);
        let loaded_code = kind == 1 && flags & 1 != 0;
        loaded_code.then_some(Segment {
            offset: word(header + 8)?,
            address: word(header + 16)?,
            size: word(header + 32)?,
        })
    })
}
