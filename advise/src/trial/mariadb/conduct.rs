//! A trial on MariaDB from its first block to its last. The invariants are those of the module.
//!
//! A load that is a command is started after each switch and ended with the block: variables of sessions reach it, too.

use super::super::conduct::{Conducted, Order, TryProgress};
use super::super::ending::{end, Changed};
use super::super::ledger::{now, Begin, Ledger};
use super::super::load::{Load, Running};
use super::super::measure::{is_idle, Block, Mix};
use super::super::outcome::Undone;
use super::super::pause::{check, pause};
use super::super::rounds::Rounds;
use super::super::watchdog::Watchdog;
use super::super::{IndexWay, Switch, TrialResult, TryError, Wanted};
use super::control::MariaControl;
use super::global::GlobalSwitch;
use super::index::OnlineIndexSwitch;
use super::measure::{is_own, Source};
use super::undo::{restore, undo_all_of_mariadb};
use crate::mariadb::MariaTarget;
use hardmeter_session::Stop;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// Asks the server for the state of what is to be tried.
///
/// # Errors
/// If a variable may not be tried, has the value already, or would not reach the load.
pub fn plan_on_mariadb(
    target: &MariaTarget,
    wanted: &[Wanted],
    load: &Load,
) -> Result<Vec<Switch>, TryError> {
    planned(&mut MariaControl::open(target)?, wanted, load)
}

fn planned(control: &mut MariaControl, wanted: &[Wanted], load: &Load) -> Result<Vec<Switch>, TryError> {
    let fresh = *load != Load::Traffic;
    let one = |wanted: &Wanted| match wanted {
        Wanted::Setting { name, value } => {
            GlobalSwitch::plan(control, name, value, fresh).map(Switch::Global)
        }
        Wanted::OnlineIndex { table, index, columns, way } => {
            OnlineIndexSwitch::plan(control, (table, index, columns), *way).map(Switch::OnlineIndex)
        }
        Wanted::Index { .. } => Err(TryError::Answer { what: "an index of PostgreSQL".into() }),
    };
    wanted.iter().map(one).collect()
}

/// Conducts a trial. The arguments are as in `conduct`.
///
/// # Errors
/// If it cannot begin, or ended early; then the error says whether the change was undone.
pub fn conduct_on_mariadb(
    order: &Order,
    target: &MariaTarget,
    ledger: &Ledger,
    watchdog: &dyn Fn(&str) -> Command,
    load: &Load,
    stop: &Stop,
    progress: TryProgress,
) -> Result<Conducted, TryError> {
    let undone = undo_all_of_mariadb(target, ledger)?;
    let leftovers = undone.iter().map(|(entry, _)| entry.begin.entry).collect();
    let mut control = MariaControl::locked(target)?;
    let switches = planned(&mut control, &order.wanted, load)?;
    let source = Source::find(&mut control)?;
    let token = format!("{}-{}", std::process::id(), order.seed);
    let watching = Watchdog::start(watchdog(&token))?;
    let entry = ledger.begin(Begin {
        entry: 0,
        token,
        at: now(),
        server: control.server()?,
        target: target.description(),
        database: target.database().to_owned(),
        remedy: order.remedy.clone(),
        finding: order.finding.clone(),
        evidence: order.evidence.clone(),
        predicted: order.predicted,
        switches: switches.clone(),
        backends: control.id().and_then(|id| i32::try_from(id).ok()).into_iter().collect(),
        run: order.run.clone(),
        postmaster: source.process(),
    })?;
    let log = ledger.beside("load.log");
    let begun = Instant::now();
    let mut conductor = Conductor {
        order,
        control,
        source,
        switches,
        load,
        stop,
        progress,
        watching: Some(watching),
        log,
        done: 0,
    };
    let measured =
        conductor.measure().map(|result| TrialResult { seconds: begun.elapsed().as_secs_f64(), ..result });
    let watching = conductor.watching.take();
    let (closed, note, result) = end(&mut conductor, order.keep, (ledger, entry), measured, watching)?;
    Ok(Conducted { entry, result, closed, note, leftovers })
}

struct Conductor<'a> {
    order: &'a Order,
    control: MariaControl,
    source: Source,
    switches: Vec<Switch>,
    load: &'a Load,
    stop: &'a Stop,
    progress: TryProgress<'a>,
    watching: Option<Watchdog>,
    log: PathBuf,
    done: u32,
}

