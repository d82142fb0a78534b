//! Marks statements with the transaction that sends them: a final comment in sqlcommenter's syntax, as SPLiT's
//! modules for PostgreSQL and MariaDB read it (docs/place.md).
//!
//! ```text
//! SELECT * FROM hardmeter_tpcc_payment($1, $2, ...) /*split_id='7cc.2'*/
//!                                                              |   | the transaction: 1 New-Order ... 5 Stock-Level
//!                                                              | who runs it
//! ```

use crate::work::Kind;
use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// The origin in the comments of a run's statements: SPLiT's number of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(NonZeroU32);

impl Origin {
    /// The comment appended to a statement of a transaction of this kind.
    pub fn comment(self, kind: Kind) -> String {
        format!(" /*split_id='{self}.{:x}'*/", kind.index() + 1)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:x}", self.0)
    }
}

/// Not a hexadecimal number from 1 to ffffffff.
#[derive(Debug, thiserror::Error)]
#[error("write a hexadecimal number from 1 to ffffffff")]
pub struct NoOrigin;

impl FromStr for Origin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Origin, NoOrigin> {
        // from_str_radix would accept a sign.
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().and_then(NonZeroU32::new);
        number.filter(|_| digits).map(Origin).ok_or(NoOrigin)
    }
}

/// The statement followed by its comment.
pub(crate) fn signed<'a>(sql: &'a str, comment: &str) -> Cow<'a, str> {
    if comment.is_empty() {
        return sql.into();
    }
    format!("{sql}{comment}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_says_who_sends_it() {
        let origin: Origin = "7cc".parse().unwrap();
        assert_eq!(origin.comment(Kind::NewOrder), " /*split_id='7cc.1'*/");
        assert_eq!(signed("SELECT 1", &origin.comment(Kind::StockLevel)), "SELECT 1 /*split_id='7cc.5'*/");
        assert_eq!(signed("SELECT 1", ""), "SELECT 1");
    }

    #[test]
    fn what_is_no_number_of_split_is_refused() {
        for text in ["", "0", "+1", "100000000", "1'*/ DROP TABLE item", "x"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
        assert_eq!("FFFFFFFF".parse::<Origin>().unwrap().to_string(), "ffffffff");
    }
}
