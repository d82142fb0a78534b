//! Comparisons, one after the other, and what they say together. Pure.

use super::measure::{Comparison, OfKind, Value};
use crate::model::KindRef;
use crate::state::Effect;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The comparisons of a plan, the latest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    comparisons: Vec<Comparison>,
}

/// A measure over all comparisons: a logarithm of on over off.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Judged {
    ln: f64,
    error: f64,
    n: usize,
}

/// What the comparisons say together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not enough yet.
    Open,
    /// Keep it, and why.
    Better(String),
    /// Off at once, and why.
    Worse(String),
}

/// Outside of the interval that must not hold zero: 1 % instead of 5 %, since a trial looks after every pair.
const SURE: f64 = 0.01;
/// To give up, less will do: what is refused by mistake is tried again.
const GIVE_UP: f64 = 0.10;
/// For what is reported.
const REPORTED: f64 = 0.05;
/// A plan is never kept after fewer pairs than this.
const FEWEST_PAIRS: usize = 3;
/// Nothing is better with less than this to show for it: it would not pay for the checks.
const WORTH: f64 = 0.01;
/// A first impression so bad ends the trial.
const ALARMING: f64 = 0.05;
/// Of fewer pairs one that met somebody else's load says too much.
const FEW_PAIRS: usize = 4;
/// After so many pairs a trial ends that can hardly come out better any more.
const HOPELESS_PAIRS: usize = 8;
/// Kinds reported one by one.
const KINDS_TOLD: usize = 8;
/// As people call it.
const COST: &str = "CPU time per request";
const WORK: &str = "work done per second";

impl Judged {
    fn of(values: &[Value]) -> Option<Judged> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let ln = values.iter().map(|value| value.ln).sum::<f64>() / n as f64;
        // What counting explains, or what the pairs differ by, whichever is more: few pairs may agree by chance.
        let counting = values.iter().map(|value| value.error * value.error).sum::<f64>().sqrt() / n as f64;
        let squares: f64 = values.iter().map(|value| (value.ln - ln).powi(2)).sum();
        let spread = if n < 2 { 0.0 } else { (squares / (n - 1) as f64 / n as f64).sqrt() };
        Some(Judged { ln, error: counting.max(spread), n })
    }

    /// Where the true value lies, but for this probability. One pair has no spread: taken for as uncertain as two.
    fn interval(&self, outside: f64) -> (f64, f64) {
        let freedom = self.n.max(2) as f64 - 1.0;
        let t =
            StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - outside / 2.0));
        (self.ln - t * self.error, self.ln + t * self.error)
    }

    fn percent(&self) -> f64 {
        (self.ln.exp() - 1.0) * 100.0
    }

    /// Worse beyond reasonable doubt; or, at first, so bad that it is not worth finding out. One pair alone may have met anything.
    fn is_worse(&self) -> bool {
        let surely = self.ln > WORTH / 2.0 && self.interval(GIVE_UP).0 > 0.0;
        self.n >= 2 && (surely || (self.ln > ALARMING && self.ln > 3.0 * self.error))
    }

    /// What it is at least, as far as few pairs agree; of more, what it is on average.
    fn at_least(&self) -> f64 {
        if self.n < FEW_PAIRS {
            self.ln - self.error
        } else {
            self.ln
        }
    }

    fn is_better(&self) -> bool {
        self.n >= FEWEST_PAIRS && self.ln < -WORTH && self.interval(SURE).1 < 0.0
    }

    /// Worse, as sure as what is reported: for one of many kinds, of which some look bad by chance.
    fn is_worse_among_many(&self, by: f64) -> bool {
        self.n >= FEWEST_PAIRS && self.ln > by && self.interval(REPORTED).0 > 0.0
    }

    /// Turned, so that more is worse.
    fn negated(self) -> Judged {
        Judged { ln: -self.ln, ..self }
    }

    fn said(&self, what: &str) -> String {
        format!("{what} {:+.1} % ({})", self.percent(), pairs(self.n))
    }
}

impl Series {
    pub fn push(&mut self, comparison: Comparison) {
        self.comparisons.push(comparison);
    }

    pub fn len(&self) -> usize {
        self.comparisons.len()
    }

