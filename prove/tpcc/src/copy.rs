//! Rows in PostgreSQL's binary COPY format, which avoids the printing and parsing that dominate a load; or in lines
//! of text for MariaDB's LOAD DATA.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows being made.
#[derive(Debug, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    form: Form,
}

/// The format of rows.
#[derive(Clone, Copy, Debug, Default)]
enum Form {
    /// Binary COPY.
    #[default]
    Copy,
    /// A line for each row, tabs between fields; `left`: the number of fields still missing in the current row.
    Lines { left: i16 },
}

/// Header of a binary COPY: signature, no flags, no extension.
pub const HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// Trailer of a binary COPY.
pub const TRAILER: [u8; 2] = (-1i16).to_be_bytes();

/// A sum of money or a rate: `units` of 10^-`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number of smallest units.
    pub units: i64,
    /// Digits behind the point, 0 to 4.
    pub scale: u8,
}

impl Decimal {
    /// Hundredths: money.
    pub fn cents(units: i64) -> Decimal {
        Decimal { units, scale: 2 }
    }

    /// Ten-thousandths: taxes and discounts.
    pub fn rate(units: i64) -> Decimal {
        Decimal { units, scale: 4 }
    }
}

/// A time: microseconds since 2000-01-01, as in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The present second.
    pub fn now() -> Timestamp {
        // 10,957 days from 1970 to 2000.
        let epoch = 10_957 * 86_400;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(epoch, |since| since.as_secs() as i64);
        Timestamp((now - epoch) * 1_000_000)
    }
}

impl Rows {
    /// No rows, appended to bytes that were there.
    pub fn new(bytes: Vec<u8>) -> Rows {
        Rows { bytes, form: Form::Copy }
    }

