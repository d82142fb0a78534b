//! Constants of the kernel's interface: record types, flag bits and `struct perf_event_attr`.
//!
//! Names and values are those of `include/uapi/linux/perf_event.h` (kernel 6.x) and, for record types from 64 up,
//! of perf's own user-space records.

/// Bits of `perf_event_attr.sample_type`: which fields a sample carries.
#[allow(missing_docs)] // PERF_SAMPLE_*, the kernel's own names
pub mod sample_type {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const AUX: u64 = 1 << 20;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// Where and when: in every sample that Hardmeter simulates.
    pub const PLACE: u64 = IDENTIFIER | IP | TID | TIME | ADDR | CPU | PERIOD;
    /// Every bit that this crate decodes.
    pub const KNOWN: u64 = (1 << 25) - 1;
}

/// Bits of `perf_event_attr.read_format`: what a counter reading carries.
#[allow(missing_docs)] // PERF_FORMAT_*
pub mod read_format {
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// Bits of `perf_event_attr.branch_sample_type` that change the layout of a branch stack.
#[allow(missing_docs)] // PERF_SAMPLE_BRANCH_*
pub mod branch_sample_type {
    pub const HW_INDEX: u64 = 1 << 17;
    pub const COUNTERS: u64 = 1 << 19;
}

/// Bits of the flag word of `perf_event_attr`.
#[allow(missing_docs)] // the bit fields' own names
pub mod attr_flag {
    pub const DISABLED: u64 = 1 << 0;
    pub const INHERIT: u64 = 1 << 1;
    pub const PINNED: u64 = 1 << 2;
    pub const EXCLUSIVE: u64 = 1 << 3;
    pub const EXCLUDE_USER: u64 = 1 << 4;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQ: u64 = 1 << 10;
    pub const INHERIT_STAT: u64 = 1 << 11;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    /// First of the two bits of `precise_ip`.
    pub const PRECISE_IP_SHIFT: u32 = 15;
    pub const MMAP_DATA: u64 = 1 << 17;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_HOST: u64 = 1 << 19;
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    pub const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
    pub const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    pub const WRITE_BACKWARD: u64 = 1 << 27;
    pub const NAMESPACES: u64 = 1 << 28;
    pub const KSYMBOL: u64 = 1 << 29;
    pub const BPF_EVENT: u64 = 1 << 30;
    pub const AUX_OUTPUT: u64 = 1 << 31;
    pub const CGROUP: u64 = 1 << 32;
    pub const TEXT_POKE: u64 = 1 << 33;
    pub const BUILD_ID: u64 = 1 << 34;
    pub const INHERIT_THREAD: u64 = 1 << 35;
    pub const REMOVE_ON_EXEC: u64 = 1 << 36;
    pub const SIGTRAP: u64 = 1 << 37;
}

/// Record types (`perf_event_header.type`). Below 64 the kernel writes them, from 64 up perf does.
#[allow(missing_docs)] // PERF_RECORD_*
pub mod record_type {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// The last type that kernels up to 6.x write.
    pub const LAST_KERNEL: u32 = AUX_OUTPUT_HW_ID;

    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_EVENT_TYPE: u32 = 65;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const ID_INDEX: u32 = 69;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const AUXTRACE_ERROR: u32 = 72;
    pub const THREAD_MAP: u32 = 73;
    pub const CPU_MAP: u32 = 74;
    pub const STAT_CONFIG: u32 = 75;
    pub const STAT: u32 = 76;
    pub const STAT_ROUND: u32 = 77;
    pub const EVENT_UPDATE: u32 = 78;
    pub const TIME_CONV: u32 = 79;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const FINISHED_INIT: u32 = 82;
    pub const COMPRESSED2: u32 = 83;
    /// The first type that perf, not the kernel, writes.
    pub const FIRST_USER: u32 = HEADER_ATTR;
    /// The last of perf's types known here.
    pub const LAST_USER: u32 = COMPRESSED2;
}

/// Bits of `perf_event_header.misc`. The high bits mean different things in different records.
#[allow(missing_docs)] // PERF_RECORD_MISC_*
pub mod misc {
    pub const CPUMODE_MASK: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    pub const MMAP_DATA: u16 = 1 << 13;
    pub const COMM_EXEC: u16 = 1 << 13;
    pub const SWITCH_OUT: u16 = 1 << 13;
    pub const EXACT_IP: u16 = 1 << 14;
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}

/// Bits of the flag word of an `AUX` record: losses in a piece of a trace.
#[allow(missing_docs)] // PERF_AUX_FLAG_*
pub mod aux_flag {
    pub const TRUNCATED: u64 = 1;
    pub const OVERWRITE: u64 = 2;
    pub const PARTIAL: u64 = 4;
    pub const COLLISION: u64 = 8;
}

/// `PERF_AUXTRACE_ARM_SPE`: an `AUXTRACE_INFO` record that announces traces of Arm SPE.
pub const AUXTRACE_ARM_SPE: u32 = 4;

/// `PERF_EVENT_UPDATE__NAME`: an `EVENT_UPDATE` record that names its event.
pub const EVENT_UPDATE_NAME: u64 = 2;

/// Bytes of `struct perf_event_header`.
pub const RECORD_HEADER_SIZE: usize = 8;

/// `PROT_EXEC`.
pub(super) const PROT_EXEC: u32 = 4;

/// `PERF_ATTR_SIZE_VER0`, the smallest attribute ever written.
pub(super) const ATTR_SIZE_MINIMUM: usize = 64;

/// `struct perf_event_attr`, field by field, for passing to `perf_event_open` and for the file.
///
/// The fields are plain integers: this is the kernel's interface, not the model.
#[allow(missing_docs)] // the kernel's own names
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfEventAttr {
    pub event_type: u32,
    /// Size of this structure for the kernel; [`PerfEventAttr::SIZE`] if created here.
    pub size: u32,
    pub config: u64,
    /// A period, or a frequency in Hz if [`attr_flag::FREQ`] is set.
    pub sample_period: u64,
    /// Bits of [`sample_type`].
    pub sample_type: u64,
    /// Bits of [`read_format`].
    pub read_format: u64,
    /// Bits of [`attr_flag`].
    pub flags: u64,
    pub wakeup_events: u32,
    pub bp_type: u32,
    /// `config1`, or a breakpoint's address.
    pub config1: u64,
    /// `config2`, or a breakpoint's length.
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved_2: u16,
    pub aux_sample_size: u32,
    pub reserved_3: u32,
    pub sig_data: u64,
}

impl PerfEventAttr {
    /// `PERF_ATTR_SIZE_VER7`, known to kernel 6.1 and its perf, which refuses files with longer attributes
    /// ("incompatible file format").
    pub const SIZE: usize = 128;

