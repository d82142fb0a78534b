//! One sample: an event at an instruction, with the recorded data.

use super::data_source::DataSource;
use super::event::EventIndex;
use super::record::CpuMode;
use super::registers::Registers;
use super::simulated::{ServerState, SimulatedDetail};
use super::units::{CpuId, Cycles, PageSize, Period, PhysicalAddress, Pid, Tid, Timestamp, VirtualAddress};

/// The cost of an access as the source reports it (`PERF_SAMPLE_WEIGHT`, `PERF_SAMPLE_WEIGHT_STRUCT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight {
    /// Latency of the access, in cycles (`var1_dw`, or the whole word of the older form).
    pub latency: Cycles,
    /// Latency of the whole instruction (`var2_w`), 0 where unknown.
    pub instruction_latency: Cycles,
    /// The third field (`var3_w`), whose meaning depends on the processor; raw.
    pub third: u16,
}

/// One frame of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The return address (of the first frame: the sampled instruction).
    pub address: VirtualAddress,
    /// The mode the frame ran in.
    pub mode: CpuMode,
}

/// A call chain, innermost frame first, borrowed from its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callchain<'a> {
    /// The kernel's entries, context markers included; eight bytes each, in host order.
    pub entries: &'a [[u8; 8]],
}

/// `PERF_CONTEXT_MAX`: entries at or above it are markers, not addresses.
const CONTEXT_MAX: u64 = -4095i64 as u64;

impl<'a> Callchain<'a> {
    /// Frames with their mode, markers consumed.
    pub fn frames(&self, initial: CpuMode) -> impl Iterator<Item = Frame> + 'a {
        let mut mode = initial;
        self.entries.iter().filter_map(move |bytes| {
            let word = u64::from_ne_bytes(*bytes);
            if word < CONTEXT_MAX {
                return Some(Frame { address: VirtualAddress(word), mode });
            }
            mode = match word as i64 {
                -32 => CpuMode::Hypervisor,
                -128 => CpuMode::Kernel,
                -512 => CpuMode::User,
                -2048 => CpuMode::GuestKernel,
                -2176 => CpuMode::GuestKernel,
                -2560 => CpuMode::GuestUser,
                _ => mode,
            };
            None
        })
    }

    /// Whether no chain was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// One taken branch of a branch stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BranchEntry {
    /// Address of the branch.
    pub from: VirtualAddress,
    /// Its target.
    pub to: VirtualAddress,
    /// The flag word (mispredicted, predicted, in_tx, abort, cycles, type...), raw.
    pub flags: u64,
}

/// One counter value of a `PERF_SAMPLE_READ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReadValue {
    /// The count.
    pub value: u64,
    /// The event's id, when the read format has one.
    pub id: Option<u64>,
    /// Samples lost by the event, when the read format has it.
    pub lost: Option<u64>,
}

/// One sample, decoded from its record. Fields that the event did not record are `None` or empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The event of the capture.
    pub event: EventIndex,
    /// The mode the processor was in.
    pub mode: CpuMode,
    /// Whether the instruction pointer is exact (`PERF_RECORD_MISC_EXACT_IP`), not the interrupt's.
    pub exact_ip: bool,
    /// The instruction.
    pub ip: Option<VirtualAddress>,
    /// The process.
    pub pid: Option<Pid>,
    /// The thread.
    pub tid: Option<Tid>,
    /// The time.
    pub time: Option<Timestamp>,
    /// The data address; `None` if the event does not record it or the hardware had none (0).
    pub address: Option<VirtualAddress>,
    /// The processor.
    pub cpu: Option<CpuId>,
    /// Number of events that this sample stands for: from the record, or the event's fixed period.
    pub period: Period,
    /// The call chain.
    pub callchain: Callchain<'a>,
    /// Counter values read with the sample.
    pub read: Vec<ReadValue>,
    /// The raw field.
    pub raw: Option<&'a [u8]>,
    /// The last taken branches, newest first.
    pub branches: Vec<BranchEntry>,
    /// Registers at the interrupt (PEBS: at the event).
    pub registers: Option<Registers<'a>>,
    /// User-mode registers.
    pub user_registers: Option<Registers<'a>>,
    /// A copy of the user stack, cut to its dynamic size.
    pub user_stack: Option<&'a [u8]>,
    /// The cost.
    pub weight: Option<Weight>,
    /// The kind of the access and what served it.
    pub data_source: Option<DataSource>,
    /// Transactional-memory status, raw.
    pub transaction: Option<u64>,
    /// The physical data address.
    pub physical_address: Option<PhysicalAddress>,
    /// The control group's id.
    pub cgroup: Option<u64>,
    /// Page size behind the data address.
    pub data_page_size: Option<PageSize>,
    /// Page size behind the instruction.
    pub code_page_size: Option<PageSize>,
    /// The AUX field.
    pub aux: Option<&'a [u8]>,
}

impl Sample<'_> {
    /// A sample of an event without any field that a capture may leave out, standing for `period` events.
    pub fn bare(event: EventIndex, mode: CpuMode, period: Period) -> Self {
        Sample {
            event,
            mode,
            exact_ip: false,
            ip: None,
            pid: None,
            tid: None,
            time: None,
            address: None,
            cpu: None,
            period,
            callchain: Callchain::default(),
            read: Vec::new(),
            raw: None,
            branches: Vec::new(),
            registers: None,
            user_registers: None,
            user_stack: None,
            weight: None,
            data_source: None,
            transaction: None,
            physical_address: None,
            cgroup: None,
            data_page_size: None,
            code_page_size: None,
            aux: None,
        }
    }

    /// The additional data of a simulated sample.
    pub fn simulated(&self) -> Option<SimulatedDetail> {
        SimulatedDetail::decode(self.raw?)
    }

    /// The state of the server process, if the sample contains it.
    pub fn server_state(&self) -> Option<ServerState> {
        ServerState::decode(self.raw?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_markers_switch_the_mode_and_are_no_frames() {
        let words: Vec<[u8; 8]> = [-128i64 as u64, 0xffff_ffff_8100_0000, -512i64 as u64, 0x401000, 0x402000]
            .iter()
            .map(|word| word.to_ne_bytes())
            .collect();
        let frames: Vec<Frame> = Callchain { entries: &words }.frames(CpuMode::User).collect();
        assert_eq!(frames.len(), 3);
        assert_eq!(frames[0].mode, CpuMode::Kernel);
        assert_eq!(frames[1], Frame { address: VirtualAddress(0x401000), mode: CpuMode::User });
    }
}
