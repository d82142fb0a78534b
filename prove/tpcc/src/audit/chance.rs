//! Whether a deviation can be due to chance.

use super::{Finding, Verdict};
use statrs::function::gamma::checked_gamma_ur;
use std::cmp::Ordering;

/// Below this probability a deviation is significant.
pub(super) const CHANCE: f64 = 0.001;
/// The normal distribution's quantile of it, both sides.
pub(super) const DEVIATIONS: f64 = 3.29;

/// Whether a percentage lies within its window, or outside by no more than chance explains.
pub(super) fn within(percent: f64, low: f64, high: f64, n: u64) -> Verdict {
    let bound = if percent < low { low } else { high };
    let deviation = (bound * (100.0 - bound) / n as f64).sqrt();
    let beyond = (percent - percent.clamp(low, high)).abs();
    if beyond == 0.0 {
        Verdict::Held
    } else if beyond <= DEVIATIONS * deviation {
        // A window of one value is the probability of a random choice: deviations by chance pass. The auditors'
        // windows already include chance: a value just outside is undecided.
        if low == high {
            Verdict::Held
        } else {
            Verdict::Undecided
        }
    } else {
        Verdict::Short
    }
}

/// Counts of each value from `first` to `last`; values outside form one more class, which should be empty.
pub(super) fn spread(counts: &[(u64, u64)], first: u64, last: u64) -> Vec<u64> {
    let mut classes = vec![0; (last - first + 1) as usize];
    let mut beyond = 0;
    for &(value, n) in counts {
        match value.checked_sub(first).and_then(|at| classes.get_mut(at as usize)) {
            Some(class) => *class += n,
            None => beyond += n,
        }
    }
    if beyond > 0 {
        classes.push(beyond);
    }
    classes
}

/// The probability of counts as uneven as these if their classes have these shares (chi-square). `None`: too few rows for
/// the test's usual condition, five expected in each class.
pub(super) fn chi_square(counts: &[u64], shares: &[f64]) -> Option<f64> {
    let n: u64 = counts.iter().sum();
    let expected = |share: &f64| share * n as f64;
    if counts.len() < 2 || shares.iter().any(|share| expected(share) < 5.0) {
        return None;
    }
    let chi: f64 = counts
        .iter()
        .zip(shares)
        .map(|(&count, share)| (count as f64 - expected(share)).powi(2) / expected(share))
        .sum();
    let beyond_any_table = if chi > 0.0 { 0.0 } else { 1.0 };
    Some(checked_gamma_ur((counts.len() - 1) as f64 / 2.0, chi / 2.0).unwrap_or(beyond_any_table))
}

/// The finding of a test with a p-value.
pub(super) fn by_probability(name: &'static str, clause: &'static str, p: Option<f64>, n: u64) -> Finding {
    let verdict = match p {
        None => Verdict::NotApplicable,
        Some(p) if p >= CHANCE => Verdict::Held,
        Some(_) => Verdict::Short,
    };
    Finding { name, clause, value: p, unit: "p", n, expected: format!("p at least {CHANCE}"), verdict }
}

/// Corrects the p-values of several tests by Holm's method: with CHANCE as threshold, all tests of a correct
/// database pass together with probability of at least 1 - CHANCE. A finding's value is the corrected one.
pub(super) fn correct(findings: &mut [Finding]) {
    let mut tests: Vec<&mut Finding> =
        findings.iter_mut().filter(|finding| finding.unit == "p" && finding.value.is_some()).collect();
    tests.sort_by(|one, other| one.value.partial_cmp(&other.value).unwrap_or(Ordering::Equal));
    let number = tests.len();
    let mut corrected = 0.0f64;
    for (rank, finding) in tests.into_iter().enumerate() {
        let Some(p) = finding.value else { continue };
        corrected = corrected.max(((number - rank) as f64 * p).min(1.0));
        finding.value = Some(corrected);
        if corrected >= CHANCE {
            finding.verdict = Verdict::Held;
        }
    }
}

/// The chi-square test of equal classes.
pub(super) fn evenly(name: &'static str, clause: &'static str, classes: &[u64]) -> Finding {
    let shares = vec![1.0 / classes.len() as f64; classes.len()];
    by_probability(name, clause, chi_square(classes, &shares), classes.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_fall_short_or_stay_open() {
        // The two-sided probability of this number of standard deviations.
        let chance = statrs::function::erf::erfc(DEVIATIONS / std::f64::consts::SQRT_2);
        assert!((chance - CHANCE).abs() < 1e-5);
        assert_eq!(within(1.0, 0.95, 1.05, 100), Verdict::Held);
        assert_eq!(within(0.0, 0.95, 1.05, 100), Verdict::Undecided);
        assert_eq!(within(0.0, 0.95, 1.05, 1_000_000), Verdict::Short);
        assert_eq!(within(49.9, 10.0, 10.0, 120_000), Verdict::Short);
        assert_eq!(within(10.2, 10.0, 10.0, 30_000), Verdict::Held);
        // A required 100 % allows no exception.
        assert_eq!(within(99.999, 100.0, 100.0, 1_000_000), Verdict::Short);
    }

    #[test]
    fn several_tests_are_corrected_for_their_number() {
        let test = |p| by_probability("", "", p, 100);
        let mut findings =
            [test(Some(0.0004)), test(Some(0.5)), test(None), test(Some(0.0001)), test(Some(0.0006))];
        findings.iter_mut().for_each(|finding| finding.expected.clear());
        correct(&mut findings);
        // By hand: four tests. 0.0001 x 4, 0.0004 x 3, 0.0006 x 2 (not below the previous one), 0.5 x 1.
        let values: Vec<String> =
            findings.iter().map(|finding| finding.value.map_or("-".into(), |p| format!("{p:.4}"))).collect();
        assert_eq!(values, ["0.0012", "0.5000", "-", "0.0004", "0.0012"]);
        let verdicts = findings.map(|finding| finding.verdict);
        use Verdict::{Held, NotApplicable, Short};
        assert_eq!(verdicts, [Held, Held, NotApplicable, Short, Held]);
    }

    #[test]
    fn even_and_uneven_classes_are_told_apart() {
        let held = |classes: &[u64]| evenly("", "", classes).verdict;
        assert_eq!(held(&[100, 104, 97, 99]), Verdict::Held);
        assert_eq!(held(&[100, 200, 100, 100]), Verdict::Short);
        assert_eq!(held(&[1, 2, 1, 1]), Verdict::NotApplicable);
        // Chi-square by hand: (10^2 + 10^2) / 100 = 2 with one degree of freedom, p = 0.1573.
        let p = evenly("", "", &[110, 90]).value.unwrap();
        assert!((p - 0.1573).abs() < 1e-4, "{p}");
        // (15^2 / 75) + (15^2 / 25) = 12 with one degree of freedom, p = 0.000532.
        let p = chi_square(&[60, 40], &[0.75, 0.25]).unwrap();
        assert!((p - 0.000532).abs() < 1e-6, "{p}");
        assert_eq!(spread(&[(5, 3), (15, 1), (16, 2)], 5, 15), [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
    }
}
