//! Newtypes for integers, so that the address space or the unit is part of the type.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

unit!(
    /// A virtual address of the profiled program.
    VirtualAddress(u64), "{:#x}"
);
unit!(
    /// A physical address; in simulated captures, within the simulated page frames.
    PhysicalAddress(u64), "{:#x}"
);
unit!(
    /// A position inside an executable or data file, in bytes from its start.
    FileOffset(u64), "{:#x}"
);
unit!(
    /// The number of a cache line: an address divided by the line size of its capture.
    CacheLine(u64), "{:#x}"
);
unit!(
    /// A duration in core clock cycles.
    Cycles(u64), "{}"
);
unit!(
    /// A point in time in nanoseconds, on the clock of its capture (for simulated captures: simulated time).
    Timestamp(u64), "{}"
);
unit!(
    /// Number of events that one sample stands for.
    Period(u64), "{}"
);
unit!(
    /// A process id. `Pid(-1)` is the kernel's own "no process".
    Pid(i32), "{}"
);
unit!(
    /// A thread id.
    Tid(i32), "{}"
);
unit!(
    /// A logical processor; in simulated captures, the simulated core.
    CpuId(u32), "{}"
);
unit!(
    /// Bytes touched by one access.
    AccessSize(u8), "{}"
);
unit!(
    /// The size of the page behind an address, in bytes.
    PageSize(u64), "{}"
);

unit!(
    /// An amount of memory, or of a file, in bytes.
    ByteCount(u64), "{}"
);

impl VirtualAddress {
    /// The line this address lies on, for a power-of-two line size in bytes.
    pub fn cache_line(self, line_size: u32) -> CacheLine {
        debug_assert!(line_size.is_power_of_two());
        CacheLine(self.0 >> line_size.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_on_one_64_byte_line_share_its_number() {
        assert_eq!(VirtualAddress(0x1040).cache_line(64), VirtualAddress(0x107f).cache_line(64));
        assert_ne!(VirtualAddress(0x107f).cache_line(64), VirtualAddress(0x1080).cache_line(64));
    }
}
