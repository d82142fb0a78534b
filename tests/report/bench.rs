//! Captures to test on, and the programs that judge the results.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_samples::model::{
    Comm, CpuMode, EventSource, FileOffset, Mmap, Pid, Register, Tid, Timestamp, VirtualAddress,
};
use hardmeter_samples::perf_data::abi::{attr_flag, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder};
use hardmeter_samples::{machine::Machine, sidecar::Sidecar};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for one test's files.
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_string()
    }
}

pub fn hardmeter(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hardmeter")).args(arguments).output().unwrap()
}

/// A recorded capture of the fixtures; `None`, with a message, if it is missing.
pub fn fixture(name: &str) -> Option<String> {
    let shared = std::env::var_os("HARDMETER_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"));
    let path = shared.join("research/fixtures").join(name);
    if !path.is_file() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path.to_str().unwrap().to_string())
}

/// Line 2 holds the hot loop.
const PROGRAM: &str = "\
__attribute__((noinline)) unsigned hot_routine(volatile unsigned *table, unsigned count) {
    unsigned sum = 0; for (unsigned i = 0; i < count; i++) sum += table[i & 1023];
    return sum;
}
__attribute__((noinline)) unsigned cold_routine(volatile unsigned *table) { return table[7]; }
int main(void) {
    static unsigned table[1024];
    unsigned sum = 0;
    for (int i = 0; i < 400; i++) sum += hot_routine(table, 1000000) + cold_routine(table);
    return sum == 1;
}
";

