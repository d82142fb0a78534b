//! The transition matrix: the slowdown of each kind by each predecessor, from ring entries that name the previous
//! kind on the processor.

use super::moments::{difference, ratio};
use crate::model::{Estimate, KindRef, Moments};
use crate::trace::Section;
use std::collections::BTreeMap;

/// The limit of pairs: ids are foreign bytes. Pairs beyond it are only not shown.
const PAIRS: usize = 16_384;
/// The number of values of a pair that never fade; newer values soon outweigh them.
const KEPT: u64 = 32;
/// With fewer values of a pair there is no result.
const FEWEST: u64 = 8;

/// Own cycles of sections by kind and predecessor.
#[derive(Clone, Debug, Default)]
pub struct Transitions {
    pairs: BTreeMap<(KindRef, KindRef), Moments>,
}

impl Transitions {
    /// Adds one section, if its own cycles and its predecessor are known.
    pub fn add(&mut self, section: &Section) {
        let (Some(previous), Some(own)) = (section.previous, section.own) else { return };
        if section.preempted || section.migrated || section.nested {
            return;
        }
        // Keyed by the later kind, so that all predecessors of a kind are adjacent.
        let key = (section.kind, previous);
        if self.pairs.len() >= PAIRS && !self.pairs.contains_key(&key) {
            return;
        }
        self.pairs.entry(key).or_default().push(own.0 as f64);
    }

    /// Halves the weight of the past, because requests change. A few values stay: separated kinds rarely follow
    /// each other, and their cost is the reason for the separation.
    pub fn fade(&mut self) {
        for moments in self.pairs.values_mut() {
            let count = (moments.count / 2).max(moments.count.min(KEPT));
            moments.m2 *= count as f64 / moments.count as f64;
            moments.count = count;
        }
    }

