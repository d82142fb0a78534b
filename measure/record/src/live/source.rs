//! Converts the kernel's samples of time to samples of loads, before they are written to the file.
//!
//! ```text
//!   from the kernel   header | IDENTIFIER IP TID TIME      CPU [chain] abi registers     (REGS_USER)
//!   stall             header | IDENTIFIER IP TID TIME ADDR CPU [chain] raw abi registers     (REGS_INTR)
//!                              IP: the load; ADDR: its data address, 0 if not known
//!   other-cpu         header | IDENTIFIER IP TID TIME      CPU [chain] raw abi registers     under another id
//!                              raw: the statement, if it is known (`ServerState`), else four unused bytes
//! ```

use super::at_sample::Readers;
use super::calibrate::Calibration;
use super::state::StatementRules;
use super::statements::{wall_clock_ahead, StatementNames};
use super::waits::Waits;
use crate::pmu::open::OpenError;
use crate::pmu::plan::SamplingPlan;
use crate::pmu::recorder::KernelSource;
use crate::source::{DrainError, EventCount, RecordSink, RecordSource};
use crate::usdt::StatementProbes;
use hardmeter_samples::model::{
    Architecture, EventSource, Landing, Pid, ProcessTime, Record, Registers, StallCounts, StallNotes,
    StateRule, Timestamp, VirtualAddress, OTHER_CPU_EVENT, STALL_EVENT,
};
use hardmeter_samples::perf_data::abi::{misc, record_type, sample_type, PerfEventAttr};
use hardmeter_samples::perf_data::{decode_record, EventAttributes};
use hardmeter_samples::sidecar::Statement;
use std::collections::HashSet;
use std::os::fd::RawFd;
use std::time::Duration;

/// The instruction that ran before a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A load at this address of its process, with its data address.
    Load(VirtualAddress, VirtualAddress),
    /// A load whose address register was overwritten.
    Overwritten(VirtualAddress),
    /// A load relative to `%fs` or `%gs`.
    Segment(VirtualAddress),
    /// A load of several addresses.
    Several(VirtualAddress),
    /// An instruction that is not a load.
    NoLoad,
    /// The code is not available.
    NoCode,
    /// The sample is outside all functions, or not at an instruction.
    NoFunction,
    /// A function was entered, a call returned, or a jump table leads here.
    Entry,
    /// Control arrives from several loads.
    Join,
}

