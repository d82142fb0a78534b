//! The unit of work for which the rates of two sides are compared.

use super::run::CompareRun;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// A transaction of the server.
    Transaction,
    /// A transaction that wrote: captures of older versions record only these.
    WritingTransaction,
    /// A thousand instructions.
    Instruction,
    /// A second of the recording; for simulated captures, of simulated time.
    Second,
    /// A run: valid if both sides did the same work.
    Run,
    /// A thousand events of the same name: then rates are shares, and the total cannot differ.
    Share,
}

/// No unit has this name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("no unit of work is named \"{0}\"; there are: transaction, instruction, second, run, share")]
pub struct UnknownPer(String);

impl Per {
    /// The units in the order in which they are tried if the user chose none.
    const TRIED: [Per; 4] = [Per::Transaction, Per::WritingTransaction, Per::Instruction, Per::Second];

    /// The first unit that all runs record; as the last resort, shares.
    pub fn choose<'r>(runs: impl Iterator<Item = &'r CompareRun> + Clone) -> Per {
        let known = |per: &Per| runs.clone().all(|run| per.known(run));
        Per::TRIED.into_iter().find(known).unwrap_or(Per::Share)
    }

    /// True if a run records how much of this work it did.
    pub fn known(self, run: &CompareRun) -> bool {
        matches!(self, Per::Run | Per::Share) || run.work.get(&self).is_some_and(|work| *work > 0.0)
    }

    /// How much of this work a run did while `event` was counted.
    pub(crate) fn work(self, run: &CompareRun, event: usize) -> f64 {
        match self {
            Per::Run => 1.0,
            Per::Share => run.events[event].sum.events / 1000.0,
            Per::Instruction => run.work.get(&self).copied().unwrap_or(0.0) / 1000.0,
            _ => run.work.get(&self).copied().unwrap_or(0.0),
        }
    }

    /// After a number of events: "a transaction".
    pub fn words(self) -> &'static str {
        match self {
            Per::Transaction => "a transaction",
            Per::WritingTransaction => "a writing transaction",
            Per::Instruction => "per 1,000 instructions",
            Per::Second => "a second",
            Per::Run => "a run",
            Per::Share => "of 1,000",
        }
    }

    /// Several of them: "transactions".
    pub fn plural(self) -> &'static str {
        match self {
            Per::Transaction => "transactions",
            Per::WritingTransaction => "writing transactions",
            Per::Instruction => "instructions",
            Per::Second => "seconds",
            Per::Run => "runs",
            Per::Share => "events",
        }
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

impl FromStr for Per {
    type Err = UnknownPer;

    fn from_str(name: &str) -> Result<Per, UnknownPer> {
        Ok(match name {
            "transaction" => Per::Transaction,
            "writing-transaction" => Per::WritingTransaction,
            "instruction" => Per::Instruction,
            "second" => Per::Second,
            "run" => Per::Run,
            "share" => Per::Share,
            _ => return Err(UnknownPer(name.to_string())),
        })
    }
}
