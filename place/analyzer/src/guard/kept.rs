//! A kept plan: it is watched, checked by an epoch off from time to time, and its rules are tested one after
//! the other.

use super::measure::{compare, has_changed, Counts, Epoch};
use super::plans::placed;
use super::rules::{Found, Look};
use super::running::{Running, ENOUGH};
use super::{Guard, Phase, RULE_WAIT, SECOND};
use crate::model::KindRef;
use std::collections::BTreeSet;

/// After a plan was kept this long, its earlier refused trials no longer count.
const FORGIVEN: u64 = 300 * SECOND;
/// Length of the epochs in which a kept plan is watched, and of its check's epoch off. With time slices they are as
/// long as those of the trial, if those were longer.
const LENGTH: u64 = SECOND;
/// Number of epochs between checks of a kept plan: it is off for 1 s of 30 s.
const CHECK: u64 = 30;
/// The number of checks that are judged together.
const CHECKS: usize = 6;
/// A change of cost or work requests a check if the last one was at least this many epochs ago.
const CHECK_SPACING: u64 = 5;
/// The length of epochs with and without a rule; and the time with all rules in their known state between two
/// pairs: while a good rule is tested, its gain is lost for one eighth of the time.
const RULE_LENGTH: u64 = SECOND / 2;
const RULE_SPACING: u64 = 3 * SECOND;

#[derive(Debug)]
pub(super) struct Kept {
    pub since: u64,
    checked: u64,
    /// Length of an epoch.
    length: u64,
    /// The epoch when it was kept, or checked last.
    reference: Option<Epoch>,
    watching: Running,
    /// The check's off epoch, and the epoch on before it.
    checking: Option<(Running, Epoch)>,
    /// The rule under test, and the time at which the next pair may begin.
    look: Option<Look>,
    look_from: u64,
}

impl Kept {
    /// A plan that is kept from `now` on, after a trial whose epochs lasted for `length`.
    pub fn new(now: u64, reference: Epoch, settle: u64, length: u64, hurry: u64) -> Kept {
        let length = length.max(LENGTH / hurry);
        Kept {
            since: now,
            checked: now,
            length,
            reference: Some(reference),
            watching: Running::new(true, now, settle, length),
            checking: None,
            look: None,
            look_from: now + RULE_SPACING / hurry,
        }
    }

    /// Off for a check.
    pub fn is_off(&self) -> bool {
        self.checking.is_some()
    }

    /// The rule whose pair is running, and whether it is on in this epoch.
    pub fn looked_at(&self) -> Option<(KindRef, bool)> {
        let look = self.look.as_ref()?;
        look.running.as_ref().map(|running| (look.kind, running.on))
    }

    fn looking(&self) -> Option<&Running> {
        self.look.as_ref()?.running.as_ref()
    }

    pub fn due(&self) -> u64 {
        let checking = self.checking.as_ref().map(|(running, _)| running);
        checking.or(self.looking()).unwrap_or(&self.watching).due()
    }
}

impl Guard {
    pub(super) fn step_kept(&mut self, mut kept: Box<Kept>, now: u64, counts: &Counts) {
        if let Some((mut running, before)) = kept.checking.take() {
            let Some(off) = running.step(now, counts) else {
                kept.checking = Some((running, before));
                self.phase = Phase::Kept(kept);
                return;
            };
            self.epochs[0] += 1;
            self.epochs[1] += 1;
            return self.checked(kept, now, &before, &off);
        }
        if kept.looking().is_some() {
            self.step_look(&mut kept, now, counts);
        } else if let Some(epoch) = kept.watching.step(now, counts) {
            let changed = kept.reference.as_ref().is_some_and(|reference| has_changed(&epoch, reference));
            let since = now.saturating_sub(kept.checked);
            let enough = epoch.sections() >= ENOUGH;
            let due = since >= CHECK * kept.length || (changed && since >= CHECK_SPACING * kept.length);
            if enough && due {
                let off = Running::new(false, now, self.settle(), kept.length);
                kept.checking = Some((off, epoch));
            } else if enough && now >= kept.look_from {
                self.begin_pair(&mut kept, now);
            }
            kept.watching = Running::new(true, now, 0, kept.length);
        }
        self.phase = Phase::Kept(kept);
    }

    /// Evaluates the two epochs of a check.
    fn checked(&mut self, mut kept: Box<Kept>, now: u64, on: &Epoch, off: &Epoch) {
        let comparison = compare(on, off);
        let bad = comparison.as_ref().is_some_and(|one| one.looks_worse(self.series.worth()));
        if comparison.is_some() {
            self.series.push(comparison);
            self.series.keep_latest(CHECKS);
        }
        if bad || self.series.leans_worse().is_some() {
            self.news.push("a check shows that placement no longer helps: new trial".into());
            return self.begin_trial(now);
        }
        if now.saturating_sub(kept.since) >= self.brisk(FORGIVEN) {
            self.refusals = 0;
        }
        kept.checked = now;
        kept.reference = Some(on.clone());
        self.watch_anew(&mut kept, now);
        self.phase = Phase::Kept(kept);
    }

    fn watch_anew(&self, kept: &mut Kept, now: u64) {
        kept.watching = Running::new(true, now, self.settle(), kept.length);
    }

    /// Begins the next pair of the rule under test, or of the next rule.
    fn begin_pair(&mut self, kept: &mut Kept, now: u64) {
        if kept.look.is_none() {
            // Slices are relative to each other: a single slice is not a rule.
            let alone = |kind: &KindRef| {
                self.whole.placements.iter().any(|one| one.kind == *kind && one.slice_us == 0)
            };
            let kinds: Vec<KindRef> = self.series.kinds().filter(alone).collect();
            let suspects: BTreeSet<KindRef> =
                placed(&self.in_force).filter(|&kind| self.series.kind_looks_worse(kind).is_some()).collect();
            let seed = self.coin.bits();
            let next = self.rules.next(&self.whole, &kinds, &suspects, now);
            kept.look = next.map(|kind| Look::at(kind, seed));
        }
        if let Some(look) = &mut kept.look {
            let with_first = look.with_first();
            look.running = Some(Running::new(with_first, now, self.settle(), self.brisk(RULE_LENGTH)));
        }
    }

    fn step_look(&mut self, kept: &mut Kept, now: u64, counts: &Counts) {
        let Some(look) = &mut kept.look else { return };
        let found = look.step(now, counts, self.settle(), self.brisk(RULE_LENGTH));
        if look.running.is_some() {
            return;
        }
        // The pair is complete: for a while all rules are in their known state.
        kept.look_from = now + self.brisk(RULE_SPACING);
        let kind = look.kind;
        if let Some(Found { on, why, n }) = found {
            kept.look = None;
            let was_on = !self.rules.off().contains_key(&kind);
            if on != was_on {
                // The plan has changed: its cost is measured again.
                kept.reference = None;
            }
            if on {
                if !was_on {
                    self.news.push(format!("rule of {kind} on again: {why}"));
                }
                self.rules.found(kind, true, why, n, now, self.brisk(RULE_WAIT));
            } else {
                self.switch_off(now, kind, why, n);
            }
        }
        self.watch_anew(kept, now);
    }
}
