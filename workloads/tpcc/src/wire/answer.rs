//! The answer to a round trip: bytes of the server as they come, cut into messages, up to ReadyForQuery.
//!
//! The bytes stay where they were read; what is noted is where each statement's rows begin and end. Nothing here does I/O
//! and nothing trusts a length: a buffer grows by what has come, never by what a message claims to bring.

use super::refusal::Refusal;
use postgres_protocol::message::backend as tag;
use std::ops::Range;

/// What an answer may measure at most, all its messages together. The largest of TPC-C's is a few kilobytes.
const LIMIT: usize = 64 << 20;
/// What a buffer measures at first, and again after an answer that was larger.
const USUAL: usize = 16 << 10;
/// Tag and length.
const HEADER: usize = 5;

/// Where the transaction stands when the server is ready (ReadyForQuery).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    InTransaction,
    InFailedTransaction,
}

/// What is no answer of a PostgreSQL.
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
    /// Where its messages begin.
    pub begin: usize,
    /// Where they end.
    pub end: usize,
    /// How many rows.
    pub rows: u32,
    /// What the command tag counts: rows given or touched.
    pub affected: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Answer {
    buffer: Vec<u8>,
    /// What has come: `buffer[..filled]`.
    filled: usize,
    /// What was cut into messages: `buffer[..scanned]`.
    scanned: usize,
    /// Whether a statement has begun to answer and not ended.
    open: bool,
    parts: Vec<Part>,
    refusal: Option<Refusal>,
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
        }
    }

    /// Where to read the next bytes to; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            // Bounded: `scan` refuses an answer beyond the limit, and half of the buffer has really come.
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// So many bytes were read into [`Answer::space`].
    pub fn came(&mut self, bytes: usize) {
        self.filled += bytes;
        debug_assert!(self.filled <= self.buffer.len());
    }

    /// Goes through what came. `Some` at ReadyForQuery: the answer is whole; see its parts, then call [`Answer::next`].
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
                    // The first says what is wrong. One that ends the session says more.
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
                tag::PARSE_COMPLETE_TAG
                | tag::CLOSE_COMPLETE_TAG
                | tag::NO_DATA_TAG
                | tag::PARAMETER_DESCRIPTION_TAG
                | tag::ROW_DESCRIPTION_TAG
                | tag::NOTICE_RESPONSE_TAG
                | tag::NOTIFICATION_RESPONSE_TAG
                | tag::PARAMETER_STATUS_TAG => {}
                other => return Err(BadAnswer::Message(other)),
            }
        }
        Ok(None)
    }

    /// Cuts off the next message, whatever it is: for those who speak before the first ReadyForQuery. Gives its tag and
    /// where it lies, with its header.
    pub fn take_message(&mut self) -> Result<Option<(u8, Range<usize>)>, BadAnswer> {
        let Some((kind, body)) = self.message()? else { return Ok(None) };
        self.scanned = body.end;
        Ok(Some((kind, body.start - HEADER..body.end)))
    }

    /// Bytes that came.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// The answers of statements that were executed, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// What the server refused, if it did.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    /// The answer has been read; the next one may begin. What came behind it is kept.
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

/// The number at the end of a command tag: `INSERT 0 5`, `SELECT 1`; 0 where there is none: `BEGIN`.
fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    tag[tag.len() - digits..]
        .iter()
        .fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}
