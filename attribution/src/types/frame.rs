//! The canonical frame address (CFA): where a function's frame is, as seen from the registers at an instruction.
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

/// The rows of a function; empty where unwind information does not say.
pub(super) fn rows(file: &object::File<'_>, function_start: u64) -> Vec<FrameRow> {
    const ROWS_AT_MOST: usize = 1 << 14;
    let mut rows = Vec::new();
    let Some(SectionAddresses { section, bases }) = eh_frame(file) else { return rows };
    let mut context = UnwindContext::new();
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(description) = partial.parse(gimli::EhFrame::cie_from_offset) else { continue };
        if !description.contains(function_start) {
            continue;
        }
        let Ok(mut table) = description.rows(&section, &bases, &mut context) else { break };
        while let (Ok(Some(row)), true) = (table.next_row(), rows.len() < ROWS_AT_MOST) {
            if let CfaRule::RegisterAndOffset { register, offset } = row.cfa() {
                let Ok(register) = u8::try_from(register.0) else { continue };
                let (start, end) = (row.start_address(), row.end_address());
                rows.push(FrameRow { start, end, register, offset: *offset });
            }
        }
        break;
    }
    rows
}
