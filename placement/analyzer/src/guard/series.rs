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

    /// Worse beyond reasonable doubt; or, at first, so bad that it is not worth finding out.
    fn is_worse(&self) -> bool {
        let surely = self.n >= 2 && self.ln > WORTH / 2.0 && self.interval(GIVE_UP).0 > 0.0;
        surely || (self.ln > ALARMING && self.ln > 3.0 * self.error)
    }

    fn is_better(&self) -> bool {
        self.n >= FEWEST_PAIRS && self.ln < -WORTH && self.interval(SURE).1 < 0.0
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
        let cost = self.cost().map_or(0.0, |judged| judged.ln);
        let work = self.work().map_or(0.0, |judged| -judged.ln);
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
        // Turned so that more is worse.
        let less_work = Judged { ln: -work.ln, ..work };
        let said = |what: &str, judged: &Judged, told: &Judged| {
            format!("{what} {:+.1} % ({} pairs of epochs)", told.percent(), judged.n)
        };
        let (cost_name, work_name) = ("CPU time per request", "work done per second");
        if cost.is_worse() {
            return Verdict::Worse(said(cost_name, &cost, &cost));
        }
        if less_work.is_worse() {
            return Verdict::Worse(said(work_name, &less_work, &work));
        }
        if let Some(p99) = p99.filter(|p99| p99.n >= FEWEST_PAIRS && p99.interval(SURE).0 > ALARMING) {
            return Verdict::Worse(said("p99", &p99, &p99));
        }
        // Whatever it is better in, nothing else may have become worse, as far as is known.
        if cost.ln > WORTH / 2.0 || less_work.ln > WORTH / 2.0 {
            return Verdict::Open;
        }
        if cost.is_better() {
            return Verdict::Better(said(cost_name, &cost, &cost));
        }
        if less_work.is_better() {
            return Verdict::Better(said(work_name, &less_work, &work));
        }
        match p99.filter(Judged::is_better) {
            Some(p99) => Verdict::Better(said("p99", &p99, &p99)),
            None => Verdict::Open,
        }
    }

    /// For people and views.
    pub fn effects(&self) -> Vec<Effect> {
        let all = [
            ("CPU time per request", self.cost()),
            ("work done per second", self.work()),
            ("p50", self.judged(|comparison| comparison.p50)),
            ("p99", self.judged(|comparison| comparison.p99)),
        ];
        let mut effects: Vec<Effect> =
            all.into_iter().filter_map(|(measure, judged)| Some(effect(measure.into(), &judged?))).collect();
        let mut kinds: Vec<KindRef> = Vec::new();
        for told in self.comparisons.iter().flat_map(|comparison| &comparison.kinds) {
            if !kinds.contains(&told.kind) {
                kinds.push(told.kind);
            }
        }
        for kind in kinds {
            let of = |which: fn(&OfKind) -> Option<f64>| {
                self.judged(|comparison| {
                    let told = comparison.kinds.iter().find(|told| told.kind == kind)?;
                    which(told).map(|ln| Value { ln, error: 0.0 })
                })
            };
            for (name, judged) in [("p50", of(|told| told.p50)), ("p99", of(|told| told.p99))] {
                effects.extend(judged.map(|judged| effect(format!("{name} of {kind}"), &judged)));
            }
        }
        effects
    }
}

fn effect(measure: String, judged: &Judged) -> Effect {
    let (low, high) = judged.interval(REPORTED);
    // Few pairs have wide intervals, and JSON has no infinity.
    let change = |ln: f64| (ln.exp() - 1.0).clamp(-1.0, 1e3);
    Effect { measure, change: change(judged.ln), low: change(low), high: change(high), n: judged.n as u32 }
}
