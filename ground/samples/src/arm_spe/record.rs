//! From packets to records: one sampled operation each.
//!
//! ```text
//!  address(0) counter(0..) operation events source address(2,3) context | timestamp or end | padding | address(0) ...
//!  └───────────────────────────── one record ────────────────────────────────────────────┘
//! ```
//! Packets may come in any order, except for the last. A record is returned only if all its packets were valid and
//! one was the instruction's address: missing records do not bias a profile, invented ones do. After an invalid
//! byte, all packets up to the next end of a record are skipped.

use super::packet::{NoPacket, Packet};
use crate::model::{CpuMode, PhysicalAddress, VirtualAddress};

/// Event flags of an operation (`PMSEVFR_EL1` names the same bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Events(pub u64);

#[allow(missing_docs)] // the architecture's own names
impl Events {
    pub const EXCEPTION: Events = Events(1 << 0);
    pub const RETIRED: Events = Events(1 << 1);
    pub const L1D_ACCESS: Events = Events(1 << 2);
    pub const L1D_REFILL: Events = Events(1 << 3);
    pub const TLB_ACCESS: Events = Events(1 << 4);
    pub const TLB_WALK: Events = Events(1 << 5);
    pub const NOT_TAKEN: Events = Events(1 << 6);
    pub const MISPREDICTED: Events = Events(1 << 7);
    pub const LAST_LEVEL_ACCESS: Events = Events(1 << 8);
    pub const LAST_LEVEL_MISS: Events = Events(1 << 9);
    pub const REMOTE_ACCESS: Events = Events(1 << 10);
    pub const MISALIGNED: Events = Events(1 << 11);
    pub const TRANSACTIONAL: Events = Events(1 << 16);
    pub const PARTIAL_PREDICATE: Events = Events(1 << 17);
    pub const EMPTY_PREDICATE: Events = Events(1 << 18);

    /// Whether one of these happened.
    pub fn has(self, any_of: Events) -> bool {
        self.0 & any_of.0 != 0
    }
}

impl std::ops::BitOr for Events {
    type Output = Events;
    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Neither memory nor branch.
    Other {
        /// A vector operation of SVE.
        sve: bool,
        /// Whether it was conditional.
        conditional: bool,
    },
    /// A load or store.
    Memory {
        /// Whether it was a store.
        store: bool,
        /// A read-modify-write in one.
        atomic: bool,
        /// Part of a pair of load-exclusive and store-exclusive.
        exclusive: bool,
        /// Acquire or release.
        ordered: bool,
        /// The registers involved.
        registers: RegisterFile,
    },
    /// A branch or a return from an exception.
    Branch {
        /// Whether it was conditional.
        conditional: bool,
        /// Whether its target came from a register.
        indirect: bool,
    },
    /// A class that the architecture reserves.
    Reserved {
        /// The payload.
        detail: u8,
    },
}

/// The registers of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterFile {
    /// General ones.
    General,
    /// SIMD and floating point.
    Simd,
    /// Vectors of SVE.
    Sve,
    /// Allocation tags of the memory tagging extension.
    Tags,
    /// System registers that a hypervisor keeps in memory.
    System,
    /// None: a copy or fill of memory in one instruction.
    Memory,
    /// Not reported.
    Unknown,
}

impl Operation {
    /// Reads class and payload of an operation packet.
    pub fn new(class: u8, detail: u8) -> Operation {
        let bit = |number: u8| detail >> number & 1 != 0;
        match class {
            0 => {
                let sve = detail & 0x89 == 0x08;
                Operation::Other { sve, conditional: if sve { bit(2) } else { bit(0) } }
            }
            1 => {
                // Bits 7 to 5 zero and bit 1 set: the extended kinds, which include AT, EXCL and AR.
                let extended = detail & 0xe2 == 0x02;
                let registers = match detail & 0xfe {
                    _ if detail & 0x0a == 0x08 => RegisterFile::Sve,
                    0x00 => RegisterFile::General,
                    0x04 => RegisterFile::Simd,
                    0x14 => RegisterFile::Tags,
                    0x30 => RegisterFile::System,
                    0x20 | 0x24 => RegisterFile::Memory,
                    _ if extended => RegisterFile::General,
                    _ => RegisterFile::Unknown,
                };
                Operation::Memory {
                    store: bit(0),
                    atomic: extended && bit(2),
                    exclusive: extended && bit(3),
                    ordered: extended && bit(4),
                    registers,
                }
            }
            2 => Operation::Branch { conditional: bit(0), indirect: bit(1) },
            _ => Operation::Reserved { detail },
        }
    }
}

