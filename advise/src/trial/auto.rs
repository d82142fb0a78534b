//! Repeats trials until no remedy is left that may gain.
//!
//! ```text
//!   survey() ── look, rules, sift ──> nothing that may be tried ──────────────> the end: nothing to gain
//!      ^                    │
//!      │                    v the first that may be tried
//!      └── Step <── conduct(): kept if it is proven to gain, else undone ──> interrupted, failed, too many ──> the end
//! ```
//!
//! Invariants:
//! 1. Each step is a trial with its own entry in the ledger and its own watchdog. Between two steps no entry
//!    is open: when a run ends, for any reason, only proven changes remain.
//! 2. A change that was undone, or whose trial ended early, is not tried again in this run.
//! 3. A run has at most `most_steps` steps.

use super::auto_report::{plan_text, AutoReport, End, Seen, Step};
use super::conduct::{Conducted, Order, Pace, TryProgress};
use super::copy::{conduct_on_copy, CopyPlan, ReplayPlan};
use super::guard::Guards;
use super::ledger::Ledger;
use super::load::{Load, Running};
use super::outcome::Closing;
use super::sift::{sift, Candidate, Left, Limits};
use super::tuned::Tuned;
use super::{Switch, TryError, Wanted};
use crate::{advise, AdviseError};
use hardmeter_evidence::table::Style;
use hardmeter_evidence::Verdict;
use hardmeter_session::{SessionError, Stop, Target};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct AutoOrder {
    /// The server.
    pub server: Tuned,
    /// The load of the trials.
    pub load: Load,
    /// The duration of each look.
    pub look: Duration,
    /// The length of blocks, and their largest number.
    pub pace: Pace,
    /// Conditions that end a trial even if it gains.
    pub guards: Guards,
    /// True if indexes may be created.
    pub ddl: bool,
    /// The folder for copies of the server, on which settings that need a restart are tried; `None`: these
    /// settings are skipped. Only PostgreSQL is copied.
    pub copy: Option<PathBuf>,
    /// Seconds at the begin of a block on a copy that are left out.
    pub warm_up: f64,
    /// Maximum number of trials.
    pub most_steps: u32,
    /// The name of the run in the ledger.
    pub run: String,
    /// The seed of the order of blocks.
    pub seed: u64,
}

/// Objects and functions that the caller provides for a run.
pub struct Hands<'a> {
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Creates the command of a trial's watchdog: see [`conduct`].
    pub watchdog: &'a dyn Fn(&str) -> Command,
    /// Set when the run must end.
    pub stop: &'a Stop,
    /// Called at each sample and each block.
    pub progress: TryProgress<'a>,
    /// Called at the end of each step.
    pub ended: &'a dyn Fn(&Step),
}

/// The findings of a look, divided into those to try and those left.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The server's activity.
    pub seen: Seen,
    /// The remedies that may be tried, the largest predicted gain first.
    pub candidates: Vec<Candidate>,
    /// The findings that are left to a person.
    pub left: Vec<Left>,
}

impl Survey {
    /// The remedies that would be tried, as text: before anything is changed.
    pub fn text(&self, style: Style) -> String {
        plan_text(&self.seen, &self.candidates, &self.left, style)
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let candidates = self.candidates.iter().map(|one| {
            let apply: Vec<String> = one.switches.iter().flat_map(Switch::apply).collect();
            let undo: Vec<String> = one.switches.iter().rev().flat_map(Switch::undo).collect();
            json!({ "finding": one.finding, "apply": apply, "undo": undo })
        });
        json!({
            "format": "hardmeter-tune-auto",
            "version": 1,
            "tried": false,
            "before": self.seen,
            "plan": candidates.collect::<Vec<_>>(),
            "left": self.left,
        })
    }
}

/// The time that a load runs before the look begins.
const WARM: Duration = Duration::from_secs(1);

/// Examines the server under its load, and returns the remedies that may be tried.
///
/// # Errors
/// If the load cannot be started or fails, or the server cannot be examined.
pub fn survey(order: &AutoOrder, hands: &Hands) -> Result<Survey, TryError> {
    survey_without(order, hands, &BTreeSet::new(), 1)
}

