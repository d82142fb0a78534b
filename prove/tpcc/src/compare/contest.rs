//! The measures of a block, and the verdict on all pairs so far.

use crate::measure::RunResult;
use crate::report::summary::Summary;
use crate::work::Kind;
use hardmeter_evidence::{Design, Direction, Interval, Median, Metric, Plan, Trial, Verdict};
use serde::Serialize;

/// The smallest relative change that matters.
pub const MINIMUM_EFFECT: f64 = 0.02;

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The baseline.
    A,
    /// What is compared with it.
    B,
}

impl Side {
    /// Its number as a contestant of a trial.
    pub(super) fn number(self) -> usize {
        match self {
            Side::A => 0,
            Side::B => 1,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Side::A => "A",
            Side::B => "B",
        }
    }
}

/// A measure by which a side may be better or worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// New-Orders a minute.
    Throughput,
    /// The response time that 90 % of New-Orders do not exceed.
    Response,
    /// CPU seconds of the server for 1,000 New-Orders.
    ServerCpu,
}

impl Measure {
    /// Its name, with the unit of its values.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Throughput => "New-Orders a minute",
            Measure::Response => "response time, p90 of New-Order",
            Measure::ServerCpu => "server CPU s by 1,000 New-Orders",
        }
    }

    fn direction(self) -> Direction {
        match self {
            Measure::Throughput => Direction::More,
            Measure::Response | Measure::ServerCpu => Direction::Less,
        }
    }
}

/// The measured figures of a run or block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// New-Orders a minute.
    pub new_orders_a_minute: f64,
    /// Seconds that 90 % of New-Order's response times do not exceed; `None` without New-Orders.
    pub response_p90_seconds: Option<f64>,
    /// CPU seconds of the server for 1,000 New-Orders; `None` if its processes cannot be seen.
    pub server_cpu_per_1000: Option<f64>,
}

impl Figures {
    /// The figures of a run.
    pub fn of(result: &RunResult) -> Figures {
        let summary = Summary::of(result);
        Figures {
            new_orders_a_minute: summary.new_orders_a_minute,
            response_p90_seconds: summary.kinds[Kind::NewOrder.index()].response.map(|times| times.p90),
            server_cpu_per_1000: summary.server_cpu_per_1000,
        }
    }

    /// A figure; `None` if it is not known.
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Throughput => Some(self.new_orders_a_minute),
            Measure::Response => self.response_p90_seconds,
            Measure::ServerCpu => self.server_cpu_per_1000,
        }
        .filter(|value| *value > 0.0 && value.is_finite())
    }
}

/// A trial of B against A, and the figures that it has seen.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    trial: Trial,
    measures: Vec<Measure>,
    /// The figures of each side, in their order.
    seen: [Vec<Figures>; 2],
}

impl Contest {
    /// `sees_cpu`: whether the server's CPU time is a measure.
    pub(super) fn new(sees_cpu: bool, most_pairs: u32, minimum: f64, seed: u64) -> Contest {
        let mut measures = vec![Measure::Throughput, Measure::Response];
        if sees_cpu {
            measures.push(Measure::ServerCpu);
        }
        let metric = |one: &Measure| Metric::new(one.name(), one.direction(), minimum);
        let metrics = measures.iter().map(metric).collect();
        let plan =
            Plan { design: Design::Pairs, most_rounds: most_pairs.max(1), ..Plan::of_two(metrics, seed) };
        let trial = Trial::new(plan).expect("two sides, measures that decide, a minimum effect below 1");
        Contest { trial, measures, seen: Default::default() }
    }

    /// Whose block is next; `None`: the trial is over.
    pub(super) fn next(&self) -> Option<Side> {
        self.trial.next().map(|contestant| if contestant == 0 { Side::A } else { Side::B })
    }

    /// Adds the block of the side that is next.
    pub(super) fn observe(&mut self, side: Side, figures: Figures) {
        let values: Vec<f64> =
            self.measures.iter().map(|measure| figures.get(*measure).unwrap_or(f64::NAN)).collect();
        self.trial.observe(side.number(), &values).expect("it is this side's turn");
        self.show(side, figures);
    }

    /// Adds a pair of neighbours; after the verdict it is only shown.
    pub(super) fn observe_pair(&mut self, a: Figures, b: Figures) {
        let ratio = |measure: &Measure| Some((b.get(*measure)? / a.get(*measure)?).ln());
        // An error means that the trial has ended: a verdict is final.
        let _ended = self.trial.observe_round(&[self.measures.iter().map(ratio).collect()]);
        self.show(Side::A, a);
        self.show(Side::B, b);
    }

    /// Adds figures that are shown and not judged.
    pub(super) fn show(&mut self, side: Side, figures: Figures) {
        self.seen[side.number()].push(figures);
    }

    /// What the pairs so far say.
    pub(super) fn answer(&self) -> Answer {
        let standing = &self.trial.standings()[0];
        let median = |side: Side, measure| {
            let values: Vec<f64> =
                self.seen[side.number()].iter().filter_map(|figures| figures.get(measure)).collect();
            Median::of(&values).map(|median| median.value)
        };
        let rows = self.measures.iter().zip(&standing.metrics).map(|(measure, of)| Row {
            measure: *measure,
            a: median(Side::A, *measure),
            b: median(Side::B, *measure),
            change: of.change,
            interval: of.interval,
            pairs: of.n,
            better: of.better,
            worse: of.worse,
        });
        Answer {
            verdict: standing.verdict,
            pairs: self.trial.rounds(),
            most_pairs: self.trial.plan().most_rounds,
            minimum_effect: self.trial.plan().metrics[0].minimum_effect,
            level: self.trial.plan().level,
            rows: rows.collect(),
        }
    }
}

