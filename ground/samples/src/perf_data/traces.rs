//! Merges samples of Arm SPE traces with the other records.
//!
//! perf appends the contents of a CPU's trace buffer at intervals, possibly long after the records of the same
//! time: rounds do not apply to traces. So they are located first (one pass over the records' headers, without the
//! payloads) and then read in place, merging all buffers by time:
//!
//! ```text
//!  file:     mmap ... [CPU 0: 1 4 9] switch ... [CPU 1: 2 3] exit [CPU 0: 11 12] [CPU 1: 10]
//!  buffer 0: 1 4 9 11 12 ─┐
//!  buffer 1: 2 3 10 ──────┴─ 1 2 3 4 9 10 11 12, each before the first record that is younger
//! ```
//! A trace without times, or a capture without the clock's conversion, keeps the order of the file: its samples
//! follow the records before them.

use super::abi::{attr_flag, misc, record_type};
use super::auxtrace::{Block, CounterClock, TraceHeader};
use super::bytes::Cursor;
use super::events::{EventAttributes, EventTable, Trailer};
use super::header::CaptureHeader;
use super::input::Input;
use super::stream::{RawRecord, RecordStream};
use super::summary::{ReadSummary, SkipReason};
use crate::arm_spe::{self, Events, Midr, Window};
use crate::model::{
    BranchEntry, Callchain, CpuId, Cycles, EventIndex, Period, Pid, Record, Sample, Tid, VirtualAddress,
    Weight,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Range;

/// Bytes of all buffers that are held at once, and of one of them.
const WINDOWS_LIMIT: usize = 64 << 20;
const WINDOW_SIZES: std::ops::RangeInclusive<usize> = 4096..=65536;

/// Maximum number of buffers with their own queue: no machine has more CPUs.
const BUFFER_LIMIT: usize = 1 << 14;

/// Maximum number of pieces: perf writes one per CPU and round. They take 40 MiB.
const BLOCK_LIMIT: usize = 1 << 20;

/// The traces of one pass.
pub(super) struct Traces<'a> {
    input: &'a Input,
    clock: Option<CounterClock>,
    processors: &'a HashMap<u32, Midr>,
    /// Of CPUs without an entry of their own.
    processor: Midr,
    event: EventIndex,
    period: Period,
    contexts: Contexts,
    admitted: Admitted,
    /// In time order: every buffer, and the index of each by its number.
    queues: Vec<Queue>,
    places: HashMap<u32, usize>,
    /// `(time, queue)` of the next sample of each.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl<'a> Traces<'a> {
    /// The traces of a capture; `None` if it has none that can be decoded.
    pub(super) fn new(
        input: &'a Input,
        announced: &'a TraceHeader,
        header: &CaptureHeader,
        events: &[EventAttributes],
    ) -> Option<Traces<'a>> {
        let pmu_type = announced.pmu_type?;
        // A machine with different kinds of cores has a PMU for each; their events are alike.
        let event = events
            .iter()
            .position(|event| event.attr.event_type == pmu_type)
            .or_else(|| events.iter().position(|event| event.name.starts_with("arm_spe")))?;
        let attr = &events[event].attr;
        let period = if attr.has(attr_flag::FREQ) { 1 } else { attr.sample_period.max(1) };
        Some(Traces {
            input,
            clock: announced.clock,
            processors: &announced.processors,
            processor: header.cpu_id.as_deref().and_then(Midr::parse).unwrap_or_default(),
            event: EventIndex(event),
            period: Period(period),
            contexts: Contexts::default(),
            admitted: Admitted::default(),
            queues: Vec::new(),
            places: HashMap::new(),
            next: BinaryHeap::new(),
        })
    }

    /// Locates all traces, for reading them in time order.
    pub(super) fn find(&mut self, stream: &mut RecordStream<'_>, table: &mut EventTable) -> io::Result<()> {
        // The pass itself reports damage of the file.
        let mut unused = ReadSummary::default();
        let mut newest = 0;
        while stream.advance(&mut unused)? {
            let record = stream.current();
            match record.kind {
                record_type::AUXTRACE => {
                    let block = Block::decode(record, stream.payload());
                    let Some(block) = block.filter(|block| self.admitted.admit(block)) else { continue };
                    let place = *self.places.entry(block.buffer).or_insert_with(|| {
                        self.queues.push(Queue::default());
                        self.queues.len() - 1
                    });
                    self.queues[place].blocks.push_back((block, newest));
                }
                record_type::FIRST_USER.. => {}
                kind => newest = newest.max(table.time_of(kind, record.body).unwrap_or(0)),
            }
        }
        self.admitted = Admitted::default();
        Ok(())
    }

    /// Reads each buffer's first record.
    pub(super) fn begin(&mut self, summary: &mut ReadSummary) -> io::Result<()> {
        (0..self.queues.len()).try_for_each(|place| self.advance(place, summary))
    }

    /// Reads the next record of a buffer and inserts it into the order.
    fn advance(&mut self, place: usize, summary: &mut ReadSummary) -> io::Result<()> {
        let window = (WINDOWS_LIMIT / self.queues.len()).clamp(*WINDOW_SIZES.start(), *WINDOW_SIZES.end());
        let queue = &mut self.queues[place];
        if let Some(record) = queue.read(self.input, window, summary)? {
            let told = record.timestamp.zip(self.clock).map(|(ticks, clock)| clock.time(ticks).0);
            // Never earlier than its predecessor: a buffer is written in time order.
            queue.time = queue.time.max(told.unwrap_or(queue.not_before));
            self.next.push(Reverse((queue.time, place)));
            queue.record = Some(record);
        }
        Ok(())
    }

    /// The next sample, if it is older than `time`; `None` for `time`: any sample.
    pub(super) fn due(
        &mut self,
        time: Option<u64>,
        summary: &mut ReadSummary,
    ) -> io::Result<Option<Sample<'static>>> {
        let Some(Reverse((oldest, place))) = self.next.peek().copied() else { return Ok(None) };
        if time.is_some_and(|time| oldest >= time) {
            return Ok(None);
        }
        self.next.pop();
        let queue = &mut self.queues[place];
        let record = queue.record.take().expect("what is in the heap has been read");
        let (tid, cpu) = (queue.tid, queue.cpu);
        self.advance(place, summary)?;
        Ok(Some(self.sample(&record, tid, cpu)))
    }

    /// Delivers the samples of one record's payload in file order.
    pub(super) fn in_place(
        &mut self,
        record: RawRecord<'_>,
        payload: Range<u64>,
        summary: &mut ReadSummary,
        outlet: &mut dyn FnMut(Sample<'static>, &mut ReadSummary) -> bool,
    ) -> io::Result<()> {
        let Some(block) = Block::decode(record, payload) else { return Ok(()) };
        if !self.admit(&block, summary) {
            return Ok(());
        }
        let (tid, cpu) = (block.tid, block.cpu);
        let mut reading = Reading::new(block);
        while let Some(record) = reading.next(self.input, *WINDOW_SIZES.end())? {
            if !outlet(self.sample(&record, tid, cpu), summary) {
                return Ok(());
            }
        }
        reading.finish(summary);
        Ok(())
    }

    /// Whether a block is read; skipped ones are added to the summary.
    pub(super) fn admit(&mut self, block: &Block, summary: &mut ReadSummary) -> bool {
        let admitted = self.admitted.admit(block);
        if !admitted {
            summary.skip(SkipReason::DamagedTrace, block.payload.end - block.payload.start);
        }
        admitted
    }

    /// Processes a context switch.
    pub(super) fn observe(&mut self, raw: RawRecord<'_>, trailer: Trailer) {
        self.contexts.switch(raw, trailer);
    }

    /// Records which process a thread belongs to.
    pub(super) fn observe_decoded(&mut self, record: &Record<'_>) {
        self.contexts.learn(record);
    }

    fn sample(&self, record: &arm_spe::Record, tid: Option<i32>, cpu: Option<u32>) -> Sample<'static> {
        let processor = cpu.and_then(|cpu| self.processors.get(&cpu)).copied().unwrap_or(self.processor);
        let (pid, tid) = self.contexts.of(record.context, cpu, tid);
        let branch = record.branch_target.map(|to| BranchEntry {
            from: record.instruction.unwrap_or_default(),
            to,
            // The first two bits of perf_event's flags: mispredicted, predicted.
            flags: if record.events.has(Events::MISPREDICTED) { 1 } else { 2 },
        });
        let latency = record.total_latency.map(|cycles| Cycles(cycles.into()));
        Sample {
            event: self.event,
            mode: record.mode(),
            exact_ip: true,
            ip: record.instruction,
            pid: pid.map(Pid),
            tid: tid.map(Tid),
            time: record.timestamp.zip(self.clock).map(|(ticks, clock)| clock.time(ticks)),
            address: record.data_address.filter(|address| *address != VirtualAddress(0)),
            cpu: cpu.map(CpuId),
            period: self.period,
            callchain: Callchain::default(),
            read: Vec::new(),
            raw: None,
            branches: branch.into_iter().collect(),
            registers: None,
            user_registers: None,
            user_stack: None,
            weight: latency.map(|latency| Weight { latency, ..Weight::default() }),
            data_source: record.data_source_word(processor),
            transaction: None,
            physical_address: record.physical_address.filter(|address| address.0 != 0),
            cgroup: None,
            data_page_size: None,
            code_page_size: None,
            aux: None,
        }
    }
}

