//! Verdicts of signs as a table, for programs that only count.
//!
//! Of n pairs, k are on one side. The evidence of [`crate::Sequence`] with signs alone depends on n and k only, so that
//! "from how many of n on is it enough" is a row of numbers. It needs no symmetry: it tests that a pair is on that side
//! in at most half of the cases. ccopt decides by such a table (`plan/src/shape_boundaries.h`), which
//! `cargo run -p hardmeter-evidence --example shape_boundaries` writes.

use crate::sequence::BETS;

/// The evidence of `k` pairs of `n` that are on one side against "it is not more than half of them".
///
/// ```
/// // One pair: half of the players' mean bet is won, 1 + (0.15 + 0.35 + 0.6 + 0.8 + 0.95) / 5.
/// assert!((hardmeter_evidence::boundaries::evidence(1, 1) - 1.57).abs() < 1e-9);
/// ```
pub fn evidence(n: u32, k: u32) -> f64 {
    let wealth = |bet: &f64| (1.0 + bet).powi(k as i32) * (1.0 - bet).powi(n.saturating_sub(k) as i32);
    BETS.iter().map(wealth).sum::<f64>() / BETS.len() as f64
}

/// For each number of pairs from 0 to `most`: from how many on one side on the verdict is theirs, at this one-sided
/// level; one more than the pairs themselves where no number is enough.
pub fn boundary(most: u32, level: f64) -> Vec<u32> {
    (0..=most).map(|n| (0..=n).find(|k| evidence(n, *k) >= 1.0 / level).unwrap_or(n + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coin, Sequence};

    #[test]
    fn the_table_agrees_with_the_sequence() {
        let mut sequence = Sequence::default();
        [1.0, -1.0, 1.0].into_iter().for_each(|sign| sequence.push(sign));
        assert!((evidence(3, 2) - sequence.above(0.0)).abs() < 1e-12);
    }

    /// At 5 %: six of six, seven of seven, then one may be on the other side of ten.
    #[test]
    fn boundaries_by_hand() {
        let table = boundary(10, 0.05);
        assert_eq!(&table[..7], [1, 2, 3, 4, 5, 6, 6]);
        // (1.95^9 * 0.05 + 1.8^9 * 0.2 + 1.6^9 * 0.4 + 1.35^9 * 0.65 + 1.15^9 * 0.85) / 5
        let nine = (407.7 * 0.05 + 198.4 * 0.2 + 68.72 * 0.4 + 14.89 * 0.65 + 3.518 * 0.85) / 5.0;
        assert!((evidence(10, 9) - nine).abs() < 0.05, "{} {nine}", evidence(10, 9));
        assert_eq!((table[9], table[10]), (if evidence(9, 8) >= 20.0 { 8 } else { 9 }, 9));
    }

    /// That a fair coin ever comes over the boundary, in 4,000 rows of 64 tosses.
    #[test]
    fn a_fair_coin_crosses_seldom() {
        for level in [0.05, 0.25] {
            let table = boundary(64, level);
            let mut coin = Coin::new(11);
            let crossed = (0..4000).filter(|_| {
                let mut heads = 0;
                (1..=64).fold(false, |ever, n| {
                    heads += u32::from(coin.toss());
                    ever || heads >= table[n]
                })
            });
            let share = crossed.count() as f64 / 4000.0;
            assert!(share <= level, "{share} at {level}");
        }
    }
}
