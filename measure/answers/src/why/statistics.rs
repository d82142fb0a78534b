//! The distributions behind the verdicts: tails of distributions from `statrs`.

use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::checked_gamma_ur;

/// `P(X >= x)` for `X ~ Binomial(n, p)`, continued to real `x` and `n` by the incomplete beta function:
/// `I_p(x, n - x + 1)`. For whole numbers it is the binomial tail itself.
pub(super) fn binomial_upper_tail(x: f64, n: f64, p: f64) -> f64 {
    if x <= 0.0 || p >= 1.0 {
        return 1.0;
    }
    if p <= 0.0 || x > n {
        // Beyond the end of the distribution the continued form is undefined; the tail is at most p^n.
        return if p <= 0.0 { 0.0 } else { p.powf(n.max(0.0)) };
    }
    checked_beta_reg(x, n - x + 1.0, p).unwrap_or(1.0).clamp(0.0, 1.0)
}

/// The one-sided upper 95 % limit of the mean of a Poisson variable with observed `count`: the mean at which a
/// count this small has probability 5 %. `count` 0 gives ln 20 = 2.996.
pub(super) fn poisson_upper_limit(count: u64) -> f64 {
    // P(X <= count | mean) = Q(count + 1, mean) decreases in the mean: bisect.
    let tail = |mean: f64| checked_gamma_ur(count as f64 + 1.0, mean).unwrap_or(0.0);
    let (mut low, mut high) = (count as f64, count as f64 + 10.0 + 5.0 * (count as f64).sqrt());
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if tail(middle) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Benjamini and Hochberg 1995: for each p its q, the smallest false discovery rate at which it is a discovery.
/// `tests` counts all tested hypotheses, including those with p = 1 that are not listed.
pub(super) fn false_discovery_rates(p: &[f64], tests: usize) -> Vec<f64> {
    let tests = tests.max(p.len()) as f64;
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut rates = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, index) in order.iter().enumerate().rev() {
        least = least.min(p[*index] * tests / (rank + 1) as f64);
        rates[*index] = least;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() <= 1e-9 + expected.abs() * 1e-6, "{value} is not {expected}");
    }

    /// Ten coins: at least eight heads are (45 + 10 + 1) / 1024. Nine of nine in one of 64 sets: 64^-9.
    #[test]
    fn binomial_tails_by_hand() {
        close(binomial_upper_tail(8.0, 10.0, 0.5), 56.0 / 1024.0);
        close(binomial_upper_tail(1.0, 3.0, 0.25), 1.0 - 27.0 / 64.0);
        close(binomial_upper_tail(9.0, 9.0, 1.0 / 64.0), 64f64.powi(-9));
        assert_eq!(binomial_upper_tail(0.0, 9.0, 0.5), 1.0);
        assert!(
            binomial_upper_tail(8.0, 10.0, 0.5) > binomial_upper_tail(8.5, 10.0, 0.5),
            "continued in between"
        );
    }

    /// One-sided 95 % limits of the Poisson mean from published tables: 0 gives 2.996, 1 gives 4.744, 10 gives
    /// 16.96.
    #[test]
    fn poisson_limits_by_the_tables() {
        assert!((poisson_upper_limit(0) - 2.9957).abs() < 1e-3);
        assert!((poisson_upper_limit(1) - 4.7439).abs() < 1e-3);
        assert!((poisson_upper_limit(10) - 16.962).abs() < 1e-2);
        assert!((poisson_upper_limit(10_000) - 10_166.0).abs() < 2.0);
    }

    /// By hand: sorted 0.01, 0.02, 0.03, 0.5 times 4/1, 4/2, 4/3, 4/4, made monotone from the end.
    #[test]
    fn discovery_rates_by_hand() {
        let rates = false_discovery_rates(&[0.5, 0.02, 0.01, 0.03], 4);
        close(rates[0], 0.5);
        close(rates[1], 0.04);
        close(rates[2], 0.04);
        close(rates[3], 0.04);
        close(false_discovery_rates(&[0.001], 64)[0], 0.064);
    }
}
