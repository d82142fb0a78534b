//! The answers that a script reads: rows of the statements of one round trip, by column, in binary.

use super::answer::{Answer, Part};
use super::numeric;
use super::requests::EPOCH_OFFSET;
use postgres_protocol::message::backend::DATA_ROW_TAG;

/// An answer that a script does not expect: the database is not the one it was written for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the messages document the variants
pub enum Unexpected {
    #[error("no statement {0} was answered in this round trip")]
    NoReply(usize),
    #[error("expected a row, got none")]
    NoRow,
    #[error("expected a column {0}, the row has none")]
    NoColumn(usize),
    #[error("expected a value, got NULL")]
    Null,
    #[error("expected {wanted}, got another value of {bytes} bytes")]
    NotOf { wanted: &'static str, bytes: usize },
    /// For scripts: an invalid value.
    #[error("{0}")]
    Data(String),
}

/// All answers of one round trip, in the order of the requests. None of them is an error.
#[derive(Clone, Copy, Debug)]
pub struct Replies<'a> {
    answer: &'a Answer,
}

impl<'a> Replies<'a> {
    pub(super) fn new(answer: &'a Answer) -> Replies<'a> {
        Replies { answer }
    }

    /// The answer to the statement with this index in the round trip, as returned by [`super::Requests::execute`].
    /// BEGIN and COMMIT have indexes, too.
    ///
    /// # Errors
    ///
    /// [`Unexpected::NoReply`] if the round trip had fewer statements.
    pub fn reply(&self, place: usize) -> Result<Reply<'a>, Unexpected> {
        let part = self.answer.parts().get(place).ok_or(Unexpected::NoReply(place))?;
        Ok(Reply { bytes: self.answer.bytes(part.begin..part.end), part: *part })
    }

    /// The first row of the answer with this index.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if there is no such reply, or it has no row.
    pub fn row(&self, place: usize) -> Result<Row<'a>, Unexpected> {
        self.reply(place)?.row()
    }

    /// Number of answered statements.
    pub fn len(&self) -> usize {
        self.answer.parts().len()
    }

    /// True if no statement was answered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The answer to one statement.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    bytes: &'a [u8],
    part: Part,
}

impl<'a> Reply<'a> {
    /// Its rows.
    pub fn rows(&self) -> Rows<'a> {
        Rows { bytes: self.bytes }
    }

    /// Its first row, which must be there.
    ///
    /// # Errors
    ///
    /// [`Unexpected::NoRow`] if the answer is empty.
    pub fn row(&self) -> Result<Row<'a>, Unexpected> {
        self.rows().next().ok_or(Unexpected::NoRow)
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.part.rows
    }

    /// The count of the command tag: rows returned or changed. 0 for commands without a count.
    pub fn affected(&self) -> u64 {
        self.part.affected
    }
}

/// The rows of an answer.
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    /// Complete messages: checked by the answer's scan.
    bytes: &'a [u8],
}

impl<'a> Iterator for Rows<'a> {
    type Item = Row<'a>;

    fn next(&mut self) -> Option<Row<'a>> {
        loop {
            let tag = *self.bytes.first()?;
            let length = u32::from_be_bytes(self.bytes.get(1..5)?.try_into().ok()?) as usize;
            let body = self.bytes.get(5..1 + length)?;
            self.bytes = &self.bytes[1 + length..];
            // Notices may occur between rows.
            if tag == DATA_ROW_TAG {
                return Some(Row { columns: body.get(2..).unwrap_or(&[]) });
            }
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    columns: &'a [u8],
}

impl<'a> Row<'a> {
    /// A column, from 0. It skips earlier columns each time: for wide rows use [`Row::columns`].
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing.
    pub fn get(&self, column: usize) -> Result<Value<'a>, Unexpected> {
        let mut columns = self.columns();
        for _ in 0..column {
            columns.value()?;
        }
        columns.value()
    }

    /// Its columns, one after the other.
    pub fn columns(&self) -> Columns<'a> {
        Columns { bytes: self.columns, next: 0 }
    }
}

/// The columns of a row, one after the other. The getters are those of [`Value`], of the next column.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    bytes: &'a [u8],
    next: usize,
}

