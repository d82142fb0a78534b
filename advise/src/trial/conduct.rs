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
use super::ending::{end, Changed};
use super::guard::Guards;
use super::ledger::{now, Begin, Ledger};
use super::load::Running;
use super::measure::{is_idle, Block, Measure, Mix, Source};
use super::outcome::{Closing, Undone};
use super::pause::{check, pause};
use super::rounds::Rounds;
use super::switch::{plan_on, Switch, Wanted};
use super::undo::{restore, system_identifier, undo_all};
use super::watchdog::Watchdog;
use super::{TrialResult, TryError};
use hardmeter_session::{SessionError, Stop, Target};
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

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
    /// The share of the active time that is predicted to be saved.
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
    let token = format!("{}-{}", std::process::id(), order.seed);
    let watching = Watchdog::start(watchdog(&token))?;
    let postmaster = source.postmaster();
    let begin = begin((order, target), &token, &mut control, builder.as_ref(), &switches)?;
    let entry = ledger.begin(Begin { postmaster, ..begin })?;
    let begun = Instant::now();
    let mut conductor = Conductor {
        order,
        control,
        builder,
        source,
        switches,
        load,
        stop,
        progress,
        watching: Some(watching),
        done: 0,
    };
    let measured =
        conductor.measure().map(|result| TrialResult { seconds: begun.elapsed().as_secs_f64(), ..result });
    let watching = conductor.watching.take();
    let (closed, note, result) = end(&mut conductor, order.keep, (ledger, entry), measured, watching)?;
    Ok(Conducted { entry, result, closed, note, leftovers })
}

fn begin(
    (order, target): (&Order, &Target),
    token: &str,
    control: &mut Control,
    builder: Option<&Control>,
    switches: &[Switch],
) -> Result<Begin, TryError> {
    let backends = std::iter::once(control.backend()).chain(builder.map(Control::backend));
    Ok(Begin {
        entry: 0,
        token: token.to_owned(),
        at: now(),
        server: system_identifier(control)?,
        target: target.description().to_owned(),
        database: target.database().to_owned(),
        remedy: order.remedy.clone(),
        finding: order.finding.clone(),
        evidence: order.evidence.clone(),
        predicted: order.predicted,
        switches: switches.to_vec(),
        backends: backends.collect(),
        run: order.run.clone(),
        postmaster: None,
    })
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
    progress: TryProgress<'a>,
    watching: Option<Watchdog>,
    /// The number of completed blocks.
    done: u32,
}

impl Conductor<'_> {
    fn measure(&mut self) -> Result<TrialResult, TryError> {
        let mut first = Vec::new();
        for _ in 0..self.order.pace.first_blocks {
            first.push(self.block(false, "first part, nothing changed")?);
            if self.load.failures() > 0 {
                return Err(self.load.failure());
            }
        }
        let mix = self.mix(&first)?;
        let mut rounds = Rounds::new(self.order, &self.source, mix, &first)?;
        while let Some(on) = rounds.next() {
            let what = if on { "with the change" } else { "as found" };
            let failures = self.load.failures();
            let block = self.block(on, what);
            let block = match block {
                Err(TryError::LoadFailed { .. }) => None,
                other => Some(other?),
            };
            let failed = block.is_none() || self.load.failures() > failures;
            rounds.observe(on, block.unwrap_or_default(), failed)?;
            if rounds.failed_as_found() {
                return Err(self.load.failure());
            }
            if rounds.unusable() >= 5 {
                return Err(TryError::NoLoad { seconds: 10.0 * self.order.pace.block });
            }
        }
        let texts = self.source.texts(&mut self.control, &rounds.compared())?;
        let mut result = rounds.result(&texts);
        if self.load.is_per_block() {
            result.remarks.push("one run of the load counts as one transaction".into());
        }
        Ok(result)
    }

    /// Determines the statements of the first part.
    fn mix(&mut self, first: &[Block]) -> Result<Mix, TryError> {
        let mix = Mix::of(first);
        let ids: Vec<String> = mix.0.keys().cloned().collect();
        let texts = self.source.texts(&mut self.control, &ids)?;
        let mix = mix.without_own(&texts);
        if !self.load.is_per_block() && is_idle(first, &mix) {
            return Err(TryError::NoLoad { seconds: first.iter().map(|block| block.seconds).sum() });
        }
        Ok(mix)
    }

    /// Switches, and measures a block. In the first part the switch is made, too, but changes nothing.
    fn block(&mut self, on: bool, what: &str) -> Result<Block, TryError> {
        let most = self.order.pace.first_blocks + 2 * self.order.pace.most_rounds;
        (self.progress)(what, f64::from(self.done) / f64::from(most));
        self.done += 1;
        check(self.stop)?;
        if !self.watching.as_mut().is_some_and(Watchdog::watches) {
            return Err(TryError::Watchdog { reason: "it has ended during the trial".into() });
        }
        if self.source.postmaster().is_some() {
            self.order.guards.memory()?;
        }
        self.order.guards.lag(&mut self.control)?;
        self.switch(on)?;
        if self.load.is_per_block() {
            let before = self.source.read(&mut self.control)?;
            let begin = Instant::now();
            let succeeded = self.load.run_block(self.stop)?.ok_or(TryError::Interrupted)?;
            let seconds = begin.elapsed().as_secs_f64();
            if !succeeded {
                return Err(self.load.failure());
            }
            // Sessions that have just ended report their counters a moment later.
            self.sleep(0.1)?;
            let block = self.source.read(&mut self.control)?.since(&before);
            // One run is the unit of work: the server reports the few transactions of a run up to a second
            // late.
            return Ok(Block { seconds, transactions: 1.0, rollbacks: 0.0, ..block });
        }
        self.sleep(self.order.pace.settle)?;
        let before = self.source.read(&mut self.control)?;
        self.sleep(self.order.pace.block - self.order.pace.settle)?;
        Ok(self.source.read(&mut self.control)?.since(&before))
    }

    fn switch(&mut self, on: bool) -> Result<(), TryError> {
        let mut order: Vec<&Switch> = self.switches.iter().collect();
        if !on {
            order.reverse();
        }
        for switch in order {
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
        let mut attempts = 0;
        loop {
            match restore(&mut self.control, &self.switches) {
                // Dropping an index waits for transactions, and fails after the lock_timeout.
                Err(error) if attempts < 5 && !error.is_passing() => attempts += 1,
                result => return result,
            }
        }
    }
}

/// A build that the caller has cancelled.
fn interrupted(error: TryError) -> TryError {
    match error {
        TryError::Session(SessionError::Interrupted { .. }) => TryError::Interrupted,
        error => error,
    }
}
