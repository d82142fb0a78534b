//! A sequence of comparisons and their joint verdict: an `evidence::Trial` of placement (on) against none (off),
//! and the same for each kind. Pure.

use super::measure::{Comparison, OfKind, Value};
use crate::model::KindRef;
use crate::state::Effect;
use hardmeter_evidence::{Design, Direction, Metric, Plan, Sample, Sequence, Trial, LEANS};

/// The comparisons of a plan, the latest last.
///
/// Invariant: `trial` has observed all of `comparisons`, in their order, up to its verdict.
#[derive(Clone, Debug)]
pub(super) struct Series {
    comparisons: Vec<Comparison>,
    trial: Trial,
    slices: bool,
}

/// A measure over all comparisons: logarithms of on over off.
#[derive(Clone, Debug)]
struct Judged {
    pairs: Sequence,
    /// The typical one, and its standard error.
    ln: f64,
    error: f64,
}

/// The verdict of all comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Undecided.
    Open,
    /// Placement is kept, with the reason.
    Better(String),
    /// Switched off immediately, with the reason.
    Worse(String),
    /// Placement makes no difference, with the evidence.
    Same(String),
}

/// The minimum gain: a smaller one would not pay for the checks.
const WORTH: f64 = 0.01;
/// With time slices: the loss of processor time and work below which the gain of short requests counts.
const FLOOR: f64 = 0.03;
/// Latencies follow the random load of a core; only a loss beyond this share counts.
const ALARMING: f64 = 0.05;
/// Evidence of one kind's own gain or loss: 5 %, one-sided.
const SURE: f64 = 20.0;
/// With fewer pairs, one that coincided with another program's load has too much weight.
const FEW_PAIRS: usize = 4;
/// The number of pairs after which a trial ends that is unlikely to become better.
const HOPELESS_PAIRS: usize = 8;
/// Kinds reported one by one.
const KINDS_REPORTED: usize = 8;
/// The name in messages.
const COST: &str = "CPU time per request";
const WORK: &str = "work done per second";
const P99: &str = "p99";
const RESPONSE: &str = "time on and waiting for a processor per request";

impl Judged {
    fn of(values: &[Value]) -> Option<Judged> {
        let n = values.len();
        let lns: Vec<f64> = values.iter().map(|value| value.ln).collect();
        let mut pairs = Sequence::default();
        lns.iter().for_each(|ln| pairs.push(*ln));
        // The larger of the counting error and the differences between pairs, because few pairs may agree by
        // chance.
        let counting = values.iter().map(|value| value.error * value.error).sum::<f64>().sqrt() / n as f64;
        Some(Judged { ln: pairs.estimate()?, error: counting.max(Sample::of(&lns).error()), pairs })
    }

    /// The lower bound, as far as few pairs agree; for more pairs the typical value.
    fn at_least(&self) -> f64 {
        if self.pairs.len() < FEW_PAIRS {
            self.ln - self.error
        } else {
            self.ln
        }
    }

    fn is_worse(&self, by: f64, enough: f64) -> bool {
        self.ln > by && self.pairs.above(0.0) >= enough
    }

    fn is_better(&self) -> bool {
        self.ln < -WORTH && self.pairs.below(0.0) >= SURE
    }

    /// The negated value, for which more is worse.
    fn negated(self) -> Judged {
        Judged { ln: -self.ln, ..self }
    }

    fn said(&self, what: &str) -> String {
        format!("{what} {:+.1} % ({})", self.ln.exp_m1() * 100.0, pairs(self.pairs.len()))
    }
}

fn worth(slices: bool) -> f64 {
    if slices {
        FLOOR
    } else {
        WORTH
    }
}

impl Series {
    /// Without comparisons. The seed decides which epoch of a pair comes first. With time slices, waits of
    /// requests also count, which sections do not show.
    pub fn new(seed: u64, slices: bool) -> Series {
        let worth = worth(slices);
        let metric = |name, direction, minimum_effect| Metric::new(name, direction, minimum_effect);
        let mut metrics = vec![
            metric(COST, Direction::Less, worth),
            metric(WORK, Direction::More, worth),
            metric(P99, Direction::Less, ALARMING),
        ];
        if slices {
            metrics.push(metric(RESPONSE, Direction::Less, ALARMING));
        }
        let plan = Plan { design: Design::Pairs, most_rounds: u32::MAX, ..Plan::of_two(metrics, seed) };
        let trial = Trial::new(plan).expect("two contestants, metrics that decide");
        Series { comparisons: Vec::new(), trial, slices }
    }

    /// True if the next pair begins with its epoch on: a random choice, on which the verdict is based.
    pub fn on_first(&self) -> bool {
        self.trial.order().first() == Some(&1)
    }