/// What the pairs say of B, by comparison with A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The verdict on all measures together.
    pub verdict: Verdict,
    /// Number of pairs that were judged.
    pub pairs: u32,
    /// Number of pairs at which there is no verdict any more.
    pub most_pairs: u32,
    /// The smallest relative change that matters.
    pub minimum_effect: f64,
    /// The probability of a wrong verdict, over all measures and pairs.
    pub level: f64,
    /// Measure by measure.
    pub rows: Vec<Row>,
}

/// A measure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub measure: Measure,
    /// A's value: the median of its runs or blocks.
    pub a: Option<f64>,
    /// B's value.
    pub b: Option<f64>,
    /// B divided by A, minus 1: the typical change within a pair.
    pub change: Option<f64>,
    /// The always-valid 95 % interval of the change; `None` while too few pairs bound it.
    pub interval: Option<Interval>,
    /// Number of pairs with this measure.
    pub pairs: usize,
    /// Evidence that B is better by it.
    pub better: f64,
    /// Evidence that B is worse by it.
    pub worse: f64,
}

impl Row {
    /// B's advantage: better or worse if the interval excludes zero, undecided otherwise.
    pub fn side(&self) -> Verdict {
        match self.interval {
            Some(interval) => Verdict::of_interval(interval, 0.0, self.measure.direction()),
            None => Verdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hardmeter_evidence::Coin;

    /// A block of a server whose neighbours take up to a fifth of it. B: twice this share slower.
    fn block(coin: &mut Coin, slower: f64) -> Figures {
        let speed = (1.0 - 0.2 * coin.uniform()) / (1.0 + slower);
        Figures {
            new_orders_a_minute: 6_000.0 * speed,
            response_p90_seconds: Some(0.020 / speed),
            server_cpu_per_1000: Some(1.2 * (1.0 + slower) * (0.97 + 0.06 * coin.uniform())),
        }
    }

    fn judged(seed: u64, slower: f64) -> Answer {
        let mut coin = Coin::new(seed);
        let mut contest = Contest::new(true, 24, MINIMUM_EFFECT, seed);
        for _ in 0..24 {
            let (a, b) = (block(&mut coin, 0.0), block(&mut coin, slower));
            contest.observe_pair(a, b);
        }
        contest.answer()
    }

    #[test]
    fn one_configuration_is_seldom_called_better_or_worse_than_itself() {
        let wrong =
            (0..200).filter(|seed| matches!(judged(*seed, 0.0).verdict, Verdict::Better | Verdict::Worse));
        // 5 % are allowed; of 200 that is 10.
        assert!(wrong.count() <= 10);
    }

    #[test]
    fn a_server_that_is_a_third_slower_is_found_and_so_is_a_faster_one() {
        for seed in 0..20 {
            let worse = judged(seed, 0.5);
            assert_eq!(worse.verdict, Verdict::Worse, "{worse:?}");
            // 1 / 1.5: a third fewer New-Orders, half as much CPU again.
            let [orders, response, cpu] = [0, 1, 2].map(|row| worse.rows[row].change.unwrap());
            assert!((orders + 0.333).abs() < 0.08 && (response - 0.5).abs() < 0.2, "{worse:?}");
            assert!((cpu - 0.5).abs() < 0.05, "{worse:?}");
            assert!(worse.rows.iter().all(|row| row.side() != Verdict::Better), "{worse:?}");
            assert_eq!(judged(seed, -0.333).verdict, Verdict::Better);
        }
    }

    #[test]
    fn equal_figures_are_the_same_and_six_pairs_decide_nothing() {
        let figures = block(&mut Coin::new(1), 0.0);
        let mut contest = Contest::new(true, 24, MINIMUM_EFFECT, 1);
        for pairs in 1..=6 {
            contest.observe_pair(figures, figures);
            assert_eq!((contest.answer().verdict, contest.answer().pairs), (Verdict::Undecided, pairs));
        }
        (0..18).for_each(|_| contest.observe_pair(figures, figures));
        let answer = contest.answer();
        assert_eq!(answer.verdict, Verdict::Same);
        assert_eq!(answer.rows[0].a, answer.rows[0].b);
    }

    #[test]
    fn a_measure_that_is_not_known_is_left_out() {
        let unseen = Figures {
            new_orders_a_minute: 100.0,
            response_p90_seconds: None,
            server_cpu_per_1000: Some(f64::NAN),
        };
        assert_eq!([Measure::Response, Measure::ServerCpu].map(|one| unseen.get(one)), [None, None]);
        let mut contest = Contest::new(false, 2, MINIMUM_EFFECT, 1);
        contest.observe_pair(unseen, unseen);
        let answer = contest.answer();
        assert_eq!(answer.rows.iter().map(|row| row.pairs).collect::<Vec<_>>(), [1, 0]);
    }
}