    /// An empty table as lines of text, appended to existing bytes: tabs between fields, `\N` for NULL, without
    /// escaping, since texts of TPC-C have only letters, digits, dashes and underscores.
    pub fn lines(bytes: Vec<u8>) -> Rows {
        Rows { bytes, form: Form::Lines { left: 0 } }
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Begins a row.
    pub fn row(&mut self, columns: i16) -> &mut Rows {
        match &mut self.form {
            Form::Copy => self.bytes.extend_from_slice(&columns.to_be_bytes()),
            Form::Lines { left } => *left = columns,
        }
        self
    }

    /// Writes a field of a line, if rows are lines.
    fn in_line(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Form::Lines { left } = &mut self.form else { return false };
        write(&mut self.bytes);
        *left -= 1;
        self.bytes.push(if *left == 0 { b'\n' } else { b'\t' });
        true
    }

    /// `integer`.
    pub fn integer(&mut self, value: u32) -> &mut Rows {
        if self.in_line(|bytes| printed(bytes, format_args!("{value}"))) {
            return self;
        }
        self.bytes.extend_from_slice(&4i32.to_be_bytes());
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// NULL, of any type.
    pub fn null(&mut self) -> &mut Rows {
        if self.in_line(|bytes| bytes.extend_from_slice(b"\\N")) {
            return self;
        }
        self.bytes.extend_from_slice(&(-1i32).to_be_bytes());
        self
    }

    /// `timestamp`.
    pub fn timestamp(&mut self, value: Timestamp) -> &mut Rows {
        if self.in_line(|bytes| printed(bytes, format_args!("{value}"))) {
            return self;
        }
        self.bytes.extend_from_slice(&8i32.to_be_bytes());
        self.bytes.extend_from_slice(&value.0.to_be_bytes());
        self
    }

    /// A text that is there already.
    pub fn text(&mut self, text: &[u8]) -> &mut Rows {
        self.made(|bytes| bytes.extend_from_slice(text))
    }

    /// A text that `make` appends.
    pub fn made(&mut self, make: impl FnOnce(&mut Vec<u8>)) -> &mut Rows {
        if matches!(self.form, Form::Lines { .. }) {
            self.in_line(make);
            return self;
        }
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        make(&mut self.bytes);
        let length = (self.bytes.len() - length_at - 4) as i32;
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
        self
    }

    /// `numeric`: groups of four decimal digits, most significant first, `weight` being the power of 10,000 of the
    /// first (numeric_send in PostgreSQL's numeric.c).
    pub fn numeric(&mut self, value: Decimal) -> &mut Rows {
        if self.in_line(|bytes| printed(bytes, format_args!("{value}"))) {
            return self;
        }
        let align = [1, 1000, 100, 10, 1][usize::from(value.scale)];
        let fraction_groups = i16::from(value.scale > 0);
        let mut rest = value.units.unsigned_abs() * align;
        let mut groups = [0u16; 6];
        let mut first = groups.len();
        while rest > 0 {
            first -= 1;
            groups[first] = (rest % 10_000) as u16;
            rest /= 10_000;
        }
        let mut digits = &groups[first..];
        let weight = digits.len() as i16 - 1 - fraction_groups;
        while let [leading @ .., 0] = digits {
            digits = leading;
        }
        let (weight, sign) =
            if digits.is_empty() { (0, 0) } else { (weight, if value.units < 0 { 0x4000u16 } else { 0 }) };
        self.bytes.extend_from_slice(&(8 + 2 * digits.len() as i32).to_be_bytes());
        for field in [digits.len() as u16, weight as u16, sign, u16::from(value.scale)] {
            self.bytes.extend_from_slice(&field.to_be_bytes());
        }
        for digit in digits {
            self.bytes.extend_from_slice(&digit.to_be_bytes());
        }
        self
    }
}

/// A Vec accepts all writes.
fn printed(bytes: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    bytes.write_fmt(text).expect("memory takes all bytes");
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = 10u64.pow(u32::from(self.scale));
        let (sign, units) = (if self.units < 0 { "-" } else { "" }, self.units.unsigned_abs());
        write!(formatter, "{sign}{}.{:0digits$}", units / one, units % one, digits = usize::from(self.scale))
    }
}

impl std::fmt::Display for Timestamp {
    /// The time in SQL form, to the second.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        // The calendar repeats itself every 146,097 days, 400 years. Counted from 2000-03-01, leap days end years.
        let day = (days - 60).rem_euclid(146_097);
        let cycles = (days - 60).div_euclid(146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let of_year = day - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let of_month = of_year - (153 * month + 2) / 5 + 1;
        let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
        write!(
            formatter,
            "{:04}-{month:02}-{of_month:02} {:02}:{:02}:{:02}",
            2000 + 400 * cycles + year,
            time / 3600,
            time / 60 % 60,
            time % 60
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_load_data_reads_them() {
        let mut rows = Rows::lines(vec![]);
        for _ in 0..2 {
            rows.row(6).integer(7).text(b"ab").null().numeric(Decimal::cents(-1_000));
            rows.numeric(Decimal::rate(1)).timestamp(Timestamp(0));
        }
        let line = "7\tab\t\\N\t-10.00\t0.0001\t2000-01-01 00:00:00\n";
        assert_eq!(String::from_utf8(rows.into_bytes()).unwrap(), line.repeat(2));
    }

    #[test]
    fn instants_are_those_of_the_calendar() {
        // Seconds since 1970 by date(1): `date -u -d 2026-11-22T07:30:05 +%s`, and so on.
        for (unix, text) in [
            (1_795_332_605, "2026-11-22 07:30:05"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (946_684_799, "1999-12-31 23:59:59"),
            (13_569_465_600, "2400-01-01 00:00:00"),
        ] {
            assert_eq!(Timestamp((unix - 946_684_800) * 1_000_000).to_string(), text);
        }
    }

    fn numeric(units: i64, scale: u8) -> Vec<i16> {
        let mut rows = Rows::default();
        rows.numeric(Decimal { units, scale });
        let bytes = rows.into_bytes();
        let length = i32::from_be_bytes(bytes[..4].try_into().unwrap());
        assert_eq!(length as usize, bytes.len() - 4);
        bytes[4..].chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect()
    }

    #[test]
    fn numbers_are_as_the_server_sends_them() {
        // Digits, weight, sign, scale, groups: by hand after numeric_send; the end-to-end tests read real ones.
        assert_eq!(numeric(0, 2), [0, 0, 0, 2]);
        assert_eq!(numeric(1000, 2), [1, 0, 0, 2, 10]); // 10.00
        assert_eq!(numeric(-1000, 2), [1, 0, 0x4000, 2, 10]);
        assert_eq!(numeric(30_000_000, 2), [1, 1, 0, 2, 30]); // 300000.00 = 30 * 10000
        assert_eq!(numeric(999_999, 2), [2, 0, 0, 2, 9999, 9900]); // 9999.99
        assert_eq!(numeric(1, 2), [1, -1, 0, 2, 100]); // 0.01
        assert_eq!(numeric(1234, 4), [1, -1, 0, 4, 1234]); // 0.1234
        assert_eq!(numeric(20_000, 0), [1, 1, 0, 0, 2]);
    }

    #[test]
    fn texts_and_integers_carry_their_length() {
        let mut rows = Rows::default();
        rows.row(3).integer(7).text(b"ab").null();
        assert_eq!(
            rows.into_bytes(),
            [0, 3, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 2, b'a', b'b', 255, 255, 255, 255]
        );
    }
}