/// Finds loads in the code of the profiled processes.
pub trait LoadFinder {
    /// Records a mapping, name, fork or exit.
    fn observe(&mut self, record: &Record<'_>);
    /// Opens the files of all mapped code, before rights are dropped.
    fn open_images(&mut self);
    /// Finds the load that a user-mode sample waited for.
    fn find(&mut self, pid: Pid, ip: VirtualAddress, registers: &Registers<'_>, landing: Landing) -> Finding;
}

/// Creates a finder; a plain function, so that requests stay plain data.
pub type MakeLoadFinder = fn() -> Box<dyn LoadFinder>;

/// Set in the ids of the event `other-cpu`: the kernel counts its ids from 1.
const OTHER: u64 = 1 << 63;
/// Words of a kernel's sample before the one that is inserted: header, IDENTIFIER, IP, TID, TIME.
const BEFORE_ADDRESS: usize = 40;
/// An empty RAW field: its size, and the bytes that fill it to eight.
const NO_RAW: [u8; 8] = [4, 0, 0, 0, 0, 0, 0, 0];
/// Short enough for the observer, which must see addresses soon after the access.
const INTERVAL: Duration = Duration::from_millis(100);

/// A live recording.
pub struct LiveSource {
    kernel: KernelSource,
    finder: Box<dyn LoadFinder>,
    calibration: Calibration,
    period_ns: u64,
    /// The event's attribute in the kernel.
    attr: PerfEventAttr,
    ids: HashSet<u64>,
    counts: StallCounts,
    preamble: Vec<u8>,
    /// The records of one drain, one after the other.
    round: Vec<u8>,
    waits: Waits,
    /// Readers of the statement at each sample; `None` if probes report statements, or no thread can be
    /// created.
    readers: Option<Readers>,
    names: StatementNames,
    reads_statements: bool,
    /// The wall clock minus the clock of samples, in nanoseconds.
    ahead: i64,
}

impl LiveSource {
    /// Opens everything, stopped. The first event of the plan is the clock.
    ///
    /// # Errors
    /// Names the event that the kernel refused, and the remedy.
    pub fn open(
        plan: &SamplingPlan,
        statements: Option<StatementProbes>,
        calibration: Calibration,
        mut finder: Box<dyn LoadFinder>,
    ) -> Result<LiveSource, OpenError> {
        let mut kernel = KernelSource::open(plan, statements)?;
        // Without readers the samples have no statement, but are still useful.
        let readers =
            calibration.with_readers.then(|| kernel.watches().and_then(Readers::start).ok()).flatten();
        let preamble = kernel.preamble();
        let clock = kernel.attributes().swap_remove(0);
        for record in records(&preamble) {
            if let Some(record) = decode_record(&clock.attr, record) {
                finder.observe(&record);
            }
        }
        finder.open_images();
        Ok(LiveSource {
            kernel,
            finder,
            calibration,
            period_ns: clock.attr.sample_period,
            attr: clock.attr,
            ids: clock.ids.into_iter().collect(),
            counts: StallCounts::default(),
            preamble,
            round: Vec::new(),
            waits: Waits::default(),
            readers,
            names: StatementNames::default(),
            reads_statements: false,
            ahead: wall_clock_ahead(),
        })
    }

    /// One sample of the clock, as a sample of one of the two events.
    fn convert(&mut self, record: &[u8]) -> Vec<u8> {
        let word = |at: usize| {
            record.get(at..at + 8).map_or(0, |word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        };
        let (id, ip, process) = (word(8), VirtualAddress(word(16)), Pid(word(24) as u32 as i32));
        let mode = u16::from_ne_bytes([record[4], record[5]]) & misc::CPUMODE_MASK;
        let finding = match (mode, registers(record, self.attr.sample_regs_user)) {
            (misc::USER, Some(registers)) => {
                Some(self.finder.find(process, ip, &registers, self.calibration.landing))
            }
            (misc::USER, None) => Some(Finding::NoCode), // 32-bit code, for example
            _ => None,
        };
        let raw = self.raw(record);
        let (head, tail) = record.split_at(self.end_of_chain(record));
        let mut sample = Vec::with_capacity(record.len() + 8 + raw.len());
        match count(&mut self.counts, finding) {
            Some((load, address)) => {
                sample.extend_from_slice(&head[..BEFORE_ADDRESS]);
                sample.extend(address.map_or(0, |address| address.0).to_ne_bytes());
                sample.extend_from_slice(&head[BEFORE_ADDRESS..]);
                let misc_field = u16::from_ne_bytes([record[4], record[5]]) | misc::EXACT_IP;
                sample[4..6].copy_from_slice(&misc_field.to_ne_bytes());
                sample[16..24].copy_from_slice(&load.0.to_ne_bytes());
            }
            None => {
                sample.extend_from_slice(head);
                sample[8..16].copy_from_slice(&(id | OTHER).to_ne_bytes());
            }
        }
        sample.extend_from_slice(&raw);
        sample.extend_from_slice(tail);
        let length = sample.len() as u16;
        sample[6..8].copy_from_slice(&length.to_ne_bytes());
        sample
    }
    /// The end of a sample's call chain, where its register data begins.
    fn end_of_chain(&self, record: &[u8]) -> usize {
        let behind_cpu = BEFORE_ADDRESS + 8;
        let length = match record.get(behind_cpu..behind_cpu + 8) {
            Some(frames) if self.attr.sample_type & sample_type::CALLCHAIN != 0 => {
                let frames = u64::from_ne_bytes(frames.try_into().expect("eight bytes"));
                usize::try_from(frames).ok().and_then(|frames| frames.checked_mul(8)?.checked_add(8))
            }
            _ => Some(0),
        };
        length
            .and_then(|length| length.checked_add(behind_cpu))
            .map_or(record.len(), |at| at.min(record.len()))
    }

    /// The field RAW of a sample: the statement, if it is known.
    fn raw(&mut self, record: &[u8]) -> Vec<u8> {
        if self.readers.is_none() {
            return Vec::new();
        }
        let word = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
        let (time, cpu) = (Timestamp(word(BEFORE_ADDRESS - 8)), word(BEFORE_ADDRESS) as u32);
        let state = self.reads_statements.then(|| self.names.of_sample(cpu, time, self.ahead)).flatten();
        match state {
            Some(state) => [(state.len() as u32).to_ne_bytes().as_slice(), &state].concat(),
            None => NO_RAW.to_vec(),
        }
    }

    fn is_clock(&self, record: &[u8]) -> bool {
        let kind = record.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind));
        let id = record.get(8..16).map(|id| u64::from_ne_bytes(id.try_into().expect("eight bytes")));
        kind == Some(record_type::SAMPLE)
            && record.len() >= BEFORE_ADDRESS + 8
            && id.is_some_and(|id| self.ids.contains(&id))
    }
}

impl LiveSource {
    /// The share of samples with a known statement, unless it is nearly all.
    fn note_of_statements(&self) -> Option<String> {
        let readers = self.readers.as_ref().filter(|_| self.reads_statements)?;
        let outcomes = self.names.outcomes;
        let all = outcomes.known + outcomes.late + outcomes.unread;
        let short = all > 0 && (all - outcomes.known) * 20 > all;
        let remedy = match readers.may_be_late() {
            true => ": run as root, so that the readers have real-time priority",
            false => "",
        };
        short.then(|| {
            format!(
                "the statement is known at {} of {all} samples; at {} the next one had begun, at {} the process was not \
                 read in time ({} reads failed){remedy}",
                outcomes.known,
                outcomes.late,
                outcomes.unread,
                readers.refused()
            )
        })
    }
}

/// Counts the result for a sample; for a load, returns its address and its data address.
fn count(
    counts: &mut StallCounts,
    finding: Option<Finding>,
) -> Option<(VirtualAddress, Option<VirtualAddress>)> {
    let (counter, load) = match finding {
        None => (&mut counts.kernel, None),
        Some(Finding::Load(load, address)) => (&mut counts.with_address, Some((load, Some(address)))),
        Some(Finding::Overwritten(load)) => (&mut counts.overwritten, Some((load, None))),
        Some(Finding::Segment(load)) => (&mut counts.segment, Some((load, None))),
        Some(Finding::Several(load)) => (&mut counts.several, Some((load, None))),
        Some(Finding::NoLoad) => (&mut counts.no_load, None),
        Some(Finding::NoCode) => (&mut counts.no_code, None),
        Some(Finding::NoFunction) => (&mut counts.no_function, None),
        Some(Finding::Entry) => (&mut counts.entry, None),
        Some(Finding::Join) => (&mut counts.join, None),
    };
    *counter += 1;
    load
}

/// The registers at the end of a sample, if they are those of 64-bit code.
fn registers(record: &[u8], mask: u64) -> Option<Registers<'_>> {
    let count = mask.count_ones() as usize;
    let start = record.len().checked_sub(8 * count)?;
    let abi = u64::from_ne_bytes(record.get(start.checked_sub(8)?..start)?.try_into().ok()?);
    let registers = Registers { abi, mask, values: record[start..].as_chunks::<8>().0 };
    // A sample without registers ends with its `abi`, zero: these bytes are then something else.
    let ip = u64::from_ne_bytes(record.get(16..24)?.try_into().ok()?);
    let recorded = registers.get_index(Architecture::HOST?.instruction_pointer());
    (abi == 2 && recorded == Some(ip)).then_some(registers)
}

