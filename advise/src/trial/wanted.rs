//! Converts a finding to wanted changes, or returns why it is not tried.

use super::{IndexWay, TryError, Wanted};
use crate::{ChangeKind, Finding, Scope};

impl Wanted {
    /// The changes to try for a finding. A setting that a remedy sets for a database or a role is switched
    /// for the server, because that reaches running sessions.
    ///
    /// # Errors
    /// [`TryError::NotTried`] if no statement applies the remedy, or a trial could not undo it in seconds.
    pub fn of_finding(finding: &Finding) -> Result<Vec<Wanted>, TryError> {
        let not_tried = |reason: &str| {
            let commands: Vec<&str> = finding.advice.apply.iter().map(String::as_str).collect();
            Err(TryError::NotTried {
                remedy: finding.remedy.to_owned(),
                reason: reason.to_owned(),
                instead: format!("apply it by hand, and look again: {}", commands.join(" ")),
            })
        };
        if finding.advice.changes.is_empty() {
            return not_tried("no statement to the server applies it");
        }
        let mut wanted = Vec::new();
        for change in &finding.advice.changes {
            wanted.push(match &change.kind {
                ChangeKind::Setting { scope: Scope::Role(_) | Scope::RoleInDatabase { .. }, .. } => {
                    return not_tried("it is for one role, and a trial switches the whole server")
                }
                ChangeKind::Setting { name, value, .. } => {
                    Wanted::Setting { name: name.clone(), value: value.clone() }
                }
                ChangeKind::CreateIndex { schema, name, definition } => Wanted::Index {
                    schema: schema.clone(),
                    name: name.clone(),
                    definition: definition.clone(),
                },
                ChangeKind::CreateOnlineIndex { table, index, columns } => Wanted::OnlineIndex {
                    table: table.clone(),
                    index: index.clone(),
                    columns: columns.clone(),
                    way: IndexWay::Create,
                },
                ChangeKind::DropOnlineIndex { table, index, columns } => Wanted::OnlineIndex {
                    table: table.clone(),
                    index: index.clone(),
                    columns: columns.clone(),
                    way: IndexWay::Drop,
                },
                ChangeKind::DropIndex { .. } => {
                    return not_tried("a dropped index must be rebuilt, in each round")
                }
                ChangeKind::TableOption { .. } => {
                    return not_tried(
                        "a table's option works on rows that are written later, not within a trial",
                    )
                }
                ChangeKind::GlobalVariable { name, value, .. }
                | ChangeKind::CommandLine { name, value, .. } => {
                    Wanted::Setting { name: name.clone(), value: value.clone() }
                }
                ChangeKind::Analyze { .. } => {
                    return not_tried("ANALYZE cannot be undone: the statistics before are gone")
                }
            });
        }
        Ok(wanted)
    }

    /// The same, but hides an index instead of dropping it: hiding is undone immediately.
    pub fn hidden(self) -> Wanted {
        match self {
            Wanted::OnlineIndex { table, index, columns, way: IndexWay::Drop } => {
                Wanted::OnlineIndex { table, index, columns, way: IndexWay::Hide }
            }
            other => other,
        }
    }

    /// A setting in the form of the command line: `NAME=VALUE`.
    ///
    /// # Errors
    /// [`TryError::NotSetting`] if the text is not such a pair.
    pub fn of_text(text: &str) -> Result<Wanted, TryError> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => {
                Ok(Wanted::Setting { name: name.trim().into(), value: value.trim().into() })
            }
            _ => Err(TryError::NotSetting { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Measure;
    use super::*;
    use crate::{Advice, Audience, Change, Prediction, Takes};

    fn finding(changes: Vec<Change>) -> Finding {
        let advice = Advice {
            finding: String::new(),
            evidence: Vec::new(),
            prediction: Prediction::unknown("", ""),
            apply: vec!["ANALYZE t;".into()],
            undo: Vec::new(),
            changes,
            risk: String::new(),
        };
        let (title, documentation) = ("", "");
        Finding {
            remedy: "stale-statistics",
            title,
            audience: Audience::Operator,
            documentation,
            measure: Measure::Latency,
            advice,
        }
    }

    #[test]
    fn a_setting_of_the_database_is_switched_for_the_server() {
        let (name, value) = ("jit".to_owned(), "off".to_owned());
        let scope = Scope::Database("shop".into());
        let kind = ChangeKind::Setting { scope, name: name.clone(), value: value.clone(), before: None };
        let wanted = Wanted::of_finding(&finding(vec![Change { kind, takes: Takes::NewSessions }])).unwrap();
        assert_eq!(wanted, [Wanted::Setting { name, value }]);
    }

    #[test]
    fn what_cannot_be_undone_is_not_tried() {
        let kind = ChangeKind::Analyze { schema: "public".into(), table: "t".into() };
        let error = Wanted::of_finding(&finding(vec![Change::at_once(kind)])).unwrap_err();
        assert!(error.to_string().contains("cannot be undone"), "{error}");
        assert_eq!(error.remedy(), "apply it by hand, and look again: ANALYZE t;");
        let error = Wanted::of_finding(&finding(Vec::new())).unwrap_err();
        assert!(error.to_string().contains("no statement to the server"), "{error}");
    }

    #[test]
    fn an_index_to_drop_can_be_hidden_instead() {
        let [table, index, columns] = ["t", "i", "`a`"].map(String::from);
        let kind = ChangeKind::DropOnlineIndex { table, index, columns };
        let wanted = Wanted::of_finding(&finding(vec![Change::at_once(kind)])).unwrap().remove(0);
        assert!(matches!(wanted, Wanted::OnlineIndex { way: IndexWay::Drop, .. }));
        assert!(matches!(wanted.hidden(), Wanted::OnlineIndex { way: IndexWay::Hide, .. }));
    }

    #[test]
    fn settings_are_pairs() {
        let pair = Wanted::Setting { name: "work_mem".into(), value: "64MB".into() };
        assert_eq!(Wanted::of_text("work_mem = 64MB").unwrap(), pair);
        assert!(Wanted::of_text("work_mem").is_err() && Wanted::of_text("=1").is_err());
    }
}
