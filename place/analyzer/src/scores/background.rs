//! What is displaced while a section runs is not all its own doing: interrupts, siblings and other machines on the same host displace
//! lines too, the more the longer it takes. How fast they do is measured by the analyzer (daemon/probing.rs), by sections that touch
//! nothing.

use crate::model::Estimate;

/// Of long sections the background explains everything: no more than this exponent (63 % of the lines) is ever taken off, so that a
/// section that displaces all goes on being told from one that displaces nothing.
const MOST: f64 = 1.0;

/// Lines that go at a rate leave exp(-rate x cycles) of those that the section itself left: the share that the section displaced alone.
pub fn less(share: Estimate, per_cycle: f64, cycles: f64) -> Estimate {
    let exponent = per_cycle * cycles;
    if !exponent.is_finite() || exponent <= 0.0 {
        return share;
    }
    let others_left = (-exponent.min(MOST)).exp();
    let alone = |share: f64| (1.0 - (1.0 - share) / others_left).max(0.0);
    Estimate { mean: alone(share.mean), low: alone(share.low), high: alone(share.high), n: share.n }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(share: f64, per_cycle: f64, cycles: f64) -> f64 {
        less(Estimate { mean: share, low: share, high: share, n: 9 }, per_cycle, cycles).mean
    }

    /// ln 2 in 1000 cycles: half of the lines go by themselves. A section that displaced half of them did nothing; one that left a
    /// quarter displaced half of what it found.
    #[test]
    fn a_section_is_not_blamed_for_what_others_displace() {
        let rate = std::f64::consts::LN_2 / 1000.0;
        assert!(at(0.5, rate, 1000.0).abs() < 1e-12);
        assert!((at(0.75, rate, 1000.0) - 0.5).abs() < 1e-12);
        assert_eq!(at(1.0, rate, 1000.0), 1.0);
        assert_eq!(at(0.3, rate, 1000.0), 0.0, "never less than nothing");
        assert_eq!(at(0.3, 0.0, 1000.0), 0.3);
    }

    #[test]
    fn long_sections_keep_their_order() {
        // 1 - 0.02 e and 1 - 0.4 e
        assert!((at(0.98, 1.0, 1e6) - 0.9456).abs() < 1e-4 && at(0.6, 1.0, 1e6) == 0.0);
        assert_eq!(at(0.5, f64::NAN, 1.0), 0.5);
    }
}
