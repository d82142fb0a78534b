//! The answer to a round trip: the server's bytes, split into messages, up to ReadyForQuery.
//!
//! The bytes stay in the read buffer; the answer records where each statement's rows begin and end. This module
//! does no I/O and trusts no length: the buffer grows with received bytes, never with a message's claimed length.

use super::refusal::Refusal;
use postgres_protocol::message::backend as tag;
use std::ops::Range;

/// Maximum size of an answer over all its messages. The largest of TPC-C's is a few kilobytes.
const LIMIT: usize = 64 << 20;
/// Initial size of the buffer, restored after an answer that was larger.
const USUAL: usize = 16 << 10;
/// Tag and length.
const HEADER: usize = 5;

/// The transaction's state in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    InTransaction,
    InFailedTransaction,
}

/// An answer that violates PostgreSQL's protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub(super) enum BadAnswer {
    #[error("the server's answer is not in PostgreSQL's protocol: a message of type {0:#04x}")]
    Message(u8),
    #[error("the server's answer is not in PostgreSQL's protocol: a message of type {0:#04x} with a length of {1}")]
    Length(u8, u32),
    #[error("the server's answer is longer than {} MiB", LIMIT >> 20)]
    TooLong,
}

/// The answer to one executed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Start of its messages.
    pub begin: usize,
    /// End of its messages.
    pub end: usize,
    /// Number of rows.
    pub rows: u32,
    /// The count of the command tag: rows returned or changed.
    pub affected: u64,
}

/// An answer; see the module.
#[derive(Debug)]
pub(super) struct Answer {
    buffer: Vec<u8>,
    /// Received bytes: `buffer[..filled]`.
    filled: usize,
    /// Bytes already split into messages: `buffer[..scanned]`.
    scanned: usize,
    /// Whether a statement has begun to answer and not ended.
    open: bool,
    parts: Vec<Part>,
    refusal: Option<Refusal>,
    /// A warning that the server will terminate: the only message when it ends its sessions after a crash.
    warning: Option<Refusal>,
}

impl Answer {
    pub fn new() -> Answer {
        Answer {
            buffer: vec![0; USUAL],
            filled: 0,
            scanned: 0,
            open: false,
            parts: Vec::new(),
            refusal: None,
            warning: None,
        }
    }

    /// Space for the next read; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            // Bounded: `scan` refuses an answer beyond the limit, and half of the buffer holds received bytes.
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// This number of bytes was read into [`Answer::space`].
    pub fn came(&mut self, bytes: usize) {
        self.filled += bytes;
        debug_assert!(self.filled <= self.buffer.len());
    }

    /// Processes received bytes. `Some` at ReadyForQuery: the answer is complete; read its parts, then call
    /// [`Answer::next`].
    pub fn scan(&mut self) -> Result<Option<Status>, BadAnswer> {
        while let Some((kind, body)) = self.message()? {
            self.scanned = body.end;
            match kind {
                tag::BIND_COMPLETE_TAG => {
                    self.open = true;
                    self.parts.push(Part { begin: body.end, end: body.end, rows: 0, affected: 0 });
                }
                tag::DATA_ROW_TAG => {
                    if let Some(part) = self.part() {
                        part.rows += 1;
                    }
                }
                tag::COMMAND_COMPLETE_TAG | tag::EMPTY_QUERY_RESPONSE_TAG | tag::PORTAL_SUSPENDED_TAG => {
                    let affected = if kind == tag::COMMAND_COMPLETE_TAG {
                        affected(&self.buffer[body.clone()])
                    } else {
                        0
                    };
                    if let Some(part) = self.part() {
                        (part.end, part.affected) = (body.end, affected);
                    }
                    self.open = false;
                }
                tag::ERROR_RESPONSE_TAG => {
                    self.open = false;
                    let refusal = Refusal::parse(&self.buffer[body], self.parts.len());
                    // The first refusal has the cause, unless a later one ends the session.
                    if self.refusal.is_none() || refusal.ends_session() {
                        self.refusal = Some(refusal);
                    }
                }
                tag::READY_FOR_QUERY_TAG => {
                    return match &self.buffer[body.clone()] {
                        b"I" => Ok(Some(Status::Idle)),
                        b"T" => Ok(Some(Status::InTransaction)),
                        b"E" => Ok(Some(Status::InFailedTransaction)),
                        _ => Err(BadAnswer::Length(kind, body.len() as u32 + 4)),
                    };
                }
                tag::NOTICE_RESPONSE_TAG => {
                    let notice = Refusal::parse(&self.buffer[body], 0);
                    if notice.ends_session() {
                        self.warning = Some(notice);
                    }
                }
                tag::PARSE_COMPLETE_TAG
                | tag::CLOSE_COMPLETE_TAG
                | tag::NO_DATA_TAG
                | tag::PARAMETER_DESCRIPTION_TAG
                | tag::ROW_DESCRIPTION_TAG
                | tag::NOTIFICATION_RESPONSE_TAG
                | tag::PARAMETER_STATUS_TAG => {}
                other => return Err(BadAnswer::Message(other)),
            }
        }
        Ok(None)
    }