/// The filter of the blocks to read; shared by both orders, so that both read the same.
#[derive(Default)]
struct Admitted {
    blocks: usize,
    buffers: HashSet<u32>,
}

impl Admitted {
    fn admit(&mut self, block: &Block) -> bool {
        if block.payload.is_empty() || self.blocks >= BLOCK_LIMIT {
            return false;
        }
        if !self.buffers.contains(&block.buffer) {
            if self.buffers.len() >= BUFFER_LIMIT {
                return false;
            }
            self.buffers.insert(block.buffer);
        }
        self.blocks += 1;
        true
    }
}

/// One trace buffer, in the order of time.
#[derive(Default)]
struct Queue {
    /// The remaining blocks, each with the time of the newest record before it.
    blocks: VecDeque<(Block, u64)>,
    reading: Option<Reading>,
    not_before: u64,
    tid: Option<i32>,
    cpu: Option<u32>,
    /// The next record, and its time.
    record: Option<arm_spe::Record>,
    time: u64,
}

impl Queue {
    fn read(
        &mut self,
        input: &Input,
        window: usize,
        summary: &mut ReadSummary,
    ) -> io::Result<Option<arm_spe::Record>> {
        loop {
            if let Some(reading) = &mut self.reading {
                if let Some(record) = reading.next(input, window)? {
                    return Ok(Some(record));
                }
                reading.finish(summary);
                self.reading = None;
            }
            let Some((block, newest)) = self.blocks.pop_front() else { return Ok(None) };
            (self.tid, self.cpu, self.not_before) = (block.tid, block.cpu, newest);
            self.reading = Some(Reading::new(block));
        }
    }
}

