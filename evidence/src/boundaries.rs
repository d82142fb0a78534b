//! Verdicts of signs as a table, for programs that only count.
//!
//! k of n pairs are on one side. With signs only, the evidence of [`crate::Sequence`] depends on n and k
//! alone, so that one number for each n, the required k, is enough. The test does not assume symmetry: its
//! null hypothesis is that at most half of the pairs are on that side. ccopt decides by such a table
//! (`plan/src/shape_boundaries.h`), which `cargo run -p hardmeter-evidence --example shape_boundaries`
//! writes.

use crate::sequence::BETS;

/// The evidence against "at most this share of the pairs is on one side", if `k` of `n` pairs are.
///
/// ```
/// // One pair, fair odds: the players win what they bet, (0.15 + 0.35 + 0.6 + 0.8 + 0.95) / 5 on average.
/// assert!((hardmeter_evidence::boundaries::evidence(1, 1, 0.5) - 1.57).abs() < 1e-9);
/// ```
pub fn evidence(n: u32, k: u32, share: f64) -> f64 {
    let odds = (1.0 - share) / share;
    let wealth = |bet: &f64| (1.0 + bet * odds).powi(k as i32) * (1.0 - bet).powi(n.saturating_sub(k) as i32);
    BETS.iter().map(wealth).sum::<f64>() / BETS.len() as f64
}

/// For each number of pairs from 0 to `most`: the smallest number on one side that gives a verdict at this
/// one-sided level. If no number is enough, it is the number of pairs plus one.
pub fn boundary(most: u32, share: f64, level: f64) -> Vec<u32> {
    (0..=most).map(|n| (0..=n).find(|k| evidence(n, *k, share) >= 1.0 / level).unwrap_or(n + 1)).collect()
}

/// Number of pairs in a row of ccopt's table.
const SHAPE_PAIRS: u32 = 16;
/// If a plan is not slower, noise makes at most this share of the pairs slower by a fifth.
const SHAPE_GROSS_SHARE: f64 = 0.125;

/// ccopt's table, as `plan/src/shape_boundaries.h`. Half of its 5 % is for pairs that are slower by any
/// amount, half for those that are much slower.
pub fn shape_header() -> String {
    let row = |share| {
        let cells: Vec<String> =
            boundary(SHAPE_PAIRS, share, 0.025).iter().map(|from| from.to_string()).collect();
        cells.join(", ")
    };
    let in_a_row = (1..=SHAPE_PAIRS).find(|n| evidence(*n, *n, 0.5) >= 2.5).unwrap_or(SHAPE_PAIRS);
    format!(
        "/*
 * When a shape is left to core: indexed by the pairs so far, the least number of pairs in which
 * ccopt's plan was slower.
 * Written by `cargo run -p hardmeter-evidence --example shape_boundaries`; do not edit. The method is
 * in docs/design/evidence.md.
 */
#ifndef CCOPT_SHAPE_BOUNDARIES_H
#define CCOPT_SHAPE_BOUNDARIES_H

/* Pairs of a trial; then the next one begins. */
#define SHAPE_PAIRS {SHAPE_PAIRS}

/* Ratios of ccopt's time to core's above which a pair counts as slower, and as much slower. */
#define SHAPE_SLOWER 1.02
#define SHAPE_MUCH_SLOWER 1.2

/* clang-format off */
/* Slower: refutes \"in half of the pairs at most\", at 2.5 %. */
static const unsigned char shape_slower_from[SHAPE_PAIRS + 1] = {{
    {}}};

/* Much slower: refutes \"in one of eight pairs at most, by noise\", at 2.5 %. */
static const unsigned char shape_much_slower_from[SHAPE_PAIRS + 1] = {{
    {}}};
/* clang-format on */

/* Contrary pairs in a row that release a shape: one in {:.0} by chance, and it may be pinned again. */
#define SHAPE_CONTRARY {in_a_row}

#endif
",
        row(0.5),
        row(SHAPE_GROSS_SHARE),
        0.5_f64.powi(-(in_a_row as i32)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Coin, Sequence};

    #[test]
    fn the_table_agrees_with_the_sequence() {
        let mut sequence = Sequence::default();
        [1.0, -1.0, 1.0].into_iter().for_each(|sign| sequence.push(sign));
        assert!((evidence(3, 2, 0.5) - sequence.above(0.0)).abs() < 1e-12);
    }

    /// At 5 %: six of six, seven of seven; of ten pairs one may be on the other side.
    #[test]
    fn boundaries_by_hand() {
        let table = boundary(10, 0.5, 0.05);
        assert_eq!(&table[..7], [1, 2, 3, 4, 5, 6, 6]);
        // (1.95^9 * 0.05 + 1.8^9 * 0.2 + 1.6^9 * 0.4 + 1.35^9 * 0.65 + 1.15^9 * 0.85) / 5
        let nine = (407.7 * 0.05 + 198.4 * 0.2 + 68.72 * 0.4 + 14.89 * 0.65 + 3.518 * 0.85) / 5.0;
        assert!((evidence(10, 9, 0.5) - nine).abs() < 0.05, "{} {nine}", evidence(10, 9, 0.5));
        assert_eq!((table[9], table[10]), (if evidence(9, 8, 0.5) >= 20.0 { 8 } else { 9 }, 9));
    }

    /// The probability that ccopt ever pins a plan that is not slower, if an eighth of its pairs is slower by
    /// a fifth: 4,000 trials of 16 pairs.
    #[test]
    fn a_plan_that_is_not_slower_is_seldom_pinned() {
        let (slower, gross) = (boundary(16, 0.5, 0.025), boundary(16, 0.125, 0.025));
        assert_eq!((slower[6], slower[7], gross[2], gross[3]), (7, 7, 3, 3), "{slower:?} {gross:?}");
        let mut coin = Coin::new(11);
        let pinned = (0..4000).filter(|_| {
            let (mut some, mut much) = (0, 0);
            (1..=16).fold(false, |ever, n| {
                let place = coin.uniform();
                some += u32::from(place < 0.5);
                much += u32::from(place < 0.125);
                ever || some >= slower[n] || much >= gross[n]
            })
        });
        let share = pinned.count() as f64 / 4000.0;
        assert!(share <= 0.05, "{share}");
    }
}
