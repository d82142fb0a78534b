//! Builds the `perf_event_attr` of a resolved event, and the weaker variants to try if the kernel refuses it.

use super::encoding::Encoding;
use hardmeter_samples::model::{Architecture, Period};
use hardmeter_samples::perf_data::abi::PerfEventAttr;
use hardmeter_samples::perf_data::abi::{attr_flag, read_format, sample_type};
use serde::Serialize;
use std::fmt;

/// The sampling rate of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// Every n-th event.
    Period(Period),
    /// The kernel adapts the period to this many samples per second and CPU.
    Frequency(u64),
}

/// The mode of the processor that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Modes {
    /// Programs.
    pub user: bool,
    /// The kernel.
    pub kernel: bool,
}

impl Modes {
    /// Programs and kernel.
    pub const BOTH: Modes = Modes { user: true, kernel: true };
    /// Programs only.
    pub const USER: Modes = Modes { user: true, kernel: false };

    /// The suffix of an event name, empty for both.
    pub fn suffix(self) -> &'static str {
        match (self.user, self.kernel) {
            (true, false) => ":u",
            (false, true) => ":k",
            _ => "",
        }
    }
}

/// The common parameters of all events of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// Record call chains.
    pub callchains: bool,
    /// Follow new threads and child processes.
    pub inherit: bool,
    /// Start counting when the (waiting) command is executed.
    pub enable_on_exec: bool,
    /// Bytes in a ring before the recorder is woken; `None`: at each sample.
    pub wakeup_watermark: Option<u32>,
    /// Features of this kernel.
    pub kernel: KernelFeatures,
}

/// Attribute bits that not every kernel supports; a kernel refuses the whole attribute for one unknown bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelFeatures {
    /// Build ids in MMAP2 records (5.12).
    pub build_id: bool,
    /// Latencies as three fields (5.12).
    pub weight_struct: bool,
    /// A chosen clock (4.1).
    pub clockid: bool,
}

impl KernelFeatures {
    /// All features that Hardmeter uses.
    pub const ALL: KernelFeatures = KernelFeatures { build_id: true, weight_struct: true, clockid: true };
}

/// The general registers in this architecture's numbering (`sample_regs_intr`); 0 on an unsupported architecture.
pub fn register_mask() -> u64 {
    Architecture::HOST.map_or(0, Architecture::general_mask)
}

/// The fields of every sample.
const BASE_FIELDS: u64 = sample_type::IP
    | sample_type::TID
    | sample_type::TIME
    | sample_type::CPU
    | sample_type::PERIOD
    | sample_type::IDENTIFIER;

/// The attribute for sampling an event.
pub fn sampling(encoding: &Encoding, rate: Rate, modes: Modes, common: &Common) -> PerfEventAttr {
    let mut attr = counting(encoding, modes, common);
    attr.sample_type = BASE_FIELDS;
    attr.flags |= attr_flag::SAMPLE_ID_ALL;
    match common.wakeup_watermark {
        Some(bytes) => {
            attr.flags |= attr_flag::WATERMARK;
            attr.wakeup_events = bytes;
        }
        None => attr.wakeup_events = 1,
    }
    match rate {
        Rate::Period(period) => {
            attr.sample_period = period.0;
            // With this field, the kernel (perf_swevent_event) records every software event and ignores the period.
            if encoding.is_software() {
                attr.sample_type &= !sample_type::PERIOD;
            }
        }
        Rate::Frequency(hertz) => {
            attr.sample_period = hertz;
            attr.flags |= attr_flag::FREQ;
        }
    }
    if common.kernel.clockid {
        // Observations of a server and simulated samples use CLOCK_MONOTONIC, too. Cost: PEBS records are processed
        // one by one, since their own time stamps are of another clock.
        attr.flags |= attr_flag::USE_CLOCKID;
        attr.clockid = libc::CLOCK_MONOTONIC;
    }
    if common.callchains {
        attr.sample_type |= sample_type::CALLCHAIN;
    }
    if encoding.data_address {
        attr.sample_type |= sample_type::ADDR | sample_type::DATA_SRC | sample_type::PHYS_ADDR;
        attr.sample_type |=
            if common.kernel.weight_struct { sample_type::WEIGHT_STRUCT } else { sample_type::WEIGHT };
        attr.sample_regs_intr = register_mask();
        if attr.sample_regs_intr != 0 {
            attr.sample_type |= sample_type::REGS_INTR;
        }
    }
    attr.flags |= u64::from(encoding.precise & 3) << attr_flag::PRECISE_IP_SHIFT;
    attr
}

/// The attribute for counting an event without samples.
pub fn counting(encoding: &Encoding, modes: Modes, common: &Common) -> PerfEventAttr {
    let mut attr = PerfEventAttr::new(encoding.event_type, encoding.config);
    attr.config1 = encoding.config1;
    attr.config2 = encoding.config2;
    attr.bp_type = encoding.breakpoint_type;
    attr.read_format = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
    attr.flags = attr_flag::DISABLED | attr_flag::EXCLUDE_GUEST;
    if common.inherit {
        attr.flags |= attr_flag::INHERIT;
    }
    if common.enable_on_exec {
        attr.flags |= attr_flag::ENABLE_ON_EXEC;
    }
    // Our filter replaces the mode bits that an event lacks (AMD IBS).
    if !encoding.no_mode_bits {
        if !modes.user {
            attr.flags |= attr_flag::EXCLUDE_USER | attr_flag::EXCLUDE_HV;
        }
        if !modes.kernel {
            attr.flags |= attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
        }
    }
    attr
}

