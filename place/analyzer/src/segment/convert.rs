//! Converts the bytes of a segment to the model: numbers are checked, texts made printable.

use super::layout::{After, Kind, RawRecord, LABEL_LENGTH, NOTE_LENGTH};
use crate::model::{Moments, Record, AFTERS};
use hardmeter_samples::model::Cycles;
use std::sync::atomic::{AtomicU8, Ordering};

/// A record of the model; `None` if a number is not valid (not finite, or negative where that is impossible).
pub(crate) fn record(raw: &RawRecord) -> Option<Record> {
    let displaced = moments(raw.probed, raw.displaced_mean, raw.displaced_m2)?;
    if displaced.mean > 1.0 {
        return None;
    }
    let mut after = [Moments::default(); AFTERS];
    for (ours, theirs) in after.iter_mut().zip(&raw.after) {
        *ours = of_sums(theirs)?;
    }
    // Each exact section is in one of them.
    let own = raw.after.iter().fold(After::default(), |sum, after| sum.plus(after));
    // The sum is exact, so the mean is; squares of misses are not kept.
    let misses = if raw.missed == 0 { 0.0 } else { raw.misses as f64 / raw.missed as f64 };
    Some(Record {
        count: raw.count,
        exact: raw.exact,
        preempted: raw.preempted,
        migrated: raw.migrated,
        elapsed: Cycles(raw.elapsed_cycles),
        cycles: Cycles(own.cycles),
        own: of_sums(&own)?,
        adaptive: finite(raw.adaptive)?,
        misses: moments(raw.missed, misses, 0.0)?,
        displaced,
        after,
        nested: Cycles(raw.nested_cycles),
        histogram: raw.histogram.iter().map(|&count| u64::from(count)).collect(),
    })
}

impl After {
    fn squares(&self) -> u128 {
        u128::from(self.squares[1]) << 64 | u128::from(self.squares[0])
    }

    fn plus(&self, other: &After) -> After {
        let squares = self.squares().wrapping_add(other.squares());
        After {
            count: self.count.wrapping_add(other.count),
            cycles: self.cycles.wrapping_add(other.cycles),
            squares: [squares as u64, (squares >> 64) as u64],
        }
    }
}

/// Mean and squared differences of whole numbers with exact sums. `None` if the sums are impossible.
fn of_sums(after: &After) -> Option<Moments> {
    let (count, sum) = (u128::from(after.count), u128::from(after.cycles));
    if count == 0 {
        return (sum == 0 && after.squares() == 0).then(Moments::default);
    }
    // Relative to the whole number below the mean, the squared differences are a small whole number, too.
    let (below, rest) = (sum / count, sum % count);
    let from_below = below.checked_mul(below)?.checked_mul(count)?.checked_add(after.squares())?;
    let from_below = from_below.checked_sub((2 * below).checked_mul(sum)?)?;
    let m2 = from_below as f64 - rest as f64 * (rest as f64 / count as f64);
    moments(after.count, sum as f64 / count as f64, m2.max(0.0))
}

fn moments(count: u64, mean: f64, m2: f64) -> Option<Moments> {
    Some(Moments { count, mean: finite(mean)?, m2: finite(m2)? })
}

fn finite(value: f64) -> Option<f64> {
    // 2^64 cycles are two centuries; squares of that over all sections still fit.
    (value.is_finite() && (0.0..1e60).contains(&value)).then_some(value)
}

/// A kind's key as display text.
pub(crate) fn label(kind: &Kind) -> String {
    let length = (kind.label_length.load(Ordering::Relaxed) as usize).min(LABEL_LENGTH);
    let text = text(&kind.label, length);
    match kind.key_number.load(Ordering::Relaxed) {
        number if text.is_empty() && number != 0 => format!("{number:#x}"),
        _ => text,
    }
}

/// The display text stored with a kind.
pub(crate) fn note(kind: &Kind) -> String {
    text(&kind.note, NOTE_LENGTH)
}

fn text(bytes: &[AtomicU8], length: usize) -> String {
    let copied: Vec<u8> = bytes[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    printable(&copied)
}

/// Bytes up to a zero as text without characters that move a cursor or hide a line.
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

    /// 3 and 4: mean 3.5, squared differences 2 x 0.25. Ten million sections of 10^12 and 10^12 + 2 cycles each:
    /// 10^7 x 1, which doubles would lose.
    #[test]
    fn sums_are_exact_however_large() {
        let of = |count: u64, cycles: u64, squares: u128| {
            of_sums(&After { count, cycles, squares: [squares as u64, (squares >> 64) as u64] })
        };
        assert_eq!(of(2, 7, 25), Some(Moments { count: 2, mean: 3.5, m2: 0.5 }));
        let (n, x) = (5_000_000_u64, 1_000_000_000_000_u128);
        let squares = u128::from(n) * (x * x + (x + 2) * (x + 2));
        let found = of(2 * n, n * (2 * x as u64 + 2), squares).expect("sane");
        assert_eq!((found.mean, found.m2), (1_000_000_000_001.0, 1e7));
        assert_eq!(of(0, 0, 0), Some(Moments::default()));
        assert_eq!(of(0, 1, 1), None);
        assert_eq!(of(2, u64::MAX, u128::MAX), None);
    }

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
        // 900 and 1100: squared differences 2 x 10,000.
        raw.after[1] = After { count: 1, cycles: 900, squares: [810_000, 0] };
        raw.after[6] = After { count: 1, cycles: 1100, squares: [1_210_000, 0] };
        raw.missed = 2;
        raw.misses = 7;
        let good = record(&raw).expect("sane");
        assert_eq!(
            (good.count, good.own, good.misses.mean),
            (3, Moments { count: 2, mean: 1000.0, m2: 20_000.0 }, 3.5)
        );
        assert_eq!((good.cycles, good.after[1].mean, good.after[0].count), (Cycles(2000), 900.0, 0));
        for spoil in [f64::NAN, f64::INFINITY, -1.0] {
            raw.adaptive = spoil;
            assert!(record(&raw).is_none(), "{spoil}");
        }
        raw.adaptive = 1.0;
        raw.after[1].squares[0] = 1;
        assert!(record(&raw).is_none(), "squares that are less than those of the mean");
        raw.after[1].squares[0] = 810_000;
        raw.displaced_mean = 1.5;
        assert!(record(&raw).is_none(), "more lines displaced than there are");
    }
}
