//! The guard: does placement help? It is put on and off in epochs, the two are compared, and what is not significantly better is off.
//!
//! ```text
//!              a plan that stands still             significantly better
//!   idle ────────────────────────────> trial ──────────────────────────> kept ─┐ a pair of epochs now and then;
//!    ^                                 ^  │ worse, or no difference        │    │ at once if cost or load changed
//!    │ nothing to place                │  v                                │ <──┘
//!    └───────────────────────────── refused <──────────────────────────────┘ looks worse: trial again
//!                                  waits 60 s, 120 s, 240 s ... an hour
//! ```
//!
//! A trial is pairs of an epoch on and an epoch off, in an order that a coin decides. What it may lose is bounded: the first pairs last
//! a quarter of a second, a bad first impression ends it, and so does a loss of [`LOSS_SECONDS`] as far as the pairs can tell. With
//! the worst that was measured for the paper's placement (35 % less work), a trial costs at most 0.3 s of work; the next one comes
//! a minute later, then two: together below the 1 % that a mix may lose.
//!
//! Pure: time and statistics come from whoever drives it.

mod measure;
mod plans;
mod running;
mod series;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

pub use measure::Counts;

use crate::model::Plan;
use crate::state;
use measure::{compare, has_changed, Comparison, Epoch};
use plans::{has_effect, same};
use running::{Running, ENOUGH};
use series::{Series, Verdict};

const SECOND: u64 = 1_000_000_000;
/// Epochs of a trial: the n-th pair's, the last for all that follow. Many short pairs tell more than few long ones: a machine's other
/// load wanders within seconds.
const LENGTHS: [u64; 3] = [SECOND / 4, SECOND / 2, SECOND];
/// After a switch: threads come to where they shall be, and caches fill.
const SETTLE: u64 = SECOND / 10;
/// No difference in so many pairs is none.
const PAIRS: usize = 20;
/// Pairs that could not be compared.
const UNUSABLE: u32 = 3;
/// A trial that lost so much work, as far as its pairs can tell, ends.
const LOSS_SECONDS: f64 = 0.14;
/// A plan is tried when it was wanted so often in a row, ...
const STEADY: u32 = 2;
/// ... and replaces one that is tried or kept when it was wanted so often.
const CHANGED: u32 = 3;
/// A plan that is kept stands so long at least.
const STANDS: u64 = 20 * SECOND;
/// How long a refused plan waits; twice as long each time.
const WAIT: u64 = 60 * SECOND;
const WAIT_MAX: u64 = 3600 * SECOND;
/// A plan that was kept so long is forgiven its earlier trials.
const FORGIVEN: u64 = 300 * SECOND;
/// A kept plan is checked so often: 1 s of 30 s off.
const CHECK: u64 = 30 * SECOND;
const CHECK_LENGTH: u64 = SECOND;
/// Checks that count together.
const CHECKS: usize = 6;
/// A kept plan is looked at so often; cost or work that changed asks for a check ...
const WATCH: u64 = SECOND;
/// ... if the last one was so long ago.
const CHECK_SPACING: u64 = 5 * SECOND;

/// The guard.
#[derive(Debug)]
pub struct Guard {
    active: bool,
    coin: Coin,
    phase: Phase,
    /// In force, or tried, or refused last.
    plan: Plan,
    offered: Offered,
    series: Series,
    epochs: [u32; 2],
    refusals: u32,
    reason: String,
    news: Vec<String>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing to place.
    Idle,
    Trial(Trial),
    Kept(Kept),
    Refused {
        until: u64,
    },
}

#[derive(Debug)]
struct Trial {
    running: Running,
    /// The pair's first epoch.
    first: Option<Epoch>,
    unusable: u32,
    /// How long placement was on so far.
    on_ns: u64,
}

#[derive(Debug)]
struct Kept {
    since: u64,
    checked: u64,
    /// How it was when it was kept, or checked last.
    reference: Option<Epoch>,
    watching: Running,
    /// The check's off epoch, and the epoch on before it.
    checking: Option<(Running, Epoch)>,
}

/// What the policy wants, and how often in a row it did.
#[derive(Debug, Default)]
struct Offered {
    plan: Plan,
    times: u32,
}

impl Guard {
    /// One that never saw a plan. Not `active`: every plan is in force as soon as it is wanted.
    pub fn new(seed: u64, active: bool) -> Guard {
        Guard {
            active,
            coin: Coin(seed),
            phase: Phase::Idle,
            plan: Plan::default(),
            offered: Offered::default(),
            series: Series::default(),
            epochs: [0, 0],
            refusals: 0,
            reason: "no plan yet".into(),
            news: Vec::new(),
        }
    }

