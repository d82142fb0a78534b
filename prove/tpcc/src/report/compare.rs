//! Compares two runs: their differences, and whether chance explains them.
//!
//! Each interval names its method:
//!
//! * *throughput*: means over batches of 10 s or more, which are nearly independent (neighbouring seconds are not);
//!   Welch's interval of the difference of the two means;
//! * *quantiles of response times*: the binomial distribution of ranks, with an effective number of independent
//!   times from the scatter of New-Order's batch means; the interval of the difference combines both sides (Zou and
//!   Donner);
//! * *CPU time*: one number for a run, so it has no interval. Repeat the runs.

use super::batches::{self, Batches};
use super::number;
use super::summary::{mode_in_words, Summary};
use super::text::one_line;
use super::DISCLAIMER;
use crate::error::TpccError;
use crate::measure::{Ending, RunResult, Times};
use crate::order::Mode;
use crate::work::Kind;
use hardmeter_evidence::table::{Column, Style, TextTable};
use hardmeter_evidence::{Direction, Interval, Sample, Verdict};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Figure by figure.
    pub lines: Vec<Line>,
    /// In what order and environment differ.
    pub differences: Vec<Difference>,
    /// Why they should not be compared. Empty unless `force` overruled a refusal.
    pub incomparable: Vec<String>,
    /// Warnings about the two runs.
    pub remarks: Vec<String>,
}

/// A figure of both runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// "a minute", "s", "CPU s".
    pub unit: &'static str,
    /// The first run's value.
    pub a: f64,
    /// The second run's value.
    pub b: f64,
    /// The 95 % interval of `b - a`; `None` if a run has none.
    pub interval: Option<Interval>,
    /// The method of the interval.
    pub from: String,
    /// Whether larger is better.
    pub more_is_better: bool,
}

/// A parameter in which the two differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its path: `order.connections`.
    pub what: String,
    /// In the first run.
    pub a: String,
    /// In the second one.
    pub b: String,
}

/// Differences within this share of A's figure count as equal.
const SAME: f64 = 0.02;

impl Line {
    /// The verdict in a few words.
    pub fn verdict(&self) -> &'static str {
        match self.interval {
            None if self.from.is_empty() => "one number a run: no interval",
            None => "undecided: too few",
            Some(interval) => {
                let direction = if self.more_is_better { Direction::More } else { Direction::Less };
                match Verdict::of_interval(interval, SAME * self.a.abs(), direction) {
                    Verdict::Better => "B is better",
                    Verdict::Worse => "B is worse",
                    Verdict::Same => "same",
                    Verdict::Undecided => "undecided",
                }
            }
        }
    }
}

/// Compares two runs; refuses runs that are not comparable, unless `force` is set.
///
/// # Errors
///
/// [`TpccError::CannotCompare`] with the reasons.
pub fn compare(a: &RunResult, b: &RunResult, force: bool) -> Result<Comparison, TpccError> {
    let incomparable = incomparable(a, b);
    if !incomparable.is_empty() && !force {
        return Err(TpccError::CannotCompare { reasons: incomparable.join("; ") });
    }
    let mut lines = Vec::from_iter(throughput(a, b));
    let (independent_a, independent_b) = (independence(a), independence(b));
    for kind in Kind::ALL {
        for (share, name) in [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")] {
            let sides = [(a, independent_a), (b, independent_b)]
                .map(|(result, independent)| Ranked::of(&result.of(kind).response, share, independent));
            if let [Some(one), Some(other)] = sides {
                lines.push(quantile(kind, name, one, other));
            }
        }
    }
    lines.extend(costs(a, b));
    let remarks = [("A", a), ("B", b)].into_iter().filter_map(|(name, result)| match &result.ending {
        Ending::Complete => None,
        Ending::Interrupted => Some(format!("{name} was interrupted")),
        Ending::Failed { reason } => Some(format!("{name} failed: {reason}")),
    });
    Ok(Comparison { lines, differences: differences(a, b), incomparable, remarks: remarks.collect() })
}