    /// Takes the next message of any type, for the phase before the first ReadyForQuery. Returns its tag and its
    /// range, header included.
    pub fn take_message(&mut self) -> Result<Option<(u8, Range<usize>)>, BadAnswer> {
        let Some((kind, body)) = self.message()? else { return Ok(None) };
        self.scanned = body.end;
        Ok(Some((kind, body.start - HEADER..body.end)))
    }

    /// Received bytes in a range.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The answers of statements that were executed, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The server's refusal, if any.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The reason why the server closed the connection, if it sent a reason.
    pub fn last_words(&self) -> Option<&Refusal> {
        self.refusal.as_ref().or(self.warning.as_ref())
    }

    /// Discards the answer that has been read. Bytes after it are kept.
    pub fn next(&mut self) {
        self.parts.clear();
        self.refusal = None;
        self.open = false;
        let rest = self.scanned..self.filled;
        self.filled = rest.len();
        self.scanned = 0;
        if rest.start > 0 && !rest.is_empty() {
            self.buffer.copy_within(rest, 0);
        }
        if self.buffer.len() > 16 * USUAL && self.filled < USUAL {
            self.buffer.truncate(USUAL);
            self.buffer.shrink_to_fit();
        }
    }

    /// The next message's tag and body, once it is whole.
    fn message(&self) -> Result<Option<(u8, Range<usize>)>, BadAnswer> {
        let Some(header) = self.buffer[..self.filled].get(self.scanned..self.scanned + HEADER) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
        if length < 4 || length > i32::MAX as u32 {
            return Err(BadAnswer::Length(header[0], length));
        }
        let end = self.scanned + 1 + length as usize;
        if end > LIMIT {
            return Err(BadAnswer::TooLong);
        }
        Ok((end <= self.filled).then_some((header[0], self.scanned + HEADER..end)))
    }

    /// The statement that answers now.
    fn part(&mut self) -> Option<&mut Part> {
        self.parts.last_mut().filter(|_| self.open)
    }
}

