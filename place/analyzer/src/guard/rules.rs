//! A rule is the placement of one kind, if the plan makes sense without it. While a plan is kept, its rules
//! are tested one after the other, by pairs of an epoch with the rule and one without it, with all others
//! unchanged. A rule that is not better is switched off alone. A kind that only makes sense together with
//! others (the only one of its queue, say) is judged with the plan.
//!
//! Pure.

use super::measure::{compare, Counts, Epoch};
use super::plans::{placed, stands_without};
use super::running::Running;
use super::series::{Series, Verdict};
use crate::model::{KindRef, Plan};
use crate::state;
use std::collections::{BTreeMap, BTreeSet};

/// The number of pairs without a verdict after which a rule is dropped.
const PAIRS: usize = 12;
/// Pairs that could not be compared.
const UNUSABLE: usize = 3;

/// The result of a rule's tests.
#[derive(Clone, Debug)]
struct Known {
    on: bool,
    why: String,
    n: u32,
    /// The time of its next test, and the number of tests so far.
    until: u64,
    times: u32,
}

/// The results of all rules.
#[derive(Debug, Default)]
pub(super) struct Rules {
    known: BTreeMap<KindRef, Known>,
}

/// The limit of remembered rules: kinds come and go.
const REMEMBERED: usize = 1024;

impl Rules {
    /// The kinds whose rules are off, with the reason.
    pub fn off(&self) -> BTreeMap<KindRef, String> {
        let off = self.known.iter().filter(|(_, known)| !known.on);
        off.map(|(kind, known)| (*kind, known.why.clone())).collect()
    }

    /// Records whether a rule was better; it is tested again after `wait`, then after twice as long, and so on.
    pub fn found(&mut self, kind: KindRef, on: bool, why: String, n: usize, now: u64, wait: u64) {
        let times = self.known.get(&kind).filter(|known| known.on == on).map_or(0, |known| known.times);
        if self.known.len() >= REMEMBERED && !self.known.contains_key(&kind) {
            self.known.retain(|_, known| known.until > now);
        }
        let until = now.saturating_add(wait.saturating_mul(1 << times.min(3)));
        self.known.insert(kind, Known { on, why, n: n as u32, until, times: times + 1 });
    }

    /// Called for another plan: rules that were on are tested again; rules that were off stay off until their time
    /// has come.
    pub fn of_another_plan(&mut self) {
        self.known.retain(|_, known| !known.on);
    }

    /// Forgets all results, which were found on another machine.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// The rule to be tested next: `suspects` first, then in the order of `kinds`.
    pub fn next(
        &self,
        plan: &Plan,
        kinds: &[KindRef],
        suspects: &BTreeSet<KindRef>,
        now: u64,
    ) -> Option<KindRef> {
        let off: BTreeSet<KindRef> = self.off().into_keys().collect();
        let all: BTreeSet<KindRef> = placed(plan).collect();
        let due = |kind: &&KindRef| {
            let mut others = off.clone();
            others.insert(**kind);
            all.contains(*kind)
                && self.known.get(*kind).is_none_or(|known| known.until <= now)
                && stands_without(plan, &others)
        };
        let (first, then): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| suspects.contains(*kind));
        first.into_iter().chain(then).find(due).copied()
    }

    /// For views.
    pub fn report(&self, now: u64, second: u64) -> Vec<state::Rule> {
        let rule = |(kind, known): (&KindRef, &Known)| state::Rule {
            kind: *kind,
            on: known.on,
            reason: known.why.clone(),
            n: known.n,
            retry_seconds: known.until.saturating_sub(now) as f64 / second as f64,
        };
        self.known.iter().map(rule).collect()
    }
}

/// A rule during its test.
#[derive(Debug)]
pub(super) struct Look {
    pub kind: KindRef,
    /// The running pair; `on`: with the rule.
    pub running: Option<Running>,
    first: Option<Epoch>,
    series: Series,
    unusable: usize,
}

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub on: bool,
    pub why: String,
    pub n: usize,
}

impl Look {
    /// A test of this kind; the seed decides the order of the epochs.
    pub fn at(kind: KindRef, seed: u64) -> Look {
        Look { kind, running: None, first: None, series: Series::new(seed, false), unusable: 0 }
    }

    /// Whether the next pair begins with the rule.
    pub fn with_first(&self) -> bool {
        self.series.on_first()
    }

    /// Continues; the next epoch runs for `length` after `settle`. Returns the result at the end.
    pub fn step(&mut self, now: u64, counts: &Counts, settle: u64, length: u64) -> Option<Found> {
        let running = self.running.as_mut()?;
        let epoch = running.step(now, counts)?;
        let with = running.on;
        let Some(first) = self.first.take() else {
            self.running = Some(Running::new(!with, now, settle, length));
            self.first = Some(epoch);
            return None;
        };
        self.running = None;
        let (on, off) = if with { (&epoch, &first) } else { (&first, &epoch) };
        let comparison = compare(on, off);
        self.unusable += usize::from(comparison.is_none());
        self.series.push(comparison);
        let n = self.series.len();
        match self.series.verdict_on(self.kind) {
            Verdict::Better(why) => Some(Found { on: true, why, n }),
            Verdict::Worse(why) => {
                Some(Found { on: false, why: format!("worse with it than without: {why}"), n })
            }
            Verdict::Same(why) => {
                Some(Found { on: false, why: format!("the same with it as without: {why}"), n })
            }
            Verdict::Open if self.unusable >= UNUSABLE => {
                let why = "too few requests to judge it alone: it is judged with the plan".into();
                Some(Found { on: true, why, n })
            }
            Verdict::Open if n >= PAIRS => {
                let why = format!("not better with it than without: {}", self.series.cost_in_words());
                Some(Found { on: false, why, n })
            }
            Verdict::Open => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{kind, placed as plan};
    use super::*;

    #[test]
    fn suspects_come_first_and_each_once_until_its_time_has_come() {
        let three = plan(&[0, 0, 1]);
        let kinds = [kind(3), kind(1), kind(2), kind(9)];
        let mut rules = Rules::default();
        let next = |rules: &Rules, now| rules.next(&three, &kinds, &[kind(2)].into(), now);
        // Kind 3 is the only one of its queue, kind 9 is not placed.
        assert_eq!(next(&rules, 0), Some(kind(2)));
        rules.found(kind(2), true, "better".into(), 5, 0, 100);
        assert_eq!(next(&rules, 0), Some(kind(1)));
        // Kinds 1 and 2 must not both be off, because then no kind would be separated from kind 3.
        rules.found(kind(1), false, "not better".into(), 12, 0, 1000);
        assert_eq!(next(&rules, 150), None);
        assert_eq!(next(&rules, 1000), Some(kind(1)), "what is off is tried again");
        rules.of_another_plan();
        let off: Vec<_> = rules.off().into_keys().collect();
        assert_eq!((off, rules.known.len()), (vec![kind(1)], 1));
    }

    #[test]
    fn what_is_found_again_waits_twice_as_long() {
        let mut rules = Rules::default();
        for until in [100, 200, 400, 800, 800] {
            rules.found(kind(1), false, String::new(), 1, 0, 100);
            assert_eq!(rules.known[&kind(1)].until, until);
        }
        rules.found(kind(1), true, String::new(), 1, 0, 100);
        assert_eq!(rules.known[&kind(1)].until, 100, "it is another thing now");
    }
}