/// The exception level in which an instruction ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExceptionLevel {
    /// 0 program, 1 kernel, 2 hypervisor or a kernel that is its own hypervisor, 3 firmware.
    pub level: u8,
    /// Whether it ran in the non-secure state.
    pub non_secure: bool,
}

/// One sampled operation. Fields that the processor did not record are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The instruction.
    pub instruction: Option<VirtualAddress>,
    /// The exception level.
    pub level: Option<ExceptionLevel>,
    /// The target of a taken branch.
    pub branch_target: Option<VirtualAddress>,
    /// The target of the previous branch (since version 1.2 of the extension).
    pub last_target: Option<VirtualAddress>,
    /// The data address, without its tag.
    pub data_address: Option<VirtualAddress>,
    /// The top byte of the data address, which programs may use for themselves.
    pub tag: u8,
    /// The physical data address.
    pub physical_address: Option<PhysicalAddress>,
    /// Its event flags.
    pub events: Events,
    /// Its kind.
    pub operation: Option<Operation>,
    /// Cycles from dispatch to the end.
    pub total_latency: Option<u16>,
    /// Cycles from dispatch to issue.
    pub issue_latency: Option<u16>,
    /// Cycles for the translation of the data address.
    pub translation_latency: Option<u16>,
    /// `CONTEXTIDR`: the thread id, if the kernel writes it there and the recorder is allowed to see it.
    pub context: Option<u32>,
    /// The source that served the load, in the processor's own numbering: see [`super::source`].
    pub data_source: Option<u16>,
    /// The time in ticks of the system counter.
    pub timestamp: Option<u64>,
}

/// Number of address bits in an address payload; the top byte has attributes.
const ADDRESS_BITS: u32 = 56;

/// A 64-bit address from its lower 56 bits: bit 55 selects user or kernel space.
fn virtual_address(payload: u64) -> VirtualAddress {
    let unused = 64 - ADDRESS_BITS;
    VirtualAddress(((payload << unused) as i64 >> unused) as u64)
}

impl Record {
    fn take(&mut self, packet: Packet) {
        match packet {
            Packet::Padding | Packet::End => {}
            Packet::Timestamp(ticks) => self.timestamp = Some(ticks),
            Packet::Events(bits) => self.events = Events(bits),
            Packet::DataSource(source) => self.data_source = Some(source),
            Packet::Context { id, .. } => self.context = Some(id),
            Packet::Operation { class, detail } => self.operation = Some(Operation::new(class, detail)),
            Packet::Address { index, payload } => self.take_address(index, payload),
            Packet::Counter { index: 0, cycles } => self.total_latency = Some(cycles),
            Packet::Counter { index: 1, cycles } => self.issue_latency = Some(cycles),
            Packet::Counter { index: 2, cycles } => self.translation_latency = Some(cycles),
            // Newer versions of the architecture, or a processor's own.
            Packet::Counter { .. } => {}
        }
    }

    fn take_address(&mut self, index: u8, payload: u64) {
        match index {
            0 => {
                self.instruction = Some(virtual_address(payload));
                self.level =
                    Some(ExceptionLevel { level: (payload >> 61 & 3) as u8, non_secure: payload >> 63 != 0 });
            }
            1 => self.branch_target = Some(virtual_address(payload)),
            2 => {
                self.data_address = Some(virtual_address(payload));
                self.tag = (payload >> ADDRESS_BITS) as u8;
            }
            3 => self.physical_address = Some(PhysicalAddress(payload & ((1 << ADDRESS_BITS) - 1))),
            4 => self.last_target = Some(virtual_address(payload)),
            _ => {}
        }
    }

    /// The mode, as perf_event names it.
    pub fn mode(&self) -> CpuMode {
        let high = self.instruction.is_some_and(|address| address.0 >> 63 != 0);
        match self.level.map(|level| level.level) {
            Some(0) => CpuMode::User,
            // Linux runs in EL2 where it is its own hypervisor, always in the upper half of the addresses.
            Some(1) => CpuMode::Kernel,
            Some(2) if high => CpuMode::Kernel,
            Some(2) => CpuMode::Hypervisor,
            _ => CpuMode::Unknown,
        }
    }
}

/// The parts of a trace that could not be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Bytes of records that were invalid or incomplete, and of gaps between records.
    pub bytes: u64,
    /// Places where this happened.
    pub places: u64,
}

/// Collects packets into records, over any number of pieces of one trace.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    record: Record,
    /// Bytes of the record so far.
    record_length: u64,
    /// After damage: packets are skipped until the end of a record.
    lost: bool,
    /// Bytes of padding beyond the end of the last input.
    to_skip: u64,
    losses: Losses,
}

