//! The canonical frame address (CFA): the position of a function's frame relative to the registers at an
//! instruction.
//!
//! Variables in the frame are located relative to it, operands relative to `%rsp` or `%rbp`.

use crate::image::unwind::{eh_frame, SectionAddresses};
use gimli::{CfaRule, CieOrFde, UnwindContext, UnwindSection};

/// A stretch of code in which the CFA is a register plus a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRow {
    pub(super) start: u64,
    pub(super) end: u64,
    /// DWARF's number of the register.
    pub(super) register: u8,
    pub(super) offset: i64,
}

/// The unwind information of each function: indexed once, since a large program has a hundred thousand.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// First address, first address after it, offset of the entry; sorted.
    functions: Vec<(u64, u64, usize)>,
}

impl Frames {
    pub(super) fn read(file: &object::File<'_>) -> Frames {
        let mut functions = Vec::new();
        if let Some(SectionAddresses { section, bases }) = eh_frame(file) {
            let mut entries = section.entries(&bases);
            while let Ok(Some(entry)) = entries.next() {
                let CieOrFde::Fde(partial) = entry else { continue };
                let Ok(description) = partial.parse(gimli::EhFrame::cie_from_offset) else { continue };
                let start = description.initial_address();
                functions.push((start, start.saturating_add(description.len()), description.offset()));
            }
        }
        functions.sort_unstable();
        Frames { functions }
    }

    /// The rows of a function; empty without unwind information.
    pub(super) fn rows(&self, file: &object::File<'_>, function_start: u64) -> Vec<FrameRow> {
        const ROWS_AT_MOST: usize = 1 << 14;
        let mut rows = Vec::new();
        let after = self.functions.partition_point(|(start, ..)| *start <= function_start);
        let entry = self.functions[..after].last().filter(|(_, end, _)| function_start < *end);
        let (Some((_, _, offset)), Some(SectionAddresses { section, bases })) = (entry, eh_frame(file))
        else {
            return rows;
        };
        let offset = gimli::EhFrameOffset(*offset);
        let description = section.fde_from_offset(&bases, offset, gimli::EhFrame::cie_from_offset);
        let Ok(description) = description else { return rows };
        let mut context = UnwindContext::new();
        let Ok(mut table) = description.rows(&section, &bases, &mut context) else { return rows };
        while let (Ok(Some(row)), true) = (table.next_row(), rows.len() < ROWS_AT_MOST) {
            if let CfaRule::RegisterAndOffset { register, offset } = row.cfa() {
                let Ok(register) = u8::try_from(register.0) else { continue };
                let (start, end) = (row.start_address(), row.end_address());
                rows.push(FrameRow { start, end, register, offset: *offset });
            }
        }
        rows
    }
}
