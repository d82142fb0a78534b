//! The change of a rate: events counted for some work, before and after.
//!
//! With one run on each side only the counts are known. Given their sum, the second count is binomial if the
//! rate did not change, so that the test and the interval are exact (Clopper and Pearson). Several runs on
//! each side differ by more than counting noise. They are judged by Welch's interval of their rates, which is
//! never made narrower than that of the counts.
//!
//! Two or three runs show little about how much one rate varies from run to run. In a table of many rates,
//! all rows together estimate how much more rates vary than counts do, relative to their size. A row's own
//! variance has the weight of its runs, and that of all rows the weight of [`BORROWED`] further runs (a
//! moderated test, as for gene expressions: Smyth 2004).

use crate::student::p_of_t;
use crate::{quantile_95, Interval, Sample, Share};
use serde::Serialize;
use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;

/// Events counted during some work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The events: for samples, the sum of their periods.
    pub events: f64,
    /// How many events one count stands for: 1, or the period of a sample.
    pub weight: f64,
    /// The amount of work: transactions, seconds, runs. Positive.
    pub work: f64,
}

/// The change of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The later rate divided by the earlier one, minus 1: -0.131 is 13.1 % less. Infinite if the earlier
    /// rate was 0.
    pub value: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// The probability of at least this change if the rate is the same.
    pub p: f64,
    /// True if the interval covers differences between runs; otherwise it covers only the sampling of two
    /// runs.
    pub between_runs: bool,
}

/// The probability outside the interval, in both tails together.
const OUTSIDE: f64 = 0.05;
/// Above this number of counts on both sides, the normal distribution is as good as the exact one.
const MANY: f64 = 5_000.0;
/// The normal distribution's two-sided 95 % point.
const Z: f64 = 1.959_963_984_540_054;
/// Number of bisections for a quantile: to 1e-12.
const HALVINGS: usize = 40;

impl Counted {
    /// Single events, each counted.
    pub fn each(events: u64, work: f64) -> Counted {
        Counted { events: events as f64, weight: 1.0, work }
    }

    /// Events per unit of work.
    pub fn rate(&self) -> f64 {
        self.events / self.work
    }

    /// Number of counts that make up the events.
    fn counts(&self) -> f64 {
        self.events / self.weight
    }

    /// All runs added up to one.
    fn pooled(runs: &[Counted]) -> Counted {
        let sum = |of: fn(&Counted) -> f64| runs.iter().map(of).sum::<f64>();
        let (events, counts) = (sum(|run| run.events), sum(Counted::counts));
        let widest = runs.iter().map(|run| run.weight).fold(1.0, f64::max);
        let weight = if counts > 0.0 { events / counts } else { widest };
        Counted { events, weight, work: sum(|run| run.work) }
    }
}

impl Change {
    /// The change of the rate from the runs `before` to the runs `after`. `None` if a side has no runs, or if
    /// work or weight is not positive.
    ///
    /// ```
    /// use hardmeter_evidence::{Change, Counted};
    /// // Tables 7 and 8 of the paper of 2003: the samples of one routine, in one run each.
    /// let change = Change::of(&[Counted::each(58_173, 1.0)], &[Counted::each(50_540, 1.0)]).unwrap();
    /// let percent = |value: f64| format!("{:.1} %", value * 100.0);
    /// assert_eq!(percent(change.value), "-13.1 %");
    /// assert_eq!(percent(change.interval.low), "-14.2 %");
    /// assert_eq!(percent(change.interval.high), "-12.1 %");
    /// ```
    pub fn of(before: &[Counted], after: &[Counted]) -> Option<Change> {
        Change::with(before, after, None)
    }

    /// The changes of the rows of a table, each from its runs before to its runs after. With several runs,
    /// all rows together estimate how much rates vary between runs.
    pub fn of_rows(rows: &[(Vec<Counted>, Vec<Counted>)]) -> Vec<Option<Change>> {
        let scatter = scatter(rows);
        rows.iter().map(|(before, after)| Change::with(before, after, scatter)).collect()
    }