/// Cuts bytes into records.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let header = bytes.first_chunk::<8>()?;
        let length = usize::from(u16::from_ne_bytes([header[6], header[7]])).max(8);
        let (record, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        Some(record)
    })
}

impl RecordSource for LiveSource {
    fn kind(&self) -> EventSource {
        EventSource::Live
    }

    fn attributes(&self) -> Vec<EventAttributes> {
        let mut events = self.kernel.attributes();
        let clock = &mut events[0];
        if self.readers.is_some() {
            clock.attr.sample_type |= sample_type::RAW;
        }
        let suffix = clock.name.strip_prefix(STALL_EVENT).unwrap_or_default().to_string();
        let other = EventAttributes {
            name: format!("{OTHER_CPU_EVENT}{suffix}"),
            attr: clock.attr,
            ids: clock.ids.iter().map(|id| id | OTHER).collect(),
        };
        clock.attr.sample_type |= sample_type::ADDR | sample_type::REGS_INTR;
        clock.attr.sample_type &= !sample_type::REGS_USER;
        clock.attr.sample_regs_intr = clock.attr.sample_regs_user;
        clock.attr.sample_regs_user = 0;
        events.insert(1, other);
        events
    }

    fn preamble(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.preamble)
    }

    /// None: events of CPUs never end, and they only wake the readers.
    fn wakeups(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn set_state_rules(&mut self, rules: &[StateRule]) {
        let rules = StatementRules::choose(rules);
        self.reads_statements = rules.is_some();
        if let Some(readers) = &self.readers {
            readers.set_target(self.kernel.processes().into_iter());
            readers.set_rules(rules);
        }
    }

    fn hung_up(&mut self, descriptor: RawFd) {
        self.kernel.hung_up(descriptor);
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn drain(&mut self, sink: &mut RecordSink<'_>) -> Result<usize, DrainError> {
        let mut round = std::mem::take(&mut self.round);
        round.clear();
        let bytes = self.kernel.drain(&mut |record| {
            round.extend_from_slice(record);
            Ok(())
        })?;
        if let Some(readers) = &self.readers {
            readers.set_target(self.kernel.processes().into_iter());
            self.names.add(readers.take());
            self.ahead = wall_clock_ahead();
        }
        // A process may be sampled on one CPU before the other CPU's ring reports its fork and its mappings.
        for record in records(&round) {
            if let Some(record) = decode_record(&self.attr, record) {
                self.finder.observe(&record);
            }
        }
        for record in records(&round) {
            match self.is_clock(record) {
                true => sink(&self.convert(record))?,
                false => sink(record)?,
            }
        }
        self.round = round;
        if self.waits.is_due() {
            self.waits.look(self.kernel.processes());
        }
        Ok(bytes)
    }

    fn start(&mut self) -> Result<(), DrainError> {
        self.waits.look(self.kernel.processes());
        self.kernel.start()
    }

    fn begin_capture(&mut self) {
        self.kernel.begin_capture();
        self.counts = StallCounts::default();
        self.names.begin_capture();
        self.waits = Waits::default();
        self.waits.look(self.kernel.processes());
    }

    fn stop(&mut self) {
        self.kernel.stop();
        self.waits.look(self.kernel.processes());
    }

    fn is_finished(&self) -> bool {
        self.kernel.is_finished()
    }

    fn counts(&self) -> Vec<EventCount> {
        Vec::new() // nanoseconds of whole CPUs, including other processes
    }

    fn stall(&self) -> Option<StallNotes> {
        Some(StallNotes {
            period_ns: self.period_ns,
            sample_cost_ns: self.calibration.sample_cost_ns,
            landing: self.calibration.landing,
            skid: self.calibration.skid.clone(),
            counts: self.counts,
        })
    }

    fn times(&self) -> Vec<ProcessTime> {
        self.waits.times()
    }

    fn statements(&self) -> Vec<Statement> {
        self.names.statements()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.kernel.notes();
        notes.extend(self.note_of_statements());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ip: u64, chain: &[u64], abi: u64, registers: &[u64]) -> Vec<u8> {
        let mut words = vec![7, ip, 17 | 18 << 32, 100, 0];
        words.extend(chain);
        words.push(abi);
        words.extend(registers);
        let mut bytes = record_type::SAMPLE.to_ne_bytes().to_vec();
        bytes.extend(misc::USER.to_ne_bytes());
        bytes.extend(((8 + words.len() * 8) as u16).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn registers_are_those_of_64_bit_code_or_none() {
        // Register 0 is rax or x0.
        let Some(machine) = Architecture::HOST else { return };
        let mask = 1 | 1 << machine.instruction_pointer();
        let whole = sample(0x401000, &[], 2, &[5, 0x401000]);
        assert_eq!(registers(&whole, mask).and_then(|registers| registers.get_index(0)), Some(5));
        let with_chain = sample(0x401000, &[1, 0x401000], 2, &[5, 0x401000]);
        assert!(registers(&with_chain, mask).is_some());
        assert!(registers(&sample(0x401000, &[], 1, &[5, 0x401000]), mask).is_none(), "32-bit code");
        assert!(registers(&sample(0x401000, &[], 0, &[]), mask).is_none(), "no registers");
        let cut = (0..whole.len()).filter(|length| registers(&whole[..*length], mask).is_some());
        assert_eq!(cut.count(), 0, "records that were cut short");
    }

    #[test]
    fn each_finding_has_its_counter() {
        let (load, data) = (VirtualAddress(0x401000), VirtualAddress(0x7f00));
        let mut counts = StallCounts::default();
        assert_eq!(count(&mut counts, None), None);
        assert_eq!(count(&mut counts, Some(Finding::Load(load, data))), Some((load, Some(data))));
        assert_eq!(count(&mut counts, Some(Finding::Overwritten(load))), Some((load, None)));
        for nothing in [Finding::NoLoad, Finding::NoCode, Finding::NoFunction, Finding::Entry, Finding::Join]
        {
            assert_eq!(count(&mut counts, Some(nothing)), None);
        }
        assert_eq!((counts.kernel, counts.stalls(), counts.no_load, counts.unknown()), (1, 2, 1, 4));
    }
}
