//! An event's encoding for the kernel.

use super::filter::SampleFilter;
use super::sysfs::Device;

/// `PERF_TYPE_*`.
pub mod event_type {
    /// Generic hardware events.
    pub const HARDWARE: u32 = 0;
    /// The kernel's own events.
    pub const SOFTWARE: u32 = 1;
    /// Generic cache events.
    pub const HW_CACHE: u32 = 3;
    /// The core PMU's raw encodings.
    pub const RAW: u32 = 4;
    /// Debug registers.
    pub const BREAKPOINT: u32 = 5;
}

/// The fields of `perf_event_attr` for an event, and how to read its samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoding {
    /// `perf_event_attr.type`.
    pub event_type: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.config1`.
    pub config1: u64,
    /// `perf_event_attr.config2`.
    pub config2: u64,
    /// `perf_event_attr.bp_type`, breakpoints only.
    pub breakpoint_type: u32,
    /// Whether samples can carry a data address.
    pub data_address: bool,
    /// The precision to try first.
    pub precise: u8,
    /// The PMU refuses `exclude_user` and `exclude_kernel` (AMD IBS): a filter has to do it.
    pub no_mode_bits: bool,
    /// The filter for samples of a PMU that samples more than requested (AMD IBS).
    pub filter: Option<SampleFilter>,
    /// The PMU writes into an AUX area (Arm SPE).
    pub aux: bool,
    /// The CPUs to open it on, where it is not every one.
    pub cpus: Option<Vec<u32>>,
}

impl Encoding {
    /// MEM_TRANS_RETIRED.LOAD_LATENCY, the one event with a latency threshold.
    pub fn is_load_latency(&self) -> bool {
        self.event_type == event_type::RAW && self.config & 0xffff == 0x1cd
    }

    /// Whether the kernel produces the event, so that it works on every machine.
    pub fn is_software(&self) -> bool {
        self.event_type == event_type::SOFTWARE || self.event_type == event_type::BREAKPOINT
    }
}

/// An encoding on a device of sysfs, with what the device's kind implies.
pub fn device_encoding(device: &Device, words: [u64; 3]) -> Encoding {
    let ibs = device.name.starts_with("ibs_");
    let mut encoding = Encoding {
        event_type: device.event_type,
        config: words[0],
        config1: words[1],
        config2: words[2],
        no_mode_bits: ibs,
        data_address: ibs,
        aux: device.name.starts_with("arm_spe"),
        cpus: device.cpus.clone(),
        ..Encoding::default()
    };
    if encoding.is_load_latency() || encoding.event_type == event_type::RAW && encoding.config & 0xff == 0xd0
    {
        encoding.data_address = true;
        encoding.precise = 3;
    }
    encoding
}

/// A generic cache event: `cache | operation << 8 | result << 16`.
pub fn hw_cache(cache: u64, operation: u64, miss: bool) -> Encoding {
    Encoding {
        event_type: event_type::HW_CACHE,
        config: cache | operation << 8 | u64::from(miss) << 16,
        ..Encoding::default()
    }
}