    /// An attribute with a type and configuration; all else is zero.
    pub fn new(event_type: u32, config: u64) -> PerfEventAttr {
        PerfEventAttr { event_type, size: Self::SIZE as u32, config, ..PerfEventAttr::default() }
    }

    /// `precise_ip`, 0 to 3.
    pub fn precise_ip(&self) -> u8 {
        (self.flags >> attr_flag::PRECISE_IP_SHIFT) as u8 & 3
    }

    /// Whether a bit of [`attr_flag`] is set.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// The bytes of the kernel's structure.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = Vec::with_capacity(Self::SIZE);
        bytes.extend_from_slice(&self.event_type.to_le_bytes());
        bytes.extend_from_slice(&self.size.to_le_bytes());
        for word in [self.config, self.sample_period, self.sample_type, self.read_format, self.flags] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.wakeup_events.to_le_bytes());
        bytes.extend_from_slice(&self.bp_type.to_le_bytes());
        for word in [self.config1, self.config2, self.branch_sample_type, self.sample_regs_user] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.sample_stack_user.to_le_bytes());
        bytes.extend_from_slice(&self.clockid.to_le_bytes());
        bytes.extend_from_slice(&self.sample_regs_intr.to_le_bytes());
        bytes.extend_from_slice(&self.aux_watermark.to_le_bytes());
        bytes.extend_from_slice(&self.sample_max_stack.to_le_bytes());
        bytes.extend_from_slice(&self.reserved_2.to_le_bytes());
        bytes.extend_from_slice(&self.aux_sample_size.to_le_bytes());
        bytes.extend_from_slice(&self.reserved_3.to_le_bytes());
        bytes.extend_from_slice(&self.sig_data.to_le_bytes());
        bytes.try_into().expect("the fields above are 128 bytes")
    }

    /// Reads a structure of any kernel's length: missing fields are zero, extra ones are dropped.
    pub fn from_bytes(bytes: &[u8]) -> PerfEventAttr {
        let mut whole = [0u8; Self::SIZE];
        let length = bytes.len().min(Self::SIZE);
        whole[..length].copy_from_slice(&bytes[..length]);
        let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
        PerfEventAttr {
            event_type: half(0),
            size: half(4),
            config: word(8),
            sample_period: word(16),
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
            wakeup_events: half(48),
            bp_type: half(52),
            config1: word(56),
            config2: word(64),
            branch_sample_type: word(72),
            sample_regs_user: word(80),
            sample_stack_user: half(88),
            clockid: half(92) as i32,
            sample_regs_intr: word(96),
            aux_watermark: half(104),
            sample_max_stack: half(108) as u16,
            reserved_2: (half(108) >> 16) as u16,
            aux_sample_size: half(112),
            reserved_3: half(116),
            sig_data: word(120),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure is the kernel's, so its layout in memory must equal its encoding.
    #[test]
    fn encoding_has_the_kernels_offsets_and_is_read_back() {
        assert_eq!(std::mem::size_of::<PerfEventAttr>(), PerfEventAttr::SIZE);
        assert_eq!(std::mem::offset_of!(PerfEventAttr, branch_sample_type), 72);
        assert_eq!(std::mem::offset_of!(PerfEventAttr, sample_regs_intr), 96);
        assert_eq!(std::mem::offset_of!(PerfEventAttr, sig_data), 120);
        let bytes: Vec<u8> = (1..=128).collect();
        let attr = PerfEventAttr::from_bytes(&bytes);
        assert_eq!(attr.sample_regs_intr.to_le_bytes(), [97, 98, 99, 100, 101, 102, 103, 104]);
        assert_eq!(attr.sample_max_stack.to_le_bytes(), [109, 110]);
        assert_eq!(attr.to_bytes().as_slice(), bytes);
    }

    #[test]
    fn shorter_structures_of_old_kernels_are_filled_with_zeros() {
        let attr = PerfEventAttr::from_bytes(&[0xff; 64]);
        assert_eq!(attr.config1, u64::MAX);
        assert_eq!(attr.config2, 0);
        assert_eq!(attr.precise_ip(), 3);
    }
}
