//! The course of a trial, the same on every server: first part, rounds, end.
//!
//! Invariants:
//! 1. No block begins without a running watchdog, or after `stop` was requested.
//! 2. Whatever happens in [`Server::prepare`] or in a block, the trial reaches [`end`].

use super::conduct::{Conducted, Order, TryProgress};
use super::ending::{end, Changed};
use super::ledger::Ledger;
use super::measure::{is_idle, Block, Measure, Mix, Ran};
use super::pause::check;
use super::rounds::Rounds;
use super::watchdog::Watchdog;
use super::{TrialResult, TryError};
use hardmeter_session::Stop;
use std::collections::BTreeMap;
use std::time::Instant;

/// A server with a change that can be switched on and off.
pub(super) trait Server: Changed {
    /// Called once, before the first block.
    ///
    /// # Errors
    /// If the trial cannot begin.
    fn prepare(&mut self, _progress: TryProgress) -> Result<(), TryError> {
        Ok(())
    }

    /// Switches, and measures a block. The first part also makes the switch, without a change.
    ///
    /// # Errors
    /// If the trial cannot continue. A load that failed is returned beside its block.
    fn block(&mut self, on: bool) -> Result<Ran, TryError>;

    /// The metrics that are available here.
    fn measures(&self) -> Vec<Measure>;

    /// The texts of statements, by their identifiers.
    ///
    /// # Errors
    /// If the server does not answer.
    fn texts(&mut self, ids: &[String]) -> Result<BTreeMap<String, String>, TryError>;

    /// How this server was measured: lines for the result.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A trial whose entry is in the ledger.
pub(super) struct Course<'a> {
    pub(super) order: &'a Order,
    pub(super) ledger: &'a Ledger,
    pub(super) entry: u64,
    /// True if a run of the load is a block.
    pub(super) is_per_block: bool,
    /// True for a statement that the trial sent, or may have sent.
    pub(super) is_own: fn(&str) -> bool,
    pub(super) stop: &'a Stop,
    pub(super) progress: TryProgress<'a>,
    pub(super) watching: Watchdog,
    /// Entries of earlier trials that were undone before it began.
    pub(super) leftovers: Vec<u64>,
}

impl Course<'_> {
    /// Measures all blocks, then keeps or undoes the change.
    ///
    /// # Errors
    /// As of [`end`].
    pub(super) fn run(mut self, server: &mut dyn Server) -> Result<Conducted, TryError> {
        let begun = Instant::now();
        let measured = self
            .measure(server)
            .map(|result| TrialResult { seconds: begun.elapsed().as_secs_f64(), ..result });
        let Course { order, ledger, entry, watching, leftovers, .. } = self;
        let (closed, note, result) = end(server, order.keep, (ledger, entry), measured, Some(watching))?;
        Ok(Conducted { entry, result, closed, note, leftovers })
    }

    fn measure(&mut self, server: &mut dyn Server) -> Result<TrialResult, TryError> {
        let pace = &self.order.pace;
        server.prepare(self.progress)?;
        let mut first = Vec::new();
        for _ in 0..pace.first_blocks {
            let (block, failed) = self.block(server, first.len(), false, "first part, nothing changed")?;
            if let Some(failure) = failed {
                return Err(failure);
            }
            first.push(block);
        }
        let mix = self.mix(server, &first)?;
        let mut rounds = Rounds::new(self.order, server.measures(), mix, &first)?;
        let mut done = first.len();
        while let Some(on) = rounds.next() {
            let what = if on { "with the change" } else { "as found" };
            let (block, failed) = self.block(server, done, on, what)?;
            done += 1;
            rounds.observe(on, block, failed.is_some())?;
            if let (Some(failure), true) = (failed, rounds.failed_as_found()) {
                return Err(failure);
            }
            if rounds.unusable() >= 5 {
                return Err(TryError::NoLoad { seconds: 10.0 * pace.block });
            }
        }
        let texts = server.texts(&rounds.compared())?;
        let mut result = rounds.result(&texts);
        result.remarks.extend(server.remarks());
        if self.is_per_block {
            result.remarks.push("one run of the load counts as one transaction".into());
        }
        Ok(result)
    }

    /// The statements of the first part, without the trial's own.
    fn mix(&self, server: &mut dyn Server, first: &[Block]) -> Result<Mix, TryError> {
        let mix = Mix::of(first);
        let texts = server.texts(&mix.0.keys().cloned().collect::<Vec<_>>())?;
        let mix = mix.without_own(&texts, self.is_own);
        if !self.is_per_block && is_idle(first, &mix) {
            return Err(TryError::NoLoad { seconds: first.iter().map(|block| block.seconds).sum() });
        }
        Ok(mix)
    }

    /// The next block, after `done` others.
    fn block(&mut self, server: &mut dyn Server, done: usize, on: bool, what: &str) -> Result<Ran, TryError> {
        let most = self.order.pace.first_blocks + 2 * self.order.pace.most_rounds;
        (self.progress)(what, done as f64 / f64::from(most));
        check(self.stop)?;
        if !self.watching.watches() {
            return Err(TryError::Watchdog { reason: "it has ended during the trial".into() });
        }
        match server.block(on) {
            // A load that does not start has no block.
            Err(failure @ TryError::LoadFailed { .. }) => Ok((Block::default(), Some(failure))),
            ran => ran,
        }
    }
}
