//! A trial from its first block to its last.
//!
//! ```text
//!   leftovers undone ── locks, rights, values before ── watchdog ready ── Begin in the ledger
//!        │
//!        v            `first_blocks` x A             rounds of A and B, random order
//!      Ready ────────────> First ── mix, spread ──────────> Rounds ── verdict, hopeless, or all rounds ──> Measured
//!                            │                                │                                              │
//!                            └──── error, Ctrl-C ─────────────┴──> undo ──> closed <── undo, or keep ────────┘
//! ```
//!
//! Invariants:
//! 1. The watchdog runs before the entry is in the ledger, and the entry is in the ledger before the first
//!    statement changes something.
//! 2. The watchdog is released ("done") only when the ledger has the entry as closed.
//! 3. Every exit from the rounds undoes the change, except with a proven gain that must be kept.
//! 4. The control session is opened without the caller's `Stop`: undoing cannot be cancelled.

use super::control::{Control, Lock};
use super::course::{Course, Server};
use super::ending::{patiently, Changed};
use super::guard::Guards;
use super::ledger::{now, Begin, Ledger};
use super::load::Running;
use super::measure::{is_own, Measure, Ran, Source};
use super::outcome::{Closing, Undone};
use super::pause::pause;
use super::switch::{in_turn, plan_on, Switch, Wanted};
use super::undo::{restore, system_identifier, undo_all};
use super::watchdog::Watchdog;
use super::{TrialResult, TryError};
use hardmeter_session::{SessionError, Stop, Target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// Called at each step with a description and the completed share, 0 to 1.
pub type TryProgress<'a> = &'a dyn Fn(&str, f64);

/// The length of blocks, and their largest number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// The length of a block, in seconds.
    pub block: f64,
    /// The time at its beginning that is not counted.
    pub settle: f64,
    /// Blocks of the first part.
    pub first_blocks: u32,
    /// Rounds after which the trial ends without a verdict.
    pub most_rounds: u32,
    /// The smallest gain that matters: 0.02 is 2 %.
    pub minimum: f64,
    /// The longest build of an index that a switch may wait for, in seconds.
    pub longest_build: f64,
}

/// The change to try, and how.
#[derive(Clone, Debug)]
pub struct Order {
    /// The changes.
    pub wanted: Vec<Wanted>,
    /// The remedy's name, or the setting.
    pub remedy: String,
    /// The rule's finding.
    pub finding: Option<String>,
    /// The figures that the rule relied on.
    pub evidence: Value,
    /// The share that is predicted to be saved of what decides.
    pub predicted: Option<f64>,
    /// The metric that decides.
    pub measure: Measure,
    /// The length of blocks, and their largest number.
    pub pace: Pace,
    /// True if a proven gain is kept.
    pub keep: bool,
    /// Conditions that end it even if it gains.
    pub guards: Guards,
    /// The run of `--auto` to which it belongs.
    pub run: Option<String>,
    /// The seed of the order of the blocks.
    pub seed: u64,
}

/// A completed trial.
#[derive(Clone, Debug)]
pub struct Conducted {
    /// Its number in the ledger.
    pub entry: u64,
    /// Its measurements.
    pub result: TrialResult,
    /// How the change ended.
    pub closed: Closing,
    /// A note on how it ended, if necessary.
    pub note: String,
    /// Entries of earlier trials that were undone before it began.
    pub leftovers: Vec<u64>,
}

