//! Identity of a cache line, the same in every process that shares it.

use crate::code::{ImageId, Place};
use hardmeter_samples::model::{CacheLine, Pid, Sample};
use serde::{Serialize, Serializer};
use std::fmt;

/// A cache line, identified as exactly as the capture allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineId {
    /// By its physical address: exact, independent of mappings.
    Physical(CacheLine),
    /// A line of a shared mapping, by its offset: processes may map it at different addresses.
    Mapped {
        /// The mapping.
        image: ImageId,
        /// The position in it, in lines.
        line: CacheLine,
    },
    /// A line of one process: sharing with other processes cannot be detected.
    Private {
        /// The process.
        pid: Pid,
        /// The virtual line.
        line: CacheLine,
    },
}

impl LineId {
    /// The line of a sample's data address; `None` without an address. `shared` is the place of the data address in
    /// a shared mapping, if it lies in one.
    pub fn of(sample: &Sample<'_>, line_size: u32, shared: Option<Place>) -> Option<LineId> {
        let shift = line_size.trailing_zeros();
        let address = sample.address?;
        if let Some(physical) = sample.physical_address.filter(|physical| physical.0 != 0) {
            return Some(LineId::Physical(CacheLine(physical.0 >> shift)));
        }
        if let Some(place) = shared {
            return Some(LineId::Mapped { image: place.image, line: CacheLine(place.offset.0 >> shift) });
        }
        Some(LineId::Private { pid: sample.pid.unwrap_or(Pid(-1)), line: address.cache_line(line_size) })
    }

    /// How the line was identified, in a word or two.
    pub fn identified_by(self) -> &'static str {
        match self {
            LineId::Physical(_) => "physical address",
            LineId::Mapped { .. } => "place in a shared mapping",
            LineId::Private { .. } => "virtual address in its process",
        }
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineId::Physical(line) => write!(f, "physical line {line}"),
            LineId::Mapped { line, .. } => write!(f, "line {line} of a shared mapping"),
            LineId::Private { pid, line } => write!(f, "line {line} of process {pid}"),
        }
    }
}

impl Serialize for LineId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;
    use hardmeter_samples::model::{FileOffset, PhysicalAddress, VirtualAddress};

    #[test]
    fn processes_meet_on_a_physical_line_and_in_a_shared_mapping() {
        let mut one = sample(0, 1, 0x1000);
        assert_eq!(LineId::of(&one, 64, None), None, "no data address");
        one.address = Some(VirtualAddress(0x7f00_0040));
        let mut two = one.clone();
        two.pid = Some(Pid(2));
        two.address = Some(VirtualAddress(0x5f00_0078));
        assert_ne!(LineId::of(&one, 64, None), LineId::of(&two, 64, None), "two processes, two lines");
        let place = |offset| Some(Place { image: ImageId(3), offset: FileOffset(offset) });
        assert_eq!(LineId::of(&one, 64, place(0x1040)), LineId::of(&two, 64, place(0x107f)));
        one.physical_address = Some(PhysicalAddress(0x9040));
        two.physical_address = Some(PhysicalAddress(0x9078));
        assert_eq!(LineId::of(&one, 64, None), Some(LineId::Physical(CacheLine(0x241))));
        assert_eq!(LineId::of(&two, 64, None), Some(LineId::Physical(CacheLine(0x241))));
    }
}
