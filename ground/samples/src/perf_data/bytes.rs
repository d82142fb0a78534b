//! Checked reading of little-endian bytes: every access may fail, none may panic.

/// A position in a byte slice that only moves forward.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { rest: bytes }
    }

    /// The unread bytes.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }

    #[inline]
    pub(super) fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*word))
    }

    /// Two 32-bit words, such as `pid, tid` or `cpu, reserved`.
    #[inline]
    pub(super) fn u32_pair(&mut self) -> Option<(u32, u32)> {
        let word = self.u64()?;
        Some((word as u32, (word >> 32) as u32))
    }

    /// `count` bytes, where `count` is from the file: checked against the available bytes.
    #[inline]
    pub(super) fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(head)
    }

    /// `count` words of eight bytes, borrowed.
    #[inline]
    pub(super) fn words(&mut self, count: u64) -> Option<&'a [[u8; 8]]> {
        Some(self.bytes(count.checked_mul(8)?)?.as_chunks::<8>().0)
    }

    /// perf's string in a header: a length, then that many bytes with a terminating zero.
    pub(super) fn header_string(&mut self) -> Option<String> {
        let length = self.u32()?;
        Some(text_until_zero(self.bytes(length.into())?))
    }

    /// perf's list of strings: a count, then the strings.
    pub(super) fn header_strings(&mut self) -> Option<Vec<String>> {
        let count = self.u32()?;
        // A string takes at least four bytes, so an invalid count runs out of bytes before it costs memory.
        (0..count).map(|_| self.header_string()).collect()
    }
}

/// The text before the first zero byte; invalid UTF-8 is replaced.
pub(super) fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_past_the_end_fails_and_reads_nothing() {
        let mut cursor = Cursor::new(&[1, 0, 0, 0, 2]);
        assert_eq!(cursor.u64(), None);
        assert_eq!(cursor.u32(), Some(1));
        assert_eq!(cursor.bytes(u64::MAX), None);
        assert_eq!(cursor.words(u64::MAX / 4), None);
        assert_eq!(cursor.bytes(1), Some(&[2u8][..]));
    }

    #[test]
    fn header_strings_end_at_their_zero() {
        let bytes = b"\x02\0\0\0\x04\0\0\0ab\0x\x01\0\0\0c";
        assert_eq!(Cursor::new(bytes).header_strings(), Some(vec!["ab".to_string(), "c".to_string()]));
        let lying = b"\xff\xff\xff\xff\x00\0\0\0";
        assert_eq!(Cursor::new(lying).header_strings(), None);
    }
}
