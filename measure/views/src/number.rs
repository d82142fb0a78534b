//! Shares as text; `evidence::number` formats counts and durations.

use hardmeter_answers::{Share, StallShare};

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

/// A share of the stall time with its 95 % interval: `24.94 % (14.10..40.02) of the stall time`.
pub fn stall_share(stall: StallShare) -> String {
    let StallShare { percent, interval } = stall;
    format!("{percent:.2} % ({:.2}..{:.2}) of the stall time", interval.low, interval.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_read_well() {
        assert_eq!(percent(Share { count: 7523, total: 89_709 }), "8.39 %");
    }
}
