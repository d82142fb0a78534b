//! Medians of repeated measurements and their intervals, by order statistics: nothing is assumed about the noise.
//!
//! ```
//! use hardmeter_evidence::Median;
//!
//! let seconds = [1.9, 2.0, 2.1, 2.0, 2.2, 1.8, 2.0];
//! let median = Median::of(&seconds).expect("there are values");
//! let interval = median.interval_95.expect("seven values have an interval");
//! assert_eq!((median.value, interval.low, interval.high), (2.0, 1.8, 2.2));
//! ```

use serde::{Deserialize, Serialize};

/// A median with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The interval that encloses the true median with a probability of at least 95 %. `None` for fewer than six
    /// values, which have none: the extremes of five enclose it in 94 % of cases.
    pub interval_95: Option<Interval>,
    /// How many values there were.
    pub n: usize,
}

/// From where to where.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Median {
    /// The median of some values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Median> {
        let mut ordered = values.to_vec();
        ordered.sort_by(f64::total_cmp);
        let n = ordered.len();
        let value = match n {
            0 => return None,
            _ if n % 2 == 1 => ordered[n / 2],
            _ => (ordered[n / 2 - 1] + ordered[n / 2]) / 2.0,
        };
        let interval_95 = enclosing_rank(n).map(|k| Interval { low: ordered[k - 1], high: ordered[n - k] });
        Some(Median { value, interval_95, n })
    }
}

/// The largest k for which the k-th smallest and the k-th largest of `n` independent values enclose their
/// distribution's median with a probability of at least 95 %: how many values lie below it is binomial(n, 1/2),
/// whatever the distribution.
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

/// The geometric mean of some values; `None` of none.
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
        // 2 x 0.5^6 = 0.031; for 9 values 2 x (1 + 9) / 512 = 0.039, for 20 the usual 6 and 15.
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
