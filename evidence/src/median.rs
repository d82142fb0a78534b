//! Medians of repeated measurements with intervals from order statistics, which need no assumption about the noise.

use crate::Interval;
use serde::{Deserialize, Serialize};

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The interval that contains the true median with a probability of at least 95 %. `None` for fewer than six
    /// values: the extremes of five contain it in only 94 % of cases.
    pub interval_95: Option<Interval>,
    /// Number of values.
    pub n: usize,
}

impl Median {
    /// The median of some values; `None` for none.
    ///
    /// ```
    /// let median = hardmeter_evidence::Median::of(&[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]).unwrap();
    /// assert_eq!((median.value, median.n), (3.5, 6));
    /// assert_eq!(median.interval_95.map(|interval| (interval.low, interval.high)), Some((1.0, 6.0)));
    /// ```
    pub fn of(values: &[f64]) -> Option<Median> {
        let mut ordered = values.to_vec();
        ordered.sort_by(f64::total_cmp);
        let n = ordered.len();
        let value = middle(&ordered)?;
        let interval_95 = enclosing_rank(n).map(|k| Interval { low: ordered[k - 1], high: ordered[n - k] });
        Some(Median { value, interval_95, n })
    }
}

/// The middle of sorted values; `None` if empty.
pub(crate) fn middle(ordered: &[f64]) -> Option<f64> {
    match ordered.len() {
        0 => None,
        n if n % 2 == 1 => Some(ordered[n / 2]),
        n => Some((ordered[n / 2 - 1] + ordered[n / 2]) / 2.0),
    }
}

/// The largest k for which the k-th smallest and the k-th largest of `n` independent values enclose their
/// distribution's median with a probability of at least 95 %: the number of values below the median is binomial(n,
/// 1/2) for any distribution.
fn enclosing_rank(n: usize) -> Option<usize> {
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    let mut k = 0;
    while below + probability <= 0.025 {
        below += probability;
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0).then_some(k)
}

/// The geometric mean of some values; `None` for none.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    Some((values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial_table() {
        // 2 x 0.5^6 = 0.031; for 9 values 2 x (1 + 9) / 512 = 0.039; for 20 the usual ranks 6 and 15.
        for (n, rank) in
            [(0, None), (5, None), (6, Some(1)), (8, Some(1)), (9, Some(2)), (12, Some(3)), (20, Some(6))]
        {
            assert_eq!(enclosing_rank(n), rank, "{n}");
        }
    }

    #[test]
    fn a_median_needs_no_order() {
        assert_eq!(Median::of(&[]), None);
        let three = Median::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((three.value, three.interval_95, three.n), (2.0, None, 3));
        let six = Median::of(&[6.0, 5.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((six.value, six.interval_95), (3.5, Some(Interval { low: 1.0, high: 6.0 })));
        let nine = Median::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert_eq!((nine.value, nine.interval_95), (5.0, Some(Interval { low: 2.0, high: 8.0 })));
    }

    #[test]
    fn twice_and_half_are_even() {
        assert!((geometric_mean(&[2.0, 0.5]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
