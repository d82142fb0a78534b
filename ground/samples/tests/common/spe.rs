//! Captures of Arm SPE, made packet by packet as the Arm manual has them, in a file as perf records one on a Neoverse
//! N1.
#![allow(dead_code)] // each test file uses its part

use hardmeter_samples::model::{Comm, CpuMode, FileOffset, Mmap, Pid, Tid, Timestamp, VirtualAddress};
use hardmeter_samples::perf_data::abi::{
    attr_flag, misc, record_type, sample_type as field, PerfEventAttr, AUXTRACE_ARM_SPE,
};
use hardmeter_samples::perf_data::{
    finished_round, CaptureHeader, CaptureWriter, EventAttributes, RecordBuilder, RecordEncoder,
};
use std::path::Path;

/// The PMU's number in these captures.
pub const PMU_TYPE: u32 = 12;
/// Operations between two samples.
pub const PERIOD: u64 = 1024;
/// The event's name in perf's form.
pub const EVENT: &str = "arm_spe_0/ts_enable=1,pa_enable=1/";
/// Nanoseconds of a tick of the system counter: 25 MHz.
pub const TICK: u64 = 40;

/// The process of these captures.
pub const SERVER: (Pid, Tid) = (Pid(100), Tid(101));
/// Load address of its program.
pub const PROGRAM: u64 = 0xaaaa_0000_0000;

/// One sampled operation. `None` and 0 omit the packet.
#[derive(Clone, Copy, Default)]
pub struct Operation {
    pub instruction: u64,
    /// 0 or 1 or 2.
    pub level: u64,
    /// Class and detail.
    pub kind: (u8, u8),
    pub events: u16,
    pub data: Option<u64>,
    pub physical: Option<u64>,
    pub target: Option<u64>,
    pub latency: u16,
    pub source: Option<u8>,
    pub context: Option<u32>,
    pub ticks: Option<u64>,
}

/// A load that DRAM served after 300 cycles, at some time.
pub fn load(n: u64) -> Operation {
    Operation {
        instruction: PROGRAM + 0x1000 + n * 4,
        kind: (1, 0),
        events: 0x31e, // retired, L1D access and refill, TLB access, last level access and miss
        data: Some(0xffff_f800_0000 + n * 64),
        physical: Some(0x8_0000_0000 + n * 64),
        latency: 300,
        source: Some(0x0e),
        context: Some(SERVER.1 .0 as u32),
        ticks: Some(1000 + n),
        ..Operation::default()
    }
}

const NON_SECURE: u64 = 1 << 63;

impl Operation {
    /// The packets of the record.
    pub fn packets(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packet = |header: u8, payload: &[u8]| {
            bytes.push(header);
            bytes.extend_from_slice(payload);
        };
        // An address has 56 bits; the top byte has the security state and the exception level.
        let place = |address: u64| (address & (u64::MAX >> 8) | NON_SECURE | self.level << 61).to_le_bytes();
        packet(0xb0, &place(self.instruction));
        if let Some(target) = self.target {
            packet(0xb1, &place(target));
        }
        packet(0x98, &self.latency.to_le_bytes());
        packet(0x99, &3u16.to_le_bytes());
        if let Some(data) = self.data {
            packet(0xb2, &(data & (u64::MAX >> 8)).to_le_bytes());
            packet(0x9a, &1u16.to_le_bytes());
        }
        if let Some(physical) = self.physical {
            packet(0xb3, &(physical | NON_SECURE).to_le_bytes());
        }
        if let Some(context) = self.context {
            packet(0x65, &context.to_le_bytes());
        }
        packet(0x48 | self.kind.0, &[self.kind.1]);
        packet(0x52, &self.events.to_le_bytes());
        if let Some(source) = self.source {
            packet(0x43, &[source]);
        }
        match self.ticks {
            Some(ticks) => packet(0x71, &ticks.to_le_bytes()),
            None => packet(0x01, &[]),
        }
        bytes
    }
}

/// The bytes of several operations.
pub fn trace(operations: &[Operation]) -> Vec<u8> {
    operations.iter().flat_map(Operation::packets).collect()
}

/// A capture under construction.
pub struct SpeCapture {
    writer: CaptureWriter,
    encoder: RecordEncoder,
    /// The trace offset of each CPU.
    offsets: [u64; 4],
}

fn events() -> [EventAttributes; 2] {
    let mut spe = PerfEventAttr::new(PMU_TYPE, 3);
    spe.sample_period = PERIOD;
    spe.sample_type = field::IDENTIFIER
        | field::IP
        | field::TID
        | field::TIME
        | field::CPU
        | field::DATA_SRC
        | field::PHYS_ADDR;
    spe.flags = attr_flag::SAMPLE_ID_ALL;
    let mut dummy = PerfEventAttr::new(1, 9);
    dummy.sample_period = 1;
    dummy.sample_type = field::IDENTIFIER | field::IP | field::TID | field::TIME | field::CPU;
    dummy.flags = attr_flag::SAMPLE_ID_ALL
        | attr_flag::MMAP
        | attr_flag::MMAP2
        | attr_flag::COMM
        | attr_flag::TASK
        | attr_flag::CONTEXT_SWITCH;
    [
        EventAttributes { name: EVENT.to_string(), attr: spe, ids: vec![5] },
        EventAttributes { name: "dummy:u".to_string(), attr: dummy, ids: vec![6] },
    ]
}

