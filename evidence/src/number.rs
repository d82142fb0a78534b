//! Numbers in a form that is easy to read.

/// Digits in groups of three: `89,709`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits and a unit of thousands: `1.23 M`.
pub fn rounded(number: u64) -> String {
    const UNITS: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")];
    let value = number as f64;
    for (least, unit) in UNITS {
        if value >= least {
            let scaled = value / if unit == " k" { 1e3 } else { least };
            let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
            return format!("{scaled:.decimals$}{unit}");
        }
    }
    grouped(number)
}

/// A duration: `812 ms`, `12.3 s`, `4 min 10 s`.
pub fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000_000 => format!("{} µs", nanoseconds / 1_000),
        1_000_000..1_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        1_000_000_000..120_000_000_000 => format!("{:.1} s", nanoseconds as f64 / 1e9),
        _ => {
            let seconds = nanoseconds / 1_000_000_000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
    }
}

/// `1 sample`, `2 samples`: the noun's plain plural.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('s') {
        _ if number == 1 => noun.to_string(),
        Some(_) => format!("{noun}es"),
        None => format!("{noun}s"),
    };
    format!("{} {plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(89_709), "89,709");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(rounded(9_999), "9,999");
        assert_eq!(rounded(89_709), "89.7 k");
        assert_eq!(rounded(897_090_000), "897 M");
        assert_eq!(rounded(1_230_000), "1.23 M");
        assert_eq!(counted(1, "process"), "1 process");
        assert_eq!(counted(2, "process"), "2 processes");
        assert_eq!(counted(2000, "sample"), "2,000 samples");
    }

    #[test]
    fn durations_choose_their_unit() {
        assert_eq!(duration(0), "0 µs");
        assert_eq!(duration(812_000_000), "812 ms");
        assert_eq!(duration(12_345_000_000), "12.3 s");
        assert_eq!(duration(250_000_000_000), "4 min 10 s");
    }
}
