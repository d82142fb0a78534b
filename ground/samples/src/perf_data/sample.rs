//! Decoding one sample, in the kernel's order of fields (`perf_output_sample` in `kernel/events/core.c`).
//!
//! ```text
//! IDENTIFIER IP TID TIME ADDR ID STREAM_ID CPU PERIOD        one word each
//! READ CALLCHAIN RAW BRANCH_STACK REGS_USER STACK_USER       counted
//! WEIGHT|WEIGHT_STRUCT DATA_SRC TRANSACTION                  one word each
//! REGS_INTR                                                  counted
//! PHYS_ADDR CGROUP DATA_PAGE_SIZE CODE_PAGE_SIZE             one word each
//! AUX                                                        counted
//! ```
//! Fields that the model does not have are skipped: ids (they become the event), the times of a counter
//! reading, the hardware index and the counters of a branch stack.

use super::abi::{attr_flag, branch_sample_type, misc, read_format, sample_type, PerfEventAttr};
use super::bytes::Cursor;
use crate::model::{
    BranchEntry, Callchain, CpuId, CpuMode, Cycles, DataSource, EventIndex, PageSize, Period,
    PhysicalAddress, Pid, ReadValue, Registers, Sample, Tid, Timestamp, VirtualAddress, Weight,
};

/// Decodes a sample's body. `None` if it is shorter than its fields need.
#[inline]
pub(super) fn decode<'a>(
    attr: &PerfEventAttr,
    event: EventIndex,
    misc_field: u16,
    body: &'a [u8],
) -> Option<Sample<'a>> {
    // A branch stack with a hardware index but no entries has two forms: with the index word, or, if the kernel had
    // no stack, without it. Only the record's length distinguishes them.
    let ambiguous = attr.sample_type & sample_type::BRANCH_STACK != 0
        && attr.branch_sample_type & branch_sample_type::HW_INDEX != 0;
    match decode_as(attr, event, misc_field, body, true) {
        Some((sample, 0)) => Some(sample),
        other if ambiguous => {
            let without = decode_as(attr, event, misc_field, body, false);
            match (without, other) {
                (Some((sample, 0)), _) => Some(sample),
                (_, other) => other.map(|(sample, _)| sample),
            }
        }
        other => other.map(|(sample, _)| sample),
    }
}

/// Decodes with one interpretation of an empty branch stack; also returns the number of bytes left over.
#[inline]
fn decode_as<'a>(
    attr: &PerfEventAttr,
    event: EventIndex,
    misc_field: u16,
    body: &'a [u8],
    index_when_empty: bool,
) -> Option<(Sample<'a>, usize)> {
    let mut fields = Cursor::new(body);
    let fields = &mut fields;
    let has = |bit: u64| attr.sample_type & bit != 0;
    let fixed_period = if attr.has(attr_flag::FREQ) { 1 } else { attr.sample_period.max(1) };
    let mut sample = Sample {
        exact_ip: misc_field & misc::EXACT_IP != 0,
        ..Sample::bare(event, CpuMode::from_misc(misc_field), Period(fixed_period))
    };
    if has(sample_type::IDENTIFIER) {
        fields.u64()?;
    }
    if has(sample_type::IP) {
        sample.ip = Some(VirtualAddress(fields.u64()?));
    }
    if has(sample_type::TID) {
        let (pid, tid) = fields.u32_pair()?;
        sample.pid = Some(Pid(pid as i32));
        sample.tid = Some(Tid(tid as i32));
    }
    if has(sample_type::TIME) {
        sample.time = Some(Timestamp(fields.u64()?));
    }
    if has(sample_type::ADDR) {
        // The hardware reports 0 if it had no address.
        sample.address = Some(VirtualAddress(fields.u64()?)).filter(|address| address.0 != 0);
    }
    if has(sample_type::ID) {
        fields.u64()?;
    }
    if has(sample_type::STREAM_ID) {
        fields.u64()?;
    }
    if has(sample_type::CPU) {
        sample.cpu = Some(CpuId(fields.u32_pair()?.0));
    }
    if has(sample_type::PERIOD) {
        sample.period = Period(fields.u64()?);
    }
    if has(sample_type::READ) {
        sample.read = counters(fields, attr.read_format)?;
    }
    if has(sample_type::CALLCHAIN) {
        let count = fields.u64()?;
        sample.callchain = Callchain { entries: fields.words(count)? };
    }
    if has(sample_type::RAW) {
        let size = fields.u32()?;
        sample.raw = Some(fields.bytes(size.into())?);
    }
    if has(sample_type::BRANCH_STACK) {
        sample.branches = branch_stack(fields, attr.branch_sample_type, index_when_empty)?;
    }
    if has(sample_type::REGS_USER) {
        sample.user_registers = registers(fields, attr.sample_regs_user)?;
    }
    if has(sample_type::STACK_USER) {
        sample.user_stack = user_stack(fields)?;
    }
    if has(sample_type::WEIGHT) {
        let latency = Cycles(fields.u64()?);
        sample.weight = Some(Weight { latency, ..Weight::default() });
    } else if has(sample_type::WEIGHT_STRUCT) {
        let word = fields.u64()?;
        sample.weight = Some(Weight {
            latency: Cycles(word & 0xffff_ffff),
            instruction_latency: Cycles(word >> 32 & 0xffff),
            third: (word >> 48) as u16,
        });
    }
    if has(sample_type::DATA_SRC) {
        sample.data_source = Some(DataSource(fields.u64()?));
    }
    if has(sample_type::TRANSACTION) {
        sample.transaction = Some(fields.u64()?);
    }
    if has(sample_type::REGS_INTR) {
        sample.registers = registers(fields, attr.sample_regs_intr)?;
    }
    if has(sample_type::PHYS_ADDR) {
        // 0 where the kernel could not translate.
        sample.physical_address = Some(PhysicalAddress(fields.u64()?)).filter(|address| address.0 != 0);
    }
    if has(sample_type::CGROUP) {
        sample.cgroup = Some(fields.u64()?);
    }
    if has(sample_type::DATA_PAGE_SIZE) {
        sample.data_page_size = Some(PageSize(fields.u64()?)).filter(|size| size.0 != 0);
    }
    if has(sample_type::CODE_PAGE_SIZE) {
        sample.code_page_size = Some(PageSize(fields.u64()?)).filter(|size| size.0 != 0);
    }
    if has(sample_type::AUX) {
        let size = fields.u64()?;
        sample.aux = Some(fields.bytes(size)?);
    }
    let left = fields.rest().len();
    Some((sample, left))
}

