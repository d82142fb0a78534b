//! Whether chance explains a deviation: shares outside their windows, uneven classes, distributions of times.

use super::verdicts::Outcome;
use crate::measure::Times;
use crate::time::Micros;
use statrs::function::gamma::checked_gamma_ur;

/// Below this probability a deviation is significant: the verdict is "short".
pub const CHANCE: f64 = 0.001;
/// The normal distribution's quantile of it, both sides.
pub const DEVIATIONS: f64 = 3.29;
/// A test with p above this passes; between it and [`CHANCE`] it is undecided. One run in a hundred is undecided by
/// chance.
pub const DOUBT: f64 = 0.01;

/// Whether a share lies in a window (bounds are shares, too), or outside by no more than chance explains.
pub fn within(some: u64, all: u64, low: f64, high: f64) -> Outcome {
    if all == 0 {
        return Outcome::Undecided;
    }
    let share = some as f64 / all as f64;
    let bound = share.clamp(low, high);
    let deviation = (bound * (1.0 - bound) / all as f64).sqrt();
    let beyond = (share - bound).abs();
    // Bounds are decimal, shares are binary: 0.9 % is not exactly 9 of 1,000.
    if beyond < 1e-12 {
        Outcome::Held
    } else if beyond <= DEVIATIONS * deviation {
        Outcome::Undecided
    } else {
        Outcome::Short
    }
}

/// The outcome of a test with this p.
pub fn of_p(p: f64) -> Outcome {
    if p > DOUBT {
        Outcome::Held
    } else if p >= CHANCE {
        Outcome::Undecided
    } else {
        Outcome::Short
    }
}

/// The chi-square test of classes with equal expectation; `None` if fewer than five are expected in each, the usual
/// condition of the test.
pub fn evenly(classes: &[u64]) -> Option<f64> {
    let n: u64 = classes.iter().sum();
    let each = n as f64 / classes.len() as f64;
    (each >= 5.0).then(|| {
        let chi: f64 = classes.iter().map(|&count| (count as f64 - each).powi(2) / each).sum();
        let freedom = (classes.len() - 1) as f64;
        // The function is undefined at 0, where the tail is 1.
        checked_gamma_ur(freedom / 2.0, chi / 2.0).unwrap_or(if chi > 0.0 { 0.0 } else { 1.0 })
    })
}

/// Distance between the distribution of times and the required one: their largest difference at the edges of the
/// histogram's buckets, where the histogram is exact. It is below the true distance by what happens within a
/// bucket, at most a thousandth of the time.
pub fn distance(times: &Times, cumulative: impl Fn(f64) -> f64) -> f64 {
    let n = times.count().max(1) as f64;
    let (mut below, mut distance) = (0u64, 0.0f64);
    for (top, count) in times.buckets() {
        let before = (below as f64 / n - cumulative(times.bucket_begin(top).as_seconds())).abs();
        below += count;
        let after = (below as f64 / n - cumulative((top + Micros(1)).as_seconds())).abs();
        distance = distance.max(before).max(after);
    }
    distance
}

/// The probability that chance makes a Kolmogorov-Smirnov distance at least this large among this many (the asymptotic
/// distribution with Stephens' correction for few).
pub fn kolmogorov(distance: f64, n: u64) -> f64 {
    let root = (n as f64).sqrt();
    let lambda = (root + 0.12 + 0.11 / root) * distance;
    // Below this the sum converges slowly, and is 1 to nine digits.
    if lambda < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 1.0 } else { -1.0 };
        sign * (-2.0 * f64::from(k * k) * lambda * lambda).exp()
    };
    (2.0 * (1..=100).map(term).sum::<f64>()).clamp(0.0, 1.0)
}

/// The think times' distribution (clause 5.2.5.4): exponential, truncated at ten times its mean.
pub fn exponential(mean: f64) -> impl Fn(f64) -> f64 {
    move |seconds| if seconds >= 10.0 * mean { 1.0 } else { 1.0 - (-seconds / mean).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    #[test]
    fn windows_hold_fall_short_or_stay_open() {
        let percent = |some, all| within(some, all, 0.0095, 0.0105);
        assert_eq!(percent(95, 10_000), Outcome::Held);
        assert_eq!(percent(105, 10_000), Outcome::Held);
        // 0.80 % of 10,000: the standard deviation at the bound is 0.097 points, so 0.15 beyond is chance; for a
        // million it is not.
        assert_eq!(percent(80, 10_000), Outcome::Undecided);
        assert_eq!(percent(8_000, 1_000_000), Outcome::Short);
        assert_eq!(percent(0, 1_000_000), Outcome::Short);
        assert_eq!(percent(0, 0), Outcome::Undecided);
    }

    #[test]
    fn the_two_tests_agree_with_tables() {
        // Chi-square by hand: (10^2 + 10^2) / 100 = 2 with one degree of freedom, p = 0.1573.
        assert!((evenly(&[110, 90]).unwrap() - 0.1573).abs() < 1e-4);
        assert_eq!(evenly(&[1, 2]), None);
        // The 5 % and 1 % points of the Kolmogorov distribution: 1.358 and 1.628.
        assert!((kolmogorov(1.358 / 1000.0, 1_000_000) - 0.05).abs() < 5e-4);
        assert!((kolmogorov(1.628 / 1000.0, 1_000_000) - 0.01).abs() < 2e-4);
        assert_eq!(kolmogorov(0.0, 10), 1.0);
    }

    #[test]
    fn the_distance_of_two_times_from_even_ones_is_known() {
        // 1 s and 3 s against an even distribution over 0 to 4 s: before 1 s 0 against 1/4; after 3 s 1 against 3/4.
        let mut times = Times::new();
        times.record(Micros::seconds(1));
        times.record(Micros::seconds(3));
        let even = distance(&times, |seconds| (seconds / 4.0).min(1.0));
        assert!((even - 0.25).abs() < 0.001, "{even}");
    }

    #[test]
    fn exponential_times_pass_and_others_do_not() {
        let mut stream = Stream::of(7, crate::random::Part::Constants, 0);
        let (mut right, mut rounded, mut even) = (Times::new(), Times::new(), Times::new());
        for _ in 0..20_000 {
            let uniform = (f64::from(stream.uniform(0..=999_999)) + 0.5) / 1e6;
            let think = (-uniform.ln() * 12.0).min(120.0);
            right.record(Micros::of_seconds(think));
            rounded.record(Micros::of_seconds(think.round()));
            even.record(Micros::of_seconds(24.0 * uniform));
        }
        let p = |times: &Times| kolmogorov(distance(times, exponential(12.0)), times.count());
        assert!(p(&right) > DOUBT, "{}", p(&right));
        // Whole seconds, as some tools record; an even distribution with the right mean.
        assert!(p(&rounded) < CHANCE && p(&even) < CHANCE);
    }
}
