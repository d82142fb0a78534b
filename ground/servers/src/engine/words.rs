//! Builds commands from words.

use std::ffi::OsString;

/// A command as the list of its words.
macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$(std::ffi::OsString::from($word)),*] };
}
pub(crate) use words;

/// `before` and `path` in one word, for arguments such as `--datadir=PATH`.
pub(crate) fn joined(before: &str, path: impl AsRef<std::ffi::OsStr>) -> OsString {
    let mut word = OsString::from(before);
    word.push(path);
    word
}
