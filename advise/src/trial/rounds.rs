//! The rounds of a trial: which block comes next, and the evidence of all blocks. Pure.
//!
//! Invariants:
//! 1. `trial` has observed all blocks, in their order.
//! 2. `pending` is the first block of an incomplete round, or `None`.
//! 3. `by_statement` has one difference for each round in which both blocks called the statement.

use super::conduct::Order;
use super::measure::{Block, Measure, Mix};
use super::result::{Gauge, Regression, TrialResult};
use super::spread::{provable, spread};
use super::TryError;
use hardmeter_evidence::{Design, Interval, Median, Plan, Sequence, Share, Trial, Verdict};
use std::collections::BTreeMap;

/// Statements with a smaller part of the time are not compared one by one.
const LEAST_SHARE: f64 = 0.01;
/// Statements that became slower by this are reported.
const SLOWER: f64 = 0.02;
/// Rounds before a trial may end because a gain is unlikely.
const FEWEST_ROUNDS: u32 = 8;

pub(super) struct Rounds {
    trial: Trial,
    measures: Vec<Measure>,
    primary: Measure,
    mix: Mix,
    spreads: Vec<Option<f64>>,
    by_statement: BTreeMap<String, Sequence>,
    pending: Option<(bool, Block)>,
    /// Values of all blocks by metric, as found and with the change.
    values: Vec<[Vec<f64>; 2]>,
    /// Transactions and rollbacks, as found and with the change.
    ends: [(f64, f64); 2],
    /// Blocks in which the load failed, as found and with the change.
    failures: [u32; 2],
    remarks: Vec<String>,
}

impl Rounds {
    /// `measures` are those that are available here.
    pub(super) fn new(
        order: &Order,
        measures: Vec<Measure>,
        mix: Mix,
        first: &[Block],
    ) -> Result<Rounds, TryError> {
        let mut remarks = Vec::new();
        let values =
            |measure: Measure| first.iter().map(|block| mix.value(block, measure)).collect::<Vec<f64>>();
        let known = |measure: &Measure| values(*measure).iter().any(|value| *value > 0.0);
        // The log decides, or is left out: a checkpoint that begins during a block must not end a trial.
        let wanted = |measure: &Measure| *measure != Measure::Log || order.measure == Measure::Log;
        let usable: Vec<Measure> = measures.into_iter().filter(wanted).filter(known).collect();
        let primary = match usable.contains(&order.measure) {
            true => order.measure,
            false => *usable.first().ok_or(TryError::NoLoad { seconds: order.pace.block })?,
        };
        if primary != order.measure {
            remarks.push(format!(
                "{} is not known here (it needs {}): {} decides",
                order.measure.name(),
                match order.measure {
                    Measure::Latency => "pg_stat_statements, or the performance schema",
                    Measure::Log => "a PostgreSQL server that writes",
                    Measure::Cpu | Measure::Throughput => "the server's processes",
                },
                primary.name()
            ));
        }
        let mut measures = vec![primary];
        measures.extend(usable.iter().copied().filter(|measure| *measure != primary));
        let metrics = measures.iter().map(|one| one.metric(primary, order.pace.minimum)).collect();
        let plan = Plan {
            design: Design::Pairs,
            most_rounds: order.pace.most_rounds,
            ..Plan::of_two(metrics, order.seed)
        };
        let trial = Trial::new(plan).map_err(|error| TryError::Answer { what: error.to_string() })?;
        Ok(Rounds {
            spreads: measures.iter().map(|measure| spread(&values(*measure))).collect(),
            by_statement: mix.heavy(LEAST_SHARE).into_iter().map(|id| (id, Sequence::default())).collect(),
            values: measures.iter().map(|_| [Vec::new(), Vec::new()]).collect(),
            trial,
            measures,
            primary,
            mix,
            pending: None,
            ends: [(0.0, 0.0); 2],
            failures: [0; 2],
            remarks,
        })
    }

    /// True if the next block is with the change; `None`: the trial is over.
    pub(super) fn next(&self) -> Option<bool> {
        if self.is_unlikely() || self.failures[1] >= 2 {
            return None;
        }
        self.trial.next().map(|contestant| contestant == 1)
    }

    /// A gain that matters has become unlikely.
    fn is_unlikely(&self) -> bool {
        self.pending.is_none() && self.trial.rounds() >= FEWEST_ROUNDS && self.trial.is_hopeless(1)
    }

