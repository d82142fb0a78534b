//! Statements without their constants: what tells `UPDATE t SET a = 5` from `UPDATE t SET b = 5`, but not from
//! `UPDATE t SET a = 6`.
//!
//! The software PMU does the same in the simulated process (`measure/simulate/tool/statement.c`); a capture of the kernel brings
//! the texts as they were sent, and they are treated here. Both must agree to the byte, or a statement would have two
//! hashes: `tests/vectors/statements.txt` has what both are tested with.
//!
//! ```text
//! constant                          becomes
//! 5   -5   1.5e-3   0xff            ?    the sign only where no operand precedes it
//! 'text'  E'a\'b'  $$text$$         ?    across lines, with '' for a quote inside
//! IN (1, 2, 3)                      IN (?)
//! VALUES (1, 2), (3, 4)             VALUES (?)   where nothing but constants is listed
//! ```
//! Kept: names, parameters (`$1`), operators, case. Comments and blanks become one blank. A lexer is enough for it; it
//! knows PostgreSQL's and MariaDB's ways of writing, and parses neither.

use hardmeter_samples::model::StatementHash;

/// Bytes of a text that are kept: the room of one statement in the software PMU's table (`HM_STATEMENT_TEXT`).
const TEXT_LIMIT: usize = 1004;
/// Bytes of a statement that are looked at.
const RAW_LIMIT: usize = 16384;

/// The 64-bit FNV-1a hash of a text without constants; never 0, which marks a free slot in the software PMU's table.
pub fn statement_hash(text: &[u8]) -> StatementHash {
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    StatementHash(hash.max(1))
}

/// A statement's text without constants, comments and superfluous blanks, in the client's encoding.
pub fn without_constants(text: &[u8]) -> Vec<u8> {
    let text = Lexer { text: &text[..text.len().min(RAW_LIMIT)] };
    let mut out = Output::default();
    let mut at = 0;
    while at < text.text.len() && !out.is_full() {
        at = text.step(at, &mut out);
    }
    if out.is_full() {
        out.text.truncate(whole_characters(&out.text));
    }
    out.text
}

/// What the last token was.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Token {
    #[default]
    Beginning,
    Word,
    Operator,
    Constant,
    Row,
    Other,
}

/// The text so far.
#[derive(Default)]
struct Output {
    text: Vec<u8>,
    /// There was white space since the last token.
    blank: bool,
    last: Token,
    /// Where the last token begins.
    start: usize,
}

/// After these words a sign belongs to the number behind it.
const BEFORE_OPERANDS: [&str; 25] = [
    "select", "values", "when", "then", "else", "and", "or", "not", "in", "limit", "offset", "where", "on",
    "by", "case", "like", "between", "set", "is", "any", "all", "using", "ilike", "fetch", "having",
];

impl Output {
    fn is_full(&self) -> bool {
        self.text.len() >= TEXT_LIMIT
    }

    /// One token, with a blank before it where there was white space.
    fn put(&mut self, kind: Token, token: &[u8]) {
        if self.blank && !self.text.is_empty() && !self.is_full() {
            self.text.push(b' ');
        }
        self.blank = false;
        self.last = kind;
        self.start = self.text.len();
        let room = TEXT_LIMIT - self.text.len().min(TEXT_LIMIT);
        self.text.extend_from_slice(&token[..token.len().min(room)]);
    }

    fn last_word_is(&self, wanted: &str) -> bool {
        self.last == Token::Word && self.text[self.start..].eq_ignore_ascii_case(wanted.as_bytes())
    }

    /// Whether a sign at this place belongs to the number behind it: after an operand it adds or subtracts.
    fn sign_is_of_number(&self) -> bool {
        matches!(self.last, Token::Operator | Token::Beginning)
            || BEFORE_OPERANDS.iter().any(|word| self.last_word_is(word))
    }
}