/// The result of decoding the front of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record ends after this many bytes.
    Record(Record, usize),
    /// No record ends in it; this number of bytes was consumed, and the rest begins an incomplete packet.
    Rest(usize),
}

impl Decoder {
    /// Decodes up to the end of a record. `at`: where the first byte lies in the trace buffer.
    ///
    /// Pass bytes that were not consumed again, followed by more. A [`Step::Rest`] leaves fewer than
    /// [`super::packet::LONGEST`] bytes.
    pub fn step(&mut self, bytes: &[u8], at: u64) -> Step {
        let mut taken = usize::try_from(self.to_skip).unwrap_or(usize::MAX).min(bytes.len());
        self.to_skip -= taken as u64;
        while taken < bytes.len() {
            let (packet, length) = match Packet::read(&bytes[taken..], at.wrapping_add(taken as u64)) {
                Ok(found) => found,
                Err(NoPacket::Incomplete) => break,
                Err(NoPacket::Reserved) => {
                    self.give_up_record();
                    self.losses.bytes += 1;
                    taken += 1;
                    continue;
                }
            };
            let inside = length.min(bytes.len() - taken);
            self.to_skip = (length - inside) as u64;
            taken += inside;
            if self.lost {
                // The end of a damaged record is part of the damage; padding belongs to no record.
                if packet != Packet::Padding {
                    self.losses.bytes += length as u64;
                }
                self.lost = !matches!(packet, Packet::End | Packet::Timestamp(_));
                continue;
            }
            if packet == Packet::Padding {
                continue;
            }
            // A record has one instruction: a second one means that the end of the previous record is missing.
            if self.record.instruction.is_some() && matches!(packet, Packet::Address { index: 0, .. }) {
                self.give_up_record();
                self.lost = false;
            }
            self.record.take(packet);
            self.record_length += length as u64;
            if matches!(packet, Packet::End | Packet::Timestamp(_)) {
                let length = std::mem::take(&mut self.record_length);
                let record = std::mem::take(&mut self.record);
                if record.instruction.is_some() {
                    return Step::Record(record, taken);
                }
                self.losses.bytes += length;
                self.losses.places += 1;
            }
        }
        Step::Rest(taken)
    }

    /// Ends a trace whose last `left` bytes could not be decoded; returns the losses of the whole trace. An
    /// incomplete record is lost: later packets belong to another place and time.
    pub fn finish(&mut self, left: usize) -> Losses {
        if self.record_length > 0 || left > 0 {
            self.give_up_record();
            self.losses.bytes += left as u64;
        }
        std::mem::take(self).losses
    }

    fn give_up_record(&mut self) {
        self.losses.places += u64::from(!self.lost);
        self.losses.bytes += std::mem::take(&mut self.record_length);
        self.record = Record::default();
        self.lost = true;
    }
}

/// A window that slides over a trace: bytes are appended in pieces of any length, and its records come out.
#[derive(Clone, Debug, Default)]
pub struct Window {
    bytes: Vec<u8>,
    /// The decoded part of the bytes, and its end in the buffer of the trace.
    start: usize,
    at: u64,
    decoder: Decoder,
}

impl Window {
    /// A window on a trace that begins at this offset of its buffer.
    pub fn at(offset: u64) -> Window {
        Window { at: offset, ..Window::default() }
    }

    /// The next record that the bytes hold completely.
    pub fn next_record(&mut self) -> Option<Record> {
        let (taken, record) = match self.decoder.step(&self.bytes[self.start..], self.at) {
            Step::Record(record, taken) => (taken, Some(record)),
            Step::Rest(taken) => (taken, None),
        };
        self.start += taken;
        self.at = self.at.wrapping_add(taken as u64);
        record
    }

    /// The bytes that are not decoded yet; more are to be appended.
    pub fn rest(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.start));
        &mut self.bytes
    }

    /// What was lost, if the trace ends here.
    pub fn finish(&mut self) -> Losses {
        let rest = self.rest().len();
        self.decoder.finish(rest)
    }
}

/// Decodes a whole trace that begins at offset 0 of its buffer.
pub fn decode(trace: &[u8], receiver: &mut dyn FnMut(&Record)) -> Losses {
    let mut decoder = Decoder::default();
    let mut start = 0;
    loop {
        match decoder.step(&trace[start..], start as u64) {
            Step::Record(record, taken) => {
                receiver(&record);
                start += taken;
            }
            Step::Rest(taken) => return decoder.finish(trace.len() - start - taken),
        }
    }
}

#[cfg(test)]
mod tests;