/// A counter reading (`perf_output_read`): one event, or its whole group.
fn counters(fields: &mut Cursor<'_>, format: u64) -> Option<Vec<ReadValue>> {
    let has = |bit: u64| format & bit != 0;
    let group = has(read_format::GROUP);
    let first = fields.u64()?; // a group's size, or the one value
    if has(read_format::TOTAL_TIME_ENABLED) {
        fields.u64()?;
    }
    if has(read_format::TOTAL_TIME_RUNNING) {
        fields.u64()?;
    }
    let value = |value: Option<u64>, fields: &mut Cursor<'_>| {
        Some(ReadValue {
            value: match value {
                Some(value) => value,
                None => fields.u64()?,
            },
            id: if has(read_format::ID) { Some(fields.u64()?) } else { None },
            lost: if has(read_format::LOST) { Some(fields.u64()?) } else { None },
        })
    };
    if !group {
        return Some(vec![value(Some(first), fields)?]);
    }
    // At least eight bytes per value, so an invalid group size ends with the record.
    (0..first).map(|_| value(None, fields)).collect()
}

fn branch_stack(fields: &mut Cursor<'_>, flags: u64, index_when_empty: bool) -> Option<Vec<BranchEntry>> {
    let count = fields.u64()?;
    if flags & branch_sample_type::HW_INDEX != 0 && (count != 0 || index_when_empty) {
        fields.u64()?;
    }
    let words = fields.words(count.checked_mul(3)?)?;
    if flags & branch_sample_type::COUNTERS != 0 {
        fields.words(count)?;
    }
    let entry = |[from, to, flags]: &[[u8; 8]; 3]| BranchEntry {
        from: VirtualAddress(u64::from_le_bytes(*from)),
        to: VirtualAddress(u64::from_le_bytes(*to)),
        flags: u64::from_le_bytes(*flags),
    };
    Some(words.as_chunks::<3>().0.iter().map(entry).collect())
}

/// Registers; the outer `None` is a record that is too short, the inner one a sample without registers.
fn registers<'a>(fields: &mut Cursor<'a>, mask: u64) -> Option<Option<Registers<'a>>> {
    let abi = fields.u64()?;
    if abi == 0 {
        return Some(None); // user registers of a kernel thread
    }
    Some(Some(Registers { abi, mask, values: fields.words(mask.count_ones().into())? }))
}

/// The stack copy: its reserved size, the bytes, and the number of valid ones.
fn user_stack<'a>(fields: &mut Cursor<'a>) -> Option<Option<&'a [u8]>> {
    let size = fields.u64()?;
    if size == 0 {
        return Some(None);
    }
    let bytes = fields.bytes(size)?;
    let real = usize::try_from(fields.u64()?).unwrap_or(usize::MAX).min(bytes.len());
    Some(Some(&bytes[..real]))
}