/// One block, in a window that slides over it.
struct Reading {
    /// The unread part of it.
    unread: Range<u64>,
    window: Window,
}

impl Reading {
    fn new(block: Block) -> Reading {
        Reading { unread: block.payload, window: Window::at(block.offset) }
    }

    fn next(&mut self, input: &Input, window: usize) -> io::Result<Option<arm_spe::Record>> {
        loop {
            let record = self.window.next_record();
            if record.is_some() || !self.fill(input, window)? {
                return Ok(record);
            }
        }
    }

    /// Reads more; `false` at the end.
    fn fill(&mut self, input: &Input, window: usize) -> io::Result<bool> {
        let bytes = self.window.rest();
        let left = usize::try_from(self.unread.end - self.unread.start).unwrap_or(usize::MAX);
        let kept = bytes.len();
        bytes.resize(kept + left.min(window - kept), 0);
        let count = input.read_at(&mut bytes[kept..], self.unread.start)?;
        bytes.truncate(kept + count);
        self.unread.start += count as u64;
        Ok(count > 0)
    }

    fn finish(&mut self, summary: &mut ReadSummary) {
        let lost = self.window.finish();
        summary.skip(SkipReason::DamagedTrace, lost.bytes);
    }
}

/// The thread on each CPU, for traces without thread ids.
#[derive(Default)]
struct Contexts {
    processes: HashMap<i32, i32>,
    /// Process and thread, by CPU.
    running: HashMap<u32, (i32, i32)>,
}

impl Contexts {
    fn learn(&mut self, record: &Record<'_>) {
        match record {
            Record::Comm(comm) => self.processes.insert(comm.tid.0, comm.pid.0),
            Record::Fork(fork) => self.processes.insert(fork.tid.0, fork.pid.0),
            Record::Mmap(mmap) if mmap.pid.0 >= 0 => self.processes.insert(mmap.tid.0, mmap.pid.0),
            _ => None,
        };
    }

    /// A context switch record: the thread that runs on a CPU from now on.
    fn switch(&mut self, raw: RawRecord<'_>, trailer: Trailer) {
        let Some(cpu) = trailer.cpu(raw.body) else { return };
        let own = &raw.body[..raw.body.len().saturating_sub(trailer.length)];
        let told = || Cursor::new(own).u32_pair().map(|(pid, tid)| (pid as i32, tid as i32));
        let leaves = raw.misc & misc::SWITCH_OUT != 0;
        let runs = match raw.kind {
            record_type::ITRACE_START => told(),
            record_type::SWITCH_CPU_WIDE if leaves => told(), // who comes
            record_type::SWITCH if leaves => None,
            record_type::SWITCH | record_type::SWITCH_CPU_WIDE => trailer.thread(raw.body),
            _ => return,
        };
        match runs {
            Some(runs) => self.running.insert(cpu, runs),
            None => self.running.remove(&cpu),
        };
    }

    /// Process and thread of a sample: from the trace, else from context switches, else from the recorder.
    fn of(&self, context: Option<u32>, cpu: Option<u32>, tid: Option<i32>) -> (Option<i32>, Option<i32>) {
        let running = || cpu.and_then(|cpu| self.running.get(&cpu)).copied();
        match (context, running()) {
            (None, Some((pid, tid))) => (Some(pid), Some(tid)),
            (context, _) => match context.map(|context| context as i32).or(tid) {
                Some(0) => (Some(0), Some(0)), // the idle loop
                Some(tid) => (self.processes.get(&tid).copied(), Some(tid)),
                None => (None, None),
            },
        }
    }
}