    /// The cycles of a kind that finds its own data: after itself, otherwise after the kind after which it is
    /// fastest.
    fn baseline(&self, kind: KindRef) -> Option<(KindRef, Moments)> {
        if let Some(own) = self.pairs.get(&(kind, kind)).filter(|own| own.count >= FEWEST) {
            return Some((kind, *own));
        }
        self.before(kind)
            .filter(|(_, moments)| moments.count >= FEWEST)
            .min_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))
            .map(|(previous, moments)| (previous, *moments))
    }

    fn before(&self, kind: KindRef) -> impl Iterator<Item = (KindRef, &Moments)> {
        let none = KindRef { app: crate::model::AppId(0), code: crate::model::CodeId(0) };
        self.pairs
            .range((kind, none)..)
            .take_while(move |((later, _), _)| *later == kind)
            .map(|((_, previous), moments)| (*previous, moments))
    }

    /// All pairs with enough values: the cycles that a section of the second takes longer after the first.
    pub fn estimates(&self) -> Vec<(KindRef, KindRef, Estimate)> {
        let mut estimates = Vec::new();
        let mut kinds: Vec<KindRef> = self.pairs.keys().map(|(later, _)| *later).collect();
        kinds.dedup();
        for later in kinds {
            let Some((reference, baseline)) = self.baseline(later) else { continue };
            for (previous, moments) in self.before(later) {
                if previous == reference || moments.count < FEWEST {
                    continue;
                }
                if let Some(extra) = difference(moments, &baseline) {
                    estimates.push((previous, later, extra));
                }
            }
        }
        estimates.sort_by_key(|(previous, later, _)| (*previous, *later));
        estimates
    }

    /// The slowdown of a kind after kinds that replace much of the cache, whatever their class (a section may be
    /// short or sensitive and still do damage), relative to the others. `None` if the ring has too few values.
    pub fn slowdown(&self, kind: KindRef, polluting: &BTreeMap<KindRef, bool>) -> Option<Estimate> {
        let (mut damaged, mut baseline) = (Moments::default(), Moments::default());
        for (previous, moments) in self.before(kind) {
            if previous == kind {
                baseline.add(moments);
                continue;
            }
            match polluting.get(&previous) {
                Some(true) => damaged.add(moments),
                Some(false) => baseline.add(moments),
                None => {}
            }
        }
        if damaged.count < FEWEST || baseline.count < FEWEST {
            return None;
        }
        ratio(&damaged, &baseline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AppId, CodeId, CpuId};
    use hardmeter_samples::model::Cycles;

    fn kind(code: u32) -> KindRef {
        KindRef { app: AppId(1), code: CodeId(code) }
    }

    fn section(previous: u32, code: u32, own: u64) -> Section {
        Section {
            ended_ns: 0,
            cpu: CpuId(0),
            kind: kind(code),
            previous: Some(kind(previous)),
            elapsed: Cycles(own),
            own: Some(Cycles(own)),
            displaced: None,
            preempted: false,
            migrated: false,
            placed: false,
            nested: false,
        }
    }

    fn of(sections: &[(u32, u32, u64)]) -> Transitions {
        let mut transitions = Transitions::default();
        for &(previous, code, own) in sections {
            for i in 0..10 {
                // A spread of one cycle, so that intervals have a width.
                transitions.add(&section(previous, code, own + i % 2));
            }
        }
        transitions
    }

    #[test]
    fn who_makes_whom_slower_by_how_much() {
        let transitions = of(&[(2, 2, 1000), (3, 2, 1500), (2, 3, 9000), (3, 3, 9000)]);
        let estimates = transitions.estimates();
        let (previous, later, extra) = estimates[1];
        assert_eq!((previous, later, extra.n), (kind(3), kind(2), 10));
        assert!((extra.mean - 500.0).abs() < 1e-9 && extra.low > 499.0 && extra.high < 501.0, "{extra:?}");
        let (previous, later, extra) = estimates[0];
        assert_eq!((previous, later), (kind(2), kind(3)));
        assert!(extra.low < 0.0 && extra.high > 0.0, "{extra:?}");
        assert_eq!(estimates.len(), 2);
    }

    #[test]
    fn without_itself_before_it_the_fastest_predecessor_is_the_measure() {
        let transitions = of(&[(3, 2, 1500), (4, 2, 1200)]);
        let estimates = transitions.estimates();
        assert_eq!(estimates.len(), 1);
        assert_eq!((estimates[0].0, estimates[0].1), (kind(3), kind(2)));
        assert!((estimates[0].2.mean - 300.0).abs() < 1e-9);
    }

    #[test]
    fn slower_after_those_that_replace_much() {
        let transitions = of(&[(2, 2, 1000), (3, 2, 1500), (4, 2, 1000), (5, 2, 9999)]);
        let polluting = BTreeMap::from([(kind(3), true), (kind(4), false)]);
        let slower = transitions.slowdown(kind(2), &polluting).unwrap();
        assert!((slower.mean - 0.5).abs() < 1e-3, "{slower:?}");
        assert_eq!(slower.n, 10);
        assert_eq!(transitions.slowdown(kind(2), &BTreeMap::new()), None);
    }

    #[test]
    fn what_was_disturbed_does_not_count() {
        let mut transitions = Transitions::default();
        transitions.add(&Section { preempted: true, ..section(2, 2, 5) });
        transitions.add(&Section { migrated: true, ..section(2, 2, 5) });
        transitions.add(&Section { own: None, ..section(2, 2, 5) });
        transitions.add(&Section { previous: None, ..section(2, 2, 5) });
        assert!(transitions.pairs.is_empty());
    }

    #[test]
    fn foreign_ids_never_fill_the_memory() {
        let mut transitions = Transitions::default();
        for code in 0..100_000 {
            transitions.add(&section(code, code, 5));
        }
        assert_eq!(transitions.pairs.len(), PAIRS);
    }

    /// 10 values stay; 100 become 50, then 32 and no fewer; the mean is unchanged.
    #[test]
    fn the_past_fades_but_not_all_of_it() {
        let mut transitions = of(&[(2, 2, 1000)]);
        for _ in 0..10 {
            for i in 0..10 {
                transitions.add(&section(3, 2, 1500 + i % 2));
            }
        }
        let count = |transitions: &Transitions, previous| transitions.pairs[&(kind(2), kind(previous))].count;
        transitions.fade();
        assert_eq!((count(&transitions, 2), count(&transitions, 3)), (10, 50));
        transitions.fade();
        transitions.fade();
        assert_eq!((count(&transitions, 2), count(&transitions, 3)), (10, 32));
        assert!((transitions.estimates()[0].2.mean - 500.0).abs() < 1e-6);
    }
}
