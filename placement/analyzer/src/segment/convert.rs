//! From what lies in a segment to the model: numbers checked, texts made printable.

use super::layout::{Kind, RawRecord, AFTERS, LABEL_LENGTH, NOTE_LENGTH};
use crate::model::{Moments, Record};
use hardmeter_samples::model::Cycles;
use std::sync::atomic::{AtomicU8, Ordering};

/// A record of the model; `None` if a number is none (not finite, or negative where that cannot be).
pub(crate) fn record(raw: &RawRecord) -> Option<Record> {
    let displaced = moments(raw.probed, raw.displaced_mean, raw.displaced_m2)?;
    if displaced.mean > 1.0 {
        return None;
    }
    let mut after = [Moments::default(); AFTERS];
    for (ours, theirs) in after.iter_mut().zip(&raw.after) {
        *ours = moments(theirs.count, theirs.mean, theirs.m2)?;
    }
    // The sum is exact and the mean follows; squares of misses are not kept.
    let misses = if raw.missed == 0 { 0.0 } else { raw.misses as f64 / raw.missed as f64 };
    Some(Record {
        count: raw.count,
        exact: raw.exact,
        preempted: raw.preempted,
        migrated: raw.migrated,
        elapsed: Cycles(raw.elapsed_cycles),
        cycles: Cycles(raw.cycles),
        own: moments(raw.exact, raw.mean, raw.m2)?,
        adaptive: finite(raw.adaptive)?,
        misses: moments(raw.missed, misses, 0.0)?,
        displaced,
        after,
        nested: Cycles(raw.nested_cycles),
        histogram: raw.histogram.iter().map(|&count| u64::from(count)).collect(),
    })
}

fn moments(count: u64, mean: f64, m2: f64) -> Option<Moments> {
    Some(Moments { count, mean: finite(mean)?, m2: finite(m2)? })
}

fn finite(value: f64) -> Option<f64> {
    // 2^64 cycles are two centuries; squares of that over all sections still fit.
    (value.is_finite() && (0.0..1e60).contains(&value)).then_some(value)
}

/// A kind's key as people read it.
pub(crate) fn label(kind: &Kind) -> String {
    let length = (kind.label_length.load(Ordering::Relaxed) as usize).min(LABEL_LENGTH);
    let text = text(&kind.label, length);
    match kind.key_number.load(Ordering::Relaxed) {
        number if text.is_empty() && number != 0 => format!("{number:#x}"),
        _ => text,
    }
}

/// The words noted with a kind.
pub(crate) fn note(kind: &Kind) -> String {
    text(&kind.note, NOTE_LENGTH)
}

fn text(bytes: &[AtomicU8], length: usize) -> String {
    let copied: Vec<u8> = bytes[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    printable(&copied)
}

/// Bytes up to a zero as text in which nothing moves a cursor or hides a line.
pub(crate) fn printable(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if hidden(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_label_moves_the_cursor() {
        assert_eq!(printable(b"/a\x1b[2J\nb\0secret"), "/a?[2J?b");
        assert_eq!(printable("caf\u{e9}\u{202e}x".as_bytes()), "caf\u{e9}?x");
        assert_eq!(printable(&[0xff, b'a']), "\u{fffd}a");
    }

    #[test]
    fn a_number_that_is_none_spoils_its_record_only() {
        // SAFETY: every pattern of bits is a record.
        let mut raw: RawRecord = unsafe { std::mem::zeroed() };
        raw.count = 3;
        raw.exact = 2;
        raw.mean = 1000.0;
        raw.missed = 2;
        raw.misses = 7;
        let good = record(&raw).expect("sane");
        assert_eq!((good.count, good.own.count, good.own.mean, good.misses.mean), (3, 2, 1000.0, 3.5));
        for spoil in [f64::NAN, f64::INFINITY, -1.0] {
            raw.mean = spoil;
            assert!(record(&raw).is_none(), "{spoil}");
        }
        raw.mean = 1.0;
        raw.displaced_mean = 1.5;
        assert!(record(&raw).is_none(), "more lines displaced than there are");
    }
}
