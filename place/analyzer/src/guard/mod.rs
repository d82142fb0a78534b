//! The guard: tests whether placement helps. It switches placement on and off in epochs, compares the two,
//! and leaves off what is not significantly better: a whole plan, and, while one is kept, each of its rules.
//!
//! ```text
//!              a plan that stays the same             significantly better
//!   idle ────────────────────────────> trial ──────────────────────────> kept ─┐ a pair of epochs now and then,
//!    ^                                 ^  │ worse, or no difference        │    │ at once if cost or load changed;
//!    │ nothing to place                │  v                                │ <──┘ rules, one after the other (rules.rs)
//!    └───────────────────────────── refused <──────────────────────────────┘ looks worse: trial again
//!          worse: waits 120 s, 240 s ... an hour; no difference: half of that
//! ```
//!
//! A trial consists of pairs of an epoch on and an epoch off, in random order. Its loss is bounded: the first
//! pairs last a quarter of a second, two comparisons in a row that look worse end it, and so does an
//! estimated loss of [`LOSS_SECONDS`]. With the worst result measured for the paper's placement (35 % less
//! work), a trial costs at most 0.3 s of work; the next one begins two minutes later and is on for only a
//! third of its time, the one after that four minutes later: together well below the 1 % that a mix may lose.
//! If the plan is refused and single kinds were worse, their rules are switched off, and the next trial tests
//! the rest.
//!
//! Pure: time and statistics come from the caller.

mod kept;
mod measure;
mod plans;
mod rules;
#[cfg(test)]
mod rules_tests;
mod running;
mod series;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

pub use measure::{Counts, Waited, Waiter};

use crate::model::{KindRef, Plan};
use crate::state;
use hardmeter_evidence::Coin;
use kept::Kept;
use measure::{compare, Epoch};
use plans::{has_effect, orders_time, placed, same, stands_without, without};
use rules::Rules;
use running::Running;
use series::{Series, Verdict};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// Lengths of a trial's epochs: the n-th pair's, the last for all that follow. Many short pairs give more
/// evidence than few long ones, because a machine's other load changes within seconds.
const LENGTHS: [u64; 3] = [SECOND / 4, SECOND / 4, SECOND / 2];
/// Time after a switch that is not counted: threads move to their processors, and caches fill.
const SETTLE: u64 = SECOND / 10;
/// With time slices, long requests are compared: an epoch must contain some of them, and those in progress at
/// the switch must end.
const LENGTHS_OF_SLICES: [u64; 3] = [SECOND, SECOND, 2 * SECOND];
const SETTLE_OF_SLICES: u64 = SECOND * 3 / 10;
/// Epochs that are four times as long may lose four times as much.
const LOSS_SECONDS_OF_SLICES: f64 = 4.0 * LOSS_SECONDS;
/// The longest epoch. A trial with time slices doubles its epochs up to this length after each pair with too few
/// requests: ten requests of 300 ms on one processor end within it.
const LONGEST_OF_SLICES: u64 = 4 * SECOND;
/// A trial ends after this number of pairs without a verdict.
const PAIRS: usize = 32;
/// A trial ends after this number of pairs that could not be compared.
const UNUSABLE: u32 = 3;
/// A trial ends after an estimated loss of this much work.
const LOSS_SECONDS: f64 = 0.14;
/// A plan is tried when the policy wanted it this many times in a row, ...
const STEADY: u32 = 2;
/// ... and replaces one that is tried or kept when the policy wanted it this many times.
const CHANGED: u32 = 3;
/// The least time that a kept plan stays in force.
const STANDS: u64 = 20 * SECOND;
/// The waiting time of a plan that made no difference, and of one that was worse; doubled each time.
const WAIT: u64 = 60 * SECOND;
const WAIT_WORSE: u64 = 120 * SECOND;
const WAIT_MAX: u64 = 3600 * SECOND;
/// The waiting time of a rule that is off, and of one that was found good.
const RULE_WAIT: u64 = 600 * SECOND;

