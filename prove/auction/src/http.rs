//! The subset of HTTP/1.1 that the load generator needs: one request at a time on a kept connection; requests are
//! bytes, answers are parsed as they arrive. It is small so that the client costs little on the servers' machine.

use memchr::{memchr, memmem};

/// Number of bytes of a body that are kept for the search for links. All bytes are counted.
const KEPT: usize = 64 << 10;
/// Maximum length of an answer's head; the site's heads are shorter.
const LONGEST_HEAD: usize = 16 << 10;

/// The reason why an answer cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadAnswer {
    #[error("no HTTP")]
    NoHttp,
    #[error("an invalid length")]
    BadLength,
    #[error("more than one answer")]
    TooMuch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    /// Remaining bytes of the body.
    Body(u64),
    /// The body ends with the connection.
    UntilClosed,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    Done,
}

/// An answer in progress.
#[derive(Debug)]
pub struct Answer {
    state: State,
    /// The received part of the head, or of a chunk's line.
    line: Vec<u8>,
    status: u16,
    body: Vec<u8>,
    bytes: u64,
    closes: bool,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { state: State::Head, line: Vec::new(), status: 0, body: Vec::new(), bytes: 0, closes: false }
    }
}

impl Answer {
    /// Resets it for the next answer; keeps its memory.
    pub fn clear(&mut self) {
        self.state = State::Head;
        self.line.clear();
        self.body.clear();
        (self.status, self.bytes, self.closes) = (0, 0, false);
    }

    /// Whether any byte has arrived.
    pub fn begun(&self) -> bool {
        !matches!(self.state, State::Head) || self.status != 0 || !self.line.is_empty()
    }

    /// Its status; 0 if unknown.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The beginning of its body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Length of its body so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the server closes the connection after it.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// Adds received bytes; returns whether the answer is complete.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<bool, BadAnswer> {
        while !bytes.is_empty() {
            bytes = match self.state {
                State::Head => self.take_head(bytes)?,
                State::Body(left) => {
                    let (rest, left) = self.take_body(bytes, left);
                    self.state = if left == 0 { State::Done } else { State::Body(left) };
                    rest
                }
                State::UntilClosed => self.take_body(bytes, u64::MAX).0,
                State::Chunk(left) => {
                    let (rest, left) = self.take_body(bytes, left);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    rest
                }
                State::ChunkSize | State::ChunkEnd | State::Trailer => self.take_line(bytes)?,
                State::Done => return Err(BadAnswer::TooMuch),
            };
        }
        Ok(self.state == State::Done)
    }

    /// The connection has ended: returns whether that completes the answer.
    pub fn ended(&self) -> bool {
        matches!(self.state, State::UntilClosed | State::Done)
    }

    fn take_body<'a>(&mut self, bytes: &'a [u8], left: u64) -> (&'a [u8], u64) {
        let now = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (body, rest) = bytes.split_at(now);
        let room = KEPT - self.body.len().min(KEPT);
        self.body.extend_from_slice(&body[..body.len().min(room)]);
        self.bytes += now as u64;
        (rest, left - now as u64)
    }

    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], BadAnswer> {
        let before = self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(LONGEST_HEAD)]);
        // The end may span two reads.
        let from = before.saturating_sub(3);
        let Some(at) = memmem::find(&self.line[from..], b"\r\n\r\n") else {
            return if self.line.len() >= LONGEST_HEAD { Err(BadAnswer::NoHttp) } else { Ok(&[]) };
        };
        let end = from + at + 4;
        self.line.truncate(end);
        self.parse_head()?;
        self.line.clear();
        Ok(&bytes[end - before..])
    }

    fn parse_head(&mut self) -> Result<(), BadAnswer> {
        let text = std::str::from_utf8(&self.line).map_err(|_| BadAnswer::NoHttp)?;
        let mut lines = text.split("\r\n");
        let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).ok_or(BadAnswer::NoHttp)?;
        let status = first.get(2..5).and_then(|digits| digits.parse().ok());
        self.status = status.ok_or(BadAnswer::NoHttp)?;
        let (mut length, mut chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse::<u64>().map_err(|_| BadAnswer::BadLength)?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.eq_ignore_ascii_case("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                self.closes = value.eq_ignore_ascii_case("close");
            }
        }
        self.state = match (chunked, length) {
            _ if matches!(self.status, 204 | 304) => State::Done,
            (true, _) => State::ChunkSize,
            (false, Some(0)) => State::Done,
            (false, Some(length)) => State::Body(length),
            (false, None) => State::UntilClosed,
        };
        Ok(())
    }

    /// A line between chunks.
    fn take_line<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], BadAnswer> {
        let end = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
        self.line.extend_from_slice(&bytes[..end]);
        if self.line.len() > 256 {
            return Err(BadAnswer::BadLength);
        }
        if self.line.last() == Some(&b'\n') {
            self.state = match self.state {
                State::ChunkSize => match chunk_size(&self.line)? {
                    0 => State::Trailer,
                    size => State::Chunk(size),
                },
                State::Trailer if self.line.len() > 2 => State::Trailer,
                State::Trailer => State::Done,
                _ => State::ChunkSize,
            };
            self.line.clear();
        }
        Ok(&bytes[end..])
    }
}