/// Compiles the program; `None`, with a message, without a C compiler.
pub fn compiled(bench: &Bench) -> Option<String> {
    let (source, program) = (bench.path("program.c"), bench.path("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    // No position-independent code: addresses in the file equal those of the process.
    let options = ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie", "-fno-pie", "-o", &program, &source];
    match Command::new("cc").args(options).status() {
        Ok(status) => {
            assert!(status.success());
            Some(program)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler: {error}");
            None
        }
    }
}

/// The contents of [`made_capture`].
pub struct Made {
    pub events: [&'static str; 2],
    pub period: u64,
}

pub const MADE: Made = Made { events: ["l1d-miss", "l2-miss"], period: 1000 };

const PID: i32 = 4711;

/// A simulated capture of 50 samples of one process named postgres, with notes beside it:
///
/// ```text
///              l1d-miss   l2-miss   latency   registers: rax 0xa0, the next in order one more each
///   hot_routine    30         6        50     data address 0x7f0000001000
///   cold_routine   10         4        20     all called from main
/// ```
pub fn made_capture(bench: &Bench) -> Option<String> {
    let program = compiled(bench)?;
    let (hot, cold, main) =
        (symbol(&program, "hot_routine")?, symbol(&program, "cold_routine")?, symbol(&program, "main")?);
    let events = [event(MADE.events[0], 1), event(MADE.events[1], 2)];
    let path = bench.path("made.data");
    let mut writer = CaptureWriter::create(&path, &events, &CaptureHeader::default()).unwrap();
    let (pid, tid) = (Pid(PID), Tid(PID));
    let time = Some(Timestamp(1));
    writer.append_comm(&Comm { pid, tid, name: "postgres".into(), exec: true, time }).unwrap();
    writer
        .append_mmap(&Mmap {
            pid,
            tid,
            mode: CpuMode::User,
            start: VirtualAddress(0x401000),
            length: 0x1000,
            offset: FileOffset(0x1000),
            executable: true,
            protection: Some(5),
            flags: Some(2),
            build_id: None,
            path: program,
            time: Some(Timestamp(2)),
        })
        .unwrap();
    let mut clock = 1000;
    for (id, address, count, latency) in
        [(1, hot, 30, 50), (2, hot, 6, 50), (1, cold, 10, 20), (2, cold, 4, 20)]
    {
        for _ in 0..count {
            clock += 100;
            writer.append(&sample(id, address, main + 8, latency, clock)).unwrap();
        }
    }
    writer.finish().unwrap();
    write_notes(&path);
    Some(path)
}

/// A capture without samples.
pub fn capture_without_samples(bench: &Bench) -> String {
    let path = bench.path("none.data");
    let events = MADE.events.map(|name| event(name, if name == "l1d-miss" { 1 } else { 2 }));
    CaptureWriter::create(&path, &events, &CaptureHeader::default()).unwrap().finish().unwrap();
    path
}

fn write_notes(path: &str) {
    let mut notes = Sidecar::new(EventSource::Simulated);
    notes.notes.push("kernel mode is not seen".into());
    notes.machine = Some(serde_json::to_value(Machine::builtin("xeon-2003").unwrap()).unwrap());
    std::fs::write(Sidecar::path_for(Path::new(path)), serde_json::to_string(&notes).unwrap()).unwrap();
}

fn event(name: &str, id: u64) -> EventAttributes {
    let mut attr = PerfEventAttr::new(4, id);
    attr.sample_period = MADE.period;
    attr.sample_type = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::ADDR
        | sample_type::PERIOD
        | sample_type::CALLCHAIN
        | sample_type::DATA_SRC
        | sample_type::WEIGHT_STRUCT
        | sample_type::REGS_INTR;
    attr.sample_regs_intr = Register::general_mask();
    attr.flags = attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::COMM_EXEC;
    EventAttributes { name: name.to_string(), attr, ids: vec![id] }
}

fn sample(id: u64, ip: u64, caller: u64, latency: u64, time: u64) -> Vec<u8> {
    const USER_EXACT: u16 = 2 | 1 << 14;
    let mut record = RecordBuilder::new(record_type::SAMPLE, USER_EXACT)
        .u64(id)
        .u64(ip)
        .u32(PID as u32)
        .u32(PID as u32)
        .u64(time)
        .u64(0x7f00_0000_1000)
        .u64(MADE.period)
        .u64(3)
        .u64(-512i64 as u64) // PERF_CONTEXT_USER
        .u64(ip)
        .u64(caller)
        .u64(latency)
        .u64(0x10268100142) // a load that L1 served
        .u64(2);
    // In the order of the mask: rax rbx rcx rdx rsi rdi rbp rsp rip rflags r8..r15. r15 is numbered 0xaf here.
    for number in (0..10).chain(8..16) {
        record = record.u64(0xa0 + number);
    }
    record.finish()
}

/// A symbol's address, by binutils.
pub fn symbol(program: &str, name: &str) -> Option<u64> {
    let output = match Command::new("nm").arg(program).output() {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) => {
            eprintln!("skipped: no nm: {error}");
            return None;
        }
    };
    let line = output.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
    Some(u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap())
}

/// Records the program with perf's timer. Returns the capture, perf's first row (symbol, percent) and its number of
/// samples; `None`, with a message, if perf cannot record.
pub fn recorded_capture(bench: &Bench) -> Option<(String, (String, String), u64)> {
    let (program, capture) = (compiled(bench)?, bench.path("live.data"));
    let record = ["record", "-q", "-e", "cpu-clock", "-F", "999", "-g", "-o", &capture, &program];
    match Command::new("perf").args(record).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprintln!("skipped: perf cannot record: {}", String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Err(error) => {
            eprintln!("skipped: no perf: {error}");
            return None;
        }
    }
    let perf = |arguments: &[&str]| {
        let output = Command::new("perf").args(arguments).args(["-i", &capture]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let report = perf(&["report", "--stdio", "--no-children", "-g", "none", "--percentage", "absolute"]);
    let first = report.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty()).unwrap();
    let words: Vec<&str> = first.split_whitespace().collect();
    let symbol = words.last().unwrap().to_string();
    let samples = perf(&["script", "-F", "ip,sym", "-G"]).lines().filter(|line| !line.is_empty()).count();
    Some((capture.clone(), (symbol, words[0].to_string()), samples as u64))
}

/// The numbers at the line ends of folded stacks, added up.
pub fn folded_total(folded: &str) -> u64 {
    folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// `go tool pprof -top`; `None`, with a message, if Go is not installed.
pub fn pprof_top(profile: &str, sample_index: &str) -> Option<String> {
    let option = format!("-sample_index={sample_index}");
    match Command::new("go").args(["tool", "pprof", "-top", &option, profile]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            eprintln!("skipped: no go: {error}");
            None
        }
    }
}