/// The same findings without the settled ones, before the step with this number.
fn survey_without(
    order: &AutoOrder,
    hands: &Hands,
    settled: &BTreeSet<String>,
    number: usize,
) -> Result<Survey, TryError> {
    // A command of blocks is repeated during the look.
    let load = match &order.load {
        Load::PerBlock(command) => Load::Throughout(command.clone()),
        other => other.clone(),
    };
    let running = Running::start(&load, hands.ledger.beside("load.log"))?;
    if load != Load::Traffic {
        std::thread::sleep(WARM);
    }
    let progress = |share: f64| (hands.progress)("observing the server", share);
    let look = order.server.look(order.look, hands.stop, &progress).map_err(|error| match error {
        AdviseError::Session(SessionError::Interrupted { .. }) => TryError::Interrupted,
        error => error.into(),
    })?;
    running.still_works()?;
    drop(running);
    let findings = advise(&look, order.server.remedies());
    let limits = Limits { ddl: order.ddl, minimum: order.pace.minimum };
    let mut check = |wanted: &[Wanted]| {
        let planned = order.server.plan(wanted, &order.load);
        match (planned, &order.server, &order.copy) {
            (Err(error), Tuned::Postgres(target), Some(folder)) if error.needs_copy() => {
                let plan = CopyPlan::new(target, wanted, folder, order.warm_up, seed_of(order, number))?;
                Ok(vec![Switch::Copy(plan.switch)])
            }
            (planned, ..) => planned,
        }
    };
    let (candidates, left) = sift(&findings, settled, limits, &mut check)?;
    Ok(Survey { seen: Seen::of(&look), candidates, left })
}

/// The seed of a step, which is also in the name of the step's copy.
fn seed_of(order: &AutoOrder, number: usize) -> u64 {
    order.seed.wrapping_add(number as u64)
}