fn incomparable(a: &RunResult, b: &RunResult) -> Vec<String> {
    let mut reasons = Vec::new();
    let kind = |mode: Mode| match mode {
        Mode::Terminals { .. } => 0,
        Mode::Closed { .. } => 1,
        Mode::Open { .. } => 2,
    };
    if a.order.mode != b.order.mode {
        let what = if kind(a.order.mode) == kind(b.order.mode) { "load" } else { "mode" };
        reasons.push(format!("{what}: {} and {}", mode_in_words(a.order.mode), mode_in_words(b.order.mode)));
    }
    if a.order.warehouses != b.order.warehouses {
        reasons.push(format!("warehouses: {} and {}", a.order.warehouses, b.order.warehouses));
    }
    if a.order.all_warehouses != b.order.all_warehouses {
        reasons.push(format!(
            "warehouses in the database: {} and {}",
            a.order.all_warehouses, b.order.all_warehouses
        ));
    }
    if a.measured_seconds <= 0.0 || b.measured_seconds <= 0.0 {
        reasons.push("one of them was cut off before its measurement interval".into());
    }
    reasons
}

fn throughput(a: &RunResult, b: &RunResult) -> [Line; 1] {
    let [one, two] = [a, b].map(|result| Batches::of(&batches::new_orders(result)));
    let [n, m] = [&one, &two].map(|batches| batches.means.len());
    let is_enough = n.min(m) >= batches::FEWEST;
    let difference = Sample::of(&two.means).less(&Sample::of(&one.means)).filter(|_| is_enough);
    let interval = difference.map(|difference| difference.interval.map(|end| end * 60.0));
    let from = match interval {
        Some(_) => format!("batch means: {n} of {} s, {m} of {} s", one.seconds, two.seconds),
        None => format!("fewer than {} batches of {} s: too short", batches::FEWEST, batches::BATCH_SECONDS),
    };
    let (a, b) = (a.throughput(), b.throughput());
    [Line { name: "New-Orders".into(), unit: "a minute", a, b, interval, from, more_is_better: true }]
}

/// Effective number of independent times per time, from New-Order's batches: the variance of batch means under
/// independence divided by the observed variance. At most 1.
fn independence(result: &RunResult) -> f64 {
    let seconds = batches::interval(result);
    let sums = seconds.chunks_exact(batches::BATCH_SECONDS).filter_map(|batch| {
        let n: u64 = batch.iter().map(|second| second.completed[Kind::NewOrder.index()]).sum();
        let total: u64 = batch.iter().map(|second| second.response_total).sum();
        (n > 0).then(|| (n as f64, total as f64 / n as f64 / 1e6))
    });
    let batches: Vec<_> = sums.collect();
    let (Some(deviation), true) =
        (result.of(Kind::NewOrder).response.deviation_seconds(), batches.len() >= batches::FEWEST)
    else {
        return 1.0;
    };
    let means: Vec<f64> = batches.iter().map(|(_, mean)| *mean).collect();
    let variance = Sample::of(&means).variance;
    let of_each = batches.iter().map(|(orders, _)| orders).sum::<f64>() / batches.len() as f64;
    let expected = deviation * deviation / of_each;
    if variance > expected {
        expected / variance
    } else {
        1.0
    }
}

/// A quantile with the interval of its rank.
#[derive(Clone, Copy)]
struct Ranked {
    value: f64,
    low: f64,
    high: f64,
    independent: f64,
    /// Whether enough times lie on either side for the normal approximation of the binomial distribution.
    is_enough: bool,
}

/// The required number on either side of a quantile: the usual rule for the normal approximation.
const EITHER_SIDE: f64 = 5.0;

impl Ranked {
    fn of(times: &Times, share: f64, independence: f64) -> Option<Ranked> {
        let at = |share: f64| times.quantile(share.clamp(0.0, 1.0)).map(|time| time.as_seconds());
        let independent = times.count() as f64 * independence;
        let half = 1.96 * (share * (1.0 - share) / independent.max(1.0)).sqrt();
        let is_enough = independent * share.min(1.0 - share) >= EITHER_SIDE;
        Some(Ranked {
            value: at(share)?,
            low: at(share - half)?,
            high: at(share + half)?,
            independent,
            is_enough,
        })
    }
}

fn quantile(kind: Kind, name: &str, one: Ranked, other: Ranked) -> Line {
    let difference = other.value - one.value;
    let below = (other.value - other.low).hypot(one.high - one.value);
    let above = (other.high - other.value).hypot(one.value - one.low);
    Line {
        name: format!("{} {name}", kind.name()),
        unit: "s",
        a: one.value,
        b: other.value,
        interval: (one.is_enough && other.is_enough)
            .then_some(Interval { low: difference - below, high: difference + above }),
        from: format!(
            "ranks: n {} and {}, as many as are independent",
            number::count(one.independent as u64),
            number::count(other.independent as u64)
        ),
        more_is_better: false,
    }
}