impl<'a> Columns<'a> {
    /// The next column.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing.
    pub fn value(&mut self) -> Result<Value<'a>, Unexpected> {
        let missing = Unexpected::NoColumn(self.next);
        self.next += 1;
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return Err(missing) };
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            self.bytes = rest;
            return Ok(Value(None));
        }
        let Some((value, rest)) = rest.split_at_checked(length as usize) else { return Err(missing) };
        self.bytes = rest;
        Ok(Value(Some(value)))
    }

    /// int4 of the next column.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn i32(&mut self) -> Result<i32, Unexpected> {
        self.value()?.i32()
    }

    /// int8 of the next column.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn i64(&mut self) -> Result<i64, Unexpected> {
        self.value()?.i64()
    }

    /// The next column: int2, int4 or int8.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn integer(&mut self) -> Result<i64, Unexpected> {
        self.value()?.integer()
    }

    /// Text of the next column.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn text(&mut self) -> Result<&'a str, Unexpected> {
        self.value()?.text()
    }

    /// The next column: numeric, times 10^`scale`.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn numeric(&mut self, scale: u8) -> Result<i64, Unexpected> {
        self.value()?.numeric(scale)
    }

    /// The next column: timestamp.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if the column is missing, NULL, or of another type.
    pub fn timestamp(&mut self) -> Result<i64, Unexpected> {
        self.value()?.timestamp()
    }
}

/// The value of a column. Reading it as another type is an error if the length differs, and gives a wrong value
/// otherwise: an int8 read as a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a>(Option<&'a [u8]>);

impl<'a> Value<'a> {
    /// `None` if it is NULL: `value.optional().map(|value| value.i32()).transpose()?`.
    pub fn optional(self) -> Option<Value<'a>> {
        self.0.map(|_| self)
    }

    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.0.is_none()
    }

    /// Its bytes.
    ///
    /// # Errors
    ///
    /// [`Unexpected::Null`] if it is NULL.
    pub fn bytes(self) -> Result<&'a [u8], Unexpected> {
        self.0.ok_or(Unexpected::Null)
    }

    /// bool.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn bool(self) -> Result<bool, Unexpected> {
        let [byte] = self.fixed("a bool")?;
        Ok(byte != 0)
    }

    /// int2.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn i16(self) -> Result<i16, Unexpected> {
        self.fixed("an int2").map(i16::from_be_bytes)
    }

    /// int4.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn i32(self) -> Result<i32, Unexpected> {
        self.fixed("an int4").map(i32::from_be_bytes)
    }

    /// int8.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn i64(self) -> Result<i64, Unexpected> {
        self.fixed("an int8").map(i64::from_be_bytes)
    }

    /// int2, int4 or int8.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn integer(self) -> Result<i64, Unexpected> {
        match self.bytes()?.len() {
            2 => self.i16().map(i64::from),
            4 => self.i32().map(i64::from),
            _ => self.fixed("an integer").map(i64::from_be_bytes),
        }
    }

    /// A text, varchar, or char(n) including its spaces.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn text(self) -> Result<&'a str, Unexpected> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| Unexpected::NotOf { wanted: "text", bytes: bytes.len() })
    }

    /// A numeric, times 10^`scale`: cents with `numeric(2)`.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL, of another type, or has more than `scale` decimal places.
    pub fn numeric(self, scale: u8) -> Result<i64, Unexpected> {
        let bytes = self.bytes()?;
        numeric::decode(bytes, scale)
            .ok_or(Unexpected::NotOf { wanted: "a numeric of that scale", bytes: bytes.len() })
    }

    /// A timestamp or timestamptz, in microseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL or of another type.
    pub fn timestamp(self) -> Result<i64, Unexpected> {
        Ok(self.fixed("a timestamp").map(i64::from_be_bytes)?.saturating_add(EPOCH_OFFSET))
    }

    /// A one-dimensional array; its elements may be NULL.
    ///
    /// # Errors
    ///
    /// [`Unexpected`] if it is NULL, of another type, or has several dimensions.
    pub fn array(self) -> Result<Elements<'a>, Unexpected> {
        let bytes = self.bytes()?;
        let wrong = Unexpected::NotOf { wanted: "an array of one dimension", bytes: bytes.len() };
        let field = |at: usize| Some(u32::from_be_bytes(bytes.get(at * 4..at * 4 + 4)?.try_into().ok()?));
        let (elements, count) = match (field(0), field(3)) {
            (Some(0), _) if bytes.len() == 12 => (&bytes[12..], 0),
            (Some(1), Some(count)) if bytes.len() >= 20 => (&bytes[20..], count),
            _ => return Err(wrong),
        };
        // An element takes at least four bytes.
        if elements.len() / 4 < count as usize {
            return Err(wrong);
        }
        Ok(Elements { columns: Columns { bytes: elements, next: 0 }, left: count })
    }

    fn fixed<const N: usize>(self, wanted: &'static str) -> Result<[u8; N], Unexpected> {
        let bytes = self.bytes()?;
        bytes.try_into().map_err(|_| Unexpected::NotOf { wanted, bytes: bytes.len() })
    }
}

/// The elements of an array: `value.array()?.map(|element| element?.i32())`.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    // A row's columns and an array's elements have the same encoding: a length, or -1, and the bytes.
    columns: Columns<'a>,
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<Value<'a>, Unexpected>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(self.columns.value())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Elements<'_> {}