    /// The plan whose decisions are to be written; in force while [`Guard::placement_on`].
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a plan is tried or kept.
    pub fn is_at_work(&self) -> bool {
        matches!(self.phase, Phase::Trial(_) | Phase::Kept(_))
    }

    /// Whether kinds are placed now.
    pub fn placement_on(&self) -> bool {
        if !self.active {
            return has_effect(&self.plan);
        }
        match &self.phase {
            Phase::Idle | Phase::Refused { .. } => false,
            Phase::Trial(trial) => trial.running.on,
            Phase::Kept(kept) => kept.checking.is_none(),
        }
    }

    /// What happened since the last call, in words.
    pub fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// When [`Guard::step`] is to be called.
    pub fn due_ns(&self) -> u64 {
        match &self.phase {
            Phase::Idle | Phase::Refused { .. } => u64::MAX,
            Phase::Trial(trial) => trial.running.due(),
            Phase::Kept(kept) => {
                kept.checking.as_ref().map_or(kept.watching.due(), |(running, _)| running.due())
            }
        }
    }

    /// The policy's latest wish.
    pub fn offer(&mut self, now: u64, plan: &Plan) {
        if !self.active {
            self.plan = plan.clone();
            return;
        }
        if same(&self.offered.plan, plan) {
            self.offered.times = self.offered.times.saturating_add(1);
        } else {
            self.offered.times = 1;
        }
        self.offered.plan = plan.clone();
        let (effect, times) = (has_effect(plan), self.offered.times);
        match &self.phase {
            Phase::Idle if effect && times >= STEADY => self.try_plan(now, "a plan"),
            Phase::Refused { until } if effect && times >= STEADY && now >= *until => {
                self.try_plan(now, "again")
            }
            Phase::Idle => self.plan = plan.clone(),
            Phase::Refused { .. } => {}
            Phase::Trial(_) | Phase::Kept(_) if !effect && times >= CHANGED => {
                self.rest("the policy wants nothing placed any more");
            }
            // What is tried is judged as it began: a policy that cannot make up its mind would be in trial for ever.
            Phase::Trial(_) => {}
            Phase::Kept(_) if !effect || same(&self.plan, plan) => {}
            Phase::Kept(kept) if now.saturating_sub(kept.since) >= STANDS && times >= CHANGED => {
                self.try_plan(now, "another plan");
            }
            Phase::Kept(_) => {}
        }
    }

