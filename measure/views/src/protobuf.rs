//! The subset of Protocol Buffers that a pprof profile needs: varints and length-delimited fields.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// A number; the default of 0 is omitted, as the format requires.
    pub(crate) fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3 | VARINT);
            self.varint(value);
        }
    }

    /// A list of numbers, packed.
    pub(crate) fn numbers(&mut self, field: u64, values: &[u64]) {
        if !values.is_empty() {
            let mut packed = Message::default();
            values.iter().for_each(|value| packed.varint(*value));
            self.blob(field, &packed.bytes);
        }
    }

    /// A message inside this one.
    pub(crate) fn message(&mut self, field: u64, message: &Message) {
        self.blob(field, &message.bytes);
    }

    /// Text. Written even if empty: the first string of a pprof table is "".
    pub(crate) fn text(&mut self, field: u64, text: &str) {
        self.blob(field, text.as_bytes());
    }

    fn blob(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// The encoded message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's documentation: field 1 = 150; field 2 = "testing"; field 6 = 3, 270, 86942.
    #[test]
    fn the_documentations_examples() {
        let mut message = Message::default();
        message.number(1, 150);
        message.number(9, 0);
        message.text(2, "testing");
        message.numbers(6, &[3, 270, 86942]);
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(message.into_bytes(), expected);
    }
}
