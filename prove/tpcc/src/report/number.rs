//! Numbers as people read them.

/// A number with the decimals needed for three digits, and thousands separators: `12,861`, `12.9`, `0.0412`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 4,
    };
    with_decimals(value, decimals)
}

/// A number with this many decimals and separated thousands.
pub fn with_decimals(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{}{rest}", thousands(whole))
}

/// A p-value for display: never printed as zero.
pub fn probability(p: f64) -> String {
    match p {
        p if p < 0.001 => "p < 0.001".into(),
        p => format!("p = {p:.3}"),
    }
}

/// A whole number with thousands separators.
pub fn count(value: u64) -> String {
    thousands(&value.to_string())
}

fn thousands(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time in seconds: `812 us`, `12.3 ms`, `4.57 s`.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 0.001 => format!("{:.0} us", seconds * 1e6),
        _ if seconds < 1.0 => format!("{} ms", number(seconds * 1e3)),
        _ => format!("{} s", number(seconds)),
    }
}

/// A duration: `45 s`, `10 min`, `2 h 3 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        _ if seconds < 120.0 => format!("{} s", (seconds * 10.0).round() / 10.0),
        _ if whole < 7200 && whole.is_multiple_of(60) => format!("{} min", whole / 60),
        _ if whole < 7200 => format!("{} min {} s", whole / 60, whole % 60),
        _ if (whole / 60).is_multiple_of(60) => format!("{} h", whole / 3600),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Bytes: `20.3 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(1_099_511_627_776.0, "TiB"), (1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    let size = bytes as f64;
    match UNITS.iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{} {name}", number(size / unit)),
        None => format!("{bytes} B"),
    }
}

/// Date and time in UTC from microseconds since 1970: `2026-11-22 07:13:44 UTC`.
pub fn date(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    let (days, of_day) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days since 1970 to a date, in eras of 400 years that begin on a first of March (proleptic Gregorian).
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_probability_is_printed_as_zero() {
        assert_eq!(probability(0.0), "p < 0.001");
        assert_eq!(probability(0.000_999_9), "p < 0.001");
        assert_eq!(probability(0.001), "p = 0.001");
        assert_eq!(probability(0.3719), "p = 0.372");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(12861.4), "12,861");
        assert_eq!(number(12.86), "12.9");
        assert_eq!(number(0.0412), "0.0412");
        assert_eq!(with_decimals(-1234.567, 2), "-1,234.57");
        assert_eq!(with_decimals(-0.001, 1), "0.0");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(seconds(0.000_812), "812 us");
        assert_eq!(seconds(0.012_3), "12.3 ms");
        assert_eq!(seconds(4.567), "4.57 s");
        assert_eq!(bytes(20 << 20), "20.0 MiB");
        assert_eq!(duration(45.0), "45 s");
        assert_eq!(duration(600.0), "10 min");
        assert_eq!(duration(605.0), "10 min 5 s");
        assert_eq!(duration(7380.0), "2 h 3 min");
        assert_eq!(duration(7200.0), "2 h");
    }

    #[test]
    fn dates_are_the_calendars() {
        // Expected values from date -u -d @...
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_331_624_000_000), "2026-11-22 07:13:44 UTC");
    }
}
