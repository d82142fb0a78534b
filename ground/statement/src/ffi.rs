//! The functions of `c/hm_statement.h`.

use crate::{Dialect, LONGEST};
use std::ffi::c_char;

extern "C" {
    fn hm_statement_normalise(
        dialect: u32,
        text: *const c_char,
        length: usize,
        normalised: *mut c_char,
        next: *mut usize,
    ) -> usize;
    fn hm_statement_id(normalised: *const c_char, length: usize) -> u64;
    fn hm_statement_cut(text: *const c_char, length: usize, room: usize) -> usize;
}

/// `enum hm_dialect`.
fn number(dialect: Dialect) -> u32 {
    match dialect {
        Dialect::MariaDb => 0,
        Dialect::Postgres => 1,
    }
}

fn call(dialect: Dialect, text: &[u8], next: *mut usize) -> Vec<u8> {
    let mut normalised: Vec<u8> = Vec::with_capacity(LONGEST);
    // SAFETY: the text's pointer and length are a slice's; the buffer has LONGEST bytes, of which at most LONGEST
    // are written, and the result is their number; `next` is null or a caller's variable.
    unsafe {
        let length = hm_statement_normalise(
            number(dialect),
            text.as_ptr().cast(),
            text.len(),
            normalised.as_mut_ptr().cast(),
            next,
        );
        debug_assert!(length <= LONGEST);
        normalised.set_len(length);
    }
    normalised
}

pub(crate) fn normalise(dialect: Dialect, text: &[u8]) -> Vec<u8> {
    call(dialect, text, std::ptr::null_mut())
}

pub(crate) fn normalise_first(dialect: Dialect, text: &[u8]) -> (Vec<u8>, Option<usize>) {
    let mut next = 0;
    let first = call(dialect, text, &mut next);
    (first, (next != 0).then_some(next))
}

pub(crate) fn id(normalised: &[u8]) -> u64 {
    // SAFETY: a slice's pointer and length; nothing else is read.
    unsafe { hm_statement_id(normalised.as_ptr().cast(), normalised.len()) }
}

pub(crate) fn cut(text: &[u8], room: usize) -> &[u8] {
    // SAFETY: a slice's pointer and length; the result is at most that length.
    &text[..unsafe { hm_statement_cut(text.as_ptr().cast(), text.len(), room) }]
}