    /// Adds a pair; `None`: it could not be compared.
    pub fn push(&mut self, comparison: Option<Comparison>) {
        let of = |one: &Comparison| {
            let ln = |value: Option<Value>| value.map(|value| value.ln);
            vec![Some(one.cost.ln), Some(one.work.ln), ln(one.p99), ln(one.response)]
        };
        let mut ratios = comparison.as_ref().map_or_else(|| vec![None; 4], of);
        ratios.truncate(self.trial.plan().metrics.len());
        // A trial with a verdict accepts no more comparisons; later ones are a check of it.
        let _ended = self.trial.observe_round(&[ratios]);
        self.comparisons.extend(comparison);
    }

    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Only the latest `latest` comparisons count from now on.
    pub fn keep_latest(&mut self, latest: usize) {
        let before = self.comparisons.len().saturating_sub(latest);
        let kept = self.comparisons.split_off(before);
        *self = Series::new(self.trial.plan().seed, self.slices);
        kept.into_iter().for_each(|comparison| self.push(Some(comparison)));
    }

    fn judged(&self, of: impl Fn(&Comparison) -> Option<Value>) -> Option<Judged> {
        Judged::of(&self.comparisons.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn cost(&self) -> Option<Judged> {
        self.judged(|comparison| Some(comparison.cost))
    }

    fn work(&self) -> Option<Judged> {
        self.judged(|comparison| Some(comparison.work))
    }

    fn p99(&self) -> Option<Judged> {
        self.judged(|comparison| comparison.p99)
    }

    fn response(&self) -> Option<Judged> {
        self.judged(|comparison| comparison.response)
    }

    /// The gain that a check has to show.
    pub fn worth(&self) -> f64 {
        worth(self.slices)
    }

    /// The loss while it is on, as far as known: the worse of cost and work, never negative.
    pub fn loss(&self) -> f64 {
        if self.len() < 2 {
            return 0.0;
        }
        let cost = self.cost().map_or(0.0, |judged| judged.at_least());
        let work = self.work().map_or(0.0, |judged| judged.negated().at_least());
        cost.max(work).max(0.0)
    }

    /// The measure of [`Series::loss`] that loses most, and how much.
    pub fn loss_in_words(&self) -> String {
        let cost = self.cost().map_or(0.0, |judged| judged.at_least());
        match self.work() {
            Some(work) if work.clone().negated().at_least() > cost => work.said(WORK),
            _ => self.cost_in_words(),
        }
    }

    /// True if the comparisons suggest a cost above zero.
    pub fn looks_bad(&self) -> bool {
        let bad = |ln: f64| ln > self.worth();
        self.cost().is_some_and(|cost| bad(cost.ln)) || self.work().is_some_and(|work| bad(-work.ln))
    }

    /// The verdict on the comparisons.
    pub fn verdict(&self) -> Verdict {
        match self.trial.verdict() {
            hardmeter_evidence::Verdict::Better => Verdict::Better(self.most_telling(true)),
            hardmeter_evidence::Verdict::Worse => Verdict::Worse(self.most_telling(false)),
            hardmeter_evidence::Verdict::Same => Verdict::Same(self.cost_in_words()),
            hardmeter_evidence::Verdict::Undecided => Verdict::Open,
        }
    }

    /// The reason to give up an undecided trial that looks worse; a wrong refusal is tried again.
    pub fn leans_worse(&self) -> Option<String> {
        let leans = self.trial.leaning(1) == hardmeter_evidence::Verdict::Worse;
        leans.then(|| self.most_telling(false))
    }

    /// The metric with the strongest evidence for better, or for worse.
    fn most_telling(&self, better: bool) -> String {
        let standing = self.trial.standings().swap_remove(0);
        let shown = |metric: &hardmeter_evidence::StandingOfMetric| {
            if better {
                metric.better
            } else {
                metric.worse
            }
        };
        // Of equal ones the first: processor time before work, work before latency.
        let most = standing.metrics.iter().rev().max_by(|one, other| shown(one).total_cmp(&shown(other)));
        let what = most.map_or(COST, |metric| metric.name.as_str());
        let judged = match what {
            WORK => self.work(),
            P99 => self.p99(),
            RESPONSE => self.response(),
            _ => self.cost(),
        };
        judged.map_or_else(|| what.into(), |judged| judged.said(what))
    }

    /// True if more pairs are useless: no metric is likely to reach the minimum gain.
    pub fn is_hopeless(&self) -> bool {
        self.len() >= HOPELESS_PAIRS && self.trial.is_hopeless(1)
    }

    /// The known cost, with its always-valid 95 % interval.
    pub fn cost_in_words(&self) -> String {
        let Some(cost) = self.cost() else { return "nothing could be compared".into() };
        let interval = cost.pairs.interval(self.trial.plan().level);
        if !interval.is_finite() {
            return cost.said(COST);
        }
        let [change, low, high] = [cost.ln, interval.low, interval.high].map(|ln| ln.exp_m1() * 100.0);
        format!("{COST} {change:+.1} % ({low:+.1} to {high:+.1} %, {})", pairs(cost.pairs.len()))
    }

    /// The kinds of the latest comparison, by descending time.
    pub fn kinds(&self) -> impl Iterator<Item = KindRef> + '_ {
        self.comparisons.last().into_iter().flat_map(|comparison| &comparison.kinds).map(|of| of.kind)
    }

    /// If a kind alone looks worse, in processor time or latency: by how much.
    pub fn kind_looks_worse(&self, kind: KindRef) -> Option<String> {
        self.kind_is_worse(kind, LEANS)
    }

    fn kind_is_worse(&self, kind: KindRef, enough: f64) -> Option<String> {
        let [cost, p50, p99] = self.of_kind(kind);
        let worse = |judged: Option<Judged>, by: f64, what: &str| {
            judged.filter(|judged| judged.is_worse(by, enough)).map(|judged| judged.said(what))
        };
        worse(cost, WORTH, &format!("{COST} of {kind}"))
            .or_else(|| worse(p50, ALARMING, &format!("p50 of {kind}")))
            .or_else(|| worse(p99, ALARMING, &format!("p99 of {kind}")))
    }

    /// The verdict on comparisons with and without a kind's placement, all others unchanged: better for all, or
    /// better for that kind without a loss for the others. A kind may lose a little if the others gain by its
    /// placement.
    pub fn verdict_on(&self, kind: KindRef) -> Verdict {
        let verdict = self.verdict();
        if verdict != Verdict::Open {
            return verdict;
        }
        if let Some(why) = self.kind_is_worse(kind, SURE) {
            return Verdict::Worse(why);
        }
        let [cost, _, p99] = self.of_kind(kind);
        let better = |judged: Option<Judged>, what: &str| {
            judged.filter(Judged::is_better).map(|judged| judged.said(&format!("{what} of {kind}")))
        };
        match better(cost, COST).or_else(|| better(p99, P99)).filter(|_| !self.looks_bad()) {
            Some(why) => Verdict::Better(why),
            None => Verdict::Open,
        }
    }

    /// CPU time per request, p50 and p99 of a kind.
    fn of_kind(&self, kind: KindRef) -> [Option<Judged>; 3] {
        let judged = |of: fn(&OfKind) -> Option<Value>| {
            self.judged(|comparison| of(comparison.kinds.iter().find(|one| one.kind == kind)?))
        };
        // The error of one quantile is unknown; the differences between pairs replace it.
        [
            judged(|of| Some(of.cost)),
            judged(|of| of.p50.map(|ln| Value { ln, error: 0.0 })),
            judged(|of| of.p99.map(|ln| Value { ln, error: 0.0 })),
        ]
    }

    /// The measured effects for views.
    pub fn effects(&self) -> Vec<Effect> {
        let level = self.trial.plan().level;
        let all = [
            (COST, self.cost()),
            (WORK, self.work()),
            ("p50", self.judged(|comparison| comparison.p50)),
            (P99, self.p99()),
            (RESPONSE, self.response()),
        ];
        let effect = |measure: String, judged: Option<Judged>| Some(effect(measure, &judged?, level));
        let mut effects: Vec<Effect> =
            all.into_iter().filter_map(|(measure, judged)| effect(measure.into(), judged)).collect();
        for kind in self.kinds().take(KINDS_REPORTED) {
            let names = [format!("{COST} of {kind}"), format!("p50 of {kind}"), format!("p99 of {kind}")];
            let of_kind = names.into_iter().zip(self.of_kind(kind));
            effects.extend(of_kind.filter_map(|(name, judged)| effect(name, judged)));
        }
        effects
    }
}

fn pairs(n: usize) -> String {
    format!("{n} {} of epochs", if n == 1 { "pair" } else { "pairs" })
}

fn effect(measure: String, judged: &Judged, level: f64) -> Effect {
    let interval = judged.pairs.interval(level);
    // Few pairs have wide intervals, and JSON has no infinity.
    let change = |ln: f64| ln.exp_m1().clamp(-1.0, 1e3);
    let n = judged.pairs.len() as u32;
    Effect { measure, change: change(judged.ln), low: change(interval.low), high: change(interval.high), n }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pairs` equal comparisons: work done and response, on over off.
    fn verdict(work: f64, response: f64, slices: bool) -> Verdict {
        let value = |ratio: f64| Value { ln: ratio.ln(), error: 0.001 };
        let one = Comparison {
            cost: value(1.0),
            work: value(work),
            p50: None,
            p99: Some(value(1.0)),
            response: Some(value(response)),
            kinds: Vec::new(),
        };
        let mut series = Series::new(1, slices);
        for _ in 0..20 {
            series.push(Some(one.clone()));
        }
        series.verdict()
    }

    /// Half the response time at the same work decides for slices; without them the response is ignored.
    #[test]
    fn slices_are_better_if_requests_wait_less() {
        let Verdict::Better(why) = verdict(1.0, 0.5, true) else { panic!("not better") };
        assert!(why.contains("waiting for a processor") && why.contains("-50.0 %"), "{why}");
        assert!(matches!(verdict(1.0, 0.5, false), Verdict::Same(_)));
    }

    /// A tenth less work is worse in any case; two per cent less may be acceptable.
    #[test]
    fn slices_that_take_work_away_are_worse() {
        let Verdict::Worse(why) = verdict(0.9, 0.5, true) else { panic!("not worse") };
        assert!(why.contains("work done per second") && why.contains("-10.0 %"), "{why}");
        assert!(matches!(verdict(0.98, 0.5, true), Verdict::Better(_)));
        assert!(matches!(verdict(0.98, 1.0, false), Verdict::Worse(_)));
    }
}
