//! Shared by the rules of several MariaDB remedies.

use crate::look::shares::ratio;
use crate::{Advice, Change, ChangeKind, Evidence, Kind, Look, Prediction, Takes};

/// Seconds of CPU to maintain one more index for a written row; assumed.
const COST_OF_ENTRY: f64 = 4e-6;
/// Rows written a second below which indexes cost little.
const LEAST_ROWS: f64 = 10.0;

/// The texts of a finding about unneeded indexes.
pub(super) struct Needless<'a> {
    /// The finding's sentence.
    pub finding: String,
    /// The description of the indexes in the evidence.
    pub what: &'a str,
    /// "up to" if a written row may have no entry in some of the indexes.
    pub at_most: &'a str,
    /// The risk.
    pub risk: &'a str,
}

/// Drops indexes (table, name, columns) that each write maintains; `None` where hardly a row is written.
pub(super) fn without_indexes(
    look: &Look,
    indexes: &[(&str, &str, &str)],
    words: Needless,
) -> Option<Advice> {
    let maria = look.mariadb.as_ref()?;
    let writes: f64 =
        ["handler_write", "handler_update", "handler_delete"].iter().map(|name| maria.count(name)).sum();
    // An update of an indexed column marks one entry and writes another.
    let entries = writes + maria.count("handler_update");
    let rate = ratio(writes, look.seconds);
    if rate < LEAST_ROWS || indexes.is_empty() {
        return None;
    }
    let number = indexes.len();
    let change = |(table, index, columns): &(&str, &str, &str)| {
        let [table, index, columns] = [table, index, columns].map(|text| (*text).to_owned());
        Change::at_once(ChangeKind::DropOnlineIndex { table, index, columns })
    };
    let advice = Advice {
        finding: words.finding,
        evidence: vec![
            Evidence::new(words.what, number as f64, "", number as u64),
            Evidence::new("rows written a second", rate, "1/s", writes as u64),
        ],
        prediction: Prediction::gain(
            look.time.with_cpu_seconds(entries * COST_OF_ENTRY * number as f64).min(0.9),
            format!("{}{number} entries fewer for each written row", words.at_most),
            "4 us of CPU an entry (assumed), for rows of all tables, with the run queue in proportion",
        ),
        apply: Vec::new(),
        undo: Vec::new(),
        changes: Vec::new(),
        risk: words.risk.into(),
    };
    Some(advice.with_changes(indexes.iter().map(change).collect()))
}

/// A change of a variable by SET GLOBAL; `takes` states whether it reaches running sessions.
pub(super) fn set_global(look: &Look, name: &str, value: &str, takes: Takes) -> Change {
    let before = look.mariadb.as_ref().map(|maria| maria.variable(name).to_owned());
    let kind = ChangeKind::GlobalVariable {
        name: name.into(),
        value: value.into(),
        before: before.unwrap_or_default(),
    };
    Change { kind, takes }
}

/// The part of the active time that backends were on a CPU or waited for one.
pub(super) fn on_cpu(look: &Look) -> f64 {
    look.time.of_active(&[Kind::RunningUser, Kind::RunningKernel, Kind::Running, Kind::RunQueue])
}