/// The number at the end of a command tag: `INSERT 0 5`, `SELECT 1`; 0 without a number: `BEGIN`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    tag[tag.len() - digits..]
        .iter()
        .fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::super::replies::{Replies, Value};
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    /// An answer to three statements: two rows, the first of 7, NULL and "BAR"; an INSERT; a refusal.
    fn whole() -> Vec<u8> {
        let row = [&[0, 3, 0, 0, 0, 4, 0, 0, 0, 7][..], &[0xff; 4], &[0, 0, 0, 3], b"BAR"].concat();
        let notice = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mby the way\0\0");
        [
            message(b'S', b"TimeZone\0UTC\0"),
            message(b'2', &[]),
            message(b'D', &row),
            notice,
            message(b'D', &[0, 1, 0, 0, 0, 0]),
            message(b'C', b"SELECT 2\0"),
            message(b'2', &[]),
            message(b'C', b"INSERT 0 5\0"),
            message(b'2', &[]),
            message(b'E', b"SFEHLER\0VERROR\0C40001\0Mcould not\nserialize\0\0"),
            message(b'Z', b"E"),
        ]
        .concat()
    }

    fn came(answer: &mut Answer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = answer.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            answer.came(count);
            bytes = &bytes[count..];
        }
    }

    fn check(answer: &Answer) {
        let replies = Replies::new(answer);
        assert_eq!(replies.len(), 3);
        let first = replies.reply(0).unwrap();
        assert_eq!((first.row_count(), first.affected(), first.rows().count()), (2, 2, 2));
        let row = first.row().unwrap();
        assert_eq!(row.get(0).unwrap().i32(), Ok(7));
        assert!(row.get(1).unwrap().is_null());
        assert_eq!(row.get(2).unwrap().text(), Ok("BAR"));
        assert!(row.get(3).is_err());
        let second = replies.reply(1).unwrap();
        assert_eq!((second.row_count(), second.affected()), (0, 5));
        let refusal = answer.refusal().unwrap();
        assert_eq!(
            (refusal.code.as_str(), refusal.message.as_str(), refusal.answered),
            ("40001", "could not serialize", 3)
        );
        assert!(!refusal.ends_session());
    }

    #[test]
    fn an_answer_may_come_in_pieces_cut_anywhere() {
        let bytes = whole();
        for cut in 0..bytes.len() {
            let mut answer = Answer::new();
            // Bytes of an earlier answer remain.
            came(&mut answer, &message(b'Z', b"I"));
            assert_eq!(answer.scan(), Ok(Some(Status::Idle)));
            answer.next();
            came(&mut answer, &bytes[..cut]);
            assert_eq!(answer.scan(), Ok(None), "cut at {cut}");
            came(&mut answer, &bytes[cut..]);
            assert_eq!(answer.scan(), Ok(Some(Status::InFailedTransaction)), "cut at {cut}");
            check(&answer);
        }
    }

    #[test]
    fn what_comes_behind_an_answer_is_kept_for_the_next() {
        let mut answer = Answer::new();
        came(&mut answer, &[whole(), whole()].concat());
        for _ in 0..2 {
            assert_eq!(answer.scan(), Ok(Some(Status::InFailedTransaction)));
            check(&answer);
            answer.next();
        }
        assert_eq!(answer.scan(), Ok(None));
    }

    #[test]
    fn large_answers_are_held_and_their_room_is_given_back() {
        let mut answer = Answer::new();
        let large = message(b'D', &[&[0, 1, 0, 0x4c, 0x4b, 0x40][..], &vec![b'x'; 5_000_000]].concat());
        came(&mut answer, &message(b'2', &[]));
        came(&mut answer, &large);
        came(&mut answer, &[message(b'C', b"SELECT 1\0"), message(b'Z', b"I")].concat());
        assert_eq!(answer.scan(), Ok(Some(Status::Idle)));
        let text = Replies::new(&answer).row(0).unwrap().get(0).unwrap().text().unwrap().len();
        assert_eq!(text, 5_000_000);
        answer.next();
        assert_eq!(answer.buffer.len(), USUAL);
    }

    #[test]
    fn lengths_that_no_server_sends_are_refused_before_anything_is_allocated() {
        let refused = |bytes: &[u8]| {
            let mut answer = Answer::new();
            came(&mut answer, bytes);
            let error = answer.scan().unwrap_err();
            assert_eq!(answer.buffer.len(), USUAL);
            error
        };
        assert_eq!(refused(&[b'D', 0, 0, 0, 3]), BadAnswer::Length(b'D', 3));
        assert_eq!(refused(&[b'D', 0xff, 0xff, 0xff, 0xff]), BadAnswer::Length(b'D', u32::MAX));
        assert_eq!(refused(&[b'D', 0x7f, 0, 0, 0]), BadAnswer::TooLong);
        assert_eq!(refused(&message(b'G', &[0, 0, 0])), BadAnswer::Message(b'G'));
        assert_eq!(refused(&message(b'Z', b"?")), BadAnswer::Length(b'Z', 5));
        assert_eq!(refused(b"HTTP/1.1 400 Bad Request\r\n"), BadAnswer::TooLong);
    }

    /// Reads a value by every getter.
    fn read(value: Value<'_>) {
        let _ = (value.bool(), value.i16(), value.i32(), value.i64(), value.integer(), value.text());
        let _ = (value.numeric(2), value.timestamp());
        if let Ok(elements) = value.array() {
            assert!(elements.len() <= LIMIT / 4);
            for element in elements {
                let _ = element.map(|element| element.i32());
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_go_on_for_ever() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(6);
        let mut below = |bound: usize| random.next_u64() as usize % bound;
        for _ in 0..30_000 {
            // Half of them noise, half of them an answer with a few bytes changed.
            let mut bytes = whole();
            if below(2) == 0 {
                bytes = (0..below(80)).map(|_| below(256) as u8).collect();
                // Most random bytes are not valid tag: make some valid, to reach later checks.
                if let Some(first) = bytes.first_mut() {
                    *first = b"2DCEZNSIsn13"[below(12)];
                }
            }
            for _ in 0..below(4) {
                let place = below(bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = below(256) as u8;
                }
            }
            let mut answer = Answer::new();
            while !bytes.is_empty() {
                let count = (1 + below(40)).min(bytes.len());
                came(&mut answer, &bytes[..count]);
                bytes.drain(..count);
                let Ok(status) = answer.scan() else { break };
                let replies = Replies::new(&answer);
                for place in 0..=replies.len() {
                    let Ok(reply) = replies.reply(place) else { continue };
                    for row in reply.rows() {
                        let mut columns = row.columns();
                        while let Ok(value) = columns.value() {
                            read(value);
                        }
                    }
                }
                if status.is_some() {
                    answer.next();
                }
            }
        }
    }

    #[test]
    fn what_a_tag_counts_is_its_last_number() {
        for (tag, count) in [
            (&b"INSERT 0 5\0"[..], 5),
            (b"SELECT 120\0", 120),
            (b"BEGIN\0", 0),
            (b"UPDATE 99999999999999999999999\0", u64::MAX),
            (b"", 0),
        ] {
            assert_eq!(affected(tag), count, "{tag:?}");
        }
    }
}