    /// Its time has come: statistics as they are now.
    pub fn step(&mut self, now: u64, counts: &Counts) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Trial(trial) => self.step_trial(trial, now, counts),
            Phase::Kept(kept) => self.step_kept(kept, now, counts),
            other => self.phase = other,
        }
    }

    /// What was found before holds no more: another machine.
    pub fn start_over(&mut self, why: &str) {
        self.refusals = 0;
        self.rest(why);
    }

    /// For views.
    pub fn report(&self, now: u64) -> state::Guard {
        let (phase, retry) = match &self.phase {
            Phase::Idle => ("idle", None),
            Phase::Trial(_) => ("trial", None),
            Phase::Kept(_) => ("kept", None),
            Phase::Refused { until } => ("refused", Some(until.saturating_sub(now) as f64 / SECOND as f64)),
        };
        state::Guard {
            active: self.active,
            phase: phase.into(),
            reason: self.reason.clone(),
            retry_seconds: retry,
            epochs_on: self.epochs[1],
            epochs_off: self.epochs[0],
            effects: self.series.effects(),
        }
    }

    fn rest(&mut self, why: &str) {
        if !matches!(self.phase, Phase::Idle) {
            self.news.push(format!("placement off: {why}"));
        }
        self.phase = Phase::Idle;
        self.reason = why.into();
        self.series = Series::default();
    }

    fn try_plan(&mut self, now: u64, what: &str) {
        self.plan = self.offered.plan.clone();
        let placed = self.plan.placements.iter().filter(|placement| !placement.cpus.0.is_empty()).count();
        self.news.push(format!("trial of {what}: {placed} kinds placed, policy {}", self.plan.policy));
        self.begin_trial(now);
    }

    fn begin_trial(&mut self, now: u64) {
        self.series = Series::default();
        self.reason = "in trial".into();
        let running = Running::new(false, now, SETTLE, LENGTHS[0]);
        self.phase = Phase::Trial(Trial { running, first: None, unusable: 0, on_ns: 0 });
    }

    fn step_trial(&mut self, mut trial: Trial, now: u64, counts: &Counts) {
        let Some(epoch) = trial.running.step(now, counts) else {
            self.phase = Phase::Trial(trial);
            return;
        };
        let on = trial.running.on;
        self.epochs[usize::from(on)] += 1;
        if on {
            trial.on_ns += now.saturating_sub(trial.running.settled.saturating_sub(SETTLE));
        }
        let Some(first) = trial.first.take() else {
            let length = trial.running.length;
            trial.running = Running::new(!on, now, SETTLE, length);
            trial.first = Some(epoch);
            self.phase = Phase::Trial(trial);
            return;
        };
        let (epoch_on, epoch_off) = if on { (&epoch, &first) } else { (&first, &epoch) };
        match compare(epoch_on, epoch_off) {
            Some(comparison) => self.series.push(comparison),
            None => trial.unusable += 1,
        }
        match self.series.verdict() {
            Verdict::Worse(why) => return self.refuse(now, &format!("worse: {why}")),
            Verdict::Better(why) => return self.keep(now, &why, epoch_on.clone()),
            Verdict::Open => {}
        }
        if trial.unusable >= UNUSABLE {
            return self
                .refuse(now, "too few requests of the same kinds, on and off, to tell whether it helps");
        }
        if self.series.loss() * trial.on_ns as f64 > LOSS_SECONDS * SECOND as f64 && self.series.looks_bad() {
            return self.refuse(now, "it looks worse, and to be sure of that would cost too much");
        }
        if self.series.len() >= PAIRS {
            return self.refuse(now, &format!("no significant difference in {PAIRS} pairs of epochs"));
        }
        let pair = self.series.len() + trial.unusable as usize;
        let length = LENGTHS[pair.min(LENGTHS.len() - 1)];
        trial.running = Running::new(self.coin.toss(), now, SETTLE, length);
        self.phase = Phase::Trial(trial);
    }

    fn refuse(&mut self, now: u64, why: &str) {
        let wait = WAIT.saturating_mul(1 << self.refusals.min(10)).min(WAIT_MAX);
        self.refusals += 1;
        self.reason = why.into();
        self.news.push(format!("placement off: {why}; next trial in {} s", wait / SECOND));
        self.phase = Phase::Refused { until: now + wait };
    }

    fn keep(&mut self, now: u64, why: &str, reference: Epoch) {
        self.reason = why.into();
        self.news.push(format!("placement kept: {why}"));
        self.phase = Phase::Kept(Kept {
            since: now,
            checked: now,
            reference: Some(reference),
            watching: Running::new(true, now, SETTLE, WATCH),
            checking: None,
        });
    }

    fn step_kept(&mut self, mut kept: Kept, now: u64, counts: &Counts) {
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
        if let Some(epoch) = kept.watching.step(now, counts) {
            let changed = kept.reference.as_ref().is_some_and(|reference| has_changed(&epoch, reference));
            let since = now.saturating_sub(kept.checked);
            let enough = epoch.sections() >= ENOUGH;
            if enough && (since >= CHECK || (changed && since >= CHECK_SPACING)) {
                kept.checking = Some((Running::new(false, now, SETTLE, CHECK_LENGTH), epoch));
            }
            kept.watching = Running::new(true, now, 0, WATCH);
        }
        self.phase = Phase::Kept(kept);
    }

    /// A check's two epochs are there.
    fn checked(&mut self, mut kept: Kept, now: u64, on: &Epoch, off: &Epoch) {
        let comparison = compare(on, off);
        let bad = comparison.as_ref().is_some_and(Comparison::looks_worse);
        if let Some(comparison) = comparison {
            self.series.push(comparison);
            self.series.keep_latest(CHECKS);
        }
        if bad || matches!(self.series.verdict(), Verdict::Worse(_)) {
            self.news.push("a check says that placement does not help any more: trial again".into());
            return self.begin_trial(now);
        }
        if now.saturating_sub(kept.since) >= FORGIVEN {
            self.refusals = 0;
        }
        kept.checked = now;
        kept.reference = Some(on.clone());
        kept.watching = Running::new(true, now, SETTLE, WATCH);
        self.phase = Phase::Kept(kept);
    }
}

/// A coin whose tosses a seed decides: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Debug)]
struct Coin(u64);

impl Coin {
    fn toss(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) & 1 == 1
    }
}