    pub(super) fn observe(&mut self, on: bool, block: Block, failed: bool) -> Result<(), TryError> {
        let values: Vec<f64> = self.measures.iter().map(|measure| self.mix.value(&block, *measure)).collect();
        self.trial
            .observe(usize::from(on), &values)
            .map_err(|error| TryError::Answer { what: error.to_string() })?;
        let arm = usize::from(on);
        for (of_measure, value) in self.values.iter_mut().zip(values) {
            if value.is_finite() && value > 0.0 {
                of_measure[arm].push(value);
            }
        }
        self.ends[arm].0 += block.transactions;
        self.ends[arm].1 += block.rollbacks;
        self.failures[arm] += u32::from(failed);
        match self.pending.take() {
            None => self.pending = Some((on, block)),
            Some((_, first)) => {
                let (found, changed) = if on { (first, block) } else { (block, first) };
                for (id, sequence) in &mut self.by_statement {
                    let mean = |block: &Block| block.statements.get(id).map(|(calls, ms)| ms / calls);
                    if let (Some(found), Some(changed)) = (mean(&found), mean(&changed)) {
                        sequence.push((changed / found).ln());
                    }
                }
            }
        }
        Ok(())
    }

    /// True if the load fails without the change, too.
    pub(super) fn failed_as_found(&self) -> bool {
        self.failures[0] > 0
    }

    /// Rounds in which nothing could be compared.
    pub(super) fn unusable(&self) -> u32 {
        self.trial.unusable()
    }

    /// The statements that are compared one by one.
    pub(super) fn compared(&self) -> Vec<String> {
        self.by_statement.keys().cloned().collect()
    }

    pub(super) fn result(&self, texts: &BTreeMap<String, String>) -> TrialResult {
        let errors = self.errors();
        let verdict = if errors.is_some() { Verdict::Worse } else { self.trial.verdict() };
        let plan = self.trial.plan();
        let standing = &self.trial.standings()[0];
        let gauges = standing.metrics.iter().enumerate().map(|(at, of)| Gauge {
            measure: self.measures[at],
            decides: self.measures[at] == self.primary,
            found: Median::of(&self.values[at][0]).map(|median| median.value),
            changed: Median::of(&self.values[at][1]).map(|median| median.value),
            change: of.change,
            interval: of.interval,
            rounds: of.n,
            spread: self.spreads[at].map(f64::exp_m1),
            provable: self.spreads[at].map(|spread| provable(spread, plan.most_rounds)),
        });
        TrialResult {
            verdict,
            rounds: self.trial.rounds(),
            most_rounds: plan.most_rounds,
            seconds: 0.0,
            gauges: gauges.collect(),
            regressions: self.regressions(texts),
            compared: self.by_statement.values().filter(|sequence| !sequence.is_empty()).count(),
            errors,
            unlikely: verdict == Verdict::Undecided && self.is_unlikely(),
            remarks: self.remarks.clone(),
        }
    }

    /// Statements that are slower by 2 % or more, at 5 % for all of them together.
    fn regressions(&self, texts: &BTreeMap<String, String>) -> Vec<Regression> {
        let enough = 20.0 * self.by_statement.len() as f64;
        let level = 0.05;
        let mut found: Vec<Regression> = self
            .by_statement
            .iter()
            .filter(|(_, sequence)| sequence.above(0.0) >= enough)
            .filter_map(|(id, sequence)| {
                let change = sequence.estimate()?.exp_m1();
                let interval: Interval = sequence.interval(level);
                (change >= SLOWER).then(|| Regression {
                    text: texts.get(id).cloned().unwrap_or_else(|| format!("statement {id}")),
                    change,
                    interval: interval.is_finite().then(|| interval.map(f64::exp_m1)),
                })
            })
            .collect();
        found.sort_by(|a, b| b.change.total_cmp(&a.change));
        found
    }

