//! Shares as text; `evidence::number` formats counts and durations.

use hardmeter_answers::Share;

pub use hardmeter_evidence::number::{counted, duration, grouped, rounded};

/// A share in percent, without its n (which the caller must show): `8.39 %`.
pub fn percent(share: Share) -> String {
    format!("{:.2} %", share.fraction() * 100.0)
}

/// The 95 % interval of a share in percent: `8.21..8.57 %`.
pub fn percent_interval(share: Share) -> String {
    share.interval().map_or_else(String::new, |interval| {
        format!("{:.2}..{:.2} %", interval.low * 100.0, interval.high * 100.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_well() {
        assert_eq!(percent(Share { count: 7523, total: 89_709 }), "8.39 %");
    }
}