    fn with(before: &[Counted], after: &[Counted], scatter: Option<f64>) -> Option<Change> {
        let positive =
            |run: &Counted| run.work > 0.0 && run.weight > 0.0 && run.events >= 0.0 && run.events.is_finite();
        if before.is_empty() || after.is_empty() || !before.iter().chain(after).all(positive) {
            return None;
        }
        let of_counts = of_counts(&Counted::pooled(before), &Counted::pooled(after));
        Some(between_runs(before, after, &of_counts, scatter).unwrap_or(of_counts))
    }

    /// The change of a share of samples, by the normal distribution of the logarithm of its ratio (Katz).
    /// `None` if a count is 0.
    ///
    /// ```
    /// use hardmeter_evidence::{Change, Share};
    /// // Of 100, 20 and then 40: error of the logarithm sqrt(1/20 - 1/100 + 1/40 - 1/100) = 0.2345.
    /// let change = Change::of_shares(Share { count: 20, total: 100 }, Share { count: 40, total: 100 }).unwrap();
    /// assert!((change.value - 1.0).abs() < 1e-12);
    /// assert!((change.interval.high + 1.0 - 2.0 * (1.96f64 * 0.2345).exp()).abs() < 0.01);
    /// ```
    pub fn of_shares(before: Share, after: Share) -> Option<Change> {
        if before.count == 0 || after.count == 0 {
            return None;
        }
        let part = |share: Share| 1.0 / share.count as f64 - 1.0 / share.total as f64;
        let error = (part(before) + part(after)).max(0.0).sqrt();
        let logarithm = (after.fraction() / before.fraction()).ln();
        let p = if error > 0.0 { erfc((logarithm / error).abs() / std::f64::consts::SQRT_2) } else { 1.0 };
        let interval = Interval::around(logarithm, Z * error).map(|end| end.exp() - 1.0);
        Some(Change { value: logarithm.exp() - 1.0, interval, p, between_runs: false })
    }
}

/// The change from one count to another, exactly.
fn of_counts(before: &Counted, after: &Counted) -> Change {
    // The counts of each side if both had the same rate per unit of work.
    let (exposed_before, exposed_after) = (before.work / before.weight, after.work / after.weight);
    let share = exposed_after / (exposed_before + exposed_after);
    let (k, n) = (after.counts(), before.counts() + after.counts());
    if n == 0.0 {
        let interval = Interval { low: -1.0, high: f64::INFINITY };
        return Change { value: 0.0, interval, p: 1.0, between_runs: false };
    }
    let change = |share: f64| share / (1.0 - share) * (exposed_before / exposed_after) - 1.0;
    let few = k.min(n - k) <= MANY;
    let (p, low, high) = if few { exact(k, n, share) } else { normal(k, n, share) };
    Change {
        value: after.rate() / before.rate() - 1.0,
        interval: Interval { low: change(low), high: change(high) },
        p,
        between_runs: false,
    }
}

/// P(X >= k) for n counts, each of which is on this side with probability `share`.
fn at_least(k: f64, n: f64, share: f64) -> f64 {
    if k <= 0.0 {
        1.0
    } else {
        beta_reg(k, n - k + 1.0, share)
    }
}

/// P(X <= k).
fn at_most(k: f64, n: f64, share: f64) -> f64 {
    if k >= n {
        1.0
    } else {
        1.0 - beta_reg(k + 1.0, n - k, share)
    }
}

/// The probability of a count at least as extreme, and the ends of the share's interval.
fn exact(k: f64, n: f64, share: f64) -> (f64, f64, f64) {
    let p = (2.0 * at_least(k, n, share).min(at_most(k, n, share))).min(1.0);
    let low = crossing(|share| at_least(k, n, share) > OUTSIDE / 2.0);
    let high = crossing(|share| at_most(k, n, share) < OUTSIDE / 2.0);
    (p, if k <= 0.0 { 0.0 } else { low }, if k >= n { 1.0 } else { high })
}

