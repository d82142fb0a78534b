//! Measures the cost of measuring: the throughput of a workload without it, counted, and sampled, in turn.
//!
//! ```text
//!   round: off count sample | sample count off      each mode twice, in random order and back
//!   challenger against `off`: always-valid intervals, evidence::Trial
//! ```
//!
//! Invariants:
//! 1. The first run of each mode warms up and is not counted.
//! 2. All runs have the same unit: a workload that prints its throughput once must print it each time.

use hardmeter_evidence::{Direction, Interval, Median, Metric, Plan, Trial, TrialError, Verdict};
use serde::Serialize;

/// The mode of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Not at all.
    Off,
    /// Events are counted.
    Count,
    /// Events are sampled.
    Sample,
}

impl Mode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Count => "count",
            Mode::Sample => "sample",
        }
    }
}

/// Limits of a trial: its rounds, and the smallest relevant change.
#[derive(Clone, Copy, Debug)]
pub struct OverheadOptions {
    /// Rounds after which it ends without a verdict.
    pub most_rounds: u32,
    /// The smallest relevant change: 0.01 is 1 %.
    pub least_effect: f64,
    /// Decides the order of the runs.
    pub seed: u64,
}

/// The throughput of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFigure {
    /// Work per second.
    pub throughput: f64,
    /// Its unit: "tps", "runs/s".
    pub unit: String,
}

/// The result for one mode.
#[derive(Clone, Debug, Serialize)]
pub struct ModeResult {
    /// The mode.
    pub mode: Mode,
    /// Median throughput over its runs.
    pub throughput: Median,
    /// Its throughput relative to that of `off`, minus 1; `None` for `off`.
    pub change: Option<f64>,
    /// The 95 % interval of the change; `None` while it is unbounded.
    pub interval_95: Option<Interval>,
    /// Rounds compared.
    pub rounds: usize,
    /// Against `off`: worse, same, better or undecided.
    pub verdict: Verdict,
}

/// The result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct Overhead {
    /// The unit of throughputs.
    pub unit: String,
    /// Off, and the modes that were possible.
    pub modes: Vec<ModeResult>,
    /// Why events were not counted, if they were not.
    pub count_problem: Option<String>,
    /// The options' least relevant change.
    pub least_effect: f64,
}

/// Why an overhead could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum OverheadError {
    /// A run failed.
    #[error("the run with measuring {mode} failed: {reason}")]
    Run {
        /// The mode.
        mode: &'static str,
        /// Its last message.
        reason: String,
    },
    /// Runs report different things.
    #[error(
        "one run reported {first} and another one {other}: the command must print its throughput in each run, or in none"
    )]
    Units {
        /// The unit of the first run.
        first: String,
        /// The unit of the other run.
        other: String,
    },
    /// Invalid options.
    #[error(transparent)]
    Trial(#[from] TrialError),
}

/// Runs the trial. `run` executes the workload once.
///
/// # Errors
/// If a run fails in mode `off` or `sampled`, or the runs have different units.
pub fn measure(
    options: OverheadOptions,
    run: &mut dyn FnMut(Mode) -> Result<RunFigure, String>,
) -> Result<Overhead, OverheadError> {
    let failed = |mode: Mode| move |reason| OverheadError::Run { mode: mode.name(), reason };
    let unit = run(Mode::Off).map_err(failed(Mode::Off))?.unit;
    let count_problem = run(Mode::Count).err();
    run(Mode::Sample).map_err(failed(Mode::Sample))?;
    let mut modes = vec![Mode::Off, Mode::Count, Mode::Sample];
    modes.retain(|mode| *mode != Mode::Count || count_problem.is_none());
    let mut trial = Trial::new(Plan {
        contestants: modes.len(),
        most_rounds: options.most_rounds,
        ..Plan::of_two(vec![Metric::new(&unit, Direction::More, options.least_effect)], options.seed)
    })?;
    let mut throughputs: Vec<Vec<f64>> = vec![Vec::new(); modes.len()];
    while let Some(contestant) = trial.next() {
        let mode = modes[contestant];
        let figure = run(mode).map_err(failed(mode))?;
        if figure.unit != unit {
            return Err(OverheadError::Units { first: unit, other: figure.unit });
        }
        throughputs[contestant].push(figure.throughput);
        trial.observe(contestant, &[figure.throughput])?;
    }
    let standings = trial.standings();
    let results = modes.iter().enumerate().filter_map(|(number, mode)| {
        let throughput = Median::of(&throughputs[number])?;
        let standing = number.checked_sub(1).map(|challenger| &standings[challenger]);
        let metric = standing.and_then(|standing| standing.metrics.first());
        Some(ModeResult {
            mode: *mode,
            throughput,
            change: metric.and_then(|metric| metric.change),
            interval_95: metric.and_then(|metric| metric.interval),
            rounds: metric.map_or(0, |metric| metric.n),
            verdict: trial.verdict_on(number),
        })
    });
    Ok(Overhead { unit, modes: results.collect(), count_problem, least_effect: options.least_effect })
}

