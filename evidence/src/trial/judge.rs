//! Derives verdicts from the differences so far.
//!
//! | verdict | when |
//! |---|---|
//! | worse | evidence for a loss in any metric, and that loss is of the minimum effect or more |
//! | better | evidence for a gain in a metric that decides, of the minimum effect or more, and no metric looks worse |
//! | same | the intervals of all metrics lie within their minimum effects |
//! | undecided | otherwise |
//!
//! Evidence of several metrics is averaged: a mean of e-values is an e-value. Metrics that agree cost nothing; a
//! single metric needs evidence multiplied by the number of metrics. Challengers share the level equally.

use super::{Metric, Role, Trial};
use crate::{Interval, Sequence, Verdict, LEANS};
use serde::{Deserialize, Serialize};

/// The state of a challenger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Its number.
    pub contestant: usize,
    /// Its verdict.
    pub verdict: Verdict,
    /// The side to which the observations lean if they do not suffice for a verdict.
    pub leaning: Verdict,
    /// Metric by metric.
    pub metrics: Vec<StandingOfMetric>,
}

/// The state of a challenger in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StandingOfMetric {
    /// The metric's name.
    pub name: String,
    /// The challenger's value divided by the baseline's, minus 1; `None` before the first round.
    pub change: Option<f64>,
    /// Its always-valid interval at the trial's level; `None` while it is unbounded.
    pub interval: Option<Interval>,
    /// Rounds with a difference.
    pub n: usize,
    /// Evidence that it is better: the factor by which a fair game multiplied the stake.
    pub better: f64,
    /// Evidence that it is worse.
    pub worse: f64,
}

impl Trial {
    /// The state of each challenger.
    pub fn standings(&self) -> Vec<Standing> {
        (1..self.plan.contestants).map(|contestant| self.standing(contestant)).collect()
    }

    fn standing(&self, contestant: usize) -> Standing {
        let metrics = self.plan.metrics.iter().zip(&self.gains[contestant - 1]);
        Standing {
            contestant,
            verdict: self.verdict_on(contestant),
            leaning: self.leaning(contestant),
            metrics: metrics.map(|(metric, gains)| self.of_metric(metric, gains)).collect(),
        }
    }

    fn of_metric(&self, metric: &Metric, gains: &Sequence) -> StandingOfMetric {
        let sign = metric.direction.sign();
        let interval = gains.interval(self.plan.level);
        let interval =
            if sign > 0.0 { interval } else { Interval { low: -interval.high, high: -interval.low } };
        StandingOfMetric {
            name: metric.name.clone(),
            change: gains.estimate().map(|gain| (sign * gain).exp_m1()),
            interval: interval.is_finite().then(|| interval.map(f64::exp_m1)),
            n: gains.len(),
            better: gains.above(0.0),
            worse: gains.below(0.0),
        }
    }

    /// The differences of a challenger in one metric, as logarithms; positive is better.
    pub fn gains(&self, contestant: usize, metric: usize) -> Option<&Sequence> {
        self.gains.get(contestant.checked_sub(1)?)?.get(metric)
    }

    /// The side to which a challenger leans by [`LEANS`], which is enough if a mistake is cheap. Never
    /// [`Verdict::Same`].
    pub fn leaning(&self, contestant: usize) -> Verdict {
        let Some(gains) = contestant.checked_sub(1).and_then(|challenger| self.gains.get(challenger)) else {
            return Verdict::Undecided;
        };
        self.side(gains, LEANS).unwrap_or(Verdict::Undecided)
    }

    /// True if a challenger is unlikely to become better: no deciding metric is likely to gain the minimum
    /// effect.
    pub fn is_hopeless(&self, contestant: usize) -> bool {
        let Some(gains) = contestant.checked_sub(1).and_then(|challenger| self.gains.get(challenger)) else {
            return false;
        };
        let mut deciding = self.deciding(gains).filter(|(_, gains)| !gains.is_empty()).peekable();
        deciding.peek().is_some() && deciding.all(|(metric, gains)| gains.below(metric.matters()) >= LEANS)
    }

    fn deciding<'a>(&'a self, gains: &'a [Sequence]) -> impl Iterator<Item = (&'a Metric, &'a Sequence)> {
        self.plan.metrics.iter().zip(gains).filter(|(metric, _)| metric.role == Role::Decides)
    }

    pub(super) fn judge(&self, challenger: usize) -> Option<Verdict> {
        // Half of the level for each side, divided among the challengers.
        let enough = 2.0 * self.verdicts.len() as f64 / self.plan.level;
        let gains = &self.gains[challenger];
        self.side(gains, enough).or_else(|| {
            let is_same = |(metric, gains): (&Metric, &Sequence)| {
                gains.above(-metric.matters()) >= enough && gains.below(metric.matters()) >= enough
            };
            self.plan.metrics.iter().zip(gains).all(is_same).then_some(Verdict::Same)
        })
    }

    /// Better or worse, if the evidence suffices for it.
    fn side(&self, gains: &[Sequence], enough: f64) -> Option<Verdict> {
        let all: Vec<_> = self.plan.metrics.iter().zip(gains).collect();
        let deciding: Vec<_> = self.deciding(gains).collect();
        let largest = |metrics: &[(&Metric, &Sequence)], evidence: fn(&Sequence) -> f64, sign: f64| {
            let shown: Vec<f64> = metrics.iter().map(|(_, gains)| evidence(gains)).collect();
            let mean = shown.iter().sum::<f64>() / shown.len() as f64;
            let best = (0..shown.len()).max_by(|one, other| shown[*one].total_cmp(&shown[*other]));
            mean >= enough
                && best.is_some_and(|best| {
                    let (metric, gains) = metrics[best];
                    gains.estimate().is_some_and(|gain| sign * gain >= metric.matters())
                })
        };
        if largest(&all, |gains| gains.below(0.0), -1.0) {
            return Some(Verdict::Worse);
        }
        let harm = |(metric, gains): &(&Metric, &Sequence)| {
            gains.estimate().is_some_and(|gain| gain < -metric.matters())
        };
        (largest(&deciding, |gains| gains.above(0.0), 1.0) && !all.iter().any(harm))
            .then_some(Verdict::Better)
    }
}
