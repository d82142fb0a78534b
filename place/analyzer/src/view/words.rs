//! Formatting of numbers and of foreign text.

use crate::model::{Estimate, Placement};
use crate::state::{Guard, Rule, State};

/// Foreign text on one line: control characters become `?`, and long text is cut.
pub(super) fn one_line(text: &str, longest: usize) -> String {
    let clean = |letter: char| if letter.is_control() { '?' } else { letter };
    if text.chars().count() <= longest {
        return text.chars().map(clean).collect();
    }
    text.chars().map(clean).take(longest.saturating_sub(1)).chain(['…']).collect()
}

/// Three significant digits: 0.123, 1.23, 12.3, 123, 12,345.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".into(),
        _ if size >= 999.5 => grouped(value.round() as i64),
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 {
        format!("-{text}")
    } else {
        text
    }
}

/// Microseconds, in a suitable unit.
pub(super) fn time(micros: f64) -> String {
    match micros.abs() {
        size if size >= 1e6 => format!("{} s", number(micros / 1e6)),
        size if size >= 1e3 => format!("{} ms", number(micros / 1e3)),
        _ => format!("{} us", number(micros)),
    }
}

/// A share of 0 to 1 with its interval and n: `73.1 ±2.0 %, n 42`.
pub(super) fn share(estimate: Option<Estimate>, sign: bool) -> String {
    let Some(estimate) = estimate else { return "-".into() };
    let half = (estimate.high - estimate.low) / 2.0 * 100.0;
    let plus = if sign && estimate.mean > 0.0 { "+" } else { "" };
    format!("{plus}{:.1} ±{:.1} %, n {}", estimate.mean * 100.0, half, grouped(estimate.n as i64))
}

/// A time with its interval and n: `+27.0 ±4.1 us, n 310`.
pub(super) fn time_estimate(estimate: Option<Estimate>, sign: bool) -> String {
    let Some(estimate) = estimate else { return "-".into() };
    let half = (estimate.high - estimate.low) / 2.0;
    let plus = if sign && estimate.mean > 0.0 { "+" } else { "" };
    let (scale, unit) = match estimate.mean.abs().max(half) {
        size if size >= 1e6 => (1e6, "s"),
        size if size >= 1e3 => (1e3, "ms"),
        _ => (1.0, "us"),
    };
    format!(
        "{plus}{} ±{} {unit}, n {}",
        number(estimate.mean / scale),
        number(half / scale),
        grouped(estimate.n as i64)
    )
}

/// The guard's result, in a sentence.
pub(super) fn guard(guard: &Guard) -> String {
    if !guard.active {
        return if guard.reason.is_empty() {
            "not at work".into()
        } else {
            format!("not at work: {}", guard.reason)
        };
    }
    let retry =
        guard.retry_seconds.map_or(String::new(), |seconds| format!("; tries again in {seconds:.0} s"));
    let reason = if guard.reason.is_empty() { String::new() } else { format!(": {}", guard.reason) };
    format!("{}{reason}{retry}", guard.phase)
}

/// Rules that are off separately, one sentence each.
pub(super) fn rules(state: &State) -> Vec<String> {
    let said = |rule: &Rule| {
        let profile = state.workload.kinds.iter().find(|profile| profile.kind == rule.kind);
        let label = profile.map_or(String::new(), |profile| format!(" \"{}\"", one_line(&profile.label, 40)));
        let (kind, reason, seconds) = (rule.kind, one_line(&rule.reason, 200), rule.retry_seconds);
        format!(
            "the rule of {kind}{label} is off, it runs anywhere: {reason}; looked at again in {seconds:.0} s"
        )
    };
    state.guard.rules.iter().filter(|rule| !rule.on).map(said).collect()
}

/// A kind's time slice, whether it gives way to all others, and whether its requests wait for places: "100 ms,
/// background, queued"; without a slice of its own "own, queued".
pub(super) fn slice(placement: &Placement) -> String {
    let background = if placement.background { ", background" } else { "" };
    let queued = if placement.admit { ", queued" } else { "" };
    match placement.slice_us {
        0 => format!("own{queued}"),
        us => format!("{} ms{background}{queued}", f64::from(us) / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0.00"),
            (0.1234, "0.123"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (123.4, "123"),
            (12_345.6, "12,346"),
            (-1_234_567.0, "-1,234,567"),
            (999.7, "1,000"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(time(1_500.0), "1.50 ms");
        let estimate = Estimate { mean: 0.731, low: 0.711, high: 0.751, n: 1_042 };
        assert_eq!(share(Some(estimate), true), "+73.1 ±2.0 %, n 1,042");
        assert_eq!(share(None, false), "-");
    }

    #[test]
    fn foreign_text_stays_on_its_line() {
        assert_eq!(one_line("a\u{1b}[31mb\nc", 80), "a?[31mb?c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
