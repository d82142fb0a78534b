//! Requests of one round trip, written straight into the connection's buffer.

use super::numeric;

/// The names of our own statements, besides those that are numbers.
pub(super) const BEGIN: &str = "b";
pub(super) const COMMIT: &str = "c";
pub(super) const ROLLBACK: &str = "r";

/// Microseconds between 1970-01-01 and 2000-01-01, from which PostgreSQL counts.
pub(super) const EPOCH_OFFSET: i64 = 946_684_800_000_000;

/// The buffer to which a script appends its statements, in order. The module adds the Sync after them.
#[derive(Debug)]
pub struct Requests<'a> {
    buffer: &'a mut Vec<u8>,
    count: usize,
}

impl<'a> Requests<'a> {
    /// Requests go to the end of a buffer.
    pub fn new(buffer: &'a mut Vec<u8>) -> Requests<'a> {
        Requests { buffer, count: 0 }
    }

    /// Executes a statement, by its index in [`super::Scripts::statements`]; the closure writes all its parameters
    /// in order. Returns the index of its answer in [`super::Replies`].
    pub fn execute(&mut self, statement: usize, write: impl FnOnce(&mut Parameters<'_>)) -> usize {
        let mut digits = [0; 20];
        let name = decimal(statement, &mut digits);
        self.bind_and_execute(name, write)
    }

    /// Begins a transaction block. It has its own answer.
    pub fn begin(&mut self) -> usize {
        self.bind_and_execute(BEGIN.as_bytes(), |_| ())
    }

    /// Commits the transaction block. After a failure it is a rollback, so only a reply without an error means
    /// committed.
    pub fn commit(&mut self) -> usize {
        self.bind_and_execute(COMMIT.as_bytes(), |_| ())
    }

    /// Rolls the transaction block back.
    pub fn rollback(&mut self) -> usize {
        self.bind_and_execute(ROLLBACK.as_bytes(), |_| ())
    }

    /// Number of statements written.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none was written.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bind to the unnamed portal, all parameters and results binary, and Execute of all its rows.
    fn bind_and_execute(&mut self, name: &[u8], write: impl FnOnce(&mut Parameters<'_>)) -> usize {
        let buffer = &mut *self.buffer;
        let length = buffer.len() + 1;
        buffer.extend_from_slice(&[b'B', 0, 0, 0, 0, 0]); // length, filled in below; unnamed portal
        buffer.extend_from_slice(name);
        // The end of the name; one format for all parameters: binary; their number, filled in below.
        buffer.extend_from_slice(&[0, 0, 1, 0, 1, 0, 0]);
        let count = buffer.len() - 2;
        let mut parameters = Parameters { buffer, count: 0 };
        write(&mut parameters);
        let written = parameters.count;
        buffer[count..count + 2].copy_from_slice(&written.to_be_bytes());
        let bytes = (buffer.len() + 4 - length) as i32;
        buffer[length..length + 4].copy_from_slice(&bytes.to_be_bytes());
        // One format for all columns: binary. Execute the unnamed portal without a row limit.
        buffer.extend_from_slice(&[0, 1, 0, 1, b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0]);
        self.count += 1;
        self.count - 1
    }
}

/// A number in decimal, without allocating.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// Parameters of one statement, in order. Each must have the type that the statement declares: the server cannot
/// distinguish an int8 from a timestamp.
#[derive(Debug)]
pub struct Parameters<'a> {
    buffer: &'a mut Vec<u8>,
    count: u16,
}

impl Parameters<'_> {
    /// NULL.
    pub fn null(&mut self) {
        self.count += 1;
        self.buffer.extend_from_slice(&(-1i32).to_be_bytes());
    }

    /// bool.
    pub fn bool(&mut self, value: bool) {
        self.fixed([u8::from(value)]);
    }

    /// int2.
    pub fn i16(&mut self, value: i16) {
        self.fixed(value.to_be_bytes());
    }

    /// int4.
    pub fn i32(&mut self, value: i32) {
        self.fixed(value.to_be_bytes());
    }

    /// int8.
    pub fn i64(&mut self, value: i64) {
        self.fixed(value.to_be_bytes());
    }

    /// A text, varchar or char(n). It must not contain the character 0: the server refuses it.
    pub fn text(&mut self, value: &str) {
        self.value(value.as_bytes());
    }

    /// A numeric: `unscaled` times 10^-`scale`. Cents: `numeric(cents, 2)`.
    pub fn numeric(&mut self, unscaled: i64, scale: u8) {
        self.measured(|buffer| numeric::encode(unscaled, scale, buffer));
    }

    /// A timestamp or timestamptz, in microseconds since 1970.
    pub fn timestamp(&mut self, micros: i64) {
        self.i64(micros - EPOCH_OFFSET);
    }

    /// int2[].
    pub fn i16s(&mut self, values: impl IntoIterator<Item = i16>) {
        self.array(super::types::INT2, values, |value, buffer| {
            buffer.extend_from_slice(&value.to_be_bytes())
        });
    }

    /// int4[].
    pub fn i32s(&mut self, values: impl IntoIterator<Item = i32>) {
        self.array(super::types::INT4, values, |value, buffer| {
            buffer.extend_from_slice(&value.to_be_bytes())
        });
    }

    /// int8[].
    pub fn i64s(&mut self, values: impl IntoIterator<Item = i64>) {
        self.array(super::types::INT8, values, |value, buffer| {
            buffer.extend_from_slice(&value.to_be_bytes())
        });
    }

    /// text[].
    pub fn texts<'t>(&mut self, values: impl IntoIterator<Item = &'t str>) {
        self.array(super::types::TEXT, values, |value, buffer| buffer.extend_from_slice(value.as_bytes()));
    }

