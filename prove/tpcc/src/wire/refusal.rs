//! ErrorResponse: the server's refusal, its cause and remedy.

use crate::work::{Failure, FailureKind};

/// The server's refusal of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// SQLSTATE, five characters.
    pub code: String,
    /// The message, in one line.
    pub message: String,
    /// Number of statements of the round trip that were answered, completely or in part, before it. (A statement
    /// may fail before its answer, when its parameters are bound and it is planned.)
    pub answered: usize,
    /// ERROR, FATAL or PANIC, not translated.
    severity: String,
}

/// Maximum kept length of a field: a message may quote a whole statement.
const LONGEST: usize = 500;

impl Refusal {
    /// Parses the body of an ErrorResponse: fields of a letter and a zero-terminated text.
    pub(super) fn parse(body: &[u8], answered: usize) -> Refusal {
        let mut refusal = Refusal { answered, ..Refusal::default() };
        let mut rest = body;
        // A 0 instead of a letter ends them.
        while let Some((kind, after)) = rest.split_first().filter(|(kind, _)| **kind != 0) {
            let end = after.iter().position(|byte| *byte == 0).unwrap_or(after.len());
            let field = match kind {
                b'V' => Some(&mut refusal.severity),
                b'C' => Some(&mut refusal.code),
                b'M' => Some(&mut refusal.message),
                _ => None,
            };
            if let Some(field) = field {
                *field = one_line(&after[..end]);
            }
            rest = after.get(end + 1..).unwrap_or(&[]);
        }
        refusal
    }

    /// Whether the session is unusable. An error of class 08 without FATAL concerns the server's own connections to
    /// other servers, whose outcome is unknown; except 08P01, a parameter of a wrong type.
    pub fn ends_session(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
            || (self.code.starts_with("08") && self.code != "08P01")
            || self.code.starts_with("57P")
    }

    /// The same as a failure of a transaction.
    pub fn failure(&self) -> Failure {
        let kind = if self.ends_session() {
            FailureKind::ConnectionLost
        } else {
            match self.code.as_str() {
                // serialization_failure, deadlock_detected, lock_not_available (with lock_timeout set)
                "40001" | "40P01" | "55P03" => FailureKind::Retriable,
                _ => FailureKind::Lasting,
            }
        };
        Failure { kind, code: self.code.clone(), message: self.message.clone() }
    }
}

/// The text in one line, and of readable length.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}