    /// Errors that are more frequent with the change than as found, by the 95 % intervals of both.
    fn errors(&self) -> Option<String> {
        if self.failures[1] > 0 && self.failures[0] == 0 {
            return Some(format!(
                "the load failed in {} blocks with the change, in none as found",
                self.failures[1]
            ));
        }
        let share = |(transactions, rollbacks): (f64, f64)| Share {
            count: rollbacks as u64,
            total: transactions as u64,
        };
        let (found, changed) = (share(self.ends[0]), share(self.ends[1]));
        let (low, high) = (changed.interval()?.low, found.interval()?.high);
        (low > high).then(|| {
            format!(
                "{:.2} % of transactions are rolled back with the change, {:.2} % as found",
                changed.fraction() * 100.0,
                found.fraction() * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Guards, Pace, Wanted};
    use hardmeter_evidence::Coin;

    fn order(measure: Measure, most_rounds: u32) -> Order {
        let (block, settle, first_blocks, minimum, longest_build) = (5.0, 1.5, 6, 0.02, 30.0);
        Order {
            wanted: vec![Wanted::Setting { name: "jit".into(), value: "off".into() }],
            remedy: "jit".into(),
            finding: None,
            evidence: serde_json::Value::Null,
            predicted: None,
            measure,
            pace: Pace { block, settle, first_blocks, most_rounds, minimum, longest_build },
            keep: false,
            guards: Guards::default(),
            run: None,
            seed: 5,
        }
    }

    /// Two statements, one a transaction; 100 calls of `a` and 100 of `b` milliseconds in a block of 10 s.
    fn block(a: f64, b: f64, rollbacks: f64) -> Block {
        let statements = [("a", a), ("b", b)].map(|(id, ms)| (id.to_owned(), (100.0, 100.0 * ms)));
        Block {
            seconds: 10.0,
            active: 2.0,
            total: 0.0,
            transactions: 200.0,
            rollbacks,
            cpu_ms: Some(100.0),
            log_bytes: Some(5e4),
            statements: statements.into(),
        }
    }

    fn conducted(measure: Measure, mut next: impl FnMut(bool, &mut Coin) -> Block) -> (TrialResult, u32) {
        let order = order(measure, 24);
        let mut coin = Coin::new(3);
        let first: Vec<Block> = (0..6).map(|_| next(false, &mut coin)).collect();
        let mut rounds = Rounds::new(&order, Measure::ALL.to_vec(), Mix::of(&first), &first).unwrap();
        let mut blocks = 0;
        while let Some(on) = rounds.next() {
            rounds.observe(on, next(on, &mut coin), false).unwrap();
            blocks += 1;
        }
        (rounds.result(&[("b".to_owned(), "SELECT b".to_owned())].into()), blocks)
    }

    #[test]
    fn a_gain_is_proven_in_seven_rounds_and_the_loser_named() {
        // 10 + 2 ms become 5 + 2.2: 40 % less in sum, and b takes a tenth more.
        let (result, blocks) = conducted(Measure::Latency, |on, coin| {
            let noise = 1.0 + 0.01 * coin.uniform();
            if on {
                block(5.0 * noise, 2.2 * noise, 0.0)
            } else {
                block(10.0 * noise, 2.0 * noise, 0.0)
            }
        });
        assert_eq!((result.verdict, blocks), (Verdict::Better, 14));
        let primary = result.primary().unwrap();
        assert_eq!(primary.measure, Measure::Latency);
        assert!((primary.change.unwrap() + 0.4).abs() < 0.01, "{primary:?}");
        // Two statements share the level: 40 is reached by seven rounds that agree, too.
        assert_eq!(result.regressions.len(), 1, "{result:?}");
        assert_eq!(result.regressions[0].text, "SELECT b");
        assert!((result.regressions[0].change - 0.1).abs() < 0.02);
    }

    /// Of 200 trials without effect, with 10 % of noise, at most 5 % are reported as a gain or a loss.
    #[test]
    fn nothing_is_seldom_called_something() {
        let mut coin = Coin::new(11);
        let (mut wrong, mut blocks) = (0, 0);
        for seed in 0..200 {
            let order = Order { seed, ..order(Measure::Latency, 24) };
            let mut noisy = || block(10.0 * (0.9 + 0.2 * coin.uniform()), 2.0, 0.0);
            let first: Vec<Block> = (0..6).map(|_| noisy()).collect();
            let mut rounds = Rounds::new(&order, vec![Measure::Latency], Mix::of(&first), &first).unwrap();
            while let Some(on) = rounds.next() {
                rounds.observe(on, noisy(), false).unwrap();
                blocks += 1;
            }
            let verdict = rounds.result(&BTreeMap::new()).verdict;
            wrong += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
        }
        assert!(wrong <= 10, "{wrong} of 200");
        assert!(blocks > 200 * 14);
    }

    #[test]
    fn errors_that_come_with_the_change_make_it_worse() {
        let (result, _) =
            conducted(
                Measure::Latency,
                |on, _| {
                    if on {
                        block(1.0, 1.0, 50.0)
                    } else {
                        block(10.0, 2.0, 0.0)
                    }
                },
            );
        assert_eq!(result.verdict, Verdict::Worse);
        assert_eq!(
            result.errors.unwrap(),
            "25.00 % of transactions are rolled back with the change, 0.00 % as found"
        );
    }

    #[test]
    fn a_measure_that_is_not_known_gives_way() {
        let first: Vec<Block> = (0..6).map(|_| Block { cpu_ms: None, ..block(1.0, 1.0, 0.0) }).collect();
        let measures = vec![Measure::Throughput, Measure::Log];
        let rounds = Rounds::new(&order(Measure::Cpu, 24), measures, Mix::of(&first), &first).unwrap();
        let result = rounds.result(&BTreeMap::new());
        assert_eq!(result.primary().unwrap().measure, Measure::Throughput);
        assert_eq!(result.gauges.len(), 1, "the log decides or is left out");
        let measures = vec![Measure::Throughput, Measure::Log];
        let of_log = Rounds::new(&order(Measure::Log, 24), measures, Mix::of(&first), &first).unwrap();
        let gauges = of_log.result(&BTreeMap::new()).gauges;
        let measures: Vec<Measure> = gauges.iter().map(|gauge| gauge.measure).collect();
        assert_eq!(measures, [Measure::Log, Measure::Throughput]);
        assert!(
            result.remarks[0].starts_with("CPU per transaction is not known here"),
            "{:?}",
            result.remarks
        );
    }
}
