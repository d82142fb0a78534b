//! The id, its text form and its JSON form.

use crate::{ffi, normalise, Dialect};
use serde::{de, Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The hash of a statement's normalised text, printed as 16 hexadecimal digits.
///
/// 0 stands for no statement: the id of an empty text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub u64);

impl StatementId {
    /// The id of a text as the client sent it.
    ///
    /// ```
    /// use hardmeter_statement::{Dialect, StatementId};
    /// let id = |text: &str| StatementId::of(Dialect::Postgres, text.as_bytes());
    /// assert_eq!(id("UPDATE t SET a = 5"), id("update t set a = -6;"));
    /// assert_ne!(id("UPDATE t SET a = 5"), id("update t set b = 5"));
    /// ```
    pub fn of(dialect: Dialect, text: &[u8]) -> StatementId {
        StatementId::of_normalised(&normalise(dialect, text))
    }

    /// The id of a text that [`normalise`] returned, uncut.
    pub fn of_normalised(normalised: &[u8]) -> StatementId {
        StatementId(ffi::id(normalised))
    }
}

impl fmt::Display for StatementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The reason why a text is not a [`StatementId`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidStatementId(String);

impl fmt::Display for InvalidStatementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid statement id {:?}: expected 16 hexadecimal digits", self.0)
    }
}

impl std::error::Error for InvalidStatementId {}

impl FromStr for StatementId {
    type Err = InvalidStatementId;

    /// # Errors
    ///
    /// The text is not 16 hexadecimal digits.
    fn from_str(text: &str) -> Result<StatementId, InvalidStatementId> {
        let invalid = || InvalidStatementId(text.to_owned());
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid());
        }
        u64::from_str_radix(text, 16).map(StatementId).map_err(|_| invalid())
    }
}

/// As text: JSON numbers have only 53 exact bits in many readers.
impl Serialize for StatementId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// From text, or from a number as in side files from before ids were common to all parts.
impl<'de> Deserialize<'de> for StatementId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StatementId, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = StatementId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("16 hexadecimal digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<StatementId, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<StatementId, E> {
                Ok(StatementId(number))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_sixteen_digits_everywhere() {
        let id = StatementId(0xfe);
        assert_eq!(id.to_string(), "00000000000000fe");
        assert_eq!("00000000000000fe".parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).expect("writes"), "\"00000000000000fe\"");
        assert_eq!(serde_json::from_str::<StatementId>("\"00000000000000fe\"").expect("reads"), id);
        assert_eq!(serde_json::from_str::<StatementId>("18446744073709551615").expect("reads").0, u64::MAX);
        for wrong in ["", "fe", "+0000000000000fe", "00000000000000fg", "000000000000000fe"] {
            let error = wrong.parse::<StatementId>().expect_err(wrong);
            assert_eq!(
                error.to_string(),
                format!("invalid statement id {wrong:?}: expected 16 hexadecimal digits")
            );
        }
    }

    #[test]
    fn an_empty_text_has_no_id() {
        assert_eq!(StatementId::of(Dialect::Postgres, b" ; -- nothing\n;"), StatementId(0));
    }
}
