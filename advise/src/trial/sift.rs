//! Decides which findings a run of `--auto` may try, and which it leaves to a person, with the reason.

use super::{Switch, TryError, Wanted};
use crate::Finding;
use serde::Serialize;
use std::collections::BTreeSet;

/// A finding that may be tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The finding.
    pub finding: Finding,
    /// The wanted changes.
    pub wanted: Vec<Wanted>,
    /// The same with the present state.
    pub switches: Vec<Switch>,
}

impl Candidate {
    /// The changes without values: a remedy that was undone is not tried again with another value.
    pub(super) fn key(&self) -> String {
        key(self.finding.remedy, &self.wanted)
    }
}

/// A finding that is left to a person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Left {
    /// The remedy's name.
    pub remedy: String,
    /// Its effect.
    pub title: String,
    /// Who can apply it.
    pub audience: &'static str,
    /// The share that is predicted to be saved of what a trial would measure.
    pub predicted: Option<f64>,
    /// The reason why it is not tried.
    pub reason: String,
    /// Commands or actions for that person.
    pub apply: Vec<String>,
}

/// The limits of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// True if it may create indexes.
    pub(super) ddl: bool,
    /// The smallest gain that matters.
    pub(super) minimum: f64,
}

/// Asks the server whether a change is possible.
type Check<'a> = &'a mut dyn FnMut(&[Wanted]) -> Result<Vec<Switch>, TryError>;