    /// A numeric[] with one scale.
    pub fn numerics(&mut self, unscaled: impl IntoIterator<Item = i64>, scale: u8) {
        self.array(super::types::NUMERIC, unscaled, |value, buffer| numeric::encode(value, scale, buffer));
    }

    /// A value whose length is known at compile time: two stores and no call.
    #[inline]
    fn fixed<const N: usize>(&mut self, bytes: [u8; N]) {
        self.count += 1;
        self.buffer.extend_from_slice(&(N as i32).to_be_bytes());
        self.buffer.extend_from_slice(&bytes);
    }

    fn value(&mut self, bytes: &[u8]) {
        self.count += 1;
        self.buffer.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        self.buffer.extend_from_slice(bytes);
    }

    /// A value whose length is known after writing it.
    fn measured(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.count += 1;
        with_length(self.buffer, write);
    }

    fn array<T>(
        &mut self,
        element: u32,
        values: impl IntoIterator<Item = T>,
        write: impl Fn(T, &mut Vec<u8>),
    ) {
        self.measured(|buffer| {
            let begin = buffer.len();
            // One dimension, no NULL, the elements' type; then the length of the dimension, and its first index, 1.
            for field in [1, 0, element, 0, 1] {
                buffer.extend_from_slice(&field.to_be_bytes());
            }
            let mut count = 0u32;
            for value in values {
                with_length(buffer, |buffer| write(value, buffer));
                count += 1;
            }
            if count == 0 {
                // An empty array has no dimension at all.
                buffer[begin..begin + 4].fill(0);
                buffer.truncate(begin + 12);
            } else {
                buffer[begin + 12..begin + 16].copy_from_slice(&count.to_be_bytes());
            }
        });
    }
}

fn with_length(buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let length = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    write(buffer);
    let bytes = (buffer.len() - length - 4) as i32;
    buffer[length..length + 4].copy_from_slice(&bytes.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use postgres_protocol::message::frontend;

    #[test]
    fn what_is_written_is_what_the_protocol_s_own_crate_writes() {
        let mut ours = Vec::new();
        let mut requests = Requests::new(&mut ours);
        assert_eq!(requests.begin(), 0);
        let place = requests.execute(17, |parameters| {
            parameters.i32(5);
            parameters.null();
            parameters.text("BAR");
            parameters.i64(-1);
        });
        assert_eq!((place, requests.len(), requests.is_empty()), (1, 2, false));

        let mut theirs = BytesMut::new();
        let none: [Option<&[u8]>; 0] = [];
        let all: [Option<&[u8]>; 4] = [Some(&[0, 0, 0, 5]), None, Some(b"BAR"), Some(&[0xff; 8])];
        let bind = |name: &str, values: &[Option<&[u8]>], buffer: &mut BytesMut| {
            let write = |value: &Option<&[u8]>, buffer: &mut BytesMut| match value {
                Some(bytes) => {
                    buffer.extend_from_slice(bytes);
                    Ok(postgres_protocol::IsNull::No)
                }
                None => Ok(postgres_protocol::IsNull::Yes),
            };
            assert!(frontend::bind("", name, [1], values, write, [1], buffer).is_ok());
            frontend::execute("", 0, buffer).unwrap();
        };
        bind("b", &none, &mut theirs);
        bind("17", &all, &mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn arrays_are_written_as_postgresql_sends_them() {
        let mut ours = Vec::new();
        Requests::new(&mut ours).execute(0, |parameters| parameters.i32s([7, -2]));
        let array: [u8; 36] = [
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0,
            1, // dimensions, NULLs, type, 2 from 1
            0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xfe,
        ];
        let begin = ours.windows(array.len()).position(|window| window == array).expect("the array");
        assert_eq!(ours[begin - 4..begin], 36i32.to_be_bytes());

        let mut empty = Vec::new();
        Requests::new(&mut empty).execute(0, |parameters| parameters.texts([]));
        let array = [0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25];
        assert!(empty.windows(array.len()).any(|window| window == array), "{empty:?}");
    }

    #[test]
    fn statements_have_decimal_names() {
        for number in [0, 9, 10, 65535, usize::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
