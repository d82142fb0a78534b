//! From an event's name to the kernel's encoding.
//!
//! Names are tried in this order, the most specific meaning first:
//!
//! 1. the eleven memory events of Hardmeter ([`crate::events::memory`]),
//! 2. the kernel's software and generic events (`cpu-clock`, `page-faults`, `cycles`, `L1-dcache-load-misses`),
//! 3. `rXXXX` (raw code), `mem:ADDRESS[/LENGTH][:rwx]` (breakpoint),
//! 4. `PMU/terms/` and aliases of sysfs (`mem-loads`, `cpu/event=0xd1,umask=0x8/`),
//! 5. names of libpfm4 (`MEM_LOAD_RETIRED:L2_MISS`).

pub use super::encoded::{device_encoding, event_type, hw_cache, Encoding};

use super::pfm::{Pfm, PfmError};
use super::sysfs::{Device, TermError};
use crate::events::memory;
use crate::events::processor::Processor;
use crate::events::EventRequest;
use hardmeter_samples::model::MemoryEvent;
use std::collections::BTreeMap;

/// The reason why a name is not an event here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    /// The PMU of a `PMU/terms/` does not exist.
    #[error("this machine has no PMU named {0:?}")]
    NoSuchPmu(String),
    /// Its terms are wrong.
    #[error(transparent)]
    Terms(#[from] TermError),
    /// The name is unknown.
    #[error("unknown event {name:?}: not one of Hardmeter, of the kernel or of this processor; {pfm}")]
    Unknown {
        /// The name.
        name: String,
        /// The error of libpfm4, which is tried last.
        pfm: PfmError,
    },
    /// One of our events, and this processor has nothing for it.
    #[error("this processor has no hardware event for {0}")]
    NotHere(&'static str),
}

impl EncodingError {
    /// The remedy.
    pub fn remedy(&self) -> String {
        match self {
            EncodingError::Unknown { pfm: PfmError::Missing(_), .. } => {
                "apt install libpfm4 for the event names of your processor, or see `hardmeter events`".into()
            }
            EncodingError::NotHere(_) => "see `hardmeter events`, or use --source simulated".into(),
            _ => "see `hardmeter events`".into(),
        }
    }
}

/// The machine's data for resolving names.
pub struct Resolver {
    /// The PMUs in sysfs.
    pub devices: BTreeMap<String, Device>,
    /// The processor.
    pub processor: Processor,
}

impl Resolver {
    /// Reads the properties of this machine.
    pub fn this_machine() -> Resolver {
        Resolver { devices: super::sysfs::devices(), processor: Processor::this_machine() }
    }

    /// The encodings to try for a request, best first. `sampling` is false for counting only.
    ///
    /// # Errors
    ///
    /// [`EncodingError`] if this machine does not have the event, or its terms are not known.
    pub fn resolve(&self, request: &EventRequest, sampling: bool) -> Result<Vec<Encoding>, EncodingError> {
        let name = request.name.as_str();
        let mut found = if let Some(event) = MemoryEvent::from_name(name) {
            let candidates = memory::candidates(event, self.processor.architecture, &self.devices);
            let fit: Vec<Encoding> = candidates
                .into_iter()
                .filter(|candidate| sampling || candidate.counts)
                .map(|candidate| candidate.encoding)
                .collect();
            if fit.is_empty() {
                return Err(EncodingError::NotHere(event.name()));
            }
            fit
        } else {
            vec![self.resolve_name(name, request.terms.as_deref())?]
        };
        for encoding in &mut found {
            if let Some(precise) = request.precise {
                encoding.precise = precise;
            }
            // PEBS load latency counts loads slower than a threshold, in the low half of config1.
            if let (Some(cycles), true) = (request.load_latency, encoding.is_load_latency()) {
                encoding.config1 = encoding.config1 & !0xffff | u64::from(cycles);
            }
        }
        Ok(found)
    }

    fn resolve_name(&self, name: &str, terms: Option<&str>) -> Result<Encoding, EncodingError> {
        if let Some(terms) = terms {
            let device = self.devices.get(name).ok_or_else(|| EncodingError::NoSuchPmu(name.to_string()))?;
            return Ok(device_encoding(device, device.encode(terms)?));
        }
        if let Some(encoding) = kernel_event(name).or_else(|| raw(name)).or_else(|| breakpoint(name)) {
            return Ok(encoding);
        }
        let aliased = self.devices.values().find(|device| {
            device.aliases.contains_key(name)
                && (device.name.starts_with("cpu") || device.name.starts_with("armv"))
        });
        if let Some(device) = aliased {
            return Ok(device_encoding(device, device.encode(name)?));
        }
        // perf writes MEM_LOAD_RETIRED.L2_MISS (Intel's own form), libpfm4 MEM_LOAD_RETIRED:L2_MISS.
        let encoded = Pfm::load().and_then(|pfm| {
            pfm.encode(name).or_else(|error| match name.split_once('.') {
                Some((event, unit)) => pfm.encode(&format!("{event}:{unit}")),
                None => Err(error),
            })
        });
        encoded.map_err(|pfm| EncodingError::Unknown { name: name.to_string(), pfm })
    }
}

/// The kernel's names (`PERF_COUNT_SW_*`, `PERF_COUNT_HW_*`) and perf's names for generic cache events.
fn kernel_event(name: &str) -> Option<Encoding> {
    const SOFTWARE: [(&str, u64); 13] = [
        ("cpu-clock", 0),
        ("task-clock", 1),
        ("page-faults", 2),
        ("faults", 2),
        ("context-switches", 3),
        ("cs", 3),
        ("cpu-migrations", 4),
        ("migrations", 4),
        ("minor-faults", 5),
        ("major-faults", 6),
        ("alignment-faults", 7),
        ("emulation-faults", 8),
        ("dummy", 9),
    ];
    const HARDWARE: [(&str, u64); 13] = [
        ("cycles", 0),
        ("cpu-cycles", 0),
        ("cache-references", 2),
        ("cache-misses", 3),
        ("branches", 4),
        ("branch-instructions", 4),
        ("branch-misses", 5),
        ("bus-cycles", 6),
        ("stalled-cycles-frontend", 7),
        ("idle-cycles-frontend", 7),
        ("stalled-cycles-backend", 8),
        ("idle-cycles-backend", 8),
        ("ref-cycles", 9),
    ];
    if let Some((_, config)) = SOFTWARE.iter().find(|(known, _)| *known == name) {
        let faults = matches!(config, 2 | 5..=8);
        return Some(Encoding {
            event_type: event_type::SOFTWARE,
            config: *config,
            data_address: faults, // the faulting address
            ..Encoding::default()
        });
    }
    if let Some((_, config)) = HARDWARE.iter().find(|(known, _)| *known == name) {
        return Some(Encoding { event_type: event_type::HARDWARE, config: *config, ..Encoding::default() });
    }
    const CACHES: [(&str, u64); 7] = [
        ("L1-dcache", 0),
        ("L1-icache", 1),
        ("LLC", 2),
        ("dTLB", 3),
        ("iTLB", 4),
        ("branch", 5),
        ("node", 6),
    ];
    const OPERATIONS: [(&str, u64, bool); 6] = [
        ("-loads", 0, false),
        ("-load-misses", 0, true),
        ("-stores", 1, false),
        ("-store-misses", 1, true),
        ("-prefetches", 2, false),
        ("-prefetch-misses", 2, true),
    ];
    CACHES.iter().find_map(|(prefix, cache)| {
        let rest = name.strip_prefix(prefix)?;
        let (_, operation, miss) = OPERATIONS.iter().find(|(suffix, _, _)| *suffix == rest)?;
        Some(hw_cache(*cache, *operation, *miss))
    })
}

/// `r8d1`: the core PMU's configuration word in hexadecimal.
fn raw(name: &str) -> Option<Encoding> {
    let config = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
    let mut encoding = Encoding { event_type: event_type::RAW, config, ..Encoding::default() };
    // Intel's retired memory instructions and loads by level, both with data addresses.
    encoding.data_address = matches!(config & 0xff, 0xd0 | 0xd1 | 0xcd);
    encoding.precise = if encoding.data_address { 3 } else { 0 };
    Some(encoding)
}

/// `mem:0x601040/8:rw`: every access to some bytes, by a debug register.
fn breakpoint(name: &str) -> Option<Encoding> {
    let rest = name.strip_prefix("mem:")?;
    let (place, access) = rest.split_once(':').unwrap_or((rest, "rw"));
    let (address, length) = place.split_once('/').unwrap_or((place, "4"));
    let kinds: u32 = access.chars().try_fold(0, |kinds, letter| match letter {
        'r' => Some(kinds | 1),
        'w' => Some(kinds | 2),
        'x' => Some(kinds | 4),
        _ => None,
    })?;
    let length: u64 = length.parse().ok().filter(|length| matches!(length, 1 | 2 | 4 | 8))?;
    Some(Encoding {
        event_type: event_type::BREAKPOINT,
        config1: super::sysfs::number(address)?,
        // Execution breakpoints always have the length of a word.
        config2: if kinds == 4 { size_of::<libc::c_long>() as u64 } else { length },
        breakpoint_type: kinds,
        data_address: true,
        ..Encoding::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_names_have_the_kernels_numbers() {
        // PERF_COUNT_SW_PAGE_FAULTS = 2, PERF_COUNT_HW_CACHE_MISSES = 3.
        let faults = kernel_event("page-faults").expect("known");
        assert_eq!((faults.event_type, faults.config, faults.data_address), (1, 2, true));
        let misses = kernel_event("cache-misses").expect("known");
        assert_eq!((misses.event_type, misses.config), (0, 3));
        // PERF_COUNT_HW_CACHE_DTLB | OP_WRITE << 8 | RESULT_MISS << 16.
        assert_eq!(kernel_event("dTLB-store-misses").expect("known").config, 0x10103);
        assert_eq!(kernel_event("L1-dcache-load-misses").expect("known").config, 0x10000);
        assert_eq!(kernel_event("L1-dcache-frobs"), None);
    }

    #[test]
    fn raw_codes_are_hexadecimal() {
        assert_eq!(raw("r10d1").map(|event| (event.event_type, event.config)), Some((4, 0x10d1)));
        assert_eq!(raw("rxyz"), None);
        assert_eq!(raw("branches"), None);
    }

    #[test]
    fn breakpoints_have_address_length_and_access() {
        let watch = breakpoint("mem:0x601040/8:w").expect("a breakpoint");
        assert_eq!((watch.config1, watch.config2, watch.breakpoint_type), (0x601040, 8, 2));
        assert_eq!(breakpoint("mem:0x10").map(|b| (b.config2, b.breakpoint_type)), Some((4, 3)));
        assert_eq!(breakpoint("mem:0x10/3:w"), None);
        assert_eq!(breakpoint("mem:0x10:q"), None);
    }
}
