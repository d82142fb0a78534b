//! Not all lines displaced during a section are displaced by it: interrupts, siblings and other guests of the same
//! host displace lines too, in proportion to its duration. The analyzer measures their rate by sections that touch
//! no memory (daemon/probing.rs).

use crate::model::Estimate;

/// For long sections the background would explain all displacement: at most this exponent (63 % of the lines) is
/// subtracted, so that a section that displaces all lines remains distinguishable from one that displaces none.
const MOST: f64 = 1.0;

/// Returns the share that the section displaced alone: a background rate leaves exp(-rate x cycles) of the lines
/// that the section itself left.
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

    /// ln 2 in 1000 cycles: half of the lines are evicted by the background. A section with half of the lines
    /// displaced did nothing; one that left a quarter displaced half of them itself.
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