impl SpeCapture {
    /// Starts a capture: announcement of the traces, clock, a process with a program.
    pub fn create(path: &Path) -> SpeCapture {
        SpeCapture::create_on(path, "0x00000000413fd0c1")
    }

    /// The same on a processor of this MIDR.
    pub fn create_on(path: &Path, midr: &str) -> SpeCapture {
        let events = events();
        let header = CaptureHeader {
            hostname: Some("graviton".into()),
            architecture: Some("aarch64".into()),
            cpu_id: Some(midr.into()),
            cpus_online: Some(4),
            cpus_available: Some(4),
            ..CaptureHeader::default()
        };
        let writer = CaptureWriter::create(path, &events, &header).expect("created");
        let encoder = RecordEncoder::new(&events[1]);
        let mut capture = SpeCapture { writer, encoder, offsets: [0; 4] };
        // 40 ns per tick: 40 << 24 / 2^24. Then: no short counter, zero is valid.
        let clock = RecordBuilder::new(record_type::TIME_CONV, 0).u64(24).u64(TICK << 24).u64(0);
        capture.append(&clock.u64(0).u64(0).u64(1).finish());
        let info = RecordBuilder::new(record_type::AUXTRACE_INFO, 0).u32(AUXTRACE_ARM_SPE).u32(0);
        capture.append(&info.u64(PMU_TYPE.into()).u64(1).finish());
        let (pid, tid) = SERVER;
        let comm = |tid: Tid, name: &str| Comm { pid, tid, name: name.into(), exec: false, time: None };
        capture.comm(&comm(Tid(pid.0), "server"));
        capture.comm(&comm(tid, "worker"));
        capture.map("/nonexistent/server", PROGRAM, None);
        capture
    }

    pub fn append(&mut self, record: &[u8]) {
        self.writer.append(record).expect("appended");
    }

    pub fn comm(&mut self, comm: &Comm) {
        let record = self.encoder.comm(comm);
        self.append(&record);
    }

    /// A program of 64 KiB.
    pub fn map(&mut self, path: &str, start: u64, time: Option<u64>) {
        self.map_part(path, start..start + 0x1_0000, 0, time);
    }

    /// A part of a program.
    pub fn map_part(&mut self, path: &str, range: std::ops::Range<u64>, offset: u64, time: Option<u64>) {
        let record = self.encoder.mmap(&Mmap {
            pid: SERVER.0,
            tid: SERVER.1,
            mode: CpuMode::User,
            start: VirtualAddress(range.start),
            length: range.end - range.start,
            offset: FileOffset(offset),
            executable: true,
            protection: Some(5),
            flags: Some(2),
            build_id: None,
            path: path.into(),
            time: time.map(Timestamp),
        });
        self.append(&record);
    }

    /// The trailer of a record of the dummy event.
    fn trailer(record: RecordBuilder, thread: (u32, u32), time: u64, cpu: u32) -> Vec<u8> {
        record.u32(thread.0).u32(thread.1).u64(time).u32(cpu).u32(0).u64(6).finish()
    }

    /// A context switch record: a thread gets a CPU.
    pub fn switch_in(&mut self, (pid, tid): (u32, u32), time: u64, cpu: u32) {
        let record = RecordBuilder::new(record_type::SWITCH_CPU_WIDE, 0).u32(0).u32(0);
        self.append(&Self::trailer(record, (pid, tid), time, cpu));
    }

    /// A context switch record: a thread leaves a CPU to another.
    pub fn switch_out(&mut self, (pid, tid): (u32, u32), next: (u32, u32), time: u64, cpu: u32) {
        let record =
            RecordBuilder::new(record_type::SWITCH_CPU_WIDE, misc::SWITCH_OUT).u32(next.0).u32(next.1);
        self.append(&Self::trailer(record, (pid, tid), time, cpu));
    }

    /// An `AUX` record for a piece of a trace.
    pub fn piece(&mut self, size: u64, flags: u64, time: u64, cpu: u32) {
        let record =
            RecordBuilder::new(record_type::AUX, 0).u64(self.offsets[cpu as usize]).u64(size).u64(flags);
        self.append(&Self::trailer(record, (SERVER.0 .0 as u32, SERVER.1 .0 as u32), time, cpu));
    }

    /// A piece of a CPU's trace, padded to eight bytes as perf does.
    pub fn trace(&mut self, cpu: u32, bytes: &[u8]) {
        let size = bytes.len().next_multiple_of(8);
        let mut record = RecordBuilder::new(record_type::AUXTRACE, 0)
            .u64(size as u64)
            .u64(self.offsets[cpu as usize])
            .u64(0x1234)
            .u32(cpu)
            .u32(u32::MAX)
            .u32(cpu)
            .u32(0)
            .finish();
        record.extend_from_slice(bytes);
        record.resize(record.len() + size - bytes.len(), 0);
        self.offsets[cpu as usize] += size as u64;
        self.append(&record);
    }

    pub fn round(&mut self) {
        self.append(&finished_round());
    }

    pub fn finish(self) {
        self.writer.finish().expect("finished");
    }
}
