//! The identity of an SQL statement: its text without the parts that vary between executions, and a 64-bit hash of
//! that.
//!
//! The lexer is C (`c/hm_statement.c`), since it also runs inside PostgreSQL, MariaDB and Valgrind; this crate is
//! its safe wrapper. All parts of Hardmeter use it, so that a statement of `hardmeter queries` is found again in
//! `hardmeter split` and in ccopt's tables by its [`StatementId`].
//!
//! ```
//! use hardmeter_statement::{normalise, Dialect, StatementId};
//!
//! let text = "SELECT name FROM items -- hot\n WHERE id IN (1, 2, 3) AND seller = 'bob';";
//! let plain = normalise(Dialect::Postgres, text.as_bytes());
//! assert_eq!(plain, b"select name from items where id in(?) and seller=?");
//!
//! // Other literals, other spelling: the same statement.
//! let again = "select name from items where id in (7) and seller = $1";
//! let id = StatementId::of(Dialect::Postgres, again.as_bytes());
//! assert_eq!(id, StatementId::of_normalised(&plain));
//! assert_eq!(id.to_string(), "8818c6f0ae79d08b");
//! ```
//!
//! The head of `c/hm_statement.h` lists what is normalised, and the lexer's limits.

#![deny(missing_docs)]

mod ffi;
mod id;

pub use id::{InvalidStatementId, StatementId};

/// Lexical rules of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `` `names` ``, `"strings"`, backslashes in strings, comments from `#`, `@variables`.
    MariaDb,
    /// `"names"`, `E''` and `$$` strings, nested comments, operators of several characters.
    Postgres,
}

/// Maximum length of a normalised text in bytes: later parts do not distinguish statements.
pub const LONGEST: usize = 8192;

/// A statement's normalised text: at most [`LONGEST`] bytes, in the client's encoding. Several statements in one
/// text stay separated by `;`.
///
/// ```
/// use hardmeter_statement::{normalise, Dialect};
/// assert_eq!(normalise(Dialect::MariaDb, b"SELECT `a` # why\n FROM t WHERE b = \"x\""), b"select `a` from t where b=?");
/// ```
pub fn normalise(dialect: Dialect, text: &[u8]) -> Vec<u8> {
    ffi::normalise(dialect, text)
}

/// The first statement of a text, normalised, and the offset of the next one.
///
/// ```
/// use hardmeter_statement::{normalise_first, Dialect};
/// let (first, next) = normalise_first(Dialect::Postgres, b"BEGIN; SELECT 1");
/// assert_eq!((first.as_slice(), next), (b"begin".as_slice(), Some(7)));
/// ```
pub fn normalise_first(dialect: Dialect, text: &[u8]) -> (Vec<u8>, Option<usize>) {
    ffi::normalise_first(dialect, text)
}

/// The longest prefix of at most `room` bytes that ends with a complete UTF-8 character.
///
/// ```
/// assert_eq!(hardmeter_statement::cut("größe".as_bytes(), 3), "gr".as_bytes());
/// ```
pub fn cut(text: &[u8], room: usize) -> &[u8] {
    ffi::cut(text, room)
}