fn costs(a: &RunResult, b: &RunResult) -> Vec<Line> {
    let (one, two) = (Summary::of(a), Summary::of(b));
    let line = |name: &str, a: Option<f64>, b: Option<f64>| {
        Some(Line {
            name: format!("{name} by 1,000 New-Orders"),
            unit: "CPU s",
            a: a?,
            b: b?,
            interval: None,
            from: String::new(),
            more_is_better: false,
        })
    };
    let lines = [
        line("driver", one.driver_cpu_per_1000, two.driver_cpu_per_1000),
        line("server", one.server_cpu_per_1000, two.server_cpu_per_1000),
    ];
    lines.into_iter().flatten().collect()
}

fn differences(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let mut found = Vec::new();
    let value = |result: &RunResult| {
        serde_json::json!({
            "order": result.order, "environment": result.environment, "measured_seconds": result.measured_seconds
        })
    };
    differ(&value(a), &value(b), String::new(), &mut found);
    found
}

fn differ(a: &Value, b: &Value, path: String, found: &mut Vec<Difference>) {
    if let (Value::Object(one), Value::Object(two)) = (a, b) {
        let mut names: Vec<_> = one.keys().chain(two.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            differ(
                one.get(name).unwrap_or(&Value::Null),
                two.get(name).unwrap_or(&Value::Null),
                below,
                found,
            );
        }
    } else if a != b {
        let text = |value: &Value| match value {
            Value::Null => "-".to_string(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        found.push(Difference { what: path, a: text(a), b: text(b) });
    }
}

/// The comparison as text.
pub fn render(comparison: &Comparison, name_a: &str, name_b: &str) -> String {
    let mut text = format!("A: {}\nB: {}\n{DISCLAIMER}\n", one_line(name_a), one_line(name_b));
    for reason in &comparison.incomparable {
        let _ = writeln!(text, "NOT COMPARABLE, {}", one_line(reason));
    }
    for remark in &comparison.remarks {
        let _ = writeln!(text, "warning: {}", one_line(remark));
    }
    let (left, right) = (Column::left, Column::right);
    let columns = [left(""), right("A"), right("B"), right("B - A, 95 %"), left(""), left("from")];
    let mut table = TextTable::new(columns);
    for line in &comparison.lines {
        let show = |value: f64| match line.unit {
            "s" => number::seconds(value),
            _ => number::number(value),
        };
        let signed = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, show(value.abs()));
        let by = match line.interval {
            Some(Interval { low, high }) => format!("{} .. {}", signed(low), signed(high)),
            None => signed(line.b - line.a),
        };
        let unit = if line.unit == "s" { String::new() } else { format!(", {}", line.unit) };
        let name = format!("{}{unit}", line.name);
        let verdict = line.verdict().to_string();
        table.plain([name, show(line.a), show(line.b), by, verdict, line.from.to_string()]);
    }
    let _ = write!(text, "\n{}", table.text());
    let intervals = comparison.lines.iter().filter(|line| line.interval.is_some()).count();
    let _ = writeln!(
        text,
        "\n{intervals} intervals of 95 % each: of two equal runs, one in twenty of them says that there is a difference."
    );
    if comparison.differences.is_empty() {
        text += "Order and environment are the same.\n";
    } else {
        text += "Order and environment differ:\n";
        let mut table = TextTable::new(["what", "A", "", "B"].map(Column::left)).untitled();
        for Difference { what, a, b } in &comparison.differences {
            table.plain([one_line(what), one_line(a), "->".to_string(), one_line(b)]);
        }
        text += &table.render(Style::default(), 2);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::testing::measured;
    use crate::report::testing;
    use crate::time::Micros;

    fn line<'a>(comparison: &'a Comparison, name: &str) -> &'a Line {
        comparison.lines.iter().find(|line| line.name == name).unwrap()
    }

    fn differs(line: &Line) -> bool {
        ["B is better", "B is worse"].contains(&line.verdict())
    }

    #[test]
    fn a_run_is_no_different_from_itself() {
        let run = testing::run(10, 60.0, 300.0, 1);
        let comparison = compare(&run, &run, false).unwrap();
        // Throughput, three quantiles of five transactions, two costs.
        assert_eq!(comparison.lines.len(), 1 + 15 + 2);
        assert!(comparison.lines.iter().all(|line| line.a == line.b));
        let judged = comparison.lines.iter().filter(|line| line.interval.is_some());
        assert!(judged.clone().count() > 4 && judged.clone().all(|line| !differs(line)), "{comparison:#?}");
        assert!(comparison.differences.is_empty());
        let text = render(&comparison, "a.json", "a.json");
        assert!(
            text.contains("are the same")
                && (text.contains("same  ") || text.contains("undecided  "))
                && text.contains("batch means: 30 of 10 s")
        );
    }

    #[test]
    fn two_runs_by_other_seeds_hardly_differ_and_a_slower_server_does() {
        let (one, other) = (testing::run(10, 60.0, 300.0, 1), testing::run(10, 60.0, 300.0, 2));
        let comparison = compare(&one, &other, false).unwrap();
        let differing = comparison.lines.iter().filter(|line| differs(line));
        // Sixteen intervals of 95 %: one is to be expected, four have a probability below 1 %.
        assert!(differing.count() < 4, "{comparison:#?}");
        assert_eq!(
            comparison.differences,
            [Difference { what: "order.seed".into(), a: "1".into(), b: "2".into() }]
        );
        let mut slower = other.clone();
        // The spread of the others determines the effective number of independent times.
        slower.kinds[0].response = crate::measure::Times::new();
        for micros in 0..other.kinds[0].completed {
            slower.kinds[0].response.record(
                measured(Kind::NewOrder, Micros(0), Micros(1), Micros(1), Micros(100_000 + micros * 100))
                    .answered,
            );
        }
        let comparison = compare(&one, &slower, false).unwrap();
        assert_eq!(line(&comparison, "New-Order p50").verdict(), "B is worse");
        let back = compare(&slower, &one, false).unwrap();
        assert_eq!(line(&back, "New-Order p50").verdict(), "B is better");
    }

    #[test]
    fn more_new_orders_are_better() {
        let one = testing::run(10, 60.0, 300.0, 1);
        let mut more = one.clone();
        more.series.iter_mut().for_each(|second| second.completed[0] *= 2);
        more.kinds[0].completed *= 2;
        let comparison = compare(&one, &more, false).unwrap();
        let line = line(&comparison, "New-Orders");
        assert_eq!((line.verdict(), line.b), ("B is better", line.a * 2.0));
        // The interval lies around the difference of the batch means, which equals the difference of the
        // runs.
        let Interval { low, high } = line.interval.unwrap();
        assert!(low < line.a && line.a < high && high - low < line.a, "{line:?}");
    }

    #[test]
    fn times_that_come_in_waves_count_for_fewer() {
        let steady = testing::run(20, 60.0, 300.0, 1);
        let mut waves = steady.clone();
        for (at, second) in waves.series.iter_mut().enumerate() {
            second.response_total *= if at / 10 % 2 == 0 { 20 } else { 1 };
        }
        assert!(independence(&steady) > 0.3, "{}", independence(&steady));
        assert!(independence(&waves) < 0.05, "{}", independence(&waves));
    }

    #[test]
    fn what_is_not_comparable_is_refused_unless_forced() {
        let run = testing::run(4, 60.0, 120.0, 1);
        let mut other = run.clone();
        other.order.mode = Mode::Closed { clients: 16 };
        other.order.warehouses = 8;
        let error = compare(&run, &other, false).unwrap_err().to_string();
        assert!(error.contains("mode: terminals") && error.contains("warehouses: 4 and 8"), "{error}");
        let forced = compare(&run, &other, true).unwrap();
        assert_eq!(forced.incomparable.len(), 2);
        assert!(render(&forced, "a", "b").contains("NOT COMPARABLE, mode"));
        assert!(forced.differences.iter().any(|one| one.what == "order.warehouses" && one.b == "8"));
        let mut short = run.clone();
        short.measured_seconds = 30.0;
        let comparison = compare(&run, &short, false).unwrap();
        assert_eq!(line(&comparison, "New-Orders").interval, None);
    }
}
