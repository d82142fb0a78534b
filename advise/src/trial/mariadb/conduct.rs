//! A trial on MariaDB from its first block to its last. The invariants are those of the module.
//!
//! A load that is a command is started after each switch and ended with the block: variables of sessions reach it, too.

use super::super::conduct::{Conducted, Order, TryProgress};
use super::super::course::{Course, Server};
use super::super::ending::{patiently, Changed};
use super::super::ledger::{Begin, Ledger};
use super::super::load::{Load, Running};
use super::super::measure::{Measure, Ran};
use super::super::outcome::Undone;
use super::super::pause::pause;
use super::super::switch::in_turn;
use super::super::watchdog::Watchdog;
use super::super::{IndexWay, Switch, TryError, Wanted};
use super::control::MariaControl;
use super::global::GlobalSwitch;
use super::index::OnlineIndexSwitch;
use super::measure::{is_own, Source};
use super::undo::{restore, undo_all_of_mariadb};
use crate::mariadb::MariaTarget;
use hardmeter_session::Stop;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Reads the server's state of the variables and indexes to be tried.
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
    let token = order.token();
    let watching = Watchdog::start(watchdog(&token))?;
    let entry = ledger.begin(Begin {
        server: control.server()?,
        target: target.description(),
        database: target.database().to_owned(),
        switches: switches.clone(),
        backends: control.id().and_then(|id| i32::try_from(id).ok()).into_iter().collect(),
        postmaster: source.process(),
        ..order.begin(token)
    })?;
    let (is_per_block, log) = (load.is_per_block(), ledger.beside("load.log"));
    let course = Course { order, ledger, entry, is_per_block, is_own, stop, progress, watching, leftovers };
    course.run(&mut Conductor { order, control, source, switches, load, stop, log })
}

struct Conductor<'a> {
    order: &'a Order,
    control: MariaControl,
    source: Source,
    switches: Vec<Switch>,
    load: &'a Load,
    stop: &'a Stop,
    log: PathBuf,
}

impl Server for Conductor<'_> {
    fn block(&mut self, on: bool) -> Result<Ran, TryError> {
        self.switch(on)?;
        let running = Running::start(self.load, self.log.clone())?;
        if self.load.is_per_block() {
            let before = self.source.read(&mut self.control)?;
            let (seconds, failure) = running.run_block(self.stop)?;
            return Ok((self.source.read(&mut self.control)?.since(&before).of_run(seconds), failure));
        }
        self.sleep(self.order.pace.settle)?;
        let before = self.source.read(&mut self.control)?;
        self.sleep(self.order.pace.block - self.order.pace.settle)?;
        let block = self.source.read(&mut self.control)?.since(&before);
        Ok((block, running.still_works().err()))
    }

    fn measures(&self) -> Vec<Measure> {
        self.source.measures()
    }

    fn texts(&mut self, ids: &[String]) -> Result<BTreeMap<String, String>, TryError> {
        self.source.texts(&mut self.control, ids)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.load.is_per_block() {
            remarks.push("a statement of a client counts as one transaction".into());
        }
        let hidden =
            |switch: &Switch| matches!(switch, Switch::OnlineIndex(index) if index.way == IndexWay::Hide);
        if self.switches.iter().any(hidden) {
            remarks.push(
                "a hidden index is still written: this shows if a statement needs it; --ddl, which drops it and builds \
                 it again, shows what writes gain"
                    .into(),
            );
        }
        remarks
    }
}

impl Conductor<'_> {
    fn switch(&mut self, on: bool) -> Result<(), TryError> {
        for switch in in_turn(&self.switches, on) {
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
        patiently(|| restore(&mut self.control, &self.switches))
    }
}
