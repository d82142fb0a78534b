//! Decoding every record that is not a sample.

use super::abi::{misc, record_type, PerfEventAttr, PROT_EXEC, RECORD_HEADER_SIZE};
use super::bytes::{text_until_zero, Cursor};
use super::events::{has_build_id, Trailer};
use crate::model::{
    Comm, CpuId, CpuMode, Exit, FileOffset, Fork, LostRecords, Mmap, Pid, Record, Throttle, Tid,
    VirtualAddress,
};

/// Decodes one complete record, except samples, in the layout of an event with this attribute; `None` for a sample,
/// or if it is too short for its fields.
pub fn decode_record<'a>(attr: &PerfEventAttr, record: &'a [u8]) -> Option<Record<'a>> {
    let (header, body) = record.split_first_chunk::<RECORD_HEADER_SIZE>()?;
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let misc_field = u16::from_le_bytes([header[4], header[5]]);
    (kind != record_type::SAMPLE).then(|| decode(kind, misc_field, body, Trailer::of(attr)))?
}

/// Decodes a record's body. `None` if it is too short for its fields; records that the model does not have become
/// [`Record::Other`].
pub(super) fn decode(kind: u32, misc_field: u16, body: &[u8], trailer: Trailer) -> Option<Record<'_>> {
    let time = trailer.time(body);
    // The body without the trailer; a record too short for one has none.
    let own = &body[..body.len().saturating_sub(trailer.length)];
    let fields = &mut Cursor::new(own);
    Some(match kind {
        record_type::MMAP | record_type::MMAP2 => {
            Record::Mmap(mmap(kind, misc_field, fields, trailer, body)?)
        }
        record_type::COMM => {
            let (pid, tid) = fields.u32_pair()?;
            Record::Comm(Comm {
                pid: Pid(pid as i32),
                tid: Tid(tid as i32),
                name: text_until_zero(fields.rest()),
                exec: misc_field & misc::COMM_EXEC != 0,
                time,
            })
        }
        record_type::FORK | record_type::EXIT => {
            let (pid, parent_pid) = fields.u32_pair()?;
            let (tid, parent_tid) = fields.u32_pair()?;
            // The body contains a time of its own, also in files without trailers.
            let time = fields.u64().filter(|time| *time != 0).map(crate::model::Timestamp).or(time);
            let (pid, tid) = (Pid(pid as i32), Tid(tid as i32));
            if kind == record_type::FORK {
                let (parent_pid, parent_tid) = (Pid(parent_pid as i32), Tid(parent_tid as i32));
                Record::Fork(Fork { pid, parent_pid, tid, parent_tid, time })
            } else {
                Record::Exit(Exit { pid, tid, time })
            }
        }
        record_type::LOST => {
            fields.u64()?; // the event's id
            Record::Lost(LostRecords { count: fields.u64()?, samples_only: false, time })
        }
        record_type::LOST_SAMPLES => {
            Record::Lost(LostRecords { count: fields.u64()?, samples_only: true, time })
        }
        record_type::THROTTLE | record_type::UNTHROTTLE => {
            let time = fields.u64().filter(|time| *time != 0).map(crate::model::Timestamp).or(time);
            Record::Throttle(Throttle {
                resumed: kind == record_type::UNTHROTTLE,
                cpu: trailer.cpu(body).map(CpuId),
                time,
            })
        }
        _ => Record::Other { record_type: kind, body },
    })
}

fn mmap(kind: u32, misc_field: u16, fields: &mut Cursor<'_>, trailer: Trailer, body: &[u8]) -> Option<Mmap> {
    let (pid, tid) = fields.u32_pair()?;
    let start = VirtualAddress(fields.u64()?);
    let length = fields.u64()?;
    let offset = FileOffset(fields.u64()?);
    let mut build_id = None;
    let (mut protection, mut flags) = (None, None);
    if kind == record_type::MMAP2 {
        let identity = fields.bytes(24)?;
        if has_build_id(misc_field) {
            build_id = Some(identity[4..4 + usize::from(identity[0]).min(20)].to_vec());
        }
        protection = Some(fields.u32()?);
        flags = Some(fields.u32()?);
    }
    Some(Mmap {
        pid: Pid(pid as i32),
        tid: Tid(tid as i32),
        mode: CpuMode::from_misc(misc_field),
        start,
        length,
        offset,
        executable: match protection {
            Some(protection) => protection & PROT_EXEC != 0,
            None => misc_field & misc::MMAP_DATA == 0,
        },
        protection,
        flags,
        build_id,
        path: text_until_zero(fields.rest()),
        time: trailer.time(body),
    })
}

/// Whether this crate knows the record type, even if it delivers it undecoded.
pub(super) fn is_known(kind: u32) -> bool {
    (record_type::MMAP..=record_type::LAST_KERNEL).contains(&kind)
        || (record_type::FIRST_USER..=record_type::LAST_USER).contains(&kind)
}