/// The guard.
#[derive(Debug)]
pub struct Guard {
    active: bool,
    /// All times are divided by this number: in simulations no other load changes.
    hurry: u64,
    /// The source of random seeds for trials.
    coin: Coin,
    phase: Phase,
    /// The plan that is in force, tried, or was refused last, as the policy wanted it ...
    whole: Plan,
    /// ... and without the rules that are off.
    in_force: Plan,
    rules: Rules,
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
    Kept(Box<Kept>),
    Refused {
        until: u64,
    },
}

#[derive(Debug)]
struct Trial {
    running: Running,
    /// Length of an epoch of this pair.
    length: u64,
    /// The pair's first epoch.
    first: Option<Epoch>,
    unusable: u32,
    /// The number of times that the epochs were doubled.
    doubled: u32,
    /// The time that placement was on so far.
    on_ns: u64,
}

/// The plan that the policy wants, and the number of times in a row that it did.
#[derive(Debug, Default)]
struct Offered {
    plan: Plan,
    times: u32,
}

impl Guard {
    /// A guard without a plan. Not `active`: every plan is in force as soon as the policy wants it.
    pub fn new(seed: u64, active: bool) -> Guard {
        Guard::hurried(seed, active, 1)
    }

    /// A guard whose times are all divided by `hurry`.
    pub fn hurried(seed: u64, active: bool, hurry: u64) -> Guard {
        Guard {
            active,
            hurry: hurry.max(1),
            in_force: Plan::default(),
            rules: Rules::default(),
            coin: Coin::new(seed),
            phase: Phase::Idle,
            whole: Plan::default(),
            offered: Offered::default(),
            series: Series::new(seed, false),
            epochs: [0, 0],
            refusals: 0,
            reason: "no plan yet".into(),
            news: Vec::new(),
        }
    }

    /// The plan whose decisions must be written, without rules that are off; in force while
    /// [`Guard::placement_on`].
    pub fn plan(&self) -> &Plan {
        &self.in_force
    }

    /// True while a plan is tried or kept.
    pub fn is_at_work(&self) -> bool {
        matches!(self.phase, Phase::Trial(_) | Phase::Kept(_))
    }

    /// True if it has not decided yet about the plan that the policy wants now.
    pub fn is_undecided(&self) -> bool {
        match self.phase {
            Phase::Trial(_) => true,
            Phase::Idle => self.active && has_effect(&self.offered.plan),
            Phase::Kept(_) | Phase::Refused { .. } => false,
        }
    }

    /// True if kinds are placed now.
    pub fn placement_on(&self) -> bool {
        if !self.active {
            return has_effect(&self.whole);
        }
        match &self.phase {
            Phase::Idle | Phase::Refused { .. } => false,
            Phase::Trial(trial) => trial.running.on,
            Phase::Kept(kept) => !kept.is_off(),
        }
    }