/// How common load generators print their throughput: the text before the number, and the unit.
const PRINTED: [(&str, &str); 4] = [
    ("tps = ", "tps"),                      // pgbench
    ("Requests per second:", "requests/s"), // ab
    ("Requests/sec:", "requests/s"),        // wrk
    ("tpmC", "tpmC"),
];

/// The throughput that a load generator printed; `after` is the text before the number, if the user gave one.
pub fn printed_throughput(output: &str, after: Option<&str>) -> Option<RunFigure> {
    if let Some(after) = after {
        let unit = after.trim().trim_end_matches([':', '=']).trim();
        let unit = if unit.is_empty() { "per second" } else { unit };
        return Some(RunFigure { throughput: number_after(output, after)?, unit: unit.to_string() });
    }
    let known = PRINTED.iter().find_map(|(text, unit)| {
        Some(RunFigure { throughput: number_after(output, text)?, unit: unit.to_string() })
    });
    // sysbench: "transactions:  1234   (123.40 per sec.)"
    known.or_else(|| {
        let line = output.lines().find(|line| line.trim_start().starts_with("transactions:"))?;
        let number = line.split_once('(')?.1.strip_suffix(" per sec.)")?;
        Some(RunFigure { throughput: number.trim().parse().ok()?, unit: "transactions/s".to_string() })
    })
}

/// The positive number that follows the last occurrence of a text.
fn number_after(output: &str, text: &str) -> Option<f64> {
    let rest = output[output.rfind(text)? + text.len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && !".,".contains(c)).unwrap_or(rest.len());
    let number: f64 = rest[..end].replace(',', "").trim_end_matches('.').parse().ok()?;
    (number > 0.0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(throughput: f64) -> RunFigure {
        RunFigure { throughput, unit: "tps".into() }
    }

    const OPTIONS: OverheadOptions = OverheadOptions { most_rounds: 12, least_effect: 0.01, seed: 1 };

    #[test]
    fn throughputs_as_load_generators_print_them() {
        let pgbench =
            "initial connection time = 3.1 ms\ntps = 18230.123456 (without initial connection time)\n";
        let known = |output| printed_throughput(output, None).map(|figure| (figure.throughput, figure.unit));
        assert_eq!(known(pgbench), Some((18_230.123_456, "tps".into())));
        let sysbench = "SQL statistics:\n    transactions:           1234   (123.40 per sec.)\n";
        assert_eq!(known(sysbench), Some((123.4, "transactions/s".into())));
        assert_eq!(known("Requests/sec:  1,024.5\n"), Some((1024.5, "requests/s".into())));
        assert_eq!(known("nothing of that\ntps = none"), None);
        let own = printed_throughput("rows: 7\nrows: 12.", Some("rows:"));
        assert_eq!(own, Some(RunFigure { throughput: 12.0, unit: "rows".into() }), "the last one");
    }

    /// Sampling takes a tenth, counting nothing; a slow drift hits all modes alike.
    #[test]
    fn costs_are_found_and_their_absence_too() {
        let mut runs = 0;
        let result = measure(OPTIONS, &mut |mode| {
            runs += 1;
            let wobble = if runs % 2 == 0 { 1.0005 } else { 0.9995 };
            let own = if mode == Mode::Sample { 0.9 } else { 1.0 };
            Ok(figure(1000.0 * own * wobble * (1.0 - f64::from(runs) * 1e-5)))
        })
        .expect("measured");
        let of = |mode| result.modes.iter().find(|result| result.mode == mode).expect("there");
        assert_eq!((of(Mode::Sample).verdict, of(Mode::Count).verdict), (Verdict::Worse, Verdict::Same));
        let change = of(Mode::Sample).change.expect("a change");
        assert!((change + 0.1).abs() < 0.005, "{change}");
        assert_eq!(of(Mode::Off).change, None);
    }

    #[test]
    fn without_counting_sampling_is_measured_alone() {
        let result = measure(OPTIONS, &mut |mode| match mode {
            Mode::Count => Err("the timer counts no events".into()),
            _ => Ok(figure(100.0)),
        })
        .expect("measured");
        let modes: Vec<Mode> = result.modes.iter().map(|result| result.mode).collect();
        assert_eq!(modes, [Mode::Off, Mode::Sample]);
        assert_eq!(result.count_problem.as_deref(), Some("the timer counts no events"));
    }

    #[test]
    fn runs_that_cannot_be_compared_are_refused() {
        let mut runs = 0;
        let mixed = measure(OPTIONS, &mut |_| {
            runs += 1;
            let unit = if runs > 3 { "runs/s" } else { "tps" };
            Ok(RunFigure { throughput: 1.0, unit: unit.into() })
        });
        assert!(matches!(mixed, Err(OverheadError::Units { .. })), "{mixed:?}");
        let failing = measure(OPTIONS, &mut |_| Err("exit status 3".into()));
        let text = failing.expect_err("it fails").to_string();
        assert_eq!(text, "the run with measuring off failed: exit status 3");
    }
}