    /// Only the latest so many count from now on.
    pub fn keep_latest(&mut self, latest: usize) {
        let before = self.comparisons.len().saturating_sub(latest);
        self.comparisons.drain(..before);
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

    /// How much is lost while it is on, as far as is known: the worse of cost and work, never negative.
    pub fn loss(&self) -> f64 {
        if self.len() < 2 {
            return 0.0;
        }
        let cost = self.cost().map_or(0.0, |judged| judged.at_least());
        let work = self.work().map_or(0.0, |judged| judged.negated().at_least());
        cost.max(work).max(0.0)
    }

    /// Whether what is known says that it costs more than nothing.
    pub fn looks_bad(&self) -> bool {
        let bad = |ln: f64| ln > WORTH;
        self.cost().is_some_and(|cost| bad(cost.ln)) || self.work().is_some_and(|work| bad(-work.ln))
    }

    /// What the comparisons say together.
    pub fn verdict(&self) -> Verdict {
        let (Some(cost), Some(work)) = (self.cost(), self.work()) else { return Verdict::Open };
        let p99 = self.judged(|comparison| comparison.p99);
        if cost.is_worse() {
            return Verdict::Worse(cost.said(COST));
        }
        if work.negated().is_worse() {
            return Verdict::Worse(work.said(WORK));
        }
        if let Some(p99) = p99.filter(|p99| p99.n >= FEWEST_PAIRS && p99.interval(SURE).0 > ALARMING) {
            return Verdict::Worse(p99.said("p99"));
        }
        if !self.does_no_harm() {
            return Verdict::Open;
        }
        if cost.is_better() {
            return Verdict::Better(cost.said(COST));
        }
        if work.negated().is_better() {
            return Verdict::Better(work.said(WORK));
        }
        match p99.filter(Judged::is_better) {
            Some(p99) => Verdict::Better(p99.said("p99")),
            None => Verdict::Open,
        }
    }

    /// Whatever it is better in, nothing else may have become worse, as far as is known.
    fn does_no_harm(&self) -> bool {
        let harm = |judged: Judged| judged.ln > WORTH / 2.0;
        !self.cost().is_some_and(harm) && !self.work().is_some_and(|work| harm(work.negated()))
    }

    /// Whether going on is of no use: nothing that it could be better in can be so by what is worth having, as far as is likely.
    pub fn is_hopeless(&self) -> bool {
        let (Some(cost), Some(work)) = (self.cost(), self.work()) else { return false };
        let hopeless = |judged: Judged| judged.interval(GIVE_UP).0 > -WORTH;
        let p99 = self.judged(|comparison| comparison.p99);
        cost.n >= HOPELESS_PAIRS && hopeless(cost) && hopeless(work.negated()) && p99.is_none_or(hopeless)
    }

    /// What is known of the cost, with its 95 % interval: for verdicts of no difference.
    pub fn cost_in_words(&self) -> String {
        let Some(cost) = self.cost() else { return "nothing could be compared".into() };
        let told = effect(COST.into(), &cost);
        let [change, low, high] = [told.change, told.low, told.high].map(|share| share * 100.0);
        format!("{COST} {change:+.1} % ({low:+.1} to {high:+.1} %, {})", pairs(cost.n))
    }

    /// The kinds of the latest comparison, those that take most time first.
    pub fn kinds(&self) -> impl Iterator<Item = KindRef> + '_ {
        self.comparisons.last().into_iter().flat_map(|comparison| &comparison.kinds).map(|of| of.kind)
    }

    /// Whether a kind is worse by itself, in processor time or latency, and by how much.
    pub fn kind_is_worse(&self, kind: KindRef) -> Option<String> {
        let [cost, p50, p99] = self.of_kind(kind);
        let worse = |judged: Option<Judged>, by: f64, what: &str| {
            judged.filter(|judged| judged.is_worse_among_many(by)).map(|judged| judged.said(what))
        };
        // Latencies follow the load of a core as it happens to be: only much of them counts.
        worse(cost, WORTH, &format!("{COST} of {kind}"))
            .or_else(|| worse(p50, ALARMING, &format!("p50 of {kind}")))
            .or_else(|| worse(p99, ALARMING, &format!("p99 of {kind}")))
    }

    /// For comparisons with a kind's placement and without it, all others as they are: whether it is better for all, or else for
    /// that kind and no loss to the others. A kind may well pay a little for what others win by its being elsewhere.
    pub fn verdict_on(&self, kind: KindRef) -> Verdict {
        let verdict = self.verdict();
        if verdict != Verdict::Open {
            return verdict;
        }
        if let Some(why) = self.kind_is_worse(kind) {
            return Verdict::Worse(why);
        }
        let [cost, _, p99] = self.of_kind(kind);
        let better = |judged: Option<Judged>, what: &str| {
            judged.filter(Judged::is_better).map(|judged| judged.said(&format!("{what} of {kind}")))
        };
        match better(cost, COST).or_else(|| better(p99, "p99")).filter(|_| self.does_no_harm()) {
            Some(why) => Verdict::Better(why),
            None => Verdict::Open,
        }
    }

    /// CPU time per request, p50 and p99 of a kind.
    fn of_kind(&self, kind: KindRef) -> [Option<Judged>; 3] {
        let judged = |of: fn(&OfKind) -> Option<Value>| {
            self.judged(|comparison| of(comparison.kinds.iter().find(|told| told.kind == kind)?))
        };
        // The error of one quantile is not known: what pairs differ by has to do.
        [
            judged(|told| Some(told.cost)),
            judged(|told| told.p50.map(|ln| Value { ln, error: 0.0 })),
            judged(|told| told.p99.map(|ln| Value { ln, error: 0.0 })),
        ]
    }

    /// For people and views.
    pub fn effects(&self) -> Vec<Effect> {
        let all = [
            (COST, self.cost()),
            (WORK, self.work()),
            ("p50", self.judged(|comparison| comparison.p50)),
            ("p99", self.judged(|comparison| comparison.p99)),
        ];
        let mut effects: Vec<Effect> =
            all.into_iter().filter_map(|(measure, judged)| Some(effect(measure.into(), &judged?))).collect();
        for kind in self.kinds().take(KINDS_TOLD) {
            let names = [format!("{COST} of {kind}"), format!("p50 of {kind}"), format!("p99 of {kind}")];
            let told = names.into_iter().zip(self.of_kind(kind));
            effects.extend(told.filter_map(|(name, judged)| Some(effect(name, &judged?))));
        }
        effects
    }
}

fn pairs(n: usize) -> String {
    format!("{n} {} of epochs", if n == 1 { "pair" } else { "pairs" })
}

fn effect(measure: String, judged: &Judged) -> Effect {
    let (low, high) = judged.interval(REPORTED);
    // Few pairs have wide intervals, and JSON has no infinity.
    let change = |ln: f64| (ln.exp() - 1.0).clamp(-1.0, 1e3);
    Effect { measure, change: change(judged.ln), low: change(low), high: change(high), n: judged.n as u32 }
}