/// The point between 0 and 1 at which a condition begins to hold.
fn crossing(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    0.5 * (low + high)
}

/// The same for many counts on both sides: the score test, and Wilson's interval, which is its inverse.
fn normal(k: f64, n: f64, share: f64) -> (f64, f64, f64) {
    let z = (k - n * share) / (n * share * (1.0 - share)).sqrt();
    let (fraction, z2) = (k / n, Z * Z);
    let centre = (fraction + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z / (1.0 + z2 / n) * (fraction * (1.0 - fraction) / n + z2 / (4.0 * n * n)).sqrt();
    (erfc(z.abs() / std::f64::consts::SQRT_2), centre - half, centre + half)
}

/// The rates of one side's runs.
struct Rates {
    mean: f64,
    /// Variance of one run's rate.
    variance: f64,
    /// Variance from counting alone.
    counting: f64,
    runs: f64,
    freedom: f64,
}

impl Rates {
    fn of(runs: &[Counted]) -> Rates {
        let sample = Sample::of(&runs.iter().map(Counted::rate).collect::<Vec<_>>());
        // A side without events may have up to one event, as far as is known.
        let none = runs.iter().all(|run| run.events == 0.0);
        let counted = |run: &Counted| {
            let events = if none { run.weight / runs.len() as f64 } else { run.events };
            events * run.weight / (run.work * run.work)
        };
        let counting = runs.iter().map(counted).sum::<f64>() / runs.len() as f64;
        let (mean, variance, n) = (sample.mean, sample.variance, sample.n as f64);
        Rates { mean, variance, counting, runs: n, freedom: n - 1.0 }
    }

    /// Moves the variance towards the value that all rows together expect, but never below that of counting.
    fn moderated(self, scatter: Option<f64>) -> Rates {
        let (variance, freedom) = match scatter {
            None => (self.variance, self.freedom),
            Some(scatter) => {
                let expected = self.counting + scatter * self.mean * self.mean;
                let freedom = self.freedom + BORROWED;
                ((self.freedom * self.variance + BORROWED * expected) / freedom, freedom)
            }
        };
        Rates { variance: variance.max(self.counting), freedom, ..self }
    }

    /// The square of the mean's standard error.
    fn error(&self) -> f64 {
        self.variance / self.runs
    }
}

/// The weight of all rows together, as a number of runs of one side.
const BORROWED: f64 = 3.0;
/// With fewer rows, the scatter of rates is not estimated.
const ROWS: usize = 10;
/// The squared relative scatter assumed when the rows are weighted: a tenth, squared.
const EXPECTED: f64 = 0.01;

/// How much rates vary between runs beyond counting noise: the variance divided by the square of the mean.
/// `None` for few rows, or for single runs.
fn scatter(rows: &[(Vec<Counted>, Vec<Counted>)]) -> Option<f64> {
    let (mut sum, mut weights, mut used) = (0.0, 0.0, 0);
    for (before, after) in rows {
        for runs in [before, after] {
            let usable = runs.len() > 1 && runs.iter().all(|run| run.work > 0.0 && run.weight > 0.0);
            if !usable || runs.iter().all(|run| run.events == 0.0) {
                continue;
            }
            let rates = Rates::of(runs);
            let square = rates.mean * rates.mean;
            let weight = rates.freedom / (rates.counting / square + EXPECTED).powi(2);
            sum += weight * (rates.variance - rates.counting) / square;
            weights += weight;
            used += 1;
        }
    }
    (used >= ROWS && weights > 0.0).then(|| (sum / weights).max(0.0))
}

/// The change between the means of several runs each; `None` for fewer than two.
fn between_runs(
    before: &[Counted],
    after: &[Counted],
    counts: &Change,
    scatter: Option<f64>,
) -> Option<Change> {
    if before.len() < 2 || after.len() < 2 {
        return None;
    }
    let [before, after] = [before, after].map(|runs| Rates::of(runs).moderated(scatter));
    // The variance of `after - factor * before`, and its degrees of freedom (Welch, Satterthwaite).
    let error = |factor: f64| {
        let (a, b) = (after.error(), before.error() * factor * factor);
        let squares = a * a / after.freedom + b * b / before.freedom;
        (a + b, if squares > 0.0 { (a + b) * (a + b) / squares } else { after.freedom + before.freedom })
    };
    let (variance, freedom) = error(1.0);
    let difference = after.mean - before.mean;
    let p = if variance > 0.0 { p_of_t(difference / variance.sqrt(), freedom) } else { 1.0 };
    // For few counts neither the mean nor its error is normal. Then the counts give a weaker result than
    // Welch's test, and that result is used.
    let p = p.max(counts.p);
    let (value, interval) = if before.mean > 0.0 {
        let quotient = after.mean / before.mean;
        let (variance, freedom) = error(quotient);
        let half = variance.sqrt() / before.mean * quantile_95(freedom);
        (quotient - 1.0, Interval::around(quotient - 1.0, half))
    } else {
        (counts.value, counts.interval)
    };
    let wider = Interval {
        low: interval.low.min(counts.interval.low).max(-1.0),
        high: interval.high.max(counts.interval.high),
    };
    Some(Change { value, interval: wider, p, between_runs: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(events: u64, work: f64) -> [Counted; 1] {
        [Counted::each(events, work)]
    }

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
    }

    /// 1 and 9 of 10: P(X >= 9) = 11/1024, twice that is 0.0215. Clopper-Pearson's interval of 9 of 10 is 0.5550..0.9975
    /// in any table: 1.247 to 399 times.
    #[test]
    fn nine_of_ten_by_hand() {
        let change = Change::of(&each(1, 1.0), &each(9, 1.0)).unwrap();
        close(change.value, 8.0, 1e-12);
        close(change.p, 22.0 / 1024.0, 1e-9);
        close(change.interval.low, 0.5550 / 0.4450 - 1.0, 1e-3);
        close(change.interval.high, 0.99747 / 0.00253 - 1.0, 1.0);
        assert!(!change.between_runs);
    }

    #[test]
    fn work_and_weight_are_taken_into_account() {
        // Twice the events in twice the work.
        let change = Change::of(&each(1000, 10.0), &each(2000, 20.0)).unwrap();
        close(change.value, 0.0, 1e-12);
        close(change.p, 1.0, 0.02);
        // Ten samples of 100 events each are ten counts, not 1,000.
        let sampled = |events| [Counted { events, weight: 100.0, work: 1.0 }];
        let change = Change::of(&sampled(100.0), &sampled(900.0)).unwrap();
        close(change.p, 22.0 / 1024.0, 1e-9);
        // One side in samples, the other with each event counted.
        let change =
            Change::of(&[Counted { events: 1e6, weight: 1000.0, work: 1.0 }], &each(1_000_000, 1.0)).unwrap();
        close(change.p, 1.0, 0.05);
        // 1,000 counts: 1.96 / sqrt(1000) = 6.2 %, and a few per mille for the other side.
        close(change.interval.high, 0.064, 0.004);
    }

    #[test]
    fn nothing_before_is_an_infinite_change_with_a_finite_end() {
        let change = Change::of(&each(0, 1.0), &each(10, 1.0)).unwrap();
        assert!(change.value.is_infinite() && change.interval.high.is_infinite(), "{change:?}");
        // At least 0.6915 of the ten are after: 2.24 times.
        close(change.interval.low, 0.6915 / 0.3085 - 1.0, 2e-3);
        close(change.p, 2.0 / 1024.0, 1e-9);
        let none = Change::of(&each(0, 1.0), &each(0, 1.0)).unwrap();
        assert_eq!((none.value, none.p), (0.0, 1.0));
        assert_eq!(Change::of(&each(1, 0.0), &each(1, 1.0)), None);
        assert_eq!(Change::of(&[], &each(1, 1.0)), None);
    }

    /// Where the exact and the normal distribution meet, they agree.
    #[test]
    fn exact_and_normal_agree_on_many_counts() {
        for (k, n) in [(5_000.0, 10_200.0), (4_000.0, 100_000.0), (4_990.0, 1e6)] {
            let share = k / n * 1.02;
            let (exact, normal) = (exact(k, n, share), normal(k, n, share));
            close(exact.0, normal.0, 0.02);
            close(exact.1, normal.1, 1e-4);
            close(exact.2, normal.2, 1e-4);
        }
    }

    /// For 10 counts in 10 million, the binomial distribution is close to Poisson's: P(X >= 10 | 5) = 0.0318.
    #[test]
    fn rare_counts_are_poissons() {
        close(at_least(10.0, 1e7, 5e-7), 0.031_828, 1e-5);
        close(at_most(2.0, 1e7, 5e-7), 0.124_652, 1e-5);
    }

    /// Means 100 and 110 of four runs each, with variance 66.7: error 5.77, t = 1.73, freedom 6, p = 0.134.
    #[test]
    fn several_runs_are_judged_by_how_they_differ() {
        let runs = |rates: [u64; 4]| rates.map(|rate| Counted::each(rate * 10_000, 10_000.0));
        let change = Change::of(&runs([90, 100, 100, 110]), &runs([100, 110, 110, 120])).unwrap();
        assert!(change.between_runs);
        close(change.value, 0.1, 1e-9);
        close(change.p, 0.134, 0.002);
        // By the counts alone, 4 million and 4.4 million, the difference would be certain.
        let pooled = Change::of(&each(4_000_000, 40_000.0), &each(4_400_000, 40_000.0)).unwrap();
        assert!(pooled.p < 1e-9 && pooled.interval.low > 0.09, "{pooled:?}");
    }

    #[test]
    fn equal_runs_of_few_counts_are_not_exact() {
        // Both runs of each side happen to have the same count, which does not show a difference.
        let runs = |count| [Counted::each(count, 1.0), Counted::each(count, 1.0)];
        let change = Change::of(&runs(2), &runs(3)).unwrap();
        assert!(change.p > 0.5, "{change:?}");
        let from_none = Change::of(&runs(0), &runs(2)).unwrap();
        assert!(from_none.p > 0.1 && from_none.value.is_infinite(), "{from_none:?}");
    }

    /// Twenty rates in two runs on each side that vary by 5 % and have counts of 10,000. One of them is 20 %
    /// less, which two runs alone cannot show: t(2) = 4.3 at best.
    #[test]
    fn rows_say_together_how_much_rates_scatter() {
        let run = |events: u64| Counted::each(events, 1.0);
        let row = |factor: f64| {
            let scaled = |events: f64| run((events * factor) as u64);
            (vec![run(10_500), run(9_500)], vec![scaled(9_600.0), scaled(10_400.0)])
        };
        let mut rows = vec![row(1.0); 20];
        rows[7] = row(0.8);
        let alone = Change::of(&rows[7].0, &rows[7].1).unwrap();
        let together = Change::of_rows(&rows)[7].unwrap();
        close(together.value, alone.value, 1e-12);
        assert!(alone.p > 0.05 && together.p < 0.02, "{alone:?} {together:?}");
        assert!(together.interval.high < 0.0 && alone.interval.high > 0.0, "{alone:?} {together:?}");
        assert!(Change::of_rows(&rows)[3].unwrap().p > 0.5);
        // A few rows do not affect each other.
        assert_eq!(Change::of_rows(&rows[7..9])[0], Some(alone));
    }
}