fn chunk_size(line: &[u8]) -> Result<u64, BadAnswer> {
    let text = std::str::from_utf8(line).map_err(|_| BadAnswer::BadLength)?;
    let digits = text.split(';').next().unwrap_or("").trim();
    u64::from_str_radix(digits, 16).map_err(|_| BadAnswer::BadLength)
}

/// Appends a request for a page.
pub fn get(path: &str, to: &mut Vec<u8>) {
    for part in ["GET /", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"] {
        to.extend_from_slice(part.as_bytes());
    }
}

/// Appends a form; the values in `form` are encoded.
pub fn post(path: &str, form: &str, to: &mut Vec<u8>) {
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        form.len()
    );
    to.extend_from_slice(head.as_bytes());
    to.extend_from_slice(form.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/html\r\n\r\nhello";
    const CHUNKED: &[u8] =
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                             5\r\nhello\r\n6;x=1\r\n world\r\n0\r\nX-After: 1\r\n\r\n";

    #[test]
    fn an_answer_is_the_same_however_it_is_cut() {
        for (bytes, status, body, closes) in
            [(WHOLE, 200, &b"hello"[..], false), (CHUNKED, 404, b"hello world", true)]
        {
            for step in 1..=bytes.len() {
                let mut answer = Answer::default();
                let mut done = false;
                for part in bytes.chunks(step) {
                    assert!(!done, "too early, by {step}");
                    done = answer.take(part).unwrap();
                }
                assert!(done, "by {step}");
                assert_eq!((answer.status(), answer.body(), answer.closes()), (status, body, closes));
                assert_eq!(answer.bytes(), body.len() as u64);
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_not_a_panic() {
        for (bytes, error) in [
            (&b"SSH-2.0-OpenSSH\r\n\r\n"[..], BadAnswer::NoHttp),
            (b"HTTP/1.1 2x0 OK\r\n\r\n", BadAnswer::NoHttp),
            (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", BadAnswer::BadLength),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", BadAnswer::BadLength),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", BadAnswer::TooMuch),
        ] {
            assert_eq!(Answer::default().take(bytes), Err(error), "{}", String::from_utf8_lossy(bytes));
        }
        let mut endless = Answer::default();
        assert_eq!(endless.take(&vec![b'x'; 1 << 20]), Err(BadAnswer::NoHttp));
        let mut cut = Answer::default();
        assert_eq!(cut.take(&WHOLE[..WHOLE.len() - 1]), Ok(false));
        assert!(!cut.ended());
        let mut open = Answer::default();
        assert_eq!(open.take(b"HTTP/1.0 200 OK\r\n\r\nabc"), Ok(false));
        assert!(open.ended() && open.body() == b"abc");
    }
}