/// Divides findings, in their order, into those that may be tried and those that are left. `settled` are the
/// keys of changes that were undone already: they are in neither.
///
/// # Errors
/// The error of `check` if the server itself is the reason: it is gone, or another trial runs.
pub(super) fn sift(
    findings: &[Finding],
    settled: &BTreeSet<String>,
    limits: Limits,
    check: Check,
) -> Result<(Vec<Candidate>, Vec<Left>), TryError> {
    let (mut candidates, mut left) = (Vec::new(), Vec::new());
    for finding in findings {
        let prediction = &finding.advice.prediction;
        // A harm that grows is worth a trial, however small it is today.
        if !prediction.grows && prediction.by(finding.measure).is_some_and(|gain| gain < limits.minimum) {
            continue;
        }
        let wanted = match Wanted::of_finding(finding) {
            Ok(wanted) => wanted,
            Err(TryError::NotTried { reason, .. }) => {
                left.push(leave(finding, reason));
                continue;
            }
            Err(error) => return Err(error),
        };
        if settled.contains(&key(finding.remedy, &wanted)) {
            continue;
        }
        let is_ddl = |one: &Wanted| matches!(one, Wanted::Index { .. } | Wanted::OnlineIndex { .. });
        if !limits.ddl && wanted.iter().any(is_ddl) {
            left.push(leave(finding, "an index changes the schema: allow that with --ddl".into()));
            continue;
        }
        match check(&wanted) {
            Ok(switches) => candidates.push(Candidate { finding: finding.clone(), wanted, switches }),
            Err(error) if is_of_the_remedy(&error) => {
                let remedy = error.remedy();
                let advice = if remedy.is_empty() { String::new() } else { format!(" ({remedy})") };
                left.push(leave(finding, format!("{error}{advice}")));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((candidates, left))
}

/// The remedy cannot be tried here, but others may.
fn is_of_the_remedy(error: &TryError) -> bool {
    matches!(
        error,
        TryError::NotAllowed { .. }
            | TryError::NoRights { .. }
            | TryError::Overridden { .. }
            | TryError::Already { .. }
            | TryError::BadValue { .. }
            | TryError::Copy { .. }
    )
}

fn leave(finding: &Finding, reason: String) -> Left {
    Left {
        remedy: finding.remedy.to_owned(),
        title: finding.title.to_owned(),
        audience: finding.audience.name(),
        predicted: finding.advice.prediction.by(finding.measure),
        reason,
        apply: finding.advice.apply.clone(),
    }
}

fn key(remedy: &str, wanted: &[Wanted]) -> String {
    let names = wanted.iter().map(|one| match one {
        Wanted::Setting { name, .. } => name.clone(),
        Wanted::Index { schema, name, .. } => format!("{schema}.{name}"),
        Wanted::OnlineIndex { table, index, .. } => format!("{table}.{index}"),
    });
    format!("{remedy}: {}", names.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Measure;
    use super::*;
    use crate::{Advice, Audience, Change, ChangeKind, Prediction, Scope, Takes};

    pub(in crate::trial) fn finding(
        remedy: &'static str,
        gain: Option<f64>,
        changes: Vec<Change>,
    ) -> Finding {
        let prediction = match gain {
            Some(gain) => Prediction::gain(gain, "", ""),
            None => Prediction::unknown("", ""),
        };
        let advice = Advice {
            finding: format!("{remedy} was found"),
            evidence: Vec::new(),
            prediction,
            apply: vec!["-- by hand".into()],
            undo: Vec::new(),
            changes,
            risk: String::new(),
        };
        Finding {
            remedy,
            title: "a title",
            audience: Audience::Operator,
            documentation: "",
            measure: Measure::Latency,
            advice,
        }
    }

    fn setting(name: &str, value: &str) -> Vec<Change> {
        let (name, value) = (name.to_owned(), value.to_owned());
        let kind = ChangeKind::Setting { scope: Scope::System, name, value, before: None };
        vec![Change { kind, takes: Takes::Reload }]
    }

    fn index() -> Vec<Change> {
        let (schema, name, definition) =
            ("s".to_owned(), "i".to_owned(), "CREATE INDEX i ON t (a)".to_owned());
        vec![Change::at_once(ChangeKind::CreateIndex { schema, name, definition })]
    }

    #[test]
    fn what_may_be_tried_is_tried_and_the_rest_is_left_with_its_reason() {
        let findings = [
            finding("connections", Some(0.9), Vec::new()),
            finding("missing-index", Some(0.8), index()),
            finding("jit", Some(0.5), setting("jit", "off")),
            finding("spill", Some(0.3), setting("work_mem", "9MB")),
            finding("slow-sync", Some(0.2), setting("fsync", "off")),
            finding("checkpoints", None, setting("max_wal_size", "9GB")),
            finding("random-page-cost", Some(0.03), setting("random_page_cost", "1.1")),
        ];
        let settled: BTreeSet<String> = ["spill: work_mem".to_owned()].into();
        let mut check = |wanted: &[Wanted]| match &wanted[0] {
            Wanted::Setting { name, .. } if name == "fsync" => {
                Err(TryError::NotAllowed { name: name.clone(), reason: "it is dangerous" })
            }
            _ => Ok(Vec::new()),
        };
        let limits = Limits { ddl: false, minimum: 0.05 };
        let (tried, left) = sift(&findings, &settled, limits, &mut check).unwrap();
        let names = |found: &[Candidate]| -> Vec<&'static str> {
            found.iter().map(|one| one.finding.remedy).collect()
        };
        // Remedies that were undone before, or gain too little, are in neither.
        assert_eq!(names(&tried), ["jit", "checkpoints"]);
        assert_eq!(tried[0].key(), "jit: jit");
        let left: Vec<(&str, &str)> = left.iter().map(|one| (&*one.remedy, &*one.reason)).collect();
        assert_eq!(left[0], ("connections", "no statement to the server applies it"));
        assert!(left[1].0 == "missing-index" && left[1].1.contains("--ddl"), "{left:?}");
        assert!(left[2].0 == "slow-sync" && left[2].1.contains("it is dangerous"), "{left:?}");
        assert_eq!(left.len(), 3);

        let ddl = Limits { ddl: true, ..limits };
        let (tried, _) = sift(&findings, &settled, ddl, &mut check).unwrap();
        assert_eq!(names(&tried), ["missing-index", "jit", "checkpoints"]);
        assert_eq!(tried[0].key(), "missing-index: s.i");
    }

    #[test]
    fn a_server_that_is_gone_ends_the_run() {
        let findings = [finding("jit", Some(0.5), setting("jit", "off"))];
        let mut check = |_: &[Wanted]| Err(TryError::TrialRuns { pid: "7".into() });
        let limits = Limits { ddl: true, minimum: 0.02 };
        assert!(sift(&findings, &BTreeSet::new(), limits, &mut check).is_err());
    }
}