/// The text, and where things in it end.
struct Lexer<'a> {
    text: &'a [u8],
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl Lexer<'_> {
    /// The byte at a place; 0 behind the end.
    fn at(&self, at: usize) -> u8 {
        self.text.get(at).copied().unwrap_or(0)
    }

    fn length(&self) -> usize {
        self.text.len()
    }

    /// The first place from `at` on whose byte is none of these.
    fn after_all(&self, at: usize, wanted: impl Fn(u8) -> bool) -> usize {
        self.text[at.min(self.length())..]
            .iter()
            .position(|byte| !wanted(*byte))
            .map_or(self.length(), |count| at + count)
    }

    /// Writes one token, or takes note of blanks; returns the place behind it.
    fn step(&self, at: usize, out: &mut Output) -> usize {
        let (first, next) = (self.at(at), self.at(at + 1));
        let beyond = |end: usize| (end != at).then_some(end);
        if let Some(end) = beyond(self.after_blanks(at)) {
            out.blank = true;
            return end;
        }
        if let Some(end) = beyond(self.after_constant(at, out.sign_is_of_number())) {
            out.put(Token::Constant, b"?");
            return end;
        }
        if first == b'(' && (out.last_word_is("in") || out.last_word_is("values")) {
            if let Some(end) = beyond(self.after_row(at)) {
                out.put(Token::Row, b"(?)");
                return end;
            }
        }
        if first == b',' && out.last == Token::Row {
            if let Some(end) = beyond(self.after_next_row(at)) {
                out.blank = false;
                return end;
            }
        }
        let (kind, end) = if is_letter(first) {
            let goes_on = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'$';
            (Token::Word, self.after_all(at + 1, goes_on))
        } else if matches!(first, b'"' | b'`') {
            (Token::Other, self.after_quoted(at, false))
        } else if first == b'$' && next.is_ascii_digit() {
            (Token::Other, self.after_all(at + 1, |byte| byte.is_ascii_digit()))
        } else if b"+-*/<>=~!@#%^&|?:,([{".contains(&first) {
            (Token::Operator, at + 1)
        } else {
            (Token::Other, at + 1)
        };
        out.put(kind, &self.text[at..end]);
        end
    }

    /// Behind a text that begins at `at` with its quote; a doubled quote is part of it, and where there are escapes,
    /// whatever follows a backslash.
    fn after_quoted(&self, at: usize, escapes: bool) -> usize {
        let quote = self.at(at);
        let mut at = at + 1;
        while at < self.length() {
            match self.at(at) {
                b'\\' if escapes => at += 2,
                byte if byte != quote => at += 1,
                _ if at + 1 < self.length() && self.at(at + 1) == quote => at += 2,
                _ => return at + 1,
            }
        }
        self.length()
    }

    /// Behind a number that begins at `at`.
    fn after_number(&self, at: usize) -> usize {
        if self.at(at) == b'0' && matches!(self.at(at + 1).to_ascii_lowercase(), b'x' | b'o' | b'b') {
            return self.after_all(at + 2, |byte| byte.is_ascii_digit() || is_letter(byte));
        }
        let mut at = at;
        while at < self.length() {
            let (byte, next, third) = (self.at(at), self.at(at + 1), self.at(at + 2));
            let exponent = byte.eq_ignore_ascii_case(&b'e')
                && (next.is_ascii_digit() || (matches!(next, b'-' | b'+') && third.is_ascii_digit()));
            match byte {
                _ if exponent => at += 2,
                b'0'..=b'9' | b'_' => at += 1,
                b'.' if next != b'.' => at += 1,
                _ => break,
            }
        }
        at
    }

    /// Behind `$tag$ ... $tag$`; `at` if it is none.
    fn after_dollar_quoted(&self, at: usize) -> usize {
        let mut end_of_tag = at + 1;
        while is_letter(self.at(end_of_tag)) || (end_of_tag > at + 1 && self.at(end_of_tag).is_ascii_digit())
        {
            end_of_tag += 1;
        }
        if self.at(end_of_tag) != b'$' {
            return at;
        }
        let body = end_of_tag + 1;
        let tag = &self.text[at..body];
        let found = self.text[body..].windows(tag.len()).position(|window| window == tag);
        found.map_or(self.length(), |found| body + found + tag.len())
    }

    /// Behind a constant that begins at `at`; `at` if none does. `signs`: a number may have one.
    fn after_constant(&self, at: usize, signs: bool) -> usize {
        let (first, next, third) = (self.at(at), self.at(at + 1), self.at(at + 2));
        let kind = first.to_ascii_lowercase();
        match first {
            b'\'' => self.after_quoted(at, false),
            _ if next == b'\'' && matches!(kind, b'e' | b'b' | b'x' | b'n') => {
                self.after_quoted(at + 1, kind == b'e')
            }
            b'0'..=b'9' => self.after_number(at),
            b'.' if next.is_ascii_digit() => self.after_number(at),
            b'-' | b'+' if signs && (next.is_ascii_digit() || (next == b'.' && third.is_ascii_digit())) => {
                self.after_number(at + 1)
            }
            b'$' if !next.is_ascii_digit() => self.after_dollar_quoted(at),
            _ => at,
        }
    }

    /// Behind white space and comments, of which PostgreSQL's nest; `at` if there are none.
    fn after_blanks(&self, at: usize) -> usize {
        let (mut at, mut depth) = (at, 0u32);
        while at < self.length() {
            match (self.at(at), self.at(at + 1)) {
                (b'/', b'*') => {
                    depth += 1;
                    at += 2;
                }
                (b'*', b'/') if depth != 0 => {
                    depth -= 1;
                    at += 2;
                }
                (b'-', b'-') if depth == 0 => at = self.after_all(at, |byte| byte != b'\n'),
                (byte, _) if depth != 0 || is_space(byte) => at += 1,
                _ => break,
            }
        }
        at.min(self.length())
    }

    /// Behind a row of constants and nothing else, whose bracket is at `at`; `at` if it is none. One that is cut by the
    /// end of the text counts.
    fn after_row(&self, begin: usize) -> usize {
        let mut at = begin + 1;
        let mut first = true;
        loop {
            at = self.after_blanks(at);
            if at >= self.length() {
                return if first { begin } else { self.length() };
            }
            let end = self.after_constant(at, true);
            if end == at {
                return begin;
            }
            at = self.after_blanks(end);
            match self.text.get(at) {
                None => return self.length(),
                Some(b')') => return at + 1,
                Some(b',') => at += 1,
                Some(_) => return begin,
            }
            first = false;
        }
    }

    /// Behind a comma and another row; `at` if something else follows.
    fn after_next_row(&self, at: usize) -> usize {
        let bracket = self.after_blanks(at + 1);
        if self.at(bracket) != b'(' {
            return at;
        }
        match self.after_row(bracket) {
            end if end == bracket => at,
            end => end,
        }
    }
}

