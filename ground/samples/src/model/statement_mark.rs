//! Marks of a kernel recording: when a process began and ended a statement, as the server's own static probes (USDT)
//! reported at that moment. They are tracepoint samples in the file; the reader returns them as a separate kind of record, so
//! that they are not mistaken for samples of memory.
//!
//! ```text
//! event    hardmeter_<recorder>:statement | query_start | query_done, and _2, _3 ... for further places of a probe
//!
//! raw      0        8           16            24                          28
//!          | common | probe ip  | text's address | offset (u16), length (u16) | text, with its zero ...
//!
//! without raw: the address of the text is the one user register recorded; the text itself is not known
//! ```

use super::sample::Sample;
use super::units::{Pid, Tid, Timestamp};

/// A process began or ended a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementMark<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread that executes the statement.
    pub tid: Tid,
    /// The time.
    pub time: Option<Timestamp>,
    /// The kind of mark.
    pub kind: StatementMarkKind<'a>,
}

/// The kind of a statement mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementMarkKind<'a> {
    /// A statement begins or continues (PostgreSQL's extended protocol has marks for parse, bind and execute).
    Begins {
        /// The client's text, constants included. `None` if the recorder could not read it: without tracefs, or if
        /// the text is longer than the 4 KiB that the kernel copies.
        text: Option<&'a [u8]>,
    },
    /// The process waits for its client.
    Ends,
}

/// The server's probe to which an event belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatementProbe {
    /// At every change of status: with a text a statement begins, without one it ends.
    Status,
    /// A statement begins.
    Start,
    /// A statement ends.
    Done,
}

impl StatementProbe {
    /// Prefix of the group name of a recorder's probes; the process id follows.
    pub const GROUP_PREFIX: &'static str = "hardmeter_";
    /// Offset of the text's address in the raw field.
    pub const ADDRESS_AT: usize = 16;
    /// Offset of the text's position (offset and length).
    pub const TEXT_AT: usize = 24;

    /// The name of the event within its group.
    pub fn event_name(self) -> &'static str {
        match self {
            StatementProbe::Status => "statement",
            StatementProbe::Start => "query_start",
            StatementProbe::Done => "query_done",
        }
    }

    /// The probe of an event's name, if it is one of Hardmeter's.
    pub fn of_event(name: &str) -> Option<StatementProbe> {
        let (group, event) = name.split_once(':')?;
        let recorder = group.strip_prefix(Self::GROUP_PREFIX)?;
        if recorder.is_empty() || !recorder.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_') {
            return None;
        }
        [StatementProbe::Status, StatementProbe::Start, StatementProbe::Done].into_iter().find(|probe| {
            event.strip_prefix(probe.event_name()).is_some_and(|rest| {
                rest.is_empty()
                    || rest.strip_prefix('_').is_some_and(|number| {
                        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
                    })
            })
        })
    }

    /// The mark of a sample of this probe's event. `None` if the sample has no process.
    pub fn decode<'a>(self, sample: &Sample<'a>) -> Option<StatementMark<'a>> {
        let pid = sample.pid?;
        let begins = match self {
            StatementProbe::Done => false,
            StatementProbe::Start => true,
            // No text: the statement has ended. If unknown, take it as a begin: an end would lose samples.
            StatementProbe::Status => text_address(sample) != Some(0),
        };
        let kind = match begins {
            true => StatementMarkKind::Begins { text: sample.raw.and_then(text) },
            false => StatementMarkKind::Ends,
        };
        Some(StatementMark { pid, tid: sample.tid.unwrap_or(Tid(pid.0)), time: sample.time, kind })
    }
}

/// The address of the statement's text.
fn text_address(sample: &Sample<'_>) -> Option<u64> {
    const AT: usize = StatementProbe::ADDRESS_AT;
    match sample.raw {
        Some(raw) => Some(u64::from_le_bytes(raw.get(AT..AT + 8)?.try_into().ok()?)),
        None => {
            let registers = sample.user_registers.as_ref()?;
            Some(u64::from_le_bytes(*registers.values.first()?))
        }
    }
}

/// The text, without its zero. `None` where the kernel could not read it.
fn text(raw: &[u8]) -> Option<&[u8]> {
    const AT: usize = StatementProbe::TEXT_AT;
    /// The kernel's text for memory that it cannot read.
    const FAULT: &[u8] = b"(fault)";
    let place = u32::from_le_bytes(raw.get(AT..AT + 4)?.try_into().ok()?);
    let (offset, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let bytes = raw.get(offset..offset + length)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(&bytes[..end]).filter(|text| !text.is_empty() && *text != FAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(address: u64, text: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; 16];
        raw.extend(address.to_le_bytes());
        raw.extend((28 | (text.len() as u32) << 16).to_le_bytes());
        raw.extend(text);
        raw
    }

    #[test]
    fn our_events_are_known_by_name_and_others_are_not() {
        let of = StatementProbe::of_event;
        assert_eq!(of("hardmeter_4711:statement"), Some(StatementProbe::Status));
        assert_eq!(of("hardmeter_4711_2:query_start_3"), Some(StatementProbe::Start));
        assert_eq!(of("hardmeter_4711:query_done:u"), None);
        assert_eq!(of("hardmeter_:statement"), None);
        assert_eq!(of("hardmeter_x:statement"), None);
        assert_eq!(of("hardmeter_4711:statement_x"), None);
        assert_eq!(of("sdt_postgresql:query__start"), None);
        assert_eq!(of("statement"), None);
    }

    #[test]
    fn a_text_is_read_to_its_zero_and_what_the_kernel_could_not_read_is_no_text() {
        assert_eq!(text(&raw(0x1000, b"select 1\0")), Some(&b"select 1"[..]));
        assert_eq!(text(&raw(0x1000, b"(fault)\0")), None);
        assert_eq!(text(&raw(0x1000, b"")), None);
        // A length beyond the record, and a record cut anywhere.
        let mut lying = raw(0x1000, b"select 1\0");
        lying[26] = 0xff;
        assert_eq!(text(&lying), None);
        let whole = raw(0x1000, b"select 1\0");
        (0..whole.len()).for_each(|length| assert_eq!(text(&whole[..length]), None));
    }
}
