//! A block on a server that was just started: its load begins with the block, and what fills its caches (the
//! warm-up) is left out.

use super::conduct::Order;
use super::control::Control;
use super::copy::{Replay, ReplayPlan};
use super::load::{Load, Running};
use super::measure::{Block, Ran, Source};
use super::pause::pause;
use super::TryError;
use hardmeter_session::{Stop, Target};
use std::path::PathBuf;

/// The load of such blocks.
pub(super) struct FreshLoad<'a> {
    pub(super) order: &'a Order,
    pub(super) load: &'a Load,
    /// Statements to run, where the load is the traffic of another server.
    pub(super) replay: Option<&'a ReplayPlan>,
    /// Seconds at the begin of a block that are left out.
    pub(super) warm_up: f64,
    pub(super) stop: &'a Stop,
    pub(super) log: PathBuf,
}

/// A load that works.
enum Working {
    Command(Running),
    Replay(#[allow(dead_code)] Replay), // it works until it is dropped
}

impl Working {
    fn failure(&self) -> Option<TryError> {
        match self {
            Working::Command(running) => running.still_works().err(),
            Working::Replay(_) => None,
        }
    }
}

impl FreshLoad<'_> {
    /// Gives the server at `target` its load, and measures behind the warm-up.
    ///
    /// # Errors
    /// If the load cannot be started, the server does not answer, or a guard ends the trial.
    pub(super) fn block(
        &self,
        target: &Target,
        source: &Source,
        control: &mut Control,
    ) -> Result<Ran, TryError> {
        if self.load.is_per_block() {
            return self.run(target, source, control);
        }
        let working = match self.replay {
            Some(plan) => Working::Replay(Replay::start(plan, target)?),
            None => Working::Command(self.running(target)?),
        };
        self.sleep(self.warm_up)?;
        let before = source.read(control)?;
        self.sleep(self.order.pace.block)?;
        let block = source.read(control)?.since(&before);
        Ok((block, working.failure()))
    }

    /// One run warms up, the next is measured.
    fn run(&self, target: &Target, source: &Source, control: &mut Control) -> Result<Ran, TryError> {
        let running = self.running(target)?;
        match running.run_block(self.stop)? {
            (_, None) => source.run(control, &running, self.stop),
            (_, failure) => Ok((Block::default(), failure)),
        }
    }

    fn running(&self, target: &Target) -> Result<Running, TryError> {
        Running::start(&self.load.at(target), self.log.clone())
    }

    fn sleep(&self, seconds: f64) -> Result<(), TryError> {
        pause(seconds, self.stop, Some(&self.order.guards))
    }
}