/// Tries one remedy after the other, from the findings of a first look, until no allowed remedy is left.
pub fn auto(order: &AutoOrder, hands: &Hands, first: Survey) -> AutoReport {
    let begun = Instant::now();
    let mut settled = BTreeSet::new();
    let mut report = AutoReport::new(&order.server.description(), &order.run, first.seen);
    let mut survey = first;
    report.end = loop {
        report.left.clone_from(&survey.left);
        report.after = survey.seen;
        if survey.seen.is_idle() {
            break End::NoLoad;
        }
        let Some(candidate) = survey.candidates.first() else { break End::NothingToGain };
        if report.steps.len() as u32 >= order.most_steps {
            break End::MostSteps;
        }
        let number = report.steps.len() + 1;
        (hands.progress)(&format!("step {number}: {}", candidate.finding.remedy), 0.0);
        let (step, end) = conduct_step(order, hands, candidate, number);
        if step.closed != Some(Closing::Kept) {
            settled.insert(candidate.key());
        }
        (hands.ended)(&step);
        report.steps.push(step);
        if let Some(end) = end {
            break end;
        }
        survey = match survey_without(order, hands, &settled, report.steps.len() + 1) {
            Ok(next) => next,
            Err(TryError::Interrupted) => break End::Interrupted,
            Err(error) => break End::failed(&error),
        };
    };
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

/// Runs one trial; also returns the end of the run, if the trial ended it.
fn conduct_step(
    order: &AutoOrder,
    hands: &Hands,
    candidate: &Candidate,
    number: usize,
) -> (Step, Option<End>) {
    let finding = &candidate.finding;
    let measure = order.server.measure(finding.remedy, &order.load);
    let predicted = finding.advice.prediction.by(measure);
    let trial = Order {
        wanted: candidate.wanted.clone(),
        remedy: finding.remedy.to_owned(),
        finding: Some(finding.advice.finding.clone()),
        evidence: json!(finding.advice.evidence),
        predicted,
        measure,
        pace: order.pace,
        keep: true,
        guards: order.guards,
        run: Some(order.run.clone()),
        seed: seed_of(order, number),
    };
    let progress = |what: &str, share: f64| {
        (hands.progress)(&format!("step {number}: {}, {what}", finding.remedy), share);
    };
    let on_copy = candidate.switches.iter().any(|switch| matches!(switch, Switch::Copy(_)));
    let conducted = match (&order.server, &order.copy) {
        (Tuned::Postgres(target), Some(folder)) if on_copy => {
            try_on_copy((order, target, folder), &trial, hands, &progress)
        }
        (server, _) => {
            let recorded = (hands.ledger, hands.watchdog);
            server.conduct(&trial, recorded, &order.load, hands.stop, &progress)
        }
    };
    let mut step = Step {
        number,
        remedy: finding.remedy.to_owned(),
        title: finding.title.to_owned(),
        finding: finding.advice.finding.clone(),
        predicted,
        apply: candidate.switches.iter().flat_map(Switch::apply).collect(),
        undo: candidate.switches.iter().rev().flat_map(Switch::undo).collect(),
        entry: None,
        result: None,
        closed: None,
        note: String::new(),
        on_copy,
        by_hand: Vec::new(),
    };
    match conducted {
        Ok(Conducted { entry, result, closed, note, .. }) => {
            if on_copy && result.verdict == Verdict::Better {
                step.by_hand.clone_from(&finding.advice.apply);
            }
            step = Step { entry: Some(entry), result: Some(result), closed: Some(closed), note, ..step };
            (step, None)
        }
        Err(error) => {
            let entries = hands.ledger.entries().unwrap_or_default();
            let own = entries.iter().rev().find(|entry| {
                entry.begin.run.as_deref() == Some(&order.run) && entry.begin.remedy == finding.remedy
            });
            step.entry = own.map(|entry| entry.begin.entry);
            if let TryError::EndedEarly { how, .. } = &error {
                step.closed = Some(*how);
            }
            step.note = error.to_string();
            let end = ending(&error);
            (step, end)
        }
    }
}

/// A trial of a change that needs a restart: only an administrator restarts the server itself.
fn try_on_copy(
    (order, target, folder): (&AutoOrder, &Target, &Path),
    trial: &Order,
    hands: &Hands,
    progress: TryProgress,
) -> Result<Conducted, TryError> {
    let plan = CopyPlan::new(target, &trial.wanted, folder, order.warm_up, trial.seed)?;
    let replay = match order.load {
        Load::Traffic => {
            let looking = |share: f64| progress("looking at the traffic to replay", share);
            let seen = order.server.look(order.look, hands.stop, &looking)?;
            Some(ReplayPlan::of(&seen, target)?)
        }
        _ => None,
    };
    let load = (&order.load, replay.as_ref());
    let conducted = conduct_on_copy(trial, &plan, hands.ledger, hands.watchdog, load, hands.stop, progress)?;
    let note = match conducted.result.verdict {
        Verdict::Better => "proven on a copy: set it, and restart the server in a quiet hour".to_owned(),
        _ => conducted.note,
    };
    Ok(Conducted { note, ..conducted })
}

/// The reason why a failed trial ends the run; `None`: the run skips only this remedy.
fn ending(error: &TryError) -> Option<End> {
    let cause = match error {
        TryError::EndedEarly { cause, .. } => cause,
        error => error,
    };
    match cause {
        TryError::Interrupted => Some(End::Interrupted),
        TryError::SlowBuild { .. }
        | TryError::NoEffect { .. }
        | TryError::ChangedByOthers { .. }
        | TryError::Guard { .. }
        | TryError::Copy { .. }
        | TryError::Already { .. } => None,
        // For example, a lock that is not granted in time.
        TryError::Session(error @ SessionError::Statement { .. }) if !error.ends_session() => None,
        TryError::Advise(AdviseError::Maria { .. }) if matches!(error, TryError::EndedEarly { .. }) => None,
        _ => Some(End::failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn early(cause: TryError) -> TryError {
        TryError::EndedEarly { cause: Box::new(cause), how: Closing::Undone }
    }

    #[test]
    fn what_concerns_one_remedy_does_not_end_the_run() {
        assert_eq!(ending(&early(TryError::SlowBuild { seconds: 50.0, limit: 30.0 })), None);
        assert_eq!(ending(&early(TryError::Guard { what: "no memory".into() })), None);
        assert_eq!(ending(&early(TryError::Interrupted)), Some(End::Interrupted));
        let failed = ending(&early(TryError::NoLoad { seconds: 5.0 }));
        assert!(
            matches!(&failed, Some(End::Failed { reason }) if reason.contains("no statement")),
            "{failed:?}"
        );
        assert!(matches!(ending(&TryError::NotUndone { reason: "gone".into() }), Some(End::Failed { .. })));
    }
}
