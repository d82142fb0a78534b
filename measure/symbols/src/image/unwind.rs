//! Code ranges from unwind information: the start and end of each function of a stripped binary.
//!
//! Compilers describe every function, static ones too, by a frame description entry (FDE) in `.eh_frame`, and
//! `strip` keeps that section because exceptions need it. It has no names.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::{Object, ObjectSection};
use std::ops::Range;

/// The unwind section of a file, and the addresses that its entries are relative to.
pub(crate) struct SectionAddresses<'data> {
    pub(crate) section: EhFrame<EndianSlice<'data, RunTimeEndian>>,
    pub(crate) bases: BaseAddresses,
}

/// Finds `.eh_frame`.
pub(crate) fn eh_frame<'data>(file: &object::File<'data>) -> Option<SectionAddresses<'data>> {
    let section = file.section_by_name(".eh_frame")?;
    let data = section.data().ok()?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut eh_frame = EhFrame::from(EndianSlice::new(data, endian));
    eh_frame.set_address_size(if file.is_64() { 8 } else { 4 });
    let address_of = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_eh_frame_hdr(address_of(".eh_frame_hdr"))
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));
    Some(SectionAddresses { section: eh_frame, bases })
}

/// The ranges of all FDEs of an image, sorted, without overlap.
#[derive(Debug, Default)]
pub(crate) struct UnwindRanges {
    ranges: Vec<(u64, u64)>,
}

impl UnwindRanges {
    /// Reads `.eh_frame`; a malformed section yields the entries before the fault.
    pub(crate) fn read(file: &object::File<'_>) -> UnwindRanges {
        let Some(SectionAddresses { section: eh_frame, bases }) = eh_frame(file) else {
            return UnwindRanges::default();
        };
        let mut ranges = Vec::new();
        let mut entries = eh_frame.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let (start, length) = (fde.initial_address(), fde.len());
            // The linker zeroes entries of functions that it dropped.
            if let (true, Some(end)) = (length > 0 && start > 0, start.checked_add(length)) {
                ranges.push((start, end));
            }
        }
        UnwindRanges::from_ranges(ranges)
    }

    pub(crate) fn from_ranges(mut ranges: Vec<(u64, u64)>) -> UnwindRanges {
        ranges.sort_unstable();
        ranges.dedup_by_key(|range| range.0);
        // If entries overlap, which occurs only in malformed files, the later start wins.
        for index in 1..ranges.len() {
            ranges[index - 1].1 = ranges[index - 1].1.min(ranges[index].0);
        }
        ranges.shrink_to_fit();
        UnwindRanges { ranges }
    }

    /// The range that covers an address.
    pub(crate) fn find(&self, address: u64) -> Option<Range<u64>> {
        let position = self.ranges.partition_point(|range| range.0 <= address).checked_sub(1)?;
        let (start, end) = self.ranges[position];
        (address < end).then_some(start..end)
    }

    /// The first start above an address.
    pub(crate) fn next_start(&self, address: u64) -> Option<u64> {
        let position = self.ranges.partition_point(|range| range.0 <= address);
        self.ranges.get(position).map(|range| range.0)
    }

    /// How many ranges begin within `addresses`.
    pub(crate) fn count(&self, addresses: Range<u64>) -> usize {
        let before = |limit| self.ranges.partition_point(|range| range.0 < limit);
        before(addresses.end).saturating_sub(before(addresses.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_and_never_overlap() {
        let ranges = UnwindRanges::from_ranges(vec![(0x30, 0x40), (0x10, 0x20), (0x18, 0x28)]);
        assert_eq!(ranges.find(0x0f), None);
        assert_eq!(ranges.find(0x10), Some(0x10..0x18));
        assert_eq!(ranges.find(0x18), Some(0x18..0x28));
        assert_eq!(ranges.find(0x28), None);
        assert_eq!(ranges.find(0x3f), Some(0x30..0x40));
        assert_eq!(ranges.next_start(0x18), Some(0x30));
        assert_eq!(ranges.next_start(0x30), None);
        assert_eq!([ranges.count(0x10..0x30), ranges.count(0x11..0x31), ranges.count(0x31..0x99)], [2, 2, 0]);
    }
}
