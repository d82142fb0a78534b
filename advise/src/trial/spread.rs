//! The difference of blocks without a change, from the first part of a trial, and the limit it sets.

/// The standard deviation of the difference of two neighbouring blocks, as a logarithm (0.05: 5 %). `None`
/// for fewer than three blocks with a value.
pub(super) fn spread(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> =
        values.iter().filter(|value| value.is_finite() && **value > 0.0).map(|value| value.ln()).collect();
    let differences: Vec<f64> = logs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let squares: f64 = differences.iter().map(|difference| difference * difference).sum();
    (differences.len() >= 2).then(|| (squares / differences.len() as f64).sqrt())
}

/// The smallest change that this many rounds of such blocks will probably prove. A player who bets best on differences
/// of mean m and deviation s wins m^2 / 2 s^2 a round, and the five players of `evidence::Sequence` together need
/// ln 40 + ln 5 for 5 %: m = s sqrt(2 x 5.3 / rounds).
pub(super) fn provable(spread: f64, rounds: u32) -> f64 {
    (spread * (2.0 * (40.0_f64.ln() + 5.0_f64.ln()) / f64::from(rounds.max(1))).sqrt()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_of_neighbours_are_the_spread() {
        // ln 1.1 up, down, up.
        let spread = spread(&[1.0, 1.1, 1.0, 1.1]).unwrap();
        assert!((spread - 1.1_f64.ln()).abs() < 1e-12);
        // sqrt(10.6 / 24) = 0.6646 of it: exp(0.06334) - 1.
        assert!((provable(spread, 24) - 0.0654).abs() < 0.0005, "{}", provable(spread, 24));
    }

    #[test]
    fn two_blocks_have_no_spread() {
        assert_eq!(spread(&[1.0, 2.0]), None);
        assert_eq!(spread(&[1.0, f64::NAN, 2.0]), None);
    }
}