    /// Changes since the last call, as text.
    pub fn news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }

    /// The time at which [`Guard::step`] must be called.
    pub fn due_ns(&self) -> u64 {
        match &self.phase {
            Phase::Idle | Phase::Refused { .. } => u64::MAX,
            Phase::Trial(trial) => trial.running.due(),
            Phase::Kept(kept) => kept.due(),
        }
    }

    /// Takes the policy's latest plan.
    pub fn offer(&mut self, now: u64, plan: &Plan) {
        if !self.active {
            self.whole = plan.clone();
            self.in_force = plan.clone();
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
            Phase::Idle => self.whole = plan.clone(),
            Phase::Refused { .. } => {}
            Phase::Trial(_) | Phase::Kept(_) if !effect && times >= CHANGED => {
                self.rest("the policy no longer places any kind");
            }
            // A trial continues with the plan that it began with: otherwise a policy that changes its plan
            // often would never complete one.
            Phase::Trial(_) => {}
            Phase::Kept(_) if !effect || same(&self.whole, plan) => {}
            Phase::Kept(kept)
                if now.saturating_sub(kept.since) >= STANDS / self.hurry && times >= CHANGED =>
            {
                self.try_plan(now, "another plan");
            }
            Phase::Kept(_) => {}
        }
        self.take_rules_away();
    }

    /// Continues at its due time, with the present statistics.
    pub fn step(&mut self, now: u64, counts: &Counts) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Trial(trial) => self.step_trial(trial, now, counts),
            Phase::Kept(kept) => self.step_kept(kept, now, counts),
            other => self.phase = other,
        }
        self.take_rules_away();
    }

    /// Updates the plan in force: without the rules that are off; the rule under test may be on or off.
    fn take_rules_away(&mut self) {
        let mut off = self.rules.off();
        if let Phase::Kept(kept) = &self.phase {
            match kept.looked_at() {
                Some((kind, true)) => _ = off.remove(&kind),
                Some((kind, false)) => _ = off.insert(kind, "is it better without?".into()),
                None => {}
            }
        }
        let in_force = without(&self.whole, &off);
        if in_force != self.in_force {
            self.in_force = in_force;
        }
    }

    /// Forgets all results: the machine has changed.
    pub fn start_over(&mut self, why: &str) {
        self.refusals = 0;
        self.rules.forget();
        self.rest(why);
        self.take_rules_away();
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
            rules: self.rules.report(now, SECOND),
        }
    }

    fn new_series(&mut self) -> Series {
        Series::new(self.coin.bits(), orders_time(&self.whole))
    }

    /// The time after a switch that is not counted.
    fn settle(&self) -> u64 {
        self.brisk(if orders_time(&self.whole) { SETTLE_OF_SLICES } else { SETTLE })
    }

    /// Length of an epoch of this pair of a trial, whose epochs were doubled this many times.
    fn length(&self, pair: usize, doubled: u32) -> u64 {
        let lengths = if orders_time(&self.whole) { LENGTHS_OF_SLICES } else { LENGTHS };
        let length = lengths[pair.min(lengths.len() - 1)];
        self.brisk((length << doubled).min(LONGEST_OF_SLICES))
    }

    /// True if longer epochs are possible: in a trial with time slices, until they have the maximum length.
    fn can_double(&self, trial: &Trial) -> bool {
        orders_time(&self.whole) && trial.length < self.brisk(LONGEST_OF_SLICES)
    }

    fn brisk(&self, time: u64) -> u64 {
        time / self.hurry
    }

    fn rest(&mut self, why: &str) {
        if !matches!(self.phase, Phase::Idle) {
            self.news.push(format!("placement off: {why}"));
        }
        self.phase = Phase::Idle;
        self.reason = why.into();
        self.series = self.new_series();
    }

    fn try_plan(&mut self, now: u64, what: &str) {
        if !same(&self.whole, &self.offered.plan) {
            self.rules.of_another_plan();
        }
        self.whole = self.offered.plan.clone();
        self.take_rules_away();
        let (all, left) = (placed(&self.whole).count(), placed(&self.in_force).count());
        let off = if left < all { format!(" but {} whose rules are off", all - left) } else { String::new() };
        self.news.push(format!("trial of {what}: {all} kinds placed{off}, policy {}", self.whole.policy));
        self.begin_trial(now);
    }

    fn begin_trial(&mut self, now: u64) {
        self.series = self.new_series();
        self.reason = "in trial".into();
        let length = self.length(0, 0);
        let running = self.epoch_of_trial(self.series.on_first(), now, length);
        self.phase = Phase::Trial(Trial { running, length, first: None, unusable: 0, doubled: 0, on_ns: 0 });
    }

    /// A plan that was refused before is on for less of the time: its epochs off last twice as long.
    fn epoch_of_trial(&self, on: bool, now: u64, length: u64) -> Running {
        let length = if on || self.refusals == 0 { length } else { 2 * length };
        Running::new(on, now, self.settle(), length)
    }

    fn step_trial(&mut self, mut trial: Trial, now: u64, counts: &Counts) {
        let Some(epoch) = trial.running.step(now, counts) else {
            self.phase = Phase::Trial(trial);
            return;
        };
        let on = trial.running.on;
        self.epochs[usize::from(on)] += 1;
        if on {
            trial.on_ns += now.saturating_sub(trial.running.settled.saturating_sub(self.settle()));
        }
        let Some(first) = trial.first.take() else {
            trial.running = self.epoch_of_trial(!on, now, trial.length);
            trial.first = Some(epoch);
            self.phase = Phase::Trial(trial);
            return;
        };
        let (epoch_on, epoch_off) = if on { (&epoch, &first) } else { (&first, &epoch) };
        let comparison = compare(epoch_on, epoch_off);
        if comparison.is_none() && self.can_double(&trial) {
            trial.doubled += 1;
        } else {
            trial.unusable += u32::from(comparison.is_none());
            self.series.push(comparison);
        }
        match self.series.verdict() {
            Verdict::Worse(why) => return self.refuse(now, &format!("worse: {why}"), WAIT_WORSE),
            Verdict::Better(why) => return self.keep(now, &why, epoch_on.clone(), trial.length),
            Verdict::Same(why) => return self.refuse(now, &format!("same: {why}"), WAIT),
            Verdict::Open => {}
        }
        if let Some(why) = self.series.leans_worse() {
            return self.refuse(now, &format!("undecided, probably worse: {why}"), WAIT_WORSE);
        }
        if trial.unusable >= UNUSABLE {
            let why = "too few requests of the same kinds, on and off, to decide whether it helps";
            return self.refuse(now, why, WAIT);
        }
        if self.has_cost_enough(&trial) {
            let why = format!(
                "undecided, probably worse, and a longer trial would cost too much: {}",
                self.series.loss_in_words()
            );
            return self.refuse(now, &why, WAIT_WORSE);
        }
        if self.series.len() >= PAIRS || self.series.is_hopeless() {
            let why = format!("undecided, no gain in sight: {}", self.series.cost_in_words());
            return self.refuse(now, &why, WAIT);
        }
        let pair = self.series.len() + trial.unusable as usize;
        trial.length = self.length(pair, trial.doubled);
        trial.running = self.epoch_of_trial(self.series.on_first(), now, trial.length);
        self.phase = Phase::Trial(trial);
    }

    /// The loss that ends a trial that looks bad: the full limit in the first trial, half of it in the
    /// second, and so on.
    fn has_cost_enough(&self, trial: &Trial) -> bool {
        let loss = if orders_time(&self.whole) { LOSS_SECONDS_OF_SLICES } else { LOSS_SECONDS };
        let may = loss * self.brisk(SECOND) as f64 / f64::from(1 + self.refusals.min(3));
        self.series.loss() * trial.on_ns as f64 > may && self.series.looks_bad()
    }

    fn refuse(&mut self, now: u64, why: &str, wait: u64) {
        let wait = self.brisk(wait.saturating_mul(1 << self.refusals.min(10)).min(WAIT_MAX));
        self.refusals += 1;
        self.reason = why.into();
        let seconds = wait as f64 / SECOND as f64;
        self.news.push(format!("placement off: {why}; next trial in {seconds} s"));
        self.phase = Phase::Refused { until: now + wait };
        self.blame(now);
    }

    /// Switches off the rules of kinds that were worse, if anything remains: the next trial tests the rest.
    fn blame(&mut self, now: u64) {
        let worse: BTreeMap<KindRef, String> = placed(&self.in_force)
            .filter_map(|kind| Some((kind, self.series.kind_looks_worse(kind)?)))
            .collect();
        if !stands_without(&self.in_force, &worse.keys().copied().collect()) {
            return;
        }
        for (kind, why) in worse {
            self.switch_off(now, kind, format!("worse: {why}"), self.series.len());
        }
    }

    fn switch_off(&mut self, now: u64, kind: KindRef, why: String, n: usize) {
        self.news.push(format!("rule of {kind} off, it runs anywhere: {why}"));
        self.rules.found(kind, false, why, n, now, self.brisk(RULE_WAIT));
    }

    fn keep(&mut self, now: u64, why: &str, reference: Epoch, length: u64) {
        let length = if orders_time(&self.whole) { length } else { 0 };
        self.reason = why.into();
        self.news.push(format!("placement kept: {why}"));
        self.phase = Phase::Kept(Box::new(Kept::new(now, reference, self.settle(), length, self.hurry)));
    }
}