/// Has the user's registers recorded with each sample.
pub fn record_user_registers(attr: &mut PerfEventAttr) {
    attr.sample_type |= sample_type::REGS_USER;
    attr.sample_regs_user = register_mask();
}

/// Makes an event also report mappings, names, forks and exits. One event per recording does.
pub fn track(attr: &mut PerfEventAttr, data_mappings: bool, kernel: KernelFeatures) {
    attr.flags |=
        attr_flag::MMAP | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::COMM_EXEC | attr_flag::TASK;
    if data_mappings {
        attr.flags |= attr_flag::MMAP_DATA;
    }
    if kernel.build_id {
        attr.flags |= attr_flag::BUILD_ID;
    }
}

/// A concession made to open an event. Reports show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concession {
    /// No physical addresses: they need CAP_PERFMON or perf_event_paranoid < 2.
    PhysicalAddress,
    /// Only programs are sampled: the kernel needs CAP_PERFMON or perf_event_paranoid < 2.
    KernelMode,
    /// The instruction pointer is less exact than requested.
    Precision {
        /// `precise_ip` that was possible.
        granted: u8,
    },
}

impl fmt::Display for Concession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Concession::PhysicalAddress => {
                write!(f, "no physical addresses (they need CAP_PERFMON or perf_event_paranoid < 2)")
            }
            Concession::KernelMode => {
                write!(f, "user mode only (the kernel needs CAP_PERFMON or perf_event_paranoid < 2)")
            }
            Concession::Precision { granted } => write!(
                f,
                "precise_ip {granted}: {}",
                match granted {
                    0 => "the instruction may be a few behind the event, and there is no data address",
                    1 => "constant skid",
                    _ => "zero skid requested",
                }
            ),
        }
    }
}

/// The next weaker attribute to try after `errno`; `None` if no concession remains.
pub fn concede(attr: &PerfEventAttr, errno: i32) -> Option<(PerfEventAttr, Concession)> {
    let mut weaker = *attr;
    match errno {
        libc::EACCES | libc::EPERM => {
            if attr.sample_type & sample_type::PHYS_ADDR != 0 {
                weaker.sample_type &= !sample_type::PHYS_ADDR;
                return Some((weaker, Concession::PhysicalAddress));
            }
            if !attr.has(attr_flag::EXCLUDE_KERNEL) && !attr.has(attr_flag::EXCLUDE_USER) {
                weaker.flags |= attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
                return Some((weaker, Concession::KernelMode));
            }
            None
        }
        // The three errors that perf, too, interprets as insufficient precision.
        libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT if attr.precise_ip() > 0 => {
            let granted = attr.precise_ip() - 1;
            weaker.flags &= !(3 << attr_flag::PRECISE_IP_SHIFT);
            weaker.flags |= u64::from(granted) << attr_flag::PRECISE_IP_SHIFT;
            Some((weaker, Concession::Precision { granted }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common() -> Common {
        Common {
            callchains: false,
            inherit: true,
            enable_on_exec: true,
            wakeup_watermark: Some(1 << 18),
            kernel: KernelFeatures::ALL,
        }
    }

    fn precise_load() -> Encoding {
        Encoding { event_type: 4, config: 0x8d1, data_address: true, precise: 3, ..Encoding::default() }
    }

    #[test]
    fn rights_are_given_up_one_by_one_and_then_no_more() {
        let attr = sampling(&precise_load(), Rate::Period(Period(10_000)), Modes::BOTH, &common());
        let (attr, first) = concede(&attr, libc::EACCES).expect("physical addresses go first");
        assert_eq!(first, Concession::PhysicalAddress);
        assert_eq!(attr.sample_type & sample_type::PHYS_ADDR, 0);
        let (attr, second) = concede(&attr, libc::EACCES).expect("then the kernel");
        assert_eq!(second, Concession::KernelMode);
        assert!(attr.has(attr_flag::EXCLUDE_KERNEL));
        assert_eq!(concede(&attr, libc::EACCES), None);
    }

    #[test]
    fn precision_falls_from_three_to_none() {
        let mut attr = sampling(&precise_load(), Rate::Frequency(1000), Modes::USER, &common());
        assert_eq!(attr.precise_ip(), 3);
        for granted in [2, 1, 0] {
            let (weaker, concession) = concede(&attr, libc::EOPNOTSUPP).expect("still some precision");
            assert_eq!(concession, Concession::Precision { granted });
            assert_eq!(weaker.precise_ip(), granted);
            attr = weaker;
        }
        assert_eq!(concede(&attr, libc::EINVAL), None);
    }

    #[test]
    fn a_memory_sample_has_the_fields_of_a_pebs_record() {
        let attr = sampling(&precise_load(), Rate::Period(Period(10_000)), Modes::USER, &common());
        use sample_type::*;
        assert_eq!(
            attr.sample_type,
            IP | TID
                | TIME
                | ADDR
                | CPU
                | PERIOD
                | DATA_SRC
                | IDENTIFIER
                | PHYS_ADDR
                | WEIGHT_STRUCT
                | if register_mask() == 0 { 0 } else { REGS_INTR }
        );
        assert!(attr.has(attr_flag::EXCLUDE_KERNEL) && !attr.has(attr_flag::EXCLUDE_USER));
        assert_eq!(attr.sample_period, 10_000);
        assert!(!attr.has(attr_flag::FREQ));
    }
}