/// The length without a character of which only a part found room (UTF-8).
fn whole_characters(text: &[u8]) -> usize {
    let length = text.len();
    let mut start = length;
    while start > 0 && length - start < 4 && text[start - 1] & 0xc0 == 0x80 {
        start -= 1;
    }
    let Some(first) = start.checked_sub(1).map(|at| text[at]) else { return length };
    let wanted = match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    };
    if length - start + 1 < wanted {
        start - 1
    } else {
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_that_the_software_pmu_is_tested_with() {
        let vectors = include_str!("../../../tests/vectors/statements.txt");
        let mut pairs = 0;
        let mut lines = vectors.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        while let (Some(statement), Some(expected)) = (lines.next(), lines.next()) {
            // One line each: \n stands for a line's end, \\ for a backslash.
            let statement = statement.replace("\\\\", "\0").replace("\\n", "\n").replace('\0', "\\");
            assert_eq!(
                String::from_utf8_lossy(&without_constants(statement.as_bytes())),
                expected,
                "{statement}"
            );
            pairs += 1;
        }
        assert!(pairs >= 30, "only {pairs} vectors");
    }

    #[test]
    fn a_long_text_is_cut_at_a_whole_character() {
        // All but one byte, and a character of two: one of its bytes would fit.
        let mut text = "a".repeat(TEXT_LIMIT - 1);
        text.push('é');
        assert_eq!(without_constants(text.as_bytes()).len(), TEXT_LIMIT - 1);
        text.remove(0);
        assert_eq!(without_constants(text.as_bytes()).len(), TEXT_LIMIT);
        assert_eq!(without_constants(&[b'1'; 20000]), b"?");
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // Noll's own test values of the 64-bit variant.
        assert_eq!(statement_hash(b""), StatementHash(0xcbf29ce484222325));
        assert_eq!(statement_hash(b"a"), StatementHash(0xaf63dc4c8601ec8c));
        assert_eq!(statement_hash(b"foobar"), StatementHash(0x85944171f73967e8));
    }
}