impl Conductor<'_> {
    fn measure(&mut self) -> Result<TrialResult, TryError> {
        let mut first = Vec::new();
        for _ in 0..self.order.pace.first_blocks {
            let (block, failed) = self.block(false, "first part, nothing changed")?;
            if let Some(failure) = failed {
                return Err(failure);
            }
            first.push(block);
        }
        let mut mix = Mix::of(&first);
        let ids: Vec<String> = mix.0.keys().cloned().collect();
        let texts = self.source.texts(&mut self.control, &ids)?;
        mix.0.retain(|id, _| texts.get(id).is_none_or(|text| !is_own(text)));
        if !self.load.is_per_block() && is_idle(&first, &mix) {
            return Err(TryError::NoLoad { seconds: first.iter().map(|block| block.seconds).sum() });
        }
        let mut rounds = Rounds::of(self.order, self.source.measures(), mix, &first)?;
        while let Some(on) = rounds.next() {
            let what = if on { "with the change" } else { "as found" };
            let (block, failed) = self.block(on, what)?;
            rounds.observe(on, block, failed.is_some())?;
            if let (Some(failure), true) = (failed, rounds.failed_as_found()) {
                return Err(failure);
            }
            if rounds.unusable() >= 5 {
                return Err(TryError::NoLoad { seconds: 10.0 * self.order.pace.block });
            }
        }
        let texts = self.source.texts(&mut self.control, &rounds.compared())?;
        let mut result = rounds.result(&texts);
        result.remarks.push(match self.load.is_per_block() {
            true => "one run of the load counts as one transaction".into(),
            false => "a statement of a client counts as one transaction".into(),
        });
        let hidden =
            |switch: &Switch| matches!(switch, Switch::OnlineIndex(index) if index.way == IndexWay::Hide);
        if self.switches.iter().any(hidden) {
            result.remarks.push(
                "a hidden index is still written: this shows if a statement needs it; --ddl, which drops it and builds \
                 it again, shows what writes gain"
                    .into(),
            );
        }
        Ok(result)
    }

    /// Switches, and measures a block. In the first part the switch changes nothing, but is made. A load that fails is
    /// returned beside the block.
    fn block(&mut self, on: bool, what: &str) -> Result<(Block, Option<TryError>), TryError> {
        let most = self.order.pace.first_blocks + 2 * self.order.pace.most_rounds;
        (self.progress)(what, f64::from(self.done) / f64::from(most));
        self.done += 1;
        check(self.stop)?;
        if !self.watching.as_mut().is_some_and(Watchdog::watches) {
            return Err(TryError::Watchdog { reason: "it has ended during the trial".into() });
        }
        self.switch(on)?;
        let running = Running::start(self.load, self.log.clone())?;
        if self.load.is_per_block() {
            let before = self.source.read(&mut self.control)?;
            let begin = Instant::now();
            let succeeded = running.run_block(self.stop)?.ok_or(TryError::Interrupted)?;
            let seconds = begin.elapsed().as_secs_f64();
            let block = self.source.read(&mut self.control)?.since(&before);
            let block = Block { seconds, transactions: 1.0, rollbacks: 0.0, ..block };
            return Ok((block, (!succeeded).then(|| running.failure())));
        }
        self.sleep(self.order.pace.settle)?;
        let before = self.source.read(&mut self.control)?;
        self.sleep(self.order.pace.block - self.order.pace.settle)?;
        let block = self.source.read(&mut self.control)?.since(&before);
        Ok((block, (running.failures() > 0).then(|| running.failure())))
    }

    fn switch(&mut self, on: bool) -> Result<(), TryError> {
        let mut order: Vec<&Switch> = self.switches.iter().collect();
        if !on {
            order.reverse();
        }
        for switch in order {
            match switch {
                Switch::Global(global) => global.to(on, &mut self.control)?,
                Switch::OnlineIndex(index) => {
                    let longest = self.order.pace.longest_build;
                    index.to(on, &mut self.control, longest, self.stop)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sleep(&self, seconds: f64) -> Result<(), TryError> {
        pause(seconds, self.stop, self.source.process().is_some().then_some(&self.order.guards))
    }
}

impl Changed for Conductor<'_> {
    fn keep(&mut self) -> Option<String> {
        self.switch(true).ok()?;
        let lasts = self.switches.iter().all(|switch| matches!(switch, Switch::OnlineIndex(_)));
        Some(if lasts { "it gained" } else { "it gained; a restart of the server ends it" }.to_owned())
    }

    fn undo(&mut self) -> Result<Undone, TryError> {
        let mut attempts = 0;
        loop {
            match restore(&mut self.control, &self.switches) {
                // DDL waits for transactions that use the table, and fails after the lock_wait_timeout.
                Err(error) if attempts < 5 && !error.is_passing() => attempts += 1,
                result => return result,
            }
        }
    }
}