/// Conducts a trial. `watchdog` creates the command that watches the trial with this token: [`super::watch`]
/// in a separate process.
///
/// # Errors
/// If it cannot begin, or ended early; then the error reports whether the change was undone.
pub fn conduct(
    order: &Order,
    target: &Target,
    ledger: &Ledger,
    watchdog: &dyn Fn(&str) -> Command,
    load: &Running,
    stop: &Stop,
    progress: TryProgress,
) -> Result<Conducted, TryError> {
    let undone = undo_all(target, ledger)?;
    let leftovers = undone.iter().map(|(entry, _)| entry.begin.entry).collect();
    let mut control = Control::open(target, &Stop::new())?;
    control.lock_within(Lock::Trial, Duration::from_secs(2))?;
    let switches = plan_on(&mut control, &order.wanted, load.is_per_block())?;
    let builder = match switches.iter().any(Switch::is_index) {
        true => {
            let mut builder = Control::open(target, stop)?;
            builder.lock_within(Lock::Build, Duration::from_secs(2))?;
            Some(builder)
        }
        false => None,
    };
    let source = Source::find(&mut control)?;
    let token = order.token();
    let watching = Watchdog::start(watchdog(&token))?;
    let backends = std::iter::once(control.backend()).chain(builder.as_ref().map(Control::backend));
    let entry = ledger.begin(Begin {
        server: system_identifier(&mut control)?,
        target: target.description().to_owned(),
        database: target.database().to_owned(),
        switches: switches.clone(),
        backends: backends.collect(),
        postmaster: source.postmaster(),
        ..order.begin(token)
    })?;
    let is_per_block = load.is_per_block();
    let course = Course { order, ledger, entry, is_per_block, is_own, stop, progress, watching, leftovers };
    course.run(&mut Conductor { order, control, builder, source, switches, load, stop, failures: 0 })
}

impl Order {
    /// A token for a trial of this process.
    pub(super) fn token(&self) -> String {
        format!("{}-{}", std::process::id(), self.seed)
    }

    /// The beginning of its entry, without the server and the switches.
    pub(super) fn begin(&self, token: String) -> Begin {
        Begin {
            token,
            at: now(),
            remedy: self.remedy.clone(),
            finding: self.finding.clone(),
            evidence: self.evidence.clone(),
            predicted: self.predicted,
            measure: Some(self.measure),
            run: self.run.clone(),
            ..Begin::default()
        }
    }
}

struct Conductor<'a> {
    order: &'a Order,
    control: Control,
    /// Builds indexes: the caller's `Stop` cancels it.
    builder: Option<Control>,
    source: Source,
    switches: Vec<Switch>,
    load: &'a Running,
    stop: &'a Stop,
    /// Failures of the load that runs throughout, until the last block.
    failures: u64,
}

impl Server for Conductor<'_> {
    fn block(&mut self, on: bool) -> Result<Ran, TryError> {
        if self.source.postmaster().is_some() {
            self.order.guards.memory()?;
        }
        self.order.guards.lag(&mut self.control)?;
        self.switch(on)?;
        if self.load.is_per_block() {
            return self.source.run(&mut self.control, self.load, self.stop);
        }
        self.sleep(self.order.pace.settle)?;
        let before = self.source.read(&mut self.control)?;
        self.sleep(self.order.pace.block - self.order.pace.settle)?;
        let block = self.source.read(&mut self.control)?.since(&before);
        let failures = self.load.failures();
        let failed = failures > std::mem::replace(&mut self.failures, failures);
        Ok((block, failed.then(|| self.load.failure())))
    }

    fn measures(&self) -> Vec<Measure> {
        self.source.measures()
    }

    fn texts(&mut self, ids: &[String]) -> Result<BTreeMap<String, String>, TryError> {
        self.source.texts(&mut self.control, ids)
    }
}

impl Conductor<'_> {
    fn switch(&mut self, on: bool) -> Result<(), TryError> {
        for switch in in_turn(&self.switches, on) {
            let session = match (&mut self.builder, switch.is_index()) {
                (Some(builder), true) => builder,
                _ => &mut self.control,
            };
            let took = switch.to(on, session).map_err(interrupted)?.as_secs_f64();
            if took > self.order.pace.longest_build {
                return Err(TryError::SlowBuild { seconds: took, limit: self.order.pace.longest_build });
            }
        }
        Ok(())
    }

    fn sleep(&self, seconds: f64) -> Result<(), TryError> {
        pause(seconds, self.stop, self.source.postmaster().is_some().then_some(&self.order.guards))
    }
}

impl Changed for Conductor<'_> {
    fn keep(&mut self) -> Option<String> {
        self.switch(true).ok().map(|()| "it gained".to_owned())
    }

    fn undo(&mut self) -> Result<Undone, TryError> {
        if self.builder.take().is_some() {
            self.control.lock_within(Lock::Build, Duration::from_secs(10))?;
        }
        patiently(|| restore(&mut self.control, &self.switches))
    }
}

/// A build that the caller has cancelled.
fn interrupted(error: TryError) -> TryError {
    match error {
        TryError::Session(SessionError::Interrupted { .. }) => TryError::Interrupted,
        error => error,
    }
}
